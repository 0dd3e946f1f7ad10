"""Check the write-ahead log that a crash left, before SQLite opens the file.

SQLite ignores a damaged frame of the log and all that follow, and reports nothing: the transactions
in them are lost. This finds commits behind a damaged frame while the log still has them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO

HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24
MAGIC_NUMBERS = {0x377F0682: "<", 0x377F0683: ">"}
"""By the first number of a log: the byte order of the words that its checksums add up."""
Sums = tuple[int, int]


def lost_commits(log: Path) -> int:
    """Return the number of commits behind the first damaged frame of a log; 0 without a log."""
    try:
        with log.open("rb") as file:
            header = file.read(HEADER_BYTES)
            if len(header) < HEADER_BYTES:
                return 0
            return _count_lost(file, header)
    except FileNotFoundError:
        return 0


def _count_lost(file: IO[bytes], header: bytes) -> int:
    magic, _, page_bytes, _, salt_1, salt_2, *stored = struct.unpack(">8I", header)
    order = MAGIC_NUMBERS.get(magic)
    if order is None:
        return 1  # the first bytes of a log are never anything else
    sums = _add(order, header[:24], (0, 0))
    is_valid = sums == tuple(stored)
    lost = 0
    for frame, page in _frames(file, page_bytes):
        _, pages_after_commit, frame_salt_1, frame_salt_2, *stored = struct.unpack(">6I", frame)
        if is_valid:
            sums = _add(order, page, _add(order, frame[:8], sums))
        is_current = (frame_salt_1, frame_salt_2) == (salt_1, salt_2)
        is_valid = is_valid and is_current and sums == tuple(stored)
        # Frames of an earlier round, with other salts, may follow the end of the log.
        if not is_valid and is_current and pages_after_commit:
            lost += 1
    return lost


def _frames(file: IO[bytes], page_bytes: int) -> Iterator[tuple[bytes, bytes]]:
    if not 512 <= page_bytes <= 65536:
        return
    while len(frame := file.read(FRAME_HEADER_BYTES)) == FRAME_HEADER_BYTES:
        page = file.read(page_bytes)
        if len(page) < page_bytes:
            return
        yield frame, page


def _add(order: str, data: bytes, sums: Sums) -> Sums:
    """Return the checksums of SQLite's log format, continued over more data."""
    first, second = sums
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for even, odd in zip(words, words, strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second

"""New identifiers: UUID version 7, so that ids made later sort later."""

from __future__ import annotations

import os
import time


def uuid7() -> str:
    """Return a new UUIDv7 as text: 48 bits of milliseconds, then 74 random bits."""
    noise = int.from_bytes(os.urandom(10), "big")
    value = (time.time_ns() // 1_000_000 & 0xFFFF_FFFF_FFFF) << 80
    value |= 0x7 << 76 | (noise >> 68 & 0xFFF) << 64 | 0b10 << 62 | noise & 0x3FFF_FFFF_FFFF_FFFF
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

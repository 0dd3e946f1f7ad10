"""New identifiers: UUID version 7, so that ids made later sort later."""

from __future__ import annotations

import os
import time


def uuid7() -> str:
    """Return a new UUIDv7 as text: 60 bits of time in steps of 244 ns, then 62 random bits.

    The twelve bits below the millisecond keep the order of records that one process adds in the
    same millisecond.
    """
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    value = (milliseconds & 0xFFFF_FFFF_FFFF) << 80 | 0x7 << 76 | (rest << 12) // 1_000_000 << 64
    value |= 0b10 << 62 | int.from_bytes(os.urandom(8), "big") >> 2
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

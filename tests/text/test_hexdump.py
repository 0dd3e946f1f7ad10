"""Bytes as text, readable from anywhere."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from retain.text.hexdump import Hexdump


def test_lines_are_as_xxd_writes_them() -> None:
    dump = Hexdump(io.BytesIO(b"\x7fELF\x02\x01\x01" + bytes(9) + b"abc"))
    assert dump.read() == (
        b"00000000: 7f45 4c46 0201 0100 0000 0000 0000 0000  .ELF............\n"
        b"00000010: 6162 63                                  abc             \n"
    )
    assert (dump.lines, dump.tell(), dump.readable(), dump.seekable()) == (
        2,
        2 * dump.WIDTH,
        True,
        True,
    )
    assert dump.read() == b""


@given(st.binary(max_size=200), st.integers(0, 1000), st.integers(0, 300))
def test_any_part_is_that_part(content: bytes, place: int, size: int) -> None:
    every = Hexdump(io.BytesIO(content)).read()
    dump = Hexdump(io.BytesIO(content))
    assert dump.seek(0, io.SEEK_END) == len(every) == dump.lines * dump.WIDTH
    dump.seek(place)
    assert dump.read(size) == every[place : place + size]

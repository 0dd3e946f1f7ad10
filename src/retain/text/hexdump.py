"""Bytes that are no text, as a file of text: sixteen a line as `xxd` writes them, made only where it is read."""

from __future__ import annotations

import io
from typing import IO, Any

_BYTES = 16
_HEX = 39
_DOTS = bytes(byte if 0x20 <= byte < 0x7F else 0x2E for byte in range(256))


class Hexdump(io.RawIOBase):
    """A file of lines that are all of one width."""

    WIDTH = 68

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._bytes = file.seek(0, io.SEEK_END)
        self._place = 0
        self.lines = -(-self._bytes // _BYTES)

    def readable(self) -> bool:
        """It can be read."""
        return True

    def seekable(self) -> bool:
        """It can be read from anywhere."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place in the text."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self.lines * self.WIDTH}[
            whence
        ]
        self._place = max(0, base + offset)
        return self._place

    def tell(self) -> int:
        """The place in the text."""
        return self._place

    def readinto(self, buffer: Any) -> int:
        """Write the lines that are asked for."""
        first, skip = divmod(self._place, self.WIDTH)
        last = -(-(self._place + len(buffer)) // self.WIDTH)
        self._file.seek(first * _BYTES)
        raw = self._file.read((last - first) * _BYTES)
        rows = [
            self._row(first * _BYTES + at, raw[at : at + _BYTES])
            for at in range(0, len(raw), _BYTES)
        ]
        text = "".join(rows).encode()[skip : skip + len(buffer)]
        buffer[: len(text)] = text
        self._place += len(text)
        return len(text)

    def _row(self, offset: int, raw: bytes) -> str:
        return (
            f"{offset:08x}: {raw.hex(' ', -2):{_HEX}}  {raw.translate(_DOTS).decode():{_BYTES}}\n"
        )

"""A content in parts, as rows of a table hold it and as an export writes it, and such parts read like a file.

How a content is cut depends on nothing but its bytes, so that two databases cut it alike.
"""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any

PART_BYTES = 256 << 10
CHUNK_BYTES = 1 << 20
_LONGEST_CHARACTER = 4


@dataclass(frozen=True)
class Part:
    """A part: its number from 0, where it starts, and its bytes as text that any database keeps."""

    part: int
    start: int
    encoding: str
    data: str


def chunks(file: IO[bytes]) -> Iterator[bytes]:
    """What is left to read, piece by piece."""
    while piece := file.read(CHUNK_BYTES):
        yield piece


def cut(pieces: Iterable[bytes]) -> Iterator[Part]:
    """The parts of a content; one that is empty has one empty part. No character of a text is cut in two."""
    number = start = 0
    waiting = bytearray()
    for piece in pieces:
        waiting += piece
        while len(waiting) > PART_BYTES:
            size = _whole_characters(waiting)
            yield _part(number, start, bytes(waiting[:size]))
            number, start = number + 1, start + size
            del waiting[:size]
    if waiting or not number:
        yield _part(number, start, bytes(waiting))


def join(encoding: str, data: str) -> bytes:
    """The bytes of a part."""
    if encoding == "text":
        return data.encode()
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return b""  # whoever reads it finds that bytes are missing


def _whole_characters(data: bytearray) -> int:
    """How much of the beginning makes a part: less than the most where a character would be cut."""
    size = PART_BYTES
    while PART_BYTES - size < _LONGEST_CHARACTER and data[size] & 0xC0 == 0x80:
        size -= 1
    return size if data[size] & 0xC0 != 0x80 else PART_BYTES


def _part(number: int, start: int, data: bytes) -> Part:
    try:
        text = data.decode()
        if "\x00" not in text:
            return Part(number, start, "text", text)
    except UnicodeDecodeError:
        pass
    return Part(number, start, "base64", base64.b64encode(data).decode())


Fetch = Callable[[int], tuple[int, bytes] | None]
"""From a place in the content to the start and the bytes of the part that has it."""


class PartsFile(io.RawIOBase):
    """Parts as one file that can be read from any place; only the part that is being read is in memory."""

    def __init__(self, size: int, fetch: Fetch, missing: Callable[[], Exception]) -> None:
        self._size = size
        self._fetch = fetch
        self._missing = missing
        self._at = 0
        self._start, self._data = 0, b""

    def readable(self) -> bool:
        """It can be read."""
        return True

    def seekable(self) -> bool:
        """From any place."""
        return True

    def tell(self) -> int:
        """The place that is read next."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read what is left of a part, or as much as there is room for."""
        into = memoryview(buffer)
        if self._at >= self._size:
            return 0
        if not self._start <= self._at < self._start + len(self._data):
            found = self._fetch(self._at)
            if found is None or not found[0] <= self._at < found[0] + len(found[1]):
                raise self._missing()
            self._start, self._data = found
        piece = self._data[self._at - self._start :][: len(into)]
        into[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

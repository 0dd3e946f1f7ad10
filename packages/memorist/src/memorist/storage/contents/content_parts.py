"""Contents in parts, as table rows and exports hold them, and parts read like a file.

The cuts depend only on the bytes, so that two databases cut a content in the same way.
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
    """A part: its number from 0, its start in the content, and its bytes as text."""

    part: int
    start: int
    encoding: str
    data: str


def chunks(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the rest of a file in chunks."""
    while piece := file.read(CHUNK_BYTES):
        yield piece


def cut(pieces: Iterable[bytes]) -> Iterator[Part]:
    """Cut a content into parts, between characters; an empty content has one empty part."""
    number = start = 0
    pending = bytearray()
    for piece in pieces:
        pending += piece
        while len(pending) > PART_BYTES:
            size = _whole_characters(pending)
            yield _part(number, start, bytes(pending[:size]))
            number += 1
            start += size
            del pending[:size]
    if pending or not number:
        yield _part(number, start, bytes(pending))


def join(encoding: str, data: str) -> bytes:
    """Return the bytes of a part."""
    if encoding == "text":
        return data.encode()
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return b""  # the reader notices that bytes are missing


def _whole_characters(data: bytearray) -> int:
    """Return the size of the next part: below the maximum if that would split a character."""
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
"""Returns the start and the bytes of the part that contains an offset of the content."""


class PartsFile(io.RawIOBase):
    """A seekable file made of parts; only the current part is in memory."""

    def __init__(
        self,
        size: int,
        fetch: Fetch,
        missing: Callable[[], Exception],
        release: Callable[[], None] = lambda: None,
    ) -> None:
        self._size = size
        self._fetch = fetch
        self._missing = missing
        self._release = release
        self._at = 0
        self._start = 0
        self._data = b""

    def close(self) -> None:
        """Close the file and release what it reads from."""
        if not self.closed:
            self._release()
        super().close()

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the current offset."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the current offset and return it."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read the rest of the current part, or as much as fits into the buffer."""
        into = memoryview(buffer)
        if self._at >= self._size:
            return 0
        if not self._start <= self._at < self._start + len(self._data):
            part = self._fetch(self._at)
            if part is None or not part[0] <= self._at < part[0] + len(part[1]):
                raise self._missing()
            self._start, self._data = part
        piece = self._data[self._at - self._start :][: len(into)]
        into[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

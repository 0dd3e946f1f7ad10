"""How large a content is, in bytes, lines and tokens, and how it begins and ends: learned while it goes by."""

from __future__ import annotations

from retain.base import tokens

HEAD_BYTES = 64 << 10
TAIL_BYTES = 16 << 10
_COUNTED_BYTES = 256 << 10
_SAMPLE_BYTES = 16 << 10


class Measure:
    """What is known of the pieces that were seen, in order; tokens are counted up to a size, and beyond it from samples."""

    def __init__(self) -> None:
        self.size = 0
        self.head = b""
        self.tail = b""
        self._breaks = 0
        self._counted = b""
        self._sampled = (0, 0)

    def see(self, piece: bytes) -> None:
        """The next piece."""
        if len(self._counted) < _COUNTED_BYTES:
            self._counted += piece[: _COUNTED_BYTES - len(self._counted)]
        if len(self.head) < HEAD_BYTES:
            self.head += piece[: HEAD_BYTES - len(self.head)]
        self.tail = (self.tail + piece[-TAIL_BYTES:])[-TAIL_BYTES:]
        self.size += len(piece)
        self._breaks += piece.count(b"\n")
        if self.size > _COUNTED_BYTES:
            sample = piece[:_SAMPLE_BYTES]
            self._sampled = self._sampled[0] + len(sample), self._sampled[1] + _tokens(sample)

    @property
    def lines(self) -> int:
        """How many lines there are, as an editor counts them."""
        return self._breaks + (self.size > 0 and not self.tail.endswith(b"\n"))

    @property
    def tokens(self) -> int:
        """About how many tokens it is."""
        counted = _tokens(self._counted)
        if self.size <= len(self._counted):
            return counted
        size, count = self._sampled
        return counted + round((self.size - len(self._counted)) * count / max(size, 1))

    @property
    def beginning(self) -> str:
        """How it begins, as text."""
        return self.head.decode("utf-8", "replace")

    @property
    def end(self) -> str:
        """How it ends, as text; '' where the beginning is all of it."""
        return "" if self.size <= len(self.head) else self.tail.decode("utf-8", "replace")


def _tokens(data: bytes) -> int:
    return tokens.estimate(data.decode("utf-8", "replace"))

"""Measure a content while it is read: bytes, lines, tokens, its beginning and its end."""

from __future__ import annotations

from memorist.base import tokens

HEAD_BYTES = 64 << 10
TAIL_BYTES = 16 << 10
COUNTED_BYTES = 256 << 10  # tokens are counted up to this size, then estimated from samples
SAMPLE_BYTES = 16 << 10


class Measure:
    """The measurements of all pieces so far."""

    def __init__(self) -> None:
        self.size = 0
        self.head = b""
        self.tail = b""
        self._line_feeds = 0
        self._counted = b""
        self._sampled_bytes = 0
        self._sampled_tokens = 0

    def see(self, piece: bytes) -> None:
        """Add the next piece."""
        if len(self._counted) < COUNTED_BYTES:
            self._counted += piece[: COUNTED_BYTES - len(self._counted)]
        if len(self.head) < HEAD_BYTES:
            self.head += piece[: HEAD_BYTES - len(self.head)]
        self.tail = (self.tail + piece[-TAIL_BYTES:])[-TAIL_BYTES:]
        self.size += len(piece)
        self._line_feeds += piece.count(b"\n")
        if self.size > COUNTED_BYTES:
            sample = piece[:SAMPLE_BYTES]
            self._sampled_bytes += len(sample)
            self._sampled_tokens += _count_tokens(sample)

    @property
    def lines(self) -> int:
        """The number of lines; a last line without a line feed counts."""
        return self._line_feeds + (self.size > 0 and not self.tail.endswith(b"\n"))

    @property
    def tokens(self) -> int:
        """The number of tokens, an estimate for a large content."""
        counted = _count_tokens(self._counted)
        rest = self.size - len(self._counted)
        if rest <= 0:
            return counted
        return counted + round(rest * self._sampled_tokens / max(self._sampled_bytes, 1))

    @property
    def beginning(self) -> str:
        """The beginning as text."""
        return self.head.decode("utf-8", "replace")

    @property
    def end(self) -> str:
        """The end as text; '' if the beginning is the whole content."""
        return "" if self.size <= len(self.head) else self.tail.decode("utf-8", "replace")


def _count_tokens(data: bytes) -> int:
    return tokens.estimate(data.decode("utf-8", "replace"))

"""What ranking knows of a row that may be what is asked for, and of everything that is searched."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from retain.search import words
from retain.search.question import asks

_SKETCH = 8  # smallest hashes of a text's words: enough to see that two texts are nearly the same


@dataclass(frozen=True, slots=True)
class Digest:
    """What ranking needs of a row's text: how often it has each word, how long it is, whether it asks, its sketch."""

    counts: dict[str, int]
    length: int
    asks: bool
    sketch: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A row that may be what is asked for; `cosine` is None where it has no vector, or nothing was embedded."""

    number: int
    kind: str
    id: str
    seq: int
    at: int
    digest: Digest
    role: str = ""
    author: str = ""
    cosine: float | None = None
    part: int = 0


@dataclass(frozen=True, slots=True)
class Corpus:
    """What is searched: how many rows, and how many of them have each word of the question."""

    count: int
    having: Sequence[int]


def digest(author: str, title: str, text: str, at: int | None) -> Digest:
    """What ranking needs of a row. The same for ever, so it can be kept by the row's number."""
    counts: dict[str, int] = {}
    length = 1
    for word in words.of_item(author, title, text, at):
        counts[word] = counts.get(word, 0) + 1
        length += word not in words.STOP
    sketch = sorted({zlib.crc32(word.encode()) for word in words.analyse(text)})[:_SKETCH]
    return Digest(counts, length, asks(text), tuple(sketch))

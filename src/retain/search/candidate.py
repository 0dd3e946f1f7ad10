"""What ranking knows of a row that may be what is asked for, and of everything that is searched."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from retain.search import words
from retain.search.question import asks


class Digest(NamedTuple):
    """What ranking needs of a row's text: how often it has each word, how long it is, whether it asks.

    `print` is a fingerprint of its words in their order, 0 where it has none.
    """

    counts: Mapping[str, int]
    length: int
    asks: bool
    print: int


class Candidate(NamedTuple):
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
    said = words.of_text(text)
    counts = Counter([*said, *words.of_frame(author, title, at)])
    length = 1 + sum(count for word, count in counts.items() if word not in words.STOP)
    return Digest(counts, length, asks(text), zlib.adler32(" ".join(said).encode()) if said else 0)

"""Candidates of a search put in order: readable signals, weighed by learned weights, give the probability of being what is asked for.

Pure: whoever searches brings the candidates with what is known of them. `digest` is what a row's words say apart from any
question; it may be kept for ever by the row's number. `rank` weighs and orders. The weights are data (weights.json), learned by
bench/learn.py, for searches by words alone and for each family of embedders, because their scales differ.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from retain.search import words
from retain.search.question import Question, asks

_SKETCH = 8  # smallest hashes of a text's words: enough to see that two texts are nearly the same


@dataclass(frozen=True, slots=True)
class Digest:
    """What ranking needs of a row's text: how often each word is in it, how long it is, whether it asks, and a sketch of it."""

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


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate in its place: the probability that it is wanted, what each signal added to it, and its near-duplicates."""

    number: int
    score: float
    parts: dict[str, float] = field(default_factory=dict)
    same: tuple[int, ...] = ()


def digest(author: str, title: str, text: str, at: int | None) -> Digest:
    """What ranking needs of a row. The same for ever, so it can be kept by the row's number."""
    found = words.of_item(author, title, text, at)
    counts: dict[str, int] = {}
    for word in found:
        counts[word] = counts.get(word, 0) + 1
    sketch = sorted(zlib.crc32(word.encode()) for word in counts)[:_SKETCH]
    return Digest(counts, len(found), asks(text), tuple(sketch))


def rank(question: Question, candidates: Sequence[Candidate], corpus: Corpus, *, family: str = "static") -> list[Ranked]:
    """The candidates, best first. `family` is that of the embedder whose cosines they carry: static or strong."""
    idf = [math.log(1 + (corpus.count - min(having, corpus.count) + 0.5) / (having + 0.5)) for having in corpus.having]
    scored = []
    for candidate in candidates:
        found = [candidate.digest.counts.get(word, 0) for word in question.words]
        score = sum(weight * count * 2 / (count + 1) for weight, count in zip(idf, found, strict=True))
        scored.append((score + 4 * (candidate.cosine or 0.0), candidate))
    scored.sort(key=lambda pair: (-pair[0], -pair[1].at, pair[1].number))
    return [Ranked(candidate.number, 1 - 1 / (1 + max(score, 0.0)), {"words": score}) for score, candidate in scored]

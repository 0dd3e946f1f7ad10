"""Candidates of a search, and the digests of their texts that ranking works with."""

from __future__ import annotations

import os
import threading
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from retain.search import words
from retain.search.question import contains_question
from retain.search.search_engine import Item

MAX_CACHED_WORDS = 2_000_000
"""Limit of the digest cache: about 200 MB of memory."""


class Digest(NamedTuple):
    """Everything that ranking needs of a row's text."""

    counts: Mapping[str, int]  # occurrences of each index word
    length: int  # words, without stop words
    has_question: bool  # True if the text contains a question
    fingerprint: int  # checksum of the words in their order; 0 if there are none


class Candidate(NamedTuple):
    """A row that may be an answer."""

    number: int
    kind: str
    id: str
    seq: int
    at: int
    digest: Digest
    role: str = ""
    author: str = ""
    cosine: float | None = None  # None if the row or the query has no vector
    part: int = 0


@dataclass(frozen=True, slots=True)
class Corpus:
    """Statistics of the rows in scope."""

    count: int
    having: Sequence[int]  # for each word of the question: the number of rows that contain it


def digest(author: str, title: str, text: str, at: int | None) -> Digest:
    """Return the digest of a row. It depends on nothing else, so it can be cached."""
    terms = words.text_words(text)
    counts = Counter([*terms, *words.metadata_words(author, title, at)])
    length = 1 + sum(count for word, count in counts.items() if word not in words.STOP)
    fingerprint = zlib.adler32(" ".join(terms).encode()) if terms else 0
    return Digest(counts, length, contains_question(text), fingerprint)


class DigestCache:
    """The digests of rows, shared by all threads of a process. Rows never change.

    Evicts the oldest digests when it is full.
    """

    def __init__(self, max_words: int = MAX_CACHED_WORDS) -> None:
        self._max_words = max_words
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._size = 0
        self._digests: dict[tuple[int, int, int], Digest] = {}
        self._lock = threading.Lock()

    def get(self, row: Item) -> Digest:
        """Return the digest of a row; compute it if it is not cached."""
        # A number alone could be reused after the schema was dropped and created again.
        key = (row.number, row.at, len(row.text))
        cached = self._digests.get(key)
        if cached is None:
            cached = digest(row.author, row.title, row.text, row.at)
            self._add(key, cached)
        return cached

    def _add(self, key: tuple[int, int, int], new: Digest) -> None:
        if self._process != os.getpid():
            # In a forked child, the lock may be held by a thread that exists only in the parent.
            self._reset()
        with self._lock:
            if key in self._digests:
                return  # another thread was faster
            self._digests[key] = new
            self._size += len(new.counts)
            while self._size > self._max_words and len(self._digests) > 1:
                oldest = next(iter(self._digests))
                self._size -= len(self._digests.pop(oldest).counts)

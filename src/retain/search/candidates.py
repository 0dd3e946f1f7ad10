"""Candidates of a search, and the digests of their texts that ranking works with."""

from __future__ import annotations

import os
import threading
import zlib
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from retain.search import words
from retain.search.question import contains_question, only_asks
from retain.search.search_engine import Item

MAX_CACHED_BYTES = 16 << 20
"""Limit of the digest cache: about 38,000 messages of 25 different words."""
ENTRY_BYTES = 240
"""Memory of a cached digest without its words."""
COUNT_MASK = 0xFF
"""The bits of a word code that are a count; the others are a hash of the word."""


class Digest(NamedTuple):
    """Everything that ranking needs of a row's text.

    It is compact, because tens of thousands of them are cached: a dictionary of the words would
    take four times the memory, in blocks of a size that fragments the heap.
    """

    words: bytes  # the word codes of the index words, 64 bits each: a hash and a count
    length: int  # words, without stop words
    has_question: bool  # True if the text contains a question
    question_words: int  # words of a text that only asks, without stop words; 0 of other texts
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
    stop = words.stop_words(terms)
    text_length = sum(word not in stop for word in terms)
    metadata = words.metadata_words(author, title, at)
    length = 1 + text_length + sum(word not in stop for word in metadata)
    question_words = text_length if only_asks(text) else 0
    counts = Counter([*terms, *metadata])
    fingerprint = zlib.adler32(" ".join(terms).encode()) if terms else 0
    codes = array("q", [word_code(word) | min(count, COUNT_MASK) for word, count in counts.items()])
    return Digest(codes.tobytes(), length, contains_question(text), question_words, fingerprint)


def word_code(word: str) -> int:
    """Return the word code of a word with a count of 0. It is valid in this process only."""
    return hash(word) & ~COUNT_MASK


class DigestCache:
    """The digests of rows, shared by all threads of a process. Rows never change.

    Evicts the older half when it is full.
    """

    def __init__(self, max_bytes: int = MAX_CACHED_BYTES) -> None:
        self._max_bytes = max_bytes
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self.bytes = 0
        self._digests: dict[int, Digest] = {}
        self._lock = threading.Lock()

    def get(self, row: Item) -> Digest:
        """Return the digest of a row; compute it if it is not cached."""
        # A number alone could be reused after the schema was dropped and created again. The hash of
        # all three is smaller than a tuple of them.
        key = hash((row.number, row.at, len(row.text)))
        cached = self._digests.get(key)
        if cached is None:
            cached = digest(row.author, row.title, row.text, row.at)
            self._add(key, cached)
        return cached

    def _add(self, key: int, new: Digest) -> None:
        if self._process != os.getpid():
            # In a forked child, the lock may be held by a thread that exists only in the parent.
            self._reset()
        with self._lock:
            if key in self._digests:
                return  # another thread was faster
            self._digests[key] = new
            self.bytes += ENTRY_BYTES + len(new.words)
            if self.bytes > self._max_bytes:
                self._evict()

    def _evict(self) -> None:
        newer = list(self._digests.items())[len(self._digests) // 2 :]
        self._digests = dict(newer)
        self.bytes = sum(ENTRY_BYTES + len(cached.words) for _, cached in newer)

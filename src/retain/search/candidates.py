"""Candidates of a search, and the digests of their texts that ranking works with.

A digest is computed once, when a row is indexed, and stored with the row. So a search reads and
analyses hardly any text of its candidates.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from retain.search import words
from retain.search.question import contains_question, only_asks

FORMAT = 1
"""Version of stored digests. If their content changes, increase it and add a migration that sets
`digest` to null and marks the tenants as behind (see 0023). Until the index is complete, a search
computes the missing digests itself."""
MAX_COUNT = 255
MAX_CACHED_HASHES = 1 << 16
MAX_RECENT_DIGESTS = 512
_HEADER = struct.Struct("<BBIII")  # format, has_question, length, question_words, fingerprint
_BYTES_PER_WORD = 5  # a count and a hash


class Digest(NamedTuple):
    """Everything that ranking needs of a row's text."""

    words: bytes  # the hash of each distinct index word, 32 bits each, little-endian
    counts: bytes  # the occurrences of each of these words, a byte each
    length: int  # words, without stop words
    has_question: bool  # True if the text contains a question
    question_words: int  # number of words, without stop words, of a text that only asks; else 0
    fingerprint: int  # checksum of the words in their order; 0 if there are none

    def pack(self) -> bytes:
        """Return the digest as it is stored: about 130 bytes for a message of 25 words."""
        header = _HEADER.pack(
            FORMAT, self.has_question, self.length, self.question_words, self.fingerprint
        )
        return header + self.counts + self.words


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
    """Return the digest of a row."""
    return digest_of_words(text, words.text_words(text), words.metadata_words(author, title, at))


def digest_of_words(text: str, terms: Sequence[str], metadata: Sequence[str]) -> Digest:
    """Return the digest of a row whose text has been analysed.

    terms:    the index words of the text
    metadata: the index words of author, title and time
    """
    every_word = [*terms, *metadata]
    counts: dict[str, int] = dict.fromkeys(every_word, 1)
    if len(counts) < len(every_word):
        counts = Counter(every_word)
    stop = words.stop_words(terms)
    text_length = len(terms) - list(map(stop.__contains__, terms)).count(True)
    metadata_length = len(metadata) - list(map(stop.__contains__, metadata)).count(True)
    return Digest(
        struct.pack(f"<{len(counts)}i", *map(_hashes.__getitem__, counts)),
        _pack_counts(counts.values()),
        1 + text_length + metadata_length,
        contains_question(text),
        text_length if only_asks(text) else 0,
        zlib.crc32(" ".join(terms).encode()) if terms else 0,
    )


def _pack_counts(counts: Collection[int]) -> bytes:
    try:
        return bytes(counts)
    except ValueError:  # over 255
        return bytes([min(count, MAX_COUNT) for count in counts])


recent_digest = lru_cache(MAX_RECENT_DIGESTS)(digest)
"""`digest` with a small cache, for rows without a stored digest: mostly the newest."""


def unpack(packed: bytes | None) -> Digest | None:
    """Return a stored digest; None if there is none, or one of another version."""
    if not packed or packed[0] != FORMAT:
        return None
    _, has_question, length, question_words, fingerprint = _HEADER.unpack_from(packed)
    start = _HEADER.size
    end = start + (len(packed) - start) // _BYTES_PER_WORD
    words = packed[end:]
    counts = packed[start:end]
    return Digest(words, counts, length, bool(has_question), question_words, fingerprint)


def hashes_of(packed: bytes) -> tuple[int, ...]:
    """Return the hashes of the words of a stored digest."""
    count = (len(packed) - _HEADER.size) // _BYTES_PER_WORD
    return struct.unpack_from(f"<{count}i", packed, _HEADER.size + count)


class _Hashes(dict[str, int]):
    """A cache of words and their hashes. Not `lru_cache`, whose calls take twice as long."""

    def __missing__(self, word: str) -> int:
        digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=4).digest()
        if len(self) >= MAX_CACHED_HASHES:
            self.clear()
        value = self[word] = int.from_bytes(digest, signed=True)
        return value


_hashes = _Hashes()


def word_hash(word: str) -> int:
    """Return the hash of an index word: 32 bits, the same in every process."""
    return _hashes[word]

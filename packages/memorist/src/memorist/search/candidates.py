"""Candidates of a search, and the digests of their texts that ranking works with.

A digest is computed once, when a row is indexed, and stored with the row. So a search reads and
analyses hardly any text of its candidates.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeGuard

from memorist.search import words
from memorist.search.question import contains_question, only_asks

FORMAT = 2
"""Version of stored digests. If their content changes, increase it and mark the tenants as behind
with round 0 (`search_behind`) in a migration. Until the index is complete, a search computes the missing digests itself."""
_FORMAT_BYTE = bytes([FORMAT])
MAX_COUNT = 255
MAX_SHORT = (1 << 16) - 1
NO_OWNER = 0
"""The owner of rows without a user."""
MAX_CACHED_HASHES = 1 << 16
MAX_RECENT_DIGESTS = 512
_HEADER = struct.Struct("<BBHHHI")
_HEADER_TYPE = [
    ("format", "u1"),
    ("has_question", "u1"),
    ("length", "<u2"),
    ("question_words", "<u2"),
    ("repeated", "<u2"),
    ("fingerprint", "<u4"),
]
_FINGERPRINT = slice(_HEADER.size - 4, _HEADER.size)
_BYTES_PER_WORD = 3
_HASH_MASK = 2 ** (8 * _BYTES_PER_WORD) - 1


class Digest(NamedTuple):
    """Everything that ranking needs of a row's text."""

    words: Sequence[str]  # the distinct index words; those that occur more than once are first
    counts: bytes  # how often those occur, a byte each; all other words occur once
    length: int  # words, without stop words
    has_question: bool  # True if the text contains a question
    question_words: int  # number of words, without stop words, of a text that only asks; else 0
    fingerprint: int  # checksum of the words in their order; 0 if there are none

    def pack(self) -> bytes:
        """Return the digest as it is stored: about 80 bytes for a message of 25 words."""
        header = _HEADER.pack(
            FORMAT,
            self.has_question,
            min(self.length, MAX_SHORT),
            min(self.question_words, MAX_SHORT),
            len(self.counts),
            self.fingerprint,
        )
        return header + self.counts + b"".join(map(_packed_hashes.__getitem__, self.words))


class Candidate(NamedTuple):
    """A row that may be an answer."""

    number: int
    kind: str
    id: str
    seq: int
    at: int
    digest: bytes  # packed
    role: str = ""
    author: str = ""
    cosine: float | None = None  # None if the row or the query has no vector


@dataclass(frozen=True, slots=True)
class Corpus:
    """Statistics of the rows in scope."""

    count: int
    document_frequencies: Sequence[int]  # for each word of the question, the rows with this word


def digest(author: str, title: str, text: str, at: int | None) -> Digest:
    """Return the digest of a row."""
    return digest_of_words(text, words.text_words(text), words.metadata_words(author, title, at))


def digest_of_words(text: str, terms: Sequence[str], metadata: Sequence[str]) -> Digest:
    """Return the digest of a row whose text has been analysed.

    terms:    the index words of the text
    metadata: the index words of author, title and time
    """
    counts = Counter([*terms, *metadata])
    repeated = [word for word, count in counts.items() if count > 1][:MAX_SHORT]
    distinct = repeated + [word for word, count in counts.items() if count == 1]
    stop = words.stop_words(terms)
    stop_words = sum(map(counts.__getitem__, stop.intersection(counts)))
    question_words = 0
    if only_asks(text):
        question_words = sum(word not in stop for word in terms)
    return Digest(
        distinct,
        _pack_counts([counts[word] for word in repeated]),
        1 + len(terms) + len(metadata) - stop_words,
        contains_question(text),
        question_words,
        zlib.crc32(" ".join(terms).encode()) if terms else 0,
    )


def _pack_counts(counts: Sequence[int]) -> bytes:
    try:
        return bytes(counts)
    except ValueError:  # one is over 255
        return bytes([min(count, MAX_COUNT) for count in counts])


@lru_cache(MAX_RECENT_DIGESTS)
def recent_digest(author: str, title: str, text: str, at: int | None) -> bytes:
    """Return a packed digest, from a small cache: for rows without a stored one, the newest."""
    return digest(author, title, text, at).pack()


def is_current(packed: bytes | None) -> TypeGuard[bytes]:
    """Return whether there is a stored digest, and it is of this version."""
    return packed is not None and packed[:1] == _FORMAT_BYTE


class DigestColumns:
    """Packed digests as arrays: decoding hundreds one by one takes ten times as long."""

    def __init__(self, packed: Sequence[bytes]) -> None:
        import numpy as np

        size = _HEADER.size
        headers = np.frombuffer(b"".join([each[:size] for each in packed]), _HEADER_TYPE)
        self.length = headers["length"].astype(float)
        self.has_question = headers["has_question"].astype(float)
        self.question_words = headers["question_words"].astype(float)
        repeated = headers["repeated"].astype(int)
        starts = (size + repeated).tolist()  # of the hashes
        hashes = [each[start:] for each, start in zip(packed, starts, strict=True)]
        # How many distinct words each has; the counts and the hashes of all, one after the other.
        self.distinct = np.array([len(each) for each in hashes], int) // _BYTES_PER_WORD
        total = int(self.distinct.sum())
        # Four bytes at each third place; the fourth belongs to the next hash.
        joined = b"".join([*hashes, b"\0"])
        self.hashes = np.ndarray(total, "<i4", joined, strides=(_BYTES_PER_WORD,)) & _HASH_MASK
        self.counts = np.ones(total, np.uint8)
        # The words of each that occur more than once are its first ones.
        counts = b"".join([each[size:start] for each, start in zip(packed, starts, strict=True)])
        first_words = np.cumsum(self.distinct) - self.distinct
        first_counts = np.cumsum(repeated) - repeated
        places = np.arange(len(counts)) + np.repeat(first_words - first_counts, repeated)
        self.counts[places] = np.frombuffer(counts, np.uint8)


def fingerprints(packed: Sequence[bytes]) -> Sequence[int]:
    """Return the fingerprints of packed digests."""
    joined = b"".join([each[_FINGERPRINT] for each in packed])
    return struct.unpack(f"<{len(packed)}I", joined)


def _hash_bytes(word: str) -> bytes:
    return hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=4).digest()


class _Hashes(dict[str, int]):
    """A cache of words and their hashes. Not `lru_cache`, whose calls take twice as long."""

    def __missing__(self, word: str) -> int:
        if len(self) >= MAX_CACHED_HASHES:
            self.clear()
        value = self[word] = int.from_bytes(_hash_bytes(word), signed=True)
        return value


_hashes = _Hashes()


def word_hash(word: str) -> int:
    """Return the hash of an index word: 32 bits, the same in every process."""
    return _hashes[word]


def owner_hash(user: str | None) -> int:
    """Return the hash of a row's owner: a user, or nobody."""
    return NO_OWNER if user is None else word_hash(user)


class _PackedHashes(dict[str, bytes]):
    """A cache of words and the lower three bytes of their hashes."""

    def __missing__(self, word: str) -> bytes:
        if len(self) >= MAX_CACHED_HASHES:
            self.clear()
        value = self[word] = _hash_bytes(word)[: -_BYTES_PER_WORD - 1 : -1]
        return value


_packed_hashes = _PackedHashes()


def packed_word_hash(word: str) -> int:
    """Return the hash of an index word as digests contain it: 24 bits."""
    return int.from_bytes(_packed_hashes[word], "little")

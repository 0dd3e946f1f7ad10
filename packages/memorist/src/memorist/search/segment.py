"""Segments: up to 4,096 analysed documents of one owner, as arrays in one block of bytes.

A segment never changes. It begins with a header: magic, format, analysis version, number of
documents, a checksum of these and the rest. A directory of arrays follows, and then the arrays, which numpy
reads where they are. An array whose values are all the same is stored as one value.

Words are 32-bit hashes. A small segment has them by document; a larger one by word, sorted, with the
documents of each word.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from memorist.search import words
from memorist.search.question import contains_question, only_asks
from memorist.search.search_document import SearchDocument

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[Any]
    Mask = NDArray[np.bool_]

FORMAT = 1
ANALYSIS = 1
"""Version of the analysis of texts. Documents of an older one are analysed again by `reindex`."""
MAX_DOCUMENTS = 4096
INVERTED_DOCUMENTS = 512
"""Segments of this size or more are inverted: they have, for each word, its documents."""
MAX_SHORT = (1 << 16) - 1
MAX_COUNT = 255
MAX_CACHED_HASHES = 1 << 16
MAX_CACHED_DOCUMENTS = 16_384
_MAGIC = b"MSEG"
_HEADER = struct.Struct("<4sBBHII")  # magic, format, analysis, unused, documents, checksum
_ENTRY = struct.Struct("<BBHII")  # array, type, unused, values, bytes
_ALIGNMENT = 8
TEXT_COLUMNS = ("kind", "id", "session", "author", "role", "agent", "board", "place")
"""Columns with numbers of strings; 0 stands for None."""
_COLUMNS = {
    **dict.fromkeys(TEXT_COLUMNS, "<u2"),
    "number": "<u4",  # stable within the owner; its vector has the same
    "seq": "<u4",
    "part": "<u2",
    "at": "<i8",
    "expires": "<i8",  # 0 for never
    "length": "<u2",  # words, without stop words
    "question_words": "<u2",  # words, without stop words, of a text that only asks; else 0
    "has_question": "<u1",
    "fingerprint": "<u4",  # checksum of the words in their order; 0 if there are none
    "content": "<u4",  # checksum of title and text, to tell an unchanged document
}
ALL_COLUMNS = tuple(_COLUMNS)
_WORDS = {
    "hashes": "<i4",
    "sizes": "<u2",  # by document: its words; by word: its documents
    "documents": "<u2",  # only by word
    "repeated": "<u4",  # places of words that occur more than once, and how often
    "counts": "<u1",
    "string_ends": "<u4",
    "strings": "<u1",
}
_ARRAYS = {**_COLUMNS, **_WORDS}
_NAMES = tuple(_ARRAYS)


class Analysed(NamedTuple):
    """A document as the index has it: without its text."""

    document: SearchDocument  # its text and title are empty
    hashes: Sequence[int]  # distinct words; those that occur more than once come first
    counts: bytes  # how often those occur
    length: int
    question_words: int
    has_question: bool
    fingerprint: int
    content: int
    number: int = 0


class _Hashes(dict[str, int]):
    """A cache of words and their hashes. Not `lru_cache`, whose calls take twice as long."""

    def __missing__(self, word: str) -> int:
        if len(self) >= MAX_CACHED_HASHES:
            self.clear()
        digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=4).digest()
        value = self[word] = int.from_bytes(digest, "little", signed=True)
        return value


_hashes = _Hashes()


def word_hash(word: str) -> int:
    """Return the hash of an index word: 32 bits, the same in every process."""
    return _hashes[word]


_analysed: OrderedDict[bytes, Analysed] = OrderedDict()
"""The documents that were analysed last, by a hash of the document: a cache must not keep texts."""


def analyse(document: SearchDocument) -> Analysed:
    """Return what the index has of a document, from a cache if it was analysed a moment ago."""
    name = repr(document).encode("utf-8", "surrogatepass")
    key = hashlib.blake2b(name, digest_size=16).digest()
    known = _analysed.get(key)
    if known is None:
        known = _analysed[key] = _analyse(document)
        if len(_analysed) > MAX_CACHED_DOCUMENTS:
            with suppress(KeyError):  # another thread has emptied it
                _analysed.popitem(last=False)
    return known


def _analyse(document: SearchDocument) -> Analysed:
    text = document.text
    terms = words.text_words(text)
    occurrences: dict[str, int] = {}
    for word in terms:
        occurrences[word] = occurrences.get(word, 0) + 1
    metadata = words.metadata_words(document.author, document.title, document.at)
    for word in metadata:
        occurrences[word] = occurrences.get(word, 0) + 1
    repeated = [word for word, count in occurrences.items() if count > 1]
    single = [word for word, count in occurrences.items() if count == 1]
    stop = words.stop_words(terms)
    stop_words = sum(map(occurrences.__getitem__, stop.intersection(occurrences)))
    question_words = sum(word not in stop for word in terms) if only_asks(text) else 0
    return Analysed(
        document._replace(text="", title=""),
        [*map(_hashes.__getitem__, repeated), *map(_hashes.__getitem__, single)],
        bytes(min(occurrences[word], MAX_COUNT) for word in repeated),
        min(1 + len(terms) + len(metadata) - stop_words, MAX_SHORT),
        min(question_words, MAX_SHORT),
        contains_question(text),
        zlib.crc32(" ".join(terms).encode("utf-8", "surrogatepass")) if terms else 0,
        content_checksum(document),
    )


def content_checksum(document: SearchDocument) -> int:
    """Return the checksum that tells whether a document was changed."""
    content = f"{document.title}\0{document.text}\0{document.author}\0{document.role}"
    return zlib.crc32(content.encode("utf-8", "surrogatepass"))


class Postings:
    """The words of inverted segments: for each word of each segment the documents that have it."""

    def __init__(self, segments: Mapping[int, Segment]) -> None:
        """segments: by the place of their first document, which is added to their documents."""
        import numpy as np

        self._firsts = np.array(list(segments))
        self._documents = [segment.arrays["documents"] for segment in segments.values()]
        self._counts = [segment.dense_counts() for segment in segments.values()]
        sizes = [segment.arrays["sizes"].astype(np.int64) for segment in segments.values()]
        self._sizes = np.concatenate(sizes)
        self._starts = np.concatenate([np.cumsum(each) - each for each in sizes])
        self._segments = np.arange(len(segments))[:, None] << 32
        # Sorted by segment and hash, so that one search finds a word in all segments.
        keys = [
            number + segment.arrays["hashes"]
            for number, segment in zip(self._segments, segments.values(), strict=True)
        ]
        self._keys = np.concatenate([*keys, [np.iinfo(np.int64).max]])

    def lookup(self, wanted: Array) -> list[tuple[Array, Array]]:
        """Return for each hash the documents that have the word, and how often each has it."""
        import numpy as np

        keys = self._segments + wanted
        places = np.searchsorted(self._keys, keys)
        is_known = self._keys[places] == keys
        lists: list[tuple[Array, Array]] = []
        for word in range(len(wanted)):
            segments = np.flatnonzero(is_known[:, word])
            entries = places[segments, word]
            sizes = self._sizes[entries]
            documents = [np.zeros(0, np.uint16)]
            counts = [np.zeros(0, np.uint8)]
            spans = zip(
                segments.tolist(), self._starts[entries].tolist(), sizes.tolist(), strict=True
            )
            for segment, start, size in spans:
                documents.append(self._documents[segment][start : start + size])
                counts.append(self._counts[segment][start : start + size])
            firsts = np.repeat(self._firsts[segments], sizes)
            lists.append((firsts + np.concatenate(documents), np.concatenate(counts)))
        return lists


@dataclass(frozen=True)
class WordLists:
    """The words of a few documents, one list after the other."""

    hashes: Array
    documents: Array  # the document of each word
    counts: Array

    def lookup(self, wanted: Array) -> list[tuple[Array, Array]]:
        """Return for each hash the documents that have the word, and how often each has it."""
        import numpy as np

        places = [np.flatnonzero(self.hashes == hash) for hash in wanted.tolist()]
        return [(self.documents[each], self.counts[each]) for each in places]


@dataclass(frozen=True)
class Segment:
    """A decoded segment, or documents that are not in one yet."""

    size: int
    columns: Mapping[str, Array]
    strings: Sequence[str | None]  # the first one is None
    arrays: Mapping[str, Array]  # of the words
    analysis: int = ANALYSIS

    @property
    def is_inverted(self) -> bool:
        """Whether the words are by word."""
        return "documents" in self.arrays

    @property
    def nbytes(self) -> int:
        """About the size in memory."""
        arrays = [*self.columns.values(), *self.arrays.values()]
        return sum(array.nbytes for array in arrays) + 80 * len(self.strings)

    def entries(self) -> tuple[Array, Array, Array]:
        """Return hash, document and count of each word of each document."""
        import numpy as np

        counts = self.dense_counts()
        if self.is_inverted:
            hashes = np.repeat(self.arrays["hashes"], self.arrays["sizes"].astype(np.int64))
            return hashes, self.arrays["documents"], counts
        documents = np.repeat(np.arange(self.size, dtype=np.uint16), self.arrays["sizes"])
        return self.arrays["hashes"], documents, counts

    def dense_counts(self) -> Array:
        """Return how often each word occurs."""
        import numpy as np

        total = len(self.arrays["documents" if self.is_inverted else "hashes"])
        counts = np.ones(total, np.uint8)
        counts[self.arrays["repeated"]] = self.arrays["counts"]
        return counts


def build(documents: Sequence[Analysed], *, by_word: bool | None = None) -> Segment:
    """Return a segment of analysed documents, in their order."""
    import numpy as np

    codes: dict[str | None, int] = {None: 0}
    size = len(documents)
    columns: dict[str, Array] = {}
    records = [analysed.document for analysed in documents]
    for name in TEXT_COLUMNS:
        place = SearchDocument._fields.index(name)
        column = [codes.setdefault(_name(record[place]), len(codes)) for record in records]
        columns[name] = np.array(column, np.uint16)
    columns["number"] = np.array([each.number for each in documents], np.uint32)
    columns["seq"] = np.array([record.seq for record in records], np.uint32)
    columns["part"] = np.array([record.part for record in records], np.uint16)
    columns["at"] = np.array([record.at for record in records], np.int64)
    columns["expires"] = np.array([record.expires_at or 0 for record in records], np.int64)
    for name in ("length", "question_words", "has_question", "fingerprint", "content"):
        values = [getattr(each, name) for each in documents]
        columns[name] = np.array(values, _COLUMNS[name])
    sizes = np.array([len(each.hashes) for each in documents], np.int64)
    hashes = np.array([hash for each in documents for hash in each.hashes], np.int32)
    counts = np.ones(len(hashes), np.uint8)
    starts = np.cumsum(sizes) - sizes
    for each, start in zip(documents, starts.tolist(), strict=True):
        if each.counts:
            counts[start : start + len(each.counts)] = np.frombuffer(each.counts, np.uint8)
    owners = np.repeat(np.arange(size), sizes)
    arrays = _word_arrays(hashes, owners, counts, size, by_word)
    return Segment(size, columns, list(codes), arrays)


def _name(value: str | int | None) -> str | None:
    return None if value is None else str(value)


def _word_arrays(
    hashes: Array, documents: Array, counts: Array, size: int, by_word: bool | None
) -> dict[str, Array]:
    """Return the arrays of words; `documents` ascend."""
    import numpy as np

    if by_word is None:
        by_word = size >= INVERTED_DOCUMENTS
    if not by_word:
        sizes = np.bincount(documents, minlength=size) if size else np.zeros(0, np.int64)
        repeated = np.flatnonzero(counts > 1)
        return {
            "hashes": hashes.astype(np.int32),
            "sizes": sizes.astype(np.uint16),
            "repeated": repeated.astype(np.uint32),
            "counts": counts[repeated],
        }
    order = np.argsort(hashes, kind="stable")
    hashes = hashes[order]
    counts = counts[order]
    is_first = np.ones(len(hashes), bool)
    is_first[1:] = hashes[1:] != hashes[:-1]
    starts = np.flatnonzero(is_first)
    sizes = np.diff(starts, append=len(hashes))
    repeated = np.flatnonzero(counts > 1)
    return {
        "hashes": hashes[starts].astype(np.int32),
        "sizes": sizes.astype(np.uint16),
        "documents": documents[order].astype(np.uint16),
        "repeated": repeated.astype(np.uint32),
        "counts": counts[repeated],
    }


def merge(parts: Iterable[tuple[Segment, Mask | None]]) -> Segment:
    """Return one segment with the documents of several, in their order.

    Each part is a segment and which of its documents stay; None for all.
    """
    import numpy as np

    codes: dict[str | None, int] = {None: 0}
    columns: dict[str, list[Array]] = {name: [] for name in _COLUMNS}
    every_hash, every_document, every_count = [], [], []
    size = 0
    analysis = ANALYSIS
    for segment, mask in parts:
        keep = np.ones(segment.size, bool) if mask is None else mask
        analysis = min(analysis, segment.analysis)
        used = {
            int(code) for name in TEXT_COLUMNS for code in np.unique(segment.columns[name][keep])
        }
        new_code = np.zeros(len(segment.strings), np.uint16)
        for code in sorted(used):
            new_code[code] = codes.setdefault(segment.strings[code], len(codes))
        for name, column in segment.columns.items():
            kept = column[keep]
            columns[name].append(new_code[kept] if name in TEXT_COLUMNS else kept)
        hashes, documents, counts = segment.entries()
        places = np.cumsum(keep) - 1 + size
        stays = keep[documents]
        every_hash.append(hashes[stays])
        every_document.append(places[documents[stays]])
        every_count.append(counts[stays])
        size += int(keep.sum())
    hashes = np.concatenate(every_hash) if every_hash else np.zeros(0, np.int32)
    documents = np.concatenate(every_document) if every_document else np.zeros(0, np.int64)
    counts = np.concatenate(every_count) if every_count else np.zeros(0, np.uint8)
    order = np.argsort(documents, kind="stable")
    arrays = _word_arrays(hashes[order], documents[order], counts[order], size, None)
    joined = {
        name: np.concatenate(each) if each else np.zeros(0, _COLUMNS[name])
        for name, each in columns.items()
    }
    return Segment(size, joined, list(codes), arrays, analysis)


def encode(segment: Segment) -> bytes:
    """Return a segment as it is stored."""
    import numpy as np

    names = [
        b"" if name is None else name.encode("utf-8", "surrogatepass") for name in segment.strings
    ]
    arrays = {
        **{name: _shorten(segment.columns[name]) for name in _COLUMNS},
        **segment.arrays,
        "string_ends": np.cumsum([len(name) for name in names]).astype(np.uint32),
        "strings": np.frombuffer(b"".join(names), np.uint8),
    }
    directory, data = [], []
    for name, array in arrays.items():
        raw = array.astype(_ARRAYS[name]).tobytes()
        directory.append(_ENTRY.pack(_NAMES.index(name), 0, 0, len(array), len(raw)))
        data.append(raw + bytes(-len(raw) % _ALIGNMENT))
    head = struct.pack("<I", len(directory)) + b"".join(directory)
    body = head + bytes(-len(head) % _ALIGNMENT) + b"".join(data)
    checksum = _checksum(segment.analysis, segment.size, body)
    return _HEADER.pack(_MAGIC, FORMAT, segment.analysis, 0, segment.size, checksum) + body


def _checksum(analysis: int, size: int, body: bytes | memoryview) -> int:
    return zlib.crc32(body, analysis << 24 ^ size)


def _shorten(column: Array) -> Array:
    """Return a column, or one value if all are the same."""
    if len(column) > 1 and bool((column == column[0]).all()):
        return column[:1]
    return column


class DamagedSegment(Exception):
    """Raised for bytes that are not a segment, or whose checksum is wrong."""


class NewerSegment(Exception):
    """Raised for a segment that a newer version of memorist has written; it has the format."""


def decode(raw: bytes) -> Segment:
    """Return a stored segment."""
    import numpy as np

    if len(raw) < _HEADER.size or raw[:4] != _MAGIC:
        raise DamagedSegment
    _, format, analysis, _, size, checksum = _HEADER.unpack_from(raw)
    if format > FORMAT:
        raise NewerSegment(format)
    body = memoryview(raw)[_HEADER.size :]
    if _checksum(analysis, size, body) != checksum:
        raise DamagedSegment
    (count,) = struct.unpack_from("<I", body)
    at = 4 + count * _ENTRY.size
    at += -at % _ALIGNMENT
    arrays: dict[str, Array] = {}
    for entry in range(count):
        code, _, _, values, length = _ENTRY.unpack_from(body, 4 + entry * _ENTRY.size)
        array = _NAMES[code]
        arrays[array] = np.frombuffer(body, _ARRAYS[array], values, at)
        at += length + -length % _ALIGNMENT
    text = arrays.pop("strings").tobytes()
    ends = arrays.pop("string_ends").tolist()
    strings: list[str | None] = [
        text[start:end].decode("utf-8", "surrogatepass")
        for start, end in zip([0, *ends], ends, strict=False)
    ]
    strings[0] = None
    columns = {}
    for column in _COLUMNS:
        values = arrays.pop(column)
        columns[column] = np.broadcast_to(values, size) if len(values) != size else values
    return Segment(size, columns, strings, arrays, analysis)

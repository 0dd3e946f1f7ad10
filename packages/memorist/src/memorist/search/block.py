"""Blocks: the documents of some segments in memory, ready to be searched.

A block never changes. Which of its documents may be found is a mask beside it, because documents
are removed and replaced while a block is in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from memorist.search.segment import ALL_COLUMNS, TEXT_COLUMNS, Postings, Segment, WordLists
from memorist.storage.tables import PLACE_SEPARATOR

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memorist.search.segment import Array, Mask

    Scores = NDArray[np.float64]

_SEQ_BITS = 40
MAX_SEQ = (1 << 32) - 1


class DocumentKey(NamedTuple):
    """The name of a document, the same in every block and on every engine."""

    kind: str
    id: str
    seq: int
    part: int


class DocumentBlock:
    """The documents of several segments, one segment after the other."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        import numpy as np

        self.size = sum(segment.size for segment in segments)
        self.strings: list[str | None] = [None]
        codes: dict[str | None, int] = {None: 0}
        joined: dict[str, list[Array]] = {}
        words: list[Postings | WordLists] = []
        lists: list[tuple[Array, Array, Array]] = []
        first = 0
        for segment in segments:
            new_code = np.zeros(len(segment.strings), np.int32)
            for code, name in enumerate(segment.strings[1:], 1):
                new_code[code] = codes.setdefault(name, len(codes))
            for name, column in segment.columns.items():
                values = new_code[column] if name in TEXT_COLUMNS else column
                joined.setdefault(name, []).append(values)
            if segment.is_inverted:
                words.append(segment.postings(first))
            else:
                hashes, documents, counts = segment.entries()
                lists.append((hashes, documents.astype(np.int32) + first, counts))
            first += segment.size
        if lists:
            hashes, documents, counts = (np.concatenate(each) for each in zip(*lists, strict=True))
            words.append(WordLists(hashes, documents, counts))
        self.strings = list(codes)
        self.columns = {name: np.concatenate(each) for name, each in joined.items()}
        if not segments:
            self.columns = dict.fromkeys(ALL_COLUMNS, np.zeros(0, np.int64))
        self._codes = codes
        self._words = words

    @property
    def nbytes(self) -> int:
        """About the size in memory, without what is shared with the segments."""
        return sum(column.nbytes for column in self.columns.values()) + 90 * len(self.strings)

    def text(self, column: str, place: int) -> str | None:
        """Return the value of a column of strings."""
        code: int = self.columns[column][place].item()
        return self.strings[code]

    def key(self, place: int) -> DocumentKey:
        """Return the name of a document."""
        return DocumentKey(
            self.text("kind", place) or "",
            self.text("id", place) or "",
            int(self.columns["seq"][place]),
            int(self.columns["part"][place]),
        )

    # -- records ---------------------------------------------------------------------------------

    @cached_property
    def _records(self) -> tuple[dict[tuple[int, int], int], Array, Array]:
        """Return the number of each record, and the documents in the order of record and `seq`.

        The documents have keys of record and `seq`, sorted, and their places in the block.
        """
        import numpy as np

        pairs = self.columns["kind"].astype(np.int64) << 32 | self.columns["id"]
        order = np.argsort(pairs, kind="stable")
        ascending = pairs[order]
        is_first = np.ones(self.size, bool)
        is_first[1:] = ascending[1:] != ascending[:-1]
        record_of = np.empty(self.size, np.int64)
        record_of[order] = np.cumsum(is_first) - 1
        distinct = ascending[is_first].tolist()
        numbers = {(pair >> 32, pair & 0xFFFFFFFF): number for number, pair in enumerate(distinct)}
        keys = record_of << _SEQ_BITS | self.columns["seq"].astype(np.int64)
        by_key = np.argsort(keys, kind="stable")
        return numbers, keys[by_key], by_key

    def _record(self, kind: str, id: str) -> int | None:
        kind_code = self._codes.get(kind)
        id_code = self._codes.get(id)
        if kind_code is None or id_code is None:
            return None
        return self._records[0].get((kind_code, id_code))

    def find(self, kind: str, id: str, low: int = 0, high: int = MAX_SEQ) -> Array:
        """Return the places of the documents of a record, from one number to another."""
        import numpy as np

        record = self._record(kind, id)
        if record is None:
            return np.zeros(0, np.int64)
        _, keys, by_key = self._records
        first = record << _SEQ_BITS | max(low, 0)
        last = record << _SEQ_BITS | min(high, MAX_SEQ)
        start = np.searchsorted(keys, first).item()
        end = np.searchsorted(keys, last, side="right").item()
        places: Array = by_key[start:end]
        return places

    def neighbours(self, kind: str, id: str, seq: int, reach: int) -> Array:
        """Return the places of the first parts around a number of a record, with itself."""
        places = self.find(kind, id, seq - reach, seq + reach)
        first_parts: Array = places[self.columns["part"][places] == 0]
        return first_parts

    # -- filters ---------------------------------------------------------------------------------

    def has_value(self, column: str, values: Iterable[str | None]) -> Mask:
        """Return which documents have one of some values in a column of strings."""
        import numpy as np

        codes = [self._codes[value] for value in values if value in self._codes]
        if len(codes) == 1:
            equal: Mask = self.columns[column] == codes[0]
            return equal
        return np.isin(self.columns[column], codes)

    def is_below(self, place: str) -> Mask:
        """Return which documents are at a place or below it."""
        import numpy as np

        beyond = place.removesuffix(PLACE_SEPARATOR) + chr(ord(PLACE_SEPARATOR) + 1)
        used = np.unique(self.columns["place"]).tolist()
        codes = [code for code in used if place <= (self.strings[code] or "") < beyond]
        return np.isin(self.columns["place"], codes)

    # -- words -----------------------------------------------------------------------------------

    def occurrences(self, hashes: Array) -> list[tuple[Array, Array]]:
        """Return for each word the documents that have it, and how often each has it."""
        import numpy as np

        documents: list[list[Array]] = [[] for _ in hashes]
        counts: list[list[Array]] = [[] for _ in hashes]
        for words in self._words:
            first = words.first if isinstance(words, Postings) else 0
            for word, entry in enumerate(words.lookup(hashes)):
                if entry is not None:
                    documents[word].append(entry[0].astype(np.int32) + first)
                    counts[word].append(entry[1])
        return [
            (np.concatenate(where), np.concatenate(often))
            if where
            else (np.zeros(0, np.int32), np.zeros(0, np.uint8))
            for where, often in zip(documents, counts, strict=True)
        ]

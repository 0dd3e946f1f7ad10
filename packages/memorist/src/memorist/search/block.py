"""Blocks: the documents of some segments in memory, ready to be searched.

A block never changes. Which of its documents may be found is a mask beside it, because documents
are removed and replaced while a block is in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from memorist.search.segment import TEXT_COLUMNS, Postings, Segment, WordLists
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
        inverted: dict[int, Segment] = {}
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
                inverted[first] = segment
            else:
                hashes, documents, counts = segment.entries()
                lists.append((hashes, documents.astype(np.int64) + first, counts))
            first += segment.size
        words: list[Postings | WordLists] = []
        if inverted:
            words.append(Postings(inverted))
        if lists:
            hashes, documents, counts = (np.concatenate(each) for each in zip(*lists, strict=True))
            words.append(WordLists(hashes, documents, counts))
        self.strings = list(codes)
        self.columns = {name: np.concatenate(each) for name, each in joined.items()}
        self._codes = codes
        self._used_codes: dict[str, Array] = {}
        self._words = words

    @property
    def nbytes(self) -> int:
        """About the size in memory, without what is shared with the segments."""
        return sum(column.nbytes for column in self.columns.values()) + 90 * len(self.strings)

    def text(self, column: str, place: int) -> str | None:
        """Return the value of a column of strings."""
        code: int = self.columns[column][place].item()
        return self.strings[code]

    def texts(self, column: str, places: Array) -> list[str | None]:
        """Return the values of a column of strings."""
        return [self.strings[code] for code in self.columns[column][places].tolist()]

    def keys(self, places: Array) -> list[DocumentKey]:
        """Return the names of documents."""
        return [
            DocumentKey(kind or "", id or "", seq, part)
            for kind, id, seq, part in zip(
                self.texts("kind", places),
                self.texts("id", places),
                self.columns["seq"][places].tolist(),
                self.columns["part"][places].tolist(),
                strict=True,
            )
        ]

    def key(self, place: int) -> DocumentKey:
        """Return the name of a document."""
        import numpy as np

        return self.keys(np.array([place]))[0]

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

    def neighbours(self, keys: Iterable[DocumentKey], reach: int) -> Array:
        """Return the places of the first parts around documents of records, with themselves."""
        import numpy as np

        records = [(self._record(key.kind, key.id), key.seq) for key in keys]
        known = [(record, seq) for record, seq in records if record is not None]
        if not known:
            return np.zeros(0, np.int64)
        record, seq = np.array(known).T
        _, sorted_keys, by_key = self._records
        first = record << _SEQ_BITS | np.maximum(seq - reach, 0)
        last = record << _SEQ_BITS | np.minimum(seq + reach, MAX_SEQ)
        starts = np.searchsorted(sorted_keys, first).tolist()
        ends = np.searchsorted(sorted_keys, last, side="right").tolist()
        places = np.concatenate(
            [by_key[start:end] for start, end in zip(starts, ends, strict=True)]
        )
        first_parts: Array = places[self.columns["part"][places] == 0]
        return first_parts

    # -- filters ---------------------------------------------------------------------------------

    def _used(self, column: str) -> Array:
        """Return which strings a column has."""
        import numpy as np

        if column not in self._used_codes:
            counts = np.bincount(self.columns[column], minlength=len(self.strings))
            self._used_codes[column] = counts > 0
        return self._used_codes[column]

    def has_value(
        self, column: str, values: Iterable[str | None], *, excluded: bool = False
    ) -> Mask | None:
        """Return which documents have one of some values in a column of strings; None if all do.

        excluded: return which documents have none of the values
        """
        import numpy as np

        wanted = np.full(len(self.strings), excluded)
        wanted[[self._codes[value] for value in values if value in self._codes]] = not excluded
        if wanted[self._used(column)].all():
            return None
        mask: Mask = wanted[self.columns[column]]
        return mask

    def is_below(self, place: str) -> Mask:
        """Return which documents are at a place or below it."""
        import numpy as np

        beyond = place.removesuffix(PLACE_SEPARATOR) + chr(ord(PLACE_SEPARATOR) + 1)
        wanted = np.zeros(len(self.strings), bool)
        for code in np.flatnonzero(self._used("place")).tolist():
            wanted[code] = place <= (self.strings[code] or "") < beyond
        mask: Mask = wanted[self.columns["place"]]
        return mask

    # -- words -----------------------------------------------------------------------------------

    def occurrences(self, hashes: Array) -> list[tuple[Array, Array]]:
        """Return for each word the documents that have it, and how often each has it."""
        import numpy as np

        lists = [words.lookup(hashes) for words in self._words]
        return [
            (np.concatenate(documents), np.concatenate(counts))
            for documents, counts in (zip(*each, strict=True) for each in zip(*lists, strict=True))
        ]

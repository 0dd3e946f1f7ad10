"""The vectors of a user in memory, a byte for each dimension, in step with the table and within a limit.

What is here never decides what may be seen: rows that were removed stay for a while, and are dropped when a look at the
table shows how many they are. Whoever takes a score from here checks the row.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from retain.search.engine import Vector

    Numbers = NDArray[np.int64]
    Scores = NDArray[np.float32]
    Bytes = NDArray[np.int8]

log = logging.getLogger("retain.search")
ROWS = 8192
"""The most rows of one block; a block is never moved, so that a million vectors need no room twice."""
AT_ONCE = 1024
"""How many rows are made numbers of at a time: as many as stay in the processor's cache."""
SECONDS_BETWEEN_COUNTS = 300.0
EMPTY = 1000
"""About the bytes of a shelf without vectors: many users who have none take room too."""
EVERYBODY = "everybody"
NOBODY = "nobody"


class Whose(NamedTuple):
    """Of which rows: those of one user, or nobody's, or everybody's."""

    owner: str
    user: str | None = None


class Page(NamedTuple):
    """Some vectors of one length, as the table has them."""

    numbers: Numbers
    scales: Scores
    vectors: Bytes

    def of(self, rows: slice | NDArray[Any]) -> Page:
        """Some of it."""
        return Page(self.numbers[rows], self.scales[rows], self.vectors[rows])


@dataclass(frozen=True)
class Source:
    """The table as one transaction sees it: what it has `since` a mark, the `mark` of now, and how many rows it has."""

    since: Callable[[int], Iterator[Page]]
    mark: int
    count: Callable[[], int]


def page(rows: list[tuple[int, float, bytes]]) -> Page:
    """Rows of number, scale and vector."""
    import numpy as np

    vectors = np.frombuffer(b"".join([row[2] for row in rows]), np.int8).reshape(len(rows), -1)
    return Page(
        np.array([row[0] for row in rows], np.int64),
        np.array([row[1] for row in rows], np.float32),
        vectors,
    )


def cosines(vector: Vector, page: Page) -> Scores:
    """How near each row of a page is."""
    import numpy as np

    scores = np.empty(len(page.numbers), np.float32)
    numbers = np.empty((min(AT_ONCE, len(scores)), len(vector)), np.float32)
    for start in range(0, len(scores), AT_ONCE):
        some = page.vectors[start : start + AT_ONCE]
        np.copyto(numbers[: len(some)], some)
        np.dot(numbers[: len(some)], vector, out=scores[start : start + len(some)])
    scores *= page.scales
    return scores


class CachedVectors:
    """The vectors of one model and one owner."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.blocks: list[Page] = []
        self.used: list[int] = []
        self.mark = 0
        self.large = False
        self.charged = 0
        self.count_at = time.monotonic() + SECONDS_BETWEEN_COUNTS

    @property
    def bytes(self) -> int:
        """How much room it takes."""
        return EMPTY + sum(part.nbytes for block in self.blocks for part in block)

    def add(self, new: Page) -> None:
        """Put vectors at the end."""
        import numpy as np

        start = 0
        while start < len(new.numbers):
            if not self.blocks or self.used[-1] == len(self.blocks[-1].numbers):
                size = min(ROWS, max(64, sum(self.used), len(new.numbers) - start))
                width = new.vectors.shape[1]
                block = Page(
                    np.zeros(size, np.int64),
                    np.zeros(size, np.float32),
                    np.zeros((size, width), np.int8),
                )
                self.blocks.append(block)
                self.used.append(0)
            block, at = self.blocks[-1], self.used[-1]
            taken = min(len(block.numbers) - at, len(new.numbers) - start)
            some = new.of(slice(start, start + taken))
            block.numbers[at : at + taken] = some.numbers
            block.scales[at : at + taken] = some.scales
            block.vectors[at : at + taken] = some.vectors
            self.used[-1] += taken
            start += taken

    def pages(self) -> list[Page]:
        """What it has now; what is added later is not in them."""
        return [block.of(slice(used)) for block, used in zip(self.blocks, self.used, strict=True)]

    def follow(self, source: Source, most: int) -> list[Page] | None:
        """Take on what is new in the table; None if it grows too large. Nobody else is in here."""
        if time.monotonic() > self.count_at:
            self.count_at = time.monotonic() + SECONDS_BETWEEN_COUNTS
            if self.large or 5 * source.count() < 4 * sum(
                self.used
            ):  # it may fit by now; or many are gone
                self.mark, self.large = 0, False
        if self.large:
            return None
        if (
            not self.mark
        ):  # from the beginning; what a first reading brought that failed midway is forgotten
            self.blocks, self.used = [], []
        if source.mark >= self.mark:
            for new in source.since(self.mark):
                self.add(_without(new, self.pages()) if self.mark else new)
                if self.bytes > most:
                    self.blocks, self.used, self.mark, self.large = [], [], 0, True
                    return None
            self.mark = source.mark
        return self.pages()


def _without(new: Page, known: list[Page]) -> Page:
    """A page without the rows that are there already."""
    import numpy as np

    return (
        new.of(~np.isin(new.numbers, np.concatenate([page.numbers for page in known])))
        if known
        else new
    )


class VectorCache:
    """The shelves of one database; the ones used last stay."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._start_over()

    def _start_over(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._shelves: OrderedDict[tuple[str, str, Whose], CachedVectors] = OrderedDict()
        self.bytes = 0

    def scores(
        self, key: tuple[str, str, Whose], source: Source, vector: Vector, among: Numbers | None
    ) -> tuple[Numbers, Scores]:
        """The number and the cosine of every row of a shelf, or of those among some."""
        import numpy as np

        if (
            self._process != os.getpid()
        ):  # a forked child: its parent's locks may be held by threads it does not have
            self._start_over()
        pages: Iterator[Page] | list[Page] | None = self._pages(key, source)
        numbers, scores = [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
        for each in source.since(0) if pages is None else pages:
            some = each if among is None else _only(each, among)
            numbers.append(some.numbers)
            scores.append(cosines(vector, some))
        return np.concatenate(numbers), np.concatenate(scores)

    def _pages(self, key: tuple[str, str, Whose], source: Source) -> list[Page] | None:
        with self._lock:
            shelf = self._shelves.setdefault(key, CachedVectors())
            self._shelves.move_to_end(key)
        with shelf.lock:
            was_large = shelf.large
            pages = shelf.follow(source, self._most)
        if shelf.large and not was_large:
            log.warning(
                "the vectors of %s are over VECTOR_MEMORY_MIB: each search reads them from the database",
                key[0],
            )
        with self._lock:
            if self._shelves.get(key) is shelf:  # another search may have put it away meanwhile
                self.bytes += shelf.bytes - shelf.charged
                shelf.charged = shelf.bytes
            while self.bytes > self._most and len(self._shelves) > 1:
                self.bytes -= self._shelves.popitem(last=False)[1].charged
        return pages


def _only(page: Page, among: Numbers) -> Page:
    import numpy as np

    places = np.flatnonzero(np.isin(page.numbers, among))
    return page if len(places) == len(page.numbers) else page.of(places)

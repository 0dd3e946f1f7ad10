"""Vectors in memory, one byte per dimension, kept in step with the table and within a limit.

The cache never decides what may be seen. Deleted rows stay in it until a count of the table shows
that many are gone. Callers must check every row whose score they use.
"""

from __future__ import annotations

import functools
import logging
import math
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memorist.search.search_engine import Vector

    Numbers = NDArray[np.int64]
    Scores = NDArray[np.float32]
    Bytes = NDArray[np.int8]

log = logging.getLogger("memorist.search")
BLOCK_ROWS = 32_768
"""Maximum rows of a block. Blocks are never copied, so a million vectors need no second copy."""
ROWS_PER_TASK = 8192
"""Rows that a thread compares at a time."""
ROWS_PER_THREAD = 32_768
"""Rows for which another thread is started, if there is a core for it: they take about 1 ms."""
MAX_THREADS = 4
CHUNK_ROWS = 1024
"""Rows that are converted to floats at a time: as many as fit into the processor's cache."""
SCORES_PER_MAXIMUM = 64
"""Scores in a group whose maximum is compared first."""
SECONDS_BETWEEN_COUNTS = 300.0
EMPTY_BYTES = 1000
"""About the size of an entry without vectors: many users without any take memory too."""
EVERYBODY = "everybody"
NOBODY = "nobody"


class RowOwner(NamedTuple):
    """Owner of rows: one user, nobody (shared rows), or everybody."""

    kind: str
    user: str | None = None


class VectorBlock(NamedTuple):
    """Vectors of one length, as the table stores them."""

    numbers: Numbers
    scales: Scores
    vectors: Bytes
    is_ordered: bool = False  # True if the numbers are known to ascend

    def select(self, rows: slice | NDArray[Any]) -> VectorBlock:
        """Return some of the rows, in their order."""
        return VectorBlock(
            self.numbers[rows], self.scales[rows], self.vectors[rows], self.is_ordered
        )


@dataclass(frozen=True)
class StoredVectors:
    """The vectors in the table, as one transaction sees them."""

    since: Callable[[int], Iterator[VectorBlock]]  # vectors that were added since a mark
    mark: int  # the current mark
    newest: int  # vectors were added since a mark only if this is not below it
    count: Callable[[], int]  # number of vectors


def page(rows: Sequence[tuple[Any, ...]]) -> VectorBlock:
    """Return a page of rows that begin with number, scale and vector."""
    import numpy as np

    numbers, scales, vectors, *_ = zip(*rows, strict=True)
    return VectorBlock(
        np.array(numbers, np.int64),
        np.array(scales, np.float32),
        np.frombuffer(b"".join(vectors), np.int8).reshape(len(rows), -1),
    )


@functools.cache
def _byte_kernels() -> Any | None:
    """Return numkong, which multiplies vectors of bytes, or None if it is not installed."""
    try:
        import numkong
    except ImportError:
        return None
    return numkong


class Scan:
    """The cosines of one vector and many rows.

    With numkong, which the extra `server` installs, the vector is rounded to bytes, and comparing
    takes a fifth of the time. The cosines are then off by at most `_error`, and those of the best
    rows are computed again from floats. So the best rows are the same with and without it.
    """

    def __init__(self, vector: Vector) -> None:
        import numpy as np

        self._vector = vector
        self._kernels = _byte_kernels()
        self._pages: list[VectorBlock | None] = []
        self._numbers = [np.zeros(0, np.int64)]
        self._cosines = [np.zeros(0, np.float32)]
        self._tasks: list[tuple[VectorBlock, Scores]] = []  # pages, and where their cosines go
        self._error = 0.0
        if self._kernels is not None:
            self._scale = max(float(abs(vector).max()), 1e-12) / 127
            self._bytes = np.rint(vector / self._scale).astype(np.int8)
            # A row is a unit vector whose elements were rounded too.
            longest_row = 1 + math.sqrt(len(vector)) / (2 * 127)
            rounding_error = np.linalg.norm(vector - self._bytes * self._scale)
            self._error = float(rounding_error) * longest_row

    def add(self, page: VectorBlock, *, keep: bool) -> None:
        """Compare the rows of a page.

        keep: keep the page, for exact cosines later; only for pages that are cached anyway
        """
        import numpy as np

        if not len(page.numbers):
            return
        if keep:
            scores = np.empty(len(page.numbers), np.float32)
            for start in range(0, len(scores), ROWS_PER_TASK):
                rows = slice(start, start + ROWS_PER_TASK)
                self._tasks.append((page.select(rows), scores[rows]))
        else:
            scores = cosines(self._vector, page)
        self._pages.append(page if keep else None)
        self._numbers.append(page.numbers)
        self._cosines.append(scores)

    def _run_tasks(self) -> None:
        """Compare the pages that were kept, in several threads if there are many rows."""
        tasks = iter(self._tasks)
        row_count = sum(len(scores) for _, scores in self._tasks)
        self._tasks = []

        def work() -> None:
            for page, scores in tasks:  # each task is taken by one thread
                self._compare(page, scores)

        others = min(os.cpu_count() or 1, MAX_THREADS, 1 + row_count // ROWS_PER_THREAD) - 1
        if not others:
            work()
            return
        # A new pool each time, because its threads would be missing in the child of a fork.
        with ThreadPoolExecutor(others) as pool:
            futures = []
            with suppress(RuntimeError):  # no more threads can be started
                for _ in range(others):
                    futures.append(pool.submit(work))
            work()
            for future in futures:
                future.result()

    def _compare(self, page: VectorBlock, scores: Scores) -> None:
        import numpy as np

        if self._kernels is None:
            scores[:] = cosines(self._vector, page)
            return
        products = self._kernels.cdist(self._bytes[None], page.vectors, "dot", out_dtype="float32")
        scales = page.scales * np.float32(self._scale)
        np.multiply(np.asarray(products)[0], scales, out=scores)

    def __len__(self) -> int:
        return sum(map(len, self._numbers))

    def best(self, size: int) -> tuple[Numbers, Scores]:
        """Return number and cosine of the nearest rows; newest first among equals."""
        import numpy as np

        self._run_tasks()
        scores = np.concatenate(self._cosines)
        places = np.arange(len(scores))
        if size < len(scores):
            lowest = _nth_highest(scores, size)
            places = np.flatnonzero(scores >= lowest - 2 * self._error)
        numbers = np.concatenate(self._numbers)[places]
        exact = self._exact(places, scores) if self._error else scores[places]
        order = np.lexsort((-numbers, -exact))[:size]
        return numbers[order], exact[order]

    def _exact(self, places: NDArray[np.intp], scores: Scores) -> Scores:
        """Return the exact cosines of rows, given by their positions among all rows, ascending."""
        import numpy as np

        exact = scores[places]
        starts = np.cumsum([len(numbers) for numbers in self._numbers])
        bounds = np.searchsorted(places, starts).tolist()
        for index, page in enumerate(self._pages):
            inside = slice(bounds[index], bounds[index + 1])
            if page is not None and inside.start < inside.stop:
                exact[inside] = cosines(self._vector, page.select(places[inside] - starts[index]))
        return exact


def _nth_highest(scores: Scores, n: int) -> float:
    import numpy as np

    maxima = np.maximum.reduceat(scores, np.arange(0, len(scores), SCORES_PER_MAXIMUM))
    if n < len(maxima):
        # At least n scores reach the n-th highest maximum, so lower scores can be dropped. This is
        # eight times as fast.
        scores = scores[scores >= np.partition(maxima, -n)[-n]]
    return float(np.partition(scores, -n)[-n])


def cosines(vector: Vector, page: VectorBlock) -> Scores:
    """Return the cosine of each row of a page."""
    import numpy as np

    scores = np.empty(len(page.numbers), np.float32)
    numbers = np.empty((min(CHUNK_ROWS, len(scores)), len(vector)), np.float32)
    for start in range(0, len(scores), CHUNK_ROWS):
        some = page.vectors[start : start + CHUNK_ROWS]
        np.copyto(numbers[: len(some)], some)
        np.dot(numbers[: len(some)], vector, out=scores[start : start + len(some)])
    scores *= page.scales
    return scores


class CachedVectors:
    """The cached vectors of one model and one owner."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.blocks: list[VectorBlock] = []
        self.used: list[int] = []
        self.mark = 0
        self.large = False
        self.charged = 0
        self.count_at = time.monotonic() + SECONDS_BETWEEN_COUNTS

    @property
    def bytes(self) -> int:
        """Memory used, in bytes."""
        return EMPTY_BYTES + sum(
            block.numbers.nbytes + block.scales.nbytes + block.vectors.nbytes
            for block in self.blocks
        )

    def add(self, new: VectorBlock) -> None:
        """Append vectors."""
        import numpy as np

        start = 0
        while start < len(new.numbers):
            if not self.blocks or self.used[-1] == len(self.blocks[-1].numbers):
                size = min(BLOCK_ROWS, max(64, sum(self.used), len(new.numbers) - start))
                width = new.vectors.shape[1]
                block = VectorBlock(
                    np.zeros(size, np.int64),
                    np.zeros(size, np.float32),
                    np.zeros((size, width), np.int8),
                    is_ordered=True,
                )
                self.blocks.append(block)
                self.used.append(0)
            block = self.blocks[-1]
            at = self.used[-1]
            taken = min(len(block.numbers) - at, len(new.numbers) - start)
            some = new.select(slice(start, start + taken))
            block.numbers[at : at + taken] = some.numbers
            block.scales[at : at + taken] = some.scales
            block.vectors[at : at + taken] = some.vectors
            new_numbers = block.numbers[max(at - 1, 0) : at + taken]
            if not (new_numbers[1:] > new_numbers[:-1]).all():
                self.blocks[-1] = block._replace(is_ordered=False)
            self.used[-1] += taken
            start += taken

    def pages(self) -> list[VectorBlock]:
        """Return the current vectors, without those added later."""
        return [
            block.select(slice(used)) for block, used in zip(self.blocks, self.used, strict=True)
        ]

    def update(self, source: StoredVectors, max_bytes: int) -> list[VectorBlock] | None:
        """Read new vectors from the table; return all, or None if they take too much memory.

        The caller holds the lock.
        """
        if time.monotonic() > self.count_at:
            self.count_at = time.monotonic() + SECONDS_BETWEEN_COUNTS
            many_deleted = 5 * source.count() < 4 * sum(self.used)
            if self.large or many_deleted:
                self.mark = 0
                self.large = False
        if self.large:
            return None
        if not self.mark:
            # Start from the beginning; drop what a failed first read left behind.
            self._clear()
        if source.mark >= self.mark:
            is_newer = not self.mark or source.newest >= self.mark
            for new in source.since(self.mark) if is_newer else ():
                self.add(_exclude_known(new, self.pages()) if self.mark else new)
                if self.bytes > max_bytes:
                    self._clear()
                    self.mark = 0
                    self.large = True
                    return None
            self.mark = source.mark
        return self.pages()

    def _clear(self) -> None:
        self.blocks = []
        self.used = []


def _exclude_known(new: VectorBlock, known: list[VectorBlock]) -> VectorBlock:
    """Return a page without the rows that are already known."""
    import numpy as np

    return (
        new.select(~np.isin(new.numbers, np.concatenate([page.numbers for page in known])))
        if known
        else new
    )


class VectorCache:
    """The vector cache of one database. Evicts the least recently used entries."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._entries: OrderedDict[tuple[str, str, RowOwner], CachedVectors] = OrderedDict()
        self.bytes = 0

    def compare(
        self,
        scan: Scan,
        key: tuple[str, str, RowOwner],
        source: StoredVectors,
        among: Numbers | None = None,
    ) -> None:
        """Add every row of an entry to a scan.

        among: only these rows, in ascending order without duplicates
        """
        if self._process != os.getpid():
            # In a forked child, locks may be held by threads that exist only in the parent.
            self._reset()
        pages: Iterator[VectorBlock] | list[VectorBlock] | None = self._pages(key, source)
        is_cached = pages is not None
        for page in source.since(0) if pages is None else pages:
            scan.add(page if among is None else _only(page, among), keep=is_cached)

    def lookup(self, key: tuple[str, str, RowOwner], numbers: Sequence[int]) -> list[VectorBlock]:
        """Return those of the rows that an entry has in memory.

        numbers: without duplicates
        """
        import numpy as np

        entry = self._entries.get(key)
        if entry is None or self._process != os.getpid():
            return []
        with entry.lock:
            pages = entry.pages()
        wanted = np.sort(np.array(numbers, np.int64))
        return [page.select(places) for page in pages if len(places := _find(page, wanted))]

    def _pages(
        self, key: tuple[str, str, RowOwner], source: StoredVectors
    ) -> list[VectorBlock] | None:
        with self._lock:
            entry = self._entries.setdefault(key, CachedVectors())
            self._entries.move_to_end(key)
        with entry.lock:
            was_large = entry.large
            pages = entry.update(source, self._max_bytes)
        if entry.large and not was_large:
            log.warning(
                "The vectors of %s exceed VECTOR_MEMORY_MIB; each search reads them from the database.",
                key[0],
            )
        with self._lock:
            if self._entries.get(key) is entry:  # it may have been evicted meanwhile
                self.bytes += entry.bytes - entry.charged
                entry.charged = entry.bytes
            while self.bytes > self._max_bytes and len(self._entries) > 1:
                self.bytes -= self._entries.popitem(last=False)[1].charged
        return pages


def _only(page: VectorBlock, among: Numbers) -> VectorBlock:
    places = _find(page, among)
    return page if len(places) == len(page.numbers) else page.select(places)


def _find(page: VectorBlock, wanted: Numbers) -> NDArray[np.intp]:
    """Return the places of wanted rows in a page, in ascending order.

    wanted: ascending, without duplicates
    """
    import numpy as np

    numbers = page.numbers
    if not len(numbers) or not page.is_ordered:
        return np.flatnonzero(np.isin(numbers, wanted))
    low, high = np.searchsorted(wanted, (numbers[0], numbers[-1] + 1)).tolist()
    within = wanted[low:high]
    if len(within) > len(numbers) // 8:  # then looking up each takes longer
        return np.flatnonzero(np.isin(numbers, within, assume_unique=True))
    places = np.searchsorted(numbers, within)
    present: NDArray[np.intp] = places[numbers[places] == within]
    return present

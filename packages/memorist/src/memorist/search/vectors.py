"""Vectors of documents: rows of up to 256 in the database, and arrays in memory that are compared.

A vector has one signed byte per dimension and a scale. The number of its document is stable within
the owner, so segments can merge without touching vectors.
"""

from __future__ import annotations

import functools
import math
import os
import struct
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memorist.search.segment import Array

    Vector = NDArray[np.float32]
    Scores = NDArray[np.float32]

MAX_VECTORS_PER_ROW = 256
BLOCK_ROWS = 32_768
"""Maximum rows of an array in memory."""
ROWS_PER_TASK = 8192
"""Rows that a thread compares at a time."""
ROWS_PER_THREAD = 32_768
"""Rows for which another thread is started, if there is a core for it: they take about 1 ms."""
MAX_THREADS = 4
CHUNK_ROWS = 1024
"""Rows that are converted to floats at a time: as many as fit into the processor's cache."""
_HEADER = struct.Struct("<II")  # number of vectors, checksum of it and the rest


class VectorRows(NamedTuple):
    """Vectors with the numbers of their documents."""

    numbers: Array
    scales: Array
    vectors: Array

    def select(self, rows: Any) -> VectorRows:
        """Return some of the vectors."""
        return VectorRows(self.numbers[rows], self.scales[rows], self.vectors[rows])


def pack(rows: VectorRows) -> bytes:
    """Return vectors as a row of the database has them."""
    body = (
        rows.numbers.astype("<u4").tobytes()
        + rows.scales.astype("<f4").tobytes()
        + rows.vectors.tobytes()
    )
    count = len(rows.numbers)
    return _HEADER.pack(count, _checksum(count, body)) + body


def _checksum(count: int, body: bytes | memoryview) -> int:
    return zlib.crc32(body, count)


def unpack(raw: bytes) -> VectorRows | None:
    """Return the vectors of a row; None if it is damaged."""
    import numpy as np

    if len(raw) < _HEADER.size:
        return None
    count, checksum = _HEADER.unpack_from(raw)
    body = memoryview(raw)[_HEADER.size :]
    if not count or _checksum(count, body) != checksum:
        return None
    return VectorRows(
        np.frombuffer(body, "<u4", count),
        np.frombuffer(body, "<f4", count, 4 * count),
        np.frombuffer(body, np.int8, offset=8 * count).reshape(count, -1),
    )


def join(pieces: Sequence[VectorRows]) -> VectorRows:
    """Return the vectors of several rows, one after the other."""
    import numpy as np

    columns = [np.concatenate(column) for column in zip(*pieces, strict=True)]
    return VectorRows(*columns)


@dataclass(frozen=True)
class OwnerVectors:
    """All vectors of an owner and a model, in memory."""

    pages: tuple[VectorRows, ...]
    row_of_number: Array  # -1 for documents without a vector
    nbytes: int

    @classmethod
    def of(
        cls, pieces: Mapping[str, VectorRows], top: int
    ) -> tuple[OwnerVectors, dict[str, VectorRows]]:
        """Return vectors for quick comparison, and the pieces as views of their memory.

        top: a number above those of all documents
        """
        import numpy as np

        groups: list[list[str]] = [[]]
        count = 0
        for id, piece in pieces.items():
            if count >= BLOCK_ROWS:
                groups.append([])
                count = 0
            groups[-1].append(id)
            count += len(piece.numbers)
        rows: list[VectorRows] = []
        views: dict[str, VectorRows] = {}
        for group in filter(None, groups):
            page = join([pieces[id] for id in group])
            rows.append(page)
            start = 0
            for id in group:
                end = start + len(pieces[id].numbers)
                views[id] = page.select(slice(start, end))
                start = end
        row_of_number = np.full(top, -1, np.int32)
        first = 0
        for page in rows:
            numbers = page.numbers
            inside = numbers < top
            places = np.arange(first, first + len(numbers), dtype=np.int32)
            row_of_number[numbers[inside]] = places[inside]
            first += len(numbers)
        size = sum(array.nbytes for page in rows for array in page) + row_of_number.nbytes
        return cls(tuple(rows), row_of_number, size), views

    def rows_of(self, numbers: Array) -> Array:
        """Return the row of each document, -1 if it has no vector."""
        import numpy as np

        known = numbers < len(self.row_of_number)
        rows = np.full(len(numbers), -1, np.int32)
        rows[known] = self.row_of_number[numbers[known]]
        return rows

    def approximate(self, vector: Vector) -> tuple[Scores, float]:
        """Return the cosine of every row, and by how much it may be wrong.

        With numkong, which the extra `server` installs, the vector is rounded to bytes, and
        comparing takes a fifth of the time.
        """
        import numpy as np

        total = sum(len(page.numbers) for page in self.pages)
        scores = np.empty(total, np.float32)
        kernels = _byte_kernels()
        tasks = []
        first = 0
        for page in self.pages:
            for start in range(0, len(page.numbers), ROWS_PER_TASK):
                part = page.select(slice(start, start + ROWS_PER_TASK))
                at = first + start
                tasks.append((part, scores[at : at + len(part.numbers)]))
            first += len(page.numbers)
        if kernels is None:
            _run(tasks, lambda part, out: _exact(vector, part, out), total)
            return scores, 0.0
        scale = max(float(abs(vector).max()), 1e-12) / 127
        rounded = np.rint(vector / scale).astype(np.int8)
        # A row is a unit vector whose elements were rounded too.
        longest_row = 1 + math.sqrt(len(vector)) / (2 * 127)
        error = float(np.linalg.norm(vector - rounded * scale)) * longest_row

        def compare(part: VectorRows, out: Scores) -> None:
            products = kernels.cdist(rounded[None], part.vectors, "dot", out_dtype="float32")
            np.multiply(np.asarray(products)[0], part.scales * np.float32(scale), out=out)

        _run(tasks, compare, total)
        return scores, error

    def exact(self, vector: Vector, rows: Array) -> Scores:
        """Return the exact cosine of some rows."""
        import numpy as np

        scores = np.empty(len(rows), np.float32)
        first = 0
        for page in self.pages:
            inside = np.flatnonzero((rows >= first) & (rows < first + len(page.numbers)))
            if len(inside):
                part = page.select(rows[inside] - first)
                out = np.empty(len(inside), np.float32)
                _exact(vector, part, out)
                scores[inside] = out
            first += len(page.numbers)
        return scores


def _exact(vector: Vector, part: VectorRows, out: Scores) -> None:
    import numpy as np

    floats = np.empty((min(CHUNK_ROWS, len(out)), len(vector)), np.float32)
    for start in range(0, len(out), CHUNK_ROWS):
        some = part.vectors[start : start + CHUNK_ROWS]
        np.copyto(floats[: len(some)], some)
        np.dot(floats[: len(some)], vector, out=out[start : start + len(some)])
    out *= part.scales


def _run(tasks: Sequence[tuple[VectorRows, Scores]], compare: Any, row_count: int) -> None:
    """Compare all tasks, in several threads if there are many rows."""
    waiting = iter(tasks)

    def work() -> None:
        for part, out in waiting:  # each task is taken by one thread
            compare(part, out)

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


@functools.cache
def _byte_kernels() -> Any | None:
    """Return numkong, which multiplies vectors of bytes, or None if it is not installed."""
    try:
        import numkong
    except ImportError:
        return None
    return numkong

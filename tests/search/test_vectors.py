"""The vector cache: in step with its table, within its limit, per process."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from memorist.search.vector_cache import (
    NOBODY,
    RowOwner,
    Scan,
    StoredVectors,
    VectorBlock,
    VectorCache,
    page,
)

from memorist.search import vector_cache
from memorist.search.embedders import quantise
from testkit.embedders import directions

KEY = ("acme", "test@1", RowOwner(NOBODY))


class Table:
    """A growing table of vectors."""

    def __init__(self, size: int = 0) -> None:
        self.vectors: Any = (directions(5000, 64) * 127).astype(np.int8)
        self.numbers = list(range(1, size + 1))
        self.read = 0
        self.reads = 0

    def source(self) -> StoredVectors:
        def since(mark: int) -> Iterator[VectorBlock]:
            self.reads += 1
            result = np.array([number for number in self.numbers if number >= mark], np.int64)
            self.read += len(result)
            for start in range(0, len(result), 700):
                some = result[start : start + 700]
                yield VectorBlock(
                    some, np.full(len(some), 1 / 127, np.float32), self.vectors[some - 1]
                )

        newest = max(self.numbers, default=0)
        return StoredVectors(since, newest + 1, newest, lambda: len(self.numbers))

    def scores(self, cache: VectorCache, among: Any = None, key: Any = KEY) -> dict[int, float]:
        question = self.vectors[6] / np.float32(127)
        scan = Scan(question)
        cache.compare(scan, key, self.source(), among)
        numbers, scores = scan.best(len(scan))
        result = dict(zip(numbers.tolist(), scores.tolist(), strict=True))
        return {number: result[number] for number in sorted(result)}


def test_only_new_rows_are_read() -> None:
    table, cache = Table(3000), VectorCache(1 << 30)
    assert len(table.scores(cache)) == 3000
    table.numbers += [3001, 3002]
    result = table.scores(cache)
    assert list(result) == table.numbers
    assert table.read == 3002
    assert table.reads == 2
    assert table.scores(cache) == result
    assert table.reads == 2  # the marks show that nothing is new
    assert max(result, key=lambda number: result[number]) == 7
    assert list(table.scores(cache, np.array([7, 2999, 4000]))) == [7, 2999]


@pytest.mark.parametrize("seed", range(5))
def test_the_best_rows_are_the_same_without_the_library(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Bytes only preselect; the cosines of the best rows are exact."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(3000, 64))
    vectors[1000:] = vectors[0] + 0.01 * vectors[1000:]  # many nearly equal ones
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = [
        (number, scale, small)
        for number, (scale, small) in enumerate(quantise(vectors.astype(np.float32)), 1)
    ]
    question = (vectors[0] + vectors[1]).astype(np.float32)

    def best(size: int) -> tuple[list[int], Any]:
        scan = Scan(question)
        for start in range(0, 3000, 1000):
            scan.add(page(rows[start : start + 1000]), keep=True)
        numbers, scores = scan.best(size)
        return numbers.tolist(), scores

    sizes = (1, 125, 2999, 3000, 4000)
    rounded = [best(size) for size in sizes]
    monkeypatch.setattr(vector_cache, "_byte_kernels", lambda: None)
    for size, (numbers, scores) in zip(sizes, rounded, strict=True):
        exact_numbers, exact_scores = best(size)
        assert numbers == exact_numbers
        assert np.allclose(scores, exact_scores, atol=1e-6)


@pytest.mark.parametrize("ascending", [True, False])
def test_rows_in_memory_are_found_by_number(ascending: bool) -> None:
    table, cache = Table(3000), VectorCache(1 << 30)
    if not ascending:
        table.numbers.reverse()
    assert cache.lookup(KEY, [1, 2]) == []
    table.scores(cache)
    pages = cache.lookup(KEY, [2, 2999, 7, 4000, -1])
    assert sorted(number for part in pages for number in part.numbers.tolist()) == [2, 7, 2999]
    for part in pages:
        assert (part.vectors == table.vectors[part.numbers - 1]).all()


def test_several_threads_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(3000)
    alone = table.scores(VectorCache(1 << 30))
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(vector_cache, "ROWS_PER_THREAD", 500)
    monkeypatch.setattr(vector_cache, "ROWS_PER_TASK", 70)
    threads = set()
    compare = Scan._compare

    def record(self: Scan, *arguments: Any) -> None:
        threads.add(threading.get_ident())
        time.sleep(0.001)
        compare(self, *arguments)

    monkeypatch.setattr(Scan, "_compare", record)
    assert table.scores(VectorCache(1 << 30)) == alone
    assert len(threads) == 4


def test_one_thread_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(3000)
    alone = table.scores(VectorCache(1 << 30))
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(vector_cache, "ROWS_PER_THREAD", 500)

    def fail(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    assert table.scores(VectorCache(1 << 30)) == alone


def test_an_error_in_a_thread_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(vector_cache, "ROWS_PER_THREAD", 500)
    monkeypatch.setattr(vector_cache, "ROWS_PER_TASK", 70)
    main = threading.get_ident()

    def fail(self: Scan, page: VectorBlock, scores: Any) -> None:
        time.sleep(0.001)
        if threading.get_ident() != main:
            raise MemoryError

    monkeypatch.setattr(Scan, "_compare", fail)
    with pytest.raises(MemoryError):
        Table(3000).scores(VectorCache(1 << 30))


def test_vectors_beyond_the_limit_are_read_each_time(caplog: pytest.LogCaptureFixture) -> None:
    table, small, large = Table(3000), VectorCache(1000), VectorCache(1 << 30)
    assert table.scores(small) == table.scores(large)
    assert table.scores(small) == table.scores(large)
    assert small.bytes <= vector_cache.EMPTY_BYTES
    assert caplog.text.count("VECTOR_MEMORY_MIB") == 1


def test_least_recently_used_entries_are_evicted() -> None:
    table, cache = Table(1000), VectorCache(200_000)
    keys = [("acme", "test@1", RowOwner("user", name)) for name in "abcd"]
    for key in keys:
        table.scores(cache, key=key)
    assert 0 < cache.bytes <= 200_000
    table.read = 0
    table.scores(cache, key=keys[3])
    assert table.read == 0
    table.scores(cache, key=keys[0])
    assert table.read == 1000


def test_many_removed_rows_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_cache, "SECONDS_BETWEEN_COUNTS", 0.0)
    table, cache = Table(1000), VectorCache(1 << 30)
    table.scores(cache)
    table.numbers = table.numbers[500:]
    assert list(table.scores(cache)) == table.numbers


def test_memory_usage_is_tracked() -> None:
    table, cache = Table(1000), VectorCache(300_000)
    for n in range(2000):
        table.numbers = list(range(1, 1 + n % 40))
        table.scores(cache, key=("acme", "test@1", RowOwner("user", str(n))))
    stored = cache._entries.values()
    assert cache.bytes == sum(shelf.bytes for shelf in stored) <= 300_000
    table.numbers = []
    for n in range(2000):  # an entry without vectors takes some memory too
        table.scores(cache, key=("acme", "test@1", RowOwner("user", f"none {n}")))
    assert len(stored) <= 300_000 // vector_cache.EMPTY_BYTES


def failing(source: StoredVectors) -> StoredVectors:
    """Return a source that fails after its first page."""

    def since(mark: int) -> Iterator[VectorBlock]:
        yield next(source.since(mark))
        raise ConnectionError

    return StoredVectors(since, source.mark, source.newest, source.count)


def test_a_failed_first_read_starts_over(monkeypatch: pytest.MonkeyPatch) -> None:
    table, cache = Table(3000), VectorCache(1 << 30)
    whole = table.source
    monkeypatch.setattr(table, "source", lambda: failing(whole()))
    with pytest.raises(ConnectionError):
        table.scores(cache)
    monkeypatch.setattr(table, "source", whole)
    result = table.scores(cache)
    assert list(result) == table.numbers


def test_a_failed_second_read_starts_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """After many rows were removed."""
    monkeypatch.setattr(vector_cache, "SECONDS_BETWEEN_COUNTS", 0.0)
    table, cache = Table(4000), VectorCache(1 << 30)
    table.scores(cache)
    table.numbers = table.numbers[2000:]
    whole = table.source
    monkeypatch.setattr(table, "source", lambda: failing(whole()))
    with pytest.raises(ConnectionError):
        table.scores(cache)
    monkeypatch.setattr(table, "source", whole)
    assert list(table.scores(cache)) == table.numbers


def test_entries_are_cached_once_they_fit() -> None:
    table, cache = Table(3000), VectorCache(100_000)
    table.scores(cache)
    table.numbers, table.read = table.numbers[:500], 0
    cache._entries[KEY].count_at = 0.0  # five minutes later
    assert list(table.scores(cache)) == list(table.scores(cache)) == table.numbers
    assert table.read == 500


def test_a_forked_child_starts_empty() -> None:
    table, cache = Table(1000), VectorCache(1 << 30)
    table.scores(cache)
    cache._lock.acquire()  # as held by a thread that the child does not have
    if not (child := os.fork()):
        table.read = 0
        os._exit(0 if len(table.scores(cache)) == 1000 == table.read else 1)
    assert os.waitpid(child, 0)[1] == 0

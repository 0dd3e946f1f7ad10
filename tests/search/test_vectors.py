"""Vectors as rows of the database, and as arrays in memory that are compared with a question."""

from __future__ import annotations

import math
import os
import threading
import time
from typing import Any

import numpy as np
import pytest

from memorist.search import vectors
from memorist.search.embedders import quantise
from memorist.search.vectors import OwnerVectors, VectorRows, join, pack, unpack
from testkit.embedders import directions

WIDTH = 64


def rows_of(unit: Any, first: int = 0) -> VectorRows:
    """Return unit vectors as the database has them, with the numbers from `first` on."""
    scales, small = zip(*quantise(np.asarray(unit, np.float32)), strict=True)
    numbers = np.arange(first, first + len(scales), dtype=np.uint32)
    table = np.frombuffer(b"".join(small), np.int8).reshape(len(scales), -1)
    return VectorRows(numbers, np.array(scales, np.float32), table)


def are_equal(left: VectorRows, right: VectorRows) -> bool:
    return all(map(np.array_equal, left, right))


def cosines(rows: VectorRows, question: Any) -> Any:
    return (rows.vectors.astype(np.float64) * rows.scales[:, None]) @ question


@pytest.mark.parametrize("count", [1, 2, 256])
@pytest.mark.parametrize("width", [1, 7, 64, 384])
def test_a_row_is_read_as_it_was_written(count: int, width: int) -> None:
    rows = rows_of(directions(count, width), 70_000)
    stored = unpack(pack(rows))
    assert stored is not None
    assert are_equal(stored, rows)
    assert stored.vectors.shape == (count, width)


def test_a_damaged_row_has_no_vectors() -> None:
    raw = pack(rows_of(directions(3, WIDTH)))
    for place in range(4, len(raw), 5):
        assert unpack(raw[:place] + bytes([raw[place] ^ 4]) + raw[place + 1 :]) is None, place
    for length in (0, 7, 8, 9, len(raw) - 1):
        assert unpack(raw[:length]) is None, length


@pytest.mark.parametrize("count", [0, 1, 2, 4, 300])
def test_a_row_with_a_wrong_number_of_vectors_has_none(count: int) -> None:
    raw = pack(rows_of(directions(3, WIDTH)))
    assert unpack(count.to_bytes(4, "little") + raw[4:]) is None


def test_rows_are_joined_in_their_order() -> None:
    whole = rows_of(directions(10, WIDTH))
    parts = [whole.select(slice(0, 3)), whole.select(slice(3, 4)), whole.select(slice(4, 10))]
    assert are_equal(join(parts), whole)


@pytest.mark.parametrize("page_rows", [1, 100, 32_768])
def test_pieces_become_views_of_a_few_pages(
    monkeypatch: pytest.MonkeyPatch, page_rows: int
) -> None:
    monkeypatch.setattr(vectors, "BLOCK_ROWS", page_rows)
    whole = rows_of(directions(300, WIDTH))
    pieces = {name: whole.select(slice(n * 50, n * 50 + 50)) for n, name in enumerate("abcdef")}
    loaded, views = OwnerVectors.of(pieces, 299)  # the last document is not in the index yet
    assert len(loaded.pages) == {1: 6, 100: 3, 32_768: 1}[page_rows]
    assert list(views) == list(pieces)
    for name, view in views.items():
        assert are_equal(view, pieces[name])
        assert any(np.shares_memory(view.vectors, page.vectors) for page in loaded.pages)
    wanted = np.array([0, 298, 299, 50, 1000])
    assert loaded.rows_of(wanted).tolist() == [0, 298, -1, 50, -1]
    question = directions(1, WIDTH)[0]
    places = np.array([299, 0, 150, 51])
    assert np.allclose(loaded.exact(question, places), cosines(whole, question)[places], atol=1e-6)


@pytest.mark.parametrize("width", [7, 64, 384])
@pytest.mark.parametrize("page_rows", [700, 32_768])
def test_the_best_rows_are_the_same_without_the_library(
    monkeypatch: pytest.MonkeyPatch, width: int, page_rows: int
) -> None:
    """The rounded cosines are only off by the returned error, so they preselect the best."""
    monkeypatch.setattr(vectors, "BLOCK_ROWS", page_rows)
    unit = directions(3000, width).astype(np.float64)
    unit[1000:] = unit[0] + 0.01 * unit[1000:]  # many nearly equal ones
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    question = (unit[0] + unit[1]).astype(np.float32)
    question /= np.linalg.norm(question)
    whole = rows_of(unit)
    pieces = {str(n): whole.select(slice(n, n + 250)) for n in range(0, 3000, 250)}
    loaded, _ = OwnerVectors.of(pieces, 3000)
    rounded, error = loaded.approximate(question)
    monkeypatch.setattr(vectors, "_byte_kernels", lambda: None)
    exact, no_error = loaded.approximate(question)
    assert no_error == 0
    assert np.allclose(exact, cosines(whole, question), atol=1e-5)
    assert abs(rounded - exact).max() <= error + 1e-6
    for size in (1, 125, 2999):
        lowest = np.partition(rounded, -size)[-size]
        near = np.flatnonzero(rounded >= lowest - 2 * error)
        best = near[np.argsort(-loaded.exact(question, near), kind="stable")][:size]
        assert best.tolist() == np.argsort(-exact, kind="stable")[:size].tolist()


@pytest.mark.parametrize("has_threads", [True, False])
def test_several_threads_compute_the_same(
    monkeypatch: pytest.MonkeyPatch, has_threads: bool
) -> None:
    loaded, _ = OwnerVectors.of({"a": rows_of(directions(3000, WIDTH))}, 3000)
    question = directions(1, WIDTH)[0]
    alone, error = loaded.approximate(question)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(vectors, "ROWS_PER_THREAD", 500)
    monkeypatch.setattr(vectors, "ROWS_PER_TASK", 70)
    if not has_threads:
        monkeypatch.setattr(threading.Thread, "start", _fail)
    assert np.array_equal(loaded.approximate(question)[0], alone)
    assert 0 <= error < 1 / math.sqrt(WIDTH)


def _fail(*_: object) -> None:
    raise RuntimeError("can't start new thread")


def test_an_error_in_a_thread_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    main = threading.get_ident()

    def fail(part: VectorRows, out: Any) -> None:
        time.sleep(0.001)
        if threading.get_ident() != main:
            raise MemoryError

    rows = rows_of(directions(1, WIDTH))
    with pytest.raises(MemoryError):
        vectors._run([(rows, rows.scales)] * 100, fail, 1_000_000)

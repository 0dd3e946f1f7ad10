"""Digests of candidates: what they hold, and how much memory their cache takes."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from retain.search.candidates import ENTRY_BYTES, MAX_CACHED_BYTES, DigestCache, digest
from retain.search.features import _WordCounts
from retain.search.search_engine import Item

TEXT = "The train to Bern leaves at seven past nine; I would like a seat by the window, please."


def item(number: int, text: str = TEXT) -> Item:
    return Item("messages", "s", text, 1_790_000_000_000_000 + number, seq=number, number=number)


def packed_words(text: str) -> bytes:
    return digest("", "", text, None).words


def test_the_occurrences_of_words_are_counted_per_candidate() -> None:
    texts = ["red green red", "", "black", "red " * 300]
    counts = _WordCounts([packed_words(text) for text in texts]).of(["red", "black", "pink", "red"])
    assert counts.tolist() == [[2, 0, 0, 2], [0, 0, 0, 0], [0, 1, 0, 0], [255, 0, 0, 255]]


@pytest.mark.parametrize("packed", [[], [packed_words("")]])
def test_nothing_is_counted_without_words(packed: list[bytes]) -> None:
    assert not _WordCounts(packed).of(["red"]).any()
    assert _WordCounts(packed).of([]).shape == (len(packed), 0)


def test_a_cached_digest_takes_at_most_as_many_bytes_as_are_charged() -> None:
    """A message of 20 words took over 1,000 bytes as a dictionary."""
    cache = DigestCache()
    cache.get(item(0))
    charged = cache.bytes
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(1, 5001):
            cache.get(item(number))
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert charged < 400
    assert taken <= 5000 * charged


def test_the_digest_cache_is_bounded_and_keeps_the_newer_half() -> None:
    size = ENTRY_BYTES + len(digest("", "", "red", 0).words)
    cache = DigestCache(max_bytes=100 * size)
    for number in range(1000):
        cache.get(item(number, "red"))
        assert cache.bytes <= 100 * size
        assert cache.bytes == sum(
            ENTRY_BYTES + len(element.words) for element in cache._digests.values()
        )
    newest = cache.get(item(999, "red"))
    assert cache.get(item(999, "red")) is newest
    assert len(cache._digests) >= 50
    assert MAX_CACHED_BYTES <= 16 << 20

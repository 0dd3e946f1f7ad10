"""Embedders for tests: one that hashes words, one that fails."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from memorist import Memory
from memorist.base.errors import ModelUnavailable
from memorist.search.embedders import Embedder, Family
from testkit.databases import SETTINGS

if TYPE_CHECKING:
    from memorist.search.embedders import Matrix


class Hashing:
    """An embedder for tests: each word is a direction, so texts with common words are similar."""

    def __init__(self, name: str = "hashing", dimensions: int = 64) -> None:
        self.identity, self.dimensions = f"{name}-{dimensions}", dimensions
        self.family: Family = "static"
        self.embedded = 0

    def embed(self, texts: Sequence[str]) -> Matrix:
        import numpy as np

        self.embedded += len(texts)
        created = np.full((len(texts), self.dimensions), 1e-3, np.float32)
        for place, text in enumerate(texts):
            for word in text.lower().split():
                created[
                    place,
                    zlib.crc32(f"{self.identity}{word.strip('.,?!')}".encode()) % self.dimensions,
                ] += 1
        return np.asarray(created / np.linalg.norm(created, axis=1, keepdims=True), np.float32)


class FailingEmbedder(Hashing):
    """An embedder that always fails."""

    def embed(self, texts: Sequence[str]) -> Matrix:
        raise ModelUnavailable(model=self.identity, problem="it is configured to fail")


def word(number: int) -> str:
    """Return a word of letters only, unique per number."""
    return "z" + "".join("bcdfghjkmp"[int(digit)] for digit in f"{number:03}")


def opened(url: str, embedder: Embedder, **changes: Any) -> Memory:
    return Memory.open(url, settings=replace(SETTINGS, **changes), embedder=embedder)


def directions(count: int, size: int = 64, seed: int = 1) -> Any:
    """Return vectors of length 1."""
    created = np.random.default_rng(seed).normal(size=(count, size)).astype(np.float32)
    return created / np.linalg.norm(created, axis=1, keepdims=True)

"""An embedder for tests: the same vector for the same text, and failures on request."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Literal

from memorist.base.errors import ModelUnavailable


def vector(text: str, dimension: int) -> list[float]:
    """Return the vector of a text: of length 1, and always the same for the same text."""
    bits = hashlib.shake_256(text.encode("utf-8", "surrogatepass")).digest(dimension)
    length = sum((byte - 127.5) ** 2 for byte in bits) ** 0.5
    return [(byte - 127.5) / length for byte in bits]


class FakeEmbedder:
    """An embedder that gives each text its own vector; `batches` lists the texts of each call.

    It fails for texts for which `fails` returns True. `how` selects the failure: `error`,
    `unavailable`, `wrong-dimension`, `wrong-count`, `nan` or `zero`.
    """

    def __init__(
        self,
        dimensions: int = 16,
        *,
        name: str = "fake",
        fails: Callable[[str], bool] = lambda text: False,
        how: str = "error",
        family: Literal["static", "strong"] = "static",
    ) -> None:
        self.identity = f"{name}-{dimensions}@1"
        self.dimensions = dimensions
        self.family = family
        self.fails = fails
        self.how = how
        self.batches: list[list[str]] = []

    def embed(self, texts: Sequence[str]) -> Any:
        """Return a vector for each text, or fail in the way that `how` selects."""
        import numpy as np

        self.batches.append(list(texts))
        vectors = np.array([vector(text, self.dimensions) for text in texts], np.float32)
        failing = [index for index, text in enumerate(texts) if self.fails(text)]
        if not failing:
            return vectors
        if self.how == "error":
            raise ValueError("it is configured to fail")
        if self.how == "unavailable":
            raise ModelUnavailable(model=self.identity, problem="it is configured to fail")
        if self.how == "wrong-dimension":
            return vectors[:, 1:]
        if self.how == "wrong-count":
            return vectors[1:]
        vectors[failing] = np.nan if self.how == "nan" else 0
        return vectors

"""The built-in embedder: it knows words, needs nothing but numpy, and takes microseconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class StaticEmbedder:
    """The mean of the vectors of a text's pieces."""

    family: Literal["static"] = "static"
    dimensions = 256
    identity = "static-256@1"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A vector of length 1 for each text."""
        raise NotImplementedError

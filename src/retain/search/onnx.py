"""Any sentence encoder that lies in a folder as ONNX beside its `tokenizer.json`, run on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class OnnxEmbedder:
    """A sentence encoder: the mean of what it makes of each token."""

    family: Literal["strong"] = "strong"

    def __init__(self, folder: str = "") -> None:
        self._folder = folder

    @property
    def identity(self) -> str:
        """Which model this is."""
        raise NotImplementedError

    @property
    def dimensions(self) -> int:
        """How long each vector is."""
        raise NotImplementedError

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A vector of length 1 for each text."""
        raise NotImplementedError

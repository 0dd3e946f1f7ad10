"""An OpenAI-compatible embedding service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class ServiceEmbedder:
    """A model behind a service, by name."""

    family: Literal["strong"] = "strong"

    def __init__(
        self, model: str, base_url: str, api_key: str, dimensions: int, seconds: float, retries: int, pause: float
    ) -> None:
        self.model = model

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

    def metered(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], int]:
        """The same, and how many tokens the service says it took."""
        raise NotImplementedError

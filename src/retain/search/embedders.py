"""Meaning as numbers: what every embedder offers, and which one the settings choose.

Nothing heavy happens here: libraries and weights are loaded when a text is first embedded. An embedder is never trusted:
whatever it gives goes through `checked`, so that no vector is stored or compared that is not one.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from retain.base import limits
from retain.base.errors import BadAnswer, ModelError, RetainError, SettingsError
from retain.base.settings import Settings
from retain.search.onnx_embedder import OnnxEmbedder
from retain.search.service_embedder import OPENAI_BASE_URL, ServiceEmbedder
from retain.search.static_embedder import StaticEmbedder
from retain.storage.tables import Check

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]
    """One row for each text."""

Family = Literal["static", "strong"]
"""How much the scores of an embedder mean: `static` ones know words, `strong` ones sentences."""
CHECKS = (
    Check(
        "all vectors of one model are equally long, and none is empty (`retain jobs` makes them anew)",
        """select model from search_vectors where tenant = :tenant group by model
           having min(length(vector)) <> max(length(vector)) or min(length(vector)) = 0""",
    ),
    Check(
        "every vector is one of a row that is there",
        """select 'a vector for row ' || search_vectors.number || ', which is not there' from search_vectors
           left join search_items on search_items.tenant = :tenant and search_items.number = search_vectors.number
           where search_vectors.tenant = :tenant and search_items.number is null limit 100""",
    ),
)


class Embedder(Protocol):
    """Something that turns texts into vectors: near in meaning, near in direction."""

    @property
    def identity(self) -> str:
        """Which model this is, with its version and dimension: vectors of two identities are never compared."""
        ...

    @property
    def dimensions(self) -> int:
        """How long each vector is."""
        ...

    @property
    def family(self) -> Family:
        """Whether it knows words or sentences."""
        ...

    def embed(self, texts: Sequence[str]) -> Matrix:
        """A vector of length 1 for each text, as rows; or a ModelError, or a SettingsError that says what to install."""
        ...


def choose(settings: Settings) -> Embedder | None:
    """The embedder that the settings name, the same one each time; None where they name none."""
    if settings.embedder == "none":
        return None
    if settings.embedder == "service":
        url = settings.embedding_base_url or settings.base_url or OPENAI_BASE_URL
        return _service(
            settings.embedding_model,
            url,
            settings.embedding_api_key or _shared_key(settings, url),
            0,
            settings.model_seconds,
            limits.MODEL_RETRIES,
            limits.MODEL_PAUSE_SECONDS,
        )
    if settings.embedder == "minilm":
        return _onnx(settings.embedding_model)
    if settings.embedding_model:
        raise SettingsError(
            where="embedding_model",
            problem=f"is not used by `embedder: {settings.embedder}`; set `embedder: minilm` or `service`",
        )
    return _static()


def _shared_key(settings: Settings, url: str) -> str:
    """The key of the main model, if this is its service; another service must not see it."""
    if url.rstrip("/") != (settings.base_url or OPENAI_BASE_URL).rstrip("/"):
        return ""
    other = (
        not settings.base_url and ":" in settings.model and not settings.model.startswith("openai:")
    )
    shared = "" if other else settings.api_key
    return shared or (
        os.environ.get("OPENAI_API_KEY", "") if url.rstrip("/") == OPENAI_BASE_URL else ""
    )


def check_family(embedder: Embedder | None) -> Embedder | None:
    """The same embedder, if it is of a family for which weights were learned: else no score could be trusted."""
    if embedder is not None and embedder.family not in get_args(Family):
        raise SettingsError(
            where="embedder",
            problem=f"its family is {embedder.family!r}, and must be 'static' or 'strong'",
        )
    return embedder


_static = functools.cache(StaticEmbedder)
_onnx = functools.cache(OnnxEmbedder)
_service = functools.cache(ServiceEmbedder)


def embed_texts(embedder: Embedder, texts: Sequence[str]) -> Matrix:
    """The vectors of some texts, or an error that says what is wrong with them; never called in a transaction."""
    import numpy as np

    if not texts:
        return np.zeros((0, embedder.dimensions), np.float32)
    try:
        with np.errstate(
            over="ignore"
        ):  # what is too large for four bytes is infinity, and refused below
            found = np.asarray(embedder.embed(texts), np.float32)
    except RetainError:
        raise
    except Exception as error:  # an embedder may be anybody's
        raise ModelError(
            model=embedder.identity, problem=f"{type(error).__name__}: {error}"[:500]
        ) from error
    dimensions = embedder.dimensions  # a service's is known only now
    if found.shape != (len(texts), dimensions):
        shape = " × ".join(map(str, found.shape))
        raise BadAnswer(
            model=embedder.identity,
            problem=f"it is {shape} numbers, not {len(texts)} × {dimensions}",
        )
    if not np.isfinite(found).all():
        raise BadAnswer(model=embedder.identity, problem="a vector has NaN or infinity in it")
    lengths = np.linalg.norm(
        found.astype(np.float64), axis=1, keepdims=True
    )  # the square of 3e38 is no float32
    if not lengths.all():
        raise BadAnswer(model=embedder.identity, problem="a vector is all zeros")
    return np.asarray(found / lengths, np.float32)


def quantise(vectors: Matrix) -> list[tuple[float, bytes]]:
    """Each vector as a scale and a byte from -127 to 127 for each dimension: a quarter of the room."""
    import numpy as np

    scales = np.maximum(abs(vectors).max(axis=1), 1e-12) / 127
    small = np.rint(vectors / scales[:, None]).astype(np.int8)
    return [(float(scale), row.tobytes()) for scale, row in zip(scales, small, strict=True)]


def embedding_text(title: str, text: str) -> str:
    """What is embedded of a row: its text, under its title where it has one."""
    return f"{title}\n{text}" if title and text else title or text

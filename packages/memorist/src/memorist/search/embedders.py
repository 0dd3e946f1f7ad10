"""Embedders: their protocol, and the one that the settings choose.

Libraries and weights are loaded when a text is first embedded. No embedder is trusted: all vectors
pass the checks of `embed_texts` before they are stored or compared.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, Protocol, get_args, runtime_checkable

from memorist.base import limits
from memorist.base.errors import BadAnswer, MemoristError, ModelError, SettingsError
from memorist.base.settings import Settings
from memorist.search.onnx_embedder import PACKAGE, ConversationEncoder, EmbedderInput, OnnxEmbedder
from memorist.search.service_embedder import OPENAI_BASE_URL, ServiceEmbedder
from memorist.search.static_embedder import StaticEmbedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]
    """One row for each text."""

Family = Literal["static", "strong", "encoder"]
"""Quality of an embedder's scores: `static` ones know words, `strong` ones sentences, and memorist's
own `encoder` knows conversations."""


class Embedder(Protocol):
    """Turns texts into vectors: texts of similar meaning get vectors of similar direction."""

    @property
    def identity(self) -> str:
        """Name, version and dimension of the model. Only vectors of one identity are compared."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of each vector."""
        ...

    @property
    def family(self) -> Family:
        """Family of the model."""
        ...

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return a unit vector for each text, as rows.

        Raises ModelError, or SettingsError if a library has to be installed.
        """
        ...


@runtime_checkable
class PassageEmbedder(Embedder, Protocol):
    """An embedder that reads a message with its speaker and the message before it."""

    def embed_passages(self, passages: Sequence[EmbedderInput]) -> Matrix:
        """Return a unit vector for each passage, as rows."""
        ...


def choose(settings: Settings) -> Embedder | None:
    """Return the embedder of the settings, the same object each time; None if there is none."""
    if settings.embedder == "none":
        return None
    provider, _, model = settings.embedder.partition(":")
    if provider == "service":
        url = settings.embedding_base_url or settings.base_url or OPENAI_BASE_URL
        return _service(
            model,
            url,
            settings.embedding_api_key or _shared_key(settings, url),
            settings.model_seconds,
            limits.MODEL_RETRIES,
            limits.MODEL_PAUSE_SECONDS,
        )
    if provider == "onnx":
        return _onnx(model)
    if settings.embedder == "encoder" or (settings.embedder == "auto" and _has_encoder()):
        return _encoder()
    return _static()


def _has_encoder() -> bool:
    """Return whether memorist's encoder and what it needs to run are installed."""
    specs = [find_spec(name) for name in (PACKAGE, "onnxruntime", "tokenizers")]
    return all(spec is not None and spec.origin for spec in specs)


def _shared_key(settings: Settings, url: str) -> str:
    """Return the main model's key if the embedder uses the same service; no other may see it."""
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
    """Return the embedder; raise SettingsError if there are no learned weights for its family."""
    if embedder is not None and embedder.family not in get_args(Family):
        raise SettingsError(
            where="embedder",
            problem=f"its family must be 'static' or 'strong', not {embedder.family!r}",
        )
    return embedder


_static = functools.cache(StaticEmbedder)
_encoder = functools.cache(ConversationEncoder)
_onnx = functools.cache(OnnxEmbedder)
_service = functools.cache(ServiceEmbedder)


def embed_texts(embedder: Embedder, texts: Sequence[str]) -> Matrix:
    """Return the checked vectors of texts. Never call this inside a transaction."""
    return _compute_checked(embedder, len(texts), lambda: embedder.embed(texts))


def embed_passages(embedder: Embedder, passages: Sequence[EmbedderInput]) -> Matrix:
    """Return the checked vectors of passages; most embedders read only their texts."""
    if isinstance(embedder, PassageEmbedder):
        return _compute_checked(embedder, len(passages), lambda: embedder.embed_passages(passages))
    return embed_texts(embedder, [passage.text for passage in passages])


def _compute_checked(embedder: Embedder, count: int, compute: Callable[[], Matrix]) -> Matrix:
    """Return computed vectors, normalized; raise ModelError if they cannot be used."""
    import numpy as np

    if not count:
        return np.zeros((0, embedder.dimensions), np.float32)
    try:
        with np.errstate(over="ignore"):  # overflow becomes infinity, which is rejected below
            vectors = np.asarray(compute(), np.float32)
    except MemoristError:
        raise
    except Exception as error:  # a custom embedder may raise anything
        raise ModelError(
            model=embedder.identity, problem=f"{type(error).__name__}: {error}"[:500]
        ) from error
    dimensions = embedder.dimensions  # a service's is known only now
    if vectors.shape != (count, dimensions):
        shape = " × ".join(map(str, vectors.shape))
        raise BadAnswer(
            model=embedder.identity,
            problem=f"its shape is {shape}, not {count} × {dimensions}",
        )
    if not np.isfinite(vectors).all():
        raise BadAnswer(model=embedder.identity, problem="a vector contains NaN or infinity")
    # In float64, because squares of large float32 values overflow.
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    if not lengths.all():
        raise BadAnswer(model=embedder.identity, problem="a vector is all zeros")
    return np.asarray(vectors / lengths, np.float32)


def quantise(vectors: Matrix) -> list[tuple[float, bytes]]:
    """Return each vector as a scale and one signed byte per dimension: a quarter of the size."""
    import numpy as np

    scales = np.maximum(abs(vectors).max(axis=1), 1e-12) / 127
    small = np.rint(vectors / scales[:, None]).astype(np.int8)
    return [(float(scale), row.tobytes()) for scale, row in zip(scales, small, strict=True)]


def embedding_text(title: str, text: str) -> str:
    """Return the text that is embedded for a row: title and text."""
    return f"{title}\n{text}" if title and text else title or text

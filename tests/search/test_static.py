"""The built-in embedder: its tokenizer, similarity, and a vector for any text."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorist.search.embedders import Embedder, embed_passages, embed_texts
from memorist.search.onnx_embedder import EmbedderInput
from memorist.search.static_embedder import StaticEmbedder, _data

EMBEDDER: Embedder = StaticEmbedder()

# Tokens of the original tokenizer.
PIECES = {
    "The pottery workshop": ["▁The", "▁pot", "tery", "▁work", "shop"],
    "Melanie's photo, 2023": ["▁Mel", "anie", "'", "s", "▁photo", ",", "▁", "2", "0", "2", "3"],
    "get_user_by_id()": ["▁get", "_", "user", "_", "by", "_", "id", "()"],
    "Straßenbahn": ["▁Straßen", "bahn"],
    "日本語": ["▁", "日", "本", "語"],
    "🎉": ["▁", "<0xF0>", "<0x9F>", "<0x8E>", "<0x89>"],
}


@pytest.mark.parametrize("text", PIECES)
def test_tokens_match_the_original_tokenizer(text: str) -> None:
    names = {number: piece for piece, number in _data()[0].items()}
    assert [
        names[number] for number in np.frombuffer(StaticEmbedder().pieces(text), np.uint16)
    ] == PIECES[text]


def near(one: str, other: str) -> float:
    vectors = embed_texts(EMBEDDER, [one, other])
    return float(vectors[0] @ vectors[1])


@pytest.mark.parametrize(
    ("text", "like", "unlike"),
    [
        (
            "my sister lives in Lisbon",
            "where is my sibling's services",
            "the build failed with error 500",
        ),
        ("I adopted a puppy", "a new dog", "the interest rate of the loan"),
        ("Flugzeug und Flughafen", "flying by plane, airport", "a recipe for soup"),
    ],
)
def test_similar_meaning_is_near(text: str, like: str, unlike: str) -> None:
    assert near(text, like) > near(text, unlike) + 0.1


def test_a_question_is_close_to_its_answer() -> None:
    question = embed_texts(EMBEDDER, ["Where does Clara live?"])[0]
    passages = [
        EmbedderInput("In Lisbon, since May.", "Clara", "And where do you live now?"),
        EmbedderInput("In Lisbon, since May.", "Tom", "And where do you live now?"),
        EmbedderInput("Lovely weather today.", "Clara", "Good morning!"),
    ]
    answer, other_speaker, other_topic = embed_passages(EMBEDDER, passages) @ question
    assert answer > other_speaker
    assert answer > other_topic


def test_only_the_end_of_the_previous_message_is_read() -> None:
    passages = [
        EmbedderInput("Yes.", "Tom", "x" * 9_000 + "y" * 200),
        EmbedderInput("Yes.", "Tom", "y" * 200),
        EmbedderInput("Yes.", "Tom", ""),
    ]
    long, short, without = embed_passages(EMBEDDER, passages)
    assert np.array_equal(long, short)
    assert not np.array_equal(short, without)


def test_a_passage_without_a_word_has_a_vector() -> None:
    vectors = embed_passages(EMBEDDER, [EmbedderInput(""), EmbedderInput(" \n")])
    assert np.array_equal(vectors[0], vectors[1])


def test_white_space_is_normalized() -> None:
    assert near("a cup\n\n of\ttea ", "a cup of tea") == pytest.approx(1)


@given(st.lists(st.text(), min_size=1, max_size=5))
def test_any_text_has_a_vector(texts: list[str]) -> None:
    assert embed_texts(EMBEDDER, texts).shape == (len(texts), EMBEDDER.dimensions)


@pytest.mark.parametrize(
    "text", ["", " \n", "\ud800", "\x00", "x" * 100_000, "漢字" * 20_000, "word " * 50_000]
)
def test_empty_and_huge_texts_have_a_vector(text: str) -> None:
    assert np.linalg.norm(embed_texts(EMBEDDER, [text])) == pytest.approx(1)


def test_vectors_do_not_depend_on_the_batch() -> None:
    texts = [f"note number {n} about {'tea' if n % 2 else 'coffee'}" for n in range(50)]
    together = EMBEDDER.embed(texts)
    assert np.array_equal(together, np.vstack([StaticEmbedder().embed([text]) for text in texts]))


def test_the_word_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memorist.search.static_embedder._MAX_CACHED_WORDS", 10)
    embedder = StaticEmbedder()
    texts = [f"word{n}" for n in range(100)]
    assert np.array_equal(embedder.embed(texts), EMBEDDER.embed(texts))
    assert len(embedder._words) <= 10


def test_threads_share_the_embedder() -> None:
    embedder, texts = StaticEmbedder(), [f"the {n}th thing that happened" for n in range(300)]
    results: list[object] = []
    threads = [
        threading.Thread(target=lambda: results.append(embedder.embed(texts))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    assert all(np.array_equal(item, EMBEDDER.embed(texts)) for item in results)  # type: ignore[arg-type]


def test_it_imports_only_numpy() -> None:
    script = """import sys; from memorist.search.static_embedder import StaticEmbedder; before = set(sys.modules)
StaticEmbedder().embed(["a text"])
new = {name.partition('.')[0] for name in set(sys.modules) - before if not name.startswith('_')}
print(*new - set(sys.stdlib_module_names))"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["numpy"]

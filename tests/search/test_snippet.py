"""Excerpts around the words of a query."""

from __future__ import annotations

import regex
from hypothesis import given
from hypothesis import strategies as st

from memorist.base import tokens
from memorist.search import snippet, words

LONG = (
    "Hello there. " * 60
    + "The night train to Lisbon leaves at nine, from platform four. "
    + "Other things matter. " * 60
)
FAMILY = "👨‍👩‍👧"


def marked(text: str, question: str) -> list[str]:
    return [
        text[start:end] for start, end in snippet.find_matches(text, words.query_words(question))
    ]


def test_other_word_forms_are_matched() -> None:
    assert marked("Trains: the (train) TRAINED!", "Which train?") == ["Trains", "train", "TRAINED"]
    assert marked("Ada’s café in São Paulo", "cafe sao") == ["café", "São"]
    assert marked("call read_file(path)", "read_file") == ["read_file"]
    assert marked("Da steht eine Versicherungsnummer.", "Nummer") == ["Versicherungsnummer"]


def test_scripts_without_spaces_are_matched() -> None:
    assert marked("明天我要坐火车去里斯本看海。", "火车里斯本") == ["火车", "里斯本"]
    assert marked("東京タワーに行きました", "東京タワー") == ["東京タワー"]


def test_stop_words_are_matched_only_alone() -> None:
    assert marked("the train to the sea", "the train") == ["train"]
    assert marked("to be or not to be", "to be or not to be")


def test_an_excerpt_is_cut_at_sentence_ends_around_matches() -> None:
    part = snippet.excerpt(LONG, words.query_words("night train to Lisbon"), 120)
    assert "The night train to Lisbon leaves at nine, from platform four." in part
    assert part.startswith("… Hello there.")
    assert part.endswith(". …")
    assert len(part) <= 120 + 4


def test_a_short_text_is_returned_unchanged() -> None:
    assert snippet.excerpt("short", ["x"], 10) == "short"
    assert snippet.excerpt_tokens("short", ["x"], 10) == "short"


def test_without_matches_the_excerpt_is_the_beginning() -> None:
    assert snippet.excerpt("one two three four five", ["x"], 10) == "one two …"


def test_token_excerpts_fit_in_any_script() -> None:
    for text in (LONG, "天气很好。" * 300, FAMILY * 300, "x" * 9000, "Straße " * 900):
        part = snippet.excerpt_tokens(text, words.query_words("Lisbon 很好"), 60)
        assert 0 < tokens.estimate(part) <= 60


@given(st.text(max_size=300), st.text(max_size=40), st.integers(10, 80))
def test_no_grapheme_is_split(text: str, question: str, most: int) -> None:
    clusters = f"{text}{FAMILY}e\u0301 नमस्ते" * 3
    part = snippet.excerpt(clusters, words.query_words(question), most)
    stored = part.removeprefix("… ").removesuffix(" …")
    whole = regex.findall(r"\X", clusters)
    assert stored in clusters
    assert all(cluster in whole for cluster in regex.findall(r"\X", stored)[1:-1])

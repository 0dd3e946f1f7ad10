"""The extractive summary: what it keeps and omits; bounded and deterministic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorist.base import tokens
from memorist.text.extract import SpokenLine, condense, digest, sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n \n", []),
        ("One sentence", ["One sentence"]),
        (
            "Dr. Who lives in Lisbon. He has 3 cats! Does he?",
            ["Dr. Who lives in Lisbon.", "He has 3 cats!", "Does he?"],
        ),
        ("Version 2.5 is out. See a.b.c for more.", ["Version 2.5 is out.", "See a.b.c for more."]),
        ("One line\nanother line", ["One line", "another line"]),
        ('He said "No." Then he left.', ['He said "No."', "Then he left."]),
        ("我叫小明。我住在北京！你呢？", ["我叫小明。", "我住在北京！", "你呢？"]),
        ("Ich wohne z. B. in Bonn. Und du?", ["Ich wohne z. B. in Bonn.", "Und du?"]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


def test_facts_are_kept_and_chatter_is_not() -> None:
    texts = [
        "Hello there! My sister Clara lives in Porto. Thanks a lot.",
        "Sure, let me know. We decided to book flight TP441 on 2026-03-04.",
        "Great! I am allergic to peanuts, always remember that. OK.",
    ]
    assert digest(texts, 60) == (
        "- My sister Clara lives in Porto.\n"
        "- We decided to book flight TP441 on 2026-03-04.\n"
        "- I am allergic to peanuts, always remember that."
    )


def test_the_best_sentences_stay_with_little_space() -> None:
    texts = [
        "The weather was nice.",
        "I decided to move to Berlin in 2027.",
        "Some clouds were there.",
    ]
    assert digest(texts, 16) == "- I decided to move to Berlin in 2027."


def test_the_original_order_is_kept() -> None:
    texts = [f"Fact number {n} is about thing{n} and must stay." for n in range(5)]
    assert digest(texts, 200) == "\n".join(f"- {text}" for text in texts)


def test_repetitions_are_kept_once() -> None:
    assert (
        digest(
            ["The key is under the mat.", "The key is under the mat.", "the key is under the mat!"],
            100,
        ).count("\n")
        == 0
    )


def test_scripts_without_spaces() -> None:
    stored = digest(
        ["你好。", "我叫小明，我住在北京。", "今天天气不错。", "我们决定2027年搬到上海。"], 40
    )
    assert "- 我们决定2027年搬到上海。" in stored.splitlines()
    assert "- 我叫小明，我住在北京。" in stored.splitlines()


def test_an_earlier_digest_is_kept_and_leaves_space_for_new_lines() -> None:
    """Over many rounds the first important line stays and new ones are added."""
    text = digest(["My name is Ada Lovelace and I live in London since 1835."], 80)
    for n in range(20):
        text = digest([f"We decided to test machine{n} on day {n} of project{n}."], 80, text)
        assert f"machine{n} " in text
        assert tokens.estimate(text) <= 80
    assert len(text.splitlines()) >= 3


def test_speakers_are_named_and_weighted() -> None:
    values = [
        SpokenLine("I want the report on Friday at 9.", "ada", 1.5),
        SpokenLine("Row 17 of the table took 3 ms on Friday.", "tool", 0.4),
        SpokenLine("I will send it on Thursday at 18.", "scout"),
    ]
    assert (
        condense(values, 30)
        == "- ada: I want the report on Friday at 9.\n- scout: I will send it on Thursday at 18."
    )


def test_a_long_sentence_is_shortened() -> None:
    line = digest(["We decided " + "to walk on and on " * 50 + "until 9."], 400)
    assert len(line) <= 283
    assert line.endswith("…")


def test_chatter_is_better_than_nothing() -> None:
    assert digest(["Hello!"], 50) == "- Hello!"
    assert digest([], 50) == ""
    assert digest([], 50, "- What was kept.") == "- What was kept."


@given(st.lists(st.text(max_size=300), max_size=12), st.integers(1, 200), st.text(max_size=300))
def test_a_digest_fits_and_is_deterministic(texts: list[str], room: int, previous: str) -> None:
    stored = digest(texts, room, previous)
    assert tokens.estimate(stored) <= room
    assert digest(texts, room, previous) == stored


def test_long_texts() -> None:
    """Of any size and shape, also without sentence ends."""
    for text in (
        "word " * 20_000,
        "x" * 100_000,
        ". " * 30_000,
        "\n".join(f"Line {n} says {n}." for n in range(4_000)),
    ):
        assert tokens.estimate(digest([text], 300)) <= 300


def test_a_different_number_or_name_is_no_repetition() -> None:
    """Otherwise an outdated price would replace all later ones."""
    for texts in (
        [f"The monthly price of the large plan is {price} euros." for price in (300, 400, 500)],
        [
            f"The weekly meeting of the design team is led by {name} from now on."
            for name in ("Ada", "Bob", "Carla")
        ],
        [
            f"The build log of the release is kept in `/var/log/{name}` for a year."
            for name in ("a", "b")
        ],
    ):
        assert digest(texts, 200) == "\n".join(f"- {text}" for text in texts)


def test_of_two_similar_sentences_the_newer_is_kept() -> None:
    """It may correct an earlier one; also one from an earlier summary."""
    assert (
        digest(["The key is under the mat.", "The key is not under the mat."], 100)
        == "- The key is not under the mat."
    )
    assert (
        digest(["The key is not under the mat."], 100, "- The key is under the mat.")
        == "- The key is not under the mat."
    )


def test_a_long_sentence_is_cut_between_graphemes() -> None:
    family = "👨\u200d👩\u200d👧"
    assert (
        digest(["We decided " + "x" * 266 + family + " at 9."], 400)
        == "- We decided " + "x" * 266 + "…"
    )


def test_a_megabyte_of_initials_takes_linear_time() -> None:
    """None of them ends a sentence; looking back from each would take hours."""
    assert sentences("A. " * 340_000) == [("A. " * 340_000).strip()]

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.base import clock
from retain.search.question import Question, contains_question, parse_question

NOW = datetime(2023, 5, 28, 12, tzinfo=UTC)  # a Sunday


def days(question: Question) -> list[tuple[str, str]]:
    """Return the spans as their first and last day."""
    return [
        (str(clock.to_datetime(span.start).date()), str(clock.to_datetime(span.end - 1).date()))
        for span in question.spans
    ]


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("What happened on 7 May 2023?", "2023-05-07", "2023-05-07"),
        ("What happened on May 7th, 2023?", "2023-05-07", "2023-05-07"),
        ("the 3rd of June, 2022", "2022-06-03", "2022-06-03"),
        ("the notes of 2023-05-07", "2023-05-07", "2023-05-07"),
        ("in December 2022", "2022-12-01", "2022-12-31"),
        ("in March", "2023-03-01", "2023-03-31"),
        ("in November", "2022-11-01", "2022-11-30"),
        ("in 2022", "2022-01-01", "2022-12-31"),
        ("two weeks ago", "2023-05-11", "2023-05-17"),
        ("in the past two months", "2023-03-28", "2023-05-29"),
        ("last Tuesday", "2023-05-22", "2023-05-24"),
        ("yesterday", "2023-05-26", "2023-05-29"),
    ],
)
def test_times_are_parsed(text: str, first: str, last: str) -> None:
    assert days(parse_question(text, now=NOW)) == [(first, last)]


@pytest.mark.parametrize(
    "text",
    ["I may go", "march on", "the 45 May", "2023-02-31", "no time", "in 9999 ways", "version 3.11"],
)
def test_other_text_is_no_time(text: str) -> None:
    assert parse_question(text, now=NOW).spans == ()


def test_without_now_only_complete_dates_are_times() -> None:
    assert parse_question("last week, or in May").spans == ()
    assert len(parse_question("in May 2023").spans) == 1


def test_authors_are_recognised_by_name() -> None:
    question = parse_question(
        "When did caroline's friend Mel paint it?", authors=["Caroline", "Melanie", "Mel"]
    )
    assert question.authors == ("Caroline", "Mel")
    assert set(question.names) == {"carolin", "mel"}
    assert question.for_embedding == "When did friend paint it?"


def test_a_name_alone_is_still_embedded() -> None:
    assert parse_question("Caroline", authors=["Caroline"]).for_embedding == "Caroline"


@pytest.mark.parametrize(
    ("text", "author", "found", "names", "embedded"),
    [
        ("when do we deploy", "Deploy Bot", False, set(), "when do we deploy"),
        ("Deploy the tea", "Deploy Bot", False, set(), "Deploy the tea"),
        ("WHEN DO WE DEPLOY TEA", "Deploy Bot", False, set(), "WHEN DO WE DEPLOY TEA"),
        ("When Do We Deploy Tea", "Deploy Bot", False, set(), "When Do We Deploy Tea"),
        (
            "did the Bot deploy? The Deploy",
            "Deploy Bot",
            True,
            {"bot"},
            "did the deploy? The Deploy",
        ),
        ("When did Deploy Bot deploy it?", "Deploy Bot", True, {"bot"}, "When did deploy it?"),
        ("what did deploy bot build", "Deploy Bot", True, {"deploy", "bot"}, "what did build"),
        ("What did Ada's dog eat?", "Ada Lovelace", True, {"ada"}, "What did dog eat?"),
        ("who is the best of them", "The Who", False, set(), "who is the best of them"),
        (
            "how do we support it",
            "Support",
            True,
            set(),
            "how do we support it",
        ),  # a name, perhaps: it stays a word
        ("Will it rain?", "Will", False, set(), "Will it rain?"),
        ("What did Will eat?", "Will", True, {"will"}, "What did eat?"),
        (
            "Who is Caroline?",
            "Caroline",
            True,
            set(),
            "Who is Caroline?",
        ),  # there is nothing else to search for
        ("بيت محمد", "محمد علي", True, {"محمد"}, "بيت"),
    ],
)
def test_a_word_is_a_name_only_where_used_as_one(
    text: str, author: str, found: bool, names: set[str], embedded: str
) -> None:
    question = parse_question(text, authors=[author])
    assert question.authors == ((author,) if found else ())
    assert set(question.names) == names
    assert question.for_embedding == embedded


def test_an_unknown_name_is_a_word() -> None:
    question = parse_question("Will it rain?", authors=["Ada"])
    assert question.authors == ()
    assert question.names == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("What is my current address?", {"recent", "own"}),
        ("Which did I buy first?", {"first", "own"}),
        ("How many plants are there?", {"many"}),
        ("What did you recommend?", {"about_answers"}),
        ("Can you remind me what we said in our last chat?", {"own", "about_answers", "recent"}),
        ("Where does Ada live?", set()),
    ],
)
def test_intents_are_recognised(text: str, says: set[str]) -> None:
    question = parse_question(text, now=NOW)
    assert {
        name
        for name in ("recent", "first", "many", "own", "about_answers")
        if getattr(question, name)
    } == says


def test_quoted_words_are_a_phrase() -> None:
    assert parse_question('the "Data Analysis" course').phrases == (("data", "analysis"),)
    assert parse_question("the 'Time Management' workshop").phrases == (("tim", "manag"),)
    assert parse_question("it's Ada's dog's bed").phrases == ()


def test_questions_are_detected() -> None:
    assert contains_question("How are you?")
    assert contains_question("Really? I see.")
    assert not contains_question("http://example.com/?q=1")


@given(
    st.text(max_size=300),
    st.lists(st.text(max_size=20), max_size=5),
    st.integers(0, 253_402_300_799_999_999),
)
def test_any_text_is_valid(text: str, authors: list[str], now: int) -> None:
    """No text is an error."""
    question = parse_question(text, now=now, authors=authors)
    assert question == parse_question(text, now=now, authors=authors)
    assert all(span.start < span.end for span in question.spans)
    assert bool(question.for_embedding.strip()) or not text.strip()

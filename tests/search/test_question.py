from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorist.base import clock
from memorist.search.question import Question, contains_question, only_asks, parse_question

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
        ("the day before yesterday", "2023-05-25", "2023-05-27"),
        ("in june", "2022-06-01", "2022-06-30"),
        ("in may", "2023-05-01", "2023-05-31"),
        ("since March", "2023-03-01", "2023-05-29"),
        ("since 2022", "2022-01-01", "2023-05-29"),
        ("Was war am 7. Mai 2023?", "2023-05-07", "2023-05-07"),
        ("am 3. Mai", "2023-05-03", "2023-05-03"),
        ("am 3. November", "2022-11-03", "2022-11-03"),
        ("am 3.5.", "2023-05-03", "2023-05-03"),
        ("der Termin vom 07.05.2023", "2023-05-07", "2023-05-07"),
        ("im Dezember 2022", "2022-12-01", "2022-12-31"),
        ("im März", "2023-03-01", "2023-03-31"),
        ("im mai", "2023-05-01", "2023-05-31"),
        ("im Jahr 2022", "2022-01-01", "2022-12-31"),
        ("seit 2022", "2022-01-01", "2023-05-29"),
        ("seit März", "2023-03-01", "2023-05-29"),
        ("seit dem 3. Mai", "2023-05-03", "2023-05-29"),
        ("seit drei Wochen", "2023-05-07", "2023-05-29"),
        ("vor zwei Wochen", "2023-05-11", "2023-05-17"),
        ("vor drei Tagen", "2023-05-24", "2023-05-26"),
        ("vor ein paar Tagen", "2023-05-24", "2023-05-26"),
        ("vor einem Jahr", "2021-11-26", "2022-11-26"),
        ("letzte Woche", "2023-05-14", "2023-05-29"),
        ("vergangenen Monat", "2023-03-28", "2023-05-29"),
        ("in den letzten zwei Monaten", "2023-03-28", "2023-05-29"),
        ("vorletzte Woche", "2023-05-07", "2023-05-21"),
        ("letztes Wochenende", "2023-05-25", "2023-05-29"),
        ("diesen Monat", "2023-04-28", "2023-05-29"),
        ("letzten Dienstag", "2023-05-22", "2023-05-24"),
        ("am Dienstag", "2023-05-22", "2023-05-24"),
        ("heute", "2023-05-27", "2023-05-29"),
        ("gestern Abend", "2023-05-26", "2023-05-29"),
        ("vorgestern", "2023-05-25", "2023-05-27"),
    ],
)
def test_times_are_parsed(text: str, first: str, last: str) -> None:
    assert days(parse_question(text, now=NOW)) == [(first, last)]


@pytest.mark.parametrize(
    "text",
    [
        "I may go",
        "march on",
        "the 45 May",
        "2023-02-31",
        "no time",
        "in 9999 ways",
        "version 3.11",
        "version 3.11.",
        "version 3.11.2",
        "vor dem Haus",
        "letztes Mal",
    ],
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
        ("What did I ask about the hotel?", {"own", "about_questions"}),
        ("When did we first ask for a refund?", {"own", "first", "about_questions"}),
        ("Wie ist meine aktuelle Adresse?", {"recent", "own"}),
        ("Was habe ich neulich gekauft?", {"recent", "own"}),
        ("Was haben wir zuletzt bestellt?", {"recent", "own"}),
        ("Was hatte ich zuerst bestellt?", {"first", "own"}),
        ("Wie viele Pflanzen gibt es?", {"many"}),
        ("In welcher Reihenfolge kamen sie?", {"many"}),
        ("Welches Buch hast du mir empfohlen?", {"own", "about_answers"}),
        ("Was war dein Vorschlag?", {"about_answers"}),
        ("Was habe ich dich zum Hotel gefragt?", {"own", "about_questions"}),
        ("Wo wohnt unsere Nachbarin?", {"own"}),
        ("Wo wohnt Ada?", set()),
    ],
)
def test_intents_are_recognised(text: str, says: set[str]) -> None:
    question = parse_question(text, now=NOW)
    assert {
        name
        for name in ("recent", "first", "many", "own", "about_answers", "about_questions")
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


@pytest.mark.parametrize(
    "text",
    [
        "Where does my sister live?",
        "Wow! What got you into running?",
        "Hey Ada, is my sister in Lisbon?",
        "Which train do I take to work",
        "where was I born",
        "who won the match",
        "how many children does Tom have",
        "do you know my shoe size",
        "Wo wohnt meine Schwester?",
        "wie heißt mein Hund",
        "in welcher Stadt bin ich geboren",
        "was ist meine Lieblingsfarbe",
        "weißt du noch meine Schuhgröße",
    ],
)
def test_a_text_that_only_asks_is_recognised(text: str) -> None:
    assert only_asks(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "My sister moved to Lisbon in May.",
        "We made pizza! It was great picking out toppings. Have you made anything lately?",
        "I've never met Kelly at the book club, do you think I should write to her?",
        "When I was ten we moved to Rome",
        "What I like best is cheese",
        "How nice!",
        "Was great to see you",
        "Had the best day at the beach",
        "Wie ich schon sagte, mag ich Käse",
        "Wo ich wohne, regnet es oft",
        "Was ich mag, ist Käse",
        "see http://example.com/?q=1 for the password of the wifi",
        "Wolfgang wohnt in Rom",
        "Wohne jetzt in Berlin",
        "Worked at Google until 2020",
        "World Cup final is on 19 July",
        "Would love to live in Rome",
        "Wie gesagt, ich wohne in Rom",
        "Wie versprochen, hier die Adresse",
        "Which is why I moved to Rome",
    ],
)
def test_a_text_that_says_something_does_not_only_ask(text: str) -> None:
    assert not only_asks(text)


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
    assert isinstance(only_asks(text), bool)


@pytest.mark.parametrize(
    "text", ["locker in aprıl 2024", "fıve days ago", "last ſunday", "two dayſ ago"]
)
def test_letters_that_differ_only_in_case_are_read_alike(text: str) -> None:
    plain = text.replace("ı", "i").replace("ſ", "s")
    spans = parse_question(text, now=NOW).spans
    assert spans
    assert spans == parse_question(plain, now=NOW).spans

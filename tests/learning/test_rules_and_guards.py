"""Sentences that teach nothing or retire nothing, with the reader and with the rules alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memorist import Memory, Settings
from memorist.learning import guards, rules
from memorist.learning.reading import personal_values
from tests.learning.conversation import Conversation

BOTH = pytest.mark.parametrize("weights", [True, False], ids=["reader", "rules"])


@pytest.fixture
def talk(weights: bool, request: pytest.FixtureRequest) -> Iterator[Conversation]:
    if weights:
        request.getfixturevalue("installed_encoder")
    with Memory.open(settings=Settings(database="memory:", embedder="none")) as memory:
        yield Conversation(memory)


@BOTH
@pytest.mark.parametrize(
    ("before", "text", "statement"),
    [
        ("I live in Lisbon.", "We moved to Kubernetes last year.", "The user lives in Lisbon."),
        ("My name is Ana.", "I'm OK.", "The user's name is Ana."),
        ("I live in Leeds.", "I left Leeds at noon and the train was late.", "The user lives in Leeds."),
        ("I love coffee.", "I love tea, but not as much as coffee.", "The user likes coffee."),
        ("I live in Leeds.", "I'm staying in Berlin this week.", "The user lives in Leeds."),
        ("I live in Leeds.", "My brother moved to Perth.", "The user lives in Leeds."),
        ("Ich wohne in Gera.", "Diese Woche bin ich in Straßburg.", "The user lives in Gera."),
        ("Ich wohne in Gera.", "Wenn ich in Rom wohnen würde, hätte ich Sonne.", "The user lives in Gera."),
    ],
)  # fmt: skip
def test_a_true_fact_stays(talk: Conversation, before: str, text: str, statement: str) -> None:
    assert statement in talk.learn(before, text)


@BOTH
@pytest.mark.parametrize(
    "text",
    [
        "My sister Clara passed her driving test yesterday.",
        "My brother Tom went to a funeral last week.",
        "I have two kids and passed my driving test today.",
    ],
)
def test_nobody_is_declared_dead(talk: Conversation, text: str) -> None:
    assert not [statement for statement in talk.learn(text) if "died" in statement]


@BOTH
@pytest.mark.parametrize(
    "text",
    [
        "Remember that my password is bluewhale77.",
        "My PIN is 4471.",
        "Merk dir mein Passwort: blauwal77",
    ],
)
def test_secrets_are_not_learned(talk: Conversation, text: str) -> None:
    assert talk.learn(text) == []


@pytest.mark.parametrize("weights", [True])
def test_two_sisters_are_two_people(talk: Conversation) -> None:
    statements = talk.learn("My sister Clara lives in Leeds and my sister Eva lives in York.")
    assert {"Clara lives in Leeds.", "Eva lives in York."} <= set(statements)
    assert "Eva is Clara." not in statements


@pytest.mark.parametrize("weights", [True])
def test_a_marriage_ends(talk: Conversation) -> None:
    statements = talk.learn("I'm married.", "I'm no longer married.")
    assert not [s for s in statements if "married" in s and "no longer" not in s]


@pytest.mark.parametrize("weights", [False])
@pytest.mark.parametrize(
    "text",
    ["I live in Berlin. I'm German.", "Ich bin Alexander.", "weil mein Vater Krebs hat", "I started with Python"],
)  # fmt: skip
def test_rules_do_not_guess(talk: Conversation, text: str) -> None:
    statements = talk.learn(text)
    assert statements in ([], ["The user lives in Berlin."])


@pytest.mark.parametrize(
    "text",
    [
        "Ich wohne " + "seit 2020 " * 200,
        "I " + "also " * 400,
        "\n" * 2_000,
        "<a>" * 700,
        "my sister " * 200,
        "'" * 2_000,
        "Write " + "a " * 1_000,
        "allergic to " + "a, " * 600,
        "`" * 2_000,
    ],
)
def test_hostile_text_is_read_in_linear_time(text: str) -> None:
    """The suite's time limit ends a pattern that backtracks without bound."""
    read = text[:2_000]
    assert all(0 <= tag.start < tag.end <= len(read) for tag in rules.read(read))
    assert all(start <= end for start, end in guards.foreign_parts(text * 10))
    assert all(tag.end <= len(read) for tag in personal_values(read))

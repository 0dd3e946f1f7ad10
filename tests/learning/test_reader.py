"""The reader: its network, what is left out, and what happens without its weights."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from memorist import Memory, NewMessage, Settings
from memorist.base.errors import SettingsError
from memorist.learning import reader
from memorist.learning.reading import personal_values
from memorist.search import onnx_embedder
from tests.learning.conversation import Conversation

SAID = {
    "i live in leeds with my two kids": {("home", "leeds"), ("relation", "two kids")},
    "My sister Clara works as a vet in Lisbon.": {("relation", "Clara"), ("role", "vet")},
    "we sold the volvo last week": {("owns", "volvo")},
    "allergic to penicillin and shellfish, please keep that in mind": {
        ("allergy", "penicillin"),
        ("allergy", "shellfish"),
    },
    "Ich wohne seit Mai in Köln und arbeite als Krankenschwester.": {
        ("home", "Köln"),
        ("role", "Krankenschwester"),
    },
}
NOT_SAID = (
    "What are the best restaurants in Lisbon?",
    "Write a story about a man who says: my name is Bob and I live in Rome.",
    "If I lived in Rome, I would eat pizza every day.",
    "I live in a castle and own three unicorns, just kidding",
    "Translate into German: I am allergic to nuts and my wife is a doctor.",
    "```\nname = 'Ana'  # I live in Porto\n```",
    'My colleague wrote "I live in Berlin and I work at Nestor" in the form.',
    "Stell dir vor, du bist ein Pirat und wohnst auf Tortuga.",
    "My password is bluewhale77.",
    "Thanks, that helps a lot!",
)


@pytest.fixture
def talk(installed_encoder: None) -> Iterator[Conversation]:
    with Memory.open(settings=Settings(database="memory:", embedder="none")) as memory:
        yield Conversation(memory)


@pytest.mark.parametrize(("text", "values"), SAID.items())
def test_the_values_of_a_message_are_found(
    installed_encoder: None, text: str, values: set[tuple[str, str]]
) -> None:
    tags = personal_values(text)
    assert values <= {(tag.slot, text[tag.start : tag.end]) for tag in tags}


@pytest.mark.parametrize("text", NOT_SAID)
def test_nothing_is_learned_from_what_is_not_meant(talk: Conversation, text: str) -> None:
    assert talk.learn(text) == []


def test_the_subject_of_a_value_is_who_it_is_about(talk: Conversation) -> None:
    statements = talk.learn("My sister Clara lives in Lisbon, I live in Leeds.")
    assert {"Clara lives in Lisbon.", "The user lives in Leeds."} <= set(statements)


def test_an_answer_is_understood_with_its_question(talk: Conversation) -> None:
    talk.me.messages.append("s", "assistant", "Where do you live these days?")
    assert "The user lives in Leeds." in talk.learn("Leeds, with my two kids")


def test_a_stay_stands_beside_the_home(talk: Conversation) -> None:
    statements = talk.learn("I live in Leeds.", "I'm based in Berlin this week.")
    assert "The user lives in Leeds." in statements
    assert "The user lives in Berlin." not in statements


def test_a_move_ends_the_home_before(talk: Conversation) -> None:
    statements = talk.learn("I live in Leeds.", "I moved to Porto.")
    assert statements == ["The user lives in Porto."]
    replaced = [
        fact for fact in talk.me.facts.list(include_replaced=True) if fact.status == "replaced"
    ]
    assert [fact.statement for fact in replaced] == ["The user lives in Leeds."]


def test_an_end_retires_what_it_names(talk: Conversation) -> None:
    statements = talk.learn("I work at Tesco.", "I quit my job at Tesco yesterday.")
    assert "The user works at Tesco." not in statements


def test_agents_tools_and_documents_say_nothing_about_the_user(talk: Conversation) -> None:
    talk.me.messages.extend(
        "s",
        [
            NewMessage("assistant", "I live in Paris and I work at Nestor."),
            NewMessage("user", "My CV follows. I live in Oslo. " + "It goes on and on. " * 150),
        ],
    )
    assert talk.learn() == []


LONG = (
    "Could you help me with a plan for the garden? The soil is heavy and the beds lie in the shade until noon. "
    "Last year the beans rotted, the lettuce bolted, and the slugs ate what was left of the cabbage. "
)


def test_long_messages_are_read_in_windows(installed_encoder: None) -> None:
    text = f"{LONG * 5}We live in Leeds and I work as a nurse, so it has to be quick. 😀 {LONG}"
    homes = [text[tag.start : tag.end] for tag in reader.read(text) if tag.slot == "home"]
    assert homes == ["Leeds"]


def test_a_message_is_read_up_to_a_bound(installed_encoder: None) -> None:
    text = f"{LONG * 40}We live in Leeds."
    assert not reader.is_read_whole(text)
    assert all(tag.end < reader.MAX_TOKENS * 6 for tag in reader.read(text))


def test_text_that_is_no_text_is_read(installed_encoder: None) -> None:
    for text in (
        "",
        " ",
        "\ud800",
        "😀" * 50,
        "\x00",
        "a" * 100_000,
        "я живу в Москве",
        "我住在北京",
    ):
        reader.read(text)


@pytest.fixture
def damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed_encoder: None) -> Path:
    """Return a copy of the package whose reader is damaged."""
    folder = onnx_embedder.package_folder()
    assert folder is not None
    copy = tmp_path / "memorist_encoder"
    shutil.copytree(folder, copy)
    content = bytearray((copy / "reader.onnx").read_bytes())
    content[len(content) // 2] ^= 255
    (copy / "reader.onnx").write_bytes(content)
    monkeypatch.setattr(reader, "package_folder", lambda: copy)
    reader.forget_network()
    return copy


def test_damaged_weights_are_an_error_and_the_rules_take_over(damaged: Path) -> None:
    with pytest.raises(SettingsError, match="memorist-encoder"):
        reader.read("I live in Leeds.")
    with Memory.open(settings=Settings(database="memory:", embedder="none")) as memory:
        assert Conversation(memory).learn("I live in Leeds.") == ["The user lives in Leeds."]
    reader.forget_network()

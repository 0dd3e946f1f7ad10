"""A small real language model behind a real service, in place of the test doubles."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from memorist import Memory
from memorist.base.errors import ModelUnavailable
from memorist.base.settings import Settings
from memorist.chat import turn
from memorist.chat.events import ChatEvent
from memorist.chat.turn import TurnInput
from memorist.models import Model, Models

pytestmark = pytest.mark.timeout(900)  # a busy machine writes a token a second
TALK: list[tuple[Literal["user", "assistant"], str]] = [
    ("user", "Hi, I am Ada. My sister Mary lives in Turin with her dog Bruno."),
    ("assistant", "Nice to meet you, Ada. How can I help you and Mary?"),
    (
        "user",
        "I want to visit her in March. I am allergic to nuts, so I need to be careful with food.",
    ),
    ("assistant", "Noted: a trip to Turin in March, and no nuts."),
    ("user", "I prefer the train to the plane. My budget is 400 euros."),
    (
        "assistant",
        "I suggest the night train from Vienna to Milan, then a regional train to Turin: about 180 euros.",
    ),
    (
        "user",
        "Good. Book a hotel near Porta Nuova for three nights, not more than 70 euros a night.",
    ),
    (
        "assistant",
        "The Hotel Roma is at Porta Nuova and costs 65 euros a night. Shall I book it from 12 to 15 March?",
    ),
    ("user", "Yes, please book it."),
    ("assistant", "Done: Hotel Roma, 12 to 15 March, 195 euros in total."),
    ("user", "Remind me to buy a present for Bruno."),
    ("assistant", "I will remind you to buy a present for Bruno before you leave."),
    ("user", "Which museum should we see?"),
    ("assistant", "The Egyptian Museum is the most famous one in Turin."),
]


@pytest.fixture
def model(settings: Settings) -> Model:
    created = Models(settings).main
    assert created
    return created


def test_the_model_answers(model: Model) -> None:
    """By name and base URL, without a key."""
    done = model.complete(
        "Answer in one short sentence.", f"{TALK[0][1]} Where does Mary live?", max_tokens=60
    )
    assert "Turin" in done.text
    assert (done.model, done.cost, done.cut) == ("qwen2.5-coder:1.5b", None, False)
    assert done.tokens_in > 20
    assert 0 < done.tokens_out <= 60


def test_the_model_respects_the_token_limit(model: Model) -> None:
    done = model.complete("", "Count from one to a hundred, in words.", max_tokens=8)
    assert (done.tokens_out, done.cut) == (8, True)


def test_the_model_answers_after_a_timed_out_request(model: Model, settings: Settings) -> None:
    """The service ends an abandoned request and answers the next one."""
    impatient = Models(
        Settings(model=settings.model, base_url=settings.base_url, model_seconds=0.3)
    ).main
    assert impatient
    with pytest.raises(ModelUnavailable, match=r"no answer within 0\.3 s"):
        impatient.complete("", "Tell me a story about a lighthouse.", max_tokens=60)
    assert model.complete("", "Say yes.", max_tokens=5).text


def test_the_model_summarises_a_conversation(settings: Settings, tmp_path: Path) -> None:
    """The summary has the facts of the covered messages, which stay readable."""
    with Memory.open(f"sqlite:///{tmp_path}/agent.db", settings=settings) as memory:
        me = memory.scope(user="ada", agent="scout")
        session = me.sessions.add("trip")
        for role, text in TALK:
            me.messages.append(session.id, role, text)
        summary = me.summaries.fold(session.id, force=True)
        assert (summary.covers_from, summary.covers_to) == (1, 10)
        assert summary.model == "qwen2.5-coder:1.5b"
        facts = [
            fact
            for fact in ("Ada", "Mary", "Turin", "March", "nuts", "train", "Hotel Roma", "400")
            if fact in summary.text
        ]
        assert len(facts) >= 3, summary.text
        assert len(me.messages.window(session.id, last=50)) == len(TALK)


def test_a_chat_with_memory(settings: Settings, tmp_path: Path) -> None:
    """Context, streamed text, a saved turn; facts of another session are recalled."""
    events: list[ChatEvent] = []
    with Memory.open(f"sqlite:///{tmp_path}/agent.db", settings=settings) as memory:
        me = memory.scope(user="ada", agent="scout")
        me.agents.add(
            "scout",
            prompt="Answer in one short sentence, from what you remember.",
            tools=["list_state"],
        )
        me.entries.add("Ada's sister Mary lives in Turin.", kind="core")
        session = me.sessions.add("trip")
        done = turn.run_turn(
            me, session.id, TurnInput("Where does Mary live?", key="k"), emit=events.append
        )
        assert "Turin" in done.text
        assert (
            "".join(event.data["delta"] for event in events if event.what == "text").strip()
            == done.text
        )
        assert turn.run_turn(me, session.id, TurnInput("Where does Mary live?", key="k")).again
        assert [message.role for message in me.messages.list(session.id)] == ["user", "assistant"]

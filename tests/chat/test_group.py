"""Group conversations: order, private memories, and failures of one agent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from memorist import Memory, Scope
from memorist.base.errors import Conflict, Invalid, ModelUnavailable, TooLarge
from memorist.chat import group
from memorist.chat.events import ChatEvent
from memorist.chat.turn import TurnInput
from memorist.models import Models
from memorist.testing import ModelRequest, ScriptedModel
from testkit.databases import SETTINGS, one_engine
from testkit.failures import raised
from testkit.memories import scope_of

GROUP = "You are participating in a group conversation.\n\nOther participants: {}."


def opened(url: str, model: ScriptedModel) -> Memory:
    settings = replace(SETTINGS)
    return Memory.open(url, settings=settings, models=Models(settings, main=model))


def agent_of(request: ModelRequest) -> str:
    """Return the agent that is called, from its prompt."""
    return request.system.split()[2].rstrip(".")


@one_engine
def test_each_agent_has_its_own_memory_and_reads_earlier_answers(url: str) -> None:
    """In the given order; the system text names the others; no agent sees another's
    entries.
    """
    model = ScriptedModel(lambda request: f"{agent_of(request)} agrees.")
    events: list[ChatEvent] = []
    with opened(url, model) as memory:
        me = scope_of(memory, "ada", "scout")
        session = me.sessions.add().id
        scope_of(memory, "ada", "scout").entries.add("Ada likes tea.", kind="core")
        scope_of(memory, "ada", "critic").entries.add("Ada is wrong about tea.", kind="core")
        answers = group.run_group(
            me, session, TurnInput("Shall we?", agents=["scout", "critic"]), emit=events.append
        )
        texts = [
            (message.role, message.author, message.text) for message in me.messages.list(session)
        ]
    assert texts == [
        ("user", None, "Shall we?"),
        ("assistant", "scout", "scout agrees."),
        ("assistant", "critic", "critic agrees."),
    ]
    assert [(answer.agent, answer.text, answer.asked_seq) for answer in answers] == [
        ("scout", "scout agrees.", 1),
        ("critic", "critic agrees.", 1),
    ]
    scout, critic = model.requests
    assert GROUP.format("critic, ada") in scout.system
    assert GROUP.format("scout, ada") in critic.system
    assert ("Ada likes tea." in scout.system, "Ada is wrong" in scout.system) == (True, False)
    assert ("Ada likes tea." in critic.system, "Ada is wrong" in critic.system) == (False, True)
    assert [message["content"] for message in critic.messages][-2:] == [
        "ada: Shall we?",
        "scout: scout agrees.",
    ]
    assert [
        (event.what, event.agent) for event in events if event.what in ("start", "message", "done")
    ] == [
        ("start", "scout"),
        ("message", "scout"),
        ("start", "critic"),
        ("message", "critic"),
        ("done", None),
    ]


def test_a_failing_agent_does_not_lose_the_others_and_a_retry_calls_it_alone(url: str) -> None:
    """The other answers are not repeated."""
    down = True

    def say(request: ModelRequest) -> str:
        if agent_of(request) == "critic" and down:
            raise ModelUnavailable(model="m", problem="it is down")
        return f"{agent_of(request)} agrees."

    model = ScriptedModel(say)
    events: list[ChatEvent] = []
    names = ["scout", "critic", "third"]
    with opened(url, model) as memory:
        me = scope_of(memory, "ada", "scout")
        session = me.sessions.add().id
        first = group.run_group(
            me, session, TurnInput("Shall we?", agents=names, key="k"), emit=events.append
        )
        assert [bool(answer.error) for answer in first] == [False, True, False]
        assert "it is down" in first[1].error
        assert [event.agent for event in events if event.what == "error"] == ["critic"]
        down = False
        second = group.run_group(me, session, TurnInput("Shall we?", agents=names, key="k"))
        assert [answer.again for answer in second] == [True, False, True]
        assert [message.author for message in me.messages.list(session)] == [
            None,
            "scout",
            "third",
            "critic",
        ]
    assert len(model.requests) == 4


@one_engine
def test_the_error_is_raised_if_no_agent_can_answer(url: str) -> None:
    events: list[ChatEvent] = []
    with opened(url, ScriptedModel(ModelUnavailable(model="m", problem="it is down"))) as memory:
        me = scope_of(memory, "ada", "scout")
        session = me.sessions.add().id
        raised(
            ModelUnavailable,
            group.run_group,
            me,
            session,
            TurnInput("Shall we?", agents=["scout", "critic"]),
            emit=events.append,
        )
        assert [message.role for message in me.messages.list(session)] == ["user"]
    assert [event.what for event in events] == ["start", "error", "start", "error", "done"]


@one_engine
def test_participants_are_validated(memory: Memory, me: Scope) -> None:
    session = me.sessions.add().id
    wrong: list[tuple[Any, type[Exception]]] = [
        ([], Invalid),
        ("scout", Invalid),
        (["a", "a"], Invalid),
        ([""], Invalid),
        ([str(number) for number in range(17)], TooLarge),
    ]
    for agents, error in wrong:
        received: list[ChatEvent] = []
        with pytest.raises(error):
            group.run_group(
                me, session, TurnInput("Shall we?", agents=agents), emit=received.append
            )
        assert [event.what for event in received] == ["error", "done"]
    assert len(me.messages.list(session)) == 0


@one_engine
def test_an_inactive_agent_answers_in_no_group(memory: Memory, me: Scope) -> None:
    me.agents.add("critic", active=False)
    session = me.sessions.resume().id
    with pytest.raises(Conflict, match="'critic' is inactive"):
        group.run_group(me, session, TurnInput("Shall we?", agents=["scout", "critic"]))
    assert len(me.messages.list(session)) == 0

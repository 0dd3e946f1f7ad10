"""Turns: found from any of their messages, in a session of any length; X3."""

from __future__ import annotations

import pytest

from memorist import NewMessage, Scope
from memorist.kinds.turns import Turn


@pytest.fixture
def session(me: Scope) -> str:
    return me.sessions.add().id


def add_question(me: Scope, session: str, text: str = "?") -> int:
    """Save a user's message alone, as a chat does before it answers."""
    return me.messages.append(session, "user", text).seq


def add_answer(me: Scope, session: str, *roles: str) -> Turn:
    return me.save_turn(
        session, [{"role": role, "content": f"said by {role}"} for role in roles or ("assistant",)]
    )


def turns_of(me: Scope, session: str, seq: int) -> list[Turn]:
    return list(me.turns.list(session, seq=seq))


def test_an_answer_leads_to_its_turn(me: Scope, session: str) -> None:
    """Each message of a turn leads to it, tool messages too."""
    first = add_answer(me, session, "user", "assistant")
    second = add_answer(me, session, "user", "assistant", "tool", "assistant")
    assert [turns_of(me, session, seq) for seq in range(1, 8)] == [[first]] * 2 + [[second]] * 4 + [
        []
    ]
    assert list(me.turns.list(session)) == [second, first]


def test_a_question_leads_to_the_turns_that_answered_it(me: Scope, session: str) -> None:
    """When saved alone; one per agent of a group, newest first."""
    alone = add_question(me, session)
    first = add_answer(me, session, "assistant", "tool", "assistant")
    result = add_question(me, session)
    group = [add_answer(me, session) for _ in range(3)]
    unanswered = add_question(me, session)
    assert turns_of(me, session, alone) == [first]
    assert turns_of(me, session, result) == group[::-1]
    assert turns_of(me, session, group[1].first_seq) == [group[1]]
    assert turns_of(me, session, unanswered) == []
    page = me.turns.list(session, seq=result, limit=2)
    assert [*page, *me.turns.list(session, seq=result, limit=2, after=page.next)] == group[::-1]


def test_a_failed_question_does_not_get_the_next_answer(me: Scope, session: str) -> None:
    failed, result = add_question(me, session), add_question(me, session, "again")
    turn = add_answer(me, session)
    assert turns_of(me, session, failed) == []
    assert turns_of(me, session, result) == [turn]


def test_other_messages_lead_only_to_their_own_turn(me: Scope, session: str) -> None:
    """Messages of others, and tool results in a user message, are no questions."""
    me.messages.append(session, "assistant", "Hello.")
    result = add_question(me, session)
    results = {"parts": [{"type": "tool_result", "tool_use_id": "c", "content": "ok"}]}
    me.messages.extend(
        session, [NewMessage("assistant", "Let me see."), NewMessage("user", results)]
    )
    turn = add_answer(me, session)
    assert [turns_of(me, session, seq) for seq in (1, 3, 4)] == [[], [], []]
    assert turns_of(me, session, result) == [turn]

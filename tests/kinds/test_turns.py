"""Turns: the one that a message belongs to is found from the message, in a session of any length; X3."""

from __future__ import annotations

import pytest

from retain import Memory, NewMessage, Scope
from retain.base.errors import Invalid, NotFound
from retain.kinds.turns import Turn


@pytest.fixture
def session(me: Scope) -> str:
    return me.sessions.add().id


def ask(me: Scope, session: str, text: str = "?") -> int:
    """A user's message, saved by itself, as a chat does before it answers."""
    return me.messages.append(session, "user", text).seq


def answer(me: Scope, session: str, *roles: str) -> Turn:
    return me.save_turn(
        session, [{"role": role, "content": f"said by {role}"} for role in roles or ("assistant",)]
    )


def of(me: Scope, session: str, seq: int) -> list[Turn]:
    return list(me.turns.list(session, seq=seq))


def test_an_answer_has_the_turn_that_it_is_part_of(me: Scope, session: str) -> None:
    """X3: each of a turn's messages leads to it, what a tool said too."""
    first = answer(me, session, "user", "assistant")
    second = answer(me, session, "user", "assistant", "tool", "assistant")
    assert [of(me, session, seq) for seq in range(1, 8)] == [[first]] * 2 + [[second]] * 4 + [[]]
    assert list(me.turns.list(session)) == [second, first]


def test_a_question_has_the_turns_that_answered_it(me: Scope, session: str) -> None:
    """X3: where it was saved by itself; one for each agent of a group, the newest first."""
    alone = ask(me, session)
    one = answer(me, session, "assistant", "tool", "assistant")
    asked = ask(me, session)
    group = [answer(me, session) for _ in range(3)]
    unanswered = ask(me, session)
    assert of(me, session, alone) == [one]
    assert of(me, session, asked) == group[::-1]
    assert of(me, session, group[1].first_seq) == [group[1]]
    assert of(me, session, unanswered) == []
    page = me.turns.list(session, seq=asked, limit=2)
    assert [*page, *me.turns.list(session, seq=asked, limit=2, after=page.next)] == group[::-1]


def test_a_question_that_failed_has_not_the_next_ones_answer(me: Scope, session: str) -> None:
    failed, asked = ask(me, session), ask(me, session, "again")
    turn = answer(me, session)
    assert of(me, session, failed) == []
    assert of(me, session, asked) == [turn]


def test_what_is_no_question_has_no_turn_but_its_own(me: Scope, session: str) -> None:
    """What somebody else said, and what a tool answered in a user's name, asks for nothing."""
    me.messages.append(session, "assistant", "Hello.")
    asked = ask(me, session)
    results = {"parts": [{"type": "tool_result", "tool_use_id": "c", "content": "ok"}]}
    me.messages.extend(
        session, [NewMessage("assistant", "Let me see."), NewMessage("user", results)]
    )
    turn = answer(me, session)
    assert [of(me, session, seq) for seq in (1, 3, 4)] == [[], [], []]
    assert of(me, session, asked) == [turn]


def test_whose_turn_and_which(memory: Memory, me: Scope, session: str) -> None:
    """P11: another user's session has none; a number that nobody has is no error."""
    turn = answer(me, session)
    assert of(me, session, 10**9) == []
    assert list(memory.scope(tenant="acme").turns.list(session, seq=1)) == [turn]
    with pytest.raises(NotFound):
        memory.scope(tenant="acme", user="bob").turns.list(session, seq=1)
    with pytest.raises(Invalid, match="seq: must be from 1"):
        me.turns.list(session, seq=0)

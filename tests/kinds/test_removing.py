"""Removed messages: invisible everywhere, while order, keys and summaries stay correct."""

from __future__ import annotations

import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from memorist import Memory, NewMessage, Scope
from memorist.base.errors import NotFound, OutOfOrder
from memorist.jobs import summarize
from memorist.kinds.summaries import Summaries
from testkit.failures import raised
from testkit.memories import problems, scope_of


@pytest.fixture
def session(me: Scope) -> str:
    return me.sessions.resume().id


def add_messages(me: Scope, session: str, count: int, word: str = "plan") -> None:
    me.messages.extend(session, [NewMessage("user", f"{word} {n}") for n in range(1, count + 1)])


def texts(me: Scope, session: str) -> list[str]:
    return [message.text for message in me.messages.window(session)]


def test_a_removed_message_is_visible_nowhere(memory: Memory, me: Scope, session: str) -> None:
    add_messages(me, session, 4)
    me.messages.append(
        session, "assistant", "The secret is [MemoryRef: some-key - tangerine].", cost=1.5
    )
    me.messages.remove(session, 5)
    me.messages.remove(session, 2)
    left = ["plan 1", "plan 3", "plan 4"]
    assert texts(me, session) == left
    for options in ({"last": 3}, {"minutes": 5}, {"tokens": 1000}, {"last": 9, "turns_only": True}):
        assert [message.text for message in me.messages.window(session, **options)] == left  # type: ignore[arg-type]
    first = me.messages.list(session, limit=2)
    assert [message.seq for message in first] == [1, 3]
    assert [message.seq for message in me.messages.list(session, limit=2, after=first.next)] == [4]
    for number in (2, 5, 6):
        raised(NotFound, me.messages.get, session, number)
        raised(NotFound, me.messages.remove, session, number)
    assert me.search("secret tangerine plan 2", kinds=["messages"]).hits[0].seq != 5
    assert "tangerine" not in str(me.context(session, "What is the secret?"))
    assert "plan 2" not in str(me.context(session).messages)
    out = io.BytesIO()
    memory.export(out)
    assert b"tangerine" not in out.getvalue()
    assert memory.reindex().added == 0
    assert problems(memory) == []


def test_a_removed_message_keeps_its_number(memory: Memory, me: Scope, session: str) -> None:
    """P2: numbering continues, and expected_last_seq stays valid."""
    add_messages(me, session, 3)
    assert me.messages.pop(session).text == "plan 3"
    assert me.sessions.get(session).last_seq == 3
    raised(OutOfOrder, me.messages.append, session, "user", "late", expected_last_seq=2)
    assert me.messages.append(session, "user", "next", expected_last_seq=3).seq == 4
    assert [me.messages.pop(session).seq for _ in range(3)] == [4, 2, 1]
    raised(NotFound, me.messages.pop, session)
    assert texts(me, session) == []
    assert problems(memory) == []


def test_concurrent_pops_get_one_message_each(me: Scope, session: str) -> None:
    add_messages(me, session, 16)
    with ThreadPoolExecutor(8) as pool:
        popped = list(pool.map(lambda _: me.messages.pop(session).seq, range(16)))
    assert sorted(popped) == list(range(1, 17))


def test_clear_removes_all_and_numbering_continues(memory: Memory, me: Scope, session: str) -> None:
    add_messages(me, session, 14)
    me.messages.pop(session)
    services = replace(
        me.services, settings=replace(me.services.settings, summary_model="extractive")
    )
    Summaries(services, me.owner).fold(session, force=True)
    me.save_turn(
        session,
        [{"role": "user", "content": "plan 15"}, {"role": "assistant", "content": "Yes."}],
        key="t",
    )
    assert me.messages.clear(session) == 15
    assert me.messages.clear(session) == 0
    now = me.sessions.get(session)
    assert (now.first_seq, now.last_seq, now.summary, now.summarized_count) == (17, 16, "", 0)
    assert me.search("plan", kinds=["messages"]).hits == []
    assert "plan" not in str(me.context(session).messages)
    assert len(me.turns.list(session)) == 0
    assert len(me.summaries.list(session)) == 0
    assert problems(memory) == []
    add_messages(me, session, 14)
    assert me.messages.get(session, 17).text == "plan 1"
    assert Summaries(services, me.owner).fold(session, force=True).covers_from == 17
    assert problems(memory) == []


def test_a_retry_never_restores_a_removed_message(memory: Memory, me: Scope, session: str) -> None:
    """P3: a key returns what is left of its messages."""
    pair = [NewMessage("user", "one"), NewMessage("assistant", "two")]
    me.messages.extend(session, pair, key="k")
    me.messages.append(session, "user", "alone", key="a")
    me.save_turn(session, pair, key="t")
    for number in (2, 3, 5):
        me.messages.remove(session, number)
    assert [message.seq for message in me.messages.extend(session, pair, key="k")] == [1]
    with pytest.raises(NotFound, match="removed"):
        me.messages.append(session, "user", "alone", key="a")
    assert me.save_turn(session, pair, key="t").last_seq == 5
    me.messages.clear(session)
    assert me.messages.extend(session, pair, key="k") == []
    raised(NotFound, me.save_turn, session, pair, key="t")
    assert texts(me, session) == []
    assert problems(memory) == []


def test_summaries_continue_around_removed_messages(open_memory: Callable[..., Memory]) -> None:
    """Removed numbers are covered with the rest, and do not count towards the threshold."""
    memory = open_memory(
        summary_enabled=True, summary_model="extractive", summary_threshold=8, summary_keep_last=2
    )
    me = scope_of(memory, "ada", "scout")
    session = me.sessions.resume().id
    add_messages(me, session, 12)
    assert me.summaries.fold(session).covers_to == 10
    for number in (3, 11, 12):
        me.messages.remove(session, number)
    add_messages(me, session, 10, "later")
    for number in (21, 22):
        me.messages.remove(session, number)
    assert summarize.due_sessions(memory.services, "acme") == []
    add_messages(me, session, 1, "last")
    folded = me.summaries.fold(session)
    assert (folded.number, folded.covers_from, folded.covers_to) == (2, 11, 19)
    assert [message.seq for message in me.summaries.expand(session, number=2)] == list(
        range(13, 20)
    )
    assert [message.seq for message in me.summaries.expand(session, number=1)][:3] == [1, 2, 4]
    assert problems(memory) == []

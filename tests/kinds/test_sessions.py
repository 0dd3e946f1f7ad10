"""Sessions and the active one: spec C4–C6."""

from __future__ import annotations

import random
from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest

from memorist import Memory, Scope
from memorist.base import clock
from memorist.base.errors import AlreadyExists, NotFound
from memorist.kinds import sessions
from memorist.kinds.sessions import get_locked
from testkit.clock import Now
from testkit.failures import invalid, raised
from testkit.memories import scope_of


def test_the_active_session_says_when_it_was_last_used(
    open_memory: Callable[..., Memory], now: Now
) -> None:
    """C5: `last_active_at` moves when a session is made active, resumed or written to."""
    memory = open_memory(clock=now)
    me = scope_of(memory, "ada", "scout")
    session = me.sessions.add()
    times = [me.sessions.active().last_active_at]
    for use in (
        lambda: me.sessions.resume(session.id),
        lambda: me.messages.append(session.id, "user", "Hello"),
        lambda: me.sessions.activate(session.id),
    ):
        now.pass_days(1)
        use()
        times.append(me.sessions.active().last_active_at)
        assert clock.from_datetime(times[-1], "last_active_at") == now()
    assert times == sorted(set(times))


def test_a_stale_id_is_replaced_by_the_active_session(me: Scope) -> None:
    """Only the active session is confirmed."""
    old = me.sessions.resume()
    new = me.sessions.add()
    assert me.sessions.resume(old.id).id == new.id
    assert me.sessions.resume("never seen").id == new.id
    assert me.sessions.activate(old.id).id == me.sessions.resume(new.id).id == old.id


def test_a_client_may_choose_its_id_once(me: Scope) -> None:
    session = me.sessions.add(
        "b7e2c0de-0000-4000-8000-000000000001", label="Trip", attributes={"k": [1, None]}
    )
    assert (session.id, session.label) == ("b7e2c0de-0000-4000-8000-000000000001", "Trip")
    assert session.attributes == {"k": [1, None]}
    raised(AlreadyExists, me.sessions.add, session.id)


def test_search_requires_all_words_in_label_or_id(memory: Memory, me: Scope) -> None:
    """In any case and script, the same on every engine; % and _ are ordinary characters."""
    for id, label in (
        ("a", "Lisbon by TRAIN"),
        ("b", "STRASSE in Lisbon"),
        ("c", "50%_off"),
        ("trip-d", ""),
        ("e", "ÉTÉ 東京"),
    ):
        me.sessions.add(id, label=label)

    def search_ids(search: str | None) -> list[str]:
        return [session.id for session in me.sessions.list(search=search)]

    assert search_ids("lisbon") == ["b", "a"]
    assert search_ids("  train   LIS ") == ["a"]
    assert search_ids("straße") == ["b"]
    assert search_ids("%_") == ["c"]
    assert search_ids("TRIP") == ["trip-d"]
    assert search_ids("été") == search_ids("東京") == ["e"]
    assert search_ids("l%n") == search_ids("lisbon.train") == []
    assert search_ids("") == search_ids(" \n") == search_ids(None) == ["e", "trip-d", "c", "b", "a"]
    assert list(scope_of(memory, "bob").sessions.list(search="lisbon")) == []
    assert list(scope_of(memory, "ada", "cook").sessions.list(search="lisbon")) == []
    assert [s.id for s in scope_of(memory, "ada").sessions.list(search="lisbon")] == ["b", "a"]
    invalid("search", me.sessions.list, search=3)


def test_search_pages_follow_the_list_order(
    open_memory: Callable[..., Memory], now: Now, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though last use is stored to the minute, and however many rows are read."""
    monkeypatch.setattr(sessions, "_MAX_ROWS_PER_READ", 7)
    me = scope_of(open_memory(clock=now), "ada", "scout")
    dice = random.Random(6)
    ids = [me.sessions.add(f"s{n:02}", label=dice.choice(["tea", "coffee"])).id for n in range(40)]
    for _ in range(120):
        now.micros += dice.randrange(20 * clock.SECOND)
        me.messages.append(dice.choice(ids), "user", "hello")
    expected = [session for session in me.sessions.list() if session.label == "tea"]
    assert 10 < len(expected) < 30
    for limit in (1, 3, 100):
        seen: list[sessions.Session] = []
        after: str | None = None
        while after is not None or not seen:
            page = me.sessions.list(search="TEA", limit=limit, after=after)
            seen, after = [*seen, *page], page.next
        assert seen == expected


@pytest.mark.parametrize(
    ("field", "call"),
    [
        ("label", lambda me: me.sessions.add(label="x" * 1001)),
        ("attributes", lambda me: me.sessions.add(attributes=[1])),
        ("attributes", lambda me: me.sessions.add(attributes={"x": "y" * 70_000})),
    ],
)
def test_invalid_input_names_the_field(me: Scope, field: str, call: Any) -> None:
    invalid(field, call, me)


def test_a_scope_without_user_or_agent_names_the_missing_one(memory: Memory) -> None:
    invalid("user", scope_of(memory).sessions.resume)
    invalid("agent", scope_of(memory, "ada").sessions.add)


def test_list_without_empty_sessions(me: Scope) -> None:
    """Empty sessions make no page shorter, with any search."""
    for number in range(6):
        me.sessions.add(f"s{number}", label="tea")
        if number % 3 == 0:
            me.messages.append(f"s{number}", "user", "Hello.")
    me.messages.append("s1", "user", "Never mind.")
    me.messages.pop("s1")  # a removed message does not count
    for search in (None, "tea"):
        assert len(me.sessions.list(search=search)) == 6
        page = me.sessions.list(search=search, spoken=True, limit=1)
        rest = me.sessions.list(search=search, spoken=True, limit=1, after=page.next)
        assert [session.id for session in [*page, *rest]] == ["s3", "s0"]
        assert rest.next is None


def test_a_locked_session_blocks_other_writers(me: Scope) -> None:
    """A read-modify-write loses no concurrent change."""
    me.sessions.add("trip", attributes={"a": 1})
    other = Thread(
        target=lambda: me.sessions.edit(
            "trip", attributes={**me.sessions.get("trip").attributes, "c": 3}
        )
    )

    def work(inner: Scope) -> None:
        before = get_locked(inner.sessions, "trip").attributes
        if other.ident is None:
            other.start()
            other.join(0.1)
        inner.sessions.edit("trip", attributes={**before, "b": 2})

    me.transaction(work)
    other.join()
    assert me.sessions.get("trip").attributes["c"] == 3
    raised(NotFound, me.transaction, lambda inner: get_locked(inner.sessions, "none"))

"""Several verbs in one transaction: atomic, on every engine, beside other writers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from memorist import AsyncMemory, Memory, Scope
from memorist.base.errors import Invalid, NotFound, OutOfOrder, WrongVersion


@pytest.fixture
def me(memory: Memory) -> Scope:
    me = memory.scope(tenant="acme", user="ada", agent="scout")
    me.sessions.add("trip")
    return me


def test_a_transaction_is_one_write(me: Scope) -> None:
    def work(inner: Scope) -> int:
        inner.messages.append("trip", "user", "hello")
        inner.state.set("said", len(inner.messages.window("trip")))
        return int(inner.state.get("said").value)

    assert me.transaction(work) == 1
    assert me.state.get("said").value == 1
    assert [message.content["text"] for message in me.messages.window("trip")] == ["hello"]


def test_an_error_rolls_everything_back(me: Scope) -> None:
    me.state.set("turn", "first")

    def work(inner: Scope) -> None:
        inner.messages.append("trip", "user", "hello")
        inner.notes.append("a note")
        inner.state.set("turn", "second", if_version=7)

    with pytest.raises(WrongVersion):
        me.transaction(work)
    assert me.messages.window("trip") == []
    assert me.notes.read().text == ""
    assert len(me.search("hello note")) == 0
    assert me.state.get("turn").value == "first"


def test_a_rejected_message_does_not_use_its_key(me: Scope, memory: Memory) -> None:
    """A caller may catch the error and commit: a retry with the key must still store the message."""
    session = me.sessions.resume().id
    too_late = datetime.now(UTC) + timedelta(days=3)

    def work(scope: Scope) -> None:
        with pytest.raises(OutOfOrder):
            scope.messages.append(session, "user", "one", key="k1", expected_last_seq=7)
        with pytest.raises(Invalid, match="future"):
            scope.messages.append(session, "user", "two", key="k2", created_at=too_late)

    me.transaction(work)
    assert me.messages.append(session, "user", "one", key="k1").seq == 1
    assert me.messages.append(session, "user", "two", key="k2").seq == 2
    assert [finding for finding in memory.verify() if not finding.ok] == []


def test_concurrent_transactions_lose_no_update(me: Scope) -> None:
    """A value read in a transaction is unchanged when it writes: a counter with eight threads."""
    me.state.set("count", 0)

    def add(inner: Scope) -> None:
        before = inner.state.get("count")
        inner.state.set("count", before.value + 1)

    def run() -> None:
        for _ in range(10):
            me.transaction(add, lock="count")

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert me.state.get("count").value == 80


def test_a_scope_stays_in_its_tenant_and_its_user(me: Scope, memory: Memory) -> None:
    memory.scope(tenant="acme", user="bob", agent="scout").sessions.add("his")

    with pytest.raises(NotFound):
        me.transaction(lambda inner: inner.messages.append("his", "user", "hello"))


@pytest.mark.parametrize(
    "slip", [lambda out: out.state.set("k", 1), lambda out: out.sessions.get("trip")]
)
def test_the_outer_scope_is_rejected_inside(me: Scope, slip: Callable[[Scope], object]) -> None:
    """It would not be part of the transaction, and must not wait for it."""
    with pytest.raises(Invalid, match="use only the one that it is given"):
        me.transaction(lambda inner: (inner.state.set("a", 1), slip(me)))
    me.transaction(lambda inner: inner.transaction(lambda innermost: innermost.state.set("b", 2)))
    assert [item.key for item in me.state.list()] == ["b"]


def test_the_inner_scope_is_rejected_outside(me: Scope) -> None:
    inner = me.transaction(lambda inner: inner)
    with pytest.raises(Invalid, match="has ended"):
        inner.state.set("k", 2)
    with pytest.raises(Invalid, match="has ended"):
        inner.sessions.get("trip")


def test_references_are_rejected_without_waiting(me: Scope) -> None:
    with pytest.raises(Invalid, match="cannot use references"):
        me.transaction(lambda inner: inner.refs.add("x" * 100_000, session="trip").key)
    assert len(me.refs.list()) == 0


def test_a_session_is_removed_with_its_references_or_not_at_all(me: Scope) -> None:
    me.sessions.add("other")
    me.refs.add("x" * 100_000, session="other")
    (ref,) = me.refs.list()

    def stopped(inner: Scope) -> None:
        inner.sessions.remove("other")
        raise KeyError

    with pytest.raises(KeyError):
        me.transaction(stopped)
    assert me.refs.content(ref.key) == b"x" * 100_000
    me.transaction(lambda inner: inner.sessions.remove("other"))
    with pytest.raises(NotFound):
        me.refs.info(ref.key)


def test_an_async_transaction(url: str) -> None:
    async def run() -> int:
        async with await AsyncMemory.open(url) as memory:
            me = memory.scope(tenant="acme", user="ada", agent="scout")
            return await me.transaction(
                lambda inner: inner.state.set("a", 1).version + inner.state.set("a", 2).version
            )

    assert asyncio.run(run()) == 3

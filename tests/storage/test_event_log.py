"""Events: one per change, in its transaction, in order, of one tenant, without content."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from memorist import Memory, Scope
from memorist.base import clock
from memorist.base.errors import Conflict, EventsRemoved, NotFound
from memorist.jobs.runner import JobRunner
from memorist.storage import event_log
from memorist.storage.database import Transaction
from memorist.storage.event_log import NewEvent
from memorist.storage.writer import Change
from testkit.databases import SETTINGS
from testkit.rows import raw

ON = replace(SETTINGS, events="on")


@pytest.fixture
def recorded(url: str) -> Iterator[Memory]:
    """A memory that records events."""
    with Memory.open(url, settings=ON) as memory:
        yield memory


@pytest.fixture
def ada(recorded: Memory) -> Scope:
    return recorded.scope(tenant="acme", user="ada", agent="scout")


def summary(memory: Memory, tenant: str = "acme", after: int = 0) -> list[tuple[str, str, str]]:
    found = memory.events(tenant=tenant, after=after)
    return [(event.type, event.kind, event.subject) for event in found]


def test_every_change_has_an_event_without_content(recorded: Memory, ada: Scope) -> None:
    ada.sessions.add("s1", label="canary label")
    ada.messages.append("s1", "user", "canary text")
    ada.notes.append("canary note")
    entry = ada.entries.add("canary entry", kind="core")
    ada.entries.edit(entry.id, "canary edit")
    ada.entries.remove(entry.id)
    ada.state.set("theme", "canary value")
    learn = Change("facts", "learn", "acme", session="s1", user="ada", event="learned")
    recorded.services.writer.write(learn, lambda tx: {"added": 1})
    recorded.services.writer.write(learn, lambda tx: {})  # nothing was learned
    recorded.scope(tenant="acme").admin.users.erase_agent("nobody")
    assert summary(recorded) == [
        ("added", "sessions", "s1"),
        ("added", "messages", "s1"),
        ("changed", "notes", "ada scout"),
        ("added", "entries", entry.id),
        ("changed", "entries", entry.id),
        ("removed", "entries", entry.id),
        ("changed", "state", "user:ada theme"),
        ("learned", "facts", "s1"),
        ("erased", "agents", "nobody"),
    ]
    stored = recorded.events(tenant="acme")
    assert [event.number for event in stored] == list(range(1, 10))
    assert {event.user for event in stored[:8]} == {"ada"}
    assert "canary" not in repr(stored)


def test_a_failed_write_and_a_keyless_reader_leave_no_event(recorded: Memory, ada: Scope) -> None:
    with pytest.raises(NotFound):
        ada.messages.append("no such session", "user", "x")
    ada.state.list()
    assert recorded.events(tenant="acme") == []


def test_no_event_is_recorded_unless_events_are_on(memory: Memory) -> None:
    me = memory.scope(tenant="acme", user="ada")
    me.state.set("theme", 1)
    me.transaction(lambda scope: scope.state.set("theme", 2))
    assert memory.events(tenant="acme") == []


def test_only_changes_of_a_session_have_the_user_of_the_session(
    recorded: Memory, ada: Scope
) -> None:
    ada.sessions.add("plans")
    everyone = recorded.scope(tenant="acme")
    everyone.messages.append("plans", "user", "hello")
    everyone.entries.share("plans", ["scout"])
    events = recorded.events(tenant="acme")
    assert [(event.kind, event.subject, event.user) for event in events[1:]] == [
        ("messages", "plans", "ada"),
        ("entries", "plans", None),
    ]


def test_a_transaction_has_the_events_of_its_verbs(recorded: Memory, ada: Scope) -> None:
    def work(scope: Scope) -> None:
        scope.state.set("a", 1)
        scope.transaction(lambda inner: inner.state.set("b", 2))

    def fail(scope: Scope) -> None:
        scope.state.set("c", 1)
        raise KeyError("c")

    ada.transaction(work)
    with pytest.raises(KeyError):
        ada.transaction(fail)
    assert summary(recorded) == [
        ("changed", "state", "user:ada a"),
        ("changed", "state", "user:ada b"),
    ]


def test_one_tenant_never_sees_the_events_of_another(recorded: Memory) -> None:
    """P11."""
    for tenant in ("acme", "other"):
        recorded.scope(tenant=tenant, user="ada").state.set(f"key of {tenant}", 1)
    assert summary(recorded, "acme") == [("changed", "state", "user:ada key of acme")]
    assert summary(recorded, "other") == [("changed", "state", "user:ada key of other")]
    assert summary(recorded, "nobody") == []
    sql = "select count(*) from events where :tenant <> ''"
    if recorded.database.name.startswith("postgresql"):  # row-level security
        assert recorded.database.read("acme", lambda tx: tx.one(sql)) == (1,)


def test_a_number_is_not_visible_before_all_lower_ones(recorded: Memory, ada: Scope) -> None:
    """A transaction that has its number but has not committed keeps later ones from committing."""
    ada.state.set("first", 0)
    allocated = threading.Event()
    release = threading.Event()

    def slow() -> None:
        def work(tx: Transaction) -> None:
            event_log.add(tx, [NewEvent("changed", "state", "set", "slow", "ada")])
            tx.one("select 1 where :tenant <> ''")  # the statements have reached the database
            allocated.set()
            release.wait(20)

        recorded.database.write("acme", work)

    threads = [
        threading.Thread(target=slow),
        threading.Thread(target=lambda: ada.state.set("fast", 1)),
    ]
    threads[0].start()
    assert allocated.wait(20)
    threads[1].start()
    threads[1].join(0.3)
    assert threads[1].is_alive()
    assert summary(recorded, after=1) == []
    release.set()
    for thread in threads:
        thread.join(20)
    assert [subject for _, _, subject in summary(recorded, after=1)] == ["slow", "user:ada fast"]


def test_a_reader_misses_nothing_of_concurrent_writers(recorded: Memory, ada: Scope) -> None:
    def write(writer: int) -> None:
        for number in range(20):
            ada.state.set(f"{writer} {number}", number)

    writers = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in writers:
        thread.start()
    seen: list[int] = []
    deadline = time.monotonic() + 60
    while len(seen) < 80 and time.monotonic() < deadline:
        new = recorded.events(tenant="acme", after=seen[-1] if seen else 0)
        seen += [event.number for event in new]
    for thread in writers:
        thread.join()
    assert seen == list(range(1, 81))


def test_erasing_a_user_removes_their_events_and_reuses_no_number(
    recorded: Memory, ada: Scope
) -> None:
    recorded.scope(tenant="acme", user="bob").state.set("kept", 1)
    ada.sessions.add("s1")
    tenant_scope = recorded.scope(tenant="acme")
    tenant_scope.messages.append("s1", "user", "from a scope of all users")
    ada.state.set("secret plan", 1)
    recorded.scope(tenant="acme").admin.users.erase("ada")
    found = recorded.events(tenant="acme")
    assert [(event.number, event.type, event.subject) for event in found] == [
        (1, "changed", "user:bob kept"),
        (5, "erased", f"sha256:{hashlib.sha256(b'ada').hexdigest()}"),
    ], "the name of the user is gone, and receivers can compare its hash with those of their users"


def test_a_number_that_is_yet_to_come_is_an_error(recorded: Memory, ada: Scope) -> None:
    """A reader of a restored backup would otherwise miss the events up to its old position."""
    ada.state.set("k", 1)
    assert recorded.events(tenant="acme", after=1) == []
    with pytest.raises(Conflict, match="the last one is 1"):
        recorded.events(tenant="acme", after=2)
    with pytest.raises(Conflict, match="the last one is 0"):
        recorded.events(tenant="other", after=1)


def test_a_purge_counts_old_events(recorded: Memory, ada: Scope, url: str) -> None:
    for number in range(3):
        ada.state.set("k", number)
    with raw(url) as database:
        database.all(
            f"update events set created_at = created_at - {8 * clock.DAY} where number < 3"
        )
    assert recorded.purge().events == 2
    assert recorded.purge().events == 0


def test_old_events_are_removed_and_a_late_reader_is_told(
    recorded: Memory, ada: Scope, url: str
) -> None:
    for number in range(4):
        ada.state.set("k", number)
    with raw(url) as database:
        database.all(
            f"update events set created_at = created_at - {8 * clock.DAY} where number < 4"
        )
    result = JobRunner(recorded.services).run(["acme"])
    assert result.jobs["retention"].done == 3
    assert [event.number for event in recorded.events(tenant="acme")] == [4]
    assert [event.number for event in recorded.events(tenant="acme", after=3)] == [4]
    with pytest.raises(EventsRemoved) as caught:
        recorded.events(tenant="acme", after=2)
    assert caught.value.status == 410

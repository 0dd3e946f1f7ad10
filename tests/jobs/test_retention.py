"""Retention (C7): old messages are removed in small batches, and numbering continues."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memorist import Memory, Scope
from memorist.admin.browser_sessions import BrowserSessions
from memorist.base import clock
from memorist.base.errors import NotFound, Unreachable
from memorist.jobs import retention
from memorist.jobs.runner import JobRunner
from memorist.storage import files, leases
from memorist.storage.checksum import checksum
from memorist.storage.database import Transaction, Work
from testkit.clock import Now
from testkit.databases import one_engine
from testkit.failures import invalid, raised
from testkit.faults import with_faults
from testkit.memories import scope_of
from testkit.rows import fill, hashes, raw
from testkit.search_index import index_now, indexed_documents

START = 20_000 * clock.DAY


class Time:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now

    def pass_days(self, days: float) -> None:
        self.now += round(days * clock.DAY)


@pytest.fixture
def time_() -> Time:
    return Time()


@pytest.fixture
def memory(open_memory: Callable[..., Memory], time_: Time) -> Memory:
    return open_memory(clock=time_)


def add_messages(me: Scope, count: int, session: str = "s", word: str = "x", **more: Any) -> None:
    me.messages.extend(
        session, [{"role": "user", "content": f"{word} {n}"} for n in range(count)], **more
    )


def seqs(me: Scope, session: str = "s") -> list[int]:
    return [message.seq for message in me.messages.window(session)]


def test_only_messages_older_than_the_limit_are_removed(
    memory: Memory, me: Scope, time_: Time
) -> None:
    """To the microsecond; the session stays and records its first message."""
    me.sessions.add("s")
    for _ in range(10):
        add_messages(me, 1)
        time_.pass_days(1)
    assert memory.purge(days=20).messages == 0
    assert memory.purge(days=4).messages == 6
    assert seqs(me) == [7, 8, 9, 10]
    session = me.sessions.get("s")
    assert (session.first_seq, session.last_seq, session.count) == (7, 10, 4)
    time_.now += 1
    assert memory.purge(days=4).messages == 1
    assert memory.purge(days=4).messages == 0
    assert [message.seq for message in me.messages.list("s")] == seqs(me) == [8, 9, 10]
    raised(NotFound, me.messages.get, "s", 7)
    assert all(finding.ok for finding in memory.verify())


def test_keys_of_purged_messages_are_removed(
    memory: Memory, me: Scope, time_: Time, url: str
) -> None:
    me.sessions.add("s")
    add_messages(me, 3, key="old")
    time_.pass_days(30)
    add_messages(me, 3, key="new")
    memory.purge(days=7)
    with raw(url) as database:
        assert database.all("select key from message_keys") == [("new",)]
    add_messages(me, 3, key="new")
    assert seqs(me) == [4, 5, 6]
    add_messages(me, 3, key="old")
    assert seqs(me) == [4, 5, 6, 7, 8, 9]
    assert all(finding.ok for finding in memory.verify())


def count_rows(tx: Transaction) -> int:
    """Return how many rows of the tenant a purge could remove."""
    tables = ("messages", "state")
    counts = [tx.one(f"select count(*) from {name} where tenant = :tenant") for name in tables]
    return sum(row[0] for row in counts if row)


def test_no_transaction_removes_more_than_five_hundred_rows(
    memory: Memory, me: Scope, time_: Time
) -> None:
    """Counted before and after each transaction; progress is reported."""
    me.sessions.add("s")
    for _ in range(3):
        add_messages(me, 400)
    for n in range(20):
        me.sessions.add(f"s{n}")
        add_messages(me, 2, f"s{n}")
    memory.database.write("acme", plant_state(1100))
    time_.pass_days(30)
    memory, faults = with_faults(memory)
    removed: list[int] = []
    reports: list[tuple[int, int]] = []

    def count_removed(tx: Transaction, work: Work[Any]) -> Any:
        before = count_rows(tx)
        result = work(tx)
        removed.append(before - count_rows(tx))
        return result

    faults.wrap(count_removed)
    purged = memory.purge(days=7, progress=lambda done, total: reports.append((done, total)))
    assert purged == retention.Purged(messages=1240, state=1100, compacted=True)
    assert max(removed) == retention.BATCH_SIZE == 500
    assert sum(removed) == 2340
    assert [done for done, _ in reports] == sorted(done for done, _ in reports)
    assert reports[-1] == (2340, 2340)
    assert all(finding.ok for finding in memory.verify())


def plant_state(count: int) -> Callable[[Transaction], None]:
    """Add many keys of the tenant that expire at once, in one write."""
    rows = [{"key": f"k{n}", "checksum": checksum("1")} for n in range(count)]
    sql = """insert into state (tenant, area, key, value, version, expires_at, created_at, updated_at,
                                checksum)
             values (:tenant, 'tenant', :key, '1', 1, :now + 1, :now, :now, :checksum)"""
    return lambda tx: tx.many(sql, rows)


@one_engine
def test_a_purge_leaves_an_index_of_what_stays(
    open_memory: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the index job runs and after it."""
    monkeypatch.setattr(retention, "BATCH_SIZE", 100)
    time_ = Time()
    memory = open_memory(clock=time_)
    me = scope_of(memory, "ada", "scout")
    me.sessions.add("s")
    add_messages(me, 1000)
    index_now(memory)
    time_.pass_days(40)
    me.sessions.add("new")
    add_messages(me, 10, "new")
    assert memory.purge(days=30).messages == 1000
    for _ in range(2):
        hits = me.search("x 7", limit=50, min_score=0)
        assert (hits[0].id, hits[0].seq) == ("new", 8)
        assert {hit.id for hit in hits} == {"new"}
        assert all(finding.ok for finding in memory.verify())
        index_now(memory)
    indexed = indexed_documents(memory, "messages")
    assert [(each.id, each.seq) for each in indexed] == [("new", n) for n in range(1, 11)]


def test_writers_and_readers_continue_during_a_purge(open_memory: Callable[..., Memory]) -> None:
    """Nobody fails, order is kept, and new data survives."""
    time_ = Time()
    memory = open_memory(clock=time_, wait_seconds=3.0)
    me = scope_of(memory, "ada", "scout")
    me.sessions.add("s")
    for _ in range(4):
        add_messages(me, 500)
    time_.pass_days(30)
    stop = threading.Event()
    written: list[int] = []
    windows: list[list[int]] = []

    def write(n: int) -> None:
        while not stop.is_set():
            written.append(me.messages.append("s", "user", f"new {n}").seq)
            me.state.set(f"k{n}", 1, ttl=1)

    def read() -> None:
        while not stop.is_set():
            windows.append([message.seq for message in me.messages.window("s", last=700)])
            time.sleep(0.005)

    with ThreadPoolExecutor(5) as pool:
        busy = [*(pool.submit(write, n) for n in range(3)), pool.submit(read)]
        while len(written) < 10:
            time.sleep(0.001)
        purged = memory.purge(days=7)
        while len(written) < 30:
            time.sleep(0.001)
        stop.set()
        for future in busy:
            future.result(60)
    assert purged.messages == 2000
    assert sorted(written) == list(range(2001, 2001 + len(written)))
    assert seqs(me) == sorted(written)
    assert all(window == list(range(window[0], window[-1] + 1)) for window in windows if window)
    assert all(finding.ok for finding in memory.verify())


def test_two_concurrent_purges_remove_everything_once(
    memory: Memory, me: Scope, time_: Time
) -> None:
    for n in range(8):
        me.sessions.add(f"s{n}")
        add_messages(me, 300, f"s{n}")
    time_.pass_days(30)
    with ThreadPoolExecutor(3) as pool:
        purged = list(pool.map(lambda _: memory.purge(days=7).messages, range(3)))
    assert sum(purged) == 2400
    assert memory.purge(days=7).messages == 0
    assert all(finding.ok for finding in memory.verify())


def test_an_interrupted_purge_leaves_complete_batches_and_can_be_repeated(
    memory: Memory, me: Scope, time_: Time
) -> None:
    me.sessions.add("s")
    for _ in range(3):
        add_messages(me, 500)
    time_.pass_days(30)
    add_messages(me, 1)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        memory.purge(days=7, progress=stop)
    assert seqs(me) == list(range(501, 1502))
    assert all(finding.ok for finding in memory.verify())
    assert memory.purge(days=7).messages == 1000
    assert seqs(me) == [1501]


def test_a_clock_jump_does_not_break_the_order(memory: Memory, me: Scope, time_: Time) -> None:
    """A purge removes a prefix by number and stops at the first message that is recent enough."""
    me.sessions.add("s")
    for day in (0, 5, -20, 3, 8, -1):
        time_.now = START + round(day * clock.DAY)
        add_messages(me, 1)
    time_.now = START + 9 * clock.DAY
    assert memory.purge(days=7).messages == 1
    assert seqs(me) == [2, 3, 4, 5, 6]
    time_.now = START + 13 * clock.DAY
    assert memory.purge(days=7).messages == 3
    assert seqs(me) == [5, 6]
    time_.now = START - 100 * clock.DAY
    assert memory.purge(days=7).messages == 0
    time_.now = START + 100 * clock.DAY
    assert memory.purge(days=7).messages == 2
    assert me.messages.append("s", "user", "next").seq == 7
    assert all(finding.ok for finding in memory.verify())


def test_imported_history_has_its_own_age(memory: Memory, me: Scope, time_: Time) -> None:
    me.sessions.add("s")
    moment = datetime.fromtimestamp(START / 1e6, UTC)
    for days in (40, 20, 3):
        me.messages.append(
            "s", "user", f"{days} days ago", created_at=moment - timedelta(days=days)
        )
    me.sessions.add("later")
    me.messages.append("later", "user", "tomorrow", created_at=moment + timedelta(hours=23))
    me.messages.append("later", "user", "long ago", created_at=moment - timedelta(days=365))
    assert memory.purge(days=7).messages == 2
    assert seqs(me) == [3]
    assert seqs(me, "later") == [1, 2], "nothing is taken out of the middle"
    assert all(finding.ok for finding in memory.verify())


def test_every_tenant_is_purged_and_other_data_stays(
    open_memory: Callable[..., Memory], url: str
) -> None:
    time_ = Time()
    memory = open_memory(clock=time_)
    for tenant in ("acme", "other"):
        me = memory.scope(tenant=tenant, user="ada", agent="scout")
        me.sessions.add("s")
        add_messages(me, 3)
    time_.pass_days(30)
    for tenant in ("acme", "other"):
        fill(memory, tenant)
    stored = ("agents", "active_sessions", "interactions", "state")
    before = hashes(url, stored)
    assert memory.purge(days=7).messages == 6
    assert hashes(url, stored) == before
    assert len(scope_of(memory).messages.window("acme ada 1")) == 13


def test_one_tenant_can_be_purged_alone(memory: Memory, time_: Time) -> None:
    for tenant in ("acme", "other"):
        me = memory.scope(tenant=tenant, user="ada", agent="scout")
        me.sessions.add("s")
        add_messages(me, 3)
        me.state.set("k", 1, ttl=1)
    time_.pass_days(30)
    purged = memory.purge(days=7, tenants=["acme"])
    assert (purged.messages, purged.state) == (3, 1)
    assert seqs(memory.scope(tenant="other")) == [1, 2, 3]


def test_the_setting_is_the_default(open_memory: Callable[..., Memory]) -> None:
    time_ = Time()
    memory = open_memory(clock=time_, retention_days=7)
    me = scope_of(memory, "ada", "scout")
    me.sessions.add("s")
    add_messages(me, 3)
    time_.pass_days(8)
    assert open_memory(clock=time_).purge().messages == 0, "by default messages are kept"
    assert memory.purge(days=30).messages == 0
    assert memory.purge().messages == 3


@pytest.mark.parametrize("sweeps", [Memory.purge, Memory.run_jobs])
def test_expired_rows_of_the_system_are_deleted(
    sweeps: Callable[[Memory], object], open_memory: Callable[..., Memory], url: str
) -> None:
    time_ = Time()
    memory = open_memory(clock=time_)
    key = memory.scope(tenant="acme").admin.keys.add("browser")
    BrowserSessions(memory.database).add("acme", key.id)
    leases.claim(memory.database, "acme", "a job that was killed", 60)
    time_.pass_days(60)
    sweeps(memory)
    with raw(url) as database:
        assert database.all("select what from leases where what like 'a job%'") == []
        assert database.all("select digest from signins") == []


@pytest.mark.parametrize("days", [0, -1, True, float("nan"), float("inf"), 1e9])
def test_an_invalid_number_of_days_is_rejected(memory: Memory, days: float) -> None:
    invalid("days", memory.purge, days=days)


def test_concurrent_purges_do_not_reset_numbering(open_memory: Callable[..., Memory]) -> None:
    """P4: the second waits for the session's lock, and must read again before it writes."""
    memories = [open_memory() for _ in range(4)]
    me = scope_of(memories[0], "ada", "scout")
    me.sessions.add("s")
    for _ in range(20):
        old = datetime(2020, 1, 1, tzinfo=UTC)
        me.messages.extend(
            "s", [{"role": "user", "content": "x", "created_at": old} for _ in range(40)]
        )
        last = me.sessions.get("s").last_seq
        threads = [threading.Thread(target=memory.purge, kwargs={"days": 1}) for memory in memories]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert me.messages.append("s", "user", "next").seq == last + 1
    assert all(finding.ok for finding in memories[0].verify())


def test_a_purge_of_almost_everything_ends(
    memory: Memory, me: Scope, time_: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An emptied session does not become due again; messages added meanwhile stay."""
    for session in ("s", "t"):
        me.sessions.add(session)
        add_messages(me, 3, session)
    time_.pass_days(1)

    pauses: list[float] = []

    def meanwhile(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) <= 2:  # after the messages of each session
            time_.pass_days(1)
            add_messages(me, 1)

    monkeypatch.setattr("memorist.storage.pace.sleep", meanwhile)
    assert memory.purge(days=1e-9).messages == 6
    assert seqs(me) == [4, 5]
    assert [finding for finding in memory.verify() if finding.problem] == []


def test_jobs_remove_old_messages_by_themselves(
    open_memory: Callable[..., Memory], now: Now
) -> None:
    """Once an hour, without `memorist purge`."""
    memory = open_memory(clock=now, retention_days=30, embedder="none")
    me = scope_of(memory, "ada", "scout")
    me.sessions.add("s")
    me.messages.append("s", "user", "old")
    me.state.set("soon gone", 1, ttl=60)
    now.pass_days(31)
    me.messages.append("s", "user", "new")
    runner = JobRunner(memory.services)
    assert runner.run().jobs["retention"].done == 2
    assert [message.text for message in me.messages.list("s")] == ["new"]
    assert me.search("old").hits == []
    now.pass_days(31)
    assert runner.run().jobs["retention"].done == 0  # within the hour of this process
    assert JobRunner(memory.services).run().jobs["retention"].done == 1


def test_jobs_keep_messages_without_retention(open_memory: Callable[..., Memory], now: Now) -> None:
    memory = open_memory(clock=now, embedder="none")
    me = scope_of(memory, "ada", "scout")
    me.sessions.add("s")
    me.messages.append("s", "user", "old")
    now.pass_days(1000)
    assert memory.run_jobs().jobs["retention"].done == 0
    assert len(me.messages.list("s")) == 1


def test_jobs_remove_contents_that_never_got_a_reference(
    open_memory: Callable[..., Memory], now: Now
) -> None:
    """As after a crash between storing a large content and adding its reference."""
    memory = open_memory(clock=now, embedder="none")
    me = scope_of(memory, "ada", "scout")
    me.refs.add("A content that is used.", "used", key="used")

    def stage(tx: Transaction) -> None:
        tx.run(
            """insert into blobs (tenant, user_id, digest, bytes, whole, staged_at)
               values (:tenant, 'ada', 'orphan', 0, 1, :now)"""
        )
        tx.run("update blobs set staged_at = :now where tenant = :tenant")

    def digests() -> list[str]:
        sql = "select digest from blobs where tenant = :tenant order by digest"
        return [row[0] for row in memory.database.read("acme", lambda tx: tx.all(sql))]

    (stored,) = digests()
    memory.database.write("acme", stage)
    memory.run_jobs()
    assert digests() == sorted([stored, "orphan"]), "somebody may still add the reference"
    now.pass_days(1)
    memory.run_jobs()
    assert digests() == [stored]
    assert me.refs.content("used") == b"A content that is used."


@one_engine
def test_the_job_runs_while_the_disk_is_nearly_full(
    open_memory: Callable[..., Memory], time_: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_memory(clock=time_) as memory:
        me = scope_of(memory, "ada", "scout")
        me.sessions.add("s")
        add_messages(me, 3)
        time_.pass_days(31)
    monkeypatch.setattr(files, "MIN_FREE_MIB", 1 << 40)
    memory = open_memory(clock=time_, retention_days=30)
    results = memory.run_jobs()
    assert results.jobs["retention"].done == 3
    assert results.jobs["index"].failed == 1  # it needs space


def test_a_failed_job_runs_again_within_the_hour(
    open_memory: Callable[..., Memory], now: Now
) -> None:
    memory, faults = with_faults(open_memory(clock=now, embedder="none"))
    scope_of(memory).state.set("soon gone", 1, ttl=60, area="tenant")
    now.pass_days(1)
    job = retention.RetentionJob()
    faults.kill("write", at=2)
    raised(Unreachable, job.run, memory.services, "acme")
    assert job.run(memory.services, "acme").done == 1

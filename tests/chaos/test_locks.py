"""Other users of the file: long locks, readers that pin the log, and forked children."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memorist import Memory, Scope
from memorist.base.errors import Busy, ReadTooLong
from memorist.storage.database import Transaction
from testkit import sizes
from testkit.databases import SETTINGS
from tests.chaos.crowd import Crowd
from tests.chaos.history import History, messages_of
from tests.chaos.writer import SESSION, TENANT, scope_of

HOLD = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("begin immediate")
print("held", flush=True)
sys.stdin.read()
connection.execute("rollback")
"""


@contextmanager
def write_lock(path: Path) -> Iterator[Callable[[], None]]:
    """Hold the file's write lock in another process until the block ends."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdin
    assert holder.stdout
    assert holder.stdout.readline() == b"held\n"
    try:
        yield holder.stdin.close
    finally:
        holder.kill()
        holder.wait()
        holder.stdin.close()
        holder.stdout.close()


def new_session(memory: Memory) -> Scope:
    me = scope_of(memory)
    me.sessions.add(SESSION)
    return me


def inode(path: Path) -> tuple[int, int]:
    """Return the file's identity; a rebuilt or replaced file has another."""
    result = path.stat()
    return result.st_ino, result.st_dev


def test_writers_wait_for_a_lock_of_another_process(tmp_path: Path) -> None:
    """Seconds of contention are waited out, and nothing is rebuilt or deleted because of it."""
    path = tmp_path / "agent.db"
    with Memory.open(f"sqlite:///{path}", settings=SETTINGS) as memory:
        me, history = new_session(memory), History()
        before = inode(path)
        with (
            write_lock(path) as let_go,
            Crowd(me, history, writers=8, readers=2, writes=3) as crowd,
        ):
            time.sleep(sizes.LOCK_SECONDS)
            assert history.of("ok") == [], "nobody can have written yet"
            assert history.reads, "readers do not wait for a writer"
            let_go()
            crowd.finish()
        assert len(history.of("ok")) == 24
        assert history.errors == []
        assert history.problems(messages_of(me, SESSION)) == []
        assert inode(path) == before


def test_a_short_wait_raises_busy(memory_with: Callable[..., Memory], tmp_path: Path) -> None:
    """The file is left alone, and later writes work."""
    memory = memory_with(wait_seconds=0.2)
    path = tmp_path / "agent.db"
    me = new_session(memory)
    me.messages.append(SESSION, "user", "before")
    before = inode(path)
    with write_lock(path):
        for _ in range(3):
            with pytest.raises(Busy, match="another process"):
                me.messages.append(SESSION, "user", "meanwhile")
        assert [message.text for message in me.messages.window(SESSION)] == ["before"]
        with pytest.raises(Busy):
            memory.purge(days=1)
    assert me.messages.append(SESSION, "user", "after").seq == 2
    assert inode(path) == before
    assert [finding for finding in memory.verify() if not finding.ok] == []


@pytest.fixture
def memory_with(tmp_path: Path) -> Iterator[Callable[..., Memory]]:
    """Open a Memory on an SQLite file with a given wait."""
    opened: list[Memory] = []

    def open_it(wait_seconds: float | None = None) -> Memory:
        url = f"sqlite:///{tmp_path}/agent.db"
        opened.append(Memory.open(url, settings=SETTINGS, wait_seconds=wait_seconds))
        return opened[-1]

    yield open_it
    for memory in opened:
        memory.close()


@pytest.mark.slow
def test_a_long_reader_cannot_make_the_log_grow_without_bound(
    memory_with: Callable[..., Memory], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long reader under heavy writing is stopped with ReadTooLong, and the log shrinks
    again.
    """
    monkeypatch.setattr("memorist.storage.sqlite.engine.OLD_READER_SECONDS", 0.5)
    monkeypatch.setattr("memorist.storage.sqlite.connection.MAX_LOG_MIB", 1)
    memory = memory_with()
    me = new_session(memory)
    for _ in range(50):
        me.messages.append(SESSION, "user", "x")
    log = tmp_path / "agent.db-wal"
    reading, errors, sizes_seen = threading.Event(), [], []

    def linger(tx: Transaction) -> None:
        for _ in tx.each("select * from messages where tenant = :tenant"):
            reading.set()
            time.sleep(0.2)

    def read() -> None:
        try:
            memory.database.read(TENANT, linger)
        except ReadTooLong as error:
            errors.append(error)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    assert reading.wait(30)
    for _ in range(sizes.READER_ROUNDS):
        for _ in range(64):
            me.messages.append(SESSION, "user", "y" * 10_000)
        sizes_seen.append(log.stat().st_size)
        time.sleep(0.2)
    reader.join(60)
    assert not reader.is_alive()
    assert len(errors) == 1, "the reader read on to the end"
    for _ in range(64):
        me.messages.append(SESSION, "user", "z" * 10_000)
    assert log.stat().st_size < max(sizes_seen)
    assert log.stat().st_size < 4 << 20
    assert [finding for finding in memory.verify() if not finding.ok] == []


def in_a_child(work: Callable[[], None]) -> Callable[[], None]:
    """Fork and run the work in the child; return a function that waits and checks its exit."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def done() -> None:
        deadline = time.monotonic() + 60
        while (status := os.waitpid(pid, os.WNOHANG)) == (0, 0):
            if time.monotonic() > deadline:
                os.kill(pid, 9)
                os.waitpid(pid, 0)
                pytest.fail("the child hangs")
            time.sleep(0.005)
        assert os.waitstatus_to_exitcode(status[1]) == 0

    return done


def append_all(me: Scope, name: str, count: int) -> None:
    for number in range(count):
        me.messages.append(SESSION, "user", f"{name}-{number}", key=f"{name}-{number}")


def test_a_forked_child_and_its_parent_both_continue(memory: Memory) -> None:
    """Both write to one session concurrently, and read what the other wrote."""
    me = new_session(memory)
    append_all(me, "before", 3)
    children = [in_a_child(lambda n=n: append_all(me, f"child{n}", 20)) for n in range(3)]  # type: ignore[misc]
    append_all(me, "parent", 20)
    for done in children:
        done()
    append_all(me, "after", 3)
    final = messages_of(me, SESSION)
    assert [seq for seq, _ in final] == list(range(1, 87))
    names = ["before", "after"] * 3 + [
        f"{owner}" for owner in ("child0", "child1", "child2", "parent") for _ in range(20)
    ]
    assert sorted(payload.split("-")[0] for _, payload in final) == sorted(names)
    assert [finding for finding in memory.verify() if not finding.ok] == []


def test_a_fork_under_load(memory: Memory) -> None:
    """Threads write and read while the process forks: the child has neither their locks nor
    connections.
    """
    me, history = new_session(memory), History()
    with Crowd(me, history, writers=8, readers=2) as crowd:
        for number in range(5):
            crowd.wait_for(20)
            history.invoke(f"child{number}-0")
            in_a_child(lambda n=number: append_all(me, f"child{n}", 1))()  # type: ignore[misc]
        crowd.wait_for(20)
    assert history.errors == []
    assert history.problems(messages_of(me, SESSION)) == []
    assert (
        len([payload for _, payload in messages_of(me, SESSION) if payload.startswith("child")])
        == 5
    )


def test_a_child_outlives_the_parents_memory(
    open_memory: Callable[..., Memory], tmp_path: Path
) -> None:
    """A child's acknowledged writes stay when the parent closes its Memory."""
    memory = open_memory()
    me = new_session(memory)
    append_all(me, "before", 3)
    closed, opened = tmp_path / "closed", tmp_path / "opened"

    def work() -> None:
        append_all(me, "early", 5)
        opened.touch()
        while not closed.exists():
            time.sleep(0.005)
        append_all(me, "late", 5)

    done = in_a_child(work)
    while not opened.exists():
        time.sleep(0.005)
    append_all(me, "parent", 5)
    memory.close()
    closed.touch()
    done()
    again = open_memory()
    texts = [text for _, text in messages_of(scope_of(again), SESSION)]
    assert texts[-5:] == [f"late-{n}" for n in range(5)]
    assert len(texts) == 18
    assert [finding for finding in again.verify() if not finding.ok] == []


def test_a_fork_inside_a_read_does_not_deadlock(memory: Memory) -> None:
    """A callback that forks: the fork works and the parent's read finishes."""
    me = new_session(memory)
    append_all(me, "before", 3)

    def work(tx: Transaction) -> list[tuple[object, ...]]:
        in_a_child(lambda: None)()
        return tx.all("select seq from messages where tenant = :tenant order by seq")

    assert memory.database.read(TENANT, work) == [(1,), (2,), (3,)]
    append_all(me, "after", 3)
    assert len(messages_of(me, SESSION)) == 6

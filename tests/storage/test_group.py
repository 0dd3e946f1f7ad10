"""Group commit alone: which thread commits, and that no thread waits forever.

The commit here is a plain function; what it does is up to the engine.
"""

from __future__ import annotations

import linecache
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from memorist.base.errors import Busy, StorageError
from memorist.storage.database import Work
from memorist.storage.sqlite import group_commit as group
from memorist.storage.sqlite.group_commit import GroupCommit, QueuedWrite

TIMEOUT_SECONDS = 20


def run(batch: list[QueuedWrite]) -> None:
    """Run each job's work like an engine: an error belongs to its job."""
    for job in batch:
        try:
            job.result = job.work(None)  # type: ignore[arg-type]
        except Exception as error:
            job.error = error


class BlockableCommit:
    """A commit that can be blocked, and records its batches."""

    def __init__(self, commit: Callable[[list[QueuedWrite]], None] = run) -> None:
        self.open = threading.Event()
        self.busy = threading.Event()
        self.batches: list[list[QueuedWrite]] = []
        self._inner = commit
        self.group = GroupCommit(self._commit)

    def _commit(self, batch: list[QueuedWrite]) -> None:
        self.batches.append(batch)
        self.busy.set()
        assert self.open.wait(TIMEOUT_SECONDS)
        self._inner(batch)

    def submit(self, work: Work[Any]) -> Any:
        return self.group.submit(QueuedWrite("acme", work))

    def wait_for_queue(self, length: int) -> None:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while len(self.group._queue) < length:
            assert time.monotonic() < deadline, f"{len(self.group._queue)} of {length} are waiting"
            time.sleep(0.001)


class Submitter(threading.Thread):
    """A thread that submits one job and keeps its result."""

    def __init__(self, desk: BlockableCommit, work: Work[Any]) -> None:
        super().__init__(daemon=True)
        self.desk, self.work = desk, work
        self.result: Any = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.result = self.desk.submit(self.work)
        except BaseException as error:
            self.error = error

    def done(self) -> Submitter:
        self.join(TIMEOUT_SECONDS)
        assert not self.is_alive(), "this thread was left waiting"
        return self


def queue_behind_leader(
    desk: BlockableCommit, works: list[Work[Any]]
) -> tuple[Submitter, list[Submitter]]:
    """Return a leader blocked in its commit, and the others queued behind it in order."""
    leader = Submitter(desk, lambda _: "leader")
    assert desk.busy.wait(TIMEOUT_SECONDS)
    others = []
    for work in works:
        others.append(Submitter(desk, work))
        desk.wait_for_queue(len(others))
    return leader, others


def raising(error: BaseException) -> Work[Any]:
    def work(_: object) -> None:
        raise error

    return work


def test_a_lone_writer_commits_in_its_own_thread() -> None:
    seen: list[int] = []

    def commit(batch: list[QueuedWrite]) -> None:
        seen.append(threading.get_ident())
        run(batch)

    assert GroupCommit(commit).submit(QueuedWrite("acme", lambda _: "result")) == "result"
    assert seen == [threading.get_ident()]


def test_waiting_jobs_share_the_next_commit_in_order() -> None:
    desk = BlockableCommit()
    order: list[int] = []

    def append(n: int) -> int:
        order.append(n)
        return n

    jobs: list[Work[Any]] = [lambda _, n=n: append(n) for n in range(40)]  # type: ignore[misc]
    leader, others = queue_behind_leader(desk, jobs)
    desk.open.set()
    assert leader.done().result == "leader"
    assert [asker.done().result for asker in others] == list(range(40))
    assert order == list(range(40))
    assert [len(batch) for batch in desk.batches] == [1, 40]


def test_a_batch_has_an_upper_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "MAX_BATCH_WRITES", 8)
    desk = BlockableCommit()
    _, others = queue_behind_leader(desk, [lambda _, n=n: n for n in range(20)])  # type: ignore[misc]
    desk.open.set()
    assert [asker.done().result for asker in others] == list(range(20))
    assert [len(batch) for batch in desk.batches] == [1, 8, 8, 4]


def test_results_reach_the_submitting_thread() -> None:
    """64 threads, 50 jobs each: every result is the submitter's own, and batches form."""
    sizes: list[int] = []

    def commit(batch: list[QueuedWrite]) -> None:
        sizes.append(len(batch))
        time.sleep(0.001)  # a commit takes some time
        run(batch)

    shared = GroupCommit(commit)
    wrong: list[object] = []

    def ask(thread: int) -> None:
        for n in range(50):
            write = QueuedWrite("acme", lambda _, n=n: (thread, n))  # type: ignore[misc]
            if (got := shared.submit(write)) != (thread, n):
                wrong.append(got)

    threads = [threading.Thread(target=ask, args=(n,), daemon=True) for n in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_SECONDS)
    assert not wrong
    assert sum(sizes) == 64 * 50
    assert max(sizes) > 1
    assert len(sizes) < 64 * 50 / 4


def test_an_exception_reaches_only_its_submitter() -> None:
    desk = BlockableCommit()
    mine = ValueError("mine")
    _, others = queue_behind_leader(desk, [lambda _: 1, raising(mine), lambda _: 3])
    desk.open.set()
    assert [asker.done().result for asker in others] == [1, None, 3]
    assert [asker.error for asker in others] == [None, mine, None]


def test_a_failed_commit_fails_for_its_batch_only() -> None:
    def commit(batch: list[QueuedWrite]) -> None:
        if len(batch) > 1:
            raise Busy(problem="the disk is slow")
        run(batch)

    desk = BlockableCommit(commit)
    leader, others = queue_behind_leader(desk, [lambda _, n=n: n for n in range(5)])  # type: ignore[misc]
    desk.open.set()
    assert leader.done().result == "leader"
    errors = [asker.done().error for asker in others]
    assert all(isinstance(error, Busy) and "slow" in str(error) for error in errors)
    assert len({id(error) for error in errors}) == 5, "each thread raises an object of its own"
    assert desk.submit(lambda _: "next") == "next"


def test_a_failed_commit_keeps_a_jobs_own_error() -> None:
    own = ValueError("own")

    def commit(batch: list[QueuedWrite]) -> None:
        run(batch)
        raise Busy(problem="then the commit failed")

    with pytest.raises(ValueError, match="own"):
        GroupCommit(commit).submit(QueuedWrite("acme", raising(own)))


@pytest.mark.parametrize("blow", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_an_interrupted_leader_releases_all(blow: BaseException) -> None:
    """The leader gets the interruption; the jobs of its batch fail as not committed."""

    def commit(batch: list[QueuedWrite]) -> None:
        if len(batch) > 1:
            raise blow
        run(batch)

    desk = BlockableCommit(commit)
    _, others = queue_behind_leader(desk, [lambda _, n=n: n for n in range(6)])  # type: ignore[misc]
    desk.open.set()
    errors = [asker.done().error for asker in others]
    assert [error for error in errors if error is blow] == [blow], "one of them was writing"
    rest = [error for error in errors if error is not blow]
    assert all(isinstance(error, StorageError) and "interrupted" in str(error) for error in rest)
    assert len(rest) == 5
    assert desk.submit(lambda _: "goes on") == "goes on"


def interrupt_while_waiting(desk: BlockableCommit, when: Callable[[], None]) -> None:
    """Submit from the main thread, which a signal interrupts while it waits."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, stop)
    main = threading.get_ident()

    def press() -> None:
        desk.wait_for_queue(1)
        when()
        signal.pthread_kill(main, signal.SIGUSR1)

    presser = threading.Thread(target=press, daemon=True)
    presser.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            desk.submit(lambda _: "never")
    finally:
        presser.join(TIMEOUT_SECONDS)
        signal.signal(signal.SIGUSR1, before)


def test_ctrl_c_while_waiting_leaves_the_queue_and_blocks_nobody() -> None:
    desk = BlockableCommit()
    leader = Submitter(desk, lambda _: "leader")
    assert desk.busy.wait(TIMEOUT_SECONDS)
    behind: list[Submitter] = []

    def queue_behind() -> None:
        behind.extend(Submitter(desk, lambda _, n=n: n) for n in range(4))  # type: ignore[misc]
        desk.wait_for_queue(5)

    interrupt_while_waiting(desk, queue_behind)
    desk.open.set()
    assert leader.done().result == "leader"
    assert sorted(asker.done().result for asker in behind) == [0, 1, 2, 3]
    assert "never" not in [job.result for batch in desk.batches for job in batch]
    assert desk.submit(lambda _: "goes on") == "goes on"


class InterruptedSubmitter(Submitter):
    """A submitter interrupted before the n-th line it runs in the module under test.

    Lines with `with` are skipped: Python reports them again on leaving the block, where it takes no
    signals.
    """

    def __init__(self, desk: BlockableCommit, line: int) -> None:
        self.line, self.lines = line, 0
        super().__init__(desk, lambda _: "victim")

    def run(self) -> None:
        sys.settrace(self._trace)
        super().run()

    def _trace(self, frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        if frame.f_code.co_filename != group.__file__:
            return None
        if event == "line" and "with " not in linecache.getline(group.__file__, frame.f_lineno):
            self.lines += 1
            if self.lines == self.line:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self._trace

    def gone_or(self, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while self.is_alive() and not ready():
            assert time.monotonic() < deadline
            time.sleep(0.001)


@pytest.mark.parametrize("leads", [False, True], ids=["as a follower", "as the leader"])
def test_ctrl_c_before_any_line_blocks_nobody(leads: bool) -> None:
    """The interrupted thread ends; all others get a result, and the next can write."""
    for line in range(1, 1000):
        desk = BlockableCommit()
        first = None if leads else Submitter(desk, lambda _: "leader")
        if first:
            assert desk.busy.wait(TIMEOUT_SECONDS)
        victim = InterruptedSubmitter(desk, line)
        victim.gone_or(desk.busy.is_set if leads else lambda desk=desk: bool(desk.group._queue))  # type: ignore[misc]
        others = [Submitter(desk, lambda _, n=n: n) for n in range(3)]  # type: ignore[misc]
        desk.wait_for_queue(2)
        desk.open.set()
        if first:
            assert first.done().result == "leader"
        for n, other in enumerate(others):
            assert other.done().result == n or isinstance(other.error, StorageError), line
        assert desk.submit(lambda _: "goes on") == "goes on"
        victim.done()
        if victim.lines < line:
            assert victim.result == "victim"
            assert line > 10, "it was struck at more than ten lines"
            return
        assert isinstance(victim.error, KeyboardInterrupt)
    pytest.fail("it never got through")

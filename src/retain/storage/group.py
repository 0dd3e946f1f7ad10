"""Sharing one commit among everybody who waits for one, without a thread of its own.

Whoever finds nobody writing becomes the writer: it takes all the work that waits, has it committed together, wakes its
owners, and hands the turn to the next in the queue. A lone writer never changes threads; many share each fsync.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from retain.errors import RetainError, StorageError
from retain.storage.database import Work

MOST_TOGETHER = 256


class Job:
    """One piece of work that waits to be written, and later its result or error."""

    __slots__ = ("error", "frees", "leads", "result", "tenant", "wake", "work")

    def __init__(self, tenant: str, work: Work[Any], frees: bool = False) -> None:
        self.tenant = tenant
        self.work = work
        self.frees = frees
        self.wake: threading.Lock | None = None
        self.leads = False
        self.result: Any = None
        self.error: BaseException | None = None

    def fail(self, error: BaseException) -> None:
        """The commit failed; every thread gets an error object of its own, and an error of the job's own stays."""
        if self.error is None:
            interrupted = StorageError(problem="the thread that was writing for this one was interrupted")
            shared = error if isinstance(error, Exception) else interrupted
            self.error = shared.again() if isinstance(shared, RetainError) else shared

    def outcome(self) -> Any:
        """The result, or the error, raised."""
        if self.error:
            raise self.error
        return self.result


class GroupCommit:
    """A queue of jobs and the rule for whose turn it is to write them; `commit` writes a batch."""

    def __init__(self, commit: Callable[[list[Job]], None]) -> None:
        self._commit = commit
        self._gate = threading.Lock()
        self._queue: deque[Job] = deque()
        self._busy = False

    def submit(self, job: Job) -> Any:
        """Return the job's result once it is committed."""
        with self._gate:
            self._queue.append(job)
            leads = not self._busy
            self._busy = True
            if not leads:
                job.wake = threading.Lock()
                job.wake.acquire()
        if leads or self._wait(job):
            self._lead(job)
        return job.outcome()

    def _wait(self, job: Job) -> bool:
        """Sleep until the job is done (False) or its turn has come to write for the others (True)."""
        assert job.wake is not None
        try:
            job.wake.acquire()
        except BaseException:  # Ctrl-C while waiting: leave the queue, or pass on a turn that was just given
            with self._gate:
                gone = not job.leads and job in self._queue
                if gone:
                    self._queue.remove(job)
            if job.leads:
                self._pass_on(leaving=job)
            raise
        return job.leads

    def _lead(self, mine: Job) -> None:
        with self._gate:
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), MOST_TOGETHER))]
        try:
            self._commit(batch)
        except BaseException as error:  # nobody who waits may be left waiting; re-raised for the leader below
            for job in batch:
                job.fail(error)
            if not isinstance(error, Exception):
                raise
        finally:
            for job in batch:
                if job is not mine and job.wake:
                    job.wake.release()
            self._pass_on()

    def _pass_on(self, leaving: Job | None = None) -> None:
        with self._gate:
            if leaving and leaving in self._queue:
                self._queue.remove(leaving)
            self._busy = bool(self._queue)
            if self._queue:
                first = self._queue[0]
                first.leads = True
                assert first.wake is not None
                first.wake.release()

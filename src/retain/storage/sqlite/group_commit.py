"""Group commit: all waiting writes share one commit, without a thread of its own.

A thread that finds no other writing becomes the leader: it takes all waiting jobs, commits them
together, wakes their threads, and hands over to the next in the queue. A lone writer never changes
threads; many share each fsync.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Any

from retain.base.errors import InDoubt, RetainError
from retain.storage.database import Work

MAX_BATCH_JOBS = 256


class Job:
    """A unit of work that waits to be committed, and later its result or error."""

    __slots__ = ("error", "frees_space", "result", "tenant", "wake", "work")

    def __init__(self, tenant: str, work: Work[Any], frees_space: bool = False) -> None:
        self.tenant = tenant
        self.work = work
        self.frees_space = frees_space
        self.wake: threading.Lock | None = None
        self.result: Any = None
        self.error: BaseException | None = None

    def fail(self, error: BaseException) -> None:
        """Record that the commit failed; keep an earlier error. Each thread gets its own error."""
        if self.error is None:
            interrupted = InDoubt(
                problem="the thread that committed this write together with others was interrupted"
            )
            shared = error if isinstance(error, Exception) else interrupted
            self.error = shared.copy() if isinstance(shared, RetainError) else shared

    def outcome(self) -> Any:
        """Return the result, or raise the error."""
        if self.error:
            raise self.error
        return self.result


class GroupCommit:
    """The queue of jobs, and which thread is the leader that commits them; `commit` writes a batch.

    KeyboardInterrupt may be raised between any two lines. So the leader is one attribute, set in one
    step, and an interrupted leader settles the jobs that it had taken and hands over.
    """

    def __init__(self, commit: Callable[[list[Job]], None]) -> None:
        self._commit = commit
        self._gate = threading.Lock()
        self._queue: deque[Job] = deque()
        self._leader: Job | None = None
        self._batch: list[Job] = []
        self._settled = False

    def submit(self, job: Job) -> Any:
        """Return the job's result once it is committed."""
        try:
            with self._gate:
                if self._leader is None:
                    self._leader = job
                else:
                    job.wake = threading.Lock()
                    job.wake.acquire()
                self._queue.append(job)
            if job.wake:
                job.wake.acquire()  # until the job is done, or this thread is the leader
            if self._leader is job:
                self._lead(job)
        except BaseException as error:  # an interrupted leader must hand over to the next job
            self._leave(job, error)
            raise
        return job.outcome()

    def _lead(self, mine: Job) -> None:
        with self._gate:
            self._settled = False
            self._batch = batch = list(islice(self._queue, MAX_BATCH_JOBS))
            for _ in batch:
                self._queue.popleft()
        try:
            self._commit(batch)
        except Exception as error:  # every job of the batch gets it, the leader's too
            for job in batch:
                job.fail(error)
        self._settled = True
        self._hand_over(mine)

    def _hand_over(self, mine: Job) -> None:
        """Wake the threads of the batch and the next leader; harmless if done twice."""
        with self._gate:
            for job in self._batch:
                if job is not mine:
                    _wake(job)
            self._batch = []
            self._leader = self._queue[0] if self._queue else None
            if self._leader:
                _wake(self._leader)

    def _leave(self, job: Job, error: BaseException) -> None:
        """Remove an interrupted thread's job from the queue, and hand over if it was the leader."""
        with self._gate:
            mine = self._leader is job
            for leaving in [job, *self._batch] if mine else [job]:
                with suppress(ValueError):
                    self._queue.remove(leaving)
            for waiting in self._batch if mine and not self._settled else []:
                waiting.fail(error)
            if not mine and self._leader:
                _wake(self._leader)  # in case this thread was just about to
        if mine:
            self._hand_over(job)


def _wake(job: Job) -> None:
    if job.wake:
        with suppress(RuntimeError):  # it is awake already
            job.wake.release()

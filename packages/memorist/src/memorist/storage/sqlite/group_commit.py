"""Group commit: all waiting writes share one commit, without a thread of its own.

A thread that finds no other writing becomes the leader: it takes all waiting writes, commits them
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

from memorist.base.errors import InDoubt, MemoristError
from memorist.storage.database import Work

MAX_BATCH_WRITES = 256


class QueuedWrite:
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
            self.error = shared.copy() if isinstance(shared, MemoristError) else shared

    def outcome(self) -> Any:
        """Return the result, or raise the error."""
        if self.error:
            raise self.error
        return self.result


class GroupCommit:
    """The queue of writes, and which thread is the leader that commits them; `commit` writes a batch.

    KeyboardInterrupt may be raised between any two lines. So the leader is one attribute, set in one
    step, and an interrupted leader settles the writes that it had taken and hands over.
    """

    def __init__(self, commit: Callable[[list[QueuedWrite]], None]) -> None:
        self._commit = commit
        self._gate = threading.Lock()
        self._queue: deque[QueuedWrite] = deque()
        self._leader: QueuedWrite | None = None
        self._batch: list[QueuedWrite] = []
        self._settled = False

    def submit(self, write: QueuedWrite) -> Any:
        """Return the write's result once it is committed."""
        try:
            with self._gate:
                if self._leader is None:
                    self._leader = write
                else:
                    write.wake = threading.Lock()
                    write.wake.acquire()
                self._queue.append(write)
            if write.wake:
                write.wake.acquire()  # until the write is done, or this thread is the leader
            if self._leader is write:
                self._lead(write)
        except BaseException as error:  # an interrupted leader must hand over to the next write
            self._leave(write, error)
            raise
        return write.outcome()

    def _lead(self, mine: QueuedWrite) -> None:
        with self._gate:
            self._settled = False
            self._batch = batch = list(islice(self._queue, MAX_BATCH_WRITES))
            for _ in batch:
                self._queue.popleft()
        try:
            self._commit(batch)
        except Exception as error:  # every write of the batch gets it, the leader's too
            for write in batch:
                write.fail(error)
        self._settled = True
        self._hand_over(mine)

    def _hand_over(self, mine: QueuedWrite) -> None:
        """Wake the threads of the batch and the next leader; harmless if done twice."""
        with self._gate:
            for write in self._batch:
                if write is not mine:
                    _wake(write)
            self._batch = []
            self._leader = self._queue[0] if self._queue else None
            if self._leader:
                _wake(self._leader)

    def _leave(self, write: QueuedWrite, error: BaseException) -> None:
        """Remove an interrupted thread's write from the queue, and hand over if it was the leader."""
        with self._gate:
            mine = self._leader is write
            for leaving in [write, *self._batch] if mine else [write]:
                with suppress(ValueError):
                    self._queue.remove(leaving)
            for waiting in self._batch if mine and not self._settled else []:
                waiting.fail(error)
            if not mine and self._leader:
                _wake(self._leader)  # in case this thread was just about to
        if mine:
            self._hand_over(write)


def _wake(write: QueuedWrite) -> None:
    if write.wake:
        with suppress(RuntimeError):  # it is awake already
            write.wake.release()

"""Thread pools for the blocking calls of request handlers.

With `ThreadPoolExecutor` instead, an append of 40 clients at once took 14 % more CPU time (315 µs
against 276) and a window 18 % more (220 against 187); anyio's threads take twice as long as those.
The difference: finished calls are collected, and the event loop is woken once for all of them.
Calls that wait for a model use a pool of their own, so that slow models never block the calls that
only need the database.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from functools import cache, partial
from queue import SimpleQueue
from typing import Any, TypeVar

from memorist.base.errors import Busy, Overloaded

T = TypeVar("T")

DATABASE_THREADS = 40
FILE_READER_THREADS = 2
"""Threads for short windows of a database file.

SQLite releases the GIL for each row, and each release wakes a waiting thread, usually for nothing.
With 64 clients, two threads read 1.6 times as many windows per second as 40.
"""
MAX_WAIT_SECONDS = 2.0
"""A call that gets no thread within this time fails with 503. This bounds the wait behind a stuck
database: queued requests are rejected at once instead of one after the other."""


class _Results:
    """Hands the results of threads over to one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._finished: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._is_woken = False

    def add(self, future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
        """Add a result from a thread; wake the loop unless that has already happened."""
        self._finished.append((future, result, error))
        if not self._is_woken:
            self._is_woken = True
            with contextlib.suppress(RuntimeError):  # the loop is closed and nobody waits
                self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._is_woken = False  # first, so that a result added from now on wakes the loop again
        while self._finished:
            future, result, error = self._finished.popleft()
            if future.cancelled():
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)


class ThreadPool:
    """A bounded number of threads, started on demand, that run blocking functions."""

    def __init__(
        self,
        size: int,
        *,
        max_wait_seconds: float = MAX_WAIT_SECONDS,
        reject_when_full: bool = False,
    ) -> None:
        self._size = size
        self._max_wait_seconds = max_wait_seconds
        self._reject_when_full = reject_when_full
        self._lock = threading.Lock()
        self._threads = 0
        self.pending = 0
        """Calls that are queued or running."""
        self._queue: SimpleQueue[tuple[float, _Results, asyncio.Future[Any], Callable[[], Any]]] = (
            SimpleQueue()
        )
        self._results: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Results] = (
            weakref.WeakKeyDictionary()
        )

    def __call__(self, work: Callable[..., T], *args: Any, **kwargs: Any) -> asyncio.Future[T]:
        """Run `work` in a thread, with the context variables of the caller.

        It runs to its end, even if the caller stops waiting for it.
        """
        self._reserve_thread()
        loop = asyncio.get_running_loop()
        results = self._results.get(loop)
        if results is None:
            results = self._results[loop] = _Results(loop)
        future: asyncio.Future[T] = loop.create_future()
        call = partial(contextvars.copy_context().run, work, *args, **kwargs)
        deadline = time.monotonic() + self._max_wait_seconds
        self._queue.put((deadline, results, future, call))
        return future

    def _reserve_thread(self) -> None:
        """Count one more call; start a thread if all are busy and more are allowed."""
        with self._lock:
            if self._reject_when_full and self.pending >= self._size:
                message = f"{self.pending} requests are waiting for models"
                raise Overloaded(problem=message, seconds=1)
            self.pending += 1
            if self._threads == self._size or self.pending <= self._threads:
                return
            self._threads += 1
        try:
            threading.Thread(target=self._work, name="memorist-worker", daemon=True).start()
        except RuntimeError:  # the operating system refuses to start another thread
            with self._lock:
                self._threads -= 1
                if self._threads:
                    return
                self.pending -= 1
            raise Overloaded(problem="no thread can be started", seconds=1) from None

    def _work(self) -> None:
        while True:
            deadline, results, future, call = self._queue.get()
            result: Any = None
            error: BaseException | None = None
            try:
                if time.monotonic() > deadline:
                    seconds = f"{self._max_wait_seconds:g}"
                    message = f"none of {self._size} threads was free within {seconds} seconds"
                    raise Busy(problem=message)
                result = call()
            except StopIteration as caught:  # a future cannot carry this exception
                error = RuntimeError("StopIteration").with_traceback(caught.__traceback__)
            except BaseException as caught:  # raised again where the future is awaited
                error = caught
            with self._lock:
                self.pending -= 1
            results.add(future, result, error)
            del results, future, call, result, error  # not kept alive while the thread is idle


in_thread = ThreadPool(DATABASE_THREADS)
"""The pool for calls that only need the database."""
in_file_reader = ThreadPool(FILE_READER_THREADS)
"""The pool for short windows of a database file."""


@cache
def model_threads(size: int) -> ThreadPool:
    """Return the pool for calls that may wait for a model; it rejects calls when it is full."""
    return ThreadPool(size, reject_when_full=True)

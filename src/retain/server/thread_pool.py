"""Thread pools for the blocking calls of request handlers.

A `ThreadPoolExecutor` rather than anyio's worker threads: with 64 clients a request costs 12 to 21 %
less CPU time (docs/internals/performance.md). Calls that wait for a model use a pool of their own, so
that slow models never block the calls that only need the database.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

from retain.base.errors import Busy, Overloaded

T = TypeVar("T")

DATABASE_THREADS = 40
MAX_WAIT_SECONDS = 2.0
"""A call that gets no thread within this time fails with 503. This bounds the wait behind a stuck
database: queued requests are rejected at once instead of one after the other."""


class ThreadPool:
    """A bounded number of threads that run blocking functions for an event loop."""

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
        self._executor = ThreadPoolExecutor(size, thread_name_prefix="retain")
        self.pending = 0
        """Calls that are queued or running."""

    def __call__(self, work: Callable[..., T], *args: Any, **kwargs: Any) -> asyncio.Future[T]:
        """Run `work` in a thread, with the context variables of the caller.

        Work that has started runs to its end, even if the caller stops waiting for it.
        """
        if self._reject_when_full and self.pending >= self._size:
            raise Overloaded(problem=f"{self.pending} requests are waiting for models", seconds=1)
        loop = asyncio.get_running_loop()
        context = contextvars.copy_context()
        deadline = time.monotonic() + self._max_wait_seconds

        def run() -> T:
            if time.monotonic() > deadline:
                raise Busy(
                    problem=f"none of {self._size} threads was free "
                    f"within {self._max_wait_seconds:g} seconds"
                )
            try:
                return context.run(work, *args, **kwargs)
            except StopIteration as error:  # a future cannot carry this exception
                raise RuntimeError("StopIteration") from error

        try:
            future = loop.run_in_executor(self._executor, run)
        except RuntimeError:  # the operating system refuses to start another thread
            raise Overloaded(problem="no thread can be started", seconds=1) from None
        self.pending += 1
        future.add_done_callback(self._finished)
        return future

    def _finished(self, future: asyncio.Future[Any]) -> None:
        self.pending -= 1


in_thread = ThreadPool(DATABASE_THREADS)
"""The pool for calls that only need the database."""


@cache
def model_threads(size: int) -> ThreadPool:
    """Return the pool for calls that may wait for a model; it rejects calls when it is full."""
    return ThreadPool(size, reject_when_full=True)

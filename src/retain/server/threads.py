"""Threads for what waits for the database, and a short way there and back.

The framework's own way to a thread takes a tenth of a millisecond for each call, as much as an empty request; this one takes
a tenth of that. What may wait for a model, for minutes, has threads of its own. What is done in a thread is done to its end,
whoever stopped waiting for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from retain.base.errors import Busy, Overloaded

T = TypeVar("T")
MOST = 40
"""The most threads; whoever comes next waits for one."""
WAIT_SECONDS = 2.0
"""The longest wait for a thread, as for a connection; who has not begun by then is refused."""


class _Landing:
    """Where what is done comes back to a loop: many at once, if many are done at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._wake = loop.call_soon_threadsafe
        self._done: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._woken = False

    def add(self, future: asyncio.Future[Any], found: Any, error: BaseException | None) -> None:
        """From a thread: this is done."""
        self._done.append((future, found, error))
        if not self._woken:  # else what was just added is seen by who was woken: he looks after he says that he is awake
            self._woken = True
            with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits
                self._wake(self._hand_out)

    def _hand_out(self) -> None:
        self._woken = False
        while self._done:
            future, found, error = self._done.popleft()
            if future.cancelled():
                continue
            if error is None:
                future.set_result(found)
            else:
                future.set_exception(error)


class Threads:
    """So many threads and no more, started when they are needed; where they `refuse`, nobody waits for one to be free."""

    def __init__(
        self, most: int = MOST, wait_seconds: float = WAIT_SECONDS, *, refuse: bool = False
    ) -> None:
        self._most, self._wait_seconds = most, wait_seconds
        self._refuse = refuse
        self._started = 0
        self._open = 0
        """What was asked for and is not done."""
        self._lock = threading.Lock()
        self._waiting: queue.SimpleQueue[
            tuple[float, _Landing, asyncio.Future[Any], Callable[[], Any]]
        ] = queue.SimpleQueue()
        self._landings: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Landing] = (
            weakref.WeakKeyDictionary()
        )

    def __call__(self, work: Callable[..., T], *given: Any, **named: Any) -> asyncio.Future[T]:
        """Do something in a thread, in the context of who asks for it."""
        self._take()
        loop = asyncio.get_running_loop()
        landing = self._landings.get(loop)
        if landing is None:
            landing = self._landings[loop] = _Landing(loop)
        future: asyncio.Future[T] = loop.create_future()
        run = contextvars.copy_context().run
        self._waiting.put(
            (
                time.monotonic() + self._wait_seconds,
                landing,
                future,
                lambda: run(work, *given, **named),
            )
        )
        return future

    def _take(self) -> None:
        """Have a thread for one more, as long as there may be more of them."""
        with self._lock:
            if self._refuse and self._open >= self._most:
                raise Overloaded(problem=f"{self._open} requests wait for models", seconds=1)
            self._open += 1
            if self._started == self._most or self._open <= self._started:
                return
            self._started += 1
        try:
            threading.Thread(target=self._work, name=f"retain-{self._started}", daemon=True).start()
        except RuntimeError:  # the machine has no more of them: those that there are do it
            with self._lock:
                self._started -= 1
                if self._started:
                    return
                self._open -= 1
            raise Overloaded(problem="no thread can be started", seconds=1) from None

    def _work(self) -> None:
        while True:
            latest, landing, future, work = self._waiting.get()
            found: Any = None
            error: BaseException | None = None
            try:
                if time.monotonic() > latest:
                    raise Busy(
                        problem=f"none of {self._most} threads was free within {self._wait_seconds:g} seconds"
                    )
                found = work()
            except (
                StopIteration
            ) as caught:  # a future takes none, and what comes after it would wait for ever
                error = RuntimeError("StopIteration").with_traceback(caught.__traceback__)
            except BaseException as caught:  # raised in the loop, where somebody waits for it
                error = caught
            with self._lock:
                self._open -= 1
            landing.add(future, found, error)
            del landing, future, work, found, error


in_thread = Threads()
"""The threads of this process for what waits for the database alone."""


@cache
def patient(most: int) -> Threads:
    """The threads of this process for what waits for models: however many do, everything else goes on."""
    return Threads(most, refuse=True)

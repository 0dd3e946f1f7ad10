"""Threads for what waits for the database, and a short way there and back.

The framework's own way to a thread takes a tenth of a millisecond for each call, as much as an empty request; this one takes
a tenth of that. What is done in a thread is done to its end, whoever stopped waiting for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
MOST = 40
"""The most threads; whoever comes next waits for one."""


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
    """So many threads and no more, started when they are needed."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._started = 0
        self._waiting: queue.SimpleQueue[tuple[_Landing, asyncio.Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._landings: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Landing] = weakref.WeakKeyDictionary()

    def __call__(self, work: Callable[..., T], *given: Any, **named: Any) -> asyncio.Future[T]:
        """Do something in a thread, in the context of who asks for it."""
        loop = asyncio.get_running_loop()
        landing = self._landings.get(loop)
        if landing is None:
            landing = self._landings[loop] = _Landing(loop)
        future: asyncio.Future[T] = loop.create_future()
        run = contextvars.copy_context().run
        if self._started < self._most and (not self._started or self._waiting.qsize()):
            self._started += 1
            threading.Thread(target=self._work, name=f"retain-{self._started}", daemon=True).start()
        self._waiting.put((landing, future, lambda: run(work, *given, **named)))
        return future

    def _work(self) -> None:
        while True:
            landing, future, work = self._waiting.get()
            try:
                found = work()
            except BaseException as error:
                landing.add(future, None, error)
            else:
                landing.add(future, found, None)
            del landing, future, work


in_thread = Threads()
"""The threads of this process."""

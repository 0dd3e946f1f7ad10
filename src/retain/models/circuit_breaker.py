"""Leaving a service alone that has just failed again and again, so that nobody waits for it and it can recover."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable

FAILURE_LIMIT = 5


class CircuitBreaker:
    """Opens after five failures in a row, for a pause; then one caller may try, and what it finds is true for all."""

    def __init__(self, pause: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._pause = pause
        self._clock = clock
        self._failures = 0
        self._opens_at = 0.0
        self._lock = threading.Lock()
        _ALL.add(self)

    def wait(self) -> float:
        """How many seconds are left until the service may be asked: 0 is a yes, which is to be followed by a report."""
        with self._lock:
            if self._failures < FAILURE_LIMIT:
                return 0.0
            left = self._opens_at - self._clock()
            if left > 0:
                return left
            self._opens_at = (
                self._clock() + self._pause
            )  # the others wait for what this one finds, or another pause
            return 0.0

    @property
    def open(self) -> bool:
        """Whether the service is left alone."""
        return self._failures >= FAILURE_LIMIT

    def succeeded(self) -> None:
        """The service answered."""
        with self._lock:
            self._failures = 0

    def failed(self) -> None:
        """The service failed."""
        with self._lock:
            self._failures += 1
            self._opens_at = self._clock() + self._pause

    def start_over_lock(self) -> None:
        """In the child of a fork: nobody else is there to give a lock back."""
        self._lock = threading.Lock()


_ALL: weakref.WeakSet[CircuitBreaker] = weakref.WeakSet()


def _in_child() -> None:
    for breaker in list(_ALL):
        breaker.start_over_lock()


os.register_at_fork(after_in_child=_in_child)

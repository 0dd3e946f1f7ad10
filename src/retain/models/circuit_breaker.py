"""A circuit breaker: stop calling a service that keeps failing, so that it can recover."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable

FAILURE_LIMIT = 5


class CircuitBreaker:
    """Opens after five failures in a row. After a pause, one caller may try again."""

    def __init__(self, pause: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._pause = pause
        self._clock = clock
        self._failures = 0
        self._retry_at = 0.0
        self._lock = threading.Lock()
        _ALL.add(self)

    def wait(self) -> float:
        """Return the seconds until the service may be called.

        After 0, the caller must report `succeeded` or `failed`.
        """
        with self._lock:
            if self._failures < FAILURE_LIMIT:
                return 0.0
            left = self._retry_at - self._clock()
            if left > 0:
                return left
            # Other callers wait for the result of this call, or for another pause.
            self._retry_at = self._clock() + self._pause
            return 0.0

    @property
    def open(self) -> bool:
        """True if the service must not be called."""
        return self._failures >= FAILURE_LIMIT

    def succeeded(self) -> None:
        """Report that the service answered."""
        with self._lock:
            self._failures = 0

    def failed(self) -> None:
        """Report that the service failed."""
        with self._lock:
            self._failures += 1
            self._retry_at = self._clock() + self._pause

    def reset_lock(self) -> None:
        """Replace the lock in a forked child, where the thread that holds it does not exist."""
        self._lock = threading.Lock()


_ALL: weakref.WeakSet[CircuitBreaker] = weakref.WeakSet()


def _in_child() -> None:
    for breaker in list(_ALL):
        breaker.reset_lock()


os.register_at_fork(after_in_child=_in_child)

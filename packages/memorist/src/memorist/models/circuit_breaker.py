"""Calls of a service that may fail: retries, and a circuit breaker while it keeps failing."""

from __future__ import annotations

import math
import os
import random
import threading
import time
import weakref
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from memorist.base.errors import MemoristError, ModelUnavailable

FAILURE_LIMIT = 5
FIRST_RETRY_SECONDS = 0.5
"""Delay before the first retry; it doubles with each further retry."""
PAUSE_HINT = "the next call is possible in"
"""Part of the error while the circuit breaker is open."""
Answer = TypeVar("Answer")


@dataclass
class ServiceFailure(Exception):
    """A failed request."""

    error: MemoristError
    can_retry: bool = False
    is_service_failure: bool = True
    """Whether the circuit breaker counts it as a failure of the service."""
    retry_after: float = 0.0
    """The seconds to wait before a retry, if the service names them."""


@dataclass(frozen=True)
class RetryLimits:
    """How long, and how often, a service is called for one answer."""

    deadline: float
    """The time by the monotonic clock after which no retry starts."""
    retries: int
    has_started: Callable[[], bool] = lambda: False
    """Whether part of an answer was passed on already; then there is no retry."""


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

    async def call(
        self, model: str, request: Callable[[], Awaitable[Answer]], limits: RetryLimits
    ) -> Answer:
        """Send a request and return its answer; send it again after a failure that may pass."""
        import asyncio

        wait = FIRST_RETRY_SECONDS
        for left in reversed(range(limits.retries + 1)):
            if pause_left := self.wait():
                problem = (
                    f"it failed {FAILURE_LIMIT} times in a row; {PAUSE_HINT} "
                    f"{math.ceil(pause_left)} s"
                )
                raise ModelUnavailable(model=model, problem=problem)
            try:
                answer = await request()
            except ServiceFailure as failure:
                if failure.is_service_failure:
                    self.failed()
                else:
                    self.succeeded()
                pause = max(failure.retry_after, wait * random.uniform(0.5, 1))
                if (
                    not (failure.can_retry and left)
                    or limits.has_started()
                    or self.open
                    or time.monotonic() + pause >= limits.deadline
                ):
                    raise failure.error from None
            except asyncio.CancelledError:  # the deadline
                self.failed()
                raise
            else:
                self.succeeded()
                return answer
            await asyncio.sleep(pause)
            wait *= 2
        raise AssertionError("the last attempt returns or raises")

    def reset_lock(self) -> None:
        """Replace the lock in a forked child, where the thread that holds it does not exist."""
        self._lock = threading.Lock()


_ALL: weakref.WeakSet[CircuitBreaker] = weakref.WeakSet()


def _in_child() -> None:
    for breaker in list(_ALL):
        breaker.reset_lock()


os.register_at_fork(after_in_child=_in_child)

"""A limit on the processor time that one question about a content may take."""

from __future__ import annotations

import time


class Spent(Exception):
    """Raised when the budget is used up."""


class Budget:
    """A number of seconds of this thread's processor time, starting now."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.is_spent = False
        self._started = time.thread_time()
        # thread_time() is slow, so it is only read once this much wall-clock time has passed.
        self._check_at = time.monotonic() + seconds

    def over(self) -> bool:
        """Return whether the budget is spent. Cheap enough to call for every line."""
        if not self.is_spent and time.monotonic() > self._check_at:
            self._check_at = time.monotonic() + 1
            self.is_spent = time.thread_time() - self._started > self.seconds
        return self.is_spent

    def check(self) -> None:
        """Raise Spent if the budget is spent."""
        if self.over():
            raise Spent

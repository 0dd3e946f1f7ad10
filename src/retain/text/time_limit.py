"""A limit on the processor time of one query over a content."""

from __future__ import annotations

import time


class TimeLimitExceeded(Exception):
    """Raised when the time limit is exceeded."""


class TimeLimit:
    """A number of seconds of this thread's processor time, starting now."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.was_exceeded = False
        self._started = time.thread_time()
        # thread_time() is slow, so it is only read once this much wall-clock time has passed.
        self._check_at = time.monotonic() + seconds

    def is_exceeded(self) -> bool:
        """Return whether the time limit is exceeded. Cheap enough to call for every line."""
        if not self.was_exceeded and time.monotonic() > self._check_at:
            self._check_at = time.monotonic() + 1
            self.was_exceeded = time.thread_time() - self._started > self.seconds
        return self.was_exceeded

    def check(self) -> None:
        """Raise TimeLimitExceeded if the time is used up."""
        if self.is_exceeded():
            raise TimeLimitExceeded

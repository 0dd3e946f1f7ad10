"""A limit on the time of one query over a content: processor time and wall-clock time."""

from __future__ import annotations

import time


class TimeLimitExceeded(Exception):
    """Raised when the time limit is exceeded."""


class TimeLimit:
    """A limit that starts now, for work in this thread.

    seconds:      processor time of this thread
    wall_seconds: wall-clock time. It is larger, so that a busy machine does not stop a short query.
    """

    def __init__(self, seconds: float, wall_seconds: float) -> None:
        self.was_exceeded = False
        self._seconds = seconds
        self._started = time.thread_time()
        now = time.monotonic()
        self._end = now + wall_seconds
        # thread_time() is slow, so it is only read once this much wall-clock time has passed.
        self._check_at = now + min(seconds, wall_seconds)

    def is_exceeded(self) -> bool:
        """Return whether a limit is exceeded. Cheap enough to call for every line."""
        now = time.monotonic()
        if not self.was_exceeded and now > self._check_at:
            self._check_at = now + 1
            used_seconds = time.thread_time() - self._started
            self.was_exceeded = now > self._end or used_seconds > self._seconds
        return self.was_exceeded

    def check(self) -> None:
        """Raise TimeLimitExceeded if the time is used up."""
        if self.is_exceeded():
            raise TimeLimitExceeded

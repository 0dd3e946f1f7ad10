"""How much work a question about a text may be: the processor's time of this thread, whatever else the machine does."""

from __future__ import annotations

import time


class Spent(Exception):
    """The time for it is over."""


class Budget:
    """So many seconds of work, from now on."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.is_spent = False
        self._begun = time.thread_time()
        self._look = time.monotonic() + seconds

    def over(self) -> bool:
        """Whether it is spent; cheap enough to ask for every line."""
        if not self.is_spent and time.monotonic() > self._look:
            self._look = time.monotonic() + 1
            self.is_spent = time.thread_time() - self._begun > self.seconds
        return self.is_spent

    def check(self) -> None:
        """Raise Spent if it is."""
        if self.over():
            raise Spent

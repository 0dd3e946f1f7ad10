"""The pace of a long job that writes in batches alongside other writers."""

from __future__ import annotations

from time import sleep

BATCH_SECONDS = 0.01
"""About how long one batch may keep other writers waiting."""
MIN_PAUSE_SECONDS = 0.002


class Pace:
    """Adapts the size of batches to the time that they take, and pauses between them.

    After a batch longer than `BATCH_SECONDS`, the size is halved, to no less than
    `smallest`; after a much shorter one, it is doubled. A pause is about as long as the batch before
    it: other processes poll for the file lock, and would miss a shorter pause.
    """

    def __init__(self, largest: int, smallest: int | None = None) -> None:
        self._largest = largest
        self._smallest = smallest or max(1, largest // 16)
        self.size = largest

    def record_and_pause(self, seconds: float) -> None:
        """Choose the size of the next batch, and pause."""
        if seconds > BATCH_SECONDS:
            self.size = max(self._smallest, self.size // 2)
        elif seconds < BATCH_SECONDS / 3:
            self.size = min(self._largest, self.size * 2)
        sleep(min(max(seconds, MIN_PAUSE_SECONDS), 2 * BATCH_SECONDS))

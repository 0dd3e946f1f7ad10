"""What was read in rows before: a row never changes, so what its words say is kept as long as there is room."""

from __future__ import annotations

import threading

from retain.search import fuse
from retain.search.engine import Item
from retain.search.fuse import Digest

MOST_WORDS = 2_000_000
"""About 200 MB of memory, at most."""


class Digests:
    """The digests of rows by their numbers, the oldest forgotten first; for all threads of a process."""

    def __init__(self, most: int = MOST_WORDS) -> None:
        self._most, self._size = most, 0
        self._kept: dict[tuple[int, int, int], Digest] = {}
        self._lock = threading.Lock()

    def of(self, row: Item) -> Digest:
        """What ranking needs of a row's text."""
        key = (row.number, row.at, len(row.text))  # a number alone could come back, after a schema went down and up
        found = self._kept.get(key)
        if found is None:
            found = fuse.digest(row.author, row.title, row.text, row.at)
            with self._lock:
                self._kept[key] = found
                self._size += len(found.counts)
                while self._size > self._most:
                    self._size -= len(self._kept.pop(next(iter(self._kept))).counts)
        return found

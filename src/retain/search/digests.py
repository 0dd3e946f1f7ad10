"""What was read in rows before: a row never changes, so what its words say is kept as long as there is room."""

from __future__ import annotations

import os
import threading

from retain.search import fuse
from retain.search.engine import Item
from retain.search.fuse import Digest

MOST_WORDS = 2_000_000
"""About 200 MB of memory, at most."""


class Digests:
    """The digests of rows by their numbers, the oldest forgotten first; for all threads of a process."""

    def __init__(self, most: int = MOST_WORDS) -> None:
        self._most = most
        self._start_over()

    def _start_over(self) -> None:
        self._process, self._size = os.getpid(), 0
        self._kept: dict[tuple[int, int, int], Digest] = {}
        self._lock = threading.Lock()

    def of(self, row: Item) -> Digest:
        """What ranking needs of a row's text."""
        key = (
            row.number,
            row.at,
            len(row.text),
        )  # a number alone could come back, after a schema went down and up
        found = self._kept.get(key)
        if found is None:
            found = fuse.digest(row.author, row.title, row.text, row.at)
            self._keep(key, found)
        return found

    def _keep(self, key: tuple[int, int, int], found: Digest) -> None:
        if (
            self._process != os.getpid()
        ):  # a forked child: a thread that it does not have may hold the lock
            self._start_over()
        with self._lock:
            if key in self._kept:  # another thread was faster
                return
            self._kept[key] = found
            self._size += len(found.counts)
            while self._size > self._most and len(self._kept) > 1:
                self._size -= len(self._kept.pop(next(iter(self._kept))).counts)

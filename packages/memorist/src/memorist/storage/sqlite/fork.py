"""Close SQLite connections before a fork.

SQLite tracks a file's locks in process memory, but a child does not inherit the locks themselves. A
child with its parent's open connections assumes locks that it does not hold: it waits for a writer
that does not exist, and when the parent closes the file, SQLite deletes the log that the child
still writes to. So a fork waits until the connections are idle and closes them; parent and child
then open their own.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable

FORK_WAIT_SECONDS = (
    10.0  # after that, the fork goes ahead, and the child does not touch the connections
)


class ConnectionGate:
    """Counts the threads that use a database's connections; a reentrant context manager."""

    def __init__(self, close_connections: Callable[[], None], reset: Callable[[], object]) -> None:
        self._close_connections = close_connections
        self._reset_connections = reset
        self._inside: dict[int, int] = {}
        self._shut = False
        self._open_as = threading.Event()
        _ALL.add(self)

    def __enter__(self) -> None:
        me = threading.get_ident()
        inside = self._inside
        if me in inside:
            inside[me] += 1
            return
        inside[me] = 1
        # `inside` is set before `_shut` is checked, so that one side always sees the other.
        while self._shut:
            del inside[me]
            self._open_as.wait()
            inside[me] = 1

    def __exit__(self, *_: object) -> None:
        me = threading.get_ident()
        if self._inside[me] > 1:
            self._inside[me] -= 1
        else:
            del self._inside[me]

    def close_for_fork(self) -> None:
        """Stop new users, wait for the current ones, and close the connections."""
        self._open_as.clear()
        self._shut = True
        me = threading.get_ident()
        deadline = time.monotonic() + FORK_WAIT_SECONDS
        while (
            any(thread_id != me for thread_id in list(self._inside)) and time.monotonic() < deadline
        ):
            time.sleep(0.001)
        if not self._inside:
            self._close_connections()

    def open(self) -> None:
        """Continue in the parent after the fork."""
        self._shut = False
        self._open_as.set()

    def reopen_in_child(self) -> None:
        """Continue in the child, where only this thread is left."""
        self._inside = {}
        self._open_as = threading.Event()
        self._shut = False
        _ABANDONED.append(self._reset_connections())


_ALL: weakref.WeakSet[ConnectionGate] = weakref.WeakSet()
_ABANDONED: list[object] = []


def _each(step: Callable[[ConnectionGate], None]) -> Callable[[], None]:
    def run() -> None:
        for doors in list(_ALL):
            step(doors)

    return run


os.register_at_fork(
    before=_each(ConnectionGate.close_for_fork),
    after_in_parent=_each(ConnectionGate.open),
    after_in_child=_each(ConnectionGate.reopen_in_child),
)

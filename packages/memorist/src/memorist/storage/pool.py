"""A pool of connections to a database server.

A thread that needs a connection opens one itself and returns it to the pool afterwards. A pool with
its own threads was tried: after an outage it slept for seconds although the server was back, and
could only report a timeout.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from memorist.base.errors import Busy, Unreachable

C = TypeVar("C")
"""The type of a connection."""


class Pool(Generic[C]):
    """At most `size` connections at a time; the last one used is used first."""

    def __init__(
        self,
        connect: Callable[[], C],
        size: int,
        wait_seconds: float,
        *,
        is_usable: Callable[[C], bool],
        close: Callable[[C], None],
    ) -> None:
        self._connect = connect
        self._is_usable = is_usable
        self._close = close
        self._size = size
        self.wait_seconds = wait_seconds
        self._closed = False
        self.reset()

    def reset(self) -> object:
        """Start with no connections; in a forked child, return the parent's without closing them."""
        inherited = getattr(self, "_idle", None)
        self._lock = threading.Lock()
        self._idle: deque[C] = deque()
        self._free_slots = self._size
        self._queue: deque[threading.Lock] = deque()
        return inherited

    def take(self) -> C:
        """Return a connection for the caller; the thread that waits longest is served first."""
        if self._closed:
            raise Unreachable(problem="it was closed")
        self._wait_for_slot()
        try:
            try:
                return self._idle.pop()
            except IndexError:
                return self._connect()
        except BaseException:  # an interruption must not lose the slot
            self._free_slot()
            raise

    def add(self, connection: C) -> None:
        """Add an idle connection to the pool."""
        self._idle.append(connection)

    def give_back(self, connection: C, *, reuse: bool = True) -> None:
        """Return a connection to the pool; close it if it is broken or not to be reused."""
        try:
            if reuse and self._is_usable(connection) and not self._closed:
                self._idle.append(connection)
            else:
                self._close(connection)
        finally:
            self._free_slot()

    def _wait_for_slot(self) -> None:
        with self._lock:
            if self._free_slots:
                self._free_slots -= 1
                return
            turn = threading.Lock()
            turn.acquire()
            self._queue.append(turn)
        acquired = False
        try:
            acquired = turn.acquire(timeout=self.wait_seconds)
        finally:
            if not acquired:
                self._stop_waiting(turn)
        if not acquired:
            raise Busy(
                problem=f"all {self._size} connections were in use for "
                f"{self.wait_seconds:g} seconds; postgres_pool sets their number, also on Oracle"
            )

    def _stop_waiting(self, turn: threading.Lock) -> None:
        with self._lock:
            waiting = turn in self._queue
            if waiting:
                self._queue.remove(turn)
        if not waiting:  # a slot was assigned at the last moment: pass it on
            self._free_slot()

    def _free_slot(self) -> None:
        """Pass the slot to the thread that waits longest, or free it."""
        with self._lock:
            if self._queue:
                self._queue.popleft().release()
            else:
                self._free_slots += 1

    @property
    def load(self) -> int:
        """The number of threads that use a connection or wait for one."""
        return self._size - self._free_slots + len(self._queue)

    def figures(self) -> dict[str, float]:
        """Return the size, connections in use, idle connections and waiting threads."""
        return {
            "pool_size": self._size,
            "pool_used": self._size - self._free_slots,
            "pool_idle": len(self._idle),
            "pool_waiting": len(self._queue),
        }

    def forget_idle(self) -> None:
        """Close the idle connections: when one was lost, the others probably are."""
        while self._idle:
            try:
                self._close(self._idle.pop())
            except IndexError:
                return

    def close(self) -> None:
        """Close the idle connections now, and the others when they are returned."""
        self._closed = True
        self.forget_idle()

"""Connections to PostgreSQL: made by the thread that needs one, kept for the next; and its errors in our words.

A pool with threads of its own was tried: after an outage it went on sleeping between attempts for many seconds while the
server was back, and could only say that it had waited. Here the thread that asks meets the error itself, and tries again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import conninfo, errors
from psycopg.generators import execute
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from retain.base.errors import (
    Busy,
    Full,
    ReadOnly,
    RetainError,
    SettingsError,
    StorageError,
    Unreachable,
)
from retain.storage.database import Row

Connection = psycopg.Connection[Row]


class Pool:
    """At most `size` connections at a time; the one used last is used first."""

    def __init__(self, connect: Callable[[], Connection], size: int, wait_seconds: float) -> None:
        self._connect = connect
        self._size = size
        self._wait_seconds = wait_seconds
        self._closed = False
        self.start_over()

    def start_over(self) -> object:
        """Have no connections: at first, and in a forked child, which must leave its parent's alone; those are returned."""
        left = getattr(self, "_idle", None)
        self._gate = threading.Lock()
        self._idle: deque[Connection] = deque()
        self._places = self._size
        self._queue: deque[threading.Lock] = deque()
        return left

    def take(self) -> Connection:
        """A connection, for the caller alone until it is given back; who waits longest is served first."""
        if self._closed:
            raise Unreachable(problem="it was closed")
        self._wait_for_a_place()
        try:
            try:
                return self._idle.pop()
            except IndexError:
                return self._connect()
        except BaseException:
            self._leave()
            raise

    def give_back(self, connection: Connection) -> None:
        """Keep a connection for the next, unless it is broken."""
        try:
            if self._closed or connection.closed or connection.broken:
                connection.close()
            else:
                self._idle.append(connection)
        finally:
            self._leave()

    def _wait_for_a_place(self) -> None:
        with self._gate:
            if self._places:
                self._places -= 1
                return
            mine = threading.Lock()
            mine.acquire()
            self._queue.append(mine)
        served = False
        try:
            served = mine.acquire(timeout=self._wait_seconds)
        finally:
            if not served:
                self._stop_waiting(mine)
        if not served:
            problem = f"no connection within {self._wait_seconds} seconds, all {self._size} are in use (postgres_pool)"
            raise Busy(problem=problem)

    def _stop_waiting(self, mine: threading.Lock) -> None:
        with self._gate:
            waiting = mine in self._queue
            if waiting:
                self._queue.remove(mine)
        if not waiting:  # a place was given at the last moment: it is for the next
            self._leave()

    def _leave(self) -> None:
        """Hand the place to whoever waits longest, or keep it free."""
        with self._gate:
            if self._queue:
                self._queue.popleft().release()
            else:
                self._places += 1

    def figures(self) -> dict[str, float]:
        """How many connections there may be, are in use, are idle, and are waited for."""
        used, idle, waiting = self._size - self._places, len(self._idle), len(self._queue)
        return {
            "pool_size": self._size,
            "pool_used": used,
            "pool_idle": idle,
            "pool_waiting": waiting,
        }

    def forget_idle(self) -> None:
        """One connection was lost, so the others probably are: let the next ones be new."""
        while self._idle:
            try:
                self._idle.pop().close()
            except IndexError:
                return

    def close(self) -> None:
        """Close what is idle now, and the others when they come back."""
        self._closed = True
        self.forget_idle()


def read_address(url: str, setting: str) -> dict[str, Any]:
    """What an address says; the driver's own words for what is wrong with it would repeat the password."""
    try:
        return conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        problem = "cannot be read; write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with %xx for special characters"
        raise SettingsError(where=setting, problem=problem) from None


def simply(connection: Connection, script: bytes) -> PGresult:
    """Run statements without parameters, past the cursor, which costs more than these statements do."""
    connection.pgconn.send_query(script)
    result: PGresult = connection.wait(execute(connection.pgconn))[-1]
    if result.status in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
        return result
    if connection.broken:
        raise errors.OperationalError(result.get_error_message())
    raise errors.error_from_result(result)


def roll_back(connection: Connection) -> None:
    """Undo; a connection that cannot even do that is closed, and the pool replaces it."""
    try:
        simply(connection, b"rollback")
    except psycopg.Error:
        connection.close()


def in_our_words(error: psycopg.Error) -> RetainError:
    """The server's errors in our words."""
    problem = str(error).strip() or type(error).__name__
    if isinstance(error, errors.DiskFull):
        return Full(problem=problem)
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return ReadOnly(problem=problem)
    if isinstance(error, errors.InsufficientPrivilege):
        hint = "the role that retain connects as must be a member of postgres_role: `grant retain_app to` it"
        return StorageError(problem=f"{problem}; {hint}")
    if isinstance(error, errors.QueryCanceled):
        return Busy(problem=f"{problem}")
    if isinstance(
        error, errors.LockNotAvailable | errors.DeadlockDetected | errors.SerializationFailure
    ):
        return Busy(problem=problem)
    if isinstance(error, errors.OperationalError | errors.InterfaceError):
        return Unreachable(problem=problem)
    return StorageError(problem=problem)

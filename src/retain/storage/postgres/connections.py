"""A pool of PostgreSQL connections, and the translation of its errors.

A thread that needs a connection opens it, and returns it to the pool for the next. A pool with its
own threads was tried: after an outage it slept for seconds although the server was back, and could
only report a timeout.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import psycopg
from psycopg import conninfo, errors
from psycopg.abc import PQGen
from psycopg.generators import execute
from psycopg.pq import ExecStatus, TransactionStatus
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
from retain.storage.postgres.roles import NO_TENANT, ROLE

RV = TypeVar("RV")


@dataclass
class PreparedStatements:
    """The prepared statements of one connection, by their text and the types of their values."""

    allowed: bool = False
    """False behind a pooler, where the next transaction may run on another connection."""
    names: dict[tuple[bytes, tuple[int, ...]], bytes] = field(default_factory=dict)
    uses: dict[tuple[bytes, tuple[int, ...]], int] = field(default_factory=dict)
    """Uses of the statements that are not prepared yet."""
    count: int = 0
    """Statements that were ever prepared; it numbers their names."""


class Connection(psycopg.Connection[Row]):
    """A connection that stops waiting for a server that does not answer.

    Timeouts of TCP do not help if the server's process is stopped: its system still acknowledges
    what we send.
    """

    answer_seconds: float | None = None
    """The longest wait for the result of a statement; None waits for as long as it takes."""
    timeline: int = 0
    """Of a replica: the newest timeline that it is known to have replayed."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.prepared = PreparedStatements()

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Wait for the server; close the connection if it does not answer in time."""
        try:
            return super().wait(gen, interval, self.answer_seconds if timeout is None else timeout)
        except errors._WaitTimeout as error:
            if timeout is not None:
                raise
            self.pgconn.finish()  # the answer may still come: nobody else must read it
            problem = f"the server did not answer within {self.answer_seconds:g} seconds"
            raise errors.OperationalError(problem) from error


class Pool:
    """At most `size` connections at a time; the last one used is used first."""

    def __init__(self, connect: Callable[[], Connection], size: int, wait_seconds: float) -> None:
        self._connect = connect
        self._size = size
        self.wait_seconds = wait_seconds
        self._closed = False
        self.reset()

    def reset(self) -> object:
        """Forget all connections, initially and in a forked child, and return the old ones."""
        inherited = getattr(self, "_idle", None)
        self._gate = threading.Lock()
        self._idle: deque[Connection] = deque()
        self._free_slots = self._size
        self._queue: deque[threading.Lock] = deque()
        return inherited

    def take(self) -> Connection:
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

    def add(self, connection: Connection) -> None:
        """Add an idle connection to the pool."""
        self._idle.append(connection)

    def give_back(self, connection: Connection) -> None:
        """Return a connection to the pool, or close it if it is broken."""
        try:
            is_idle = connection.pgconn.transaction_status == TransactionStatus.IDLE
            if self._closed or connection.closed or not is_idle:
                connection.close()
            else:
                self._idle.append(connection)
        finally:
            self._free_slot()

    def _wait_for_slot(self) -> None:
        with self._gate:
            if self._free_slots:
                self._free_slots -= 1
                return
            mine = threading.Lock()
            mine.acquire()
            self._queue.append(mine)
        served = False
        try:
            served = mine.acquire(timeout=self.wait_seconds)
        finally:
            if not served:
                self._stop_waiting(mine)
        if not served:
            raise Busy(
                problem=f"all {self._size} connections (postgres_pool) were in use for "
                f"{self.wait_seconds:g} seconds"
            )

    def _stop_waiting(self, mine: threading.Lock) -> None:
        with self._gate:
            waiting = mine in self._queue
            if waiting:
                self._queue.remove(mine)
        if not waiting:  # a slot was assigned at the last moment: pass it on
            self._free_slot()

    def _free_slot(self) -> None:
        """Pass the slot to the thread that waits longest, or free it."""
        with self._gate:
            if self._queue:
                self._queue.popleft().release()
            else:
                self._free_slots += 1

    @property
    def load(self) -> int:
        """The number of threads that use a connection or wait for one."""
        return self._size - self._free_slots + len(self._queue)

    def figures(self) -> dict[str, float]:
        """Return the pool's size and the number of used, idle and awaited connections."""
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
                self._idle.pop().close()
            except IndexError:
                return

    def close(self) -> None:
        """Close the idle connections now, and the others when they are returned."""
        self._closed = True
        self.forget_idle()


def read_address(url: str, setting: str) -> dict[str, Any]:
    """Parse an address; the driver's own error would repeat the password."""
    try:
        return conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        problem = "cannot be read; write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with %xx for special characters"
        raise SettingsError(where=setting, problem=problem) from None


def shown_address(parts: Mapping[str, Any]) -> str:
    """Return an address without user and password; it may name several servers."""
    hosts = str(parts.get("host", "")).split(",")
    ports = str(parts.get("port", 5432)).split(",")
    if len(ports) == 1:
        ports *= len(hosts)
    servers = [f"{host}:{port or 5432}" for host, port in zip(hosts, ports, strict=False)]
    return f"postgresql://{','.join(servers)}/{parts.get('dbname', '')}"


def run_script(connection: Connection, script: bytes) -> PGresult:
    """Run statements without parameters, and without the cost of a cursor."""
    connection.pgconn.send_query(script)
    result: PGresult = connection.wait(execute(connection.pgconn))[-1]
    if result.status in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
        return result
    if connection.broken:
        raise errors.OperationalError(result.get_error_message())
    raise errors.error_from_result(result)


def translate_error(error: psycopg.Error) -> RetainError:
    """Return the error of retain for an error of the server."""
    problem = str(error).strip() or type(error).__name__
    if isinstance(error, errors.UndefinedObject) and NO_TENANT in problem:
        return StorageError(
            problem="the setting `retain.tenant` of the transaction did not reach the server that "
            "has the rows; check that no pooler or proxy before PostgreSQL drops `set local`"
        )
    if isinstance(error, errors.DiskFull):
        return Full(problem=problem)
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return ReadOnly(problem=problem)
    if isinstance(error, errors.InsufficientPrivilege):
        hint = f"the role that retain connects as must be a member of {ROLE}: `grant {ROLE} to` it"
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

"""Connections of psycopg, and the translation of their errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import psycopg
from psycopg import conninfo, errors
from psycopg.abc import PQGen
from psycopg.generators import execute
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult

from memorist.base.errors import (
    Busy,
    Full,
    MemoristError,
    ReadOnly,
    SettingsError,
    StorageError,
    Unreachable,
)
from memorist.storage.database import Row
from memorist.storage.postgres.roles import ROLE
from memorist.storage.postgres.row_security import NO_TENANT

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


class PostgresConnection(psycopg.Connection[Row]):
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


def is_idle(connection: PostgresConnection) -> bool:
    """Return whether a connection is open, and in no transaction."""
    return connection.pgconn.transaction_status == TransactionStatus.IDLE


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


def run_script(connection: PostgresConnection, script: bytes) -> PGresult:
    """Run statements without parameters, and without the cost of a cursor."""
    connection.pgconn.send_query(script)
    result: PGresult = connection.wait(execute(connection.pgconn))[-1]
    if result.status in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
        return result
    if connection.broken:
        raise errors.OperationalError(result.get_error_message())
    raise errors.error_from_result(result)


def translate_error(error: psycopg.Error) -> MemoristError:
    """Return the error of memorist for an error of the server."""
    problem = str(error).strip() or type(error).__name__
    if isinstance(error, errors.UndefinedObject) and NO_TENANT in problem:
        return StorageError(
            problem="the setting `memorist.tenant` of the transaction did not reach the server that "
            "has the rows; check that no pooler or proxy before PostgreSQL drops `set local`"
        )
    if isinstance(error, errors.DiskFull):
        return Full(problem=problem)
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return ReadOnly(problem=problem)
    if isinstance(error, errors.InsufficientPrivilege):
        hint = (
            f"the role that memorist connects as must be a member of {ROLE}: `grant {ROLE} to` it"
        )
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

"""A read replica: a streaming copy of the primary that some read transactions run on.

Before each of them, the primary says how far its write-ahead log is written, and the replica must
have replayed it to there. So a read sees every write that was acknowledged before it began, through
this process or another: the primary, which all of them share, is the only place that keeps the
position. It costs the primary one short statement for each read.

A replica that does not answer, or needs more than a moment to catch up, is not used until a check in
the background passes. Until then, reads go to the primary.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import psycopg

from memorist.base.errors import MemoristError, SettingsError
from memorist.base.settings import Settings
from memorist.storage.database import Finding, Row
from memorist.storage.postgres import migration_script, server
from memorist.storage.postgres.connections import PostgresConnection, read_address, shown_address
from memorist.storage.postgres.pipeline import Pipeline
from memorist.storage.postgres.server import NOW, PostgresServer

log = logging.getLogger("memorist.storage")
SETTING = "read_database"
CATCH_UP_SECONDS = 0.05
"""The longest wait for the replica to replay what the primary has written."""
ANSWER_SECONDS = 1.0
"""The longest wait for the answer of the replica about its position."""
RECHECK_SECONDS = 0.25
"""The time between checks of a replica that is not used."""
MAX_RECHECK_SECONDS = 8.0
"""The longest time between checks of a replica that often fails soon after a check."""
STEADY_SECONDS = 30.0
"""A replica that was used for this long does not count as failing soon."""
# A commit is acknowledged when its log is flushed, except with `synchronous_commit = off`.
_WRITTEN = f"""select ('x' || substr(pg_walfile_name(pg_current_wal_flush_lsn()), 1, 8))::bit(32)::int,
    case current_setting('synchronous_commit')
        when 'off' then pg_current_wal_insert_lsn() else pg_current_wal_flush_lsn() end::text,
    {NOW}""".encode()
# In its own transaction: one that has begun already may not see what was replayed since then.
_REPLAYED = b"""select pg_is_in_recovery(),
    pg_wal_lsn_diff($1::pg_lsn, pg_last_wal_replay_lsn())::bigint"""
# Both are written at times only, so the replica may have gone further.
_TIMELINE = b"""select greatest((select timeline_id from pg_control_checkpoint()),
    (select min_recovery_end_timeline from pg_control_recovery()))"""
_IDENTITY = b"select (select system_identifier from pg_control_system()), current_database()::text"


class Position(NamedTuple):
    """The end of the primary's write-ahead log, and the time of its clock."""

    timeline: int
    """The number of promotions before it: a replica on another timeline has different rows."""
    lsn: str
    now: int


class ReplicaConnection(NamedTuple):
    """A connection to the replica that may be read, and the clock of the primary."""

    connection: PostgresConnection
    now: int


class _PrimaryFailure(Exception):
    """The primary did not answer, which says nothing about the replica."""


class Replica(PostgresServer):
    """The connections to a read replica, and whether they may be used."""

    def __init__(self, url: str, settings: Settings, primary: PostgresServer) -> None:
        self.name = shown_address(read_address(url, SETTING))
        super().__init__(url, settings, primary.pool.wait_seconds)
        self._primary = primary
        self._primary_identity: Row | None = None
        self._problem = ""
        self._bytes_behind = 0
        self._check_at = 0.0
        self._pause = RECHECK_SECONDS
        self._used_since = 0.0
        self._asking = 0  # connections to the primary that only ask for its position
        self._reads = 0
        self._fallbacks = 0
        self._gate = threading.Lock()  # of the three counters
        self._checking = threading.Lock()

    def open(self) -> None:
        """Check the replica; raise `SettingsError` if it can never be one of the primary."""
        if self._primary.is_cluster:
            problem = "cannot be used with Citus: the rows are on its workers, and a replica of the coordinator has none"
            raise SettingsError(where=SETTING, problem=problem)
        with suppress(_PrimaryFailure):  # the first read tries again
            self._set_problem(self._find_problem())

    def take(self) -> ReplicaConnection | None:
        """Return a connection that sees every acknowledged write; None to read from the primary.

        The server with fewer transactions of this process is read, so that both are used.
        """
        if self._problem:
            with self._gate:
                self._fallbacks += 1
            self._check_soon()
            return None
        if self.pool.load > self._primary.pool.load - self._asking:
            return None
        try:
            connection = self.pool.take()
        except (psycopg.Error, SettingsError) as error:
            self.fall_back(str(error).strip())
            return None
        except _PrimaryFailure:
            return None  # the read from the primary tries again, or raises
        try:
            position = self._read_position()
        except BaseException as error:  # always return the connection
            self.pool.give_back(connection)
            if isinstance(error, _PrimaryFailure):
                return None
            raise
        try:
            problem = self._wait_for(connection, position)
        except psycopg.Error as error:
            problem = str(error).strip()
        if problem:
            self.fall_back(problem)
            return None
        return ReplicaConnection(connection, position.now)

    def fall_back(self, problem: str) -> None:
        """Count a read that runs on the primary, and leave the replica out until a check passes."""
        with self._gate:
            self._fallbacks += 1
        self._set_problem(problem)

    def count_read(self) -> None:
        """Count a read that ran on the replica."""
        with self._gate:
            self._reads += 1

    def figures(self) -> dict[str, float]:
        """Return the state at the last read or check, and how many reads ran on the replica."""
        if not self._reads or self._problem:
            self._check_soon()
        return {
            "replica_used": float(not self._problem),
            "replica_bytes_behind": self._bytes_behind,
            "replica_reads": self._reads,
            "replica_fallbacks": self._fallbacks,
        }

    def finding(self) -> Finding:
        """Check the replica now."""
        try:
            problem = self._find_problem()
        except SettingsError as error:
            problem = str(error.problem)
        except _PrimaryFailure as error:
            return Finding(self.name, f"the primary did not answer: {error}")
        self._set_problem(problem)
        if problem and self._bytes_behind:
            problem += self._schema_lag()
        return Finding(self.name, problem)

    def reset(self) -> object:
        """Forget the connections and the check that runs, in a forked child."""
        self._gate = threading.Lock()
        self._checking = threading.Lock()
        self._asking = 0
        return self.pool.reset()

    def connect(self) -> PostgresConnection:
        """Open a connection; raise `SettingsError` if the server is not a replica of the primary."""
        connection = super().connect()
        try:
            connection.answer_seconds = ANSWER_SECONDS
            self._compare(connection)
        except BaseException:  # an interruption must not leave the connection open
            connection.close()
            raise
        return connection

    def _compare(self, connection: PostgresConnection) -> None:
        if self._primary_identity is None:
            self._primary_identity = self._ask_primary(_IDENTITY)
        system, database = Pipeline(connection).send(_IDENTITY).rows()[0]
        primary_system, primary_database = self._primary_identity
        if system != primary_system:
            problem = f"{self.name} is not a replica of the primary: it belongs to another PostgreSQL cluster"
            raise SettingsError(where=SETTING, problem=problem)
        if database != primary_database:
            problem = (
                f"{self.name} is the database {database}, but the primary's is {primary_database}"
            )
            raise SettingsError(where=SETTING, problem=problem)

    def _read_position(self) -> Position:
        with self._gate:
            self._asking += 1
        try:
            return Position(*self._ask_primary(_WRITTEN))
        finally:
            with self._gate:
                self._asking -= 1

    def _ask_primary(self, query: bytes) -> Row:
        """Return the only row of a statement on the primary."""
        with self._primary_connection() as connection:
            return Pipeline(connection).send(query).rows()[0]

    @contextmanager
    def _primary_connection(self) -> Iterator[PostgresConnection]:
        pool = self._primary.pool
        try:
            connection = pool.take()
            try:
                connection.answer_seconds = server.ANSWER_SECONDS
                yield connection
            finally:
                if connection.closed:
                    pool.forget_idle()
                pool.give_back(connection)
        except psycopg.Error as error:
            raise _PrimaryFailure(str(error).strip()) from error

    def _wait_for(self, connection: PostgresConnection, position: Position) -> str:
        """Wait until the replica has replayed a position; return why it cannot be read, or "".

        Gives the connection back to the pool, unless it can be read.
        """
        problem = "the check was interrupted"
        try:
            problem = self._find_lag(connection, position)
        except psycopg.Error:
            connection.close()
            self.pool.forget_idle()
            raise
        finally:
            if problem:
                self.pool.give_back(connection)
        return problem

    def _find_lag(self, connection: PostgresConnection, position: Position) -> str:
        connection.answer_seconds = ANSWER_SECONDS
        deadline = time.monotonic() + CATCH_UP_SECONDS
        pause = 0.0005
        while True:
            is_replica, behind = Pipeline(connection).send(_REPLAYED, [position.lsn]).rows()[0]
            if not is_replica:
                return "the server is not a replica (it may have been promoted)"
            if behind is None:
                return "the server does not say how far it has replayed the log"
            self._bytes_behind = max(behind, 0)
            if behind <= 0:
                break
            if time.monotonic() > deadline:
                return f"it is {behind} bytes behind the primary"
            time.sleep(pause)
            pause = min(2 * pause, 0.01)
        if connection.timeline != position.timeline:
            connection.timeline = Pipeline(connection).send(_TIMELINE).rows()[0][0]
        if connection.timeline != position.timeline:
            return (
                f"it is on timeline {connection.timeline} and the primary on {position.timeline}; "
                "if it follows this primary, it is used after its next restart point"
            )
        return ""

    def _schema_lag(self) -> str:
        """Return a note if the replica has not replayed the last migration yet."""
        try:
            connection = self.pool.take()
            try:
                version = migration_script.version(connection)
            finally:
                self.pool.give_back(connection)
            with self._primary_connection() as primary_connection:
                expected = migration_script.version(primary_connection)
        except (psycopg.Error, _PrimaryFailure):
            return ""
        return "" if version == expected else f" and has schema {version} of {expected}"

    def _find_problem(self) -> str:
        """Return why the replica cannot be read, or ""."""
        try:
            position = self._read_position()
            connection = self.pool.take()
            problem = self._wait_for(connection, position)
        except psycopg.Error as error:
            return str(error).strip()
        if not problem:
            self.pool.give_back(connection)
        return problem

    def _set_problem(self, problem: str) -> None:
        now = time.monotonic()
        if problem and not self._problem:
            is_steady = now > self._used_since + STEADY_SECONDS
            pause = RECHECK_SECONDS if is_steady else 2 * self._pause
            self._pause = min(pause, MAX_RECHECK_SECONDS)
            log.warning("%s is not read: %s. Reads go to the primary.", self.name, problem)
        elif self._problem and not problem:
            self._used_since = now
            log.info("%s is read again.", self.name)
        self._check_at = now + self._pause
        self._problem = problem

    def _check_soon(self) -> None:
        """Check the replica in a thread, if that is due and none does: no read waits for it."""
        if time.monotonic() >= self._check_at and self._checking.acquire(blocking=False):
            thread = threading.Thread(target=self._check, name="memorist-replica", daemon=True)
            thread.start()

    def _check(self) -> None:
        checking = self._checking
        try:
            self._set_problem(self._find_problem())
        except SettingsError as error:
            self._set_problem(str(error))
        except (MemoristError, _PrimaryFailure) as error:  # no connection was free, for example
            self._check_at = time.monotonic() + self._pause
            log.info("%s was not checked: %s", self.name, error)
        finally:
            checking.release()

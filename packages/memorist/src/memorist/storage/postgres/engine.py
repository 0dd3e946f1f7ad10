"""The PostgreSQL engine, through psycopg: transactions bound to one tenant.

Each transaction switches to the application's role, which owns nothing, sets the tenant for
row-level security, and reads the clock. These settings do not outlive it. Behind a pooler in
transaction mode, no setting of a connection outlives a transaction.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from psycopg import conninfo, errors
from psycopg.pq import ExecStatus
from psycopg.rows import dict_row
from psycopg.sql import SQL

from memorist.base.clock import Clock
from memorist.base.errors import (
    Busy,
    InDoubt,
    Invalid,
    SchemaTooOld,
    SettingsError,
    StorageError,
)
from memorist.base.settings import Settings
from memorist.storage.damage import raise_damage
from memorist.storage.database import (
    Dialect,
    Finding,
    Progress,
    Rewritten,
    Row,
    SampledTable,
    Step,
    T,
    Transaction,
    Work,
    require_tenant,
)
from memorist.storage.postgres import (
    citus,
    migration_script,
    rewrite,
    roles,
    row_security,
)
from memorist.storage.postgres import server as postgres_server
from memorist.storage.postgres.connections import (
    PostgresConnection,
    read_address,
    shown_address,
    translate_error,
)
from memorist.storage.postgres.pipeline import Pipeline, SentStatement
from memorist.storage.postgres.replica import Replica
from memorist.storage.postgres.server import (
    ANSWER_SECONDS,
    NOW,
    SEARCH_PATH,
    Begin,
    PostgresServer,
    add_keepalive,
    choose_primary,
)
from memorist.storage.postgres.views import PostgresViews
from memorist.storage.server_database import OPEN, ServerDatabase, TransientFailure
from memorist.storage.transaction_database import forbid_in_transaction

COLUMN_TYPES = {
    "{key}": 'text collate "C"',
    "{text}": "text",
    "{json}": "text",
    "{time}": "bigint",
    "{int}": "bigint",
    "{real}": "double precision",
    "{blob}": "bytea",
    "{checksum}": "integer",
    # Around a text column: its stored bytes, also where they are no valid text.
    "{bytes_begin}": "textsend(",
    "{bytes_end}": ")",
    "{strict}": "",
    # The fields of the column `value`; the last one of a name counts, as in Python.
    "{fields}": "cast(value as json)",
    # The type of a field that is compared as a number; no value of it is an error.
    "{number}": "jsonb",
    # A table of the members of a JSON object, with the columns `key` and `value`, both texts.
    "{members_of_versions}": "json_each_text(cast(versions as json))",
}
MIGRATION_LOCK = 0x4D65_6D6F
MIGRATION_SECONDS = 120.0
SAMPLED_PAGES = 200
"""Pages that an estimate of a table's size looks at."""
_WRITE = "begin"
_READ = "begin isolation level repeatable read read only"
TRANSIENT_ERRORS = (
    errors.SerializationFailure,
    errors.DeadlockDetected,
    errors.OperationalError,
    errors.InterfaceError,
    errors.ForeignKeyViolation,  # the row that it refers to was removed a moment ago
)


class PostgresTransaction:
    """Statements inside one transaction of one connection.

    `begin` is sent with the first statement, and `commit` with the last ones. A statement whose
    result nobody reads is sent with the next one whose result is read.
    """

    def __init__(
        self,
        connection: PostgresConnection,
        tenant: str,
        clock: Clock | None,
        *,
        is_cluster: bool = False,
    ) -> None:
        self.connection = connection
        self._pipeline = Pipeline(connection)
        self.tenant = tenant
        self._now = clock() if clock else None
        self._is_cluster = is_cluster  # only the coordinator's clock counts
        self._begun: SentStatement | None = None
        self.streams = 0  # rows were handed out one by one: the work cannot be run again
        self._is_committing = False
        self._commit: SentStatement | None = None

    def begin(self, statements: Sequence[tuple[bytes, bool]]) -> None:
        """Send the statements that begin a transaction; the last one reads the clock."""
        for query, may_prepare in statements:
            self._begun = self._pipeline.send(query, may_prepare=may_prepare)

    def commit(self, *, idempotent: bool) -> None:
        """Commit, together with the statements whose results nobody has read."""
        if not idempotent and self._begun is not None and self._begun.result is None:
            # The connection may have been lost while it was idle. If we found out about that
            # together with the commit, the commit would be in doubt.
            self._pipeline.wait()
        self._is_committing = True
        commit = self._commit = self._pipeline.send(b"commit")
        self._pipeline.wait()
        if commit.result is None or commit.result.command_status != b"COMMIT":
            # The callback caught the error of a statement and continued.
            raise errors.InFailedSqlTransaction("a statement failed, so the server rolled back")

    @property
    def is_in_doubt(self) -> bool:
        """True if the transaction may have been committed, although there was an error."""
        if self.connection.closed:
            return self._is_committing
        result = self._commit.result if self._commit else None
        # A coordinator does not say why a worker failed to commit; its connection may be lost.
        is_failure = result is not None and result.status == ExecStatus.FATAL_ERROR
        return self._is_cluster and is_failure

    def roll_back(self) -> None:
        """Undo everything; close the connection if that fails."""
        self._pipeline.roll_back()

    @property
    def now(self) -> int:
        """The database's clock at the begin of the transaction, in microseconds."""
        if self._now is None:
            assert self._begun is not None
            self._now = int(self._begun.rows()[0][0])
        return self._now

    def send(self, sql: str, **values: Any) -> SentStatement:
        values["tenant"] = self.tenant
        if (
            not self._is_cluster
            and self._now is None
            and self._begun
            and self._begun.result is None
        ):
            translated = _translate_with_clock(sql)
        else:
            translated = _translate(sql)
            if "now" in translated.parameters:
                values["now"] = self.now
        return self._pipeline.send(
            translated.query, [values[name] for name in translated.parameters]
        )

    def all(self, sql: str, **values: Any) -> list[Row]:
        return self.send(sql, **values).rows()

    def one(self, sql: str, **values: Any) -> Row | None:
        rows = self.send(sql, **values).rows()
        return rows[0] if rows else None

    def run(self, sql: str, **values: Any) -> int:
        return self.send(sql, **values).count()

    def lock_rows(self, sql: str, **values: Any) -> None:
        self.send(sql + " for no key update", **values)

    def lock(self, name: str) -> None:
        self.send(
            "select pg_advisory_xact_lock(hashtextextended(:tenant || ' ' || :name, 0))", name=name
        )

    def many(self, sql: str, rows: Sequence[Mapping[str, Any]]) -> None:
        for row in rows:
            self.send(sql, **row)

    def each(self, sql: str, **values: Any) -> Iterator[Mapping[str, Any]]:
        self.streams += 1
        bound = {**values, "tenant": self.tenant, "now": self.now}
        self._pipeline.wait()
        with self.connection.cursor(f"each {self.streams}", row_factory=dict_row) as cursor:
            cursor.itersize = 1000
            cursor.execute(_translate_for_cursor(sql), bound)
            yield from cursor

    def unscoped(self, sql: str, **values: Any) -> list[Row]:
        query, parameters = _number_parameters(sql)
        return self._pipeline.send(query, [values[name] for name in parameters]).rows()

    def columns(self, table: str) -> list[str]:
        sql = b"""select attname from pg_attribute
                  where attrelid = to_regclass($1) and attnum > 0 and not attisdropped
                  order by attnum"""
        return [name for (name,) in self._pipeline.send(sql, [table]).rows()]


class PostgresDatabase(ServerDatabase):
    """One PostgreSQL database, shared by all threads of this process."""

    dialect: Dialect = "postgres"
    remnants: Sequence[str] = rewrite.REMNANTS

    def __init__(
        self,
        url: str,
        settings: Settings,
        now: Clock | None = None,
        wait_seconds: float | None = None,
    ) -> None:
        super().__init__(wait_seconds, translate_error)
        parts = read_address(url, "database")
        read_address(settings.owner_database, "owner_database")
        self._settings = settings
        self._clock = now
        self.name = shown_address(parts)
        url = choose_primary(url)
        self._owner_url = add_keepalive(choose_primary(settings.owner_database or url))
        self._primary = PostgresServer(url, settings, self._wait_seconds)
        self._primary.connect_first()
        self.is_cluster = self._primary.is_cluster
        self._replica: Replica | None = None
        if settings.read_database:
            self._replica = Replica(settings.read_database, settings, self._primary)
            try:
                self._replica.open()
            except BaseException:  # an interruption must not leave connections open
                self.close()
                raise
        OPEN.add(self)

    # -- reading and writing ---------------------------------------------------------------

    def read(
        self, tenant: str, work: Work[T], *, long: bool = False, allow_replica: bool = False
    ) -> T:
        replica = self._replica
        if allow_replica and replica is not None:
            forbid_in_transaction(self)
            reading = replica.take()
            if reading is not None:
                clock = self._clock or (lambda: reading.now)  # that of the primary
                transaction = PostgresTransaction(reading.connection, tenant, clock)
                try:
                    begin = Begin(_READ, long)
                    result = self._run_on(replica, transaction, begin, work, idempotent=True)
                except ValueError as error:
                    raise_damage(self, tenant, error)
                except (TransientFailure, StorageError) as error:
                    is_of_server = isinstance(error.__cause__, psycopg.Error)
                    if transaction.streams or not is_of_server:
                        raise
                    replica.fall_back(str(error))
                else:
                    replica.count_read()
                    return result
        return self._run_with_retries(tenant, work, writes=False, idempotent=True, long=long)

    def _run_once(
        self, tenant: str, work: Work[T], *, writes: bool, idempotent: bool, long: bool
    ) -> T:
        try:
            connection = self._primary.pool.take()
        except psycopg.Error as error:
            raise TransientFailure(error) from error
        begin = Begin(_WRITE if writes else _READ, long)
        transaction = PostgresTransaction(
            connection, tenant, self._clock, is_cluster=self.is_cluster
        )
        return self._run_on(self._primary, transaction, begin, work, idempotent=idempotent)

    def _run_on(
        self,
        server: PostgresServer,
        transaction: PostgresTransaction,
        begin: Begin,
        work: Work[T],
        *,
        idempotent: bool,
    ) -> T:
        """Run work in a transaction, and give its connection back to the pool of the server."""
        connection = transaction.connection
        connection.answer_seconds = None if begin.is_long else postgres_server.ANSWER_SECONDS
        try:
            transaction.begin(server.begin_statements(begin, transaction.tenant))
            result = work(transaction)
            transaction.commit(idempotent=idempotent)
            return result
        except psycopg.Error as error:
            transaction.roll_back()
            is_in_doubt = begin.statement == _WRITE and transaction.is_in_doubt
            is_transient = isinstance(error, TRANSIENT_ERRORS) and not isinstance(
                error, errors.QueryCanceled | errors.DiskFull
            )
            if _is_standby(connection, error):  # after a failover: the address leads to another now
                connection.close()
                is_transient = True
            if connection.closed:
                server.pool.forget_idle()
            if (is_transient or is_in_doubt) and not transaction.streams:
                raise TransientFailure(error, is_in_doubt) from error
            if is_in_doubt:
                raise InDoubt(problem=error) from error
            raise translate_error(error) from error
        except Exception:  # whatever the caller's work raises
            transaction.roll_back()
            raise
        except BaseException:  # interrupted, perhaps in the middle of a command
            connection.close()  # the pool replaces it
            raise
        finally:
            server.pool.give_back(connection)

    # -- operating -------------------------------------------------------------------------

    def version(self) -> int:
        with self._own_connection(self._primary.url) as connection:
            return migration_script.version(connection)

    def step(self, step: Step) -> bool:
        self._known_tenants.clear()  # the migration may drop or recreate the table of tenants
        deadline = time.monotonic() + MIGRATION_SECONDS
        is_retry = False
        with self._own_connection(self._owner_url, answer_seconds=None) as connection:
            if self.is_cluster:
                citus.check_nodes(connection)
            while True:
                try:
                    with _migration_lock(connection, deadline):
                        return self._apply_when_free(connection, step, deadline)
                except errors.DuplicateTable:
                    # PostgreSQL looks up names in a cache that is renewed when a transaction
                    # begins: another process may have created the tables since then.
                    if is_retry:
                        raise
                    is_retry = True
                except errors.InsufficientPrivilege as error:
                    if roles.is_role_error(error):
                        where = "owner_database" if self._settings.owner_database else "database"
                        raise SettingsError(
                            where=where, problem=error.diag.message_primary
                        ) from error
                    raise SchemaTooOld(found=step.number - int(step.up)) from error

    def _apply_when_free(self, connection: PostgresConnection, step: Step, deadline: float) -> bool:
        """Apply a migration with short lock waits, because writers queue behind a waiting lock."""
        while True:
            try:
                with connection.transaction():
                    return self._apply(connection, step)
            except (errors.LockNotAvailable, errors.DeadlockDetected) as error:
                if time.monotonic() > deadline:
                    raise Busy(
                        problem=f"a transaction keeps a table from changing ({error})"
                    ) from error
            time.sleep(random.uniform(0.2, 0.4))

    def _apply(self, connection: PostgresConnection, step: Step) -> bool:
        if migration_script.version(connection) != step.number - int(step.up):
            return False
        connection.execute("set local lock_timeout = '200ms'")
        if citus.is_distributed(connection, roles.SCHEMA):
            citus.run_script(connection, self.script(step), roles.SCHEMA, roles.ROLE)
        else:
            connection.execute(self.script(step))
        return True

    def script(self, step: Step) -> str:
        return migration_script.script(step, expand_types(step.script))

    @property
    def views(self) -> PostgresViews:
        @contextmanager
        def connect() -> Iterator[PostgresConnection]:
            with self._own_connection(self._owner_url, answer_seconds=None) as connection:
                yield connection

        @contextmanager
        def begin() -> Iterator[PostgresConnection]:
            deadline = time.monotonic() + MIGRATION_SECONDS
            with connect() as connection, _migration_lock(connection, deadline):
                connection.execute("set local lock_timeout = '5s'")
                yield connection

        return PostgresViews(connect, begin)

    def distribute(self) -> str:
        if not self.is_cluster:
            return ""
        with self._own_connection(self._primary.url) as connection:
            if citus.is_complete(connection, roles.SCHEMA):
                return citus.layout(connection, roles.SCHEMA)
        deadline = time.monotonic() + MIGRATION_SECONDS
        set_path = SQL("set local search_path = {}").format(SEARCH_PATH)
        with self._own_connection(self._owner_url, answer_seconds=None) as connection:
            citus.check_nodes(connection)
            try:
                with _migration_lock(connection, deadline):
                    if not citus.is_complete(connection, roles.SCHEMA):
                        connection.execute(set_path)
                        citus.distribute(connection, roles.SCHEMA, roles.ROLE)
                return citus.layout(connection, roles.SCHEMA)
            except errors.InsufficientPrivilege:
                return "Some tables are not distributed: run `memorist migrate up` as their owner."

    def health(self) -> list[Finding]:
        with self._own_connection(self._primary.url) as connection:
            findings = row_security.findings(connection)
            if citus.is_installed(connection):
                findings += citus.findings(connection, roles.SCHEMA, roles.ROLE)
            return findings

    def engine(self) -> str:
        with self._own_connection(self._primary.url) as connection:
            row = connection.execute("show server_version").fetchone() or ("",)
            server = f" on {connection.info.host}:{connection.info.port}"
        cluster = " with Citus" if self.is_cluster else ""
        if "," not in self.name:  # the address names one server
            server = ""
        return f"PostgreSQL {row[0]}{cluster}{server}, as {roles.ROLE}"

    def estimate_rows(self, tenant: str, table: SampledTable) -> int:
        def work(tx: Transaction) -> int:
            ((pages,),) = tx.unscoped(
                "select pg_relation_size(to_regclass(:table)) / 8192", table=table.name
            )
            percent = 100 * min(1, SAMPLED_PAGES / (pages or 1))
            (hits,) = tx.one(
                table.count_sampled("tablesample system (:percent)"), percent=percent
            ) or (0,)
            estimate: int = round(hits * 100 / percent)
            return estimate

        return self.read(tenant, work, long=True)

    def figures(self) -> dict[str, float]:
        figures = self._primary.pool.figures()
        if self._replica is not None:
            figures |= self._replica.figures()
        return figures

    def check_replica(self) -> Finding | None:
        return None if self._replica is None else self._replica.finding()

    def backup(self, target: Path) -> None:
        parts = read_address(self._owner_url, "owner_database")
        with self._own_connection(self._owner_url) as connection:
            roles.check_can_dump(connection)
        env = {
            **os.environ,
            "PGPASSWORD": str(parts.pop("password", os.environ.get("PGPASSWORD", ""))),
        }
        schema = ["--schema", roles.SCHEMA]
        command = [
            "pg_dump",
            "--format=custom",
            *schema,
            "--file",
            str(target),
            "--dbname",
            conninfo.make_conninfo(**parts),
        ]
        try:
            subprocess.run(command, env=env, check=True, capture_output=True, text=True)
        except FileNotFoundError:
            raise SettingsError(
                where="pg_dump", problem="is not installed; it comes with PostgreSQL's client"
            ) from None
        except subprocess.CalledProcessError as error:
            raise StorageError(problem=f"pg_dump: {error.stderr.strip()}") from None

    def plan_rewrite(self) -> str:
        if self.is_cluster:
            raise Invalid(field="--compact", problem=citus.CANNOT_REWRITE)
        with self._own_connection(self._owner_url) as connection:
            return rewrite.plan(connection)

    def rewrite(self, progress: Progress) -> Rewritten:
        with self._own_connection(self._owner_url, answer_seconds=None) as connection:
            return Rewritten(True, rewrite.rewrite(connection, progress))

    def close(self) -> None:
        OPEN.discard(self)
        self._primary.pool.close()
        if self._replica is not None:
            self._replica.pool.close()

    def after_fork(self) -> list[object]:
        abandoned = [self._primary.pool.reset()]
        if self._replica is not None:
            abandoned.append(self._replica.reset())
        return abandoned

    # -- connecting ------------------------------------------------------------------------

    @contextmanager
    def _own_connection(
        self, url: str, answer_seconds: float | None = ANSWER_SECONDS
    ) -> Iterator[PostgresConnection]:
        """Open a connection outside the pool, with the role of the address."""
        try:
            with PostgresConnection.connect(
                url, autocommit=True, prepare_threshold=None
            ) as connection:
                connection.answer_seconds = answer_seconds
                yield connection
        except psycopg.Error as error:
            raise translate_error(error) from error


@contextmanager
def _migration_lock(connection: PostgresConnection, deadline: float) -> Iterator[None]:
    """Begin a transaction that has the lock of migrations; raise `Busy` after the deadline."""
    while True:
        with connection.transaction():
            row = connection.execute(
                "select pg_try_advisory_xact_lock(%s)", (MIGRATION_LOCK,)
            ).fetchone()
            if row and row[0]:
                yield
                return
        if time.monotonic() > deadline:
            raise Busy(problem="another process has been migrating for over two minutes")
        time.sleep(random.uniform(0.02, 0.1))


def _is_standby(connection: PostgresConnection, error: psycopg.Error) -> bool:
    """Return whether a write failed because the server is a replica."""
    if not isinstance(error, errors.ReadOnlySqlTransaction) or connection.closed:
        return False
    status = connection.pgconn.parameter_status(b"in_hot_standby")
    if status is not None:
        return status == b"on"
    # PostgreSQL 13 does not say it, and a pooler may not pass it on.
    with suppress(psycopg.Error):
        return connection.execute("select pg_is_in_recovery()").fetchone() == (True,)
    return False


class _Translated(NamedTuple):
    """A statement as PostgreSQL reads it."""

    query: bytes
    parameters: Sequence[str]  # the names of $1, $2 and so on


_PARAMETER = re.compile(r"(?<![:\w]):([a-z_][a-z0-9_]*)")


@cache
def _translate(sql: str) -> _Translated:
    """Return the statement for PostgreSQL; raise `UnscopedSql` if it does not use the tenant."""
    return _number_parameters(require_tenant(sql))


@cache
def _number_parameters(sql: str) -> _Translated:
    """Return the statement for PostgreSQL, which numbers its parameters."""
    parameters: dict[str, int] = {}

    def numbered(match: re.Match[str]) -> str:
        number = parameters.setdefault(match[1], len(parameters) + 1)
        return f"${number}"

    query = _PARAMETER.sub(numbered, expand_types(sql))
    return _Translated(query.encode(), tuple(parameters))


@cache
def _translate_with_clock(sql: str) -> _Translated:
    """Return the statement for a transaction whose time we do not know yet: the server reads it."""
    return _translate(re.sub(r"(?<![:\w]):now\b", NOW, sql))


@cache
def _translate_for_cursor(sql: str) -> str:
    """Return the statement for a cursor of psycopg."""
    return _PARAMETER.sub(r"%(\1)s", expand_types(require_tenant(sql)).replace("%", "%%"))


def expand_types(sql: str) -> str:
    """Replace the column types in braces by those of PostgreSQL."""
    for word, meaning in COLUMN_TYPES.items():
        sql = sql.replace(word, meaning)
    return sql

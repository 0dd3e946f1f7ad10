"""PostgreSQL through psycopg: a pool, and a transaction that carries its tenant for row-level security to see.

Nothing is set on a connection that outlives a transaction, so a pooler in transaction mode may sit between. Each transaction
takes on the application's role, which owns nothing; tells the database who is asking; and learns the database's clock.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import conninfo, errors
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult
from psycopg.rows import dict_row
from psycopg.sql import SQL, Literal
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from retain.clock import Clock
from retain.errors import (
    Busy,
    Full,
    InDoubt,
    ReadOnly,
    RetainError,
    SchemaTooOld,
    SettingsError,
    StorageError,
    Unreachable,
)
from retain.settings import Settings
from retain.storage import postgres_rights as rights
from retain.storage.database import EVERY_TENANT, Finding, Row, Step, T, Work, require_tenant
from retain.storage.files import check_target

WORDS = {"{key}": 'text collate "C"', "{text}": "text", "{json}": "text", "{time}": "bigint", "{int}": "bigint",
         "{real}": "double precision", "{blob}": "bytea"}  # fmt: skip
KEEPALIVE = {"connect_timeout": 3, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3,
             "tcp_user_timeout": 15_000}  # fmt: skip
MIGRATION_LOCK = 0x5265_746E
MIGRATION_SECONDS = 120.0
MOST_BEGINS = 1000
_PASSING = (
    errors.SerializationFailure,
    errors.DeadlockDetected,
    errors.OperationalError,
    errors.InterfaceError,
    errors.ForeignKeyViolation,
)  # fmt: skip - the last: what it refers to was removed a moment ago

Connection = psycopg.Connection[Row]


class PostgresTransaction:
    """Statements inside one transaction of one connection."""

    def __init__(self, connection: Connection, tenant: str) -> None:
        self._connection = connection
        self._cursor = connection.cursor()
        self.tenant = tenant
        self.now = 0
        self.streams = 0  # with one, rows were handed out one by one: the work cannot be started again
        self.committing = False

    def _execute(self, sql: str, values: dict[str, Any]) -> psycopg.Cursor[Row]:
        values["tenant"] = self.tenant
        values["now"] = self.now
        return self._cursor.execute(_translate(sql), values)

    def all(self, sql: str, **values: Any) -> list[Row]:
        return self._execute(sql, values).fetchall()

    def one(self, sql: str, **values: Any) -> Row | None:
        return self._execute(sql, values).fetchone()

    def run(self, sql: str, **values: Any) -> int:
        return self._execute(sql, values).rowcount

    def lock(self, sql: str, **values: Any) -> None:
        self._execute(sql + " for no key update", values)

    def many(self, sql: str, rows: Sequence[Mapping[str, Any]]) -> None:
        whose = {"tenant": self.tenant, "now": self.now}
        self._cursor.executemany(_translate(sql), [{**row, **whose} for row in rows])

    def each(self, sql: str, **values: Any) -> Iterator[Mapping[str, Any]]:
        self.streams += 1
        with self._connection.cursor(f"each {self.streams}", row_factory=dict_row) as cursor:
            cursor.itersize = 1000
            cursor.execute(_translate(sql), {**values, "tenant": self.tenant, "now": self.now})
            yield from cursor

    def columns(self, table: str) -> list[str]:
        sql = """select attname from pg_attribute where attrelid = to_regclass(%s) and attnum > 0 and not attisdropped
                 order by attnum"""
        return [name for (name,) in self._cursor.execute(sql, (table,)).fetchall()]


class _Lost(Exception):
    """A try that failed for a passing reason; `committing` if nobody knows whether it was committed."""

    def __init__(self, cause: psycopg.Error, committing: bool = False) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.committing = committing


class PostgresDatabase:
    """One PostgreSQL database, for all threads of this process."""

    def __init__(self, url: str, settings: Settings, now: Clock | None = None) -> None:
        parts = _parts(url, "database")
        _parts(settings.owner_database, "owner_database")
        self._url = conninfo.make_conninfo(url, **{k: v for k, v in KEEPALIVE.items() if k not in url})
        self._settings = settings
        self._clock = now
        self.name = f"postgresql://{parts.get('host', '')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}"
        self._owner_url = settings.owner_database or url
        self._set_up = self._setting_up()
        self._known: set[str] = set()
        self._begins: dict[tuple[str, str], bytes] = {}
        with self._alone(self._url) as connection:  # says what is wrong with the address, where a pool would only wait
            (real,) = connection.execute("select pg_backend_pid()").fetchone() or (0,)
            self._prepares = connection.info.backend_pid == real  # a pooler in between hands out numbers of its own
        self._pool = self._new_pool()
        _OPEN.add(self)

    # -- reading and writing -----------------------------------------------------------------------------------

    def read(self, tenant: str, work: Work[T]) -> T:
        return self._until_done("begin isolation level repeatable read read only", tenant, work, safe=True)

    def write(self, tenant: str, work: Work[T], *, safe: bool = False, frees: bool = False) -> T:
        def with_tenant(tx: Any) -> T:
            if tenant not in self._known:
                tx.run("insert into tenants (tenant, created_at) values (:tenant, :now) on conflict do nothing")
            return work(tx)

        result = self._until_done("begin", tenant, with_tenant, safe=safe)
        self._known.add(tenant)
        return result

    def _until_done(self, begin: str, tenant: str, work: Work[T], *, safe: bool) -> T:
        """Try again after lost connections and deadlocks, as long as the last try surely left nothing behind."""
        deadline = time.monotonic() + self._settings.postgres_wait_seconds
        pause = 0.01
        while True:
            try:
                return self._once(begin, tenant, work)
            except _Lost as lost:
                if lost.committing and not safe:
                    raise InDoubt(problem=lost) from lost.cause
                if time.monotonic() > deadline:
                    raise _in_our_words(lost.cause) from lost.cause
            time.sleep(random.uniform(0, pause))
            pause = min(pause * 2, 0.5)

    def _once(self, begin: str, tenant: str, work: Work[T]) -> T:
        connection = self._borrow()
        transaction = PostgresTransaction(connection, tenant)
        try:
            transaction.now = self._begin(connection, begin, tenant)
            result = work(transaction)
            transaction.committing = True
            _simply(connection, b"commit")
            return result
        except psycopg.Error as error:
            _roll_back(connection)
            passing = isinstance(error, _PASSING) and not isinstance(error, errors.QueryCanceled | errors.DiskFull)
            if passing and not transaction.streams:
                raise _Lost(error, transaction.committing and connection.broken) from error
            raise _in_our_words(error) from error
        except Exception:
            _roll_back(connection)
            raise
        except BaseException:
            connection.close()  # the pool replaces it
            raise
        finally:
            self._pool.putconn(connection)

    def _borrow(self) -> Connection:
        try:
            return self._pool.getconn(timeout=self._settings.postgres_wait_seconds)
        except PoolTimeout:
            with self._alone(self._url):  # raises Unreachable, with the reason, if the server is gone
                waited, most = self._settings.postgres_wait_seconds, self._settings.postgres_pool
                problem = f"no connection within {waited} seconds, all {most} are in use (postgres_pool)"
                raise Busy(problem=problem) from None
        except PoolClosed:
            raise Unreachable(problem="it was closed") from None

    def _begin(self, connection: Connection, begin: str, tenant: str) -> int:
        """Open a transaction for the tenant, in one round trip; the database's clock."""
        script = self._begins.get((begin, tenant))
        if script is None:
            name = f"retain {tenant}".encode("ascii", "replace").decode()[:63]
            parts = SQL("{}; select {}, set_config('retain.tenant', {}, true), set_config('application_name', {}, true)")
            script = parts.format(SQL(begin), self._set_up, Literal(tenant), Literal(name)).as_bytes()
            if len(self._begins) >= MOST_BEGINS:
                self._begins.clear()
            self._begins[begin, tenant] = script
        now = _simply(connection, script).get_value(0, 0)
        return self._clock() if self._clock else int(now or 0)

    def _setting_up(self) -> SQL:
        settings = self._settings
        parts = [SQL("(extract(epoch from clock_timestamp()) * 1000000)::bigint")]
        wanted = {
            "search_path": f"{rights.quoted(settings.postgres_schema)}, public",
            "statement_timeout": f"{round(settings.postgres_statement_seconds * 1000)}ms",
            "idle_in_transaction_session_timeout": "60s",
        }
        if settings.postgres_role:
            wanted["role"] = settings.postgres_role
        parts += [SQL("set_config({}, {}, true)").format(Literal(k), Literal(v)) for k, v in wanted.items()]  # type: ignore[misc]
        return SQL(SQL(", ").join(parts).as_string())

    # -- operating ---------------------------------------------------------------------------------------------

    def tenants(self) -> list[str]:
        sql = "select tenant from tenants where :tenant = '*' order by tenant"
        return [tenant for (tenant,) in self.read(EVERY_TENANT, lambda tx: tx.all(sql))]

    def version(self) -> int:
        with self._alone(self._url) as connection:
            return rights.version(connection, self._settings.postgres_schema)

    def step(self, wanted: Step) -> bool:
        self._known.clear()  # the table of tenants may go or come back empty
        deadline = time.monotonic() + MIGRATION_SECONDS
        with self._alone(self._owner_url) as connection:
            while True:
                try:
                    with connection.transaction():
                        got = connection.execute("select pg_try_advisory_xact_lock(%s)", (MIGRATION_LOCK,)).fetchone()
                        if got and got[0]:
                            return self._apply_when_free(connection, wanted, deadline)
                except errors.InsufficientPrivilege as error:
                    raise SchemaTooOld(found=wanted.number - 1, known=wanted.number) from error
                if time.monotonic() > deadline:
                    raise Busy(problem="another process has been migrating for over two minutes")
                time.sleep(random.uniform(0.02, 0.1))

    def _apply_when_free(self, connection: Connection, wanted: Step, deadline: float) -> bool:
        """Writers queue behind a change that waits for its lock: so it waits briefly, lets them by, and asks again."""
        while True:
            try:
                with connection.transaction():
                    return self._apply(connection, wanted)
            except (errors.LockNotAvailable, errors.DeadlockDetected) as error:
                if time.monotonic() > deadline:
                    raise Busy(problem=f"a transaction keeps a table from changing ({error})") from error
            time.sleep(random.uniform(0.2, 0.4))

    def _apply(self, connection: Connection, wanted: Step) -> bool:
        if rights.version(connection, self._settings.postgres_schema) != wanted.number - int(wanted.up):
            return False
        if wanted.number == 1 and wanted.up:
            rights.make_role(connection, self._settings.postgres_role)
        connection.execute("set local lock_timeout = '200ms'")
        connection.execute(self.script(wanted))
        return True

    def script(self, wanted: Step) -> str:
        return rights.script(wanted, spell(wanted.script), self._settings)

    def health(self) -> list[Finding]:
        with self._alone(self._url) as connection:
            return rights.findings(connection, self._settings)

    def backup(self, target: Path) -> None:
        check_target(target)
        parts = conninfo.conninfo_to_dict(self._owner_url)
        names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD", "dbname": "PGDATABASE"}
        env = {**os.environ, **{names[k]: str(v) for k, v in parts.items() if k in names}}
        command = ["pg_dump", "--format=custom", "--schema", self._settings.postgres_schema, "--file", str(target)]
        try:
            subprocess.run(command, env=env, check=True, capture_output=True, text=True)
        except FileNotFoundError:
            raise SettingsError(where="pg_dump", problem="is not installed; it comes with PostgreSQL's client") from None
        except subprocess.CalledProcessError as error:
            target.unlink(missing_ok=True)
            raise StorageError(problem=f"pg_dump: {error.stderr.strip()}") from None
        target.chmod(0o600)

    def compact(self, *, emergency: bool = False) -> bool:
        """Nothing to do: autovacuum reuses the space."""
        return True

    def close(self) -> None:
        _OPEN.discard(self)
        self._pool.close()

    # -- connecting --------------------------------------------------------------------------------------------

    def _new_pool(self) -> ConnectionPool[Connection]:
        prepare = {} if self._prepares else {"prepare_threshold": None}
        return ConnectionPool(
            self._url, kwargs={"autocommit": True, **prepare}, min_size=0, max_size=self._settings.postgres_pool, open=True
        )

    def _start_over(self) -> None:
        """In a forked child: leave the parent's sockets alone."""
        _ABANDONED.append(self._pool)
        self._pool = self._new_pool()

    @contextmanager
    def _alone(self, url: str) -> Iterator[Connection]:
        """A connection outside the pool, as the role that the address names."""
        try:
            with psycopg.connect(url, autocommit=True) as connection:
                yield connection
        except psycopg.Error as error:
            raise _in_our_words(error) from error


def _parts(url: str, setting: str) -> dict[str, Any]:
    """What an address says; the driver's own words for what is wrong with it repeat the password."""
    try:
        return conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        problem = "cannot be read; write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with %xx for special characters"
        raise SettingsError(where=setting, problem=problem) from None


def _simply(connection: Connection, script: bytes) -> PGresult:
    """Run statements without parameters, past the cursor, which costs more than these statements do."""
    result = connection.pgconn.exec_(script)
    if result.status in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
        return result
    if connection.broken:
        raise errors.OperationalError(result.get_error_message())
    raise errors.error_from_result(result)


def _roll_back(connection: Connection) -> None:
    try:
        _simply(connection, b"rollback")
    except psycopg.Error:
        connection.close()  # the pool replaces it


_translated: dict[str, str] = {}
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")


def _translate(sql: str) -> str:
    """The statement as psycopg takes it, once it is known to name the tenant."""
    try:
        return _translated[sql]
    except KeyError:
        ready = _PARAMETER.sub(r"%(\1)s", spell(require_tenant(sql)).replace("%", "%%"))
        return _translated.setdefault(sql, ready)


def spell(sql: str) -> str:
    """The words in braces, as this engine spells them."""
    for word, meaning in WORDS.items():
        sql = sql.replace(word, meaning)
    return sql


def _in_our_words(error: psycopg.Error) -> RetainError:
    problem = str(error).strip() or type(error).__name__
    if isinstance(error, errors.DiskFull):
        return Full(problem=problem)
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return ReadOnly(problem=problem)
    if isinstance(error, errors.QueryCanceled | errors.LockNotAvailable | errors.DeadlockDetected):
        return Busy(problem=problem)
    if isinstance(error, errors.SerializationFailure):
        return Busy(problem=problem)
    if isinstance(error, errors.OperationalError | errors.InterfaceError):
        return Unreachable(problem=problem)
    return StorageError(problem=problem)


_OPEN: weakref.WeakSet[PostgresDatabase] = weakref.WeakSet()
_ABANDONED: list[Any] = []


def _after_fork() -> None:
    for database in list(_OPEN):
        database._start_over()


os.register_at_fork(after_in_child=_after_fork)

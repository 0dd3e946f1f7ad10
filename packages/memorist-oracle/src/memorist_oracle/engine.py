"""The Oracle engine (experimental): a pool, and transactions bound to one tenant.

A read is a read-only transaction, which sees one snapshot. A write is an ordinary one. Each begins
by naming the tenant: in the context that the policies of `security.py` read, where they are
installed, and in the session's module and client identifier, for the administrator.

Oracle commits before and after every change of a table, so a migration is not one transaction. A
second connection holds the migration lock, which is released when that connection closes. A row of
`memorist_schema` without a time says that a step was interrupted. `memorist migrate up` repeats it from
the first statement that is not recorded as done; a step down is then reverted, and can run again.
"""

from __future__ import annotations

import logging
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import oracledb

from memorist.base.clock import Clock, from_datetime
from memorist.base.errors import Busy, InDoubt, Invalid, OldDatabase, SettingsError, StorageError
from memorist.base.settings import Settings
from memorist.storage import former_name
from memorist.storage.database import (
    EVERY_TENANT,
    Dialect,
    Finding,
    Progress,
    Row,
    SampledTable,
    Step,
    T,
    Work,
)
from memorist.storage.pool import Pool
from memorist.storage.server_database import OPEN, ServerDatabase, TransientFailure
from memorist_oracle import connections, security
from memorist_oracle.address import read_address
from memorist_oracle.connections import (
    DUPLICATE,
    MIN_VERSION,
    NO_TABLE,
    POLICY_FAILED,
    is_lost,
    is_rolled_back,
    is_transient,
    number_of,
    translate_error,
)
from memorist_oracle.dialect import (
    EMPTY,
    OUTPUT,
    PREFIX,
    Statement,
    Translation,
    migration_statements,
    schema,
    translate,
)

log = logging.getLogger("memorist.storage")
ANSWER_SECONDS = 20.0
"""The longest time for one statement, unless its transaction is `long`."""
MIGRATION_SECONDS = 120.0
"""The longest wait for the migration of another process."""
LOCK_BUCKETS = 256
"""Rows of `memorist_locks` for the locks of tenants. Names with the same hash share a lock."""
MIGRATION_BUCKET = LOCK_BUCKETS
"""The row of `memorist_locks` that is locked during a migration."""
MAX_SHORT_BYTES = 4000
"""Longer texts and bytes are sent as large objects."""
NOW = "select cast(systimestamp at time zone 'UTC' as timestamp) from dual"
LOCK = 'select "bucket" from "memorist_locks" where "bucket" = :bucket for update'
CHARACTER_SET = "select \"VALUE\" from nls_database_parameters where parameter = 'NLS_CHARACTERSET'"
VERSION = 'select max("version") from "memorist_schema" where "applied_at" is not null'
CREATE_SCHEMA_TABLES = (
    """create table "memorist_schema" ("version" number(19) primary key,
       "name" varchar2(600 byte) not null, "applied_at" number(19),
       "progress" varchar2(100 byte))""",
    'create table "memorist_locks" ("bucket" number(19) primary key)',
)
STEP_PROGRESS = 'select "applied_at", "progress" from "memorist_schema" where "version" = :version'
PROGRESS = 'update "memorist_schema" set "progress" = :progress where "version" = :version'
ALREADY_ADDED = {955, 1408, 1430, 1442, 1451}
"""Errors of a change that was made before: the table, index or column exists, or is (not) null."""
ALREADY_DROPPED = {904, 942, 1418}
"""Errors of a `drop` that was made before. Other statements with these errors have failed."""
_DROPS = re.compile(r'drop |alter table "\w+" drop ', re.IGNORECASE)
_TABLE_NAME = re.compile("[a-z_]+")


class FetchedRows(NamedTuple):
    """The rows of a statement that has run."""

    fetched: list[Row]

    def rows(self) -> list[Row]:
        return self.fetched


class _Result(NamedTuple):
    rows: list[Row]
    row_count: int


class _Progress(NamedTuple):
    """The progress of an earlier run of a step."""

    is_repeated: bool  # an earlier run was interrupted or failed
    done: int = 0  # statements that it has completed


class OracleTransaction:
    """Statements on one connection; the connection's owner begins and commits."""

    def __init__(self, connection: Any, tenant: str, now: int) -> None:
        self._connection = connection
        self.tenant = tenant
        self.now = now
        self.has_streamed = False  # rows were handed out one by one: the work cannot be run again

    def all(self, sql: str, **values: Any) -> list[Row]:
        return self._run(sql, values).rows

    def one(self, sql: str, **values: Any) -> Row | None:
        rows = self._run(sql, values).rows
        return rows[0] if rows else None

    def run(self, sql: str, **values: Any) -> int:
        return self._run(sql, values).row_count

    def send(self, sql: str, **values: Any) -> FetchedRows:
        return FetchedRows(self._run(sql, values).rows)

    def lock_rows(self, sql: str, **values: Any) -> None:
        self._run(sql + " for update", values)

    def lock(self, name: str) -> None:
        bucket = zlib.crc32(f"{self.tenant} {name}".encode()) % LOCK_BUCKETS
        self._connection.cursor().execute(LOCK, {"bucket": bucket})

    def many(self, sql: str, rows: Sequence[Mapping[str, Any]]) -> None:
        translation = translate(sql)
        if translation.update or translation.statement.outputs or len(rows) < 2:
            for row in rows:
                self._run(sql, dict(row))
            return
        statement = translation.statement
        bound = [self._bind(statement, dict(row)) for row in rows]
        with self._connection.cursor() as cursor:
            _set_sizes(cursor, statement, bound)
            goes_on = translation.skips_duplicates or translation.is_merge
            cursor.executemany(statement.text, bound, batcherrors=goes_on)
            errors = cursor.getbatcherrors() if goes_on else []
        for error in errors:
            if error.code != DUPLICATE:
                raise oracledb.DatabaseError(error)
            if translation.is_merge or translation.existing:
                self._run(sql, dict(rows[error.offset]))

    def each(self, sql: str, **values: Any) -> Iterator[Mapping[str, Any]]:
        self.has_streamed = True
        statement = translate(sql).statement
        with self._connection.cursor() as cursor:
            cursor.arraysize = 1000
            bound = self._bind(statement, values)
            _set_sizes(cursor, statement, [bound])
            cursor.execute(statement.text, bound)
            names = [column[0] for column in cursor.description]
            for row in cursor:
                yield dict(zip(names, _read(row), strict=True))

    def unscoped(self, sql: str, **values: Any) -> list[Row]:
        return self._try(translate(sql, is_scoped=False), values).rows

    def columns(self, table: str) -> list[str]:
        if not _TABLE_NAME.fullmatch(table):
            return []
        with self._connection.cursor() as cursor:
            try:
                cursor.execute(f'select * from "{table}" where 1 = 0')
            except oracledb.DatabaseError as error:
                if number_of(error) == NO_TABLE:
                    return []
                raise
            return [column[0] for column in cursor.description]

    def _run(self, sql: str, values: dict[str, Any]) -> _Result:
        translation = translate(sql)
        try:
            return self._try(translation, values)
        except oracledb.IntegrityError as error:
            can_succeed = translation.is_merge or translation.update or translation.existing
            if number_of(error) != DUPLICATE or not can_succeed:
                raise
            # Oracle has undone this statement alone. If another transaction has just added or
            # removed the row, the next try sees that; otherwise another key is violated.
            return self._try(translation, values)

    def _try(self, translation: Translation, values: dict[str, Any]) -> _Result:
        """Run the statements of a translation; a duplicate is an error unless it may be skipped."""
        if translation.update:
            is_there = translation.lock and self._execute(translation.lock, values).row_count
            result = self._execute(translation.update, values)
            if result.row_count or is_there:
                return result
        try:
            return self._execute(translation.statement, values)
        except oracledb.IntegrityError as error:
            if number_of(error) != DUPLICATE or not translation.skips_duplicates:
                raise
            if translation.existing and not self._execute(translation.existing, values).row_count:
                raise
            return _Result([], 0)

    def _execute(self, statement: Statement, values: dict[str, Any]) -> _Result:
        with self._connection.cursor() as cursor:
            bound = self._bind(statement, values)
            _set_sizes(cursor, statement, [bound])
            outputs = [cursor.var(_OUTPUT_TYPES[kind]) for kind in statement.outputs]
            bound |= {f"{OUTPUT}{place}": output for place, output in enumerate(outputs)}
            cursor.execute(statement.text, bound)
            if outputs:
                columns = [output.getvalue() or [] for output in outputs]
                rows = [_read(row) for row in zip(*columns, strict=True)]
                return _Result(rows, len(rows))
            if cursor.description:
                rows = [_read(row) for row in cursor.fetchall()]
                return _Result(rows, len(rows))
            return _Result([], cursor.rowcount)

    def _bind(self, statement: Statement, values: dict[str, Any]) -> dict[str, Any]:
        values["tenant"] = self.tenant
        values["now"] = self.now
        return {PREFIX + name: _encode(values[name]) for name in statement.parameters}


def _encode(value: Any) -> Any:
    """Return a value as Oracle stores it, where an empty text would be null."""
    if value == "" and isinstance(value, str):
        return EMPTY
    return int(value) if isinstance(value, bool) else value


def _read(row: Sequence[Any]) -> Row:
    """Return a row of the driver: without the mark of empty texts, and with large objects read."""
    return tuple([_decode(value) for value in row])


def _decode(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace(EMPTY, "") if EMPTY in value else value
    return _decode(value.read()) if hasattr(value, "read") else value


_OUTPUT_TYPES = {
    "{key}": oracledb.DB_TYPE_VARCHAR,
    "{text}": oracledb.DB_TYPE_CLOB,
    "{json}": oracledb.DB_TYPE_CLOB,
    "{time}": int,
    "{int}": int,
    "{real}": oracledb.DB_TYPE_BINARY_DOUBLE,
    "{blob}": oracledb.DB_TYPE_BLOB,
}


def _set_sizes(cursor: Any, statement: Statement, rows: Sequence[Mapping[str, Any]]) -> None:
    """Declare types the driver cannot infer: large objects, and numbers that are null."""
    sizes: dict[str, Any] = {}
    for name in statement.parameters:
        values = [row[PREFIX + name] for row in rows]
        if any(isinstance(value, str) and _is_long(value) for value in values):
            sizes[PREFIX + name] = oracledb.DB_TYPE_CLOB
        elif any(
            isinstance(value, bytes) and len(value) > MAX_SHORT_BYTES // 2 for value in values
        ):
            sizes[PREFIX + name] = oracledb.DB_TYPE_BLOB
        elif name in statement.numbers and all(value is None for value in values):
            sizes[PREFIX + name] = oracledb.DB_TYPE_NUMBER
    if sizes:
        cursor.setinputsizes(**sizes)


def _is_long(text: str) -> bool:
    if len(text) > MAX_SHORT_BYTES:
        return True
    return len(text) * 4 > MAX_SHORT_BYTES and len(text.encode()) > MAX_SHORT_BYTES


class OracleDatabase(ServerDatabase):
    """One Oracle database, shared by all threads of this process."""

    dialect: Dialect = "oracle"
    remnants: Sequence[str] = (
        "deleted rows in Oracle's data files and undo, until the server overwrites them",
        "Oracle's redo log and its archives, until they are overwritten or expire",
    )

    def __init__(
        self,
        url: str,
        settings: Settings,
        now: Clock | None = None,
        wait_seconds: float | None = None,
    ) -> None:
        super().__init__(wait_seconds, translate_error)
        self._address = read_address(url, "database")
        self._owner = read_address(settings.owner_database or url, "owner_database")
        self._settings = settings
        self._clock = now
        self.name = self._address.name
        self._is_protected = False
        self._has_working_user = security.identifier(self._owner.user) != security.identifier(
            self._address.user
        )
        self._pool = Pool(
            self._connect,
            settings.postgres_pool,
            self._wait_seconds,
            is_usable=lambda connection: bool(connection.is_healthy()),
            close=connections.close,
        )
        with self._own_connection() as connection:  # a wrong address raises here
            _check_server(connection)
            self._is_protected = security.is_installed(connection, self._owner.user)
        OPEN.add(self)

    # -- reading and writing ---------------------------------------------------------------

    def _run_once(
        self, tenant: str, work: Work[T], *, writes: bool, idempotent: bool, long: bool
    ) -> T:
        try:
            connection = self._pool.take()
        except oracledb.Error as error:
            if is_transient(error):
                raise TransientFailure(error) from error
            raise translate_error(error) from error
        is_committing = False
        is_finished = False  # committed or rolled back: the connection can be reused
        is_protected = self._is_protected
        transaction: OracleTransaction | None = None
        try:
            connection.call_timeout = 0 if long else round(ANSWER_SECONDS * 1000)
            transaction = self._begin(connection, tenant, writes=writes)
            result = work(transaction)
            is_committing = writes
            connection.commit()
            is_finished = True
            return result
        except oracledb.Error as error:
            in_doubt = is_committing and not is_rolled_back(error)
            is_finished = not in_doubt and not is_lost(error) and _roll_back(connection)
            if not is_finished:
                self._pool.forget_idle()
            has_new_policies = number_of(error) == POLICY_FAILED and not is_protected
            if has_new_policies:  # another process has added them since this one started
                self._is_protected = True
            has_streamed = transaction is not None and transaction.has_streamed
            if (is_transient(error) or in_doubt or has_new_policies) and not has_streamed:
                raise TransientFailure(error, in_doubt) from error
            if in_doubt:
                raise InDoubt(problem=error) from error
            raise translate_error(error) from error
        except Exception:  # whatever the caller's work raises
            is_finished = _roll_back(connection)
            raise
        finally:  # after an interruption too, perhaps in the middle of a call
            self._pool.give_back(connection, reuse=is_finished)

    def _begin(self, connection: Any, tenant: str, *, writes: bool) -> OracleTransaction:
        # The driver sends these with the next statement.
        connection.module = "memorist"
        connection.client_identifier = tenant.encode()[:64].decode("utf-8", "ignore")
        with connection.cursor() as cursor:
            if not writes:
                cursor.execute("set transaction read only")
            if self._is_protected:
                cursor.execute(security.ENTER, {"tenant": tenant})
            now = self._clock() if self._clock else _database_time(cursor)
        return OracleTransaction(connection, tenant, now)

    # -- operating -------------------------------------------------------------------------

    def version(self) -> int:
        with self._own_connection() as connection, connection.cursor() as cursor:
            return _version(cursor)

    def step(self, step: Step) -> bool:
        self._known_tenants.clear()  # the migration may drop or recreate the table of tenants
        with (
            self._own_connection(as_owner=True) as connection,
            self._own_connection(as_owner=True) as lock,
            connection.cursor() as cursor,
        ):
            _create_schema_tables(cursor)
            _lock_migrations(lock)
            is_due = _version(cursor) == step.number - int(step.up)
            if is_due:
                self._apply(cursor, step, lock)
            # Another process may have added the policies.
            self._is_protected = security.is_installed(connection, self._owner.user)
        return is_due

    def _apply(self, cursor: Any, step: Step, lock: Any) -> None:
        """Run a step; `lock` is the connection that holds the migration lock."""
        progress = _begin_step(cursor, step)
        if security.is_installed(cursor.connection, self._owner.user):
            cursor.execute(security.MIGRATE)
        for number, statement in enumerate(migration_statements(step.script), 1):
            if number > progress.done:
                lock.ping()  # without the lock, another process may run the step
                _run_statement(cursor, statement, progress.is_repeated)
                values = {"version": step.number, "progress": f"{_direction(step)} {number}"}
                cursor.execute(PROGRESS, values)
                cursor.connection.commit()
        tables = _tables_after(step)
        if tables and self._has_working_user:
            security.protect(cursor, tables, self._owner.user, self._address.user)
        if step.up:
            values = {"version": step.number, "now": _database_time(cursor)}
            done = 'update "memorist_schema" set "applied_at" = :now where "version" = :version'
        else:
            values = {"version": step.number}
            done = 'delete from "memorist_schema" where "version" = :version'
        cursor.execute(done, values)
        cursor.connection.commit()

    def script(self, step: Step) -> str:
        statements = migration_statements(step.script)
        tables = _tables_after(step)
        if tables and self._has_working_user:
            statements += security.grants(tables, self._address.user)
            statements += security.policies(self._owner.user, self._address.user)
        lines = [f"{statement}\n/\n" for statement in statements]
        return f"-- {step.number:04} {step.name}\n" + "".join(lines)

    def health(self) -> list[Finding]:
        missing = []
        with self._own_connection() as connection, connection.cursor() as cursor:
            if security.is_installed(connection, self._owner.user):
                cursor.execute(security.ENTER, {"tenant": EVERY_TENANT})
            for table in sorted(schema().keys):
                try:
                    cursor.execute(f'select 1 from "{table}" where 1 = 0')
                except oracledb.DatabaseError as error:
                    missing.append(f"{table} ({str(error).partition(':')[0]})")
            findings = [Finding("every table can be read", ", ".join(missing))]
            if self._has_working_user:
                findings += security.findings(connection, self._owner.user, list(schema().keys))
        return findings

    def engine(self) -> str:
        with self._own_connection() as connection:
            return f"Oracle Database {connection.version} (experimental), as {self._address.user}"

    def estimate_rows(self, tenant: str, table: SampledTable) -> int:
        rows = self.read(tenant, lambda tx: tx.one(table.count_sampled("")), long=True)
        return int((rows or (0,))[0])

    def figures(self) -> dict[str, float]:
        return self._pool.figures()

    def backup(self, target: Path) -> NoReturn:
        raise Invalid(
            field="backup",
            problem="is not possible on Oracle; use Data Pump (expdp), or `memorist export`",
        )

    def plan_rewrite(self) -> NoReturn:
        raise Invalid(
            field="--compact",
            problem="is not available on Oracle. Erase without it; then run `alter table … move` and "
            "`alter index … rebuild` for the tables of memorist",
        )

    def rewrite(self, progress: Progress) -> NoReturn:
        self.plan_rewrite()

    def close(self) -> None:
        OPEN.discard(self)
        self._pool.close()

    def after_fork(self) -> list[object]:
        return [self._pool.reset()]

    # -- connecting ------------------------------------------------------------------------

    def _connect(self) -> Any:
        connection = connections.open_connection(self._address)
        try:
            self._set_up(connection)
        except BaseException:  # an interruption must not leave the connection open
            connections.close(connection)
            raise
        return connection

    def _set_up(self, connection: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("alter session set nls_comp = binary nls_sort = binary")
            if self._has_working_user:
                cursor.execute(
                    f"alter session set current_schema = {security.identifier(self._owner.user)}"
                )

    @contextmanager
    def _own_connection(self, *, as_owner: bool = False) -> Iterator[Any]:
        """Open a connection outside the pool."""
        try:
            connection = connections.open_connection(self._owner if as_owner else self._address)
            try:
                self._set_up(connection)
                yield connection
            finally:
                connections.close(connection)
        except oracledb.Error as error:
            raise translate_error(error) from error


def _check_server(connection: Any) -> None:
    """Raise if the server is too old, or would damage texts."""
    major = int(str(connection.version).partition(".")[0])
    if major < MIN_VERSION:
        raise SettingsError(
            where="database",
            problem=f"is an Oracle Database {connection.version}; "
            f"memorist needs {MIN_VERSION}c or newer",
        )
    with connection.cursor() as cursor:
        try:
            cursor.execute(CHARACTER_SET)
        except oracledb.DatabaseError as error:
            if number_of(error) == NO_TABLE:  # H2, which runs the tests, has no such view
                return
            raise
        (name,) = cursor.fetchone() or ("AL32UTF8",)
    if name != "AL32UTF8":
        problem = (
            f"has the character set {name}, which cannot store every text; it must be AL32UTF8"
        )
        raise SettingsError(where="database", problem=problem)


def _roll_back(connection: Any) -> bool:
    """Undo everything; return False if that fails."""
    try:
        connection.rollback()
    except oracledb.Error:
        return False
    return True


def _database_time(cursor: Any) -> int:
    cursor.execute(NOW)
    (moment,) = cursor.fetchone()
    return from_datetime(moment.replace(tzinfo=UTC), "now")


def _version(cursor: Any) -> int:
    """Return the newest migration that was applied, 0 for none."""
    try:
        cursor.execute(VERSION)
    except oracledb.DatabaseError as error:
        if number_of(error) != NO_TABLE:
            raise
        _reject_retain(cursor)
        return 0
    return int((cursor.fetchone() or (0,))[0] or 0)


def _reject_retain(cursor: Any) -> None:
    """Raise `OldDatabase` if retain has recorded its migrations in the schema."""
    try:
        cursor.execute(former_name.HAS_TABLE)
    except oracledb.DatabaseError as error:
        if number_of(error) == NO_TABLE:
            return
        raise
    raise OldDatabase(name="the schema")


def _create_schema_tables(cursor: Any) -> None:
    for statement in CREATE_SCHEMA_TABLES:
        _run_statement(cursor, statement, is_repeated=True)
    row = {"bucket": MIGRATION_BUCKET}
    cursor.execute('select 1 from "memorist_locks" where "bucket" = :bucket', row)
    if cursor.fetchone() is None:
        rows = [{"bucket": bucket} for bucket in range(LOCK_BUCKETS + 1)]
        cursor.executemany('insert into "memorist_locks" values (:bucket)', rows, batcherrors=True)
        cursor.connection.commit()


def _direction(step: Step) -> str:
    return "up" if step.up else "down"


def _lock_migrations(connection: Any) -> None:
    """Wait for the migration lock, which is released when the connection closes."""
    connection.call_timeout = round(MIGRATION_SECONDS * 1000)
    try:
        cursor = connection.cursor()
        cursor.execute(LOCK, {"bucket": MIGRATION_BUCKET})
        has_lock = cursor.fetchone() is not None
    except oracledb.Error as error:
        if isinstance(translate_error(error), Busy):
            problem = f"another process has been migrating for over two minutes ({error})"
            raise Busy(problem=problem) from error
        raise
    if not has_lock:
        raise StorageError(
            problem=f"memorist_locks has no row {MIGRATION_BUCKET}, which locks migrations; "
            "insert it as the owner of the schema"
        )


def _begin_step(cursor: Any, step: Step) -> _Progress:
    """Record that a step has begun, and return what an earlier run has done."""
    cursor.execute(STEP_PROGRESS, {"version": step.number})
    row = cursor.fetchone()
    progress = _Progress(is_repeated=False)
    if row and row[0] is None:
        direction, _, done = (row[1] or "").partition(" ")
        progress = _Progress(True, int(done) if direction == _direction(step) else 0)
    values = {"version": step.number, "progress": f"{_direction(step)} {progress.done}"}
    if row:
        sql = """update "memorist_schema" set "applied_at" = null, "progress" = :progress
                 where "version" = :version"""
    else:
        sql = """insert into "memorist_schema" ("version", "name", "progress")
                 values (:version, :name, :progress)"""
        values |= {"name": step.name}
    cursor.execute(sql, values)
    cursor.connection.commit()
    return progress


def _run_statement(cursor: Any, statement: str, is_repeated: bool) -> None:
    """Run a statement of a migration, or skip a change that an earlier run has made.

    Oracle commits such a change before its number can be recorded. A statement that changes rows is
    committed with its number, so it is never skipped.
    """
    try:
        cursor.execute(statement)
    except oracledb.DatabaseError as error:
        codes = ALREADY_DROPPED if _DROPS.match(statement) else ALREADY_ADDED
        if not is_repeated or number_of(error) not in codes:
            raise
        log.info("the migration skips what exists already: %s", error)


def _tables_after(step: Step) -> list[str]:
    """Return the tables that there are after a step, apart from those of the engine itself."""
    version = step.number if step.up else step.number - 1
    until = schema().until
    return [
        table
        for table, since in schema().since.items()
        if since <= version < until.get(table, version + 1)
    ]

"""The SQLite engine, through apsw: a file in WAL mode, one writer with group commit, readers."""

from __future__ import annotations

import json
import logging
import os
import random
import re
import shutil
import tempfile
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from memorist.base import clock
from memorist.base.clock import Clock
from memorist.base.errors import Full, InDoubt, MemoristError, NetworkDrive, ReadOnly, Unreachable
from memorist.base.settings import Settings
from memorist.storage import files
from memorist.storage.damage import raise_damage
from memorist.storage.database import (
    EVERY_TENANT,
    CheckedTable,
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
from memorist.storage.files import filesystem_of, is_network, make_ballast
from memorist.storage.sqlite import connection as sqlite_connection
from memorist.storage.sqlite import maintenance
from memorist.storage.sqlite.connection import (
    may_write,
    open_connection,
    open_read_only,
    translate_error,
    truncate_log,
)
from memorist.storage.sqlite.fork import ConnectionGate
from memorist.storage.sqlite.group_commit import GroupCommit, QueuedWrite
from memorist.storage.sqlite.views import SqliteViews
from memorist.storage.transaction_database import forbid_in_transaction

SAMPLED_ROWS = (500, 5_000)
"""Rows that an estimate of a table's size looks at: more if the tenant has few of the first ones."""
MIN_SAMPLED_HITS = 250
MAX_IDLE_READERS = 16
BALLAST_MIB = 16
"""The reserve file beside the database, which `memorist purge --emergency` deletes. 0: none."""
OLD_READER_SECONDS = 5.0
DISK_CHECK_SECONDS = 0.2
log = logging.getLogger("memorist.storage")


class FetchedRows(NamedTuple):
    """The rows of a statement that has run."""

    fetched: list[Row]

    def rows(self) -> list[Row]:
        return self.fetched


class SqliteTransaction:
    """Statements on one connection; the connection's owner begins and commits."""

    __slots__ = ("connection", "now", "tenant")

    def __init__(self, connection: apsw.Connection, tenant: str, now: int) -> None:
        self.connection = connection
        self.tenant = tenant
        self.now = now

    def all(self, sql: str, **values: Any) -> list[Row]:
        ready, arguments = _statements.get(sql) or _prepare(sql)
        values["tenant"] = self.tenant
        values["now"] = self.now
        return self.connection.execute(ready, arguments(values)).fetchall()

    def one(self, sql: str, **values: Any) -> Row | None:
        ready, arguments = _statements.get(sql) or _prepare(sql)
        values["tenant"] = self.tenant
        values["now"] = self.now
        rows = self.connection.execute(ready, arguments(values)).fetchall()
        return rows[0] if rows else None

    def run(self, sql: str, **values: Any) -> int:
        ready, arguments = _statements.get(sql) or _prepare(sql)
        values["tenant"] = self.tenant
        values["now"] = self.now
        self.connection.execute(ready, arguments(values))
        return self.connection.changes()

    def send(self, sql: str, **values: Any) -> FetchedRows:
        return FetchedRows(self.all(sql, **values))

    def lock_rows(self, sql: str, **values: Any) -> None:
        """Do nothing: there is only one writer."""

    def lock(self, name: str) -> None:
        """Do nothing: there is only one writer."""

    def many(self, sql: str, rows: Sequence[Mapping[str, Any]]) -> None:
        ready, arguments = _statements.get(sql) or _prepare(sql)
        bound = {"tenant": self.tenant, "now": self.now}
        if len(rows) == 1:
            self.connection.execute(ready, arguments({**rows[0], **bound}))
        else:
            self.connection.executemany(ready, [arguments({**row, **bound}) for row in rows])

    def each(self, sql: str, **values: Any) -> Iterator[Mapping[str, Any]]:
        ready, arguments = _statements.get(sql) or _prepare(sql)
        values["tenant"] = self.tenant
        values["now"] = self.now
        cursor = self.connection.execute(ready, arguments(values))
        names: list[str] = []
        for row in cursor:
            names = names or [column[0] for column in cursor.description]
            yield dict(zip(names, row, strict=True))

    def unscoped(self, sql: str, **values: Any) -> list[Row]:
        ready, arguments = _number_parameters(sql)
        return self.connection.execute(ready, arguments(values)).fetchall()

    def columns(self, table: str) -> list[str]:
        return [
            name
            for (name,) in self.connection.execute(
                "select name from pragma_table_info(?)", (table,)
            )
        ]


class SqliteDatabase:
    """One file in WAL mode, shared by the threads of this process and with other processes."""

    dialect: Dialect = "sqlite"
    runs_on_server = False
    is_cluster = False
    checked_tables: Sequence[CheckedTable] = ()
    remnants: Sequence[str] = ()
    _writing: apsw.Connection | None = None
    _idle: deque[apsw.Connection] = deque(maxlen=0)
    _check_disk_at: float
    _warned_mib: int

    def __init__(
        self,
        path: Path | None,
        settings: Settings,
        now: Clock | None = None,
        create: bool = True,
        wait_seconds: float | None = None,
        read_only: bool = False,
    ) -> None:
        self._temporary = (
            tempfile.mkdtemp(prefix="memorist-", dir=_memory_folder()) if path is None else None
        )
        if self._temporary:
            self._delete_folder = weakref.finalize(
                self, _delete_folder, self._temporary, os.getpid()
            )
        self.path = path.resolve() if path else Path(self._temporary or "") / "memory.db"
        self.name = f"sqlite:///{path}" if path else "memory:"
        self._folder = str(self.path.parent)
        self._settings = settings
        self._wait_seconds = (
            sqlite_connection.BUSY_SECONDS if wait_seconds is None else wait_seconds
        )
        self._now = now or clock.now
        self._closed = False
        self._gate = ConnectionGate(self._close_connections, self._reset_connections)
        self._reset_connections()
        self._check_path(create)
        self._read_only = read_only or not may_write(self.path)
        if self._read_only:
            self.version()  # an unreadable file raises here
            return
        with self._gate:
            self._writer()
        if BALLAST_MIB and not self._temporary:
            make_ballast(self._ballast, BALLAST_MIB)

    # -- reading ---------------------------------------------------------------------------

    def read(
        self, tenant: str, work: Work[T], *, long: bool = False, allow_replica: bool = False
    ) -> T:
        forbid_in_transaction(self)
        try:
            return self._with_reader(
                lambda connection: work(SqliteTransaction(connection, tenant, self._now()))
            )
        except ValueError as error:
            raise_damage(self, tenant, error)

    def _with_reader(self, work: Callable[[apsw.Connection], T]) -> T:
        with self._gate:
            return self._read_on(work)

    def _read_on(self, work: Callable[[apsw.Connection], T]) -> T:
        """Run work in a read transaction; after an unexpected error, close the connection."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect(writing=False)
        self._reading[id(connection)] = (time.monotonic(), connection)
        keep = False
        try:
            connection.execute("begin")
            result = work(connection)
            connection.execute("commit")
            keep = True
            return result
        except apsw.Error as error:
            raise translate_error(error, self.path, self._wait_seconds) from error
        except MemoristError:
            connection.execute("rollback")
            keep = True
            raise
        finally:
            del self._reading[id(connection)]
            # A file that may not be written can still be written by others: open it again.
            keep = keep and not self._read_only
            if keep and not self._closed and len(self._idle) < MAX_IDLE_READERS:
                self._idle.append(connection)
            else:
                connection.close()

    # -- writing ---------------------------------------------------------------------------

    def write(
        self,
        tenant: str,
        work: Work[T],
        *,
        idempotent: bool = False,
        frees_space: bool = False,
        long: bool = False,
    ) -> T:
        forbid_in_transaction(self)
        try:
            with self._gate:
                try:
                    return self._group.submit(QueuedWrite(tenant, work, frees_space))  # type: ignore[no-any-return]
                except InDoubt:
                    if not idempotent:
                        raise
                return self._group.submit(QueuedWrite(tenant, work, frees_space))  # type: ignore[no-any-return]
        except ValueError as error:
            raise_damage(self, tenant, error)

    def _commit(self, batch: list[QueuedWrite]) -> None:
        """Run the writes in one transaction: failed ones are rolled back, the others committed."""
        connection = self._writer()
        self._reject_if_disk_full(batch)
        try:
            connection.execute("begin immediate")
            now = self._now()
            shared = len(batch) > 1
            for write in batch:
                if write.error is None:
                    self._run(connection, write, now, shared)
            if connection.in_transaction:
                self._commit_now(connection)
            for write in batch:
                if write.tenant not in self._known_tenants and write.error is None:
                    self._known_tenants.add(write.tenant)
        except BaseException as error:  # an interruption must not leave a transaction open
            if connection.in_transaction:
                connection.execute("rollback")
            if isinstance(error, apsw.IOError | apsw.CorruptError | InDoubt):
                connection.close()  # after a failed fsync its cache cannot be trusted
                self._writing = None
            if isinstance(error, apsw.Error):
                raise translate_error(error, self.path, self._wait_seconds) from error
            raise
        self._commits += 1
        if not self._commits % 64:
            self._limit_log(connection)

    def _commit_now(self, connection: apsw.Connection) -> None:
        try:
            connection.execute("commit")
        except (
            apsw.IOError
        ) as error:  # the write may be on disk all the same, and appear at the next start
            raise InDoubt(problem=f"{self.path}: {error}") from error

    def _run(self, connection: apsw.Connection, write: QueuedWrite, now: int, shared: bool) -> None:
        if shared:
            connection.execute("savepoint write")
        try:
            if write.tenant not in self._known_tenants and write.tenant != EVERY_TENANT:
                sql = (
                    "insert into tenants (tenant, created_at) values (?, ?) on conflict do nothing"
                )
                connection.execute(sql, (write.tenant, now))
            write.result = write.work(SqliteTransaction(connection, write.tenant, now))
        except Exception as error:  # raised in the thread of this write
            if not connection.in_transaction:
                raise  # disk full or I/O error: SQLite has rolled back the whole batch
            write.error = error
            if isinstance(error, apsw.Error):
                write.error = translate_error(error, self.path, self._wait_seconds)
            connection.execute("rollback to write" if shared else "rollback")
        if shared:
            connection.execute("release write")

    def _writer(self) -> apsw.Connection:
        writing = self._writing
        if writing is None:
            writing = self._writing = self._connect(writing=True)
        return writing

    def _reject_if_disk_full(self, batch: list[QueuedWrite]) -> None:
        """Fail the writes that need space if the disk is nearly full; check it a few times a second."""
        if time.monotonic() > self._check_disk_at:
            try:
                disk = os.statvfs(self._folder)
            except OSError as error:
                raise Unreachable(problem=str(error)) from error
            self._free_mib = disk.f_bavail * disk.f_frsize >> 20
            self._check_disk_at = time.monotonic() + DISK_CHECK_SECONDS
        min_free_mib = files.MIN_FREE_MIB
        if self._free_mib < min_free_mib and not self._temporary:
            for write in batch:
                if not write.frees_space:
                    write.error = Full(
                        problem=f"{self._free_mib} MiB are free and writing stops below {min_free_mib} MiB"
                    )

    def _limit_log(self, connection: apsw.Connection) -> None:
        """Keep the write-ahead log short: interrupt slow readers, then truncate it.

        The batch is committed already, so an error here must not fail it.
        """
        if self._log_mib() < sqlite_connection.MAX_LOG_MIB:
            return
        try:
            for started, reader in list(self._reading.values()):
                if time.monotonic() - started > OLD_READER_SECONDS:
                    reader.interrupt()
            truncate_log(connection, self._wait_seconds)
        except apsw.Error as error:
            log.warning("the write-ahead log of %s cannot be started over: %s", self.path, error)
            connection.close()
            self._writing = None
        if (size := self._log_mib()) >= max(sqlite_connection.MAX_LOG_MIB, 2 * self._warned_mib):
            self._warned_mib = size
            log.warning(
                "the write-ahead log of %s is %d MiB: a reader, maybe of another process, pins it",
                self.path,
                size,
            )

    def _log_mib(self) -> int:
        with suppress(FileNotFoundError):
            return os.stat(f"{self.path}-wal").st_size >> 20
        return 0

    # -- operating -------------------------------------------------------------------------

    def tenants(self) -> list[str]:
        sql = "select tenant from tenants order by tenant"
        return [tenant for (tenant,) in self.read(EVERY_TENANT, lambda tx: tx.unscoped(sql))]

    def version(self) -> int:
        return self._with_reader(maintenance.version)

    def step(self, step: Step) -> bool:
        self._known_tenants.clear()  # the migration may drop or recreate the table of tenants
        return self.write(EVERY_TENANT, lambda tx: maintenance.apply(_connection_of(tx), step))

    def script(self, step: Step) -> str:
        return maintenance.script(step)

    @property
    def views(self) -> SqliteViews:
        return SqliteViews(
            self._with_reader,
            lambda work: self.write(EVERY_TENANT, lambda tx: work(_connection_of(tx))),
        )

    def distribute(self) -> str:
        return ""

    def health(self) -> list[Finding]:
        loose = self.path.stat().st_mode & 0o077
        with self._own_connection(writing=False) as connection:  # a used one has pages in its cache
            findings = maintenance.check_integrity(connection)
        return [
            *findings,
            Finding(
                "only its owner can open the file",
                f"others may ({loose:o}): chmod 600 it" if loose else "",
            ),
        ]

    def check_replica(self) -> None:
        """Return None: there are no replicas."""

    def engine(self) -> str:
        mode = self._with_reader(lambda connection: connection.pragma("journal_mode"))
        return f"SQLite {apsw.sqlite_lib_version()}, {mode}"

    def estimate_rows(self, tenant: str, table: SampledTable) -> int:
        def work(tx: Transaction) -> int:
            ((low,),) = tx.unscoped(table.outermost("min(rowid)"))
            ((high,),) = tx.unscoped(table.outermost("max(rowid)"))
            if low is None:
                return 0
            numbers = range(low, high + 1)
            hits = size = 0
            for sampled_rows in SAMPLED_ROWS:
                size = min(sampled_rows, len(numbers))
                # `not indexed` makes SQLite look the rows up by their numbers.
                (hits,) = tx.one(
                    table.count_sampled(
                        "not indexed join (select value as sampled from json_each(:sample))"
                        " on sampled = rowid"
                    ),
                    sample=json.dumps(random.sample(numbers, size)),
                ) or (0,)
                if hits >= MIN_SAMPLED_HITS:
                    break
            estimate: int = round(hits * len(numbers) / size)
            return estimate

        return self.read(tenant, work)

    def figures(self) -> dict[str, float]:
        figures: dict[str, float] = {"readers": len(self._reading)}
        with suppress(OSError):
            figures["file_bytes"] = os.stat(self.path).st_size
            figures["disk_free_bytes"] = shutil.disk_usage(self._folder).free
            figures["log_bytes"] = os.stat(f"{self.path}-wal").st_size
        return figures

    def backup(self, target: Path) -> None:
        with self._own_connection(writing=not self._read_only) as connection:
            maintenance.copy(connection, target)

    def compact(self, *, emergency: bool = False) -> bool:
        if emergency:
            self._ballast.unlink(missing_ok=True)
        with self._own_connection() as connection:
            return maintenance.reclaim_space(connection, self._wait_seconds)

    def plan_rewrite(self) -> str:
        return (
            "SQLite: the erasure itself leaves no deleted data in the file; --compact adds nothing."
        )

    def rewrite(self, progress: Progress) -> Rewritten:
        return Rewritten(self.compact())

    def close(self) -> None:
        self._closed = True
        self._gate.close_for_fork()
        self._gate.open()
        if self._temporary:
            self._delete_folder()

    def _close_connections(self) -> None:
        for connection in [*self._idle, self._writing]:
            if connection:
                connection.close()
        self._idle.clear()
        self._writing = None

    # -- connecting ------------------------------------------------------------------------

    @property
    def _ballast(self) -> Path:
        return self.path.with_name(self.path.name + "-ballast")

    def _reset_connections(self) -> object:
        """Forget all connections, initially and in a forked child, which must not touch them."""
        inherited = [*self._idle, self._writing]
        self._group = GroupCommit(self._commit)
        self._writing = None
        self._idle = deque()
        self._reading: dict[int, tuple[float, apsw.Connection]] = {}
        self._known_tenants: set[str] = set()
        self._commits = 0
        self._warned_mib = 0
        self._check_disk_at = 0.0
        self._free_mib = 0
        return inherited

    @contextmanager
    def _own_connection(self, *, writing: bool = True) -> Iterator[apsw.Connection]:
        """Open a connection for one long operation."""
        with self._gate, closing(self._connect(writing=writing)) as connection:
            try:
                yield connection
            except apsw.Error as error:
                raise translate_error(error, self.path, self._wait_seconds) from error

    def _check_path(self, create: bool) -> None:
        folder = self.path.parent
        if not os.path.isdir(folder):
            raise Unreachable(problem=f"the folder {folder} does not exist or cannot be entered")
        if not create and not self._temporary and not os.path.exists(self.path):
            raise Unreachable(
                problem=f"there is no file {self.path}; "
                f"`memorist migrate up --database {self.name}` creates it"
            )
        filesystem = filesystem_of(folder)
        if is_network(filesystem):
            raise NetworkDrive(path=str(self.path), filesystem=filesystem)

    def _connect(self, *, writing: bool) -> apsw.Connection:
        if self._closed:
            raise Unreachable(problem="it was closed")
        if self._read_only:
            if writing:
                raise ReadOnly(problem=f"{self.path} was opened read-only")
            return open_read_only(self.path, self._wait_seconds)
        return open_connection(
            self.path, self._wait_seconds, writing=writing, relaxed=bool(self._temporary)
        )


_statements: dict[str, tuple[str, Callable[[dict[str, Any]], tuple[Any, ...]]]] = {}
_NO_PARAMETER = re.compile(r"'[^']*'|--.*")
_PARAMETER = re.compile(r":(\w+)")


def _prepare(sql: str) -> tuple[str, Callable[[dict[str, Any]], tuple[Any, ...]]]:
    """Prepare a statement; raise `UnscopedSql` if it ignores the tenant."""
    statement = _statements[sql] = _number_parameters(require_tenant(sql))
    return statement


@cache
def _number_parameters(sql: str) -> tuple[str, Callable[[dict[str, Any]], tuple[Any, ...]]]:
    """Return a statement with SQLite's types, and a function that puts its values in order.

    SQLite numbers parameters in the order in which they first occur. Binding by number takes half
    as long as by name.
    """
    ready = maintenance.expand_types(sql)
    names = list(dict.fromkeys(_PARAMETER.findall(_NO_PARAMETER.sub("", ready))))
    if len(names) > 1:
        return ready, itemgetter(*names)
    return ready, lambda values: tuple(values[name] for name in names)


def _delete_folder(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # a forked child leaves its parent's folder alone
        shutil.rmtree(folder, ignore_errors=True)


def _connection_of(tx: Transaction) -> apsw.Connection:
    assert isinstance(tx, SqliteTransaction)
    return tx.connection


def _memory_folder() -> str | None:
    memory = Path("/dev") / "shm"
    return str(memory) if os.access(memory, os.W_OK) else None

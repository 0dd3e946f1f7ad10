"""SQLite through apsw: one file in WAL mode, one writer that commits for everybody who waits, readers beside it."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw

from retain.base import clock
from retain.base.clock import Clock
from retain.base.errors import Full, InDoubt, NetworkDrive, RetainError, Unreachable
from retain.base.settings import Settings
from retain.storage import files, sqlite_connection
from retain.storage import sqlite_care as care
from retain.storage.database import (
    EVERY_TENANT,
    Finding,
    Row,
    Step,
    T,
    Transaction,
    Work,
    require_tenant,
)
from retain.storage.files import check_target, filesystem_of, is_network, make_ballast
from retain.storage.fork import Doors
from retain.storage.group import GroupCommit, Job
from retain.storage.sqlite_connection import in_our_words, open_connection, restart_log
from retain.storage.transaction_database import forbid_in_transaction

MAX_IDLE_READERS = 16
BALLAST_MIB = 16
"""The reserve file beside the database, which `retain purge --emergency` deletes. 0: none."""
OLD_READER_SECONDS = 5.0
SECONDS_BETWEEN_LOOKS = 0.2
log = logging.getLogger("retain.storage")


class SqliteTransaction:
    """Statements on one connection; the connection's owner begins and commits."""

    __slots__ = ("connection", "now", "tenant")

    def __init__(self, connection: apsw.Connection, tenant: str, now: int) -> None:
        self.connection = connection
        self.tenant = tenant
        self.now = now

    def all(self, sql: str, **values: Any) -> list[Row]:
        values["tenant"] = self.tenant
        values["now"] = self.now
        return self.connection.execute(_ready.get(sql) or _check(sql), values).fetchall()

    def one(self, sql: str, **values: Any) -> Row | None:
        values["tenant"] = self.tenant
        values["now"] = self.now
        rows = self.connection.execute(_ready.get(sql) or _check(sql), values).fetchall()
        return rows[0] if rows else None

    def run(self, sql: str, **values: Any) -> int:
        values["tenant"] = self.tenant
        values["now"] = self.now
        self.connection.execute(_ready.get(sql) or _check(sql), values)
        return self.connection.changes()

    def lock_rows(self, sql: str, **values: Any) -> None:
        """Nothing to do: who writes is alone."""

    def lock(self, name: str) -> None:
        """Nothing to do, for the same reason."""

    def many(self, sql: str, rows: Sequence[Mapping[str, Any]]) -> None:
        whose = {"tenant": self.tenant, "now": self.now}
        self.connection.executemany(
            _ready.get(sql) or _check(sql), [{**row, **whose} for row in rows]
        )

    def each(self, sql: str, **values: Any) -> Iterator[Mapping[str, Any]]:
        values["tenant"] = self.tenant
        values["now"] = self.now
        cursor = self.connection.execute(_ready.get(sql) or _check(sql), values)
        names: list[str] = []
        for row in cursor:
            names = names or [column[0] for column in cursor.description]
            yield dict(zip(names, row, strict=True))

    def columns(self, table: str) -> list[str]:
        return [
            name
            for (name,) in self.connection.execute(
                "select name from pragma_table_info(?)", (table,)
            )
        ]


class SqliteDatabase:
    """One file in WAL mode, for all threads of this process and beside other processes."""

    _writing: apsw.Connection | None = None
    _idle: deque[apsw.Connection] = deque(maxlen=0)
    _ask_disk_at: float
    _warned_mib: int

    def __init__(
        self,
        path: Path | None,
        settings: Settings,
        now: Clock | None = None,
        create: bool = True,
        wait_seconds: float | None = None,
    ) -> None:
        self._temporary = (
            tempfile.mkdtemp(prefix="retain-", dir=_fastest_folder()) if path is None else None
        )
        if self._temporary:
            self._throw_away = weakref.finalize(self, _throw_away, self._temporary, os.getpid())
        self.path = path.resolve() if path else Path(self._temporary or "") / "memory.db"
        self.name = f"sqlite:///{path}" if path else "memory:"
        self._folder = str(self.path.parent)
        self._settings = settings
        self._wait_seconds = (
            sqlite_connection.BUSY_SECONDS if wait_seconds is None else wait_seconds
        )
        self._now = now or clock.now
        self._closed = False
        self._doors = Doors(self._let_go, self._start_over)
        self._start_over()
        self._check_place(create)
        with self._doors:
            self._writer()
        if BALLAST_MIB and not self._temporary:
            make_ballast(self._ballast, BALLAST_MIB)

    # -- reading -----------------------------------------------------------------------------------------------

    def read(self, tenant: str, work: Work[T], *, long: bool = False) -> T:
        forbid_in_transaction(self)
        return self._with_reader(
            lambda connection: work(SqliteTransaction(connection, tenant, self._now()))
        )

    def _with_reader(self, work: Callable[[apsw.Connection], T]) -> T:
        with self._doors:
            return self._inside_reader(work)

    def _inside_reader(self, work: Callable[[apsw.Connection], T]) -> T:
        """Run work in a read transaction; a connection that met trouble is closed, any other is kept for later."""
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
            raise in_our_words(error, self.path, self._wait_seconds) from error
        except RetainError:
            connection.execute("rollback")
            keep = True
            raise
        finally:
            del self._reading[id(connection)]
            if keep and not self._closed and len(self._idle) < MAX_IDLE_READERS:
                self._idle.append(connection)
            else:
                connection.close()

    # -- writing -----------------------------------------------------------------------------------------------

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
        with self._doors:
            try:
                return self._group.submit(Job(tenant, work, frees_space))  # type: ignore[no-any-return]
            except InDoubt:
                if not idempotent:
                    raise
            return self._group.submit(Job(tenant, work, frees_space))  # type: ignore[no-any-return]

    def _commit(self, batch: list[Job]) -> None:
        """Run the jobs in one transaction: those that fail are undone alone, the rest is committed together."""
        connection = self._writer()
        self._refuse_if_full(batch)
        try:
            connection.execute("begin immediate")
            now = self._now()
            shared = len(batch) > 1
            for job in batch:
                if job.error is None:
                    self._run(connection, job, now, shared)
            if connection.in_transaction:
                self._commit_now(connection)
            for job in batch:
                if job.tenant not in self._known and job.error is None:
                    self._known.add(job.tenant)
        except BaseException as error:
            if connection.in_transaction:
                connection.execute("rollback")
            if isinstance(error, apsw.IOError | apsw.CorruptError | InDoubt):
                connection.close()  # after a failed fsync nobody knows what its cache is worth
                self._writing = None
            if isinstance(error, apsw.Error):
                raise in_our_words(error, self.path, self._wait_seconds) from error
            raise
        self._commits += 1
        if not self._commits % 64:
            self._bound_log(connection)

    def _commit_now(self, connection: apsw.Connection) -> None:
        try:
            connection.execute("commit")
        except (
            apsw.IOError
        ) as error:  # what was written may be on disk all the same, and come back at the next start
            raise InDoubt(problem=f"{self.path}: {error}") from error

    def _run(self, connection: apsw.Connection, job: Job, now: int, shared: bool) -> None:
        if shared:
            connection.execute("savepoint job")
        try:
            if job.tenant not in self._known and job.tenant != EVERY_TENANT:
                sql = (
                    "insert into tenants (tenant, created_at) values (?, ?) on conflict do nothing"
                )
                connection.execute(sql, (job.tenant, now))
            job.result = job.work(SqliteTransaction(connection, job.tenant, now))
        except Exception as error:  # it is raised in the thread that waits for this job
            if not connection.in_transaction:
                raise  # disk full or I/O error: SQLite has undone the whole batch
            job.error = error
            if isinstance(error, apsw.Error):
                job.error = in_our_words(error, self.path, self._wait_seconds)
            connection.execute("rollback to job" if shared else "rollback")
        if shared:
            connection.execute("release job")

    def _writer(self) -> apsw.Connection:
        writing = self._writing
        if writing is None:
            writing = self._writing = self._connect(writing=True)
        return writing

    def _refuse_if_full(self, batch: list[Job]) -> None:
        """Fail the jobs that would fill a disk that is nearly full; the disk is asked a few times a second."""
        if time.monotonic() > self._ask_disk_at:
            try:
                disk = os.statvfs(self._folder)
            except OSError as error:
                raise Unreachable(problem=str(error)) from error
            self._free_mib = disk.f_bavail * disk.f_frsize >> 20
            self._ask_disk_at = time.monotonic() + SECONDS_BETWEEN_LOOKS
        least = files.MIN_FREE_MIB
        if self._free_mib < least and not self._temporary:
            for job in batch:
                if not job.frees_space:
                    job.error = Full(
                        problem=f"{self._free_mib} MiB are free and writing stops below {least} MiB"
                    )

    def _bound_log(self, connection: apsw.Connection) -> None:
        """Keep the write-ahead log short: stop readers that have pinned it for long, then start it over.

        The batch is committed: nothing that goes wrong here may look as if it were not.
        """
        if self._log_mib() < sqlite_connection.MAX_LOG_MIB:
            return
        try:
            for started, reader in list(self._reading.values()):
                if time.monotonic() - started > OLD_READER_SECONDS:
                    reader.interrupt()
            restart_log(connection, self._wait_seconds)
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

    # -- operating ---------------------------------------------------------------------------------------------

    def tenants(self) -> list[str]:
        sql = "select tenant from tenants where :tenant = '*' order by tenant"
        return [tenant for (tenant,) in self.read(EVERY_TENANT, lambda tx: tx.all(sql))]

    def version(self) -> int:
        return self._with_reader(care.version)

    def step(self, wanted: Step) -> bool:
        self._known.clear()  # the table of tenants may go or come back empty
        return self.write(EVERY_TENANT, lambda tx: care.apply(_connection_of(tx), wanted))

    def script(self, wanted: Step) -> str:
        return care.script(wanted)

    def refit(self) -> None:
        """Nothing to do: the engine comes with this package."""

    def health(self) -> list[Finding]:
        loose = self.path.stat().st_mode & 0o077
        with self._spare(
            writing=False
        ) as connection:  # one that was used would compare FTS5's pages with what it remembers
            damage = care.damage(connection)
        return [
            *damage,
            Finding(
                "only its owner can open the file",
                f"others may ({loose:o}): chmod 600 it" if loose else "",
            ),
        ]

    def engine(self) -> str:
        mode = self._with_reader(lambda connection: connection.pragma("journal_mode"))
        return f"SQLite {apsw.sqlite_lib_version()}, {mode}, {self._settings.sqlite_durability} durability"

    def figures(self) -> dict[str, float]:
        found: dict[str, float] = {"readers": len(self._reading)}
        with suppress(OSError):
            found["file_bytes"] = os.stat(self.path).st_size
            found["disk_free_bytes"] = shutil.disk_usage(self._folder).free
            found["log_bytes"] = os.stat(f"{self.path}-wal").st_size
        return found

    def backup(self, target: Path) -> None:
        check_target(target)
        with self._spare() as connection:
            care.copy(connection, target)

    def compact(self, *, emergency: bool = False) -> bool:
        if emergency:
            self._ballast.unlink(missing_ok=True)
        with self._spare() as connection:
            return care.give_back(connection, self._wait_seconds)

    def close(self) -> None:
        self._closed = True
        self._doors.shut()
        self._doors.open()
        if self._temporary:
            self._throw_away()

    def _let_go(self) -> None:
        for connection in [*self._idle, self._writing]:
            if connection:
                connection.close()
        self._idle.clear()
        self._writing = None

    # -- connecting --------------------------------------------------------------------------------------------

    @property
    def _ballast(self) -> Path:
        return self.path.with_name(self.path.name + "-ballast")

    def _start_over(self) -> object:
        """Have no connections: at first, and in a forked child; what it inherited after all is to be kept and left alone."""
        left = [*self._idle, self._writing]
        self._group = GroupCommit(self._commit)
        self._writing = None
        self._idle = deque()
        self._reading: dict[int, tuple[float, apsw.Connection]] = {}
        self._known: set[str] = set()
        self._commits = 0
        self._warned_mib = 0
        self._ask_disk_at = 0.0
        self._free_mib = 0
        return left

    @contextmanager
    def _spare(self, *, writing: bool = True) -> Iterator[apsw.Connection]:
        """A connection of its own, for work that takes long."""
        with self._doors, closing(self._connect(writing=writing)) as connection:
            try:
                yield connection
            except apsw.Error as error:
                raise in_our_words(error, self.path, self._wait_seconds) from error

    def _check_place(self, create: bool) -> None:
        folder = self.path.parent
        if not os.path.isdir(folder):
            raise Unreachable(problem=f"there is no folder {folder} that may be entered")
        if not create and not self._temporary and not os.path.exists(self.path):
            raise Unreachable(
                problem=f"there is no file {self.path}; `retain migrate up` makes one"
            )
        if is_network(found := filesystem_of(folder)):
            raise NetworkDrive(path=str(self.path), filesystem=found)

    def _connect(self, *, writing: bool) -> apsw.Connection:
        if self._closed:
            raise Unreachable(problem="it was closed")
        relaxed = bool(self._temporary) or self._settings.sqlite_durability == "normal"
        return open_connection(self.path, self._wait_seconds, writing=writing, relaxed=relaxed)


_ready: dict[str, str] = {}


def _check(sql: str) -> str:
    """The statement as SQLite takes it, once it is known to name the tenant."""
    ready = _ready[sql] = care.spell(require_tenant(sql))
    return ready


def _throw_away(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # a forked child leaves its parent's folder alone
        shutil.rmtree(folder, ignore_errors=True)


def _connection_of(tx: Transaction) -> apsw.Connection:
    assert isinstance(tx, SqliteTransaction)
    return tx.connection


def _fastest_folder() -> str | None:
    memory = Path("/dev") / "shm"
    return str(memory) if os.access(memory, os.W_OK) else None

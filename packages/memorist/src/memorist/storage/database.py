"""The interface that every database engine implements.

A unit of work is a function that takes a `Transaction`. The engine decides when to run it, may run
it again after a lost connection, and returns only after the commit. So a unit of work must be
short, must not wait for a network or a model, and must have no effect besides its statements and
its return value.

Statements are plain SQL in the subset that all engines share, with `:named` parameters. Two
parameters are always bound: `:tenant`, which every statement must use except in
`Transaction.unscoped`, and `:now`, the database's clock in microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from memorist.storage.design_views import Views

T = TypeVar("T")
Row = tuple[Any, ...]
Dialect = str  # the name of an engine: sqlite, postgres, or the scheme of one of another package

EVERY_TENANT = "*"
"""The tenant under which the list of tenants, and nothing else, can be read."""


Progress = Callable[[int, int], None]
"""Called with the number of steps that are done, and that of all steps."""


class Sent(Protocol):
    """A statement whose result may still be on its way.

    Its rows can be read after the commit, too. A unit of work that returns it, instead of its rows,
    needs a single round trip.
    """

    def rows(self) -> list[Row]:
        """Return all rows of the result; wait for it if necessary."""
        ...


class Transaction(Protocol):
    """Statements that are committed together, for one tenant, at one moment."""

    tenant: str

    @property
    def now(self) -> int:
        """The database's clock at the beginning of the transaction, in microseconds."""
        ...

    def all(self, sql: str, **values: Any) -> list[Row]:
        """Return all rows of a statement."""
        ...

    def one(self, sql: str, **values: Any) -> Row | None:
        """Return the first row, or None."""
        ...

    def run(self, sql: str, **values: Any) -> int:
        """Run a statement and return the number of rows that it changed."""
        ...

    def send(self, sql: str, **values: Any) -> Sent:
        """Run a statement without waiting for its result, which saves a round trip.

        Statements run in the order in which they are sent. An error is raised at the latest by the
        commit.
        """
        ...

    def lock_rows(self, sql: str, **values: Any) -> None:
        """Lock the rows of a `select` until the commit; other writers of these rows wait."""
        ...

    def lock(self, name: str) -> None:
        """Take the tenant's lock of this name until the commit; it needs no row."""
        ...

    def many(self, sql: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run a statement once for each mapping of values."""
        ...

    def each(self, sql: str, **values: Any) -> Iterator[Mapping[str, Any]]:
        """Yield rows by column name, without holding all of them in memory."""
        ...

    def columns(self, table: str) -> list[str]:
        """Return the names of a table's columns, in order."""
        ...

    def unscoped(self, sql: str, **values: Any) -> list[Row]:
        """Run a statement that has no tenant, and return its rows.

        All calls are listed in `tests/test_sql_gate.py`.
        """
        ...


Work = Callable[[Transaction], T]


class SampledTable(Protocol):
    """A table of which an engine can read a sample; see `memorist.storage.tables.Table`."""

    @property
    def name(self) -> str:
        """Return the name."""
        ...

    def count_sampled(self, sampling: str) -> str:
        """Return the statement that counts the tenant's rows in a sample."""
        ...

    def outermost(self, value: str) -> str:
        """Return the statement for a value of an engine, of all tenants."""
        ...


class CheckedTable(Protocol):
    """A table whose texts have a checksum; see `memorist.storage.tables.Table`."""

    @property
    def checked(self) -> Sequence[str]:
        """Return the columns of the texts."""
        ...

    @property
    def name(self) -> str:
        """Return the name."""
        ...

    @property
    def key(self) -> Sequence[str]:
        """Return the columns of the primary key, without the tenant."""
        ...

    def texts(self) -> str:
        """Return the statement for the keys, checksums and stored texts, as bytes, of all rows."""
        ...

    def find_text(self) -> str:
        """Return the statement as of `texts` for the rows with a text."""
        ...

    def texts_of_row(self) -> str:
        """Return the statement as of `texts` for the row with a key."""
        ...


class Database(Protocol):
    """One database, shared by all threads of the process."""

    name: str
    """The address without its password, for messages and logs."""
    dialect: Dialect
    """The SQL that it speaks, which decides the search engine."""
    runs_on_server: bool
    """Whether statements run in a database server and not in this process."""
    checked_tables: Sequence[CheckedTable]
    """The tables whose texts have a checksum, to name the record of a text that is damaged."""

    @property
    def views(self) -> Views:
        """Return the views with the names of earlier designs' tables."""
        ...

    is_cluster: bool
    """Whether tenants are spread over several servers, each tenant with all its rows on one."""
    remnants: Sequence[str]
    """Where words of deleted rows remain after `compact`, and until when."""

    def read(
        self, tenant: str, work: Work[T], *, long: bool = False, allow_replica: bool = False
    ) -> T:
        """Run work on one consistent snapshot, which has every write committed before the call.

        long:          maintenance that reads many rows; no time limit stops it
        allow_replica: it may run on a read replica, if there is one that has these writes
        """
        ...

    def write(
        self,
        tenant: str,
        work: Work[T],
        *,
        idempotent: bool = False,
        frees_space: bool = False,
        long: bool = False,
    ) -> T:
        """Run work and commit it, whole or not at all.

        idempotent:  running it twice is harmless, so it is retried if the connection is lost during
                     the commit; without this, such a loss raises `InDoubt`
        frees_space: it deletes, so it is allowed when the disk is nearly full
        long:        maintenance that touches many rows; no time limit stops it
        """
        ...

    def tenants(self) -> list[str]:
        """Return every tenant that has written something, sorted."""
        ...

    def version(self) -> int:
        """Return the number of the newest migration that was applied, 0 for none."""
        ...

    def step(self, step: Step) -> bool:
        """Apply one migration in its own transaction, under a lock.

        Returns False if another process applied it first.
        """
        ...

    def script(self, step: Step) -> str:
        """Return the statements that `step` would run."""
        ...

    def distribute(self) -> str:
        """Distribute the tables over the servers of a cluster; return a message, "" without a cluster."""
        ...

    def health(self) -> list[Finding]:
        """Check files, indexes, locks and privileges."""
        ...

    def check_replica(self) -> Finding | None:
        """Check the read replica; None without one. The name of the check is its address."""
        ...

    def engine(self) -> str:
        """Return the engine's name, version and configuration in one line, for people."""
        ...

    def estimate_rows(self, tenant: str, table: SampledTable) -> int:
        """Return about how many rows a tenant has in a large table, from a sample."""
        ...

    def figures(self) -> dict[str, float]:
        """Return cheap measurements, such as connections in use, for the metrics page."""
        ...

    def backup(self, target: Path) -> None:
        """Write a consistent copy to an empty file while others go on reading and writing."""
        ...

    def compact(self, *, emergency: bool = False) -> bool:
        """Return freed space to the disk and leave nothing readable of deleted rows.

        Returns False if a reader still holds old pages. A server returns False, because it reuses the
        space itself: see `rewrite`. `emergency` also frees the reserve file.
        """
        ...

    def plan_rewrite(self) -> str:
        """Return what `rewrite` will do, for people; raise if this engine or connection cannot."""
        ...

    def rewrite(self, progress: Progress) -> Rewritten:
        """Rewrite all tables, so that their files have no deleted rows. This may lock the tables."""
        ...

    def close(self) -> None:
        """Close all connections. Every acknowledged write is already on disk."""
        ...


@dataclass(frozen=True)
class Rewritten:
    """The result of a rewrite of all tables."""

    is_complete: bool
    """False if a reader still holds deleted pages."""
    remnants: Sequence[str] = ()
    """Where words of deleted rows remain all the same, and until when."""


@dataclass(frozen=True)
class Step:
    """One migration in one direction, as an engine runs it."""

    number: int
    name: str
    script: str
    up: bool


@dataclass(frozen=True)
class Finding:
    """The result of one check; `problem` is empty if the check passed."""

    check: str
    problem: str = ""
    count: int = 0
    """The number of violations, of which `problem` may describe only the first ones."""

    @property
    def ok(self) -> bool:
        """True if the check passed."""
        return not self.problem


class UnscopedSql(AssertionError):
    """A statement without `:tenant`: a bug in memorist, stopped before it reaches the database."""


def require_tenant(sql: str) -> str:
    """Return the statement unchanged; raise `UnscopedSql` if it does not use `:tenant`."""
    if ":tenant" not in sql:
        raise UnscopedSql(f"this statement does not use :tenant: {sql}")
    return sql

"""What every engine offers the kinds: a read, a write, and a transaction that knows whose data it may touch.

A piece of work is a function of a transaction. The engine chooses when to run it, may run it again after a lost
connection, and answers only after the commit; so work must be short, must not wait for a network or a model, and must
have no effect besides its statements and its return value.

Statements are plain SQL in the subset all engines share, with `:named` parameters. Two parameters are always there:
`:tenant`, which every statement must use, and `:now`, the database's clock in microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Row = tuple[Any, ...]

EVERY_TENANT = "*"
"""The tenant under which the list of tenants, and nothing else, can be read."""


class Transaction(Protocol):
    """Statements that happen together, for one tenant, at one moment."""

    tenant: str
    now: int

    def all(self, sql: str, **values: Any) -> list[Row]:
        """The rows a statement returns."""
        ...

    def one(self, sql: str, **values: Any) -> Row | None:
        """The first row, or None."""
        ...

    def run(self, sql: str, **values: Any) -> int:
        """How many rows a statement changed."""
        ...

    def lock(self, sql: str, **values: Any) -> None:
        """Keep the rows that a `select` finds from other writers until the commit, where one writer is not the rule."""
        ...

    def alone(self, name: str) -> None:
        """Wait for others of the tenant who said this name until their commit: for what may have no row to lock yet."""
        ...

    def many(self, sql: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """The same statement once for each mapping of values."""
        ...

    def each(self, sql: str, **values: Any) -> Iterator[Mapping[str, Any]]:
        """Rows by column name, one after the other, without holding them all in memory."""
        ...

    def columns(self, table: str) -> list[str]:
        """The columns of a table, from the catalog."""
        ...


Work = Callable[[Transaction], T]


class Database(Protocol):
    """One database, shared by every thread of the process."""

    name: str
    """Which database this is, for people: never with a password."""

    def read(self, tenant: str, work: Work[T], *, slow: bool = False) -> T:
        """Run work on one consistent snapshot; `slow` work is maintenance, which no time limit stops."""
        ...

    def write(
        self,
        tenant: str,
        work: Work[T],
        *,
        safe: bool = False,
        frees: bool = False,
        slow: bool = False,
    ) -> T:
        """Run work and commit it, whole or not at all.

        `safe` work may be run again when nobody knows whether it was committed (it has an idempotency key).
        Work that `frees` space is allowed when the disk is nearly full.
        """
        ...

    def tenants(self) -> list[str]:
        """Every tenant that has written something, in order."""
        ...

    def version(self) -> int:
        """The number of the newest migration that was applied, 0 for none."""
        ...

    def step(self, wanted: Step) -> bool:
        """Apply one migration in a transaction of its own, under a lock; False if another process did it first."""
        ...

    def script(self, wanted: Step) -> str:
        """The statements that `step` would run."""
        ...

    def refit(self) -> None:
        """Make use of what the engine has now and had not when its tables were made, such as an extension."""
        ...

    def health(self) -> list[Finding]:
        """What the engine itself finds wrong with its files, indexes, locks and rights."""
        ...

    def engine(self) -> str:
        """Which engine this is, its version, and how it is set up, for people."""
        ...

    def figures(self) -> dict[str, float]:
        """What the engine can tell of itself at no cost, such as the size of its log or how many connections are in use."""
        ...

    def backup(self, target: Path) -> None:
        """Write a consistent copy while others go on reading and writing."""
        ...

    def compact(self, *, emergency: bool = False) -> bool:
        """Give freed space back to the disk and leave nothing readable of what was deleted; False: a reader keeps it yet."""
        ...

    def close(self) -> None:
        """Let go of every connection; whatever was acknowledged is already on disk."""
        ...


@dataclass(frozen=True)
class Step:
    """One migration in one direction, as an engine runs it."""

    number: int
    name: str
    script: str
    up: bool


@dataclass(frozen=True)
class Finding:
    """Something that a check found; `problem` is empty where all is well."""

    check: str
    problem: str = ""

    @property
    def ok(self) -> bool:
        """Whether the check found nothing."""
        return not self.problem


class UnscopedSql(AssertionError):
    """A statement that forgets the tenant: a mistake in retain itself, refused before it reaches the database."""


def require_tenant(sql: str) -> str:
    """The statement, if it is bound to the transaction's tenant."""
    if ":tenant" not in sql:
        raise UnscopedSql(f"this statement does not use :tenant: {sql}")
    return sql

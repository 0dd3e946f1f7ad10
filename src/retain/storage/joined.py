"""A transaction that is under way, where a database is expected: what several verbs do becomes one write."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

from retain.base.errors import Invalid
from retain.storage.blobs import Blobs
from retain.storage.database import Database, Transaction, UnscopedSql, Work

T = TypeVar("T")


class Joined:
    """A database whose reads and writes are all part of one transaction, and can only be of its tenant."""

    def __init__(self, database: Database, tx: Transaction) -> None:
        self._database = database
        self._tx = tx
        self.over = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def read(self, tenant: str, work: Work[T], *, long: bool = False) -> T:
        """What the transaction sees, its own writes included."""
        return self.write(tenant, work)

    def write(
        self,
        tenant: str,
        work: Work[T],
        *,
        idempotent: bool = False,
        frees_space: bool = False,
        long: bool = False,
    ) -> T:
        """Run work now; it is committed with everything else of the transaction."""
        if self.over:
            raise Invalid(
                field="work",
                problem="is over: the scope that it was given ends with it; use the one outside",
            )
        if tenant != self._tx.tenant:
            raise UnscopedSql(f"a transaction of {self._tx.tenant} cannot be joined by {tenant}")
        return work(self._tx)


class _Here(threading.local):
    """The databases that this thread is inside of a joined transaction of."""

    databases: tuple[Database, ...] = ()


_here = _Here()


@contextmanager
def join(database: Database, tx: Transaction) -> Iterator[Joined]:
    """A transaction as a database, until it ends; meanwhile, this thread cannot use the database itself."""
    before, joined = _here.databases, Joined(database, tx)
    _here.databases = (*before, database)
    try:
        yield joined
    finally:
        _here.databases = before
        joined.over = True


def require_outside(database: Database) -> None:
    """Refuse what a transaction of this thread would not see or undo, and where there is one writer wait for for ever."""
    if _here.databases and any(one is database for one in _here.databases):
        raise Invalid(
            field="work", problem="uses a scope from outside: use only the one that it is given"
        )


class NoBlobs:
    """Where contents would be stored: not inside of a transaction, which would wait for a disk or a network.

    They can be let go of: their files are `gone` when the transaction is committed.
    """

    def __init__(self, blobs: Blobs) -> None:
        self.gone: list[str] = []
        self.release = blobs.release

    def discard(self, files: Iterable[str]) -> bool:
        """Note files whose rows the transaction removes."""
        self.gone += files
        return True

    def __getattr__(self, name: str) -> NoReturn:
        raise Invalid(
            field="work",
            problem="cannot use references: keep them before, and their placeholders in it",
        )

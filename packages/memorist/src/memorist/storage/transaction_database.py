"""An open transaction in the place of a database, so that several verbs become one write.

`Scope.transaction` gives its work a scope over these classes. While the work runs, its thread
cannot use the real database: such a call would not be part of the transaction, and on SQLite it
would wait forever.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar, cast

from memorist.base.errors import Invalid
from memorist.storage.contents.blobs import Blobs, Stored
from memorist.storage.database import Database, Transaction, UnscopedSql, Work

T = TypeVar("T")


class TransactionDatabase:
    """The part of `Database` that verbs use, as part of one transaction of one tenant."""

    def __init__(self, database: Database, tx: Transaction) -> None:
        self.name = database.name
        self.dialect = database.dialect
        self.runs_on_server = database.runs_on_server
        self.is_cluster = database.is_cluster
        self.checked_tables = database.checked_tables
        self.remnants = database.remnants
        self.is_over = False
        self._tx = tx

    def read(
        self, tenant: str, work: Work[T], *, long: bool = False, allow_replica: bool = False
    ) -> T:
        """Run work on what the transaction sees, its own writes included."""
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
        """Run work now; it is committed with the rest of the transaction."""
        if self.is_over:
            raise Invalid(
                field="work",
                problem="has ended, so its scope can no longer be used; use the scope on which you called `transaction`",
            )
        if tenant != self._tx.tenant:
            raise UnscopedSql(f"a transaction of {self._tx.tenant} cannot be joined by {tenant}")
        return work(self._tx)


class TransactionBlobs(Blobs):
    """The contents of references inside a transaction: they can be removed, but not stored or read.

    Storing and reading wait for a disk, which a transaction must not. `discarded` collects the files
    to delete after the commit.
    """

    def __init__(self, blobs: Blobs) -> None:
        super().__init__(blobs.database, blobs.folder)
        self.discarded: list[str] = []

    def discard(self, files: Iterable[str]) -> bool:
        """Remember files whose rows the transaction removes."""
        self.discarded += files
        return True

    def take(self, *arguments: Any, **options: Any) -> NoReturn:
        raise _no_references()

    def add(self, tx: Transaction, stored: Stored) -> NoReturn:
        raise _no_references()

    def open(self, tenant: str, user: str, digest: str, *, check: bool = True) -> NoReturn:
        raise _no_references()

    def put(self, *arguments: Any, **options: Any) -> NoReturn:
        raise _no_references()

    def verify(self, tenants: Sequence[str]) -> NoReturn:
        raise _no_references()


def _no_references() -> Invalid:
    return Invalid(
        field="work",
        problem="cannot use references: store them before, and use their placeholders in it",
    )


class _ThreadState(threading.local):
    """The databases of which this thread is inside a transaction."""

    databases: tuple[Database, ...] = ()


_thread = _ThreadState()


@contextmanager
def as_database(database: Database, tx: Transaction) -> Iterator[Database]:
    """Yield a transaction as a database; until then, this thread cannot use the database itself."""
    outer = _thread.databases
    joined = TransactionDatabase(database, tx)
    _thread.databases = (*outer, database)
    try:
        yield cast("Database", joined)
    finally:
        _thread.databases = outer
        joined.is_over = True


def forbid_in_transaction(database: object) -> None:
    """Raise `Invalid` if this thread is inside a transaction of the database."""
    databases = _thread.databases
    if databases and any(used is database for used in databases):
        raise Invalid(
            field="work", problem="uses a scope from outside: use only the one that it is given"
        )

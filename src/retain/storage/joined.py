"""A transaction that is under way, where a database is expected: what several verbs do becomes one write."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

from retain.errors import Invalid
from retain.storage.database import Database, Transaction, Work

T = TypeVar("T")


class Joined:
    """A database whose reads and writes are all part of one transaction, and can only be of its tenant."""

    def __init__(self, database: Database, tx: Transaction) -> None:
        self._database = database
        self._tx = tx

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def read(self, tenant: str, work: Work[T], *, slow: bool = False) -> T:
        """What the transaction sees, its own writes included."""
        return self.write(tenant, work)

    def write(self, tenant: str, work: Work[T], *, safe: bool = False, frees: bool = False, slow: bool = False) -> T:
        """Run work now; it is committed with everything else of the transaction."""
        assert tenant == self._tx.tenant, "a transaction is of one tenant"
        return work(self._tx)


class NoBlobs:
    """Where contents would be stored: not inside of a transaction, which would wait for a disk or a network."""

    def __getattr__(self, name: str) -> NoReturn:
        raise Invalid(field="work", problem="cannot use references: keep them before, and their placeholders in it")

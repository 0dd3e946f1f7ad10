"""The one place through which every change to memory goes.

A kind describes its change and passes it with the function that makes it. `Writer` runs the
function in a transaction and then notifies its listeners, such as background jobs.
`retain.auth.audited_writer.AuditedWriter` adds the audit row and the idempotent response to the same
transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from retain.storage.database import Database, Work
from retain.storage.tables import Table

T = TypeVar("T")
RowKey = Mapping[str, Any]
"""The primary key of a row, without the tenant: column names to values."""


class Change(NamedTuple):
    """One write: which verb of which kind changes what. A tuple, because every write creates one."""

    kind: str
    verb: str
    tenant: str
    table: Table | None = None
    row: RowKey | Callable[[Any], RowKey | Sequence[RowKey]] | None = None
    """The row of `table` that changes, or a function that gets it from the transaction's result."""
    subject: str = ""
    """The id of what changes if it is not one row of `table`, such as a session's id."""
    user: str | None = None
    """The user of the scope that changes it; None for a scope of all users."""
    returns: Callable[[Any], Any] | None = None
    """Makes the verb's return value from the result of the transaction. None: they are the same."""


class Writer:
    """Runs changes in transactions and tells listeners about the committed ones."""

    def __init__(
        self, database: Database, listeners: Sequence[Callable[[Change], None]] = ()
    ) -> None:
        self.database = database
        self._listeners = listeners

    def write(
        self,
        change: Change,
        work: Work[T],
        *,
        idempotent: bool = False,
        frees_space: bool = False,
        long: bool = False,
    ) -> T:
        """Run `work` in one transaction and commit it; `Database.write` explains the options."""
        result = self.database.write(
            change.tenant, work, idempotent=idempotent, frees_space=frees_space, long=long
        )
        for listener in self._listeners:
            listener(change)
        return result

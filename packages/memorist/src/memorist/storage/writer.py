"""The one place through which every change to memory goes.

A kind describes its change and passes it with the function that makes it. `Writer` runs the
function in a transaction, adds the event of the change if events are on, and then notifies its
listeners, such as background jobs. `memorist.admin.audited_writer.AuditedWriter` adds the audit row
and the idempotent response to the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from memorist.storage import event_log
from memorist.storage.database import Database, Transaction, Work
from memorist.storage.event_log import EventType, NewEvent
from memorist.storage.tables import Table, row_name, row_owner, session_owner

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
    """The id of what changes if it is not one row of `table`."""
    user: str | None = None
    """The user of the scope that changes it; None for a scope of all users."""
    returns: Callable[[Any], Any] | None = None
    """Makes the verb's return value from the result of the transaction. None: they are the same."""
    event: EventType | Literal["none"] = "none"
    """The type of its event; `none`: it has none."""
    parts: list[NewEvent] | None = None
    """The events of the verbs that run in this transaction; the function that makes it adds them."""
    session: str = ""
    """The id of the session that changes; it is then also the subject."""


class Writer:
    """Runs changes in transactions and tells listeners about the committed ones.

    records_events: add the events of changes to their transactions
    collected:      add them to this list instead, because they are part of a larger transaction
    """

    def __init__(
        self,
        database: Database,
        listeners: Sequence[Callable[[Change], None]] = (),
        *,
        records_events: bool = False,
        collected: list[NewEvent] | None = None,
    ) -> None:
        self.database = database
        self.records_events = records_events
        self._listeners = list(listeners)
        self._collected = collected

    def listen(self, listener: Callable[[Change], None]) -> None:
        """Call a function after each committed change, in the thread of its writer."""
        self._listeners.append(listener)

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
        if self.records_events and (change.event != "none" or change.parts is not None):
            work = self._with_events(change, work)
        result = self.database.write(
            change.tenant, work, idempotent=idempotent, frees_space=frees_space, long=long
        )
        for listener in self._listeners:
            listener(change)
        return result

    def _with_events(self, change: Change, work: Work[T]) -> Work[T]:
        """Return `work`, followed by the events of the change."""

        def recorded(tx: Transaction) -> T:
            owner = change.user or owner_before(tx, change)
            result = work(tx)
            new_events = change.parts
            if new_events is None:
                new_events = _events(tx, change, result, owner)
            if self._collected is None:
                event_log.add(tx, new_events)
            else:
                self._collected.extend(new_events)
            return result

        return recorded


def changed_rows(change: Change, result: Any) -> Sequence[RowKey]:
    """Return the keys of the rows that a change with this result has changed."""
    rows = change.row(result) if callable(change.row) else change.row
    if rows is None:
        return []
    return [rows] if isinstance(rows, Mapping) else rows


def owner_before(tx: Transaction, change: Change) -> str | None:
    """Return the user of what changes, which may be gone after the change."""
    if change.session:
        return session_owner(tx, change.session)
    return row_owner(tx, change.table, change.row)


def _events(tx: Transaction, change: Change, result: Any, owner: str | None) -> list[NewEvent]:
    verb = change.verb
    type = change.event
    if type == "none" or (type == "learned" and not result):
        return []
    if subject := change.subject or change.session:
        return [NewEvent(type, change.kind, verb, subject, owner)]
    rows = changed_rows(change, result)
    if not rows:
        return [NewEvent(type, change.kind, verb, "", owner)]
    return [
        NewEvent(
            type,
            change.kind,
            verb,
            row_name(change.table, row),
            owner or row_owner(tx, change.table, row),
        )
        for row in rows
    ]

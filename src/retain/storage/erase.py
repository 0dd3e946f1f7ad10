"""Erasing one user: everything of theirs from every table, in one transaction, with a receipt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from retain import clock
from retain.errors import StorageError
from retain.storage.blobs import Blobs
from retain.storage.database import Database, Transaction
from retain.storage.tables import Table


@dataclass(frozen=True)
class Receipt:
    """What was removed from where; it names the user and holds nothing of what they said.

    `compacted` is False where a reader still kept deleted pages in the log, or an export or a backup its files: `retain
    purge` clears them later.
    """

    tenant: str
    user: str
    erased_at: datetime
    removed: dict[str, int]
    compacted: bool


def erase(database: Database, tables: Sequence[Table], blobs: Blobs, tenant: str, user: str) -> Receipt:
    """Remove all rows of a user, children first, and then what is left of them in files, free pages and logs.

    What the index has of them goes last, with what was put there until a moment ago; it is no memory, and not counted.
    """

    def work(tx: Transaction) -> tuple[int, dict[str, int]]:
        removed = {table.name: tx.run(table.delete(), user=user) for table in reversed(tables) if table.owned}
        tx.run("delete from search_items where tenant = :tenant and user_id = :user", user=user)
        return tx.now, removed

    at, removed = database.write(tenant, work, frees=True, slow=True)
    try:
        compacted = all([blobs.erase(tenant, user), database.compact()])
    except StorageError:  # what is erased is erased: the receipt says what is left to do
        compacted = False
    return Receipt(tenant, user, clock.to_datetime(at), dict(reversed(removed.items())), compacted)

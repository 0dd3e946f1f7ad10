"""Erasing one user: everything of theirs from every table, in one transaction, with a receipt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from retain import clock
from retain.storage.database import Database, Transaction
from retain.storage.tables import Table


@dataclass(frozen=True)
class Receipt:
    """What was removed from where; it names the user and holds nothing of what they said."""

    tenant: str
    user: str
    erased_at: datetime
    removed: dict[str, int]


def erase(database: Database, tables: Sequence[Table], tenant: str, user: str) -> Receipt:
    """Remove all rows of a user, children first, and then what is left of them in free pages and logs."""

    def work(tx: Transaction) -> Receipt:
        removed = {table.name: tx.run(table.delete(), user=user) for table in reversed(tables) if table.owned}
        return Receipt(tenant, user, clock.to_datetime(tx.now), dict(reversed(removed.items())))

    receipt = database.write(tenant, work, frees=True)
    database.compact()
    return receipt

"""Erase one user: all their rows in one transaction, with a receipt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from retain.base import clock
from retain.base.errors import StorageError
from retain.storage.blobs import Blobs
from retain.storage.database import Transaction
from retain.storage.tables import Table
from retain.storage.writer import Change, Writer

_SESSIONS = "delete from sessions where tenant = :tenant and user_id = :user returning id"
_THEIR_MESSAGES = (
    "delete from search_items where tenant = :tenant and kind = 'messages' and id = :id"
)
_KEYS = "delete from keys where tenant = :tenant and user_id = :user"
_NO_MESSAGES = (
    "delete from search_items where tenant = :tenant and kind <> 'messages' and user_id = :user"
)


@dataclass(frozen=True)
class Receipt:
    """The number of rows removed from each table; it holds no content.

    `compacted` is False if a reader still needed deleted pages in the log, or if an export or a
    backup still needed the files. `retain purge` clears them later.
    """

    tenant: str
    user: str
    erased_at: datetime
    removed: dict[str, int]
    compacted: bool


def erase(writer: Writer, tables: Sequence[Table], blobs: Blobs, tenant: str, user: str) -> Receipt:
    """Remove all rows of a user, children first, and then their files, free pages and logs.

    The rows of the search index are removed last, so that ones added meanwhile are included. The
    receipt counts neither these nor the user's keys.
    """

    def work(tx: Transaction) -> tuple[int, dict[str, int]]:
        removed = {}
        for table in (table for table in reversed(tables) if table.owned):
            if table.name == "sessions":
                # The ids come from the `delete` itself: an earlier read could miss new sessions.
                sessions = tx.all(_SESSIONS, user=user)
                tx.many(_THEIR_MESSAGES, [{"id": id} for (id,) in sessions])
            removed[table.name] = (
                len(sessions) if table.name == "sessions" else tx.run(table.delete(), user=user)
            )
        tx.run(_NO_MESSAGES, user=user)
        tx.run(_KEYS, user=user)
        return tx.now, removed

    change = Change("users", "erase", tenant, subject=user)
    at, removed = writer.write(change, work, frees_space=True, long=True)
    try:
        compacted = all([blobs.erase(tenant, user), writer.database.compact()])
    except StorageError:  # the rows are erased; the receipt says that files are left
        compacted = False
    return Receipt(tenant, user, clock.to_datetime(at), dict(reversed(removed.items())), compacted)

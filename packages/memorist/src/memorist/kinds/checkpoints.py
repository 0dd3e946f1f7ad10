"""Checkpoints: the tables with the state of graph threads.

The package memorist-frameworks reads and writes them. The core declares them, so that exporting,
erasing, purging and verifying never miss one, whatever is installed.
"""

from __future__ import annotations

import hashlib

from memorist.kinds.kind import Check, Kind, Table
from memorist.storage.database import Transaction

_OWNED = "line in (select line from threads where tenant = :tenant and user_id = :user)"


def line_of(user: str, thread: str, ns: str) -> str:
    """Return the short name under which a namespace of a user's thread is stored."""
    # No name contains a NUL, so no two namespaces have the same text.
    return hashlib.sha256("\0".join((user, thread, ns)).encode()).hexdigest()[:32]


def _misplaced(tx: Transaction) -> list[str]:
    rows = tx.all("select line, user_id, thread, ns from threads where tenant = :tenant")
    return [
        f"thread {thread} {ns}"
        for line, user, thread, ns in rows
        if line_of(user, thread, ns) != line
    ]


class CheckpointTables(Kind):
    """The checkpoints of a user's threads, or of the tenant's if no user is named."""

    name = "checkpoints"
    tables = (
        Table("threads", order="line", owned="user_id = :user"),  # `checks` compares its names
        Table(
            "checkpoints",
            order="line, id",
            owned=_OWNED,
            checked=("data", "metadata", "versions"),
        ),
        Table("channel_values", order="line, channel, version", owned=_OWNED, checked=("data",)),
        Table(
            "checkpoint_writes",
            order="line, checkpoint, task, idx",
            owned=_OWNED,
            checked=("path", "data"),
        ),
    )
    checks = (Check("a thread's owner matches its name", find=_misplaced),)

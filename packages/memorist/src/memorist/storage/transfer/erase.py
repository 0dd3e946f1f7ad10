"""Erase a user or an agent: all their rows in one transaction, with a receipt."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memorist.base import clock
from memorist.base.errors import StorageError
from memorist.storage import event_log
from memorist.storage.contents.blobs import Blobs
from memorist.storage.database import Database, Progress, Transaction
from memorist.storage.event_log import NewEvent
from memorist.storage.tables import Table
from memorist.storage.writer import Change, Writer

_HASHED_SUBJECT = re.compile(r"sha256:[0-9a-f]{64}")
_KEYS = "delete from keys where tenant = :tenant and user_id = :user"
_FACTS = (
    "delete from facts where tenant = :tenant and user_id = :user",
    "delete from fact_names where tenant = :tenant and user_id = :user",
)
"""Facts that were learned from the user's sessions while these were being removed."""


NOT_REACHED = (
    "backups and exports made before the erasure",
    "replicas that are behind",
    "data that model services have received",
    "events that webhooks have received",
)
NOT_REACHED_OF_USER = (
    *NOT_REACHED,
    "the user's name in the audit log",
    "entries that an agent saved about itself while it talked to the user",
)
NOT_REACHED_OF_AGENT = (
    *NOT_REACHED,
    "the names of the agent and of its records in the audit log",
    "messages that it wrote in sessions of other agents",
    "hashes of the removed words in the search index of users and whiteboards, until background"
    " jobs have rewritten it",
)


@dataclass(frozen=True)
class Receipt:
    """The number of rows removed from each table; it holds no content.

    `compacted` is False if words can still be in the files of the database. On SQLite, a reader
    still needed deleted pages, or an export or a backup the files; `memorist purge` clears them
    later. On PostgreSQL, it is True only after `memorist erase --compact`.
    """

    tenant: str
    user: str
    erased_at: datetime
    removed: dict[str, int]
    compacted: bool
    audit_subjects_hashed: int = 0
    """Audit rows about the user's records: they stay, with a hash in place of the record's name."""
    not_reached: Sequence[str] = ()
    """Copies that an erasure cannot reach, some until a time that is named; remove them yourself."""


def hash_subject(subject: str) -> str:
    """Return the subject that an erasure writes into an audit row or an event."""
    if _HASHED_SUBJECT.fullmatch(subject):
        return subject
    return f"sha256:{hashlib.sha256(subject.encode()).hexdigest()}"


def erase(
    writer: Writer,
    tables: Sequence[Table],
    blobs: Blobs,
    tenant: str,
    user: str,
    erase_index: Callable[[Transaction], None],
) -> Receipt:
    """Remove all rows of a user, children first, and then their files, free pages and logs.

    The receipt counts neither the rows of the search index nor the user's keys.

    erase_index: removes the user's search index; called last, so that what was added meanwhile goes
    """

    def work(tx: Transaction) -> tuple[int, dict[str, int], int]:
        removed = {}
        for table in (table for table in reversed(tables) if table.owned):
            removed[table.name] = tx.run(table.delete(), user=user)
        for statement in _FACTS:
            tx.send(statement, user=user)
        erase_index(tx)
        tx.send(_KEYS, user=user)
        event_log.erase(tx, user)
        return tx.now, removed, _hash_audit_subjects(tx, user)

    # The name of the user must not stay in the subject of an event either.
    event = NewEvent("erased", "users", "erase", hash_subject(user), None)
    change = Change("users", "erase", tenant, subject=user, parts=[event])
    at, removed, hashed = writer.write(change, work, frees_space=True, long=True)
    try:
        compacted = all([blobs.erase(tenant, user), writer.database.compact()])
    except StorageError:  # the rows are erased; the receipt says that files are left
        compacted = False
    removed = dict(reversed(removed.items()))
    not_reached = (*writer.database.remnants, *NOT_REACHED_OF_USER)
    return Receipt(tenant, user, clock.to_datetime(at), removed, compacted, hashed, not_reached)


def _hash_audit_subjects(tx: Transaction, user: str) -> int:
    """Replace the names of the user's records in the audit log, which may be words of theirs."""
    rows = tx.all(
        """select number, subject from audit where tenant = :tenant and owner = :user
           and subject <> '' and subject not like 'sha256:%'""",
        user=user,
    )
    tx.many(
        "update audit set subject = :subject where tenant = :tenant and number = :number",
        [{"number": number, "subject": hash_subject(subject)} for number, subject in rows],
    )
    return len(rows)


@dataclass(frozen=True)
class AgentReceipt:
    """The number of rows that forgetting an agent removed from each table.

    `compacted` and `not_reached` are those of a `Receipt`.
    """

    tenant: str
    agent: str
    erased_at: datetime
    removed: dict[str, int]
    compacted: bool
    not_reached: Sequence[str] = ()


def erase_agent(
    writer: Writer,
    tables: Sequence[Table],
    blobs: Blobs,
    tenant: str,
    agent: str,
    prepare: Callable[[Transaction], int],
) -> AgentReceipt:
    """Remove an agent with its API keys and its entries, notes, facts and sessions of all users.

    Messages that it wrote in the sessions of other agents stay: they belong to those sessions.

    prepare: removes its facts, restores those that they replaced, and returns their number; erases
             its search index, and marks there what it stored for users and on whiteboards
    """

    def work(tx: Transaction) -> tuple[int, dict[str, int]]:
        facts = prepare(tx)
        removed = {}
        for table in (table for table in reversed(tables) if table.of_agent):
            removed[table.name] = tx.run(table.delete_of_agent(), agent=agent)
        removed["facts"] = facts
        tx.send("delete from keys where tenant = :tenant and agent = :agent", agent=agent)
        return tx.now, removed

    change = Change("agents", "erase", tenant, subject=agent, event="erased")
    at, removed = writer.write(change, work, frees_space=True, long=True)
    try:
        blobs.collect(tenant)
        compacted = writer.database.compact()
    except StorageError:  # the rows are erased; the receipt says that files are left
        compacted = False
    removed = dict(reversed(removed.items()))
    not_reached = (*writer.database.remnants, *NOT_REACHED_OF_AGENT)
    return AgentReceipt(tenant, agent, clock.to_datetime(at), removed, compacted, not_reached)


def rewrite(
    database: Database, blobs: Blobs, receipt: Receipt | AgentReceipt, progress: Progress
) -> Receipt | AgentReceipt:
    """Rewrite the tables after an erasure; return the receipt with what remains after that."""
    rewritten = database.rewrite(progress)
    has_files = isinstance(receipt, Receipt) and not blobs.erase(receipt.tenant, receipt.user)
    elsewhere = [copy for copy in receipt.not_reached if copy not in database.remnants]
    return replace(
        receipt,
        compacted=rewritten.is_complete and not has_files,
        not_reached=(*rewritten.remnants, *elsewhere),
    )

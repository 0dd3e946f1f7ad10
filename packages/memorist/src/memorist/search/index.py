"""The search index of one database: marks of changed records, and the caches of searches.

A writer only marks what it changes, in its own transaction. The index job (jobs/index_owners.py) takes
what is marked into segments.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable

from memorist.base import limits
from memorist.search import chunk
from memorist.search.fresh import FreshCache
from memorist.search.owner_index import IndexCache
from memorist.search.search_document import WHOLE, IndexMark, owner_of
from memorist.storage.database import Transaction

MAX_CHARACTERS = 8_000
"""Longer texts are indexed in parts."""
STAMP_BITS = 52
_MARK = """insert into fresh_records (tenant, owner, digest, kind, id, seq, stamp)
    values (:tenant, :owner, :digest, :kind, :id, :seq, :stamp)
    on conflict (tenant, owner, digest) do update set stamp = excluded.stamp"""
_MARK_SESSION = """insert into fresh_sessions (tenant, owner, session_id, first_seq, stamp)
    values (:tenant, :owner, :session, :first, :stamp) on conflict do nothing"""
_FRESH_FROM = "update sessions set fresh_from = :first where tenant = :tenant and id = :session"
_ERASE = (
    "delete from fresh_sessions where tenant = :tenant and owner = :owner",
    "delete from fresh_records where tenant = :tenant and owner = :owner",
    "delete from index_parts where tenant = :tenant and owner = :owner",
    "delete from index_owners where tenant = :tenant and owner = :owner",
)


def split_text(text: str) -> list[str]:
    """Return a text as it is indexed: whole, in parts if it is long, nothing if it is blank."""
    if len(text) > MAX_CHARACTERS:
        return [part.text for part in chunk.split(text)]
    return [text] if text.strip() else []


def new_stamp() -> int:
    """Return a random number, so that two marks of the same record can be told apart."""
    return secrets.randbits(STAMP_BITS)


def mark_digest(kind: str, id: str, seq: int) -> str:
    """Return the key of a mark within its owner."""
    name = f"{kind}\0{id}\0{seq}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(name, digest_size=16).hexdigest()


class Index:
    """The index of one database."""

    def __init__(self, max_bytes: int = limits.VECTOR_MEMORY_MIB << 20) -> None:
        self.cache = IndexCache(max_bytes)
        self.fresh = FreshCache()

    def mark(self, tx: Transaction, marks: Iterable[IndexMark]) -> None:
        """Note that documents were added, changed or removed."""
        stamp = new_stamp()
        # In one order in every transaction, so that two of them cannot wait for each other.
        rows = [
            {**mark._asdict(), "digest": mark_digest(*mark[1:]), "stamp": stamp}
            for mark in sorted(set(marks))
        ]
        tx.many(_MARK, rows)

    def mark_messages(
        self, tx: Transaction, session: str, user: str, first: int, fresh_from: int | None
    ) -> None:
        """Note that messages from a number on were added to a session.

        fresh_from: the column of the session's row, which the caller has locked; if it is set, the
                    session is marked already
        """
        if fresh_from is None:
            tx.send(_FRESH_FROM, session=session, first=first)
            values = {"session": session, "first": first, "stamp": new_stamp()}
            tx.send(_MARK_SESSION, owner=owner_of(user), **values)

    def erase_user(self, tx: Transaction, user: str) -> None:
        """Delete the index of a user."""
        self._erase(tx, owner_of(user))

    def erase_agent(self, tx: Transaction, agent: str) -> None:
        """Delete the index of an agent's own documents."""
        self._erase(tx, owner_of(None, agent))

    def _erase(self, tx: Transaction, owner: str) -> None:
        for statement in _ERASE:
            tx.send(statement, owner=owner)


__all__ = ["WHOLE", "Index", "IndexMark", "split_text"]

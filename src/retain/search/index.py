"""Keeping the index: rows are written in the transaction that writes the thing, and removed in the one that removes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from retain.search.digests import Digests
from retain.search.engine import Engine, Item
from retain.storage.database import Transaction

_REMOVE = "delete from search_items where tenant = :tenant and kind = :kind and id = :id"
_REMOVE_ONE = "delete from search_items where tenant = :tenant and kind = :kind and id = :id and seq = :seq"
_REMOVE_BEFORE = "delete from search_items where tenant = :tenant and kind = :kind and id = :id and seq < :seq"


@dataclass(frozen=True)
class Index:
    """The index of one database."""

    engine: Engine
    digests: Digests = field(default_factory=Digests)

    def add(self, tx: Transaction, items: Sequence[Item]) -> None:
        """Make things findable; they must not be there yet."""
        rows = [
            {
                "kind": item.kind, "id": item.id, "seq": item.seq, "part": item.part, "user_id": item.user,
                "agent": item.agent, "board": item.board, "session_id": item.session, "author": item.author,
                "role": item.role, "title": item.title, "text": item.text, "at": item.at, "expires_at": item.expires_at,
            }
            for item in items
            if item.text or item.title
        ]  # fmt: skip
        if rows:
            self.engine.add(tx, rows)

    def replace(self, tx: Transaction, kind: str, id: str, items: Sequence[Item]) -> None:
        """Make a thing findable as it is now, and no more as it was."""
        self.remove(tx, kind, id)
        self.add(tx, items)

    def remove(self, tx: Transaction, kind: str, id: str) -> None:
        """Forget a thing with all its parts."""
        tx.run(_REMOVE, kind=kind, id=id)

    def remove_one(self, tx: Transaction, kind: str, id: str, seq: int) -> None:
        """Forget one part of a thing, such as one message of a session."""
        tx.run(_REMOVE_ONE, kind=kind, id=id, seq=seq)

    def remove_before(self, tx: Transaction, kind: str, id: str, seq: int) -> None:
        """Forget the beginning of a thing, such as old messages of a session."""
        tx.run(_REMOVE_BEFORE, kind=kind, id=id, seq=seq)

    def put_vectors(self, tx: Transaction, model: str, vectors: Sequence[tuple[int, float, bytes]]) -> None:
        """Keep what an embedder made of rows, in place of what another made: number, scale, a byte for each dimension."""
        self.engine.put(tx, model, vectors)

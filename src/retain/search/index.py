"""Keeping the index: rows are written in the transaction that writes the thing, and removed in the one that removes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from retain.search import chunk
from retain.search.digests import Digests
from retain.search.engine import Engine, Item
from retain.storage.database import Transaction

_REMOVE = "delete from search_items where tenant = :tenant and kind = :kind and id = :id"
_SAID = "select seq, part, title, text from search_items where tenant = :tenant and kind = :kind and id = :id"
_REMOVE_PART = """delete from search_items
                  where tenant = :tenant and kind = :kind and id = :id and seq = :seq and part = :part"""
_REMOVE_SEQ = (
    "delete from search_items where tenant = :tenant and kind = :kind and id = :id and seq = :seq"
)
_REMOVE_BEFORE = (
    "delete from search_items where tenant = :tenant and kind = :kind and id = :id and seq < :seq"
)
_REMOVE_OF_SESSION = "delete from search_items where tenant = :tenant and session_id = :session and kind <> 'messages'"
_PUT_OFF = "update search_items set expires_at = :expires where tenant = :tenant and kind = :kind and id = :id"
LONGEST = 8_000
"""Characters of a text that is found as one; a longer one is found in parts."""


def parts(text: str) -> list[str]:
    """A text as its rows have it: whole, in parts where it is long, none where it is blank."""
    if len(text) > LONGEST:
        return [part.text for part in chunk.split(text)]
    return [text] if text.strip() else []


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
                "place": item.place,
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

    def change(self, tx: Transaction, kind: str, id: str, items: Sequence[Item]) -> None:
        """The same for a thing of many parts: those that say what they said stay, with the time that they are from."""
        there = {tuple(row) for row in tx.all(_SAID, kind=kind, id=id)}
        wanted = {(item.seq, item.part, item.title, item.text): item for item in items}
        gone = sorted(there.difference(wanted))
        tx.many(
            _REMOVE_PART,
            [{"kind": kind, "id": id, "seq": seq, "part": part} for seq, part, _, _ in gone],
        )
        self.add(tx, [item for said, item in wanted.items() if said not in there])

    def remove(self, tx: Transaction, kind: str, id: str) -> None:
        """Forget a thing with all its parts."""
        tx.run(_REMOVE, kind=kind, id=id)

    def put_off(self, tx: Transaction, kind: str, id: str, expires: int) -> None:
        """Let a thing be found for longer; what it says stays as it is."""
        tx.run(_PUT_OFF, kind=kind, id=id, expires=expires)

    def remove_all(self, tx: Transaction, kind: str, ids: Sequence[str]) -> None:
        """Forget several things of a kind."""
        tx.many(_REMOVE, [{"kind": kind, "id": id} for id in ids])

    def remove_seq(self, tx: Transaction, kind: str, id: str, seq: int) -> None:
        """Forget one number of a thing, such as a message of a session."""
        tx.run(_REMOVE_SEQ, kind=kind, id=id, seq=seq)

    def remove_before(self, tx: Transaction, kind: str, id: str, seq: int) -> None:
        """Forget the beginning of a thing, such as old messages of a session."""
        tx.run(_REMOVE_BEFORE, kind=kind, id=id, seq=seq)

    def remove_session(self, tx: Transaction, session: str) -> None:
        """Forget all of a session: its messages, and whatever else belongs to it."""
        tx.run(_REMOVE, kind="messages", id=session)
        tx.run(_REMOVE_OF_SESSION, session=session)

    def put_vectors(
        self, tx: Transaction, model: str, vectors: Sequence[tuple[int, float, bytes]]
    ) -> None:
        """Keep what an embedder made of rows, in place of what another made: number, scale, a byte for each dimension."""
        self.engine.put(tx, model, vectors)

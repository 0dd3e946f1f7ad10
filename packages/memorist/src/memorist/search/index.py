"""The search index of one database.

The rows of a record are written in the transaction that writes the record, and removed in the one
that removes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from memorist.base import extensions, limits
from memorist.search import chunk
from memorist.search.postgres import CitusEngine, PostgresEngine
from memorist.search.retrieval import IndexReader
from memorist.search.search_engine import IndexRow
from memorist.search.sqlite import SqliteEngine
from memorist.storage.database import Database, Dialect, Row, Transaction

MAX_CHARACTERS = 8_000
"""Longer texts are indexed in parts."""
ENGINES: dict[Dialect, type[SqliteEngine | PostgresEngine]] = {
    "sqlite": SqliteEngine,
    "postgres": PostgresEngine,
}
REMOVE_RECORD = "delete from search_items where tenant = :tenant and kind = :kind and id = :id"
REMOVE_SEQ = f"{REMOVE_RECORD} and seq = :seq"


class IndexedEngine(Protocol):
    """What the search needs of the engine of another package."""

    def index_reader(self, vector_memory_mib: int) -> IndexReader:
        """Return the reader of the search index, with so much memory for vectors."""


def open_index(database: Database) -> Index:
    """Return the index of a database."""
    memory = limits.VECTOR_MEMORY_MIB
    if database.is_cluster:
        return Index(CitusEngine(memory))
    if database.dialect in ENGINES:
        return Index(ENGINES[database.dialect](memory))
    engine: IndexedEngine = extensions.extensions(extensions.ENGINES)[database.dialect].load()
    return Index(engine.index_reader(memory))


def split_text(text: str) -> list[str]:
    """Return a text as it is indexed: whole, in parts if it is long, nothing if it is blank."""
    if len(text) > MAX_CHARACTERS:
        return [part.text for part in chunk.split(text)]
    return [text] if text.strip() else []


@dataclass(frozen=True)
class Index:
    """The index of one database."""

    engine: IndexReader

    def add(self, tx: Transaction, items: Sequence[IndexRow]) -> None:
        """Add new items."""
        rows = [
            {
                "kind": item.kind,
                "id": item.id,
                "seq": item.seq,
                "part": item.part,
                "user_id": item.user,
                "agent": item.agent,
                "board": item.board,
                "session_id": item.session,
                "author": item.author,
                "role": item.role,
                "title": item.title,
                "text": item.text,
                "at": item.at,
                "expires_at": item.expires_at,
                "place": item.place,
                "text_in_record": item.text_in_record,
            }
            for item in items
            if item.text or item.title
        ]
        if rows:
            self.engine.add(tx, rows)

    def replace(self, tx: Transaction, kind: str, id: str, items: Sequence[IndexRow]) -> None:
        """Replace all items of a record."""
        self.remove(tx, kind, id)
        self.add(tx, items)

    def backdate(self, tx: Transaction, kind: str, id: str, at: int) -> None:
        """Give the items of a record another time. Their words contain the month, so they are added again."""
        numbers = tx.all(
            """select number from search_items
               where tenant = :tenant and kind = :kind and id = :id order by seq, part""",
            kind=kind,
            id=id,
        )
        items = self._items(tx, numbers)
        self.replace(tx, kind, id, [item._replace(at=at) for item in items])

    def update(self, tx: Transaction, kind: str, id: str, items: Sequence[IndexRow]) -> None:
        """Replace the items of a record, but keep unchanged ones with their time and vector."""
        rows = tx.all(
            """select seq, part, title, text from search_items
               where tenant = :tenant and kind = :kind and id = :id""",
            kind=kind,
            id=id,
        )
        existing = {tuple(row) for row in rows}
        wanted = {(item.seq, item.part, item.title, item.text): item for item in items}
        tx.many(
            """delete from search_items where tenant = :tenant
               and kind = :kind and id = :id and seq = :seq and part = :part""",
            [
                {"kind": kind, "id": id, "seq": seq, "part": part}
                for seq, part, _, _ in sorted(existing.difference(wanted))
            ],
        )
        self.add(tx, [item for key, item in wanted.items() if key not in existing])

    def remove(self, tx: Transaction, kind: str, id: str) -> None:
        """Remove all items of a record."""
        tx.send(REMOVE_RECORD, kind=kind, id=id)

    def remove_all(self, tx: Transaction, kind: str, ids: Sequence[str]) -> None:
        """Remove all items of several records of a kind."""
        tx.many(REMOVE_RECORD, [{"kind": kind, "id": id} for id in ids])

    def remove_seq(self, tx: Transaction, kind: str, id: str, seq: int) -> None:
        """Remove one number of a record, such as one message of a session."""
        tx.run(REMOVE_SEQ, kind=kind, id=id, seq=seq)
        self._add_again(tx, kind, id, seq + 1)

    def remove_before(self, tx: Transaction, kind: str, id: str, seq: int) -> None:
        """Remove the numbers of a record before `seq`, such as old messages of a session."""
        tx.run(
            """delete from search_items
               where tenant = :tenant and kind = :kind and id = :id and seq < :seq""",
            kind=kind,
            id=id,
            seq=seq,
        )
        self._add_again(tx, kind, id, seq)

    def _add_again(self, tx: Transaction, kind: str, id: str, seq: int) -> None:
        """Index a message again as new whose predecessor was removed.

        Its vector may reflect the predecessor. A new row has no vector until a job computes it.
        """
        if kind != "messages":
            return
        numbers = tx.all(
            """select number from search_items
               where tenant = :tenant and kind = :kind and id = :id and seq = :seq order by part""",
            kind=kind,
            id=id,
            seq=seq,
        )
        if numbers:
            items = self._items(tx, numbers)
            tx.run(REMOVE_SEQ, kind=kind, id=id, seq=seq)
            self.add(tx, items)

    def _items(self, tx: Transaction, numbers: Sequence[Row]) -> list[IndexRow]:
        """Return the items of rows, in the order of their numbers."""
        items = self.engine.items(tx, [number for (number,) in numbers])
        return [items[number] for (number,) in numbers]

    def remove_session(self, tx: Transaction, session: str) -> None:
        """Remove the messages of a session, and everything else that belongs to it."""
        tx.run(REMOVE_RECORD, kind="messages", id=session)
        tx.run(
            """delete from search_items
               where tenant = :tenant and session_id = :session and kind <> 'messages'""",
            session=session,
        )

    def extend_expiry(self, tx: Transaction, kind: str, id: str, expires: int) -> None:
        """Set a new expiry for all items of a record."""
        tx.run(
            """update search_items set expires_at = :expires
               where tenant = :tenant and kind = :kind and id = :id""",
            kind=kind,
            id=id,
            expires=expires,
        )

    def put_vectors(
        self, tx: Transaction, model: str, vectors: Sequence[tuple[int, float, bytes]]
    ) -> None:
        """Store the vectors of rows: number, scale, one signed byte per dimension.

        They replace vectors of another model.
        """
        self.engine.put(tx, model, vectors)

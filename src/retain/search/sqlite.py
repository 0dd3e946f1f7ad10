"""The index on SQLite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from retain.search.engine import Asked, Item, Matches
from retain.storage.database import Transaction

if TYPE_CHECKING:
    from retain.search.engine import Vector

_ADD = """insert into search_items (tenant, kind, id, seq, part, user_id, agent, board, session_id, author, role, title,
                                    text, at, expires_at)
          values (:tenant, :kind, :id, :seq, :part, :user_id, :agent, :board, :session_id, :author, :role, :title,
                  :text, :at, :expires_at)"""
_PUT = """insert into search_vectors (tenant, number, model, scale, vector)
          select tenant, number, :model, :scale, :vector from search_items where tenant = :tenant and number = :number"""


class SqliteEngine:
    """Words and vectors on SQLite."""

    def add(self, tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows and make their words findable."""
        tx.many(_ADD, rows)

    def matching(self, tx: Transaction, words: Sequence[str], asked: Asked, most: int) -> Matches:
        """Rows with any of the words."""
        raise NotImplementedError

    def nearest(self, tx: Transaction, vector: Vector, model: str, asked: Asked, most: int) -> list[tuple[int, float]]:
        """Rows by the cosine of their vector."""
        raise NotImplementedError

    def cosines(self, tx: Transaction, vector: Vector, model: str, numbers: Sequence[int]) -> dict[int, float]:
        """The cosine of each row that has a vector."""
        raise NotImplementedError

    def items(self, tx: Transaction, numbers: Sequence[int]) -> dict[int, Item]:
        """The rows by their numbers."""
        raise NotImplementedError

    def around(self, tx: Transaction, items: Sequence[Item], reach: int) -> list[Item]:
        """The neighbours of rows."""
        raise NotImplementedError

    def put(self, tx: Transaction, model: str, vectors: Sequence[tuple[int, float, bytes]]) -> None:
        """Keep vectors."""
        tx.many(
            "delete from search_vectors where tenant = :tenant and number = :number", [{"number": v[0]} for v in vectors]
        )
        tx.many(_PUT, [{"model": model, "number": n, "scale": scale, "vector": v} for n, scale, v in vectors])

    def extent(self, tx: Transaction, asked: Asked) -> int:
        """About how many rows the scope has."""
        raise NotImplementedError

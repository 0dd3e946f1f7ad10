"""Documents: the things that a search can find, and how each kind reads its own.

A document is a message, a section of notes, an entry, a fact, a chunk of a file … The index has
hashes of a document's words, never its text: a search reads the records of its hits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from memorist.storage.database import Row, Sent, Transaction

RecordKey = tuple[Any, ...]

KEYS_PER_READ = 50
WHOLE = -1
"""The number of a mark that concerns all documents of an id."""


def owner_of(user: str | None, agent: str | None = None, board: str | None = None) -> str:
    """Return the owner of documents: a user, else a whiteboard, else an agent, else the tenant.

    The documents of an owner are searched together.
    """
    if user is not None:
        return f"u{user}"
    if board is not None:
        return f"b{board}"
    return "s" if agent is None else f"a{agent}"


class SearchDocument(NamedTuple):
    """One thing that can be found, or a part of a long one."""

    kind: str
    id: str
    text: str
    at: int
    seq: int = 0
    part: int = 0
    user: str | None = None
    agent: str | None = None
    board: str | None = None
    session: str | None = None
    author: str = ""
    role: str = ""
    title: str = ""
    expires_at: int | None = None
    place: str | None = None

    @property
    def owner(self) -> str:
        """The owner."""
        return owner_of(self.user, self.agent, self.board)


class IndexMark(NamedTuple):
    """A note that a document was added, changed or removed since the index was written.

    `seq` is the number of one message, chunk or observation, or WHOLE.
    """

    owner: str
    kind: str
    id: str
    seq: int = WHOLE


@dataclass(frozen=True)
class Findable:
    """How a kind reads the records that have documents.

    key:       the columns that name a record, the first ones of each row; all are text but a number
    select:    the statement for records that can be found, with `{where}` for a condition on them
    documents: returns the documents of a row; blank ones are not indexed
    key_of:    returns the key of a record, or its beginning, from the id and `seq` of a document;
               with WHOLE, the beginning that all records of the id share
    first:     a key before the first one
    """

    kind: str
    key: tuple[str, ...]
    select: str
    documents: Callable[[Row], Sequence[SearchDocument]]
    key_of: Callable[[str, int], RecordKey]
    first: RecordKey
    expires_unmarked: bool = False
    """Whether records may expire without a mark: until they are purged, the index may have them."""

    def read_after(self, tx: Transaction, after: RecordKey, size: int) -> list[Row]:
        """Return the next records after a key, in the order of their keys."""
        columns = ", ".join(self.key)
        names = [f"after_{column}" for column in self.key]
        values = ", ".join(f":{name}" for name in names)
        where = f"({columns}) > ({values})"
        return tx.all(
            f"{self.select.replace('{where}', where)} order by {columns} limit :size",
            size=size,
            **dict(zip(names, after, strict=True)),
        )

    @property
    def is_numbered(self) -> bool:
        """Whether each number of an id is a record of its own, such as the messages of a session."""
        return self.key[-1] == "seq"

    def send(self, tx: Transaction, id: str, seq: int = WHOLE) -> Sent:
        """Read the record that a document's id and number name; with WHOLE all records of the id."""
        return self._send(tx, self.key_of(id, seq), "1 = 1")

    def send_many(self, tx: Transaction, keys: Sequence[RecordKey]) -> list[Sent]:
        """Read several records by their keys, or by the beginnings of these."""
        sent = []
        for start in range(0, len(keys), KEYS_PER_READ):
            values: dict[str, Any] = {}
            conditions = []
            for number, key in enumerate(keys[start : start + KEYS_PER_READ]):
                # Names of parameters have letters only.
                suffix = f"{chr(97 + number // 26)}{chr(97 + number % 26)}"
                names = [f"{column}_{suffix}" for column in self.key[: len(key)]]
                values |= dict(zip(names, key, strict=True))
                pairs = zip(self.key, names, strict=False)
                conditions.append(" and ".join(f"{column} = :{name}" for column, name in pairs))
            where = "(" + " or ".join(f"({condition})" for condition in conditions) + ")"
            sent.append(tx.send(self.select.replace("{where}", where), **values))
        return sent

    def send_between(self, tx: Transaction, id: str, first: int, last: int) -> Sent:
        """Read the records of an id from one number to another, if they are numbered."""
        where = "seq >= :first and seq <= :last" if self.is_numbered else "1 = 1"
        key = self.key_of(id, WHOLE)
        return self._send(tx, key, where, first=first, last=last)

    def _send(self, tx: Transaction, key: RecordKey, where: str, **values: Any) -> Sent:
        named = {f"key_{column}": value for column, value in zip(self.key, key, strict=False)}
        equal = [f"{column} = :key_{column}" for column in self.key[: len(key)]]
        condition = " and ".join([*equal, where])
        used = {name: value for name, value in values.items() if f":{name}" in where}
        return tx.send(
            f"{self.select.replace('{where}', condition)} order by {', '.join(self.key)}",
            **named,
            **used,
        )

    def row_key(self, row: Row) -> RecordKey:
        """Return the key of a row."""
        return tuple(row[: len(self.key)])

"""The protocol of a search engine: the part of the index that depends on the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from retain.storage.database import Transaction
from retain.storage.tables import Check

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

    Vector = NDArray[float32]


class Item(NamedTuple):
    """One row of the index: a record, or a part of a long one.

    A tuple, because a search creates hundreds of them.
    """

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
    number: int = 0
    place: str | None = None
    text_in_record: bool = False  # True if `text` is also the text of the message's content


class CandidateRow(NamedTuple):
    """One row of the index as ranking needs it, without its text."""

    number: int
    kind: str
    id: str
    seq: int
    part: int
    at: int
    expires_at: int | None
    board: str | None
    role: str
    author: str
    digest: bytes | None  # None if the row is very new or was indexed by an older version


class Unembedded(NamedTuple):
    """The next rows without a vector, in the order of their numbers."""

    numbers: list[int]
    top: int  # all rows up to this number were looked at
    is_last: bool  # no row follows


@dataclass(frozen=True)
class SearchFilter:
    """The rows that a search may return; None means no restriction.

    Rows without a user or an agent are shared: every filter lets them pass.
    """

    user: str | None = None
    agent: str | None = None
    boards: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None
    session: str | None = None
    since: int | None = None
    until: int | None = None
    place: str | None = None  # this place and everything below it
    separate_kinds: tuple[str, ...] = ()
    """Kinds that are ranked separately: neither among the hits of the others nor in their statistics."""


@dataclass(frozen=True)
class Matches:
    """Result of a search by words."""

    rows: list[CandidateRow]  # most promising first
    document_frequencies: list[int] = field(default_factory=list)  # rows in scope with each word
    extent: int = 0  # rows in scope, approximately
    separate_rows: list[CandidateRow] = field(default_factory=list)  # of the separate kinds
    separate_extent: int = 0  # rows of these kinds in scope, approximately
    all_document_frequencies: list[int] = field(default_factory=list)
    """Rows of all kinds with each word, also of the separate ones."""

    @property
    def numbers(self) -> list[int]:
        """Numbers of the rows."""
        return [row.number for row in self.rows]


class Engine(Protocol):
    """Index operations of one kind of database. All run in a transaction of one tenant."""

    @property
    def checks(self) -> tuple[Check, ...]:
        """Invariants of words and vectors, for `verify`."""
        ...

    def add(self, tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert rows of search_items, given by column name without `number`, and their words."""
        ...

    def matching(
        self, tx: Transaction, words: Sequence[str], filter: SearchFilter, limit: int
    ) -> Matches:
        """Return up to `limit` rows with any of the words, those with the rarest words first."""
        ...

    def nearest(
        self, tx: Transaction, vector: Vector, model: str, filter: SearchFilter, limit: int
    ) -> list[tuple[CandidateRow, float]]:
        """Return up to `limit` rows with the cosine of their vector of a model, nearest first."""
        ...

    def cosines(
        self, tx: Transaction, vector: Vector, model: str, numbers: Sequence[int]
    ) -> dict[int, float]:
        """Return the cosine of each of the rows that has a vector of a model."""
        ...

    def cosines_in_memory(
        self, tx: Transaction, vector: Vector, model: str, user: str | None, numbers: Sequence[int]
    ) -> dict[int, float]:
        """Return the cosine of each of the rows whose vector `nearest` has loaded.

        The rows must exist: the vector of a deleted one may still be in memory.
        """
        ...

    def items(self, tx: Transaction, numbers: Sequence[int]) -> dict[int, Item]:
        """Return rows by their numbers."""
        ...

    def around(self, tx: Transaction, items: Sequence[Item], reach: int) -> list[Item]:
        """Return the neighbours of rows: same kind and id, up to `reach` before and after."""
        ...

    def rows_with_neighbours(
        self, tx: Transaction, rows: Sequence[CandidateRow], reach: int
    ) -> list[CandidateRow]:
        """Return the rows and their neighbours, up to `reach` before and after, without texts."""
        ...

    def items_with_neighbours(self, tx: Transaction, rows: Sequence[CandidateRow]) -> list[Item]:
        """Return the rows that still exist, and the rows directly before and after them."""
        ...

    def put(self, tx: Transaction, model: str, vectors: Sequence[tuple[int, float, bytes]]) -> None:
        """Store vectors of rows that still exist: number, scale, one signed byte per dimension."""
        ...

    def without_vector(
        self, tx: Transaction, model: str, dimension: int, after: int, limit: int
    ) -> Unembedded:
        """Return which of the next `limit` rows after a number have no vector of a model."""
        ...

    def snapshot(self, tx: Transaction) -> tuple[int, int]:
        """Return the oldest running transaction and the next one that will start.

        If they are equal, no row with a lower number than the newest one can appear any more.
        """
        ...

    def lost(self, tx: Transaction) -> list[int]:
        """Return the numbers of rows with missing words, some thousands at most."""
        ...

    def without_digest(self, tx: Transaction, after: int, limit: int) -> list[int]:
        """Return the numbers of the next rows after a number that have no digest."""
        ...

    def with_copied_text(self, tx: Transaction, after: int, limit: int) -> list[int]:
        """Return the numbers of the next rows after a number whose text may be a needless copy."""
        ...

    def drop_copied_texts(self, tx: Transaction, numbers: Sequence[int]) -> None:
        """Remove the texts of rows that are also in their records, and can be read there."""
        ...

    def reword(self, tx: Transaction, rows: Mapping[int, Collection[str]]) -> int:
        """Replace the words of rows that still exist; return how many rows that were."""
        ...

    def sweep(self, tx: Transaction) -> int:
        """Remove the words of deleted rows; return how many rows that were."""
        ...

    def extent(self, tx: Transaction, filter: SearchFilter) -> int:
        """Return the approximate number of rows of the filter's user; may be some seconds old."""
        ...

"""What the engines do differently for a search: writing words, finding rows by words, finding rows by vectors."""

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
    """One row of the index: a thing that can be found, or part of a long one. A tuple, because a search makes hundreds."""

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


@dataclass(frozen=True)
class SearchFilter:
    """Which rows a search may find; None asks for any. What is nobody's, or no agent's, is everybody's.

    `place` is one as rows have it: it asks for what is there or below it.
    """

    user: str | None = None
    agent: str | None = None
    boards: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None
    session: str | None = None
    since: int | None = None
    until: int | None = None
    place: str | None = None


@dataclass(frozen=True)
class Matches:
    """What the words leg found: numbers, the most promising first, and how many rows of the scope have each word."""

    numbers: list[int]
    having: list[int] = field(default_factory=list)


class Engine(Protocol):
    """The part of a search that knows its database. Everything is asked inside a transaction of one tenant."""

    @property
    def checks(self) -> tuple[Check, ...]:
        """What must hold of words and vectors, for `verify`."""
        ...

    def add(self, tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows of search_items (by column names, without number) and make their words findable."""
        ...

    def matching(
        self, tx: Transaction, words: Sequence[str], asked: SearchFilter, most: int
    ) -> Matches:
        """Rows with any of the words, at most so many, by how rare the words are that they have; filters come first."""
        ...

    def nearest(
        self, tx: Transaction, vector: Vector, model: str, asked: SearchFilter, most: int
    ) -> list[tuple[int, float]]:
        """Rows by the cosine of their vector of this model, at most so many; filters come first."""
        ...

    def cosines(
        self, tx: Transaction, vector: Vector, model: str, numbers: Sequence[int]
    ) -> dict[int, float]:
        """The cosine of each row that has a vector of this model."""
        ...

    def items(self, tx: Transaction, numbers: Sequence[int]) -> dict[int, Item]:
        """The rows by their numbers."""
        ...

    def authors(self, tx: Transaction, numbers: Sequence[int]) -> set[str]:
        """Who said what is in the rows."""
        ...

    def around(self, tx: Transaction, items: Sequence[Item], reach: int) -> list[Item]:
        """The neighbours of rows: of the same kind and id, up to `reach` before and after, without the rows themselves."""
        ...

    def put(self, tx: Transaction, model: str, vectors: Sequence[tuple[int, float, bytes]]) -> None:
        """Keep the vectors of rows that are still there: number, scale and one signed byte for each dimension."""
        ...

    def lost(self, tx: Transaction) -> list[int]:
        """The numbers of rows whose words are not all there, some thousands at most."""
        ...

    def reword(self, tx: Transaction, rows: Mapping[int, Collection[str]]) -> int:
        """Write the words of rows anew, where the rows are still there; how many are."""
        ...

    def sweep(self, tx: Transaction) -> int:
        """Remove words of rows that are gone; of how many rows they were."""
        ...

    def extent(self, tx: Transaction, asked: SearchFilter) -> int:
        """About how many rows the scope has, whatever its other filters; it may be some seconds old."""
        ...

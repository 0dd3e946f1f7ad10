"""The records that a search engine reads and returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

    Vector = NDArray[float32]


class IndexRow(NamedTuple):
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

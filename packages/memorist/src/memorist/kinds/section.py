"""The section of a kind in a prompt: pieces that can be left out one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple


@dataclass(frozen=True)
class Ask:
    """The message for which a context is assembled."""

    session: str
    message: str
    others: Sequence[str] = ()  # the other agents of a group conversation


class Piece(NamedTuple):
    """One piece of a section. It is a tuple, because a context has hundreds of pieces."""

    source: str  # its kind and id, as the report names it
    text: str
    tokens: int
    reason: str
    worth: float = 0.0  # where not all pieces fit, those of less worth go first


def join_lines(pieces: Sequence[Piece]) -> str:
    """Return the texts of pieces, each on a separate line."""
    return "\n".join(piece.text for piece in pieces)


def most_valuable(pieces: Sequence[Piece], room: int) -> list[Piece]:
    """Return the most valuable pieces that fit, in their original order."""
    if sum(piece.tokens for piece in pieces) <= room:
        return list(pieces)
    chosen = []
    by_worth = sorted(range(len(pieces)), key=lambda index: pieces[index].worth, reverse=True)
    for index in by_worth:
        cost = pieces[index].tokens
        if cost <= room:
            chosen.append(index)
            room -= cost
    return [pieces[index] for index in sorted(chosen)]


@dataclass(frozen=True)
class Section:
    """The pieces of one layer in reading order, and the function that writes those that fit."""

    layer: str
    pieces: Sequence[Piece]
    write: Callable[[Sequence[Piece]], str] = join_lines
    cut_notice: str | None = None
    """Set for a text that is cut at its end instead of losing single pieces; appended when cut."""
    unread: int | None = None
    """Set for a layer whose report counts what is left out: the records that were not read."""
    heading_tokens: int = 0  # for the headings between the pieces, if all pieces are written

    @cached_property
    def tokens(self) -> int:
        """The number of tokens of all pieces, without headings."""
        return sum(piece.tokens for piece in self.pieces)


@dataclass(frozen=True)
class RecallScope:
    """The conversation for which memories are recalled."""

    session: str
    user: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)  # of the sessions of the hits

"""What a kind of memory says in a prompt: pieces that can be left out one by one, and how those that stay are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Ask:
    """What a context is wanted for."""

    session: str
    message: str
    others: Sequence[str] = ()


class Piece(NamedTuple):
    """One thing that could be said: where it comes from, its text, what it costs, why it is here.

    Where there is not room for all, pieces of less worth go first. A tuple, because hundreds are made for each context.
    """

    source: str
    text: str
    tokens: int
    reason: str
    worth: float = 0.0


def lines(pieces: Sequence[Piece]) -> str:
    """Pieces as they are, one after the other."""
    return "\n".join(piece.text for piece in pieces)


@dataclass(frozen=True)
class Section:
    """The pieces of one layer, in the order in which they are read, and how the ones that stay are written."""

    layer: str
    pieces: Sequence[Piece]
    write: Callable[[Sequence[Piece]], str] = lines

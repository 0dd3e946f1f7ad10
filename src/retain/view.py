"""Parts of a large content, each within so many tokens, and each saying how much more there is and how to see it.

Every function reads a seekable binary file in blocks, so a gigabyte costs no more memory than a megabyte.
Lines end at a line feed, as editors and `grep -n` count them. What is no text is shown as `xxd` shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any


@dataclass(frozen=True)
class View:
    """Part of a content: its text and tokens, what it is, how much more there is, and the arguments to see what follows."""

    text: str
    tokens: int
    what: str
    more: str = ""
    next: Mapping[str, Any] = field(default_factory=dict)


def whole(file: IO[bytes], tokens: int) -> View:
    """Everything, or the first page where that is too much."""
    return page(file, 1, tokens)


def page(file: IO[bytes], number: int, tokens: int) -> View:
    """One page; all pages of the same size, one after the other, are the content."""
    raise NotImplementedError


def lines(file: IO[bytes], first: int, last: int, tokens: int) -> View:
    """The lines from one number to another, counted from 1."""
    raise NotImplementedError


def head(file: IO[bytes], count: int, tokens: int) -> View:
    """The first lines."""
    raise NotImplementedError


def tail(file: IO[bytes], count: int, tokens: int) -> View:
    """The last lines."""
    raise NotImplementedError


def grep(file: IO[bytes], pattern: str, tokens: int) -> View:
    """The lines in which a regular expression finds something, with their numbers, and how many there are."""
    raise NotImplementedError


def path(file: IO[bytes], path: str, tokens: int) -> View:
    """What a JSON path such as `$.items[0].name` leads to."""
    raise NotImplementedError

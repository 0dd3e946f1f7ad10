"""Long texts split along their structure, into parts that can be found, embedded and shown by themselves.

Parts lie side by side, in order, and together have all of the text but the blanks between them. What belongs together stays
together where it fits: a paragraph, a list, a table, a code block; then sentences and lines; a word is cut only where
nothing else is left. A part never crosses from a section into another, but where a section is too short to be found
alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, NamedTuple

from retain.base.tokens import cut, estimate
from retain.text import markdown
from retain.text.markdown import Block

Markup = Literal["text", "markdown"]

TARGET = 240
"""How many tokens a part should have."""
MAX_TOKENS = 320
"""More a part never has."""
LEAST = 48
"""A part with fewer is joined with its neighbour, where both fit into one."""
ARROW = " › "
_LONGEST_TITLE = 300
_LONGEST_HEADING = 100
_CHARACTERS = 8  # of one token, at the most
# A run is tried once, where it begins, and given up whole: texts can be made of nothing else.
_PARAGRAPHS = re.compile(r"(?>\r\n?|\n)[ \t]*+(?:\r\n?|\n)\s*+")
_ITEMS = re.compile(r"(?>\r\n?|\n)(?=[ \t]{0,3}(?:[-*+•]|\d{1,9}[.)])[ \t])")
_LINES = re.compile(r"[\r\n]++")
_SENTENCES = re.compile(
    r"""(?<![.!?…])[.!?…]++["'”’»)\]]*+\s++|[。！？｡]++[」』”’）]*+\s*+|[।؟۔]++\s*+"""
)
_WORDS = re.compile(r"\s++|[,;，、；]++")
_LEVELS: dict[markdown.BlockKind, tuple[re.Pattern[str], ...]] = {
    "heading": (_LINES,),
    "prose": (_PARAGRAPHS, _SENTENCES, _LINES),
    "lines": (_PARAGRAPHS, _ITEMS, _LINES, _SENTENCES),
}


@dataclass(frozen=True)
class Chunk:
    """A part of a text, which is `text[start:end]`; `title` are the headings over it, as in `Install › Linux`."""

    title: str
    text: str
    start: int
    end: int


class _Piece(NamedTuple):
    """What is never cut again: where it is, with the blanks behind it, and what it costs."""

    start: int
    end: int
    tokens: int


class _Part(NamedTuple):
    """Pieces that were put together, and the headings over them; `bare` if it has nothing but headings."""

    start: int
    end: int
    tokens: int
    path: tuple[str, ...]
    bare: bool


def split(text: str, media: Markup = "text") -> list[Chunk]:
    """A text in parts; a short one is one part, a blank one none. Any text can be split."""
    read = markdown.blocks(text) if media == "markdown" else markdown.plain_blocks(text)
    parts: list[_Part] = []
    for part in (part for section in _sections(read) for part in _packed(text, section)):
        if parts and (joined := _joined(parts[-1], part)):
            parts[-1] = joined
        else:
            parts.append(part)
    return [_chunk(text, part) for part in parts]


def _sections(read: Iterable[Block]) -> Iterator[list[Block]]:
    """The blocks of each section: a heading, and what follows it up to the next."""
    number = 0

    def section(block: Block) -> int:
        nonlocal number
        number += block.kind == "heading"
        return number

    return (list(found) for _, found in groupby(read, key=section))


def _packed(text: str, section: Sequence[Block]) -> Iterator[_Part]:
    """The parts of a section, each as near to the wanted size as its blocks allow."""
    path, bare = section[-1].path, all(block.kind == "heading" for block in section)
    pieces = [piece for block in section for piece in _pieces(text, block)]
    start = end = size = 0
    for piece in pieces:
        if size and size + piece.tokens > (MAX_TOKENS if size < LEAST else TARGET):
            yield _Part(start, end, size, path, bare)
            size = 0
        if not size:
            start = piece.start
        end, size = piece.end, size + piece.tokens
    if size:
        yield _Part(start, end, size, path, bare)


def _pieces(text: str, block: Block) -> Iterator[_Piece]:
    """A block in pieces that fit, but for blank ones."""
    return _divided(text, block.start, block.end, _LEVELS[block.kind])


def _divided(
    text: str, start: int, end: int, levels: Sequence[re.Pattern[str]]
) -> Iterator[_Piece]:
    """A part of the text if it fits, else what a coarse cut makes of it, each cut more finely where it must be."""
    part = text[start:end]
    size = estimate(part)
    if size <= MAX_TOKENS:
        if part.strip():
            yield _Piece(start, end, size)
        return
    if not levels:
        yield from _cut(text, start, end)
        return
    at = start
    for found in levels[0].finditer(text, start, end):
        if at < found.end() < end:
            yield from _divided(text, at, found.end(), levels[1:])
            at = found.end()
    yield from _divided(text, at, end, levels[1:])


def _cut(text: str, start: int, end: int) -> Iterator[_Piece]:
    """Text without lines or sentences: cut after a word, and where there is none, between two characters."""
    while start < end:
        most = cut(text[start : min(end, start + TARGET * _CHARACTERS)], TARGET, some=True)
        at = start + len(most)
        if at < end and (words := [found.end() for found in _WORDS.finditer(most, len(most) // 2)]):
            at = start + words[-1]
        if text[start:at].strip():
            yield _Piece(start, at, estimate(text[start:at]))
        start = at


def _joined(before: _Part, after: _Part) -> _Part | None:
    """Two neighbours as one if they fit: a rest of a section, headings with what they are over, two tiny sections."""
    size = before.tokens + after.tokens
    small = min(before.tokens, after.tokens) < LEAST
    over = before.bare and after.path[: len(before.path)] == before.path
    tiny = (
        size < TARGET
        and max(before.tokens, after.tokens) < LEAST
        and before.path[:-1] == after.path[:-1]
    )
    if size > MAX_TOKENS or not (tiny or (small and (over or before.path == after.path))):
        return None
    return _Part(
        before.start,
        after.end,
        size,
        after.path if over else _shared(before.path, after.path),
        after.bare and over,
    )


def _shared(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """The headings over both."""
    same = 0
    while same < min(len(one), len(other)) and one[same] == other[same]:
        same += 1
    return one[:same]


def _chunk(text: str, part: _Part) -> Chunk:
    whole = text[part.start : part.end]
    start = part.start + len(whole) - len(whole.lstrip())
    shown = whole.strip()
    return Chunk(titled(*part.path), shown, start, start + len(shown))


def titled(*headings: str) -> str:
    """Headings as one line, from the outermost to the innermost; where they are too long, the outer ones are left out."""
    short = [
        words if len(words) <= _LONGEST_HEADING else words[: _LONGEST_HEADING - 1] + "…"
        for words in headings
        if words
    ]
    while len(short) > 1 and len(ARROW.join(short)) > _LONGEST_TITLE:
        del short[0]
    return ARROW.join(short)

"""Chunking: split long texts along their structure into parts that can stand alone.

The parts are in order and cover the whole text except blanks between them. Paragraphs, lists,
tables and code blocks stay together if they fit; then sentences and lines; a word is cut only as
the last resort. A part stays within one section, unless a section is too short to stand alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, NamedTuple

from memorist.base.lazy_pattern import LazyPattern
from memorist.base.tokens import cut, estimate
from memorist.text import markdown
from memorist.text.markdown import Block

Markup = Literal["text", "markdown"]

TARGET_TOKENS = 240
"""Desired tokens of a part."""
MAX_TOKENS = 320
"""Maximum tokens of a part."""
MIN_TOKENS = 48
"""A smaller part is joined with its neighbour, if both fit into one."""
ARROW = " › "
_MAX_TITLE_CHARACTERS = 300
_MAX_HEADING_CHARACTERS = 100
_CHARACTERS = 8  # of one token, at the most
# Possessive: a text that is one long run must not take quadratic time.
_PARAGRAPHS = LazyPattern(r"(?>\r\n?|\n)[ \t]*+(?:\r\n?|\n)\s*+")
_ITEMS = LazyPattern(r"(?>\r\n?|\n)(?=[ \t]{0,3}(?:[-*+•]|\d{1,9}[.)])[ \t])")
_LINES = LazyPattern(r"[\r\n]++")
_SENTENCES = LazyPattern(
    r"""(?<![.!?…])[.!?…]++["'”’»)\]]*+\s++|[。！？｡]++[」』”’）]*+\s*+|[।؟۔]++\s*+"""
)
_WORDS = LazyPattern(r"\s++|[,;，、；]++")
_LEVELS: dict[markdown.BlockKind, tuple[LazyPattern, ...]] = {
    "heading": (_LINES,),
    "prose": (_PARAGRAPHS, _SENTENCES, _LINES),
    "lines": (_PARAGRAPHS, _ITEMS, _LINES, _SENTENCES),
}


@dataclass(frozen=True)
class Chunk:
    """A part of a text: `text[start:end]`. `title` has its headings, such as `Install › Linux`."""

    title: str
    text: str
    start: int
    end: int


class _TextRange(NamedTuple):
    """An uncut range of the text, with the blanks behind it, and its tokens."""

    start: int
    end: int
    tokens: int


class _Joined(NamedTuple):
    """Joined pieces and their headings; `bare` if there is nothing but headings."""

    start: int
    end: int
    tokens: int
    path: tuple[str, ...]
    bare: bool


def split(text: str, media: Markup = "text") -> list[Chunk]:
    """Split a text into parts. A short text is one part, a blank one none."""
    read = markdown.blocks(text) if media == "markdown" else markdown.plain_blocks(text)
    parts: list[_Joined] = []
    for part in (part for section in _sections(read) for part in _packed(text, section)):
        if parts and (joined := _joined(parts[-1], part)):
            parts[-1] = joined
        else:
            parts.append(part)
    return [_chunk(text, part) for part in parts]


def _sections(read: Iterable[Block]) -> Iterator[list[Block]]:
    """Yield the blocks of each section: a heading and everything up to the next one."""
    number = 0

    def section(block: Block) -> int:
        nonlocal number
        number += block.kind == "heading"
        return number

    return (list(group) for _, group in groupby(read, key=section))


def _packed(text: str, section: Sequence[Block]) -> Iterator[_Joined]:
    """Yield the parts of a section, each as near to the desired size as its blocks allow."""
    path = section[-1].path
    bare = all(block.kind == "heading" for block in section)
    pieces = [piece for block in section for piece in _pieces(text, block)]
    start = end = size = 0
    for piece in pieces:
        if size and size + piece.tokens > (MAX_TOKENS if size < MIN_TOKENS else TARGET_TOKENS):
            yield _Joined(start, end, size, path, bare)
            size = 0
        if not size:
            start = piece.start
        end = piece.end
        size += piece.tokens
    if size:
        yield _Joined(start, end, size, path, bare)


def _pieces(text: str, block: Block) -> Iterator[_TextRange]:
    """Yield the pieces of a block that fit, without blank ones."""
    return _divided(text, block.start, block.end, _LEVELS[block.kind])


def _divided(
    text: str, start: int, end: int, levels: Sequence[LazyPattern]
) -> Iterator[_TextRange]:
    """Yield a range if it fits, else its pieces, cut at the coarsest level that works."""
    part = text[start:end]
    size = estimate(part)
    if size <= MAX_TOKENS:
        if part.strip():
            yield _TextRange(start, end, size)
        return
    if not levels:
        yield from _cut(text, start, end)
        return
    at = start
    for match in levels[0].finditer(text, start, end):
        if at < match.end() < end:
            yield from _divided(text, at, match.end(), levels[1:])
            at = match.end()
    yield from _divided(text, at, end, levels[1:])


def _cut(text: str, start: int, end: int) -> Iterator[_TextRange]:
    """Cut text without lines or sentences: after a word, else between two characters."""
    while start < end:
        piece = cut(
            text[start : min(end, start + TARGET_TOKENS * _CHARACTERS)],
            TARGET_TOKENS,
            not_empty=True,
        )
        at = start + len(piece)
        if at < end and (
            words := [match.end() for match in _WORDS.finditer(piece, len(piece) // 2)]
        ):
            at = start + words[-1]
        if text[start:at].strip():
            yield _TextRange(start, at, estimate(text[start:at]))
        start = at


def _joined(before: _Joined, after: _Joined) -> _Joined | None:
    """Join two neighbours if they fit: the rest of a section, headings with text, tiny sections."""
    size = before.tokens + after.tokens
    small = min(before.tokens, after.tokens) < MIN_TOKENS
    over = before.bare and after.path[: len(before.path)] == before.path
    tiny = (
        size < TARGET_TOKENS
        and max(before.tokens, after.tokens) < MIN_TOKENS
        and before.path[:-1] == after.path[:-1]
    )
    if size > MAX_TOKENS or not (tiny or (small and (over or before.path == after.path))):
        return None
    return _Joined(
        before.start,
        after.end,
        size,
        after.path if over else _shared(before.path, after.path),
        after.bare and over,
    )


def _shared(first: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """Return the headings that both have."""
    same = 0
    while same < min(len(first), len(other)) and first[same] == other[same]:
        same += 1
    return first[:same]


def _chunk(text: str, part: _Joined) -> Chunk:
    section = text[part.start : part.end]
    start = part.start + len(section) - len(section.lstrip())
    shown = section.strip()
    return Chunk(titled(*part.path), shown, start, start + len(shown))


def titled(*headings: str) -> str:
    """Return headings as one line, outermost first; if too long, without the outer ones."""
    short = [
        words
        if len(words) <= _MAX_HEADING_CHARACTERS
        else words[: _MAX_HEADING_CHARACTERS - 1] + "…"
        for words in headings
        if words
    ]
    while len(short) > 1 and len(ARROW.join(short)) > _MAX_TITLE_CHARACTERS:
        del short[0]
    return ARROW.join(short)

"""The blocks of a document in order, each with the headings over it: what must be known of a text before it can be split.

Blocks lie side by side and together they are the whole text. A Markdown document is read as CommonMark reads it, a slice at
a time, so that a document of any size takes little memory: reading goes on at the last block of a slice, which may not be
whole yet. A single block that is larger than a slice is read as several.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from retain.text.markdown import line_starts, reader

Kind = Literal["heading", "prose", "lines"]
"""A heading; prose, which may be cut after a sentence; and what is better cut between lines: lists, tables, code."""

_SLICE = 256 << 10
_LINES = {"bullet_list_open", "ordered_list_open", "fence", "code_block", "html_block"}
_FRONT_END = r"(?:---|\.\.\.)[ \t]*+(?:\r?\n|\Z)"
_FRONT = re.compile(rf"\ufeff?---[ \t]*+\r?\n(?:(?!{_FRONT_END})[^\n]*+\n){{0,200}}+{_FRONT_END}")
_LINE_END = re.compile(r"\r\n|\r|\n")
_TABLE = re.compile(r"[^\r\n|]*+\|[^\r\n]*+\r?\n[ \t]*+\|?[ \t]*+:?-++:?[ \t]*+(?:\||\r?\n|\Z)")
_LINK = re.compile(r"!?\[([^\[\]]*+)\]\([^()\s]*+\)")
_MARKUP = re.compile(r"[`*]++|(?<!\w)_++|(?<!_)_++(?!\w)")


class Block(NamedTuple):
    """A part of a text: what it is, where it is, and the headings over it, itself included if it is one."""

    kind: Kind
    start: int
    end: int
    path: tuple[str, ...] = ()


def plain(text: str) -> Iterator[Block]:
    """A text without markup: one block."""
    if text:
        yield Block("prose", 0, len(text))


def markdown(text: str) -> Iterator[Block]:
    """The blocks of a Markdown document; what it has between them belongs to the block before."""
    front = _FRONT.match(text)
    start = front.end() if front else 0
    if front:
        yield Block("lines", 0, start)
    path: list[tuple[int, str]] = []
    waiting: tuple[Kind, int] = ("prose", start)
    for kind, begin, level, words in _openings(text, start):
        if text[waiting[1] : begin].strip():
            yield Block(waiting[0], waiting[1], begin, tuple(words for _, words in path))
            waiting = kind, begin
        else:
            waiting = kind, waiting[1]
        if level:
            path = [(above, said) for above, said in path if above < level] + [(level, words)]
    if waiting[1] < len(text):
        yield Block(waiting[0], waiting[1], len(text), tuple(words for _, words in path))


def _openings(text: str, start: int) -> Iterator[tuple[Kind, int, int, str]]:
    """Where each top block begins, what it is, and of a heading its level and its words."""
    while start < len(text):
        part = text[start : start + _SLICE]
        starts = line_starts(part)
        found: list[tuple[Kind, int, int, str]] = []
        tokens = reader().parse(part)
        fence = ""
        for n, token in enumerate(tokens):
            if token.level or token.map is None or token.nesting < 0:
                continue
            begin = starts[min(token.map[0], len(starts) - 1)]
            fence = token.markup if token.type == "fence" else ""
            if token.type == "heading_open":
                found.append(
                    ("heading", start + begin, int(token.tag[1:]), heading(tokens[n + 1].content))
                )
            else:
                found.append(
                    (
                        "lines" if token.type in _LINES or _TABLE.match(part, begin) else "prose",
                        start + begin,
                        0,
                        "",
                    )
                )
        whole = start + _SLICE >= len(text)
        yield from found if whole or len(found) == 1 else found[:-1]
        if whole:
            return
        start = found[-1][1] if len(found) > 1 else _behind(text, start, fence)


def _behind(text: str, start: int, fence: str) -> int:
    """Where reading goes on behind a slice that a single block fills: at a new line, and behind the code it may be in."""
    if fence:
        closing = re.compile(
            rf"^ {{0,3}}{re.escape(fence)}{re.escape(fence[0])}*+[ \t]*+\r?$", re.MULTILINE
        )
        opened = _LINE_END.search(text, start)
        found = closing.search(text, opened.end() if opened else len(text))
        return found.end() if found else len(text)
    return max(text.rfind("\n", start, start + _SLICE) + 1, start + _SLICE // 2)


def heading(content: str) -> str:
    """The words of a heading, without its markup."""
    words = " ".join(_MARKUP.sub("", _LINK.sub(r"\1", content)).split())
    return words or " ".join(content.split())

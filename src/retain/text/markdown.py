"""The sections of a Markdown document as CommonMark reads them, and changes that leave every byte outside them alone.

A section is a heading of the document, with `#` or underlined, and all that follows it up to the next heading of the same
or a higher level. What looks like a heading inside code, HTML, a block quote or a list is none. A change is read again
before it is given back: one after which the rest of the document would mean something else is refused.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from retain.base.errors import Invalid, NoSection

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_MOST_SHOWN, _LONGEST_SHOWN = 50, 100
_ENDING = re.compile(r"\r\n|\r|\n")
_LINE = re.compile(r"[^\r\n]*+(?:\r\n|\r|\n)|[^\r\n]++")


@dataclass(frozen=True)
class Heading:
    """A heading, and where its section is: it begins at `start`, its body at `body`, and `end` is behind it."""

    level: int
    text: str
    start: int
    body: int
    end: int

    @property
    def header(self) -> str:
        """The heading as it can be asked for."""
        return f"{'#' * self.level} {self.text}".rstrip()


class Edited(NamedTuple):
    """A document after a change; `same` is how many sections had the header, of which the first was changed."""

    text: str
    same: int = 1


# -- reading -----------------------------------------------------------------------------------------------------------


def outline(text: str) -> list[Heading]:
    """The headings of a document, in order."""
    starts = line_starts(text)
    tokens = reader().parse(text)
    found: list[tuple[int, str, int, int]] = []
    for n, token in enumerate(tokens):
        if token.type == "heading_open" and token.map is not None and token.level == 0:
            start, end = (starts[min(line, len(starts) - 1)] for line in token.map)
            found.append((int(token.tag[1:]), _plain(tokens[n + 1].content), start, end))
    headings = []
    ends: list[int] = [
        len(text)
    ] * 7  # where a section of each level ends, seen from the end of the document
    for level, words, start, body in reversed(found):
        headings.append(Heading(level, words, start, body, ends[level]))
        ends[level:] = [start] * (7 - level)
    return headings[::-1]


def headers(text: str) -> list[str]:
    """The headings of a document as they can be asked for."""
    return [heading.header for heading in outline(text)]


def line_starts(text: str) -> list[int]:
    """Where each line of a document starts, and where the last one ends."""
    return [0, *(found.end() for found in _ENDING.finditer(text)), len(text)]


@functools.cache
def reader() -> MarkdownIt:
    """What reads Markdown, without looking into lines."""
    from markdown_it import MarkdownIt  # takes longer to import than all of retain

    reader = MarkdownIt("commonmark").disable(["inline", "text_join"])
    reader.parse(
        "text"
    )  # it puts its rules in order at the first parse, which two threads must not do at once
    return reader


def _plain(text: str) -> str:
    return " ".join(text.split())


# -- adding ------------------------------------------------------------------------------------------------------------


def append(document: str, text: str) -> str:
    """The document, one blank line, the text; with at most one line ending behind it, if the text had any."""
    if not text.strip():
        return document
    ending = _ending(document, text)
    added = _laid_out(text, ending) + (ending if text.endswith(("\r", "\n")) else "")
    before = document.rstrip("\r\n")
    return before + 2 * ending + added if before else added


def prepend(document: str, text: str) -> str:
    """The text, one blank line, the document."""
    after = document.lstrip("\r\n")
    if not text.strip() or not after:
        return append(after, text) if text.strip() else document
    ending = _ending(document, text)
    return _laid_out(text, ending) + 2 * ending + after


def _ending(*texts: str) -> str:
    """The line ending of a document: that of its first line, or of what is put into it."""
    found = next(filter(None, map(_ENDING.search, texts)), None)
    return found.group() if found else "\n"


def _laid_out(text: str, ending: str) -> str:
    """Text as it is put into a document: with the document's line endings, and without blank lines around it."""
    return _ENDING.sub(ending, _trimmed(text))


def _trimmed(text: str) -> str:
    """Text without blank lines at its ends, nor a line ending."""
    lead, trail = _blank_lines(text)
    return text[len(lead) : len(text) - len(trail)].rstrip("\r\n")


# -- changing sections -------------------------------------------------------------------------------------------------


def delete_section(text: str, header: str) -> Edited:
    """The document without a section; a blank line stays where what is around it would run together."""
    headings = outline(text)
    place, same = _find(headings, header)
    gone = headings[place]
    before, after = text[: gone.start], text[gone.end :]
    tail = [heading for heading in headings if heading.start >= gone.end]
    for made in (before + after, before + _ending(text) + after):
        if _agree(outline(made), headings[:place], tail, len(made) - len(text)) == []:
            return Edited(made, same)
    raise Invalid(
        field="header",
        problem=f"names the section {gone.header!r}, without which the next section would become part of a list; "
        "overwrite the whole document instead",
    )


def replace_section(text: str, header: str, body: str) -> Edited:
    """The document with another body under a heading; blank lines around the old body stay.

    A body that begins with the section's own heading is taken without it.
    """
    headings = outline(text)
    place, same = _find(headings, header)
    section = headings[place]
    tail = [heading for heading in headings if heading.start >= section.end]
    head, after = text[: section.body], text[section.end :]
    ending = _ending(text, body)
    lead, trail = _blank_lines(text[section.body : section.end])
    new = _laid_out(_without_heading(body, section), ending)
    middle = head + trail
    if new.strip():
        closed = after or text.endswith(("\r", "\n"))
        middle = (
            head
            + ("" if head.endswith(("\r", "\n")) else ending)
            + lead
            + new
            + (ending if closed else "")
            + trail
        )
    for made in (middle + after, middle + ending + after):
        inside = _agree(outline(made), headings[: place + 1], tail, len(made) - len(text))
        if inside is None:
            continue
        if over := next((heading for heading in inside if heading.level <= section.level), None):
            problem = (
                f"has the heading {over.header!r}, which would end the section {section.header!r}; "
            )
            deeper = "#" * (section.level + 1)
            use = (
                f"use {deeper} or deeper, or change that section by itself"
                if section.level < 6
                else "leave it out"
            )
            raise Invalid(field="text", problem=problem + use)
        return Edited(made, same)
    swallowed = tail[0].header if tail else section.header
    problem = f"would swallow the section {swallowed!r} that follows; close every code fence, comment and HTML tag in it"
    raise Invalid(field="text", problem=problem)


def _find(headings: Sequence[Heading], header: str) -> tuple[int, int]:
    """Which heading a header means, and how many it could mean: of any level, or of the one that its `#`s say."""
    if not header.strip():
        raise Invalid(field="header", problem="must not be blank")
    wanted = _plain(header)
    words = wanted.lstrip("#")
    level = len(wanted) - len(words)
    meant = [(heading.level, heading.text) for heading in outline(wanted)] if level else []
    meant += [(level, words.strip()), (0, wanted)]
    for same in (str, str.casefold):
        for level, text in meant:
            places = [n for n, heading in enumerate(headings) if level in (0, heading.level)]
            if found := [n for n in places if same(headings[n].text) == same(text)]:
                return found[0], len(found)
    there = [shortened(heading.header) for heading in headings[:_MOST_SHOWN]]
    more = len(headings) - len(there)
    has = (
        f"the sections are {', '.join(there)}{f' and {more} more' if more else ''}"
        if there
        else "there are no sections"
    )
    raise NoSection(id=shortened(wanted), has=has)


def shortened(header: str) -> str:
    """A header as it can stand in a sentence."""
    return header if len(header) <= _LONGEST_SHOWN else header[: _LONGEST_SHOWN - 1] + "…"


def _without_heading(body: str, section: Heading) -> str:
    """A body without the section's own heading at its beginning, where a model writes it once more."""
    body = _trimmed(body)
    first = next(iter(outline(body)), None)
    if first is None or first.start or first.text.casefold() != section.text.casefold():
        return body
    return body[first.body :]


def _blank_lines(body: str) -> tuple[str, str]:
    """The blank lines at the beginning and at the end of a body; of an empty one, all are at its end."""
    lines = _LINE.findall(body)
    full = [n for n, line in enumerate(lines) if line.strip(" \t\r\n")]
    if not full:
        return "", body
    return "".join(lines[: full[0]]), "".join(lines[full[-1] + 1 :])


def _agree(
    found: Sequence[Heading], before: Sequence[Heading], after: Sequence[Heading], shift: int
) -> Sequence[Heading] | None:
    """The headings between those that were there before and after a section, or None if one of those is not there."""
    if len(found) < len(before) + len(after):
        return None
    split = len(found) - len(after)
    pairs = [(old, 0, new) for old, new in zip(before, found, strict=False)]
    pairs += [(old, shift, new) for old, new in zip(after, found[split:], strict=True)]
    for old, moved, new in pairs:
        if (old.level, old.text, old.start + moved) != (new.level, new.text, new.start):
            return None
    return found[len(before) : split]

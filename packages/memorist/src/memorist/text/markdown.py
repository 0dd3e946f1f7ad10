"""Markdown documents: headings and blocks, edits of single sections, splitting into parts.

Documents are parsed as CommonMark: a `#` inside code, HTML, a block quote or a list is not a
heading. A section is a heading and everything up to the next heading of the same or a higher level.
Edits do not change any byte outside the section. The result is parsed again, and an edit that would
change the meaning of the rest of the document is rejected.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

from memorist.base.errors import Invalid, NoSection

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MAX_LISTED_SECTIONS = 50
MAX_HEADER_CHARACTERS = 100

# A document is parsed in slices of this size, to limit memory.
SLICE_CHARACTERS = 256 << 10

# Parts of a document for a prompt. A long part without sections is divided at about this size.
PART_CHARACTERS = 2_000
MAX_PARTS = 40
MAX_FINE_PARTS = 32  # of a large document; the rest of it is divided into the remaining parts
MAX_STRUCTURED_CHARACTERS = 64 << 10  # text after this is only divided at the ends of lines
MAX_CACHED_DOCUMENTS = 1_000

BlockKind = Literal["heading", "prose", "lines"]
"""Prose is cut after a sentence; lists, tables and code ("lines") preferably between lines."""

_LINE_END = re.compile(r"\r\n|\r|\n")
_LINE = re.compile(r"[^\r\n]*+(?:\r\n|\r|\n)|[^\r\n]++")
_LINE_BLOCKS = {"bullet_list_open", "ordered_list_open", "fence", "code_block", "html_block"}
_FRONT_END = r"(?:---|\.\.\.)[ \t]*+(?:\r?\n|\Z)"
_FRONT_MATTER = re.compile(
    rf"\ufeff?---[ \t]*+\r?\n(?:(?!{_FRONT_END})[^\n]*+\n){{0,200}}+{_FRONT_END}"
)
_TABLE = re.compile(r"[^\r\n|]*+\|[^\r\n]*+\r?\n[ \t]*+\|?[ \t]*+:?-++:?[ \t]*+(?:\||\r?\n|\Z)")
_LINK = re.compile(r"!?\[([^\[\]]*+)\]\([^()\s]*+\)")
_MARKUP = re.compile(r"[`*]++|(?<!\w)_++|(?<!_)_++(?!\w)")
_LIST_ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])[ \t]")
_NEXT_LIST_ITEM = re.compile(r"\n(?=(?:[-*+]|\d{1,9}[.)])[ \t])")


@dataclass(frozen=True)
class Heading:
    """A heading and the position of its section."""

    level: int
    text: str
    start: int  # of the heading
    body: int  # start of the text below the heading
    end: int  # of the section

    @property
    def header(self) -> str:
        """The heading as a caller writes it, such as `## Preferences`."""
        return f"{'#' * self.level} {self.text}".rstrip()


class Block(NamedTuple):
    """A top-level block of a document."""

    kind: BlockKind
    start: int
    end: int
    path: tuple[str, ...] = ()  # the headings above it, including its own
    level: int = 0  # of a heading


class Edited(NamedTuple):
    """A document after an edit."""

    text: str
    same: int = 1  # number of sections with this header; the first one was edited


# -- headings -----------------------------------------------------------------


def outline(text: str) -> list[Heading]:
    """Return the headings of a document, in order."""
    starts = _line_starts(text)
    tokens = parser().parse(text)
    levels: list[tuple[int, str, int, int]] = []
    for index, token in enumerate(tokens):
        if token.type == "heading_open" and token.map is not None and token.level == 0:
            start = starts[min(token.map[0], len(starts) - 1)]
            body = starts[min(token.map[1], len(starts) - 1)]
            words = _collapse(tokens[index + 1].content)
            levels.append((int(token.tag[1:]), words, start, body))
    headings = []
    ends = [len(text)] * 7  # end of a section of each level, read backwards
    for level, words, start, body in reversed(levels):
        headings.append(Heading(level, words, start, body, ends[level]))
        ends[level:] = [start] * (7 - level)
    headings.reverse()
    return headings


def headers(text: str) -> list[str]:
    """Return the headers of a document, in order."""
    return [heading.header for heading in outline(text)]


@functools.cache
def parser() -> MarkdownIt:
    """Return a CommonMark parser that does not parse inside lines."""
    from markdown_it import MarkdownIt  # slow to import

    markdown = MarkdownIt("commonmark").disable(["inline", "text_join"])
    # The first parse sorts its rules, which two threads must not do at once.
    markdown.parse("text")
    return markdown


def heading_text(content: str) -> str:
    """Return the words of a heading without its markup."""
    words = _collapse(_MARKUP.sub("", _LINK.sub(r"\1", content)))
    return words or _collapse(content)


def _line_starts(text: str) -> list[int]:
    """Return the start of each line, and the end of the last line."""
    return [0, *(line_end.end() for line_end in _LINE_END.finditer(text)), len(text)]


def _collapse(text: str) -> str:
    return " ".join(text.split())


# -- blocks -------------------------------------------------------------------


def plain_blocks(text: str) -> Iterator[Block]:
    """Yield a text without markup as one block."""
    if text:
        yield Block("prose", 0, len(text))


def blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of a document, which together are the whole text.

    Blank lines belong to the block before them. A block larger than a slice is read as several.
    """
    front_matter = _FRONT_MATTER.match(text)
    start = 0
    if front_matter:
        start = front_matter.end()
        yield Block("lines", 0, start)
    path: list[tuple[int, str]] = []
    current = Block("prose", start, start)
    for block in _block_starts(text, start):
        if text[current.start : block.start].strip():
            yield current._replace(end=block.start, path=tuple(words for _, words in path))
            current = block
        else:
            current = block._replace(start=current.start)
        if block.level:
            path = [(level, words) for level, words in path if level < block.level]
            path.append((block.level, block.path[0]))
    if current.start < len(text):
        yield current._replace(end=len(text), path=tuple(words for _, words in path))


def _block_starts(text: str, start: int) -> Iterator[Block]:
    """Yield the blocks without their ends; the path of a heading is its own text."""
    while start < len(text):
        part = text[start : start + SLICE_CHARACTERS]
        tokens = parser().parse(part)
        slice_blocks = _blocks_of_slice(part, start, tokens)
        is_last = start + SLICE_CHARACTERS >= len(text)
        if is_last or len(slice_blocks) <= 1:
            yield from slice_blocks
        else:
            yield from slice_blocks[:-1]  # the last block may continue in the next slice
        if is_last:
            return
        if len(slice_blocks) > 1:
            start = slice_blocks[-1].start
        else:
            start = _after_slice(text, start, _open_fence(tokens))


def _blocks_of_slice(part: str, offset: int, tokens: Sequence[Token]) -> list[Block]:
    starts = _line_starts(part)
    slice_blocks: list[Block] = []
    for index, token in enumerate(tokens):
        if token.level or token.map is None or token.nesting < 0:
            continue
        start = starts[min(token.map[0], len(starts) - 1)]
        kind: BlockKind = "prose"
        level = 0
        path: tuple[str, ...] = ()
        if token.type == "heading_open":
            kind = "heading"
            level = int(token.tag[1:])
            path = (heading_text(tokens[index + 1].content),)
        elif token.type in _LINE_BLOCKS or _TABLE.match(part, start):
            kind = "lines"
        slice_blocks.append(Block(kind, offset + start, offset + start, path, level))
    return slice_blocks


def _open_fence(tokens: Sequence[Token]) -> str:
    top = [token for token in tokens if not token.level and token.map is not None]
    return top[-1].markup if top and top[-1].type == "fence" else ""


def _after_slice(text: str, start: int, fence: str) -> int:
    """Return the start of the next slice after one that a single block fills.

    It starts at a new line, and after the end of a code block.
    """
    if fence:
        closing = re.compile(
            rf"^ {{0,3}}{re.escape(fence)}{re.escape(fence[0])}*+[ \t]*+\r?$", re.MULTILINE
        )
        first_line = _LINE_END.search(text, start)
        end = closing.search(text, first_line.end() if first_line else len(text))
        return end.end() if end else len(text)
    line_end = text.rfind("\n", start, start + SLICE_CHARACTERS)
    return max(line_end + 1, start + SLICE_CHARACTERS // 2)


# -- parts for a prompt -------------------------------------------------------

_cached_ends: dict[bytes, tuple[int, ...]] = {}


def split_parts(text: str) -> list[str]:
    """Split a document into parts, of which a prompt may leave out the last ones.

    The parts joined are the text.

    Parts are the outermost sections, or those below the title if there is only one title. Long
    sections are divided between blocks and list items, and many small sections are joined.
    """
    if not text:
        return []
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    ends = _cached_ends.get(digest)
    if ends is None:
        starts = _limit_parts(_part_starts(text), len(text))
        ends = (*starts[1:], len(text))
        if len(_cached_ends) >= MAX_CACHED_DOCUMENTS:
            _cached_ends.clear()
        _cached_ends[digest] = ends
    return [text[start:end] for start, end in pairwise((0, *ends))]


def _part_starts(text: str) -> list[int]:
    """Return the starts of the parts; their number is not limited yet."""
    headings: list[Block] = []
    positions: list[int] = []  # other positions where the text may be divided
    structured = text[:MAX_STRUCTURED_CHARACTERS]
    for block in blocks(structured):
        if block.level:
            headings.append(block)
            continue
        positions.append(block.start)
        if _LIST_ITEM.match(text, block.start):
            items = _NEXT_LIST_ITEM.finditer(structured, block.start, block.end)
            positions += [item.end() for item in items]
    positions += _line_starts_from(text, len(structured))
    cuts = {0, len(text)}
    while headings:
        outermost = [headings[0]]
        for heading in headings[1:]:
            if heading.level <= outermost[-1].level:
                outermost.append(heading)
        cuts |= {heading.start for heading in outermost}
        # Below a single title, the sections of the next level are the parts.
        headings = headings[1:] if len(outermost) == 1 else []
    return _divide(sorted(cuts), positions)


def _line_starts_from(text: str, start: int) -> Iterator[int]:
    """Yield starts of lines, about one part apart."""
    while start < len(text):
        yield start
        line_end = text.rfind("\n", start, start + PART_CHARACTERS)
        if line_end < 0:
            line_end = text.find("\n", start)
        start = line_end + 1 if line_end >= 0 else len(text)


def _divide(cuts: Sequence[int], positions: Sequence[int]) -> list[int]:
    """Return the starts of the parts between `cuts`; divide long parts at some `positions`."""
    starts = []
    remaining = iter(positions)
    position = next(remaining, None)
    for start, end in pairwise(cuts):
        starts.append(start)
        last_fitting = start
        while position is not None and position < end:
            if position > start:
                if position - starts[-1] > PART_CHARACTERS and last_fitting > starts[-1]:
                    starts.append(last_fitting)
                if position - starts[-1] > PART_CHARACTERS:
                    starts.append(position)
                last_fitting = position
            position = next(remaining, None)
        if end - starts[-1] > PART_CHARACTERS and last_fitting > starts[-1]:
            starts.append(last_fitting)
    return starts


def _limit_parts(starts: Sequence[int], length: int) -> Sequence[int]:
    """Join parts if there are too many. The first parts stay small: they are left out last."""
    if len(starts) <= MAX_PARTS:
        return starts
    joined = _join_neighbours(starts, length, PART_CHARACTERS)
    if len(joined) <= MAX_PARTS:
        return joined
    rest = joined[MAX_FINE_PARTS:]
    # Two neighbours are together longer than the limit, so this leaves few enough parts.
    limit = 2 * (length - rest[0]) // (MAX_PARTS - MAX_FINE_PARTS) + 1
    return [*joined[:MAX_FINE_PARTS], *_join_neighbours(rest, length, limit)]


def _join_neighbours(starts: Sequence[int], length: int, limit: int) -> list[int]:
    """Join neighbouring parts as long as they have at most `limit` characters."""
    joined: list[int] = []
    for start, end in pairwise([*starts, length]):
        if not joined or end - joined[-1] > limit:
            joined.append(start)
    return joined


# -- adding text --------------------------------------------------------------


def append(document: str, text: str) -> str:
    """Return the document, a blank line and the text, with at most one line ending at the end."""
    if not text.strip():
        return document
    ending = _line_ending(document, text)
    added = _normalize(text, ending)
    if text.endswith(("\r", "\n")):
        added += ending
    before = document.rstrip("\r\n")
    return before + 2 * ending + added if before else added


def prepend(document: str, text: str) -> str:
    """Return the text, a blank line and the document."""
    if not text.strip():
        return document
    after = document.lstrip("\r\n")
    if not after:
        return append(after, text)
    ending = _line_ending(document, text)
    return _normalize(text, ending) + 2 * ending + after


def _line_ending(*texts: str) -> str:
    """Return the first line ending in the texts."""
    for text in texts:
        if line_end := _LINE_END.search(text):
            return line_end.group()
    return "\n"


def _normalize(text: str, ending: str) -> str:
    """Return text with the document's line endings and without blank lines around it."""
    return _LINE_END.sub(ending, _trim(text))


def _trim(text: str) -> str:
    lead, trail = _blank_lines(text)
    return text[len(lead) : len(text) - len(trail)].rstrip("\r\n")


# -- editing sections ---------------------------------------------------------


def delete_section(text: str, header: str) -> Edited:
    """Return the document without a section; keep a blank line if its neighbours would merge."""
    headings = outline(text)
    index, same = _find_section(headings, header)
    section = headings[index]
    before = text[: section.start]
    after = text[section.end :]
    following = [heading for heading in headings if heading.start >= section.end]
    for result in (before + after, before + _line_ending(text) + after):
        shift = len(result) - len(text)
        if _headings_between(outline(result), headings[:index], following, shift) == []:
            return Edited(result, same)
    raise Invalid(
        field="header",
        problem=f"names the section {section.header!r}, without which the next section would become "
        "part of a list. Overwrite the whole document instead",
    )


def replace_section(text: str, header: str, body: str) -> Edited:
    """Return the document with another body below a heading; keep the blank lines around it.

    If the new body begins with the section's own heading, that heading is dropped.
    """
    headings = outline(text)
    index, same = _find_section(headings, header)
    section = headings[index]
    following = [heading for heading in headings if heading.start >= section.end]
    before = text[: section.body]
    after = text[section.end :]
    ending = _line_ending(text, body)
    lead, trail = _blank_lines(text[section.body : section.end])
    new_body = _normalize(_without_own_heading(body, section), ending)
    if new_body.strip():
        if not before.endswith(("\r", "\n")):
            before += ending
        needs_ending = after or text.endswith(("\r", "\n"))
        before += lead + new_body + (ending if needs_ending else "")
    before += trail
    for result in (before + after, before + ending + after):
        shift = len(result) - len(text)
        inside = _headings_between(outline(result), headings[: index + 1], following, shift)
        if inside is None:
            continue
        for heading in inside:
            if heading.level <= section.level:
                raise _section_would_end(heading, section)
        return Edited(result, same)
    swallowed = following[0].header if following else section.header
    raise Invalid(
        field="text",
        problem=f"would include the next section, {swallowed!r}; "
        "close every code fence, comment and HTML tag in it",
    )


def _section_would_end(heading: Heading, section: Heading) -> Invalid:
    advice = "leave it out"
    if section.level < 6:
        deeper = "#" * (section.level + 1)
        advice = f"use {deeper} or deeper, or edit that section by itself"
    return Invalid(
        field="text",
        problem=f"has the heading {heading.header!r}, which would end the section "
        f"{section.header!r}; {advice}",
    )


def _find_section(headings: Sequence[Heading], header: str) -> tuple[int, int]:
    """Return the index of the first heading that matches a header, and the number of matches.

    Without leading `#`s, a header names a heading of any level.
    """
    if not header.strip():
        raise Invalid(field="header", problem="must not be blank")
    wanted = _collapse(header)
    words = wanted.lstrip("#")
    level = len(wanted) - len(words)
    readings = [(heading.level, heading.text) for heading in outline(wanted)] if level else []
    readings += [(level, words.strip()), (0, wanted)]
    for normalize in (str, str.casefold):
        for level, text in readings:
            matches = [
                index
                for index, heading in enumerate(headings)
                if level in (0, heading.level) and normalize(heading.text) == normalize(text)
            ]
            if matches:
                return matches[0], len(matches)
    raise NoSection(id=shortened(wanted), has=_list_sections(headings))


def _list_sections(headings: Sequence[Heading]) -> str:
    if not headings:
        return "there are no sections"
    headers = ", ".join(shortened(heading.header) for heading in headings[:MAX_LISTED_SECTIONS])
    more = len(headings) - MAX_LISTED_SECTIONS
    return f"the sections are {headers}{f' and {more} more' if more > 0 else ''}"


def shortened(header: str) -> str:
    """Return a header short enough for an error message."""
    if len(header) <= MAX_HEADER_CHARACTERS:
        return header
    return header[: MAX_HEADER_CHARACTERS - 1] + "…"


def _without_own_heading(body: str, section: Heading) -> str:
    """Return a body without the section's heading, which models often repeat."""
    body = _trim(body)
    first = next(iter(outline(body)), None)
    if first is None or first.start or first.text.casefold() != section.text.casefold():
        return body
    return body[first.body :]


def _blank_lines(body: str) -> tuple[str, str]:
    """Return the blank lines at the beginning and at the end of a body."""
    lines = _LINE.findall(body)
    filled = [index for index, line in enumerate(lines) if line.strip(" \t\r\n")]
    if not filled:
        return "", body
    return "".join(lines[: filled[0]]), "".join(lines[filled[-1] + 1 :])


def _headings_between(
    headings: Sequence[Heading], before: Sequence[Heading], after: Sequence[Heading], shift: int
) -> Sequence[Heading] | None:
    """Return the headings between `before` and `after`; None if one of these was lost."""
    if len(headings) < len(before) + len(after):
        return None
    split = len(headings) - len(after)
    for old, new in zip(before, headings, strict=False):
        if (old.level, old.text, old.start) != (new.level, new.text, new.start):
            return None
    for old, new in zip(after, headings[split:], strict=True):
        if (old.level, old.text, old.start + shift) != (new.level, new.text, new.start):
            return None
    return headings[len(before) : split]

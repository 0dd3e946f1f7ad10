"""Views of a large content: pages, lines, head, tail, matching lines, JSON paths.

Every view fits into a number of tokens, and says how much is left and how to read it. The functions
read a seekable binary file in blocks, so memory does not grow with the content. Only a JSON path
needs to parse the whole content, which is therefore limited in size. Lines end at a line feed, as
in `grep -n`.
"""

from __future__ import annotations

import codecs
import io
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import IO, Any

from memorist.base import canonical
from memorist.base.errors import Invalid
from memorist.base.tokens import boundary, cut, estimate
from memorist.base.wording import counted
from memorist.text import jsonpath
from memorist.text.describe import media_of
from memorist.text.pattern import compile_pattern, search
from memorist.text.time_limit import TimeLimit, TimeLimitExceeded

MIN_TOKENS = 50
MAX_TOKENS = 100_000
SEARCH_SECONDS = 10.0  # of processor time
MAX_WALL_SECONDS = 20.0

BLOCK_BYTES = 1 << 20
SAMPLE_BYTES = 8 << 10

# Of a text, a view reads at most this many characters per token.
MAX_CHARACTERS_PER_TOKEN = 8
# An indented value is mostly spaces, so more of it is written before it is cut.
INDENT_FACTOR = 8

# Up to this size pages are counted; beyond it their number is estimated.
MAX_COUNTED_BYTES = 2 << 20

# Long lines are searched in pieces that overlap, so that no short match is missed.
PIECE_CHARACTERS = 64 << 10
OVERLAP_CHARACTERS = 256

# Characters shown on each side of a match in a long line.
CONTEXT_CHARACTERS = 160

MAX_COUNTED_VALUES = 100_000


@dataclass(frozen=True)
class View:
    """A part of a content."""

    text: str
    tokens: int
    what: str  # which part this is, such as "lines 5–7 of 1,204"
    more: str = ""  # description of the rest
    next: Mapping[str, Any] = field(default_factory=dict)  # arguments for the next part
    page: int | None = None
    pages: int | None = None  # an estimate for a very large content


def page(file: IO[bytes], number: int, tokens: int) -> View:
    """Return one page; all pages in order are the whole content."""
    tokens = _check_tokens(tokens)
    number = canonical.check_integer(number, "page", 1)
    if _is_binary(file):
        return _binary_view(file)
    total_lines = _count_lines(file)
    pages = _pages(file, tokens)
    first_line = 1
    size = 0
    text = ""
    for index in range(number):
        first_line += text.count("\n")
        text = next(pages, "")
        size += len(text.encode())
        if not text and index:
            raise Invalid(
                field="page",
                problem=f"there {_are(index, 'page')} of {tokens:,} tokens, no page {number:,}",
            )
    if not text:
        return _view("", "nothing: the content is empty")
    what = _line_range(first_line, first_line + text[:-1].count("\n"), total_lines)
    if not next(pages, ""):
        if number == 1:
            what = f"all of it, {counted(total_lines, 'line')}"
        else:
            what = f"page {number:,} of {number:,}, {what}"
        return replace(_view(text, what), page=number, pages=number)
    content_size = file.seek(0, io.SEEK_END)
    if content_size <= MAX_COUNTED_BYTES:
        about = ""
        remaining = 1 + sum(1 for _ in pages)
    else:
        about = "about "
        remaining = max(1, round((content_size - size) / (size / number)))
    what = f"page {number:,} of {about}{number + remaining:,}, {what}"
    more = f"{about}{counted(remaining, 'more page')}; the next is page {number + 1:,}."
    view = _view(text, what, more, page=number + 1)
    return replace(view, page=number, pages=number + remaining)


def lines(file: IO[bytes], first: int, last: int, tokens: int) -> View:
    """Return the lines from number `first` to `last`, counted from 1."""
    tokens = _check_tokens(tokens)
    first = canonical.check_integer(first, "lines", 1)
    last = canonical.check_integer(last, "lines", first)
    if _is_binary(file):
        return _binary_view(file)
    total = _count_lines(file)
    if first > total:
        raise Invalid(field="lines", problem=f"there {_are(total, 'line')}, no line {first:,}")
    last = min(last, total)
    count = last - first + 1
    file.seek(_line_offset(file, first))
    parts = file.read(tokens * MAX_CHARACTERS_PER_TOKEN * 4).split(b"\n", count)
    is_complete = len(parts) > count or not file.read(1)
    text = _decode(b"\n".join(parts[:count]), final=is_complete)
    shown = cut(text, tokens)
    if is_complete and len(shown) == len(text):
        return _view(text, _line_range(first, last, total), **_lines_after(first, last, total))
    if text[len(shown) : len(shown) + 1] != "\n":
        shown = shown.rpartition("\n")[0]
    if shown:
        end = first + shown.count("\n")
        return _view(shown, _line_range(first, end, total), **_lines_unshown(end + 1, last))
    note = f" … (line {first:,} continues; read it with pages, or with a pattern)"
    text = cut(text, tokens - estimate(note) - 1) + note
    what = f"the beginning of line {first:,} of {total:,}"
    return _view(text, what, **_lines_after(first, first, total))


def head(file: IO[bytes], count: int, tokens: int) -> View:
    """Return the first lines."""
    count = canonical.check_integer(count, "head", 1)
    if not file.seek(0, io.SEEK_END):
        return page(file, 1, tokens)
    return lines(file, 1, count, tokens)


def tail(file: IO[bytes], count: int, tokens: int) -> View:
    """Return the last lines."""
    count = canonical.check_integer(count, "tail", 1)
    tokens = _check_tokens(tokens)
    size = file.seek(0, io.SEEK_END)
    if not size:
        return page(file, 1, tokens)
    if _is_binary(file):
        return _binary_view(file)
    total = _count_lines(file)
    first = max(1, total - count + 1)
    first_offset = _line_offset(file, first)
    offset = max(first_offset, size - tokens * MAX_CHARACTERS_PER_TOKEN * 4)
    file.seek(offset)
    data = file.read(size - offset)
    is_complete = offset == first_offset
    if not is_complete:
        data = data.lstrip(bytes(range(0x80, 0xC0)))  # the rest of a UTF-8 character
    text = _decode(data).removesuffix("\n")
    shown = cut(text, tokens, end=True)
    if not is_complete or len(shown) < len(text):
        # Start at a line unless the cut happens to be between two lines.
        character_before = text[len(text) - len(shown) - 1] if len(shown) < len(text) else ""
        if character_before != "\n":
            shown = shown.partition("\n")[2]
    if not shown and text:
        note = f"(line {total:,} begins before this; read it with pages, or with a pattern) … "
        text = note + cut(text, tokens - estimate(note) - 1, end=True)
        what = f"the end of line {total:,} of {total:,}"
        return _view(text, what, **_lines_before(total, first))
    first_shown = total - shown.count("\n")
    what = _line_range(first_shown, total, total)
    return _view(shown, what, **_lines_before(first_shown, first))


def grep(file: IO[bytes], pattern: str, tokens: int) -> View:
    """Return the lines that match a regular expression, with their numbers."""
    tokens = _check_tokens(tokens)
    expression = compile_pattern(pattern)
    time_limit = TimeLimit(SEARCH_SECONDS, MAX_WALL_SECONDS)
    rows: list[tuple[int, str]] = []
    used_tokens = 0
    matches = 0
    number = 0
    for number, text, overlap in _line_pieces(file):
        try:
            match = search(expression, text, overlap, time_limit)
        except TimeLimitExceeded:
            break
        if match:
            matches += 1
            if used_tokens <= tokens:
                row = f"{number}:{_around(text, *match.span())}"
                rows.append((number, row))
                used_tokens += estimate(row)
        if time_limit.is_exceeded():
            break
    while rows and estimate("\n".join(row for _, row in rows)) > tokens:
        rows.pop()
    return _matches_view(rows, matches, number, stopped=time_limit.was_exceeded)


def path(file: IO[bytes], path: str, tokens: int) -> View:
    """Return the values of a JSON path: one value unchanged, several values one per line."""
    tokens = _check_tokens(tokens)
    if _is_binary(file):
        raise Invalid(field="path", problem="selects nothing: the content is binary, not JSON")
    time_limit = TimeLimit(SEARCH_SECONDS, MAX_WALL_SECONDS)
    values = jsonpath.select(file, path, time_limit)
    first_values = list(itertools.islice(values, 2))
    if len(first_values) == 1 and not time_limit.was_exceeded:
        return _value_view(first_values[0], path, tokens)
    max_characters = tokens * MAX_CHARACTERS_PER_TOKEN
    rows: list[str] = []
    used_tokens = 0
    count = 0
    for value in itertools.islice(itertools.chain(first_values, values), MAX_COUNTED_VALUES):
        count += 1
        if used_tokens <= tokens:
            rows.append(jsonpath.write_json(value, max_characters))
            used_tokens += estimate(rows[-1])
    while rows and estimate("\n".join(rows)) > tokens:
        rows.pop()
    more = []
    where = path
    if time_limit.was_exceeded:
        where = f"{path} in the part that was searched"
        more.append("The search reached its time limit; use a longer path.")
    if len(rows) == count:
        what = f"{counted(count, 'value')} at {where}" if count else f"nothing: no value at {where}"
        return _view("\n".join(rows), what, " ".join(more))
    if not rows:
        rows = [cut(jsonpath.write_json(first_values[0], max_characters), tokens - 1) + "…"]
    prefix = "over " if count == MAX_COUNTED_VALUES else ""
    what = f"the first {len(rows):,} of {prefix}{counted(count, 'value')} at {where}"
    more.insert(0, f"{prefix}{count - len(rows):,} more; select a part, such as [0:10].")
    return _view("\n".join(rows), what, " ".join(more))


def _view(text: str, what: str, more: str = "", **following: Any) -> View:
    return View(text, estimate(text), what, more[:1].upper() + more[1:], following)


def _binary_view(file: IO[bytes]) -> View:
    size = file.seek(0, io.SEEK_END)
    what = f"binary content of {size:,} bytes, not shown as text"
    return _view("", what, "Search for text in it with a pattern, or read the raw content.")


def _value_view(value: Any, path: str, tokens: int) -> View:
    is_nested = isinstance(value, dict | list)
    max_characters = tokens * MAX_CHARACTERS_PER_TOKEN * INDENT_FACTOR
    if isinstance(value, str):
        text = jsonpath.replace_surrogates(value)
    else:
        text = jsonpath.write_json(value, max_characters, indent=2)
    shown = cut(text, tokens)
    description = f"{path}, {jsonpath.describe_value(value)}"
    is_complete = len(shown) == len(text) and not (is_nested and len(text) > max_characters)
    if is_complete:
        return _view(text, description)
    advice = "select a part of it with a longer path" if is_nested else "read it with pages"
    return _view(shown, f"the beginning of {description}", f"It does not fit; {advice}.")


def _matches_view(
    rows: list[tuple[int, str]], matches: int, searched: int, *, stopped: bool
) -> View:
    text = "\n".join(row for _, row in rows)
    where = counted(searched, "line")
    more = []
    if stopped:
        where += " that were searched"
        more.append(f"The search reached its time limit at line {searched:,}.")
    if not matches:
        return _view(text, f"nothing: no match in {where}", " ".join(more))
    matched = f"{counted(matches, 'match', 'matches')} in {where}"
    if len(rows) == matches:
        return _view(text, matched, " ".join(more))
    last = rows[-1][0] if rows else 1
    remaining = counted(matches - len(rows), "more match", "more matches")
    more.insert(0, f"{remaining} from line {last:,} on; narrow the pattern.")
    return _view(text, f"the first {len(rows):,} of {matched}", " ".join(more))


def _around(text: str, start: int, end: int) -> str:
    """Return a line; of a long line only the part around a match, cut between characters."""
    if len(text) <= 2 * CONTEXT_CHARACTERS:
        return text.removesuffix("\r")
    first = boundary(text, max(0, start - CONTEXT_CHARACTERS), up=True)
    last = min(end, start + CONTEXT_CHARACTERS) + CONTEXT_CHARACTERS
    last = boundary(text, min(len(text), last))
    before = "…" if first else ""
    after = "…" if last < len(text) else ""
    return f"{before}{text[first:last]}{after}"


def _check_tokens(tokens: int) -> int:
    return canonical.check_integer(tokens, "tokens", MIN_TOKENS, MAX_TOKENS)


def _are(count: int, singular: str) -> str:
    return f"{'is' if count == 1 else 'are'} {counted(count, singular)}"


def _line_range(first: int, last: int, total: int) -> str:
    if first == last:
        return f"line {first:,} of {total:,}"
    return f"lines {first:,}–{last:,} of {total:,}"


def _lines_after(first: int, last: int, total: int) -> dict[str, Any]:
    """Describe the lines after the lines that are shown, as arguments of `_view`."""
    if last == total:
        return {}
    return {
        "more": f"{counted(total - last, 'more line')}, from line {last + 1:,} on.",
        "lines": [last + 1, min(total, last + 1 + last - first)],
    }


def _lines_before(first_shown: int, first_wanted: int) -> dict[str, Any]:
    """Describe the lines before the lines that are shown, as arguments of `_view`."""
    if first_shown > first_wanted:
        return _lines_unshown(first_wanted, first_shown - 1)
    return {"more": f"{counted(first_shown - 1, 'line')} before."} if first_shown > 1 else {}


def _lines_unshown(first: int, last: int) -> dict[str, Any]:
    """Describe requested lines that did not fit, as arguments of `_view`."""
    where = f"line {first:,}" if first == last else f"lines {first:,}–{last:,}"
    return {
        "more": f"{counted(last - first + 1, 'line')} did not fit; ask for {where}.",
        "lines": [first, last],
    }


def _is_binary(file: IO[bytes]) -> bool:
    file.seek(0)
    return media_of(file.read(SAMPLE_BYTES)) == "binary"


def _decode(data: bytes, *, final: bool = True) -> str:
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data, final)


def _count_lines(file: IO[bytes]) -> int:
    """Return the number of lines; a last line without a line feed counts."""
    file.seek(0)
    count = 0
    last_byte = b"\n"
    while block := file.read(BLOCK_BYTES):
        count += block.count(b"\n")
        last_byte = block[-1:]
    return count + (last_byte != b"\n")


def _line_offset(file: IO[bytes], number: int) -> int:
    """Return the offset at which line `number` begins."""
    file.seek(0)
    offset = 0
    to_skip = number - 1
    while to_skip and (block := file.read(BLOCK_BYTES)):
        breaks = block.count(b"\n")
        if breaks < to_skip:
            to_skip -= breaks
            offset += len(block)
            continue
        position = -1
        for _ in range(to_skip):
            position = block.index(b"\n", position + 1)
        return offset + position + 1
    return offset


def _pages(file: IO[bytes], tokens: int) -> Iterator[str]:
    """Yield the pages; a page ends with a line if a line ends in its second half."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    max_characters = tokens * MAX_CHARACTERS_PER_TOKEN
    file.seek(0)
    text = ""
    position = 0
    at_end = False
    while True:
        while not at_end and len(text) - position <= max_characters:
            data = file.read(max(PIECE_CHARACTERS, max_characters))
            at_end = not data
            text = text[position:] + decoder.decode(data, at_end)
            position = 0
        if position == len(text):
            return
        is_last = at_end and len(text) - position <= max_characters
        page_text = _first_page(text[position : position + max_characters], tokens, is_last)
        position += len(page_text)
        yield page_text


def _first_page(text: str, tokens: int, is_last: bool) -> str:
    """Return the first page of a text; finding the longest possible page would take longer."""
    cost = estimate(text)
    if cost <= tokens and is_last:
        return text
    page_text = text[: len(text) * tokens // max(cost, tokens + 1)]
    while page_text and estimate(page_text) > tokens:
        page_text = page_text[: len(page_text) * 19 // 20]
    end = page_text.rfind("\n") + 1
    if end > len(page_text) // 2:
        return page_text[:end]
    # The last character may continue in the next block, so it is never part of this page.
    page_text = cut(text, min(tokens, cost - 1))
    if page_text:
        return page_text
    # One user-perceived character that is larger than a page.
    page_text = text[:tokens]
    while len(page_text) > 1 and estimate(page_text) > tokens:
        page_text = page_text[: len(page_text) // 2]
    return page_text


def _line_pieces(file: IO[bytes]) -> Iterator[tuple[int, str, int]]:
    """Yield lines with their number; a long line in pieces, each with its overlap."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    file.seek(0)
    number = 1
    rest = ""
    overlap = 0
    while data := file.read(BLOCK_BYTES):
        *complete, rest = (rest + decoder.decode(data)).split("\n")
        for line in complete:
            yield from _pieces(number, line, overlap)
            number += 1
            overlap = 0
        while len(rest) > PIECE_CHARACTERS:
            yield number, rest[:PIECE_CHARACTERS], overlap
            rest = rest[PIECE_CHARACTERS - OVERLAP_CHARACTERS :]
            overlap = OVERLAP_CHARACTERS
    rest += decoder.decode(b"", True)
    if rest:
        yield from _pieces(number, rest, overlap)


def _pieces(number: int, line: str, overlap: int) -> Iterator[tuple[int, str, int]]:
    while len(line) > PIECE_CHARACTERS:
        yield number, line[:PIECE_CHARACTERS], overlap
        line = line[PIECE_CHARACTERS - OVERLAP_CHARACTERS :]
        overlap = OVERLAP_CHARACTERS
    yield number, line, overlap

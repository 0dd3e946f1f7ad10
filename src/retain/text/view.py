"""Parts of a large content, each within so many tokens, and each saying how much more there is and how to see it.

Every function reads a seekable binary file in blocks, so a gigabyte costs no more memory than a megabyte.
Lines end at a line feed, as editors and `grep -n` count them. What is no text is shown as `xxd` shows it.
"""

from __future__ import annotations

import codecs
import io
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import IO, Any, cast

from retain.base import canonical
from retain.base.errors import Invalid
from retain.base.tokens import cut, estimate
from retain.text import jsonpath
from retain.text.budget import Budget
from retain.text.describe import media_of
from retain.text.hexdump import Hexdump
from retain.text.pattern import compiled, search
from retain.text.written import valid, written

LEAST_TOKENS = 50
MOST_TOKENS = 100_000
SEARCH_SECONDS = 10.0
_BLOCK = 1 << 20
_SAMPLE = 8 << 10
_CHARACTERS = 8  # of one token, at the most: more of a text is never looked at for a view
_INDENTED = 8  # times as many of one in a value with an indent, which is mostly spaces
_EXACT = 2 << 20  # up to this size, pages are counted and not estimated
_OVERLAP = (
    256  # characters at the end of one piece of a long line that are searched again with the next
)
_PIECE = 64 << 10  # characters of a line that are searched at once
_AROUND = 160  # characters of a long matching line that are shown on each side of the match
_MOST_VALUES = 100_000  # that a JSON path finds and that are counted


@dataclass(frozen=True)
class View:
    """Part of a content: its text and tokens, what it is, how much more there is, and the arguments to see what follows.

    `page` of `pages` where it is one; of a very large content, how many there are is an estimate until the last.
    """

    text: str
    tokens: int
    what: str
    more: str = ""
    next: Mapping[str, Any] = field(default_factory=dict)
    page: int | None = None
    pages: int | None = None


def whole(file: IO[bytes], tokens: int) -> View:
    """Everything, or the first page where that is too much."""
    return page(file, 1, tokens)


def page(file: IO[bytes], number: int, tokens: int) -> View:
    """One page; all pages of the same size, one after the other, are the content."""
    file, tokens = _readable(file), _bound(tokens)
    number = canonical.whole(number, "page", 1)
    total = _census(file)[1]
    line, size, text = 1, 0, ""
    pages = _pages(file, tokens)
    for place in range(number):
        line += text.count("\n")
        text = next(pages, "")
        size += len(text.encode())
        if not text and place:
            raise Invalid(
                field="page",
                problem=f"there {_are(place, 'page')} of {tokens:,} tokens, no page {number:,}",
            )
    if not text:
        return _view("", "nothing: the content is empty")
    what = _lines_of(line, line + text[:-1].count("\n"), total)
    if not next(pages, ""):
        what = (
            f"all of it, {_many(total, 'line')}"
            if number == 1
            else f"page {number:,} of {number:,}, {what}"
        )
        return replace(_view(text, what), page=number, pages=number)
    end = file.seek(0, io.SEEK_END)
    sure = end <= _EXACT
    left = 1 + sum(1 for _ in pages) if sure else max(1, round((end - size) / (size / number)))
    what = f"page {number:,} of {'' if sure else 'about '}{number + left:,}, {what}"
    more = f"{'' if sure else 'About '}{_many(left, 'more page')}; the next is page {number + 1:,}."
    return replace(_view(text, what, more, page=number + 1), page=number, pages=number + left)


def lines(file: IO[bytes], first: int, last: int, tokens: int) -> View:
    """The lines from one number to another, counted from 1."""
    file, tokens = _readable(file), _bound(tokens)
    first = canonical.whole(first, "lines", 1)
    last = canonical.whole(last, "lines", first)
    start, total = _census(file, first)
    if first > total:
        raise Invalid(field="lines", problem=f"there {_are(total, 'line')}, no line {first:,}")
    last = min(last, total)
    file.seek(start)
    parts = file.read(tokens * _CHARACTERS * 4).split(b"\n", last - first + 1)
    here = len(parts) > last - first + 1 or not file.read(
        1
    )  # all of it, and not only its beginning
    text = _decoded(b"\n".join(parts[: last - first + 1]), final=here)
    shown = cut(text, tokens)
    if here and len(shown) == len(text):
        return _view(text, _lines_of(first, last, total), **_rest(first, last, total))
    if text[len(shown) : len(shown) + 1] != "\n":
        shown = shown.rpartition("\n")[0]
    if shown:
        end = first + shown.count("\n")
        return _view(shown, _lines_of(first, end, total), **_unfit(end + 1, last))
    note = f" … (line {first:,} goes on; read it with pages, or with a pattern)"
    text = cut(text, tokens - estimate(note) - 1) + note
    return _view(
        text, f"the beginning of line {first:,} of {total:,}", **_rest(first, first, total)
    )


def head(file: IO[bytes], count: int, tokens: int) -> View:
    """The first lines."""
    count = canonical.whole(count, "head", 1)
    return lines(file, 1, count, tokens) if _size(file) else page(file, 1, tokens)


def tail(file: IO[bytes], count: int, tokens: int) -> View:
    """The last lines."""
    count = canonical.whole(count, "tail", 1)
    file, tokens = _readable(file), _bound(tokens)
    end = _size(file)
    if not end:
        return page(file, 1, tokens)
    total = _census(file)[1]
    first = max(1, total - count + 1)
    start = _census(file, first)[0]
    begin = max(start, end - tokens * _CHARACTERS * 4)
    file.seek(begin)
    raw = file.read(end - begin)
    if begin > start:
        raw = raw.lstrip(bytes(range(0x80, 0xC0)))  # the rest of a character that began before
    text = _decoded(raw).removesuffix("\n")
    shown = cut(text, tokens, end=True)
    if begin > start or len(shown) < len(text):
        before = text[len(text) - len(shown) - 1] if len(shown) < len(text) else ""
        shown = shown if before == "\n" else shown.partition("\n")[2]
    if not shown and text:
        note = f"(line {total:,} begins before this; read it with pages, or with a pattern) … "
        text = note + cut(text, tokens - estimate(note) - 1, end=True)
        return _view(text, f"the end of line {total:,} of {total:,}", **_before(total, first))
    at = total - shown.count("\n")
    return _view(shown, _lines_of(at, total, total), **_before(at, first))


def grep(file: IO[bytes], pattern: str, tokens: int) -> View:
    """The lines in which a regular expression finds something, with their numbers, and how many there are."""
    tokens = _bound(tokens)
    wanted = compiled(pattern)
    budget = Budget(SEARCH_SECONDS)
    rows: list[tuple[int, str]] = []
    used = matches = number = 0
    for number, text, old in _pieces(file):
        match = search(wanted, text, old)
        if match:
            matches += 1
            if used <= tokens:
                rows.append((number, f"{number}:{_around(text, *match.span())}"))
                used += estimate(rows[-1][1])
        if budget.over():
            break
    while rows and estimate("\n".join(row for _, row in rows)) > tokens:
        rows.pop()
    return _matches(rows, matches, number, stopped=budget.is_spent)


def path(file: IO[bytes], path: str, tokens: int) -> View:
    """What a JSON path such as `$.items[0].name` leads to: one value as it is, several one per line."""
    tokens = _bound(tokens)
    if media_of(_sample(file)) == "binary":
        raise Invalid(field="path", problem="leads nowhere: the content is not JSON but binary")
    budget = Budget(SEARCH_SECONDS)
    values = jsonpath.select(file, path, budget)
    found = list(itertools.islice(values, 2))
    if len(found) == 1 and not budget.is_spent:
        return _one_value(found[0], path, tokens)
    rows: list[str] = []
    used = count = 0
    for value in itertools.islice(itertools.chain(found, values), _MOST_VALUES):
        count += 1
        if used <= tokens:
            rows.append(written(value, tokens * _CHARACTERS))
            used += estimate(rows[-1])
    while rows and estimate("\n".join(rows)) > tokens:
        rows.pop()
    stopped = f"The search was stopped after {SEARCH_SECONDS:.0f} seconds; ask for a part by a longer path."
    more = [stopped] if budget.is_spent else []
    where = f"{path} in what was searched" if budget.is_spent else path
    if len(rows) == count:
        what = f"{_many(count, 'value')} at {where}" if count else f"nothing: no value at {where}"
        return _view("\n".join(rows), what, " ".join(more))
    if not rows:
        rows = [cut(written(found[0], tokens * _CHARACTERS), tokens - 1) + "…"]
    about = "over " if count == _MOST_VALUES else ""
    what = f"the first {len(rows):,} of {about}{_many(count, 'value')} at {where}"
    more.insert(
        0, f"{about}{count - len(rows):,} more; ask for a part, such as [0:10] instead of [*]."
    )
    return _view("\n".join(rows), what, " ".join(more))


def _view(text: str, what: str, more: str = "", **following: Any) -> View:
    return View(text, estimate(text), what, more[:1].upper() + more[1:], following)


def _one_value(value: Any, path: str, tokens: int) -> View:
    nested = isinstance(value, dict | list | jsonpath.Large)
    most = tokens * _CHARACTERS * (1 if isinstance(value, jsonpath.Large) else _INDENTED)
    text = valid(value) if isinstance(value, str) else written(value, most, indent=2)
    shown = cut(text, tokens)
    if (
        len(shown) == len(text)
        and not isinstance(value, jsonpath.Large)
        and not (nested and len(text) > most)
    ):
        return _view(text, f"{path}, {jsonpath.shape(value)}")
    advice = "ask for a part of it by a longer path" if nested else "read it with pages"
    return _view(
        shown, f"the beginning of {path}, {jsonpath.shape(value)}", f"It does not fit; {advice}."
    )


def _matches(rows: list[tuple[int, str]], matches: int, searched: int, *, stopped: bool) -> View:
    text = "\n".join(row for _, row in rows)
    of = f"{_many(searched, 'line')}{' that were searched' if stopped else ''}"
    more = []
    if stopped:
        more.append(
            f"The search was stopped at line {searched:,} after {SEARCH_SECONDS:.0f} seconds."
        )
    if len(rows) == matches:
        what = (
            f"{_many(matches, 'match', 'matches')} in {of}"
            if matches
            else f"nothing: no match in {of}"
        )
        return _view(text, what, " ".join(more))
    last = rows[-1][0] if rows else 1
    more.insert(
        0,
        f"{_many(matches - len(rows), 'more match', 'more matches')} from line {last:,} on; narrow the pattern.",
    )
    return _view(
        text,
        f"the first {len(rows):,} of {_many(matches, 'match', 'matches')} in {of}",
        " ".join(more),
    )


def _around(text: str, start: int, end: int) -> str:
    """A line, or of a long one what is around a match, without splitting what people see as one character."""
    if len(text) <= 2 * _AROUND:
        return text.removesuffix("\r")
    first = _between(text, max(0, start - _AROUND), up=True)
    last = _between(text, min(len(text), min(end, start + _AROUND) + _AROUND))
    return f"{'…' if first else ''}{text[first:last]}{'…' if last < len(text) else ''}"


def _between(text: str, place: int, *, up: bool = False) -> int:
    """The nearest place, down or up, that is between two characters as people see them."""
    import regex

    start = place
    while 0 < start < len(text) and max(text[start - 1], text[start]) >= "\u0300":
        start -= 1
    for cluster in regex.finditer(r"\X", text[start : place + _OVERLAP]):
        if start + cluster.end() > place:
            return start + (
                cluster.end() if up and start + cluster.start() < place else cluster.start()
            )
    return place


def _bound(tokens: int) -> int:
    return canonical.whole(tokens, "tokens", LEAST_TOKENS, MOST_TOKENS)


def _many(count: int, one: str, several: str = "") -> str:
    return f"{count:,} {one}" if count == 1 else f"{count:,} {several or one + 's'}"


def _are(count: int, one: str) -> str:
    return f"{'is' if count == 1 else 'are'} {_many(count, one)}"


def _lines_of(first: int, last: int, total: int) -> str:
    return (
        f"line {first:,} of {total:,}"
        if first == last
        else f"lines {first:,}–{last:,} of {total:,}"
    )


def _rest(first: int, last: int, total: int) -> dict[str, Any]:
    """How many lines follow the ones that are shown."""
    if last == total:
        return {}
    following = [last + 1, min(total, last + 1 + last - first)]
    return {
        "more": f"{_many(total - last, 'more line')}, from line {last + 1:,} on.",
        "lines": following,
    }


def _before(shown: int, wanted: int) -> dict[str, Any]:
    """How many lines come before the ones that are shown."""
    if shown > wanted:
        return _unfit(wanted, shown - 1)
    return {"more": f"{_many(shown - 1, 'line')} before."} if shown > 1 else {}


def _unfit(first: int, last: int) -> dict[str, Any]:
    """That lines which were asked for are not shown."""
    where = f"line {first:,}" if first == last else f"lines {first:,}–{last:,}"
    return {
        "more": f"{_many(last - first + 1, 'line')} did not fit; ask for {where}.",
        "lines": [first, last],
    }


def _size(file: IO[bytes]) -> int:
    return file.seek(0, io.SEEK_END)


def _sample(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read(_SAMPLE)


def _decoded(raw: bytes, *, final: bool = True) -> str:
    return codecs.getincrementaldecoder("utf-8")("replace").decode(raw, final)


def _readable(file: IO[bytes]) -> IO[bytes]:
    """The file, or its bytes in hexadecimal where it is no text."""
    dumped = not isinstance(file, Hexdump) and media_of(_sample(file)) == "binary"
    return cast(IO[bytes], Hexdump(file)) if dumped else file


def _census(file: IO[bytes], line: int = 1) -> tuple[int, int]:
    """Where a line begins, and how many lines there are; a line without an end is one too."""
    if isinstance(file, Hexdump):
        return (line - 1) * file.WIDTH, file.lines
    file.seek(0)
    start = count = place = 0
    last = b"\n"
    while block := file.read(_BLOCK):
        here = block.count(b"\n")
        if count < line - 1 <= count + here:
            at = -1
            for _ in range(line - 1 - count):
                at = block.index(b"\n", at + 1)
            start = place + at + 1
        count += here
        place += len(block)
        last = block[-1:]
    return start, count + (last != b"\n")


def _pages(file: IO[bytes], tokens: int) -> Iterator[str]:
    """The content, cut where a line ends if one ends in the second half of a page."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    size = tokens * _CHARACTERS
    file.seek(0)
    text, at, ended = "", 0, False
    while True:
        while not ended and len(text) - at <= size:
            raw = file.read(max(_PIECE, size))
            text, at, ended = text[at:] + decoder.decode(raw, not raw), 0, not raw
        if at == len(text):
            return
        found = _one_page(text[at : at + size], tokens, last=ended and len(text) - at <= size)
        at += len(found)
        yield found


def _one_page(text: str, tokens: int, *, last: bool) -> str:
    """The beginning of a text that is a page: not the longest possible, which would take many more estimates to find."""
    cost = estimate(text)
    if cost <= tokens and last:
        return text
    found = text[: len(text) * tokens // max(cost, tokens + 1)]
    while found and estimate(found) > tokens:
        found = found[: len(found) * 19 // 20]
    end = found.rfind("\n") + 1
    if end > len(found) // 2:
        return found[:end]
    found = cut(
        text, min(tokens, cost - 1)
    )  # what is last in the text may go on behind it, so it never is in the page
    return found or _codepoints(text, tokens)


def _codepoints(text: str, tokens: int) -> str:
    """The beginning of one character, as people see it, that is larger than a page."""
    found = text[:tokens]
    while len(found) > 1 and estimate(found) > tokens:
        found = found[: len(found) // 2]
    return found


def _pieces(file: IO[bytes]) -> Iterator[tuple[int, str, int]]:
    """Every line with its number; a long one in several pieces, each with how much of it was in the piece before."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    file.seek(0)
    number, text, old = 1, "", 0
    while raw := file.read(_BLOCK):
        *whole_lines, rest = (text + decoder.decode(raw)).split("\n")
        for line in whole_lines:
            if len(line) <= _PIECE:
                yield number, line, old
            else:
                yield from _pieces_of(number, line, old)
            number, old = number + 1, 0
        while len(rest) > _PIECE:
            yield number, rest[:_PIECE], old
            rest, old = rest[_PIECE - _OVERLAP :], _OVERLAP
        text = rest
    text += decoder.decode(b"", True)
    if text:
        yield from _pieces_of(number, text, old)


def _pieces_of(number: int, line: str, old: int) -> Iterator[tuple[int, str, int]]:
    while len(line) > _PIECE:
        yield number, line[:_PIECE], old
        line, old = line[_PIECE - _OVERLAP :], _OVERLAP
    yield number, line, old

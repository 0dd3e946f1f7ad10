"""A small JSON path over a content of any size: `$.items[0].name`, `['a key']`, `[-1]`, `[1:3]`, `[*]`, `.*`, `..name`.

Only what the path leads to is parsed. Whatever is larger than a few megabytes is walked in the file, where its children are
found by skipping over them, so the memory that a path takes does not grow with the content. One JSON value per line is read
as an array of them. An error says how far the path makes sense and what there is to choose from. A path can ask for more
work than anybody waits for, so there is a budget for it.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import itertools
import json
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from retain.base.errors import Invalid, TooLarge
from retain.text.budget import Budget, Spent

MOST_CHARACTERS = 1000
MOST_STEPS = 64
MOST_LARGE = 100
"""Large values in one another, each of which has to be skipped once more; beside them, what a parser takes."""
_DEEPEST = 1000
_LOAD = 4 << 20  # a value up to this size is parsed whole
_WINDOW = 256 << 10
_KEYS = 12
_STEP = re.compile(
    r"""\.\.(?P<deep>[^\W\d][\w-]*|\*)|\.(?P<star>\*)|\.(?P<name>[\w-]+)|\[\s*(?:(?P<all>\*)|(?P<index>-?\d{1,15})
    |(?P<slice>-?\d{0,15}\s*:\s*-?\d{0,15})|'(?P<single>(?:[^'\\]|\\.)*)'|"(?P<double>(?:[^"\\]|\\.)*)")\s*\]""",
    re.VERBOSE,
)
_SOLID = re.compile(rb"\S")
_TEXT = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_DEPTH = 6


def _nested(depth: int) -> bytes:
    """An expression for objects and arrays up to a depth, skipped in one go; nothing in them is ever tried twice."""
    inner = rb"|" + _nested(depth - 1) if depth > 1 else b""
    return rb"[\[{](?:[^\"{}\[\]]++|" + _TEXT + inner + rb")*+[\]}]"


_NESTED = _nested(_DEPTH)
_STRUCTURE = re.compile(_NESTED + rb"|" + _TEXT + rb'|[{}\[\]"]', re.DOTALL)
_VALUE = re.compile(_NESTED + rb"|" + _TEXT + rb"|[^\s,:{}\[\]\"]++", re.DOTALL)
_IN_STRING = re.compile(rb'["\\]')
_SCALAR_END = re.compile(rb"[,\]}\s]")
_TOO_DEEP = "cannot be followed: the content is nested too deep"
_HOW = "write .name, ['a name'], [0], [-1], [1:3], [*], .* or ..name"

Step = tuple[str, Any]


@dataclass(frozen=True)
class Large:
    """A value that is too large to parse, by where it lies; `mark` is how it begins, and `lines` for one value per line."""

    source: _Source
    start: int
    end: int
    mark: str

    def text(self, size: int) -> str:
        """How it begins, as it is written."""
        self.source.file.seek(self.start)
        return self.source.file.read(min(size, self.end - self.start)).decode("utf-8", "ignore")


def select(file: IO[bytes], path: str, budget: Budget) -> Iterator[Any]:
    """The values that a path leads to, in the order of the content, parsed or `Large`; no more once the budget is spent."""
    left = steps(path)
    with contextlib.suppress(Spent):
        yield from _walk(_root(_Source(file, budget)), left, "$", budget, sure=True)


def steps(path: str) -> list[Step]:
    """The steps of a path, or an error that says where it stops to make sense."""
    if not isinstance(path, str) or not path.strip():
        raise Invalid(
            field="path", problem="must be a JSON path such as $.items[0].name; $ is everything"
        )
    path = path.strip()
    if len(path) > MOST_CHARACTERS:
        raise TooLarge(field="path", size=len(path), unit="characters", limit=MOST_CHARACTERS)
    rest = path[1:] if path.startswith("$") else path if path[0] in ".[" else f".{path}"
    found: list[Step] = []
    place = 0
    while place < len(rest):
        step = _STEP.match(rest, place)
        if not step:
            good, bad = f"${rest[:place]}", rest[place : place + 20]
            raise Invalid(
                field="path", problem=f"makes sense up to {good} and not at {bad!r}: {_HOW}"
            )
        found.append(_step(step))
        place = step.end()
    if len(found) > MOST_STEPS:
        raise TooLarge(field="path", size=len(found), unit="steps", limit=MOST_STEPS)
    return found


def shape(value: Any) -> str:
    """What a value is, in a few words."""
    if isinstance(value, Large) and not _has_children(value):
        return "text" if value.mark == '"' else "a large number"
    if isinstance(value, Large):
        return (
            f"an object with the keys {_listed(_names(value, _KEYS + 1))}"
            if value.mark == "{"
            else "a large array"
        )
    if isinstance(value, dict):
        return f"an object with the keys {_listed(list(value))}" if value else "an empty object"
    if isinstance(value, list):
        return f"an array of {len(value):,}" if value else "an empty array"
    words = {str: "text", bool: "true or false", int: "a number", float: "a number"}
    return words.get(type(value), "null")


def _names(value: Large, most: int) -> list[str]:
    """The first names in a large object; fewer where looking for them is too much work."""
    names: list[str] = []
    with contextlib.suppress(Spent):
        names.extend(str(span[0]) for span in itertools.islice(_spans(value), most))
    return names


def _step(step: re.Match[str]) -> Step:
    kind = str(step.lastgroup)
    given = step[kind]
    if kind in ("star", "all"):
        return "all", None
    if kind == "index":
        return "index", int(given)
    if kind == "slice":
        first, last = (int(number) if number.strip() else None for number in given.split(":"))
        return "slice", slice(first, last)
    if kind in ("single", "double"):
        return "name", re.sub(r"\\(.)", r"\1", given)
    return kind, given


def _walk(value: Any, left: list[Step], here: str, budget: Budget, *, sure: bool) -> Iterator[Any]:
    """Follow the steps that are left; where the path is `sure` of one place, a wrong step is an error and not nothing."""
    budget.check()
    if not left:
        yield value
        return
    (kind, wanted), rest = left[0], left[1:]
    if kind == "deep":
        for found in _deep(value, wanted, budget):
            yield from _walk(found, rest, f"{here}..{wanted}", budget, sure=False)
        return
    if kind in ("name", "index"):
        found = _only(value, kind, wanted)
        if found:
            step = f".{wanted}" if kind == "name" else f"[{wanted}]"
            yield from _walk(found[0], rest, here + step, budget, sure=sure)
        elif sure:
            raise Invalid(field="path", problem=_missing(value, kind, wanted, here))
        return
    if sure and not _has_children(value):
        raise Invalid(field="path", problem=f"goes on after {here}, which is {shape(value)}")
    if kind == "slice" and sure and not _is_list(value):
        raise Invalid(field="path", problem=f"takes elements of {here}, which is {shape(value)}")
    for name, child in _slice(value, wanted) if kind == "slice" else _children(value):
        yield from _walk(child, rest, f"{here}[{name}]", budget, sure=False)


def _only(value: Any, kind: str, wanted: Any) -> list[Any]:
    """The one child that a step names, in a list, which is empty where there is none."""
    if kind == "name":
        if isinstance(value, dict):
            return [value[wanted]] if wanted in value else []
        if isinstance(value, Large) and value.mark == "{":
            spans = (span for span in _spans(value) if span[0] == wanted)
            return [_node(value.source, *span[1:]) for span in itertools.islice(spans, 1)]
        return []
    if isinstance(value, list):
        return [value[wanted]] if -len(value) <= wanted < len(value) else []
    if not _is_list(value):
        return []
    every = _spans(value)
    if wanted < 0:
        kept = deque(every, maxlen=-wanted) if wanted >= -_WINDOW else deque()
        return [_node(value.source, *kept[0][1:])] if len(kept) == -wanted else []
    return [_node(value.source, *span[1:]) for span in itertools.islice(every, wanted, wanted + 1)]


def _slice(value: Any, wanted: slice) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, list):
        yield from list(enumerate(value))[wanted]
    elif _is_list(value):
        first, last = wanted.start, wanted.stop
        if (first or 0) < 0 or (last or 0) < 0:
            first, last, _ = wanted.indices(sum(1 for _ in _spans(value)))
        for span in itertools.islice(_spans(value), first, last):
            yield span[0], _node(value.source, *span[1:])


def _children(value: Any, wanted: str = "*") -> Iterator[tuple[Any, Any]]:
    """The children of a value; of a large one, only those that can have a wanted name in them or on them."""
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)
    elif _has_children(value):
        quoted = re.compile(re.escape(json.dumps(wanted, ensure_ascii=False).encode()) + rb"|\\u")
        at = -1 if wanted != "*" else value.end
        look = _Source(value.source.file, value.source.budget)
        for name, start, end in _spans(value):
            if wanted != "*" and at < start:
                at = look.find(quoted, start, len(quoted.pattern))[0]
            if name == wanted or at < end or wanted == "*":
                yield name, _node(value.source, start, end)


def _deep(value: Any, wanted: str, budget: Budget) -> Iterator[Any]:
    """Everything under a name, at any depth, outer ones first; without recursion, so that nesting takes no stack."""
    open_ = [_children(value, wanted)]
    while open_:
        for name, child in open_[-1]:
            budget.check()
            if wanted in ("*", name):
                yield child
            if _has_children(child):
                if isinstance(child, Large) and len(open_) >= MOST_LARGE:
                    raise Invalid(field="path", problem=_TOO_DEEP)
                open_.append(_children(child, wanted))
                break
        else:
            open_.pop()


def _has_children(value: Any) -> bool:
    return isinstance(value, dict | list) or (
        isinstance(value, Large) and value.mark in ("{", "[", "lines")
    )


def _is_list(value: Any) -> bool:
    return isinstance(value, list) or (isinstance(value, Large) and value.mark in ("[", "lines"))


def _missing(value: Any, kind: str, wanted: Any, here: str) -> str:
    """Why a step leads nowhere, and where it could lead."""
    if kind == "index":
        if not _is_list(value):
            return f"takes an element of {here}, which is {shape(value)}"
        size = len(value) if isinstance(value, list) else sum(1 for _ in _spans(value))
        return f"takes element {wanted} of {here}, which is an array of {size:,}"
    if _is_list(value):
        return (
            f"looks for {wanted!r} in {here}, which is {shape(value)}: write [0] or [*] before it"
        )
    if not _has_children(value):
        return f"looks for {wanted!r} in {here}, which is {shape(value)}"
    names = list(value) if isinstance(value, dict) else _names(value, 1000)
    close = difflib.get_close_matches(wanted, names[:1000], 1)
    meant = f"did you mean {close[0]!r}? " if close else ""
    return f"looks for {wanted!r} in {here}, which does not have it; {meant}it has {_listed(names) or 'no keys'}"


def _listed(names: list[Any]) -> str:
    some = ", ".join(str(name)[:40] for name in names[:_KEYS])
    return f"{some} and {len(names) - _KEYS:,} more" if len(names) > _KEYS else some


class _Source:
    """A file, read through a window."""

    def __init__(self, file: IO[bytes], budget: Budget) -> None:
        self.file = file
        self.budget = budget
        self._base, self._data = 0, b""

    def find(self, wanted: re.Pattern[bytes], place: int, longest: int = 1) -> tuple[int, bytes]:
        """Where the next of a kind is, at most so many bytes long, and which it is; b'' at the end of the file."""
        while self.has(place):
            if found := wanted.search(self._data, place - self._base):
                return self._base + found.start(), found.group()
            place = self._base + len(self._data)
            if longest > 1 and len(self._data) == _WINDOW:
                place -= longest - 1  # one may begin here and end behind the window
                self._load(place)
        return place, b""

    def has(self, place: int) -> bool:
        """Bring a place into the window; False at the end of the file."""
        if not self._base <= place < self._base + len(self._data):
            self._load(place)
        return bool(self._data)

    def _load(self, place: int) -> None:
        self.budget.check()
        self.file.seek(place)
        self._base, self._data = place, self.file.read(_WINDOW)

    def after(self, place: int) -> int:
        """The place behind the value that begins at a place."""
        place, first = self.find(_SOLID, place)
        small = _VALUE.match(self._data, place - self._base)
        if small and small.end() < len(
            self._data
        ):  # at the end of the window a number may go on behind it
            return self._base + small.end()
        if first == b'"':
            return self._after_text(place)
        if first in (b"{", b"["):
            return self._after_nested(place)
        if not first or first in b",:]}":
            raise Invalid(
                field="path",
                problem=f"cannot be followed: the content is not valid JSON at byte {place:,}",
            )
        return self.find(_SCALAR_END, place)[0]

    def _after_text(self, place: int) -> int:
        while True:
            place, found = self.find(_IN_STRING, place + 1)
            if found == b'"':
                return place + 1
            if not found:
                raise Invalid(
                    field="path", problem="cannot be followed: the content ends inside a text"
                )
            place += 1

    def _after_nested(self, place: int) -> int:
        depth = 0
        while self.has(place):
            for found in _STRUCTURE.finditer(self._data, place - self._base):
                mark = found.group() if found.end() - found.start() == 1 else b""
                if mark == b'"':  # a text that goes on behind the window
                    place = self._after_text(self._base + found.start())
                    break
                depth += 1 if mark in (b"{", b"[") else -1 if mark else 0
                if depth > _DEEPEST:
                    raise Invalid(field="path", problem=_TOO_DEEP)
                if not depth:
                    return self._base + found.end()
            else:
                place = self._base + len(self._data)
        raise Invalid(
            field="path", problem="cannot be followed: the content ends before it is whole JSON"
        )


def _root(source: _Source) -> Any:
    """The whole content; one value per line is an array."""
    file = source.file
    end = file.seek(0, io.SEEK_END)
    start, first = source.find(_SOLID, 0)
    if not first:
        raise Invalid(field="path", problem="leads nowhere: the content is empty")
    if first not in (b"{", b"["):
        return _node(source, start, end)
    file.seek(start)
    line = file.readline(_WINDOW)
    if line.endswith(b"\n") and source.find(_SOLID, start + len(line))[1] in (b"{", b"["):
        try:
            json.loads(line)
            return Large(source, start, end, "lines")
        except (ValueError, RecursionError):
            pass  # an ordinary value over several lines
    return _node(source, start, end)


def _node(source: _Source, start: int, end: int) -> Any:
    """The value between two places: parsed, or where it lies."""
    start, first = source.find(_SOLID, start)
    if end - start > _LOAD:
        return Large(source, start, end, first.decode("utf-8", "replace"))
    source.file.seek(start)
    try:
        return json.loads(source.file.read(end - start))
    except RecursionError:
        raise Invalid(field="path", problem=_TOO_DEEP) from None
    except ValueError as error:
        raise Invalid(
            field="path", problem=f"cannot be followed: the content is not valid JSON ({error})"
        ) from None


def _spans(value: Large) -> Iterator[tuple[Any, int, int]]:
    """The children of a large value: name or number, and where each begins and ends."""
    source, place = value.source, value.start + (value.mark != "lines")
    for number in itertools.count():
        place, mark = source.find(_SOLID, place)
        if mark in (b"]", b"}") or (not mark and value.mark == "lines"):
            return
        if number and value.mark != "lines":
            place, mark = source.find(_SOLID, place + 1) if mark == b"," else (place, b"")
        name: Any = number
        if value.mark == "{" and mark == b'"':
            end = source.after(place)
            name = _node(source, place, end)
            place, mark = source.find(_SOLID, end)
            place, mark = (place + 1, mark) if mark == b":" else (place, b"")
        if not mark or value.mark not in ("{", "[", "lines"):
            raise Invalid(
                field="path",
                problem=f"cannot be followed: the content is not valid JSON at byte {place:,}",
            )
        end = source.after(place)
        yield name, place, end
        place = end

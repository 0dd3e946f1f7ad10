"""JSON paths (RFC 9535, without filters) over a stored content.

The whole content is parsed, so it has a size limit. JSON Lines are read as an array. If a path to a
single value selects nothing, the error lists the keys that exist.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import itertools
import json
from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any

from memorist.base.errors import Invalid, TooLarge
from memorist.text.time_limit import TimeLimit, TimeLimitExceeded

if TYPE_CHECKING:
    from jsonpath.segments import JSONPathSegment

MAX_CONTENT_BYTES = 8 << 20
MAX_PATH_CHARACTERS = 1000
MAX_PATH_SEGMENTS = 64
MAX_LISTED_KEYS = 12

Json = Any
_SYNTAX = "use .name, ['a name'], [0], [-1], [1:3], [*], .* or ..name"


def select(file: IO[bytes], path: str, time_limit: TimeLimit) -> Iterator[Json]:
    """Yield the values that a path selects, in document order, until the time is used up."""
    segments = parse_path(path)
    root = _load(file)
    _check_exists(root, itertools.takewhile(_is_singular, segments))
    with contextlib.suppress(TimeLimitExceeded):
        yield from _resolve(root, segments, time_limit)


def parse_path(path: str) -> tuple[JSONPathSegment, ...]:
    """Parse a path; a leading `$` may be left out."""
    from jsonpath import JSONPathEnvironment, JSONPathError  # slow to import

    if not isinstance(path, str) or not path.strip():
        raise Invalid(
            field="path",
            problem="must be a JSON path such as $.items[0].name; $ selects everything",
        )
    path = path.strip()
    if len(path) > MAX_PATH_CHARACTERS:
        raise TooLarge(field="path", size=len(path), unit="characters", limit=MAX_PATH_CHARACTERS)
    if not path.startswith("$"):
        path = f"${path}" if path[0] in ".[" else f"$.{path}"
    try:
        query: Any = JSONPathEnvironment(strict=True).compile(path)
        segments = tuple(query.segments)
    except (JSONPathError, AttributeError) as error:
        index = getattr(getattr(error, "token", None), "index", 0)
        raise Invalid(
            field="path",
            problem=f"is not a JSON path: {error.args[0]} at character {index + 1}; {_SYNTAX}",
        ) from None
    if len(segments) > MAX_PATH_SEGMENTS:
        raise TooLarge(field="path", size=len(segments), unit="segments", limit=MAX_PATH_SEGMENTS)
    for segment in segments:
        for selector in segment.selectors:
            if type(selector).__name__ not in _SELECTORS:
                raise Invalid(field="path", problem=f"uses an unsupported selector; {_SYNTAX}")
    return segments


def describe_value(value: Json) -> str:
    """Describe a value in a few words."""
    if isinstance(value, dict):
        return f"an object with the keys {_join_names(list(value))}" if value else "an empty object"
    if isinstance(value, list):
        return f"an array of {len(value):,}" if value else "an empty array"
    names = {str: "text", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(value), "null")


def write_json(value: Json, max_characters: int, indent: int | None = None) -> str:
    """Return a value as JSON; with an indent, only about `max_characters` of it."""
    if indent is None:
        return replace_surrogates(json.dumps(value, ensure_ascii=False))
    # A deeply nested value is mostly indentation, so writing stops once there is enough.
    pieces: list[str] = []
    size = 0
    try:
        for piece in json.JSONEncoder(ensure_ascii=False, indent=indent).iterencode(value):
            pieces.append(piece)
            size += len(piece)
            if size > max_characters:
                break
    except RecursionError:
        return write_json(value, max_characters)
    return replace_surrogates("".join(pieces))


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which JSON can hold and UTF-8 cannot."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _load(file: IO[bytes]) -> Json:
    size = file.seek(0, io.SEEK_END)
    if size > MAX_CONTENT_BYTES:
        raise Invalid(
            field="path",
            problem=f"works on content of up to {MAX_CONTENT_BYTES:,} bytes; this content has "
            f"{size:,}; read it with lines, head, tail, grep or pages",
        )
    file.seek(0)
    content = file.read().strip()
    if not content:
        raise Invalid(field="path", problem="selects nothing: the content is empty")
    try:
        return json.loads(content)
    except RecursionError:
        raise Invalid(
            field="path", problem="cannot be used: the content is nested too deeply"
        ) from None
    except ValueError as error:
        try:
            return [json.loads(line) for line in content.splitlines() if line.strip()]
        except (ValueError, RecursionError):
            raise Invalid(
                field="path", problem=f"cannot be used: the content is not valid JSON ({error})"
            ) from None


def _resolve(
    value: Json, segments: tuple[JSONPathSegment, ...], time_limit: TimeLimit
) -> Iterator[Json]:
    time_limit.check()
    if not segments:
        yield value
        return
    nodes = _descendants(value, time_limit) if _is_recursive(segments[0]) else iter((value,))
    for node in nodes:
        for selector in segments[0].selectors:
            for child in _children(node, selector):
                yield from _resolve(child, segments[1:], time_limit)


def _descendants(value: Json, time_limit: TimeLimit) -> Iterator[Json]:
    """Yield a value and all values inside it, outer values first, without recursion."""
    stack = [value]
    while stack:
        time_limit.check()
        node = stack.pop()
        yield node
        if isinstance(node, dict):
            stack.extend(reversed(node.values()))
        elif isinstance(node, list):
            stack.extend(reversed(node))


def _children(value: Json, selector: Any) -> list[Json]:
    kind = type(selector).__name__
    if isinstance(value, dict):
        if kind == "WildcardSelector":
            return list(value.values())
        if kind == "NameSelector" and selector.name in value:
            return [value[selector.name]]
    elif isinstance(value, list):
        if kind == "WildcardSelector":
            return value
        if kind == "SliceSelector":
            return list(value[selector.slice])
        if kind == "IndexSelector" and -len(value) <= selector.index < len(value):
            return [value[selector.index]]
    return []


_SELECTORS = ("NameSelector", "IndexSelector", "SliceSelector", "WildcardSelector")


def _is_recursive(segment: JSONPathSegment) -> bool:
    return type(segment).__name__ == "JSONPathRecursiveDescentSegment"


def _is_singular(segment: JSONPathSegment) -> bool:
    names = ("NameSelector", "IndexSelector")
    return (
        not _is_recursive(segment)
        and len(segment.selectors) == 1
        and type(segment.selectors[0]).__name__ in names
    )


def _check_exists(value: Json, segments: Iterable[JSONPathSegment]) -> None:
    """Raise an error that says where a path ends, and which keys exist there."""
    path = "$"
    for segment in segments:
        selector: Any = segment.selectors[0]
        children = _children(value, selector)
        if not children:
            raise Invalid(
                field="path", problem=f"selects nothing: {_missing(value, selector, path)}"
            )
        value = children[0]
        name = getattr(selector, "name", None)
        path += f"[{selector.index}]" if name is None else f".{name}"


def _missing(value: Json, selector: Any, path: str) -> str:
    is_object = isinstance(value, dict)
    name = getattr(selector, "name", None)
    if name is None or not is_object:
        hint = "; use [0] or [*]" if name is not None and isinstance(value, list) else ""
        return f"{path} is {describe_value(value)}{hint}"
    close = difflib.get_close_matches(name, list(value)[:1000], 1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    return f"{path} has no key {name!r}{hint} Its keys: {_join_names(list(value)) or 'none'}"


def _join_names(names: list[str]) -> str:
    names_text = ", ".join(name[:40] for name in names[:MAX_LISTED_KEYS])
    more = len(names) - MAX_LISTED_KEYS
    return f"{names_text} and {more:,} more" if more > 0 else names_text

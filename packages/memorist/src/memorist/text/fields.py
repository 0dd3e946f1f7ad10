"""Paths and filters over JSON objects.

A path consists of names separated by dots. `[0]`, `[-1]` and `[*]` select list elements, `*` all
values of an object or a list, `{a,b.c}` several fields of one object, and `$` the whole value. A
filter maps field names to the values that they must have, or to comparisons, such as
`{"price": {"$gte": 10, "$lt": 20}}`.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from memorist.base.errors import Invalid

MAX_TEXTS = 64  # indexed separately; the rest is joined into one text
MAX_VISITS = 1_000_000
"""Values that the paths of one object visit. What they would select beyond them is not indexed."""
MAX_TEXT_CHARACTERS = 16_000_000
"""Size of the texts that are selected, without the last one."""

_STEP = re.compile(r"\[([^\]]*)\]|\{([^}]*)\}|([^.\[{]+)")
_ORDERINGS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
_COMPARISONS = ("$eq", "$ne", *_ORDERINGS)

Step = tuple[str, str, str]
"""An index, several fields, or a name: one of the three is not empty."""


def texts(value: Mapping[str, Any], paths: Sequence[str] | None = None) -> list[str]:
    """Return the distinct texts at some paths; without paths, the whole object as one text."""
    if paths is None:
        text = "\n".join(_lines("", value))
        return [text] if text else []
    visits = iter(range(MAX_VISITS))
    selected = _distinct(inner for path in paths for inner in _select(value, path, visits))
    distinct = list(dict.fromkeys(_as_texts(selected)))
    if len(distinct) > MAX_TEXTS:
        rest = "\n".join(distinct[MAX_TEXTS - 1 :])
        distinct = [*distinct[: MAX_TEXTS - 1], rest]
    return distinct


def _lines(name: str, value: Any) -> Iterator[str]:
    """Yield each text and number with its name, because names often explain values."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _lines(key, inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _lines(name, inner)
    elif value is not None and str(value).strip():
        yield f"{name}: {_as_text(value)}" if name else _as_text(value)


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


@lru_cache(1024)
def _steps(path: str) -> tuple[Step, ...]:
    return () if path == "$" else tuple(_STEP.findall(path))


def _select(value: Any, path: str, visits: Iterator[int]) -> list[Any]:
    """Return the values to which a path leads, as far as there are visits left."""
    values = [value]
    for step in _steps(path):
        values = _distinct(_limited(_follow(values, step, visits), visits))
    return values


def _as_texts(values: Iterable[Any]) -> Iterator[str]:
    """Yield values as texts, without blank ones, up to a size."""
    room = MAX_TEXT_CHARACTERS
    for value in values:
        text = "" if value is None else _as_text(value)
        if text.strip():
            yield text
        room -= len(text)
        if room < 0:
            return


def _limited(values: Iterable[Any], visits: Iterator[int]) -> Iterator[Any]:
    """Yield values while there are visits left."""
    for _, value in zip(visits, values, strict=False):
        yield value


def _distinct(values: Iterable[Any]) -> list[Any]:
    """Return values without repetitions: `{a,a}{a,a}` leads twice to the same one at each step."""
    return list({id(value): value for value in values}.values())


def _follow(values: Iterable[Any], step: Step, visits: Iterator[int]) -> Iterator[Any]:
    """Yield the values to which a step leads from others, in their order."""
    index, several, name = step
    alternatives = dict.fromkeys(_steps(path.strip()) for path in several.split(","))
    for value in _limited(values, visits):
        if several:
            for steps in alternatives:
                inner: Iterable[Any] = (value,)
                for inner_step in steps:
                    inner = _follow(inner, inner_step, visits)
                yield from inner
        elif index == "*" or name == "*":
            yield from _children(value, include_fields=bool(name))
        elif name:
            if isinstance(value, dict) and name in value:
                yield value[name]
        elif isinstance(value, list) and _is_index(index, len(value)):
            yield value[int(index)]


def _is_index(text: str, length: int) -> bool:
    return re.fullmatch(r"-?\d{1,9}", text) is not None and -length <= int(text) < length


def _children(value: Any, *, include_fields: bool) -> Sequence[Any]:
    if isinstance(value, list):
        return value
    return list(value.values()) if include_fields and isinstance(value, dict) else ()


def checked(where: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a filter; raise Invalid if it has an unknown comparison."""
    for condition in where.values():
        if not isinstance(condition, Mapping):
            continue
        if not any(name.startswith("$") for name in condition):
            checked(condition)
            continue
        for name in condition:
            if name not in _COMPARISONS:
                known = ", ".join(_COMPARISONS)
                problem = f"has the unknown comparison {name!r}; use {known}"
                raise Invalid(field="where", problem=problem)
    return where


def words(where: Mapping[str, Any]) -> list[str]:
    """Return strings that the JSON text of every matching object contains.

    Values that JSON may escape are left out.
    """
    quoted = []
    for condition in where.values():
        value = condition.get("$eq") if isinstance(condition, Mapping) else condition
        if isinstance(value, str) and value.isprintable() and not {'"', "\\"} & set(value):
            quoted.append(f'"{value}"')
    return quoted


def match(value: Mapping[str, Any], where: Mapping[str, Any]) -> bool:
    """Return whether an object matches a filter; a missing field counts as null."""
    return all(_matches(_field(value, name), condition) for name, condition in where.items())


def _field(value: Mapping[str, Any], name: str) -> Any:
    """Return a field by its name or, if there is none, by its path with dots."""
    if name in value or "." not in name:
        return value.get(name)
    first, _, rest = name.partition(".")
    inner = value.get(first)
    return _field(inner, rest) if isinstance(inner, Mapping) else None


def _matches(value: Any, condition: Any) -> bool:
    if not isinstance(condition, Mapping):
        return _is_same(value, condition)
    if any(name.startswith("$") for name in condition):
        return all(_compare(value, name, other) for name, other in condition.items())
    if not isinstance(value, Mapping):
        return False
    return all(_matches(value.get(name), inner) for name, inner in condition.items())


def _compare(value: Any, comparison: str, other: Any) -> bool:
    if comparison == "$eq":
        return _is_same(value, other)
    if comparison == "$ne":
        return not _is_same(value, other)
    are_numbers = _is_number(value) and _is_number(other)
    are_texts = isinstance(value, str) and isinstance(other, str)
    return (are_numbers or are_texts) and _ORDERINGS[comparison](value, other)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_same(left: Any, right: Any) -> bool:
    """Return whether two values are the same JSON: 1 equals 1.0, and true does not equal 1."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(
            _is_same(left[name], right[name]) for name in left
        )
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(_is_same, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)

"""What a JSON object says at some of its paths, and whether it is as a filter asks.

A path is names with dots between them; `[0]`, `[-1]` and `[*]` are places of a list, `*` is everything in an object or a
list, `{a,b.c}` several fields of one object, and `$` the whole. A filter names fields, each with the value that it must
have, or with comparisons: `{"price": {"$gte": 10, "$lt": 20}}`.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from retain.base.errors import Invalid

MOST_TEXTS = 64
"""Of how many texts each is found as itself; what more there are is found as one."""
_STEP = re.compile(r"\[([^\]]*)\]|\{([^}]*)\}|([^.\[{]+)")
_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
_COMPARISONS = ("$eq", "$ne", *_ORDERS)


def texts(value: Mapping[str, Any], paths: Sequence[str] | None = None) -> list[str]:
    """What an object says at some paths, each text once; without paths, all of it in one text."""
    if paths is None:
        whole = "\n".join(_lines("", value))
        return [whole] if whole else []
    found = [text for path in paths for text in _at(value, _steps(path), 0) if text.strip()]
    distinct = list(dict.fromkeys(found))
    if len(distinct) > MOST_TEXTS:
        distinct = [*distinct[: MOST_TEXTS - 1], "\n".join(distinct[MOST_TEXTS - 1 :])]
    return distinct


def _lines(name: str, value: Any) -> Iterator[str]:
    """Each text and number of a value, on a line with the name it has: names often say what a value means."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _lines(key, inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _lines(name, inner)
    elif value is not None and str(value).strip():
        yield f"{name}: {_said(value)}" if name else _said(value)


def _said(value: Any) -> str:
    return (
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
    )


@lru_cache(1024)
def _steps(path: str) -> tuple[tuple[str, str, str], ...]:
    return () if path == "$" else tuple(_STEP.findall(path))


def _at(value: Any, steps: Sequence[tuple[str, str, str]], at: int) -> Iterator[str]:
    if at == len(steps):
        if value is not None:
            yield _said(value)
        return
    place, several, name = steps[at]
    if several:
        for path in several.split(","):
            yield from _at(value, (*_steps(path.strip()), *steps[at + 1 :]), 0)
    elif place == "*" or name == "*":
        inside = (
            value
            if isinstance(value, list)
            else value.values()
            if isinstance(value, dict) and name
            else ()
        )
        for inner in inside:
            yield from _at(inner, steps, at + 1)
    elif name:
        if isinstance(value, dict) and name in value:
            yield from _at(value[name], steps, at + 1)
    elif (
        isinstance(value, list)
        and re.fullmatch(r"-?\d{1,9}", place)
        and -len(value) <= int(place) < len(value)
    ):
        yield from _at(value[int(place)], steps, at + 1)


def checked(where: Mapping[str, Any]) -> Mapping[str, Any]:
    """A filter, if every comparison in it is one that there is: none is ignored."""
    for wanted in where.values():
        if not isinstance(wanted, Mapping):
            continue
        if not any(name.startswith("$") for name in wanted):
            checked(wanted)
        elif unknown := [name for name in wanted if name not in _COMPARISONS]:
            raise Invalid(
                field="where",
                problem=f"compares with {', '.join(_COMPARISONS)}, not with {unknown[0]!r}",
            )
    return where


def words(where: Mapping[str, Any]) -> list[str]:
    """What stands in the JSON of every object that is as a filter asks, if nothing in that JSON is escaped."""
    wanted = [one.get("$eq") if isinstance(one, Mapping) else one for one in where.values()]
    return [
        f'"{one}"'
        for one in wanted
        if isinstance(one, str) and one.isprintable() and not {'"', "\\"} & set(one)
    ]


def match(value: Mapping[str, Any], where: Mapping[str, Any]) -> bool:
    """Whether an object is as a filter asks; a field that it has not is as one that is null."""
    return all(_as(_field(value, name), wanted) for name, wanted in where.items())


def _field(value: Mapping[str, Any], name: str) -> Any:
    """A field by its name; where there is none of that name, its dots lead into objects."""
    if name in value or "." not in name:
        return value.get(name)
    first, _, rest = name.partition(".")
    inner = value.get(first)
    return _field(inner, rest) if isinstance(inner, Mapping) else None


def _as(found: Any, wanted: Any) -> bool:
    if not isinstance(wanted, Mapping):
        return _same(found, wanted)
    if any(name.startswith("$") for name in wanted):
        return all(_compared(found, name, other) for name, other in wanted.items())
    return isinstance(found, Mapping) and all(
        _as(found.get(name), inner) for name, inner in wanted.items()
    )


def _compared(found: Any, comparison: str, wanted: Any) -> bool:
    if comparison in ("$eq", "$ne"):
        return _same(found, wanted) == (comparison == "$eq")
    numbers = _number(found) and _number(wanted)
    return (numbers or (isinstance(found, str) and isinstance(wanted, str))) and _ORDERS[
        comparison
    ](found, wanted)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON: 1 is 1.0, and true is not 1."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)

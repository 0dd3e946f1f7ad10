"""What LangGraph's rules say of namespaces, keys and searches, over a scope's items: for its store and for its wire.

It needs nothing of LangGraph's. A query puts what is at a place in order and leaves nothing out; without a query, the newest
comes first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from retain.api.files import reserved
from retain.base import limits
from retain.base.errors import Invalid
from retain.kinds.items import Drop, PlacedItem, Put
from retain.kinds.kind import Page
from retain.memory import Scope

Record = TypeVar("Record")
Namespace = tuple[str, ...]
_PAGE = 500
# What a name of ours must not have, and what would be read as one of these when it comes back.
_REFUSED = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\U0010ffff]|%(?=[0-9A-F]{2})")
_WHOLLY = re.compile(r"\s+|\.\.?")
_QUOTED = re.compile("(?:%[0-9A-F]{2})+")


def place(namespace: Iterable[str]) -> Namespace:
    """A namespace as the place of items."""
    return tuple([stored(label) for label in namespace])


def namespace(place: Namespace) -> Namespace:
    """The place of items as a namespace."""
    return tuple([told(name) for name in place])


def stored(name: str) -> str:
    """A label or key as a name of ours: what those may not have is written as in an address."""
    if _WHOLLY.fullmatch(name):
        return "".join([f"%{byte:02X}" for byte in name.encode()])
    return _REFUSED.sub(lambda found: quote(found.group(), safe=""), name)


def told(name: str) -> str:
    """A name of ours as the label or key that it was."""
    return _QUOTED.sub(lambda found: unquote(found.group()), name) if "%" in name else name


def checked(labels: Sequence[str], field: str, *, new: bool = False) -> Namespace:
    """A namespace, if its labels are what LangGraph's may be; a new one has at least one, and is not LangGraph's own."""
    for label in labels:
        if not label or "." in label or "\x00" in label:
            raise Invalid(
                field=field,
                problem=f"has the label {label!r}, and no label is empty or has a period or a NUL in it",
            )
    if new and (not labels or labels[0] == "langgraph"):
        raise Invalid(
            field=field, problem="must have at least one label, and not begin with `langgraph`"
        )
    return tuple(labels)


def change(
    where: Iterable[str],
    key: str,
    value: Mapping[str, Any] | None,
    minutes: float | None,
    fields: Sequence[str] | None,
) -> Put | Drop:
    """What is to be written: a value, or its removal where there is none; nothing at the places of other adapters."""
    where = tuple(where)
    if where and reserved(where[0]):
        raise Invalid(
            field="namespace",
            problem=f"begins with {where[0]!r}, where Anthropic's memory tool keeps its files",
        )
    if value is None:
        return Drop(place(where), stored(key))
    if not isinstance(value, Mapping):
        raise Invalid(field="value", problem=f"must be a dict, not {type(value).__name__}")
    fields = None if fields is None or list(fields) == ["$"] else fields
    return Put(
        place(where), stored(key), dict(value), None if minutes is None else minutes * 60, fields
    )


def write(scope: Scope, changes: Sequence[Put | Drop]) -> None:
    """Write all of it or nothing, however much it is."""
    most = limits.MAX_BATCH
    if len(changes) <= most:
        scope.items.write(changes)
    else:
        ordered = sorted(changes, key=lambda one: (one.place, one.key))
        parts = [ordered[start : start + most] for start in range(0, len(ordered), most)]
        scope.transaction(lambda inner: [inner.items.write(part) for part in parts])


def read(
    scope: Scope, wanted: Sequence[tuple[Namespace, str]], *, refresh: bool
) -> Sequence[PlacedItem | None]:
    """Several items at one moment."""
    return scope.items.read(
        [(place(labels), stored(key)) for labels, key in wanted], refresh=refresh
    )


def search(
    scope: Scope,
    under: Namespace,
    *,
    query: str | None = None,
    where: Mapping[str, Any] | None = None,
    limit: int = 10,
    offset: int = 0,
    refresh: bool = False,
) -> list[tuple[PlacedItem, float | None]]:
    """What is at a namespace and below it: what a query finds, best first, and then the rest, the newest first."""
    here, until = place(under), offset + limit
    size = max(1, min(until, limits.MAX_PAGE))
    ranked = scope.items.search(query, here, where=where, limit=size) if query and limit else []
    known = {(item.place, item.key) for item, _ in ranked}
    every = _each(
        lambda after: scope.items.list(here, where=where, newest=True, limit=size, after=after)
    )
    rest = ((item, None) for item in every if (item.place, item.key) not in known)
    kept: list[tuple[PlacedItem, float | None]] = list(islice(chain(ranked, rest), offset, until))
    mortal = [(item.place, item.key) for item, _ in kept if item.expires_at is not None]
    if refresh and mortal:
        scope.items.read(mortal, refresh=True)
    return kept


def namespaces(
    scope: Scope,
    prefixes: Sequence[Sequence[str]] = (),
    suffixes: Sequence[Sequence[str]] = (),
    *,
    depth: int | None = None,
    limit: int = 100,
    offset: int = 0,
) -> list[Namespace]:
    """Where there are items, in order: namespaces that begin and end in all these ways, cut off at a depth."""
    begins, ends = ([place(path) for path in paths if path] for paths in (prefixes, suffixes))
    several = len(begins) > 1 or len(ends) > 1
    under, ending = (paths[0] if paths else () for paths in (begins, ends))
    cut = None if several else depth
    found = _each(
        lambda after: scope.items.places(under, ending=ending, depth=cut, limit=_PAGE, after=after)
    )
    if several:
        fitting = (names for names in found if all(_like(names, path) for path in begins))
        fitting = (
            names for names in fitting if all(_like(names[::-1], path[::-1]) for path in ends)
        )
        found = iter(dict.fromkeys(names[:depth] for names in fitting))
    return [namespace(names) for names in islice(found, offset, offset + limit)]


def record(item: PlacedItem) -> dict[str, Any]:
    """An item as LangGraph's are made."""
    return {
        "namespace": namespace(item.place),
        "key": told(item.key),
        "value": item.value,
        "created_at": item.created_at,
        "updated_at": item.updated_at,
    }


def _each(fetch: Callable[[str | None], Page[Record]]) -> Iterator[Record]:
    """Everything, page by page."""
    page = fetch(None)
    yield from page
    while page.next is not None:
        page = fetch(page.next)
        yield from page


def _like(names: Namespace, pattern: Namespace) -> bool:
    return len(names) >= len(pattern) and all(
        wanted in ("*", name) for name, wanted in zip(names, pattern, strict=False)
    )

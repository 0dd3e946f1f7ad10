"""LangGraph's rules for namespaces, keys and searches, applied to a scope's items.

The LangGraph store and the LangGraph-compatible HTTP API share them; LangGraph itself is not
imported. A query ranks the items of a namespace and omits none; without a query, the newest item
comes first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import Any
from urllib.parse import quote, unquote

from memorist.base import limits
from memorist.base.errors import Invalid
from memorist.kinds.items import Drop, Match, PlacedItem, Put
from memorist.kinds.page import all_records
from memorist.memory import Scope
from memorist_frameworks.memory_files import is_bookkeeping, reserved

Namespace = tuple[str, ...]
_PAGE_SIZE = 500
_CACHED_NAMESPACES = 1024
# Characters that names in memorist must not contain, and percent escapes, which reading would decode.
_INVALID_CHARACTER = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\U0010ffff]|%(?=[0-9A-F]{2})")
_VALID_NAME = re.compile(r"[\w-]+")
_INVALID_NAME = re.compile(r"\s+|\.\.?")
_ESCAPES = re.compile("(?:%[0-9A-F]{2})+")


def place(namespace: Iterable[str]) -> Namespace:
    """Convert a namespace to the place of items."""
    return _place(tuple(namespace))


@lru_cache(_CACHED_NAMESPACES)
def _place(namespace: Namespace) -> Namespace:
    return tuple([stored(label) for label in namespace])


@lru_cache(_CACHED_NAMESPACES)
def namespace(place: Namespace) -> Namespace:
    """Convert the place of items to a namespace."""
    return tuple([readable_name(name) for name in place])


def stored(name: str) -> str:
    """Convert a label or key to a name that can be stored; percent-encode invalid characters."""
    if _VALID_NAME.fullmatch(name):
        return name
    if _INVALID_NAME.fullmatch(name):
        return "".join([f"%{byte:02X}" for byte in name.encode()])
    return _INVALID_CHARACTER.sub(lambda match: quote(match.group(), safe=""), name)


def readable_name(name: str) -> str:
    """Convert a stored name back to the label or key."""
    return _ESCAPES.sub(lambda match: unquote(match.group()), name) if "%" in name else name


def checked(labels: Sequence[str], field: str, *, new: bool = False) -> Namespace:
    """Return the labels as a namespace, or raise `Invalid` if LangGraph does not allow them.

    A new namespace needs at least one label and must not be LangGraph's own.
    """
    for label in labels:
        if not label or "." in label or "\x00" in label:
            raise Invalid(
                field=field,
                problem=f"has the label {label!r}; a label must not be empty or contain a period or a NUL",
            )
    if new and (not labels or labels[0] == "langgraph"):
        raise Invalid(
            field=field, problem="must have at least one label and must not start with `langgraph`"
        )
    return tuple(labels)


def change(
    where: Iterable[str],
    key: str,
    value: Mapping[str, Any] | None,
    minutes: float | None,
    fields: Sequence[str] | None,
) -> Put | Drop:
    """Return the change that writes a value, or removes it if the value is None.

    Raises Invalid for a namespace that another adapter uses.
    """
    where = tuple(where)
    if where and reserved(where[0]):
        raise Invalid(
            field="namespace",
            problem=f"starts with {where[0]!r}, which is reserved for the files of Anthropic's memory tool",
        )
    if value is None:
        return Drop(_place(where), stored(key))
    if not isinstance(value, Mapping):
        raise Invalid(field="value", problem=f"must be a dict, not {type(value).__name__}")
    fields = None if fields is None or (fields and list(fields) == ["$"]) else fields
    return Put(_place(where), stored(key), value, None if minutes is None else minutes * 60, fields)


def write(scope: Scope, changes: Sequence[Put | Drop]) -> None:
    """Write any number of changes: all of them or none."""
    batch_size = limits.MAX_BATCH
    if len(changes) <= batch_size:
        scope.items.write(changes)
    else:
        ordered = sorted(changes, key=lambda change: (change.place, change.key))
        parts = [
            ordered[start : start + batch_size] for start in range(0, len(ordered), batch_size)
        ]

        def work(inner: Scope) -> None:
            for part in parts:
                inner.items.write(part)

        scope.transaction(work)


def read(
    scope: Scope, wanted: Sequence[tuple[Namespace, str]], *, refresh: bool
) -> Sequence[PlacedItem | None]:
    """Read several items in one snapshot; None for each that is missing."""
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
) -> list[tuple[PlacedItem, float | None]]:
    """Return the items at a namespace and below it, with their scores.

    The hits of the query come first, best first; then all other items, newest first. Records about
    the files of other adapters are left out.
    """
    root = place(under)
    until = offset + limit
    size = max(1, min(until, limits.MAX_PAGE))
    ranked: Iterable[Match] = ()
    if query and limit:
        ranked = scope.items.search(query, root, where=where, limit=size)
    ranked_keys = {(item.place, item.key) for item, _ in ranked}
    all_items = all_records(
        lambda after: scope.items.list(root, where=where, newest=True, limit=size, after=after)
    )
    unranked = ((item, None) for item in all_items if (item.place, item.key) not in ranked_keys)
    shown = (hit for hit in chain(ranked, unranked) if not is_bookkeeping(hit[0].place[0]))
    return list(islice(shown, offset, until))


def refresh(scope: Scope, hits: Iterable[tuple[PlacedItem, float | None]]) -> None:
    """Extend the expiry of found items, as reading them does."""
    expiring = [(item.place, item.key) for item, _ in hits if item.expires_at is not None]
    if expiring:
        scope.items.read(expiring, refresh=True)


def namespaces(
    scope: Scope,
    prefixes: Sequence[Sequence[str]] = (),
    suffixes: Sequence[Sequence[str]] = (),
    *,
    depth: int | None = None,
    limit: int = 100,
    offset: int = 0,
) -> list[Namespace]:
    """Return the namespaces that contain items, in order, but not records about files.

    A namespace must match all prefixes and all suffixes; it is cut off at `depth`.
    """
    beginnings = [place(path) for path in prefixes if path]
    endings = [place(path) for path in suffixes if path]
    under = beginnings[0] if beginnings else ()
    ending = endings[0] if endings else ()
    # `places` takes one beginning and one ending; further ones are applied to the whole places.
    has_more = len(beginnings) > 1 or len(endings) > 1
    places = all_records(
        lambda after: scope.items.places(
            under,
            ending=ending,
            depth=None if has_more else depth,
            limit=_PAGE_SIZE,
            after=after,
        )
    )
    if has_more:
        matches = (
            names
            for names in places
            if all(_starts_with(names, path) for path in beginnings)
            and all(_starts_with(names[::-1], path[::-1]) for path in endings)
        )
        places = iter(dict.fromkeys(names[:depth] for names in matches))
    shown = (names for names in places if not is_bookkeeping(names[0]))
    return [namespace(names) for names in islice(shown, offset, offset + limit)]


def record(item: PlacedItem) -> dict[str, Any]:
    """Return the fields of LangGraph's item."""
    return {
        "namespace": namespace(item.place),
        "key": readable_name(item.key),
        "value": item.value,
        "created_at": item.created_at,
        "updated_at": item.updated_at,
    }


def _starts_with(names: Namespace, pattern: Namespace) -> bool:
    """Return whether a place starts with a pattern, in which `*` stands for any name."""
    return len(names) >= len(pattern) and all(
        label in ("*", name) for name, label in zip(names, pattern, strict=False)
    )

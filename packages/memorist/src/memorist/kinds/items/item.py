"""Item records, namespaces, filters and documents.

A namespace is a list of names, such as `("memories", "ada")`. It is stored in the column `place`
as text, with a separator after each name, so that a range of the column is a namespace and
everything below it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from memorist.base import canonical, clock
from memorist.base.canonical import Json, JsonText
from memorist.base.errors import Invalid
from memorist.kinds.indexing import index_id, keys_of
from memorist.kinds.page import decode_cursor
from memorist.search.index import split_text
from memorist.search.search_document import Findable, IndexMark, SearchDocument, owner_of
from memorist.storage.database import Row
from memorist.storage.rows import row_mapper
from memorist.storage.tables import PLACE_SEPARATOR
from memorist.text import fields as json_fields

MAX_NAMES = 64
MAX_FIELDS = 20
Place = tuple[str, ...]

_PROBED_NAME = re.compile("[a-zA-Z][a-zA-Z0-9_]{0,99}")
_MAX_PROBED_NUMBER = 10**15
_BOOLEAN_TEXTS = {True: ("true", "1"), False: ("false", "0")}
"""What `->>` returns for a boolean, on one engine and on the other."""


@dataclass(frozen=True)
class PlacedItem:
    """A JSON document in a namespace."""

    place: Place
    key: str
    raw: str  # the value as JSON text
    version: int  # counts the puts since the item was created
    expires_at: datetime | None
    created_at: datetime
    updated_at: datetime

    @property
    def value(self) -> dict[str, Any]:
        """The value, parsed."""
        cache = self.__dict__
        if "value" not in cache:
            cache["value"] = canonical.stored_json(self.raw, f"item {self.key}")
        return cache["value"]  # type: ignore[no-any-return]


class Match(NamedTuple):
    """An item that a search returned, and its score from 0 to 1."""

    item: PlacedItem
    score: float


class Put(NamedTuple):
    """A document to put: see `Items.put`. A tuple, because batches have many."""

    place: Sequence[str]
    key: str
    value: Json
    ttl: float | None = None
    fields: Sequence[str] | None = None
    if_version: int | None = None


class Drop(NamedTuple):
    """A document to remove if it exists; with `if_version`, only that version (0: none exists)."""

    place: Sequence[str]
    key: str
    if_version: int | None = None


class ItemChange(NamedTuple):
    """A checked Put, or a checked Drop if `raw` is empty."""

    place: str
    key: str
    if_version: int | None
    raw: str = ""
    ttl: int | None = None
    fields: str | None = None


# -- namespaces --------------------------------------------------------------------------------


def area_of(user: str | None) -> str:
    """Return the stored owner: a user, or the tenant if there is none."""
    return "tenant" if user is None else f"user:{user}"


def join_names(names: Sequence[str]) -> str:
    """Return a namespace as it is stored."""
    return "".join([name + PLACE_SEPARATOR for name in names])


def split_names(place: str) -> Place:
    """Return the names of a stored namespace."""
    return tuple(place.split(PLACE_SEPARATOR)[:-1])


placed_item = row_mapper(PlacedItem, place=split_names)
"""Returns the record of a row."""


def place_range(place: str, exact: bool = False) -> dict[str, str]:
    """Return the bounds of a stored namespace and, unless `exact`, of everything below it.

    No name contains the characters that follow the separator in the upper bounds.
    """
    if exact:
        return {"under": place, "beyond": place + "\x01"}
    return {"under": place, "beyond": place[:-1] + " " if place else "\U0010ffff"}


def starts_with(names: Place, pattern: Place) -> bool:
    """Return whether a namespace starts with a pattern, in which `*` is any name."""
    if len(names) < len(pattern):
        return False
    return all(wanted in ("*", name) for name, wanted in zip(names, pattern, strict=False))


# -- arguments ---------------------------------------------------------------------------------


def fields_json(fields: Sequence[str]) -> str:
    """Return checked paths of searchable fields as JSON."""
    is_list = isinstance(fields, Sequence) and not isinstance(fields, str | bytes)
    if not is_list or len(fields) > MAX_FIELDS:
        raise Invalid(
            field="fields",
            problem=f'must be a list of at most {MAX_FIELDS} paths, such as ["text", "tags[*]"]',
        )
    if not fields:
        return "[]"
    return json.dumps([canonical.key(path, "fields") for path in fields], ensure_ascii=False)


def checked_filter(where: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return a checked filter, None if it is empty; over HTTP it may come as JSON text."""
    parsed = canonical.parse(where, "where") if isinstance(where, JsonText) else where
    if not parsed and (parsed is None or isinstance(parsed, Mapping)):
        return None
    if not isinstance(parsed, Mapping):
        raise Invalid(
            field="where", problem='must be an object of fields, such as {"kind": "fact"}'
        )
    return json_fields.checked(parsed)


def probe_parameters(where: Mapping[str, Any]) -> dict[str, str]:
    """Return the parameters of a text probe and of a number probe, for one condition each.

    A probe lets every matching row through, and perhaps others: engines do not agree on how numbers
    are rounded and how booleans look. So the filter itself is applied to what a probe lets through.
    """
    parameters: dict[str, str] = {}
    for name, condition in where.items():
        if _PROBED_NAME.fullmatch(name) is None:
            continue
        comparisons = condition if isinstance(condition, Mapping) else {"$eq": condition}
        equal = comparisons.get("$eq")
        if isinstance(equal, bool):
            texts = _BOOLEAN_TEXTS[equal]
            parameters |= {"text_name": name, "text": texts[0], "other_text": texts[1]}
        elif isinstance(equal, str) and equal.isprintable():
            parameters |= {"text_name": name, "text": equal, "other_text": equal}
        elif "number_name" not in parameters and (bounds := _number_bounds(comparisons)):
            parameters |= {"number_name": name, **bounds}
    return parameters


def _number_bounds(comparisons: Mapping[str, Any]) -> dict[str, str]:
    """Return the bounds of the numbers that match comparisons, `low` and `high`, a bit too wide."""
    bounds = {
        comparison: float(bound)
        for comparison, bound in comparisons.items()
        if isinstance(bound, int | float)
        and not isinstance(bound, bool)
        and abs(bound) <= _MAX_PROBED_NUMBER
    }
    lows = [bounds[name] for name in ("$eq", "$gt", "$gte") if name in bounds]
    highs = [bounds[name] for name in ("$eq", "$lt", "$lte") if name in bounds]
    result = {}
    if lows:
        low = max(lows)
        result["low"] = repr(low - 1e-9 * max(1.0, abs(low)))
    if highs:
        high = min(highs)
        result["high"] = repr(high + 1e-9 * max(1.0, abs(high)))
    return result


def matching_items(rows: Iterable[Row], where: Mapping[str, Any]) -> Iterator[PlacedItem]:
    """Yield the items of rows whose value matches a filter.

    Texts that the filter compares with are first looked for in the JSON text: most rows are
    rejected without parsing them.
    """
    needed = json_fields.words(where)
    for row in rows:
        raw = row[2]
        if "\\" in raw or all(map(raw.__contains__, needed)):
            item = placed_item(row)
            if json_fields.match(item.value, where):
                yield item


def ordered(item: PlacedItem) -> list[Any]:
    """Return the cursor of a list in the order of namespace and key."""
    return [*item.place, item.key]


def newest(item: PlacedItem) -> list[Any]:
    """Return the cursor of a list with the newest items first."""
    return [str(clock.from_datetime(item.updated_at, "updated_at")), *ordered(item)]


def list_start(after: str | None, newest: bool) -> dict[str, Any]:
    """Return the position after which a page starts."""
    if after is None:
        return {"place": "", "key": "", "at": 2**62}
    values = decode_cursor(after, [str, ...])
    at = values.pop(0) if newest else "0"
    if len(values) < 2 or not at.isdecimal() or len(at) > 18:
        raise Invalid(
            field="after", problem="is not a valid cursor; use `next` of the previous page"
        )
    return {"place": join_names(values[:-1]), "key": values[-1], "at": int(at)}


# -- documents: the id names the owner, the namespace and the key ------------------------------


def item_index_id(area: str, place: str, key: str) -> str:
    """Return the id of an item in the index: `index_id` of the owner, the names and the key."""
    names = f"{area}{PLACE_SEPARATOR}{place}{key}"
    if '"' in names or "\\" in names:
        return index_id(*names.split(PLACE_SEPARATOR))
    return '["' + names.replace(PLACE_SEPARATOR, '","') + '"]'


def item_of(id: str) -> tuple[str, str, str]:
    """Return the owner, the namespace and the key of an id: the inverse of `item_index_id`."""
    area, *names, key = keys_of(id)
    return area, join_names(names), key


def mark(area: str, place: str, key: str) -> IndexMark:
    """Return the mark of an item, for the index."""
    return IndexMark(owner_of(_user_of(area)), "items", item_index_id(area, place, key))


def is_searchable(fields: str | None) -> bool:
    """Return whether an item is indexed, by its column `fields`."""
    return fields != "[]"


def _user_of(area: str) -> str:
    """Return the user of an item in the index: for the tenant the empty one, which no scope has.

    Documents without a user are visible to every user.
    """
    return "" if area == "tenant" else area.removeprefix("user:")


def _searchable_texts(value: Mapping[str, Any], paths: Sequence[str] | None) -> list[str]:
    """Return the searchable texts of a value, at some paths or at all; none for no paths."""
    if paths is not None and not paths:
        return []
    texts = [part for text in json_fields.texts(value, paths) for part in split_text(text)]
    return texts or [""]


def _documents(row: Row) -> list[SearchDocument]:
    """Return the documents of an item. A read extends its expiry, so they do not have it."""
    area, place, key, paths, raw, at = row
    texts = _searchable_texts(json.loads(raw), paths and json.loads(paths))
    return [
        SearchDocument(
            "items",
            item_index_id(area, place, key),
            text,
            at,
            part=part,
            user=_user_of(area),
            title=key,
            place=f"{area}{PLACE_SEPARATOR}{place}",
        )
        for part, text in enumerate(texts)
    ]


ITEM_INDEX = Findable(
    kind="items",
    key=("area", "place", "key"),
    select="""select area, place, key, fields, value, updated_at from items
              where tenant = :tenant and (expires_at is null or expires_at > :now) and {where}""",
    documents=_documents,
    key_of=lambda id, seq: item_of(id),
    first=("", "", ""),
    expires_unmarked=True,
)

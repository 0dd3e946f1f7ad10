"""What an item is, what can be done to several at once, and the statements that do it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from retain import canonical, clock
from retain.canonical import Json, JsonText
from retain.errors import Invalid
from retain.search.legs import AFTER_A_NAME
from retain.storage.database import Row
from retain.texts.fields import checked

MOST_NAMES = 20
Place = tuple[str, ...]


@dataclass(frozen=True)
class PlacedItem:
    """A document at its place; `raw` is its value as JSON text. `version` counts how often it was put since it was new."""

    place: Place
    key: str
    raw: str
    version: int
    expires_at: datetime | None
    created_at: datetime
    updated_at: datetime

    @property
    def value(self) -> dict[str, Any]:
        """The value."""
        kept = self.__dict__
        if "value" not in kept:
            kept["value"] = json.loads(self.raw)
        found: dict[str, Any] = kept["value"]
        return found


class Match(NamedTuple):
    """What a search found, and how likely it is wanted, from 0 to 1."""

    item: PlacedItem
    score: float


@dataclass(frozen=True)
class Put:
    """A document to put: see `Items.put`."""

    place: Sequence[str]
    key: str
    value: Json
    ttl: float | None = None
    fields: Sequence[str] | None = None
    if_version: int | None = None


@dataclass(frozen=True)
class Drop:
    """A document to remove, if it is there; with `if_version`, only that version (0: it must not be there)."""

    place: Sequence[str]
    key: str
    if_version: int | None = None


class Change(NamedTuple):
    """A Put, or a Drop where `raw` is empty, as it is written."""

    place: str
    key: str
    id: str
    if_version: int | None
    raw: str = ""
    ttl: int | None = None
    fields: str | None = None
    found: Sequence[str] = ()


def item(row: Row) -> PlacedItem:
    """A record from a row of COLUMNS."""
    place, key, raw, version, expires, created, updated = row
    moment = clock.to_datetime
    return PlacedItem(names(place), key, raw, version, clock.to_datetime_or_none(expires), moment(created), moment(updated))


def names(place: str) -> Place:
    """The names of a place, as it is stored."""
    return tuple(place.split(AFTER_A_NAME)[:-1])


def text(place: Sequence[str]) -> str:
    """A place as it is stored."""
    return "".join([name + AFTER_A_NAME for name in place])


def span(under: str, exact: bool = False) -> dict[str, str]:
    """From where to where places are that begin so; no name begins or goes on with the characters that end it here."""
    if exact:
        return {"under": under, "beyond": under + "\x01"}
    return {"under": under, "beyond": under[:-1] + " " if under else "\U0010ffff"}


def like(names: Place, pattern: Place) -> bool:
    """Whether a place begins as a pattern says, in which `*` is any name."""
    return len(names) >= len(pattern) and all(wanted in ("*", name) for name, wanted in zip(names, pattern, strict=False))


def paths(fields: Sequence[str]) -> str:
    """The paths that a search finds, as JSON."""
    if isinstance(fields, str | bytes) or not isinstance(fields, Sequence) or len(fields) > MOST_NAMES:
        raise Invalid(field="fields", problem=f'must be a list of at most {MOST_NAMES} paths, such as ["text", "tags[*]"]')
    return json.dumps([canonical.key(path, "fields") for path in fields], ensure_ascii=False)


def filtered(where: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """A filter that was checked, None where it asks for nothing; over HTTP it may come as text."""
    given = canonical.parse(where, "where") if isinstance(where, JsonText) else where
    if given is not None and not isinstance(given, Mapping):
        raise Invalid(field="where", problem='must be an object of fields, such as {"kind": "fact"}')
    return checked(given) if given else None


COLUMNS = "place, key, value, version, expires_at, created_at, updated_at"
_LIVE = "(expires_at is null or expires_at > :now)"
_THIS = "tenant = :tenant and area = :area and place = :place and key = :key"
_BELOW = f"tenant = :tenant and area = :area and place >= :under and place < :beyond and {_LIVE}"
GET = f"select {COLUMNS} from items where {_THIS} and {_LIVE}"
LIST = f"select {COLUMNS} from items where {_BELOW} and (place, key) > (:place, :key) order by place, key limit :size"
# The values are read of those only that are wanted.
NEWEST = f"""select items.place, items.key, value, version, expires_at, created_at, items.updated_at from (
        select place, key, updated_at from items where {_BELOW}
        and (updated_at < :at or (updated_at = :at and (place, key) > (:place, :key)))
        order by updated_at desc, place, key limit :size) newest
    join items on items.tenant = :tenant and items.area = :area and items.place = newest.place and items.key = newest.key
    order by newest.updated_at desc, newest.place, newest.key"""
# From one place to the next, however much there is at each.
PLACES = f"""with recursive places (place) as (
        select * from (select place from items where {_BELOW} and place > :start order by place limit 1) first
        union all
        select (select place from items where {_BELOW} and place > places.place order by place limit 1)
        from places where places.place is not null)
    select place from places where place is not null limit :size"""
REFRESH = f"update items set expires_at = :now + ttl where {_THIS} and ttl is not null and {_LIVE} returning {COLUMNS}"
DROP = f"delete from items where {_THIS} and version = coalesce(:version, version) and {_LIVE}"
# How to put over anything, over nothing (if_version=0), or over one version.
_INSERT = """insert into items (tenant, area, place, key, version, ttl, expires_at, created_at, updated_at, fields, value)
             values (:tenant, :area, :place, :key, 1, :ttl, :expires, :now, :now, :fields, :value)
             on conflict (tenant, area, place, key) do update
             set value = excluded.value, version = items.version + 1, ttl = excluded.ttl, fields = excluded.fields,
                 expires_at = excluded.expires_at, updated_at = :now,
                 created_at = case when items.expires_at <= :now then :now else items.created_at end """
PUT = {
    None: f"{_INSERT} returning {COLUMNS}",
    0: f"{_INSERT} where items.expires_at <= :now returning {COLUMNS}",
    1: f"""update items set value = :value, version = version + 1, ttl = :ttl, fields = :fields, expires_at = :expires,
           updated_at = :now where {_THIS} and version = :version and {_LIVE} returning {COLUMNS}""",
}

"""What an item is, what can be done to several at once, and how a place is stored."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from retain.base import canonical, clock
from retain.base.canonical import Json, JsonText
from retain.base.errors import Invalid
from retain.kinds.kind import decode_cursor
from retain.search.retrieval import PLACE_SEPARATOR
from retain.text.fields import checked, match, words

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


def item(row: tuple[Any, ...]) -> PlacedItem:
    """A record from a row of its columns."""
    place, key, raw, version, expires, created, updated = row
    moment = clock.to_datetime
    return PlacedItem(
        names(place),
        key,
        raw,
        version,
        clock.to_datetime_or_none(expires),
        moment(created),
        moment(updated),
    )


def area(user: str | None) -> str:
    """Whose documents, as it is stored: a user's, or the tenant's own."""
    return "tenant" if user is None else f"user:{user}"


def names(place: str) -> Place:
    """The names of a place, as it is stored."""
    return tuple(place.split(PLACE_SEPARATOR)[:-1])


def text(place: Sequence[str]) -> str:
    """A place as it is stored."""
    return "".join([name + PLACE_SEPARATOR for name in place])


def span(under: str, exact: bool = False) -> dict[str, str]:
    """From where to where places are that begin so; no name begins or goes on with the characters that end it here."""
    if exact:
        return {"under": under, "beyond": under + "\x01"}
    return {"under": under, "beyond": under[:-1] + " " if under else "\U0010ffff"}


def like(names: Place, pattern: Place) -> bool:
    """Whether a place begins as a pattern says, in which `*` is any name."""
    return len(names) >= len(pattern) and all(
        wanted in ("*", name) for name, wanted in zip(names, pattern, strict=False)
    )


def paths(fields: Sequence[str]) -> str:
    """The paths that a search finds, as JSON."""
    if (
        isinstance(fields, str | bytes)
        or not isinstance(fields, Sequence)
        or len(fields) > MOST_NAMES
    ):
        raise Invalid(
            field="fields",
            problem=f'must be a list of at most {MOST_NAMES} paths, such as ["text", "tags[*]"]',
        )
    return json.dumps([canonical.key(path, "fields") for path in fields], ensure_ascii=False)


def filtered(where: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """A filter that was checked, None where it asks for nothing; over HTTP it may come as text."""
    given = canonical.parse(where, "where") if isinstance(where, JsonText) else where
    if given is not None and not isinstance(given, Mapping):
        raise Invalid(
            field="where", problem='must be an object of fields, such as {"kind": "fact"}'
        )
    return checked(given) if given else None


def fitting(rows: Iterable[tuple[Any, ...]], where: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """The rows whose value is as a filter asks; most of the others are known by their text, unread."""
    needed = words(where)
    for row in rows:
        raw = row[2]
        if ("\\" in raw or all(map(raw.__contains__, needed))) and match(json.loads(raw), where):
            yield row


def ordered(item: PlacedItem) -> list[Any]:
    """The cursor of a list in the order of place and key."""
    return [*item.place, item.key]


def newest(item: PlacedItem) -> list[Any]:
    """The cursor of a list with the newest first."""
    return [str(clock.from_datetime(item.updated_at, "updated_at")), *ordered(item)]


def start(after: str | None, newest: bool) -> dict[str, Any]:
    """Where a list goes on, by the cursor of the page before."""
    if after is None:
        return {"place": "", "key": "", "at": 2**62}
    values = decode_cursor(after, [str, ...])
    at = values.pop(0) if newest else "0"
    if len(values) < 2 or not at.isdecimal() or len(at) > 18:
        raise Invalid(field="after", problem="is not a cursor from the page before")
    return {"place": text(values[:-1]), "key": values[-1], "at": int(at)}

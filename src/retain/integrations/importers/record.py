"""What a reader finds in somebody else's file, in words of ours: one class for each place that it can have here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from retain.kinds.graph import Entity, Relation
from retain.messages.message import NewMessage


@dataclass(frozen=True)
class Conversation:
    """A session with its messages; `attributes` is all else that the source says of it."""

    id: str
    messages: Sequence[NewMessage]
    label: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    user: str | None = None
    agent: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True)
class Fact:
    """An entry of an agent. `id` is the source's own; times are the source's."""

    id: str
    text: str
    core: bool = False
    user: str | None = None
    agent: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True)
class Thing:
    """An item. `fields` are what a search finds of it, nothing by default: it is mostly kept beside what is found.

    `ttl` is how long a read lets it live again, `expires_at` when it goes without one.
    """

    place: Sequence[str]
    key: str
    value: Mapping[str, Any]
    fields: Sequence[str] | None = ()
    ttl: float | None = None
    user: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True)
class Passage:
    """Text that goes to the end of the notes that an agent has of the user."""

    where: str
    text: str


@dataclass(frozen=True)
class Unplaced:
    """What has no place here: what it is, where it stands in the source, and why it was left there."""

    what: str
    where: str
    reason: str


Record = Conversation | Fact | Thing | Passage | Entity | Relation | Unplaced

_LATEST = timedelta(hours=12)


def moment(value: Any) -> datetime | None:
    """A time as sources write it: seconds since 1970, or ISO 8601, in UTC where it does not say; None for any other."""
    try:
        if isinstance(value, str):
            found = datetime.fromisoformat(value.strip())
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found = datetime.fromtimestamp(value, UTC)
        elif isinstance(value, datetime):
            found = value
        else:
            return None
        found = found if found.tzinfo else found.replace(tzinfo=UTC)
        found = found.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return (
        found if datetime(1970, 1, 1, tzinfo=UTC) <= found <= datetime.now(UTC) + _LATEST else None
    )


def text(value: Any) -> str:
    """Text, or '' for what is none."""
    return value if isinstance(value, str) else ""


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; none where it is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def sifted(value: Any, what: str, where: str) -> tuple[list[dict[str, Any]], list[Unplaced]]:
    """The objects of a list, and what else stands there as things that have no place."""
    if not isinstance(value, list):
        return [], [Unplaced(what, where, "is no list")] if value else []
    odd = [number for number, item in enumerate(value) if not isinstance(item, dict)]
    return objects(value), [Unplaced(what, f"{where}[{number}]", "is no object") for number in odd]


def without(value: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """A record without some of its fields, and without those that are empty."""
    return {
        name: item
        for name, item in value.items()
        if name not in names and item not in (None, "", [], {})
    }

"""The records that a reader yields: one class for each place that imported data can have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from memorist.content.message import NewMessage
from memorist.kinds.graph import GraphEntity, Relation
from memorist.kinds.interactions import Usage


@dataclass(frozen=True, kw_only=True)
class Sourced:
    """What a source may say about any record: its owner and its times."""

    tenant: str | None = None
    user: str | None = None
    agent: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True)
class ImportedConversation(Sourced):
    """A session with its messages."""

    id: str
    messages: Sequence[NewMessage]
    label: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)  # everything else in the source
    summary: str = ""
    summarized_count: int = 0  # how many of the messages the summary covers
    is_active: bool = False  # the active session of its user and agent


@dataclass(frozen=True)
class ImportedEntry(Sourced):
    """A journal or core entry of an agent."""

    id: str  # the source's own
    text: str
    core: bool = False


@dataclass(frozen=True)
class ImportedItem(Sourced):
    """An item at a place."""

    place: Sequence[str]
    key: str
    value: Mapping[str, Any]
    fields: Sequence[str] | None = ()  # the searchable fields; None for all
    ttl: float | None = None  # seconds that each read adds
    expires_at: datetime | None = None


@dataclass(frozen=True)
class ImportedNote(Sourced):
    """Text to append to the agent's notes about the user."""

    where: str
    text: str


@dataclass(frozen=True)
class ImportedReference(Sourced):
    """Stored content with its key."""

    key: str
    content: Any  # text or JSON
    description: str = ""
    type: str = "note"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    session: str | None = None  # becomes metadata if there is no such session here
    is_active: bool = True


@dataclass(frozen=True)
class ImportedState(Sourced):
    """A key with its value, of a user, a session or the tenant."""

    area: str  # user, tenant or session:ID
    key: str
    value: Any
    expires_at: datetime | None = None


@dataclass(frozen=True)
class ImportedCall(Sourced):
    """A model call."""

    id: str  # the source's own
    usage: Usage
    session: str | None = None  # left out if there is no such session here


@dataclass(frozen=True)
class Unplaced:
    """Something that was not imported: what it is, where it stands in the source, and why."""

    what: str
    where: str
    reason: str


Placed = (
    ImportedConversation
    | ImportedEntry
    | ImportedItem
    | ImportedNote
    | ImportedReference
    | ImportedState
    | ImportedCall
    | GraphEntity
    | Relation
)
Record = Placed | Unplaced

MAX_KEY_CHARACTERS = 200
CLOCK_TOLERANCE = timedelta(hours=12)


def parse_time(value: Any) -> datetime | None:
    """Parse Unix seconds or ISO 8601, UTC by default; None for other values and future times."""
    try:
        if isinstance(value, str):
            parsed = datetime.fromisoformat(value.strip())
        elif isinstance(value, int | float) and not isinstance(value, bool):
            parsed = datetime.fromtimestamp(value, UTC)
        elif isinstance(value, datetime):
            parsed = value
        else:
            return None
        if parsed.tzinfo is None:
            parsed = parsed.replace(tzinfo=UTC)
        parsed = parsed.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None
    earliest = datetime(1970, 1, 1, tzinfo=UTC)
    latest = datetime.now(UTC) + CLOCK_TOLERANCE
    return parsed if earliest <= parsed <= latest else None

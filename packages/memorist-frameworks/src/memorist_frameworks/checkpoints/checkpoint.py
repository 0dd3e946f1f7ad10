"""Checkpoint records, their names and encoding, and the steps that another step needs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memorist.base import canonical
from memorist.base.canonical import Json
from memorist.base.errors import Invalid, TooLarge

Typed = tuple[str, bytes]
"""The output of a serializer: the name of its format, and the bytes."""
MAX_BYTES = 256 << 20
MAX_NAME_BYTES = 8 << 10
_NUL = "\u0100"
"""Replaces the byte 0, which not every engine can store: the first character that is no byte."""
_DELTA_CHANNELS = "counters_since_delta_snapshot"
"""The metadata field with the channels that are stored as changes to an earlier value."""


@dataclass(frozen=True)
class Write:
    """A task's write to a channel after a checkpoint; `idx` is below 0 for the task as a whole."""

    task: str
    idx: int
    channel: str
    value: Typed
    path: str = ""


@dataclass(frozen=True)
class Checkpoint:
    """One step of a thread: its state, the values of its channels, and the writes since."""

    thread: str
    ns: str
    id: str
    parent: str | None
    state: Typed
    raw: str
    versions: Mapping[str, str]
    values: Mapping[str, Typed]
    writes: Sequence[Write]
    created_at: datetime

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the step."""
        return dict(json.loads(self.raw))


@dataclass(frozen=True)
class Traced:
    """A channel's value as history: its nearest stored value, and the writes since, in order."""

    seed: Typed | None
    writes: Sequence[Write]


def namespace(ns: str) -> str:
    """Validate a namespace: nested names of graphs and tasks; '' is the outermost graph."""
    if not isinstance(ns, str):
        raise Invalid(field="ns", problem=f"must be text, not {type(ns).__name__}")
    for name in canonical.within(ns, "ns", MAX_NAME_BYTES).split("|") if ns else ():
        if name:
            canonical.key(name, "ns")
    return ns


def encoded(value: Typed, field: str) -> dict[str, str]:
    """Encode bytes for storage: one character per byte, which every engine and export preserves."""
    form, data = value
    if len(data) > MAX_BYTES:
        raise TooLarge(field=field, size=len(data), unit="bytes", limit=MAX_BYTES)
    if " " in canonical.key(form, "type"):
        raise Invalid(field="type", problem=f"must be one word, not {form!r}")
    return {"type": form, "data": bytes(data).decode("latin-1").replace("\0", _NUL)}


def decoded(type: str, data: str) -> Typed:
    """Decode stored bytes."""
    return type, data.replace(_NUL, "\0").encode("latin-1")


def matches(metadata: str, where: Mapping[str, Json] | None) -> bool:
    """Return whether the metadata has all these fields with equal values; `a.b` is b inside a."""
    if not where:
        return True
    fields = json.loads(metadata)
    return all(_field(fields, name) == value for name, value in where.items())


def _field(fields: dict[str, Any], name: str) -> Any:
    """Return the field of this name, or the one that a dotted name leads to; None if missing."""
    if name in fields:
        return fields[name]
    value: Any = fields
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def needed(steps: Sequence[tuple[Any, ...]], stored: set[tuple[str, str]]) -> set[str]:
    """Return the ids of the newest step, which is first in `steps`, and of the ancestors it needs.

    These go back to where each of its delta channels has a stored value.
    """
    by_id = {id: (parent, json.loads(versions)) for id, parent, versions, _ in steps}
    needed_ids: set[str] = set()
    step_id: str | None = steps[0][0] if steps else None
    waiting = set(json.loads(steps[0][3]).get(_DELTA_CHANNELS) or ()) if steps else set()
    while step_id is not None and step_id in by_id and step_id not in needed_ids:
        parent, versions = by_id[step_id]
        needed_ids.add(step_id)
        waiting -= {channel for channel in waiting if (channel, versions.get(channel)) in stored}
        step_id = parent if waiting else None
    return needed_ids

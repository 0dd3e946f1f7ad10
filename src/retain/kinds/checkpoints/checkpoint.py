"""What a checkpoint is, what its names may be, and which steps of a thread another needs: what needs no database to say."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from retain.base import canonical
from retain.base.canonical import Json
from retain.base.errors import Invalid, TooLarge

Typed = tuple[str, bytes]
"""What a serializer made: the name of its form, and the bytes."""
MOST_BYTES = 256 << 20
MOST_NAME = 8 << 10
_NUL = "\u0100"
"""What stands for the byte 0, which is no character to every engine: the first that stands for no byte."""
_CHANGING = "counters_since_delta_snapshot"
"""Where the metadata names the channels that are stored as changes to an earlier value."""


@dataclass(frozen=True)
class Write:
    """What a task wrote to a channel after a checkpoint; `idx` is below 0 for what stands for the task as a whole."""

    task: str
    idx: int
    channel: str
    value: Typed
    path: str = ""


@dataclass(frozen=True)
class Checkpoint:
    """One step of a thread: its state without the channels, the values of the channels, and what was written since."""

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
        """What was said about the step."""
        return dict(json.loads(self.raw))


@dataclass(frozen=True)
class Traced:
    """How a channel came to its value: what it was at the nearest step that stored it, and the writes since, in order."""

    seed: Typed | None
    writes: Sequence[Write]


def digest(user: str, thread: str, ns: str) -> str:
    """A short name for a namespace of somebody's thread."""
    # No name can have a NUL in it, so that no two places are told by the same text.
    return hashlib.sha256("\0".join((user, thread, ns)).encode()).hexdigest()[:32]


def namespace(ns: str) -> str:
    """A namespace: names of graphs and their tasks, one inside the other; '' is the outermost graph."""
    if not isinstance(ns, str):
        raise Invalid(field="ns", problem=f"must be text, not {type(ns).__name__}")
    for name in canonical.within(ns, "ns", MOST_NAME).split("|"):
        if name:
            canonical.key(name, "ns")
    return ns


def encoded(value: Typed, field: str) -> dict[str, str]:
    """Bytes as they are stored: each a character, which every engine and every export keeps alike."""
    form, data = value
    if len(data) > MOST_BYTES:
        raise TooLarge(field=field, size=len(data), unit="bytes", limit=MOST_BYTES)
    if " " in canonical.key(form, "type"):
        raise Invalid(field="type", problem=f"must be one word, not {form!r}")
    return {"type": form, "data": bytes(data).decode("latin-1").replace("\0", _NUL)}


def decoded(type: str, data: str) -> Typed:
    """Bytes as they came."""
    return type, data.replace(_NUL, "\0").encode("latin-1")


def matches(metadata: str, where: Mapping[str, Json] | None) -> bool:
    """Whether the metadata has all of these, and equal."""
    if not where:
        return True
    said = json.loads(metadata)
    return all(said.get(name) == value for name, value in where.items())


def needed(steps: Sequence[tuple[Any, ...]], stored: set[tuple[str, str]]) -> set[str]:
    """The newest step, which is first, and its ancestors up to where each of its changing channels has a stored value."""
    by_id = {id: (parent, json.loads(versions)) for id, parent, versions, _ in steps}
    kept: set[str] = set()
    at: str | None = steps[0][0] if steps else None
    waiting = set(json.loads(steps[0][3]).get(_CHANGING) or ()) if steps else set()
    while at is not None and at in by_id and at not in kept:
        parent, versions = by_id[at]
        kept.add(at)
        waiting -= {channel for channel in waiting if (channel, versions.get(channel)) in stored}
        at = parent if waiting else None
    return kept

"""What an import says in the end: every thing that was read is written, was there before, or is listed with a reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from retain.integrations.importers.record import (
    Conversation,
    Fact,
    Passage,
    Record,
    Thing,
    Unplaced,
)
from retain.kinds.graph import Entity, Relation

NAMES: dict[type, tuple[str, str]] = {
    Conversation: ("conversations", "conversation"),
    Fact: ("entries", "entry"),
    Thing: ("items", "item"),
    Passage: ("notes", "note"),
    Entity: ("entities", "entity"),
    Relation: ("relations", "relation"),
}
"""What a report calls many of a record, and one."""


@dataclass(frozen=True)
class Report:
    """How much of each kind was read, written and found there already, and what has no place here."""

    format: str
    dry_run: bool
    read: Counter[str] = field(default_factory=Counter)
    written: Counter[str] = field(default_factory=Counter)
    there: Counter[str] = field(default_factory=Counter)
    unplaced: list[Unplaced] = field(default_factory=list)

    def count(self, what: str, *, new: bool, number: int = 1) -> None:
        """Note that so many were written, or were there."""
        if number:
            (self.written if new else self.there)[what] += number

    def leave(self, record: Record, reason: str) -> None:
        """Note that a record has no place here."""
        if isinstance(record, Unplaced):
            self.unplaced.append(record)
        else:
            self.unplaced.append(Unplaced(NAMES[type(record)][1], where(record), reason))


def where(record: Record) -> str:
    """What a record is called in its source."""
    if isinstance(record, Thing):
        return " / ".join([*record.place, record.key])
    if isinstance(record, Relation):
        return f"{record.start} → {record.target}"
    return (
        record.id
        if isinstance(record, Conversation | Fact)
        else record.name
        if isinstance(record, Entity)
        else record.where
    )

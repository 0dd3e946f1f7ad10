"""The result of an import: everything read is written, was there already, or is listed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from memorist.importing.records import (
    ImportedCall,
    ImportedConversation,
    ImportedEntry,
    ImportedItem,
    ImportedNote,
    ImportedReference,
    ImportedState,
    Record,
    Unplaced,
)
from memorist.kinds.graph import GraphEntity, Relation

RECORD_NAMES: dict[type, tuple[str, str]] = {
    ImportedConversation: ("conversations", "conversation"),
    ImportedEntry: ("entries", "entry"),
    ImportedItem: ("items", "item"),
    ImportedNote: ("notes", "note"),
    ImportedReference: ("references", "reference"),
    ImportedState: ("state", "state"),
    ImportedCall: ("model calls", "model call"),
    GraphEntity: ("entities", "entity"),
    Relation: ("relations", "relation"),
}
"""The plural and the singular name of each record in a report."""


@dataclass(frozen=True)
class ImportReport:
    """Numbers of records by name, and the records that were not imported."""

    format: str
    dry_run: bool
    read: Counter[str] = field(default_factory=Counter)
    written: Counter[str] = field(default_factory=Counter)
    there: Counter[str] = field(default_factory=Counter)  # unchanged, since they were there already
    unplaced: list[Unplaced] = field(default_factory=list)
    tenants: list[str] = field(default_factory=list)  # the tenants that records were for

    def count(self, name: str, *, is_new: bool, number: int = 1) -> None:
        """Count records that were written, or were there already."""
        if number:
            counter = self.written if is_new else self.there
            counter[name] += number

    def reject(self, record: Record, reason: str) -> None:
        """List a record that was not imported."""
        if isinstance(record, Unplaced):
            self.unplaced.append(record)
        else:
            singular = RECORD_NAMES[type(record)][1]
            self.unplaced.append(Unplaced(singular, location(record), reason))


def location(record: Record) -> str:
    """Return the name of a record in its source."""
    if isinstance(record, ImportedItem):
        return " / ".join([*record.place, record.key])
    if isinstance(record, Relation):
        return f"{record.start} → {record.target}"
    if isinstance(record, ImportedConversation | ImportedEntry | ImportedCall):
        return record.id
    if isinstance(record, ImportedReference):
        return record.key
    if isinstance(record, ImportedState):
        owner = record.user if record.area == "user" else record.area
        return f"{owner} / {record.key}"
    if isinstance(record, GraphEntity):
        return record.name
    return record.where

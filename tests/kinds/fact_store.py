"""Facts that are known before a test."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from memorist.kinds.facts.fact import Fact
from memorist.learning.resolution import Known, MessagePosition

MAY = datetime(2026, 5, 1, 12, tzinfo=UTC)
FIRST = MessagePosition("s", 1, MAY)


def known(
    predicate: str,
    object: str,
    *,
    message: MessagePosition = FIRST,
    by_person: bool = False,
    **values: Any,
) -> Known:
    fields: dict[str, Any] = {
        "id": f"{predicate} {object}",
        "subject": "user",
        "statement": f"The user {predicate} {object}.",
        "predicate": predicate,
        "object": object,
        "topic": "other",
        "valid_from": None,
        "valid_to": None,
        "learned_at": MAY,
        "source": "user",
        "agent": None,
        "confidence": 1.0,
        "status": "active",
        "confirmed": False,
        "replaces": None,
        "replaced_by": None,
    }
    names = Fact.__dataclass_fields__.keys()
    if "conflicts_with" in names:
        fields["conflicts_with"] = None
    return Known(Fact(**(fields | values)), message, by_person)

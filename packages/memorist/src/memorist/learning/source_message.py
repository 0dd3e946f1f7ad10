"""Messages to learn from, and who said them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from memorist.kinds.trust import least_trusted

DOCUMENT_CHARACTERS = 2_000
"""A longer message of a user is taken for a document that was pasted."""


@dataclass(frozen=True)
class SourceMessage:
    """A message to learn from."""

    seq: int
    speaker: str  # "user", "agent", or the name of another person
    text: str
    sent_at: datetime
    source: str  # "user" or "agent", and "import" for both if the session was imported

    @property
    def is_document(self) -> bool:
        """True if it is too long to be the user's own words."""
        return len(self.text) > DOCUMENT_CHARACTERS


def source_of(turns: Sequence[SourceMessage]) -> str:
    """Return the source of a fact that rests on turns: the least trusted."""
    return least_trusted(turn.source for turn in turns)

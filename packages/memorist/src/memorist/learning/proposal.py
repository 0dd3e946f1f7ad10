"""A fact that the reader, the rules or a model proposes, before it is compared with what is known."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from memorist.kinds.facts.fact import Topic

Relation = Literal["new", "same", "refines", "changes", "corrects", "unclear"]


@dataclass(frozen=True)
class Proposal:
    """A fact read from a message. `resolution.decide` compares it with the known facts."""

    subject: str  # "user", or a name, or "the user's sister"
    statement: str  # "The user lives in Lisbon."
    predicate: str = ""  # "lives in"
    object: str = ""  # "Lisbon"
    topic: Topic = "other"
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    exclusive: bool = False  # only one object is true at a time for this subject and predicate
    ends: bool = False  # says that it is no longer true
    alias: str = ""  # another name of the subject: "the user's sister" for Clara
    confidence: float = 1.0
    evidence: tuple[int, ...] = ()  # message numbers of the session that was read
    is_restricted: bool = False  # temporary or partial: stored alongside what it contradicts
    is_doubtful: bool = False  # what it contradicts stays, and a person decides
    instead_of: str = ""  # words that the message denies: "Catherine" in "Katharina, not Catherine"
    ends_subject: bool = False  # somebody died or left: nothing else about them is true any more
    relation: Relation = "new"  # of a correction, or of a model's proposal
    about: str | None = None  # the id of the known fact that `relation` refers to

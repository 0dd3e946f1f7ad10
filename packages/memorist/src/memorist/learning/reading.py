"""Read the turns of a conversation without a model: by the reader, or by rules where it is missing."""

from __future__ import annotations

import functools
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from memorist.base.errors import SettingsError
from memorist.learning import reader, rules
from memorist.learning.checks import Refused, check
from memorist.learning.guards import (
    foreign_parts,
    is_imagined,
    names_a_secret,
    sentence_at,
    states_nothing,
)
from memorist.learning.proposal import Proposal
from memorist.learning.source_message import SourceMessage
from memorist.learning.statements import make_proposals
from memorist.learning.tagging import Tag

MIN_CONFIDENCE = 0.35
"""Values with less confidence are dropped. Chosen on the development set of the training."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reading:
    """The facts that turns propose, and how many were refused for each reason."""

    proposals: list[Proposal] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)

    @property
    def summary(self) -> Mapping[str, Any]:
        """The counts, as they are stored with the model call."""
        counts: dict[str, Any] = {"facts": len(self.proposals)}
        if self.refused:
            counts["refused"] = dict(sorted(self.refused.items()))
        return counts


def read_turns(turns: Sequence[SourceMessage], earlier: Sequence[SourceMessage] = ()) -> Reading:
    """Return what people say of themselves in turns; agents and documents are not read.

    earlier: the turns before, whose last one the first turn may answer
    """
    reading = Reading()
    before = [*earlier[-1:], *turns]
    offset = len(before) - len(turns)
    for place, turn in enumerate(turns):
        if turn.speaker == "agent":
            continue
        if turn.is_document:
            reading.refused["too long"] += 1
            continue
        previous = before[place + offset - 1] if place + offset else None
        question = previous.text if previous and previous.speaker == "agent" else ""
        tags = personal_values(turn.text, question)
        if reader.is_usable() and not reader.is_read_whole(turn.text):
            reading.refused["too long"] += 1
        for proposal in make_proposals(turn.text, tags, turn.sent_at, question, turn.speaker):
            try:
                reading.proposals.append(check(replace(proposal, evidence=(turn.seq,)), [turn]))
            except Refused as refusal:
                reading.refused[str(refusal)] += 1
    return reading


def personal_values(text: str, before: str = "") -> list[Tag]:
    """Return the values that a user states as facts in a message."""
    if states_nothing(text):
        return []
    foreign = foreign_parts(text)
    return [
        tag
        for tag in _values(text, before)
        if not any(start < tag.end and tag.start < end for start, end in foreign)
        and _is_meant(tag, sentence_at(text, tag.start))
    ]


def _is_meant(tag: Tag, sentence: str) -> bool:
    """Return whether a sentence is a literal statement and contains no secret."""
    if names_a_secret(sentence):
        return False
    return tag.slot in ("instruction", "remember") or not is_imagined(sentence)


def _values(text: str, before: str) -> list[Tag]:
    """Return what the reader finds, or the rules where the reader cannot be used."""
    if not reader.is_installed():
        return rules.read(text)
    try:
        return [tag for tag in reader.read(text, before) if tag.confidence >= MIN_CONFIDENCE]
    except SettingsError as error:  # `doctor` reports it, too
        _warn_once(str(error))
        return rules.read(text)


@functools.cache
def _warn_once(problem: str) -> None:
    _log.warning("%s Falling back to the built-in rules.", problem)

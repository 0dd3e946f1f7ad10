"""The profile: what is true now about a user, by topic, as a text and as a layer of a context.

The text depends on the facts alone, not on the time of the call or the question. So it stays the
same, byte by byte, until the facts change, and a provider's prompt cache can serve it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from memorist.base import tokens
from memorist.kinds.facts.fact import ABOUT_USER, TOPICS, count_current, read_current
from memorist.kinds.section import Piece, Section
from memorist.storage.database import Transaction

MAX_PROFILE_FACTS = 100
HEAD = "Known facts about the user, and about the people and things the user mentions:"


class ProfileFact(NamedTuple):
    """A fact of a profile."""

    id: str
    topic: str
    line: str
    confirmed: bool


def read_profile(tx: Transaction, user: str) -> list[ProfileFact]:
    """Return the facts of a user's profile, the most important first: confirmed, then newest."""
    return [
        ProfileFact(
            row.id,
            row.topic,
            _line(row.subject, row.statement),
            bool(row.confirmed),
        )
        for row in read_current(tx, user, MAX_PROFILE_FACTS)
    ]


def profile_text(facts: Sequence[ProfileFact]) -> str:
    """Return facts as a text by topic."""
    return _by_topic([(fact.topic, fact.line) for fact in facts])


def profile_section(tx: Transaction, user: str) -> Section | None:
    """Return the profile as a layer of a context; each fact is a piece that can be left out."""
    facts = read_profile(tx, user)
    if not facts:
        return None
    unread = 0
    if len(facts) == MAX_PROFILE_FACTS:
        unread = count_current(tx, user) - len(facts)
    pieces = [
        Piece(
            f"facts {fact.id}",
            fact.line,
            tokens.estimate(fact.line + "\n"),
            "a confirmed fact" if fact.confirmed else "a fact",
            1 / (1 + rank),
        )
        for rank, fact in enumerate(facts)
    ]
    topics = {f"facts {fact.id}": fact.topic for fact in facts}

    def write(pieces: Sequence[Piece]) -> str:
        lines = [(topics[piece.source], piece.text) for piece in pieces]
        return f"{HEAD}\n{_by_topic(lines)}"

    headings = sum(tokens.estimate(_heading(topic) + "\n") for topic in {*topics.values()})
    return Section("facts", pieces, write, unread=unread, heading_tokens=headings)


def _by_topic(lines: Sequence[tuple[str, str]]) -> str:
    text: list[str] = []
    for topic in TOPICS:
        of_topic = [line for line_topic, line in lines if line_topic == topic]
        if of_topic:
            text += [_heading(topic), *of_topic]
    return "\n".join(text)


def _heading(topic: str) -> str:
    return f"{topic.capitalize()}:"


def _line(subject: str, statement: str) -> str:
    is_named = subject == ABOUT_USER or subject.casefold() in statement.casefold()
    return f"- {statement}" if is_named else f"- {subject}: {statement}"

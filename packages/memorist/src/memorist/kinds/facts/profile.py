"""The profile: what is true now about a user, by topic, as a text and as a layer of a context.

As a text, the profile depends on the facts alone and stays the same, byte by byte, until they
change.

As a layer, it begins with the facts that share words with the question: a model reads them first,
and they stay where not all facts fit. So the layer changes with the question. It stands behind the
recent messages, with the other layers that change each time, so that a provider's prompt cache can
serve everything before it, also after new facts were learned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from memorist.base import clock, tokens
from memorist.base.wording import date_in_words
from memorist.kinds.facts.fact import (
    ABOUT_USER,
    TOPICS,
    FactRow,
    count_current,
    read_current,
)
from memorist.kinds.section import Piece, Section
from memorist.search import words
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
            _line(row),
            bool(row.confirmed),
        )
        for row in read_current(tx, user, MAX_PROFILE_FACTS)
    ]


def profile_text(facts: Sequence[ProfileFact]) -> str:
    """Return facts as a text by topic."""
    return _by_topic([(fact.topic, fact.line) for fact in facts])


def profile_section(tx: Transaction, user: str, question: str) -> Section | None:
    """Return the profile as a layer of a context; each fact is a piece that can be left out.

    The facts that share the rarest words with the question come first, and with them their topics.
    """
    facts = read_profile(tx, user)
    if not facts:
        return None
    shared = _weigh_shared_words(facts, question)
    facts.sort(key=lambda fact: -shared[fact.id])  # equal ones stay in their order
    unread = 0
    if len(facts) == MAX_PROFILE_FACTS:
        unread = count_current(tx, user) - len(facts)
    pieces = [
        Piece(
            f"facts {fact.id}",
            fact.line,
            tokens.estimate(fact.line + "\n"),
            _reason(fact, shared[fact.id]),
            1 / (1 + rank),
        )
        for rank, fact in enumerate(facts)
    ]
    topics = {f"facts {fact.id}": fact.topic for fact in facts}

    matching = dict.fromkeys(fact.topic for fact in facts if shared[fact.id])
    order = [*matching, *(topic for topic in TOPICS if topic not in matching)]

    def write(pieces: Sequence[Piece]) -> str:
        lines = [(topics[piece.source], piece.text) for piece in pieces]
        return f"{HEAD}\n{_by_topic(lines, order)}"

    headings = sum(tokens.estimate(_heading(topic) + "\n") for topic in {*topics.values()})
    return Section("facts", pieces, write, unread=unread, heading_tokens=headings)


def _weigh_shared_words(facts: Sequence[ProfileFact], question: str) -> dict[str, float]:
    """Return the weight of the words that each fact shares with a question, by the fact's id.

    A word that half as many facts contain weighs twice as much.
    """
    asked = set(words.analyse(question)) - words.STOP
    shared = {fact.id: asked.intersection(words.text_words(fact.line)) for fact in facts}
    counts = Counter(chain.from_iterable(shared.values()))
    return {
        id: sum(1 / counts[word] for word in sorted(shared_words))
        for id, shared_words in shared.items()
    }


def _reason(fact: ProfileFact, weight: float) -> str:
    reason = "a confirmed fact" if fact.confirmed else "a fact"
    return f"{reason} with words of the message" if weight else reason


def _by_topic(lines: Sequence[tuple[str, str]], order: Sequence[str] = TOPICS) -> str:
    text: list[str] = []
    for topic in order:
        of_topic = [line for line_topic, line in lines if line_topic == topic]
        if of_topic:
            text += [_heading(topic), *of_topic]
    return "\n".join(text)


def _heading(topic: str) -> str:
    return f"{topic.capitalize()}:"


def _line(row: FactRow) -> str:
    """Return a fact as a line of the profile; one that changed says since when it is true."""
    statement = row.statement
    if row.replaces_how == "changed" and row.valid_from is not None:
        since = date_in_words(clock.to_datetime(row.valid_from))
        statement = f"{statement.rstrip('.')}, since {since}."
    is_named = row.subject == ABOUT_USER or row.subject.casefold() in statement.casefold()
    return f"- {statement}" if is_named else f"- {row.subject}: {statement}"

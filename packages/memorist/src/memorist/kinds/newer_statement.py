"""Messages that say what is no longer true: they rank below the message that says what is true now.

Kinds that keep statements, such as facts, know which messages state what has been replaced.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from memorist.search.query import Hit

MessageName = tuple[str, int]
"""The session and the number of a message."""


@dataclass(frozen=True)
class NewerStatement:
    """The current statement that replaces what a message says, and the messages that state it."""

    words: str
    """`since 9 November 2026: The user lives in Berlin.`"""
    messages: frozenset[MessageName]


def message_name(hit: Hit) -> MessageName | None:
    """Return the session and number of a message hit, or None for other kinds."""
    return (hit.id, hit.seq) if hit.kind == "messages" else None


def says_newer(hit: Hit, newer: NewerStatement) -> bool:
    """Return whether a hit is a message that states the current fact."""
    return message_name(hit) in newer.messages


def with_newer_words(hits: Sequence[Hit], newer: Mapping[MessageName, NewerStatement]) -> list[Hit]:
    """Set `newer_statement` on hits whose statement was replaced."""
    return [
        replace(hit, newer_statement=newer[name].words)
        if (name := message_name(hit)) and name in newer
        else hit
        for hit in hits
    ]


def put_newer_first(hits: Sequence[Hit], newer: Mapping[MessageName, NewerStatement]) -> list[Hit]:
    """Reorder hits so that a replacing message comes before the one that it replaces.

    The newer one moves up: it answers the same question, often in other words, as "I moved to
    Berlin" does not contain the words of "Where do I live?".
    """
    if not newer:
        return list(hits)
    ordered: list[Hit] = []
    placed: set[MessageName] = set()
    for hit in hits:
        name = message_name(hit)
        if name is None:
            ordered.append(hit)
            continue
        if name in placed:
            continue
        if name in newer and placed.isdisjoint(newer[name].messages):
            newest = next((other for other in hits if says_newer(other, newer[name])), None)
            if newest is not None:
                ordered.append(replace(newest, score=max(hit.score, newest.score)))
                placed.add((newest.id, newest.seq))
        ordered.append(hit)
        placed.add(name)
    return ordered


def missing_messages(
    hits: Sequence[Hit], newer: Mapping[MessageName, NewerStatement]
) -> list[Collection[MessageName]]:
    """Return the replacing messages that are not among the hits."""
    names = [name for hit in hits if (name := message_name(hit))]
    return [
        newer[name].messages
        for name in names
        if name in newer and newer[name].messages.isdisjoint(names)
    ]

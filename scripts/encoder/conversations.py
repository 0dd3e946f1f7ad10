"""Conversations, questions and the turns that answer them: the common format of all sources."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Turn:
    """One message of a conversation."""

    speaker: str
    text: str
    session: int = 0


@dataclass(frozen=True)
class Question:
    """A question, and the indexes of the turns that answer it."""

    text: str
    evidence: tuple[int, ...]
    # Turns that ask the same question, or say that the answer is unknown: hard negatives.
    distractors: tuple[int, ...] = ()
    kind: str = ""


@dataclass
class Conversation:
    """Turns in order, and questions about them."""

    name: str
    source: str
    turns: list[Turn] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    named: bool = True  # False: a chat of a user and an assistant, without names


def normalized_words(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation."""
    return WORD.findall(text.lower())


def shared_word_runs(texts: list[str], others: list[str], length: int = 8) -> set[str]:
    """Return the runs of `length` words that occur in both collections."""

    def runs(collection: list[str]) -> set[str]:
        word_runs: set[str] = set()
        for text in collection:
            words = normalized_words(text)
            word_runs.update(
                " ".join(words[start : start + length]) for start in range(len(words) - length + 1)
            )
        return word_runs

    return runs(texts) & runs(others)

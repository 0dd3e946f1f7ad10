r"""Labelled messages: the format of the files in `turns/`, and the labels in `guide.md`.

A block is a message; a blank line ends it:

    < Where do you live these days?
    > leeds, with my two kids
    + home | user | leeds | answer
    + relation | user | two kids | answer

`<` is the assistant's message before, `>` the user's message, and each `+` a fact: slot, subject,
value and flags. `\n` stands for a line break inside a message.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from memorist.learning.tagging import FLAGS, SLOTS


@dataclass(frozen=True)
class Label:
    """A fact in a message; the subject is `user` or words of the message, the value its words."""

    slot: str
    subject: str
    value: str
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Turn:
    """A labelled message and the assistant's message before it."""

    id: str
    text: str
    before: str = ""
    labels: list[Label] = field(default_factory=list)


def read_turns(file: Path) -> list[Turn]:
    """Read a file of labelled messages; raise ValueError for a label that its message does not bear out."""
    turns = []
    for number, block in enumerate(_blocks(file.read_text(encoding="utf-8"))):
        turn = _turn(f"{file.stem}/{number}", block)
        _check(turn)
        turns.append(turn)
    return turns


def read_json_turns(file: Path) -> list[Turn]:
    """Read labelled messages from JSON Lines: id, before, text, and facts."""
    turns = []
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        labels = [
            Label(fact["slot"], fact["subject"], fact["value"], tuple(fact["flags"]))
            for fact in row["facts"]
        ]
        turns.append(Turn(row["id"], row["text"], row["before"], labels))
    return turns


def _blocks(text: str) -> Iterator[list[str]]:
    for block in text.split("\n\n"):
        lines = [line for line in block.split("\n") if line.strip() and not line.startswith("#")]
        if lines:
            yield lines


def _turn(id: str, lines: list[str]) -> Turn:
    before = text = ""
    labels = []
    for line in lines:
        mark, rest = line[0], line[1:].strip()
        if mark == "<":
            before = rest.replace("\\n", "\n")
        elif mark == ">":
            text = rest.replace("\\n", "\n")
        elif mark == "+":
            slot, subject, value, *flags = (part.strip() for part in rest.split("|"))
            labels.append(Label(slot, subject, value, tuple(" ".join(flags).split())))
        else:
            raise ValueError(f"{id}: a line must begin with <, > or +, not {line!r}")
    return Turn(id, text, before, labels)


def _check(turn: Turn) -> None:
    if not turn.text:
        raise ValueError(f"{turn.id}: has no message")
    for label in turn.labels:
        if label.slot not in SLOTS or not {*label.flags} <= {*FLAGS}:
            raise ValueError(f"{turn.id}: unknown slot or flag in {label}")
        if not label.value or label.value not in turn.text:
            raise ValueError(f"{turn.id}: the message does not have the value of {label}")
        if label.subject != "user" and label.subject not in turn.text:
            raise ValueError(f"{turn.id}: the message does not have the subject of {label}")

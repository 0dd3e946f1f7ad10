"""Samples: the tokens of a message with the tags that the reader learns."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memorist.learning.tagging import FLAGS, SLOTS
from reader.turns import Label, Turn

TEXT_TOKENS = 200
"""Tokens of a message that are read at once. `learning/reader.py` has the same number."""
BEFORE_TOKENS = 40
"""The last tokens of the assistant's message before."""
OUTSIDE = 0
_PUNCTUATION = re.compile(r"(?<=\w)[,.;:!?]+(?=\s|$)|(?<=\w)['’](?=\w)")


def begin_tag(slot: str) -> int:
    """Return the tag of the first token of a value."""
    return 1 + 2 * SLOTS.index(slot)


@dataclass(frozen=True)
class Span:
    """A value: its first token and the one behind its last, its flags, and the span of its subject."""

    start: int
    end: int
    slot: int
    flags: tuple[int, ...]
    subject: tuple[int, int]  # first and last token; (0, 0) for the user


@dataclass(frozen=True)
class Sample:
    """A message as tokens. The first token stands for the whole message, and for the user."""

    id: str
    tokens: list[int]
    types: list[int]  # 0 for the message, 1 for what was said before
    spans: list[Span]
    text_end: int  # the number of tokens of the message


def make_sample(tokenizer: Any, turn: Turn, *, plain: bool = False) -> Sample | None:
    """Return the sample of a turn; None if its labels lie behind the tokens that are read.

    plain: without punctuation and apostrophes, as many people type
    """
    turn = _without_punctuation(turn) if plain else turn
    encoded = tokenizer.encode(turn.text, add_special_tokens=False)
    offsets = encoded.offsets[:TEXT_TOKENS]
    ids = encoded.ids[:TEXT_TOKENS]
    before = tokenizer.encode(turn.before[-1_000:], add_special_tokens=False).ids[-BEFORE_TOKENS:]
    first, last = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    spans: list[Span] = []
    for label in turn.labels:
        place = _token_span(offsets, *_find_value(turn.text, label))
        if place is None:
            return None
        start, end = place
        subject = (0, 0)
        if label.subject != "user":
            near = _token_span(offsets, *_find_near(turn.text, label.subject, offsets[start][0]))
            if near is None:
                return None
            subject = (near[0] + 1, near[1])
        flags = tuple(FLAGS.index(flag) for flag in label.flags)
        spans.append(Span(start + 1, end + 1, SLOTS.index(label.slot), flags, subject))
    tokens = [first, *ids, last]
    types = [0] * len(tokens)
    if before:
        tokens += [*before, last]
        types += [1] * (len(before) + 1)
    return Sample(turn.id, tokens, types, spans, len(ids) + 1)


def tags(sample: Sample) -> list[int]:
    """Return the tag of each token; the shorter of two values that overlap wins."""
    result = [OUTSIDE] * len(sample.tokens)
    for span in sorted(sample.spans, key=lambda span: span.start - span.end):
        begin = 1 + 2 * span.slot
        result[span.start : span.end] = [begin] + [begin + 1] * (span.end - span.start - 1)
    return result


def _find_value(text: str, label: Label) -> tuple[int, int]:
    """Return where the value of a label stands: near its subject if it occurs several times."""
    places = _places(text, label.value)
    if label.subject == "user" or len(places) == 1:
        return places[0]
    subject = _places(text, label.subject)[0][0]
    return min(places, key=lambda place: abs(place[0] - subject))


def _find_near(text: str, words: str, position: int) -> tuple[int, int]:
    return min(_places(text, words), key=lambda place: abs(place[0] - position))


def _places(text: str, words: str) -> list[tuple[int, int]]:
    """Return where words stand in a text, whole words if there are any."""
    found = [match.span() for match in re.finditer(re.escape(words), text)]
    whole = [match.span() for match in re.finditer(rf"(?<!\w){re.escape(words)}(?!\w)", text)]
    return whole or found


def _token_span(offsets: Sequence[tuple[int, int]], start: int, end: int) -> tuple[int, int] | None:
    """Return the first token of a part of a text, and the one behind its last."""
    inside = [index for index, (first, last) in enumerate(offsets) if first < end and last > start]
    return (inside[0], inside[-1] + 1) if inside else None


def _without_punctuation(turn: Turn) -> Turn:
    labels = [
        Label(label.slot, _plain(label.subject), _plain(label.value), label.flags)
        for label in turn.labels
    ]
    text = _plain(turn.text)
    if any(
        label.value not in text
        or (label.subject not in ("user", text) and label.subject not in text)
        for label in labels
    ):
        return turn
    return Turn(turn.id, text, turn.before, labels)


def _plain(text: str) -> str:
    return _PUNCTUATION.sub("", text)


def shuffled(samples: Sequence[Sample], seed: int) -> list[Sample]:
    """Return samples in a random order."""
    order = list(samples)
    random.Random(seed).shuffle(order)
    return order

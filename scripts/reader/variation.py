"""Variations of samples: other values of the same slot, and hidden words.

They prevent memorization of values, so that the network relies on the words around them.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from memorist.learning.tagging import SLOTS
from reader.samples import Sample, Span

EXCHANGED_SLOTS = frozenset(
    [
        "name",
        "home",
        "work",
        "role",
        "allergy",
        "diet",
        "condition",
        "medication",
        "belief",
        "language",
        "pet",
        "owns",
        "skill",
    ]
)
MAX_VALUE_TOKENS = 6
EXCHANGED_SHARE = 0.3
"""Share of the values that are exchanged in an epoch."""
HIDDEN_SHARE = 0.08
"""Share of the tokens that are hidden in an epoch."""


class Variation:
    """Varies the samples of one language."""

    def __init__(self, samples: Sequence[Sample], mask: int, random_numbers: random.Random) -> None:
        self._mask = mask
        self._random = random_numbers
        self._values: defaultdict[int, list[list[int]]] = defaultdict(list)
        for sample in samples:
            for span in sample.spans:
                if _is_exchanged(span):
                    self._values[span.slot].append(sample.tokens[span.start : span.end])

    def vary(self, sample: Sample) -> Sample:
        """Return a sample with some other values and hidden tokens."""
        for index, span in enumerate(sample.spans):
            if _is_exchanged(span) and self._random.random() < EXCHANGED_SHARE:
                sample = _exchanged(sample, index, self._random.choice(self._values[span.slot]))
        tokens = [
            self._mask
            if 0 < place < sample.text_end and self._random.random() < HIDDEN_SHARE
            else token
            for place, token in enumerate(sample.tokens)
        ]
        return replace(sample, tokens=tokens)


def _is_exchanged(span: Span) -> bool:
    return SLOTS[span.slot] in EXCHANGED_SLOTS and span.end - span.start <= MAX_VALUE_TOKENS


def _exchanged(sample: Sample, index: int, value: list[int]) -> Sample:
    """Return a sample with another value, unless the value overlaps something else that is labelled."""
    span = sample.spans[index]
    parts = [(other.start, other.end) for n, other in enumerate(sample.spans) if n != index]
    parts += [(s.subject[0], s.subject[1] + 1) for s in sample.spans if s.subject != (0, 0)]
    if any(start < span.end and end > span.start for start, end in parts):
        return sample
    shift = len(value) - (span.end - span.start)

    def moved(place: int) -> int:
        return place + shift if place >= span.end else place

    spans = [
        replace(
            other,
            start=moved(other.start),
            end=span.start + len(value) if n == index else moved(other.end),
            subject=(moved(other.subject[0]), moved(other.subject[1])),
        )
        for n, other in enumerate(sample.spans)
    ]
    cut = (span.start, span.end)
    tokens = [*sample.tokens[: cut[0]], *value, *sample.tokens[cut[1] :]]
    types = [*sample.types[: cut[0]], *[0] * len(value), *sample.types[cut[1] :]]
    return replace(
        sample, tokens=tokens, types=types, spans=spans, text_end=sample.text_end + shift
    )

"""Candidates of a search put in order: signals, weighed by learned weights, say how likely each is what is asked for.

Pure: whoever searches brings the candidates with what is known of them. The weights are data (weights.json), learned by
bench/learn.py, for searches by words alone and for each family of embedders, because their scales differ.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from retain.search import features as signals
from retain.search.candidates import Candidate, Corpus, Digest, digest
from retain.search.question import Question

if TYPE_CHECKING:
    from retain.search.features import Array

__all__ = ["Candidate", "Corpus", "Digest", "Ranked", "Weights", "digest", "rank", "weights"]

_TYPICAL = 150
"""About as many candidates as most searches have."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate in its place: how likely it is wanted, its near-duplicates, and what each signal adds to it or takes."""

    number: int
    score: float
    same: tuple[int, ...] = ()
    signals: Sequence[str] = ()
    added: Sequence[float] = ()

    @property
    def parts(self) -> dict[str, float]:
        """What each signal adds or takes, against the average candidate; what is next to nothing is left out."""
        return {
            name: round(float(part), 3)
            for name, part in zip(self.signals, self.added, strict=True)
            if abs(part) >= 0.001
        }


@dataclass(frozen=True)
class Weights:
    """What was learned: how much each signal counts, and how their sum becomes a probability."""

    signals: dict[str, float]
    chance: dict[str, float]


@cache
def weights(family: str) -> Weights:
    """The weights for the cosines of a family of embedders, or for words alone."""
    data = json.loads(Path(__file__).with_name("weights.json").read_text(encoding="utf-8"))
    return Weights(**data["families"][family])


def rank(
    question: Question,
    candidates: Sequence[Candidate],
    corpus: Corpus,
    *,
    family: str = "static",
    wanted: Collection[int] | None = None,
) -> list[Ranked]:
    """The candidates, best first. `family` is that of the embedder whose cosines they carry: static or strong.

    Where only some are `wanted`, by their numbers, the others still say what stands beside those.
    """
    import numpy as np

    if not candidates:
        return []
    ordered = sorted(
        candidates, key=lambda one: one.number
    )  # so that no sum depends on the order they came in
    learned = weights(family if any(one.cosine is not None for one in ordered) else "words")
    measured = signals.measure(question, ordered, corpus)
    names = [name for name in learned.signals if name in measured]
    parts = np.stack(
        [(measured[name] - measured[name].mean()) * learned.signals[name] for name in names], axis=1
    )
    scores = parts.sum(axis=1).round(9)
    hopes = np.stack(
        list(calibration_features(scores, measured, ordered).values()), axis=1
    ) @ np.array(list(learned.chance.values()))
    order = np.lexsort(([-one.number for one in ordered], [-one.at for one in ordered], -scores))
    places = [
        place for place in order.tolist() if wanted is None or ordered[place].number in wanted
    ]
    chances = np.minimum.accumulate(
        1 / (1 + np.exp(-hopes[places]))
    )  # who stands behind is no likelier than who is before
    chance = dict(zip(places, chances.tolist(), strict=True))
    return [
        Ranked(ordered[place].number, chance[place], same, names, parts[place].tolist())
        for place, same in _folded(ordered, places, question.many)
    ]


def calibration_features(
    scores: Array, measured: Mapping[str, Array], ordered: Sequence[Candidate]
) -> dict[str, Array]:
    """What makes a probability of a sum of signals, which only says that one candidate is better than another.

    Something is always the best of all: so besides its share among the candidates it is asked how much of the question it
    has in itself and around it, and how near it is in meaning, and the same of the best. Where there are few candidates, it
    is as if there were more, of average worth: being the best of one is no merit, and what it has in itself says more.
    """
    import numpy as np

    high, missing = scores.max(), max(_TYPICAL - len(scores), 0)
    share = (
        scores - high - np.log(np.exp(scores - high).sum() + missing * np.exp(scores.mean() - high))
    )
    near = np.array([one.cosine or 0.0 for one in ordered])
    coverage, around, one = measured["coverage"], measured["words around"], np.ones(len(scores))
    few = missing / _TYPICAL
    return {
        "share": share,
        "coverage": coverage,
        "around": around,
        "best coverage": one * coverage.max(),
        "near": near,
        "nearest": one * near.max(),
        "of few": one * few,
        "coverage of few": coverage * few,
        "near of few": near * few,
        "offset": one,
    }


def _folded(
    ordered: Sequence[Candidate], order: Sequence[int], many: bool
) -> list[tuple[int, tuple[int, ...]]]:
    """The places in order, each with the numbers of those behind it that say the same; a question for many gets them all.

    Only what one voice says again in a conversation is the same: two keys may well have one value, two documents a sentence.
    """
    first: dict[tuple[str, int], int] = {}
    same: dict[int, list[int]] = {}
    for place in order:
        one = ordered[place]
        alone = many or one.kind != "messages" or not one.digest.fingerprint
        leader = (
            place
            if alone
            else first.setdefault((one.author or one.role, one.digest.fingerprint), place)
        )
        if leader == place:
            same[place] = []
        else:
            same[leader].append(one.number)
    return [(place, tuple(numbers)) for place, numbers in same.items()]

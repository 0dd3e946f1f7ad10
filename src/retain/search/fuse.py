"""Candidates of a search put in order: signals, weighed by learned weights, say how likely each is what is asked for.

Pure: whoever searches brings the candidates with what is known of them. The weights are data (weights.json), learned by
bench/learn.py, for searches by words alone and for each family of embedders, because their scales differ.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from retain.search import signals
from retain.search.candidate import Candidate, Corpus, Digest, digest
from retain.search.question import Question

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Candidate", "Corpus", "Digest", "Ranked", "Weights", "digest", "rank", "weights"]


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
        return {name: round(part, 3) for name, part in zip(self.signals, self.added, strict=True) if abs(part) >= 0.001}


@dataclass(frozen=True)
class Weights:
    """What was learned: how much each signal counts, and how a sum of them becomes a probability."""

    signals: dict[str, float]
    slope: float
    coverage: float
    offset: float


@cache
def weights(family: str) -> Weights:
    """The weights for the cosines of a family of embedders, or for words alone."""
    data = json.loads(Path(__file__).with_name("weights.json").read_text(encoding="utf-8"))
    return Weights(**data["families"][family])


def rank(question: Question, candidates: Sequence[Candidate], corpus: Corpus, *, family: str = "static") -> list[Ranked]:
    """The candidates, best first. `family` is that of the embedder whose cosines they carry: static or strong."""
    import numpy as np

    if not candidates:
        return []
    ordered = sorted(candidates, key=lambda one: one.number)  # so that no sum depends on the order they came in
    learned = weights(family if any(one.cosine is not None for one in ordered) else "words")
    measured = signals.measure(question, ordered, corpus)
    names = [name for name in learned.signals if name in measured]
    parts = np.stack([(measured[name] - measured[name].mean()) * learned.signals[name] for name in names], axis=1)
    scores = parts.sum(axis=1).round(9)
    chances = _chances(scores, float(measured["coverage"].max()), learned)
    order = np.lexsort(([-one.number for one in ordered], [-one.at for one in ordered], -scores))
    added, chance = parts.tolist(), chances.tolist()
    return [
        Ranked(ordered[place].number, chance[place], same, names, added[place])
        for place, same in _folded(ordered, order.tolist(), question.many)
    ]


def _chances(scores: NDArray[np.float64], coverage: float, learned: Weights) -> NDArray[np.float64]:
    """Probabilities: a candidate's share among all, and how much of the question the best has, through a logistic."""
    import numpy as np

    high = scores.max()
    share = scores - high - np.log(np.exp(scores - high).sum())
    chances: NDArray[np.float64] = 1 / (1 + np.exp(-(learned.slope * share + learned.coverage * coverage + learned.offset)))
    return chances


def _folded(ordered: Sequence[Candidate], order: Sequence[int], many: bool) -> list[tuple[int, tuple[int, ...]]]:
    """The places in order, each with the numbers of those behind it that say the same; a question for many gets them all."""
    first: dict[tuple[str, tuple[int, ...]], int] = {}
    same: dict[int, list[int]] = {}
    for place in order:
        one = ordered[place]
        if many or not one.digest.sketch:
            same[place] = []
            continue
        leader = first.setdefault((one.author or one.role, one.digest.sketch), place)
        if leader == place:
            same[place] = []
        else:
            same[leader].append(one.number)
    return [(place, tuple(numbers)) for place, numbers in same.items()]

"""The fit of the search weights: bench/learn.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench import learn

FEATURES = ("words", "recent", "asks the same", "rare")


def case(rows: Any, evidence: list[int]) -> learn.Case:
    """Return a question with these features of its candidates."""
    target = np.zeros(len(rows))
    target[evidence] = 1 / len(evidence)
    unused: Any = None
    return learn.Case(
        "set", "", FEATURES, np.array(rows, float), target, target, (), unused, unused
    )


def cases() -> list[learn.Case]:
    """Return questions whose evidence has the most words; one also has a rare, large feature."""
    chance = np.random.default_rng(1)
    result = []
    for number in range(40):
        rows = chance.normal(size=(30, len(FEATURES))) * (1, 1, 0.01, 0)
        best = int(rows[:, 0].argmax())
        if number == 0:
            rows[best, 3] = 100.0
        result.append(case(rows, [best]))
    return result


def test_the_fit_is_the_best_within_the_limits() -> None:
    learned = learn.fit(cases(), 0.02)
    weights = dict(zip(learned.names, learned.weights, strict=True))
    assert weights["words"] > 1
    assert weights["recent"] >= learn.MIN_WEIGHTS["recent"] - 1e-9
    assert weights["asks the same"] <= learn.MAX_WEIGHTS["asks the same"] + 1e-9

    rows = np.concatenate([case.rows for case in cases()])
    middle = rows.mean(axis=0)
    spread = rows.std(axis=0)
    tables = [((case.rows - middle) / spread, case.target, 1 / 40) for case in cases()]
    best = learn._loss(tables, learned.weights * spread, 0.02)
    for place, name in enumerate(FEATURES):
        for step in (-0.05, 0.05):
            other = learned.weights * spread
            other[place] += step
            is_allowed = other[place] / spread[place] >= learn.MIN_WEIGHTS.get(
                name, -np.inf
            ) and other[place] / spread[place] <= learn.MAX_WEIGHTS.get(name, np.inf)
            assert not is_allowed or learn._loss(tables, other, 0.02) > best

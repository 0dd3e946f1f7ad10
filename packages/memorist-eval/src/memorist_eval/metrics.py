"""Metrics of ranked lists with known evidence.

R@k:   share of the evidence among the first k hits
All@k: 1 if all evidence is among the first k hits
Any@k: 1 if any evidence is among the first k hits
H@1:   1 if the first hit is evidence
MRR:   1 / rank of the first evidence, 0 if none was found
N@10:  nDCG of the first 10 hits, with evidence as the only relevant hits
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Mapping, Sequence

DEPTHS = (5, 10, 25, 50)
NAMES = (
    *(f"{name}@{depth}" for depth in DEPTHS for name in ("R", "All", "Any")),
    "H@1",
    "MRR",
    "N@10",
)
NDCG_DEPTH = 10
RESAMPLES = 500


def score(ranked: Sequence[object], gold: Collection[object]) -> dict[str, float]:
    """Return every metric of one ranked list, best first."""
    ranks = [rank for rank, unit in enumerate(ranked) if unit in gold]
    values: dict[str, float] = {}
    for depth in DEPTHS:
        count = sum(rank < depth for rank in ranks)
        values[f"R@{depth}"] = count / len(gold)
        values[f"All@{depth}"] = float(count == len(gold))
        values[f"Any@{depth}"] = float(count > 0)
    values["H@1"] = float(bool(ranks) and ranks[0] == 0)
    values["MRR"] = 1 / (ranks[0] + 1) if ranks else 0.0
    gain = sum(_discount(rank) for rank in ranks if rank < NDCG_DEPTH)
    values["N@10"] = gain / sum(_discount(rank) for rank in range(min(NDCG_DEPTH, len(gold))))
    return values


def _discount(rank: int) -> float:
    return 1 / math.log2(rank + 2)


def mean(values: Collection[float]) -> float:
    """Return the mean, 0 for no values."""
    return sum(values) / len(values) if values else 0.0


def mean_scores(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each metric."""
    return {name: mean([values[name] for values in scores]) for name in NAMES}


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % confidence interval of a mean, by a bootstrap with a fixed seed."""
    if not values:
        return 0.0, 0.0
    chance = random.Random(0)
    count = len(values)
    means = sorted(
        mean([values[chance.randrange(count)] for _ in values]) for _ in range(RESAMPLES)
    )
    return means[RESAMPLES * 25 // 1000], means[RESAMPLES * 975 // 1000]


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that is not exceeded by `share` of the values, 0 for no values."""
    if not values:
        return 0.0
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]

"""Rerankers: score the best hits of a search again with a model of your own.

`Memory.open(reranker=…)` sets one. memorist has none: those that were measured did not help, see
docs/internals/search-figures.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from memorist.base.errors import BadAnswer, MemoristError
from memorist.search.query import Hit

RERANK_LIMIT = 30
"""Number of hits that are reranked."""
WEIGHT = 0.6
"""Weight of one standard deviation of a reranker's score, in log odds."""
_MAX_CHARACTERS = 1_000


class Reranker(Protocol):
    """Scores how well texts answer a question. Only the order of the scores matters."""

    @property
    def identity(self) -> str:
        """Name of the model."""
        ...

    def scores(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """Return a score per text, higher is better. If it raises, its scores are not used."""
        ...


def rerank(reranker: Reranker, question: str, hits: Sequence[Hit]) -> tuple[list[Hit], str]:
    """Return the hits with the best ones reranked, and a status text. A failure changes nothing."""
    best = list(hits[:RERANK_LIMIT])
    rest = list(hits[RERANK_LIMIT:])
    if len(best) < 2:
        return [*best, *rest], "there was nothing to put in order"
    try:
        scores = _scores(reranker, question, best)
        name = reranker.identity
    except MemoristError as error:
        return [*best, *rest], f"failed: {error}"
    except Exception as error:  # a custom reranker may raise anything
        return [*best, *rest], f"failed: {type(error).__name__}: {error}"[:500]
    again = sorted(map(_adjust, best, scores), key=lambda hit: -hit.score)
    min_score = rest[0].score if rest else 0.0  # reranked hits stay before the others
    return [
        *(replace(hit, score=max(hit.score, min_score)) for hit in again),
        *rest,
    ], f"ran: {name}"


def _scores(reranker: Reranker, question: str, hits: Sequence[Hit]) -> list[float]:
    """Return the reranker's score of each hit, in standard deviations from the mean."""
    import statistics  # not needed at start

    answer = reranker.scores(
        question, [f"{hit.title}\n{hit.text}".strip()[:_MAX_CHARACTERS] for hit in hits]
    )
    scores = [] if answer is None else [float(score) for score in answer]
    if len(scores) != len(hits) or not all(map(math.isfinite, scores)):
        raise BadAnswer(model=reranker.identity, problem=f"it must return {len(hits)} numbers")
    largest = max(map(abs, scores)) or 1.0  # squares of very large scores would overflow
    scores = [score / largest for score in scores]
    mean = statistics.fmean(scores)
    spread = statistics.pstdev(scores) or 1.0
    return [(score - mean) / spread for score in scores]


def _adjust(hit: Hit, score: float) -> Hit:
    """Return a hit with the odds after reranking."""
    odds = math.log(max(hit.score, 1e-9) / max(1 - hit.score, 1e-9)) + WEIGHT * score
    return replace(
        hit, score=1 / (1 + math.exp(-odds)), why={**hit.why, "reranker": round(WEIGHT * score, 4)}
    )

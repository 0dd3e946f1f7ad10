"""A second look at the best of a search, for whoever can judge a question beside a text better than signals can.

It costs a model run for every text: so nothing is reranked unless the settings say so, only the best are looked at, and
always outside of any transaction.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from retain.base.errors import BadAnswer, RetainError
from retain.base.settings import Settings
from retain.search.onnx_embedder import OnnxEmbedder
from retain.search.query import Hit

RERANK_LIMIT = 30
"""How many hits are looked at again."""
WEIGHT = 0.6
"""How much one standard deviation of a reranker counts, in the logarithm of the odds that ranking gave."""
_MOST_CHARACTERS = 1_000


class Reranker(Protocol):
    """Something that says how well each text answers a question; only the order of its numbers means anything."""

    @property
    def identity(self) -> str:
        """Which model this is."""
        ...

    def scores(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """A number for each text, higher for a better answer. Whatever it raises, the search goes on without it."""
        ...


class LateInteraction:
    """Every token of the question looks for the token of the text that is nearest to it: finer than one vector for each."""

    def __init__(self, folder: str = "") -> None:
        self._encoder = OnnxEmbedder(folder)

    @property
    def identity(self) -> str:
        """The encoder's."""
        return f"late {self._encoder.identity}"

    def scores(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """The mean, over the question's tokens, of the cosine of the nearest token."""
        asked, *said = self._encoder.tokens([question, *texts])
        return [float((asked @ text.T).max(axis=1).mean()) for text in said]


def choose(settings: Settings) -> Reranker | None:
    """The reranker that the settings name, the same one each time; None where they name none."""
    return (
        _late(settings.embedding_model if settings.embedder == "minilm" else "")
        if settings.reranker == "late"
        else None
    )


_late = functools.cache(LateInteraction)


def rerank(reranker: Reranker, question: str, hits: Sequence[Hit]) -> tuple[list[Hit], str]:
    """The hits, the best of them looked at again and put in order, and what to say of it; a failure changes nothing."""
    best, rest = list(hits[:RERANK_LIMIT]), list(hits[RERANK_LIMIT:])
    if len(best) < 2:
        return [*best, *rest], "there was nothing to put in order"
    try:
        found = _scores(reranker, question, best)
        name = reranker.identity
    except RetainError as error:
        return [*best, *rest], f"failed: {error}"
    except Exception as error:  # a reranker may be anybody's
        return [*best, *rest], f"failed: {type(error).__name__}: {error}"[:500]
    again = sorted(map(_again, best, found), key=lambda hit: -hit.score)
    least = rest[0].score if rest else 0.0  # who was looked at stays before who was not
    return [*(replace(hit, score=max(hit.score, least)) for hit in again), *rest], f"ran: {name}"


def _scores(reranker: Reranker, question: str, hits: Sequence[Hit]) -> list[float]:
    """What the reranker says of each hit, in standard deviations from the mean."""
    answer = reranker.scores(
        question, [f"{hit.title}\n{hit.text}".strip()[:_MOST_CHARACTERS] for hit in hits]
    )
    found = [] if answer is None else [float(score) for score in answer]
    if len(found) != len(hits) or not all(map(math.isfinite, found)):
        raise BadAnswer(model=reranker.identity, problem=f"it must give {len(hits)} numbers")
    largest = max(map(abs, found)) or 1.0  # the square of what is very large is no number
    found = [score / largest for score in found]
    mean, spread = statistics.fmean(found), statistics.pstdev(found) or 1.0
    return [(score - mean) / spread for score in found]


def _again(hit: Hit, score: float) -> Hit:
    """A hit with the odds that it has after the second look."""
    odds = math.log(max(hit.score, 1e-9) / max(1 - hit.score, 1e-9)) + WEIGHT * score
    return replace(
        hit, score=1 / (1 + math.exp(-odds)), why={**hit.why, "reranker": round(WEIGHT * score, 4)}
    )

"""A second look at the best of a search, for whoever can judge a question beside a text better than signals can.

It costs a model run for every text: so nothing is reranked unless the settings say so, only the best are looked at, and
always outside of any transaction.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from retain.errors import BadAnswer, ModelError, SettingsError
from retain.search.find import Hit
from retain.search.onnx import OnnxEmbedder
from retain.settings import Settings

LOOKED_AT = 30
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
        """A number for each text, higher for a better answer; or a ModelError."""
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
    return _late(settings.embedder_folder) if settings.reranker == "late" else None


_late = functools.cache(LateInteraction)


def reranked(reranker: Reranker, question: str, hits: Sequence[Hit]) -> tuple[list[Hit], str]:
    """The hits, the first of them looked at again and put in order, and what the leg has to say; a failure changes nothing."""
    best, rest = list(hits[:LOOKED_AT]), list(hits[LOOKED_AT:])
    if len(best) < 2:
        return [*best, *rest], "there was nothing to put in order"
    try:
        found = reranker.scores(question, [f"{hit.title}\n{hit.text}".strip()[:_MOST_CHARACTERS] for hit in best])
        if len(found) != len(best) or not all(math.isfinite(score) for score in found):
            raise BadAnswer(model=reranker.identity, problem=f"it must give {len(best)} numbers")
    except (ModelError, SettingsError) as error:
        return [*best, *rest], f"failed: {error}"
    mean = sum(found) / len(found)
    spread = math.sqrt(sum((score - mean) ** 2 for score in found) / len(found)) or 1.0
    again = [_again(hit, (score - mean) / spread) for hit, score in zip(best, found, strict=True)]
    again.sort(key=lambda hit: -hit.score)
    return [*again, *rest], f"ran: {reranker.identity}"


def _again(hit: Hit, score: float) -> Hit:
    """A hit with the odds that it has after the second look."""
    odds = math.log(max(hit.score, 1e-9) / max(1 - hit.score, 1e-9)) + WEIGHT * score
    return replace(hit, score=1 / (1 + math.exp(-odds)), why={**hit.why, "reranker": round(WEIGHT * score, 4)})

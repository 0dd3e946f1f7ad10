"""Ranking: learned weights turn the features of candidates into an order and a probability.

Pure functions. The weights are data (weights.json), learned by bench/learn.py: one set for
searches by words alone and one for each family of embedders, because their scales differ.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from memorist.search import features
from memorist.search.candidates import Candidates, Corpus
from memorist.search.question import Question

if TYPE_CHECKING:
    from memorist.search.features import Array

TYPICAL_CANDIDATES = 150
"""Most searches have about this many candidates."""

SAME_SESSION_WEIGHT = -0.5
"""Added to a score for each better candidate of the same session or document, if the question asks
for many things: their answers are usually spread over several sessions."""


NEWEST_AMONG = 5
"""Only one of so many best candidates can be the newest answer to a question about the present."""
MIN_SHARE_OF_WORDS = 0.75
"""It contains at least this share of the words of the question that the best candidate contains."""
MIN_SHARE_OF_CHANCE = 0.2
"""It is wanted with at least this share of the probability of the best candidate."""

MIN_CONTRIBUTION = 0.001
"""Smaller contributions of features are left out of the explanation of a hit."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate in its place."""

    place: int  # among the candidates
    score: float  # probability that it is wanted
    same: tuple[int, ...]  # places of its near-duplicates
    features: Sequence[str]
    contributions: Array  # of each feature, rounded; 0 for tiny ones

    @property
    def parts(self) -> dict[str, float]:
        """Contribution of each feature, relative to the average candidate, without tiny ones."""
        pairs = zip(self.features, self.contributions.tolist(), strict=True)
        return {name: contribution for name, contribution in pairs if contribution}


@dataclass(frozen=True)
class Weights:
    """Learned weights: of each feature, and for turning their sum into a probability."""

    signals: dict[str, float]
    chance: dict[str, float]


@cache
def weights(family: str) -> Weights:
    """Return the weights for a family of embedders, or for `words` alone."""
    data = json.loads(Path(__file__).with_name("weights.json").read_text(encoding="utf-8"))
    return Weights(**data["families"][family])


def rank(
    question: Question,
    candidates: Candidates,
    corpus: Corpus,
    *,
    family: str = "static",
    wanted: Collection[int] | None = None,
) -> Iterator[Ranked]:
    """Return the candidates, best first.

    family: the family of the embedder of the candidates' cosines, static, strong or encoder
    wanted: the places of candidates to return; the others only count as neighbours
    """
    import numpy as np

    if not len(candidates):
        return iter(())
    has_vectors = not np.isnan(candidates.cosines).all()
    learned = weights(family if has_vectors else "words")
    measured = features.measure(question, candidates, corpus)
    names = [name for name in learned.signals if name in measured]
    values = np.array([measured[name] for name in names])
    values -= values.mean(axis=1, keepdims=True)
    values *= np.array([learned.signals[name] for name in names])[:, None]
    contributions = values.T
    scores = contributions.sum(axis=1).round(9)
    calibration = np.stack(
        list(calibration_features(scores, measured, candidates.cosines).values()), axis=1
    )
    log_odds = calibration @ np.array(list(learned.chance.values()))
    if question.many:
        penalties = same_session_penalties(candidates, _sort_by_score(candidates, scores))
        names.append("same session")
        contributions = np.column_stack((contributions, penalties))
        scores = (scores + penalties).round(9)

    contributions = np.where(abs(contributions) >= MIN_CONTRIBUTION, contributions.round(3), 0.0)
    order = _sort_by_score(candidates, scores)
    places = [place for place in order if wanted is None or place in wanted]
    # No candidate may be likelier than the one before it.
    probabilities = np.minimum.accumulate(1 / (1 + np.exp(-log_odds[places])))
    probability = dict(zip(places, probabilities.tolist(), strict=True))
    if question.wants_newest and places:
        newest = _newest_like_the_first(places, candidates, probability, measured)
        probability[newest] = probability[places[0]]
        places.remove(newest)
        places.insert(0, newest)
    return (
        Ranked(
            place,
            probability[place],
            tuple(same),
            names,
            contributions[place],
        )
        for place, same in _fold_duplicates(candidates, places, keep_all=question.many)
    )


def _newest_like_the_first(
    places: Sequence[int],
    candidates: Candidates,
    probability: Mapping[int, float],
    measured: Mapping[str, Array],
) -> int:
    """Return the place of the newest candidate that answers like the first one, or the first.

    People say again what has changed, in similar words: "I own three bikes", later "four bikes".
    Such a candidate is a newer message of the same author in another session. It contains nearly as
    many words of the question, and is not much less likely to be wanted.
    """
    first = places[0]
    coverage = measured["coverage"]
    if candidates.keys[first].kind != "messages" or not coverage[first]:
        return first

    def answers_alike(place: int) -> bool:
        key = candidates.keys[place]
        return bool(
            key.kind == "messages"
            and key.id != candidates.keys[first].id
            and candidates.at[place] > candidates.at[first]
            and candidates.roles[place] == candidates.roles[first]
            and candidates.authors[place] == candidates.authors[first]
            and coverage[place] >= MIN_SHARE_OF_WORDS * coverage[first]
            and probability[place] >= MIN_SHARE_OF_CHANCE * probability[first]
            and not candidates.question_words[place]  # it does not only ask
        )

    alike = [place for place in places[1:NEWEST_AMONG] if answers_alike(place)]
    return max(alike, key=candidates.at.__getitem__, default=first)


def _sort_by_score(candidates: Candidates, scores: Array) -> list[int]:
    """Return the places of candidates, the highest score first; of equal ones the latest first."""
    import numpy as np

    newest_first = -np.arange(len(candidates))  # they are ordered by time and name
    latest_first = -np.array(candidates.at)
    order: list[int] = np.lexsort((newest_first, latest_first, -scores)).tolist()
    return order


def same_session_penalties(candidates: Candidates, order: Iterable[int]) -> Array:
    """Return the penalty of each candidate for better ones of the same session or document.

    order: the places of the candidates, best first
    """
    import numpy as np

    better = np.zeros(len(candidates))
    better_count: Counter[tuple[str, str]] = Counter()
    for place in order:
        record = (candidates.keys[place].kind, candidates.keys[place].id)
        better[place] = better_count[record]
        better_count[record] += 1
    return SAME_SESSION_WEIGHT * better


def calibration_features(
    scores: Array, measured: Mapping[str, Array], cosines: Array
) -> dict[str, Array]:
    """Return the features that turn a score into a probability.

    A score only says that one candidate is better than another, and some candidate is always the
    best. So the probability also depends on how much of the question a candidate contains, how near
    it is in meaning, and the same of the best candidate. If there are few candidates, the
    calculation assumes additional average ones: to be the best of one is no merit.
    """
    import numpy as np

    highest = scores.max()
    missing = max(TYPICAL_CANDIDATES - len(scores), 0)
    total = np.exp(scores - highest).sum() + missing * np.exp(scores.mean() - highest)
    share = scores - highest - np.log(total)
    near = np.nan_to_num(cosines)
    coverage = measured["coverage"]
    ones = np.ones(len(scores))
    few = missing / TYPICAL_CANDIDATES
    return {
        "share": share,
        "coverage": coverage,
        "around": measured["words around"],
        "best coverage": ones * coverage.max(),
        "near": near,
        "nearest": ones * near.max(),
        "of few": ones * few,
        "coverage of few": coverage * few,
        "near of few": near * few,
        "offset": ones,
    }


def _fold_duplicates(
    candidates: Candidates, places: Sequence[int], *, keep_all: bool
) -> list[tuple[int, Sequence[int]]]:
    """Return the places in order, each with the places of its duplicates behind it.

    A duplicate is the same text by the same author in a conversation. Other kinds are never
    folded: two keys may have the same value. A question for many answers keeps all.
    """
    texts = candidates.fingerprints
    if keep_all or len(set(texts)) == len(texts):
        return [(place, ()) for place in places]
    first: dict[tuple[str, int], list[int]] = {}
    folded: list[tuple[int, Sequence[int]]] = []
    for place in places:
        duplicates: list[int] = []
        if candidates.keys[place].kind == "messages" and texts[place]:
            author = candidates.authors[place] or candidates.roles[place]
            leader = first.setdefault((author, texts[place]), duplicates)
            if leader is not duplicates:
                leader.append(place)
                continue
        folded.append((place, duplicates))
    return folded

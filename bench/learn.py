"""Learn the weights of the search features: src/retain/search/weights.json.

    python -m bench.learn FOLDER                    # reads lme_pool_dev.json.gz and beam100k_dev.json.gz there
    python -m bench.learn FOLDER --family words     # only the weights of searches by words; --dry: only print
    python -m bench.learn FOLDER --family encoder --similarities similarities-folds.npz --runs FOLDER

Conversations are loaded and searched through the public API; what `rank` is given to put in order is overheard, and measured
by the same signals as in a search. Learned is a list-wise softmax: of all candidates of a question, those that are evidence
should have the whole probability, and where a session is what is looked for, its other turns by the user a little of it.
That is convex, so Newton's method finds the one best answer, the same on every machine; an L2 penalty keeps weights small
that say little. Only sets that allow it are learned from (LongMemEval, MIT; BEAM, CC BY-SA 4.0).

Cross-validation leaves out whole conversations (and groups of sessions that one question connects). Its figures leave out
questions whose evidence no leg found, and count only sessions with an evidence turn: they are higher than those of score.py,
and to be compared only with one another.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import recall
from retain import Memory
from retain.base.settings import Settings
from retain.search import features, ranking
from retain.search.candidates import Candidate, Corpus
from retain.search.question import Question

FILES = ("lme_pool_dev.json.gz", "beam100k_dev.json.gz")
FAMILIES = {"words": "words", "static": "static", "encoder": "encoder"}
"""The profile of bench/recall.py with which each family of weights is learned. The family `strong`,
for encoders that were not trained for conversations, was learned with all-MiniLM-L6-v2."""
WEIGHTS = Path(ranking.__file__).with_name("weights.json")
PENALTIES = {"words": 0.02, "static": 0.02, "encoder": 0.05}
"""The L2 penalty of each family, chosen by cross-validation."""
SAME_SESSION_TARGET = 0.1
"""The weight of a turn without evidence in a session with evidence, in a pool of many sessions."""
FOLDS = 5
MIN_WEIGHTS = {
    "recent": 0.5,
    "first": 0.5,
    "time": 0.0,
    "coverage": 0.0,
    "speaker": 0.0,
    "quoted": 0.0,
    "replies": 0.4,
}
"""Signals that answer to what a question says count at least this, whatever the sets reward: who asks for the latest gets
the later of two answers that are otherwise alike, though the evidence of these sets is often both of them. `replies` cannot be
learned: these sets have no conversations between people."""

MAX_WEIGHTS = {"asks the same": -12.0}
"""A message that only repeats the question is no answer, although it has all the words of the question. These sets have too few such
messages to learn the weight, so it is at most -12: enough to outweigh words and meaning."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A question with the features of its candidates, and which of them are evidence."""

    set: str
    group: str
    names: tuple[str, ...]
    rows: Array
    evidence: Array
    target: Array
    units: tuple[str, ...]
    ask: recall.Ask
    recorded: tuple[Question, Sequence[Candidate], Corpus]


@dataclass(frozen=True)
class Learned:
    """A weight for each feature, and the calibration of their sum as a probability."""

    names: tuple[str, ...]
    weights: Array
    chance: dict[str, float] = field(default_factory=dict)

    def scores(self, case: Case) -> Array:
        """Return the relevance of each candidate, as in a search."""
        question, candidates, _ = case.recorded
        scores: Array = case.rows @ self.weights
        if question.many:
            order = np.argsort(-scores, kind="stable").tolist()
            scores = scores + ranking.same_session_penalties(candidates, order)
        return scores


class HeldOut:
    """The cosines of encoders that were not trained on the question: `similarities-folds.npz`.

    retain's encoder was trained on the questions of these files. Weights that are learned with its
    own cosines would trust it too much. So the search of a question of the file gets the cosines of
    the encoder that was trained without it. Other questions get the encoder's own, and so do later
    parts of long messages, which are then candidates only by their words.
    """

    def __init__(self, path: Path) -> None:
        self._arrays = np.load(path)
        self._cosines: dict[int, float] = {}

    def replace_cosines(self, memory: Memory) -> None:
        """Make the searches of a memory use these cosines."""
        engine: Any = memory.services.index.engine
        nearest = engine.nearest
        cosines = engine.cosines

        def held_out_nearest(
            tx: Any, vector: Any, model: str, filter: Any, limit: int
        ) -> list[tuple[Any, float]]:
            if not self._cosines:
                return nearest(tx, vector, model, filter, limit)  # type: ignore[no-any-return]
            best = sorted(self._cosines.items(), key=lambda entry: (-entry[1], -entry[0]))[:limit]
            rows = engine._visible(tx, [number for number, _ in best], filter)
            return [(rows[number], cosine) for number, cosine in best if number in rows]

        def held_out_cosines(
            tx: Any, vector: Any, model: str, numbers: Sequence[int]
        ) -> dict[int, float]:
            return cosines(tx, vector, model, numbers) | {  # type: ignore[no-any-return]
                number: self._cosines[number] for number in numbers if number in self._cosines
            }

        engine.nearest = held_out_nearest
        engine.cosines = held_out_cosines
        engine.cosines_in_memory = lambda *arguments: {}

    def start_question(self, memory: Memory, talk: recall.Talk, ask: recall.Ask) -> None:
        """Use the cosines of a question; a question of another conversation has none."""
        self._cosines = {}
        name = "lme.lme" if talk.user == "pool" else f"beam.beam_{talk.user.replace('/', '_')}"
        if ask not in talk.asks or name not in self._arrays:
            return
        order = [(id, place) for id, turns in talk.sessions.items() for place in range(len(turns))]
        row = self._arrays[name][talk.asks.index(ask)]
        by_turn = dict(zip(order, row.tolist(), strict=True))
        numbers = memory.services.database.read(
            "default",
            lambda tx: tx.all(
                """select number, id, seq from search_items
                   where tenant = :tenant and user_id = :user and kind = 'messages' and part = 0""",
                user=talk.user,
            ),
        )
        self._cosines = {number: by_turn[id, seq - 1] for number, id, seq in numbers}


def collect(
    file: Path, profile: str, held_out: HeldOut | None = None, databases: Path | None = None
) -> Iterator[Case]:
    """Run every question of a file and record its candidates.

    databases: a folder that keeps the filled databases; the next run does not embed again
    """
    talks = recall.read(file)
    recorded: list[tuple[Question, Sequence[Candidate], Corpus]] = []
    ranked = ranking.rank

    def record(
        question: Question, candidates: Sequence[Candidate], corpus: Corpus, **more: Any
    ) -> Iterator[ranking.Ranked]:
        recorded.append((question, sorted(candidates, key=lambda one: one.number), corpus))
        return ranked(question, candidates, corpus, **more)

    ranking.rank = record
    try:
        with tempfile.TemporaryDirectory() as folder:
            database = (databases or Path(folder)) / f"{profile}-{file.name.split('.')[0]}.db"
            is_filled = database.exists()
            settings = Settings(database=f"sqlite:///{database}", **recall.PROFILES[profile])  # type: ignore[arg-type]
            with Memory.open(settings=settings) as memory:
                filled = _filled(memory, talks) if is_filled else recall.fill(memory, talks)
                groups = _groups(talks)
                if held_out:
                    held_out.replace_cosines(memory)
                for talk in talks:
                    me = memory.scope(user=talk.user)
                    for ask in [*talk.asks, *_unanswerable(talk, talks, file)]:
                        if held_out:
                            held_out.start_question(memory, talk, ask)
                        me.search(ask.text, kinds=["messages"], at=ask.at, limit=1)
                        if recorded:
                            yield from _case(
                                (file.name, groups.get(ask.id, "")), ask, filled, recorded.pop()
                            )
    finally:
        ranking.rank = ranked


def _filled(memory: Memory, talks: Sequence[recall.Talk]) -> recall.Filled:
    """Return a database that an earlier run has filled."""
    units = {
        (id, seq): turn.unit
        for talk in talks
        for id, turns in talk.sessions.items()
        for seq, turn in enumerate(turns, 1)
    }
    return recall.Filled(memory, talks, units)


def _unanswerable(talk: recall.Talk, talks: Sequence[recall.Talk], file: Path) -> list[recall.Ask]:
    """Return questions without an answer here: those of the next conversation or of another file."""
    others = (
        talks
        if len(talks) > 1
        else recall.read(file.with_name(next(name for name in FILES if name != file.name)))
    )
    place = talks.index(talk) + 1
    asks = (
        others[place % len(others)].asks
        if len(talks) > 1
        else [ask for other in others for ask in other.asks[::3]]
    )
    return [replace(ask, gold=frozenset()) for ask in asks]


def _case(
    where: tuple[str, str],
    ask: recall.Ask,
    filled: recall.Filled,
    recorded: tuple[Question, Sequence[Candidate], Corpus],
) -> Iterator[Case]:
    """Return a question with its candidates, or None if no evidence is among them."""
    question, candidates, corpus = recorded
    units = tuple(str(filled.units[candidate.id, candidate.seq]) for candidate in candidates)
    gold = {str(unit) for unit in ask.gold}
    evidence = np.array([unit in gold for unit in units], float)
    if evidence.any() or (candidates and not gold):
        sessions = {unit.split("#")[0] for unit in gold if "#" in unit}
        beside = [
            unit.split("#")[0] in sessions and candidate.role == "user"
            for unit, candidate in zip(units, candidates, strict=True)
        ]
        target = evidence + SAME_SESSION_TARGET * np.array(beside)
        result = features.measure(question, candidates, corpus)
        rows = np.stack(list(result.values()), axis=1)
        yield Case(
            *where,
            tuple(result),
            rows,
            evidence,
            target / max(target.sum(), 1e-9),
            units,
            ask,
            recorded,
        )


def _groups(talks: Sequence[recall.Talk]) -> dict[str, str]:
    """Return the cross-validation group of each question: its conversation, or connected sessions."""
    of: dict[str, str] = {}
    for talk in talks:
        if len(talk.sessions) == 1:
            of |= {ask.id: talk.user for ask in talk.asks}
            continue
        leader: dict[str, str] = {}

        def lead(one: str, leader: dict[str, str] = leader) -> str:
            while leader.setdefault(one, one) != one:
                one = leader[one]
            return one

        for ask in talk.asks:
            sessions = sorted({str(unit).split("#")[0] for unit in ask.gold})
            for other in sessions[1:]:
                leader[lead(other)] = lead(sessions[0])
        of |= {
            ask.id: lead(min(str(unit).split("#")[0] for unit in ask.gold))
            for ask in talk.asks
            if ask.gold
        }
        of |= {ask.id: ask.id for ask in talk.asks if not ask.gold}
    return of


def fit(cases: Sequence[Case], penalty: float) -> Learned:
    """Return the weights that maximise the likelihood of the evidence. Each set counts the same."""
    every = np.concatenate([case.rows for case in cases])
    middle, spread = every.mean(axis=0), every.std(axis=0)
    spread[spread < 1e-9] = 1.0
    sizes = Counter(case.set for case in cases)
    tables = [
        ((case.rows - middle) / spread, case.target, 1 / sizes[case.set] / len(sizes))
        for case in cases
    ]
    names = cases[0].names
    minimum = np.array([MIN_WEIGHTS.get(name, -np.inf) for name in names]) * spread
    maximum = np.array([MAX_WEIGHTS.get(name, np.inf) for name in names]) * spread
    weights = np.zeros(len(names))
    free = np.ones(len(names), bool)
    while True:
        for _ in range(50):
            step = _step(tables, weights, penalty, free)
            # A full step may overshoot: halve it until it improves the likelihood.
            loss = _loss(tables, weights, penalty)
            while np.abs(step).max() > 1e-8 and _loss(tables, weights - step, penalty) > loss:
                step /= 2
            weights = weights - step
            if np.abs(step).max() < 1e-8:
                break
        held = np.clip(weights, minimum, maximum)
        outside = free & (np.abs(weights - held) > 1e-9)
        if not outside.any():
            return Learned(names, weights / spread)
        weights = held
        free &= ~outside  # fix these at their limits and fit the others again


def _step(
    tables: Sequence[tuple[Array, Array, float]],
    weights: Array,
    penalty: float,
    free: NDArray[np.bool_],
) -> Array:
    """Return a step of Newton's method, to be subtracted; zero for weights that are not free."""
    slope, hessian = penalty * weights, penalty * np.eye(len(weights))
    for rows, target, share in tables:
        scores = rows @ weights
        chance = np.exp(scores - scores.max())
        chance /= chance.sum()
        expected = chance @ rows
        slope += share * (expected - target @ rows)
        hessian += share * ((rows * chance[:, None]).T @ rows - np.outer(expected, expected))
    step = np.zeros(len(weights))
    step[free] = np.linalg.solve(hessian[np.ix_(free, free)], slope[free])
    return step


def _loss(tables: Sequence[tuple[Array, Array, float]], weights: Array, penalty: float) -> float:
    """Return the negative log-likelihood of the evidence, with the penalty."""
    loss = penalty / 2 * float(weights @ weights)
    for rows, target, share in tables:
        scores = rows @ weights
        highest = scores.max()
        loss += share * float(highest + np.log(np.exp(scores - highest).sum()) - target @ scores)
    return loss


def calibrate(cases: Sequence[Case], learned: Learned) -> Learned:
    """Fit the logistic calibration, also on questions without an answer."""
    tables, wanted = [], []
    chance = random.Random(1)
    for case in cases:
        question, candidates, corpus = case.recorded
        # As it is, and as it would be in a memory that has little in it.
        for size in (len(candidates), 1, 3, 10):
            some = sorted(chance.sample(range(len(candidates)), min(size, len(candidates))))
            if size < len(candidates) and case.evidence.any():
                some = sorted({*some[1:], int(case.evidence.argmax())})
            fewer = [candidates[place] for place in some]
            result = features.measure(question, fewer, corpus)
            scores = sum(
                result[name] * weight
                for name, weight in zip(learned.names, learned.weights, strict=True)
                if name in result
            )
            tables.append(ranking.calibration_features(np.asarray(scores), result, fewer))
            wanted.append(case.evidence[some])
    names = list(tables[0])
    rows = np.concatenate([np.stack([table[name] for name in names], axis=1) for table in tables])
    return replace(learned, chance=_logistic(names, rows, np.concatenate(wanted)))


def _logistic(names: Sequence[str], rows: Array, wanted: Array) -> dict[str, float]:
    weights = np.zeros(len(names))
    for _ in range(50):
        chance = 1 / (1 + np.exp(-(rows @ weights)))
        hessian = (rows * (chance * (1 - chance))[:, None]).T @ rows / len(rows) + 1e-6 * np.eye(
            len(names)
        )
        step = np.linalg.solve(hessian, rows.T @ (chance - wanted) / len(rows) + 1e-6 * weights)
        weights -= step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-12))
        if np.abs(step).max() < 1e-8:
            break
    return {name: round(float(first), 4) for name, first in zip(names, weights, strict=True)}


def write_runs(pairs: Sequence[tuple[Case, Learned]], folder: Path, family: str) -> None:
    """Write a run for each file, for its score.py: each fold ranked by weights of the others."""
    for name in sorted({case.set for case, _ in pairs}):
        path = folder / f"{family}-{name.split('.')[0]}.jsonl"
        with path.open("w", encoding="utf-8") as lines:
            for case, learned in pairs:
                if case.set == name:
                    order = np.argsort(-learned.scores(case), kind="stable")
                    units = list(dict.fromkeys(case.units[place] for place in order))[:60]
                    ranked = [int(unit) if unit.isdecimal() else unit for unit in units]
                    lines.write(json.dumps({"id": case.ask.id, "ranked": ranked}) + "\n")


def held_out_weights(cases: Sequence[Case], penalty: float) -> Iterator[tuple[Case, Learned]]:
    """Yield each case with weights that were learned without its conversation."""
    groups = {
        group: place % FOLDS
        for place, group in enumerate(dict.fromkeys(case.group for case in cases))
    }
    for fold in range(FOLDS):
        learned = fit([case for case in cases if groups[case.group] != fold], penalty)
        for case in cases:
            if groups[case.group] == fold:
                yield case, learned


def cross_validated(pairs: Sequence[tuple[Case, Learned]]) -> dict[str, float]:
    """Score held-out conversations."""
    figures: dict[str, list[float]] = {}
    for case, learned in pairs:
        for name, figure in _figures(case, learned).items():
            figures.setdefault(name, []).append(figure)
    return {name: sum(values) / len(values) for name, values in sorted(figures.items())}


def _figures(case: Case, learned: Learned) -> dict[str, float]:
    """Return the recall of evidence in the top ten; for a pool, of all sessions in the top five and ten."""
    order = np.argsort(-learned.scores(case), kind="stable")
    ranked = [case.units[place] for place in order]
    gold = {str(unit) for unit in case.ask.gold}
    results = {"evidence in 10": len(gold & set(ranked[:10])) / len(gold)}
    if any("#" in unit for unit in gold):
        sessions, gold_sessions = (
            list(dict.fromkeys(unit.split("#")[0] for unit in ranked)),
            {unit.split("#")[0] for unit in gold},
        )
        results |= {
            f"all sessions in {most}": float(gold_sessions <= set(sessions[:most]))
            for most in (5, 10)
        }
    return results


def main() -> int:
    """Learn the weights, print the scores, write the file."""
    parser = argparse.ArgumentParser(description="Learn the weights of the search features.")
    parser.add_argument("folder", type=Path, help=f"where {' and '.join(FILES)} are")
    parser.add_argument(
        "--family",
        choices=FAMILIES,
        action="append",
        help="learn only these weights; default: all",
    )
    parser.add_argument("--dry", action="store_true", help="print the result without writing it")
    parser.add_argument(
        "--similarities", type=Path, help="similarities-folds.npz of scripts/train_encoder.py"
    )
    parser.add_argument("--runs", type=Path, help="write cross-validated runs into this folder")
    parser.add_argument(
        "--databases",
        type=Path,
        help="keep the filled databases in this folder and reuse them in later runs",
    )
    chosen = parser.parse_args()
    families: dict[str, Any] = json.loads(WEIGHTS.read_text(encoding="utf-8"))["families"]
    default = [family for family in FAMILIES if family != "encoder" or chosen.similarities]
    for family in chosen.family or default:
        if family == "encoder" and not chosen.similarities:
            parser.error("--family encoder requires --similarities: it was trained on these files")
        held_out = HeldOut(chosen.similarities) if family == "encoder" else None
        cases = [
            case
            for name in FILES
            for case in collect(chosen.folder / name, FAMILIES[family], held_out, chosen.databases)
        ]
        answered = [case for case in cases if case.evidence.any()]
        learned = calibrate(cases, fit(answered, PENALTIES[family]))
        pairs = list(held_out_weights(answered, PENALTIES[family]))
        if chosen.runs:
            write_runs(pairs, chosen.runs, family)
        figures = ", ".join(
            f"{name} {figure:.3f}" for name, figure in cross_validated(pairs).items()
        )
        print(
            f"{family}: {len(answered)} of {len(cases)} questions have an answer; cross-validated: {figures}"
        )
        spread = np.mean([case.rows.std(axis=0) for case in cases], axis=0) * learned.weights
        for name, weight, effect in sorted(
            zip(learned.names, learned.weights, spread, strict=True), key=lambda one: -abs(one[2])
        ):
            print(f"    {name:22s} {weight:+8.3f}   moves {effect:+6.3f}")
        families[family] = {
            "signals": {
                name: round(float(weight), 4)
                for name, weight in zip(learned.names, learned.weights, strict=True)
            },
            "chance": learned.chance,
        }
    if not chosen.dry:
        WEIGHTS.write_text(
            json.dumps({"learned from": list(FILES), "families": families}, indent=1) + "\n",
            encoding="utf-8",
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())

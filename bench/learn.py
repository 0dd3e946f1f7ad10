"""Learn the weights of the search features: packages/memorist/src/memorist/search/weights.json.

    python -m bench.learn FOLDER                  # with lme_pool_dev.json.gz and beam100k_dev.json.gz
    python -m bench.learn FOLDER --family words   # only the weights without vectors; --dry: only print
    python -m bench.learn FOLDER --family encoder --similarities similarities-folds.npz --runs FOLDER

The conversations are loaded and searched through the public API. A wrapper around `ranking.rank`
records the candidates of each question; their features are measured as in a search.

The loss is a list-wise softmax: the candidates that are evidence should get all the probability. If a
question looks for a session, the user's other turns in that session should get a little of it. The
loss is convex, so Newton's method finds the same weights on every machine. An L2 penalty keeps
uninformative weights small. The training data is LongMemEval (MIT) and BEAM (CC BY-SA 4.0).

Cross-validation leaves out whole conversations, or groups of sessions that share a question. Its
figures leave out questions whose evidence no retriever found, and count only sessions with an evidence
turn. So they are higher than those of score.py: compare them only with one another.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import recall
from memorist import Memory
from memorist.base.settings import Settings
from memorist.search import features, ranking
from memorist.search.block import DocumentKey
from memorist.search.candidates import Candidates, Corpus
from memorist.search.question import Question
from memorist.search.search_view import SearchView, ViewPlace
from memorist_eval.benchmark_files import Conversation, GoldQuestion

FILES = ("lme_pool_dev.json.gz", "beam100k_dev.json.gz")
FAMILIES = {"words": "words", "static": "static", "encoder": "encoder"}
"""The profile of bench/recall.py that each family of weights is learned with. The family `strong`,
for encoders that were not trained for conversations, was learned with all-MiniLM-L6-v2."""
WEIGHTS = Path(ranking.__file__).with_name("weights.json")
PENALTIES = {"words": 0.02, "static": 0.02, "encoder": 0.05}
"""The L2 penalty of each family, chosen by cross-validation."""
SAME_SESSION_TARGET = 0.1
"""The target of a user's turn that is no evidence, in a session that has evidence. Evidence has 1."""
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
"""The minimum weights of some features, whatever the data says. If a question asks for the latest, the
later of two similar answers must rank first, although both are often evidence in this data. `replies`
cannot be learned, because the data has no conversations between people."""

MAX_WEIGHTS = {"asks the same": -12.0}
"""The maximum weights of some features. A message that only repeats the question has all its words,
but does not answer it. The data has too few such messages to learn the weight, so it is at most -12:
enough to outweigh words and meaning."""

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
    gold_question: GoldQuestion
    recorded: tuple[Question, Candidates, Corpus]


@dataclass(frozen=True)
class Learned:
    """A weight for each feature, and the calibration that turns their sum into a probability."""

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

    memorist's encoder was trained on the questions of these files, so weights learned with its cosines
    would rely on it too much. The search for such a question uses the cosines of an encoder that was
    trained without it. Other questions, and the later parts of long messages, use memorist's encoder;
    these parts become candidates only by their words.
    """

    def __init__(self, path: Path) -> None:
        self._arrays = np.load(path)
        self._cosines: dict[DocumentKey, float] = {}

    @contextmanager
    def replacing_cosines(self) -> Iterator[None]:
        """Make searches use these cosines."""
        nearest = SearchView.nearest
        candidates = SearchView.candidates

        def held_out_nearest(
            view: SearchView, vector: Any, masks: Sequence[Any], limit: int
        ) -> list[ViewPlace]:
            if not self._cosines:
                return nearest(view, vector, masks, limit)
            best: list[tuple[float, int, ViewPlace]] = []
            start = 0
            for part, mask in zip(view.parts, masks, strict=True):
                documents = np.flatnonzero(mask)
                at = part.block.columns["at"][documents].tolist()
                places = (documents + start).tolist()
                start += part.block.size
                for place, time, key in zip(places, at, part.block.keys(documents), strict=True):
                    if key in self._cosines:
                        best.append((-self._cosines[key], -time, place))
            return [place for _, _, place in sorted(best)[:limit]]

        def held_out_candidates(
            view: SearchView, places: Sequence[ViewPlace], vector: Any
        ) -> tuple[list[ViewPlace], Candidates]:
            ordered, table = candidates(view, places, vector)
            cosines = table.cosines.copy()
            for place, key in enumerate(table.keys):
                cosines[place] = self._cosines.get(key, cosines[place])
            return ordered, replace(table, cosines=cosines)

        view_class: Any = SearchView
        view_class.nearest = held_out_nearest
        view_class.candidates = held_out_candidates
        try:
            yield
        finally:
            view_class.nearest = nearest
            view_class.candidates = candidates

    def start_question(self, conversation: Conversation, gold_question: GoldQuestion) -> None:
        """Use the cosines of a question, or memorist's own for a question of another conversation."""
        self._cosines = {}
        name = (
            "lme.lme"
            if conversation.user == "pool"
            else f"beam.beam_{conversation.user.replace('/', '_')}"
        )
        if gold_question not in conversation.questions or name not in self._arrays:
            return
        order = [
            (id, place)
            for id, turns in conversation.sessions.items()
            for place in range(len(turns))
        ]
        row = self._arrays[name][conversation.questions.index(gold_question)]
        self._cosines = {
            DocumentKey("messages", id, place + 1, 0): cosine
            for (id, place), cosine in zip(order, row.tolist(), strict=True)
        }


def collect(
    file: Path, profile: str, held_out: HeldOut | None = None, databases: Path | None = None
) -> Iterator[Case]:
    """Search for every question of a file and yield its candidates.

    databases: keep the filled databases in this folder, so that the next run need not embed again
    """
    conversations = recall.read(file)
    recorded: list[tuple[Question, Candidates, Corpus]] = []
    original_rank = ranking.rank

    def record(
        question: Question, candidates: Candidates, corpus: Corpus, **options: Any
    ) -> Iterator[ranking.Ranked]:
        recorded.append((question, candidates, corpus))
        return original_rank(question, candidates, corpus, **options)

    ranking.rank = record
    try:
        with tempfile.TemporaryDirectory() as folder:
            database = (databases or Path(folder)) / f"{profile}-{file.name.split('.')[0]}.db"
            is_filled = database.exists()
            settings = Settings(database=f"sqlite:///{database}", **recall.PROFILES[profile])  # type: ignore[arg-type]
            replacing = held_out.replacing_cosines() if held_out else nullcontext()
            with Memory.open(settings=settings) as memory, replacing:
                filled = (
                    _filled(memory, conversations)
                    if is_filled
                    else recall.fill(memory, conversations)
                )
                groups = _groups(conversations)
                for conversation in conversations:
                    me = memory.scope(user=conversation.user)
                    for gold_question in [
                        *conversation.questions,
                        *_unanswerable(conversation, conversations, file),
                    ]:
                        if held_out:
                            held_out.start_question(conversation, gold_question)
                        me.search(
                            gold_question.text, kinds=["messages"], at=gold_question.at, limit=1
                        )
                        if recorded:
                            yield from _case(
                                (file.name, groups.get(gold_question.id, "")),
                                gold_question,
                                filled,
                                recorded.pop(),
                            )
    finally:
        ranking.rank = original_rank


def _filled(memory: Memory, conversations: Sequence[Conversation]) -> recall.Filled:
    """Return a database that an earlier run filled."""
    units = {
        (id, seq): turn.unit
        for conversation in conversations
        for id, turns in conversation.sessions.items()
        for seq, turn in enumerate(turns, 1)
    }
    return recall.Filled(memory, conversations, units)


def _unanswerable(
    conversation: Conversation, conversations: Sequence[Conversation], file: Path
) -> list[GoldQuestion]:
    """Return questions that this conversation cannot answer, from another one or another file."""
    others = (
        conversations
        if len(conversations) > 1
        else recall.read(file.with_name(next(name for name in FILES if name != file.name)))
    )
    next_index = conversations.index(conversation) + 1
    questions = (
        others[next_index % len(others)].questions
        if len(conversations) > 1
        else [gold_question for other in others for gold_question in other.questions[::3]]
    )
    return [replace(gold_question, gold=frozenset()) for gold_question in questions]


def _case(
    where: tuple[str, str],
    gold_question: GoldQuestion,
    filled: recall.Filled,
    recorded: tuple[Question, Candidates, Corpus],
) -> Iterator[Case]:
    """Yield a question with its candidates, unless it has evidence and none of it was found."""
    question, candidates, corpus = recorded
    units = tuple(str(filled.units[key.id, key.seq]) for key in candidates.keys)
    gold = {str(unit) for unit in gold_question.gold}
    evidence = np.array([unit in gold for unit in units], float)
    if evidence.any() or (len(candidates) and not gold):
        sessions = {unit.split("#")[0] for unit in gold if "#" in unit}
        same_session = [
            unit.split("#")[0] in sessions and role == "user"
            for unit, role in zip(units, candidates.roles, strict=True)
        ]
        target = evidence + SAME_SESSION_TARGET * np.array(same_session)
        values = features.measure(question, candidates, corpus)
        rows = np.stack(list(values.values()), axis=1)
        yield Case(
            *where,
            tuple(values),
            rows,
            evidence,
            target / max(target.sum(), 1e-9),
            units,
            gold_question,
            recorded,
        )


def _groups(conversations: Sequence[Conversation]) -> dict[str, str]:
    """Return the cross-validation group of each question by its id.

    A group is a conversation. In a pool of sessions, it is a set of sessions that questions connect.
    """
    groups: dict[str, str] = {}
    for conversation in conversations:
        if len(conversation.sessions) == 1:
            groups |= {
                gold_question.id: conversation.user for gold_question in conversation.questions
            }
            continue
        leader: dict[str, str] = {}

        def find_leader(session: str, leader: dict[str, str] = leader) -> str:
            while leader.setdefault(session, session) != session:
                session = leader[session]
            return session

        for gold_question in conversation.questions:
            sessions = sorted({str(unit).split("#")[0] for unit in gold_question.gold})
            for other in sessions[1:]:
                leader[find_leader(other)] = find_leader(sessions[0])
        groups |= {
            gold_question.id: find_leader(
                min(str(unit).split("#")[0] for unit in gold_question.gold)
            )
            for gold_question in conversation.questions
            if gold_question.gold
        }
        groups |= {
            gold_question.id: gold_question.id
            for gold_question in conversation.questions
            if not gold_question.gold
        }
    return groups


def fit(cases: Sequence[Case], penalty: float) -> Learned:
    """Return the weights that maximise the likelihood of the evidence. Each file counts the same."""
    all_rows = np.concatenate([case.rows for case in cases])
    mean = all_rows.mean(axis=0)
    spread = all_rows.std(axis=0)
    spread[spread < 1e-9] = 1.0
    sizes = Counter(case.set for case in cases)
    tables = [
        ((case.rows - mean) / spread, case.target, 1 / sizes[case.set] / len(sizes))
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
        clipped = np.clip(weights, minimum, maximum)
        outside = free & (np.abs(weights - clipped) > 1e-9)
        if not outside.any():
            return Learned(names, weights / spread)
        weights = clipped
        free &= ~outside  # fix these at their limits and fit the others again


def _step(
    tables: Sequence[tuple[Array, Array, float]],
    weights: Array,
    penalty: float,
    free: NDArray[np.bool_],
) -> Array:
    """Return a step of Newton's method, to be subtracted; zero for weights that are not free."""
    slope = penalty * weights
    hessian = penalty * np.eye(len(weights))
    for rows, target, share in tables:
        scores = rows @ weights
        probability = np.exp(scores - scores.max())
        probability /= probability.sum()
        expected = probability @ rows
        slope += share * (expected - target @ rows)
        hessian += share * ((rows * probability[:, None]).T @ rows - np.outer(expected, expected))
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
    """Fit the logistic calibration, including questions without an answer."""
    tables = []
    labels = []
    rng = random.Random(1)
    for case in cases:
        question, candidates, corpus = case.recorded
        # All candidates, and fewer, as in a memory with little content.
        for size in (len(candidates), 1, 3, 10):
            sample = sorted(rng.sample(range(len(candidates)), min(size, len(candidates))))
            if size < len(candidates) and case.evidence.any():
                sample = sorted({*sample[1:], int(case.evidence.argmax())})
            fewer = _select(candidates, sample)
            values = features.measure(question, fewer, corpus)
            scores = np.zeros(len(fewer))
            for name, weight in zip(learned.names, learned.weights, strict=True):
                if name in values:
                    scores += values[name] * weight
            tables.append(ranking.calibration_features(scores, values, fewer.cosines))
            labels.append(case.evidence[sample])
    names = list(tables[0])
    rows = np.concatenate([np.stack([table[name] for name in names], axis=1) for table in tables])
    return replace(learned, chance=_logistic(names, rows, np.concatenate(labels)))


def _select(candidates: Candidates, places: Sequence[int]) -> Candidates:
    """Return some of the candidates."""
    return Candidates(
        keys=[candidates.keys[place] for place in places],
        at=[candidates.at[place] for place in places],
        roles=[candidates.roles[place] for place in places],
        authors=[candidates.authors[place] for place in places],
        cosines=candidates.cosines[places],
        lengths=candidates.lengths[places],
        has_question=candidates.has_question[places],
        question_words=candidates.question_words[places],
        fingerprints=[candidates.fingerprints[place] for place in places],
        count_words=lambda words: candidates.count_words(words)[places],
    )


def _logistic(names: Sequence[str], rows: Array, labels: Array) -> dict[str, float]:
    weights = np.zeros(len(names))
    for _ in range(50):
        probability = 1 / (1 + np.exp(-(rows @ weights)))
        hessian = (rows * (probability * (1 - probability))[:, None]).T @ rows / len(
            rows
        ) + 1e-6 * np.eye(len(names))
        step = np.linalg.solve(
            hessian, rows.T @ (probability - labels) / len(rows) + 1e-6 * weights
        )
        weights -= step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-12))
        if np.abs(step).max() < 1e-8:
            break
    return {name: round(float(weight), 4) for name, weight in zip(names, weights, strict=True)}


def write_runs(pairs: Sequence[tuple[Case, Learned]], folder: Path, family: str) -> None:
    """Write a run for each file, for score.py: each fold is ranked by weights of the others."""
    for name in sorted({case.set for case, _ in pairs}):
        path = folder / f"{family}-{name.split('.')[0]}.jsonl"
        with path.open("w", encoding="utf-8") as lines:
            for case, learned in pairs:
                if case.set == name:
                    order = np.argsort(-learned.scores(case), kind="stable")
                    units = list(dict.fromkeys(case.units[index] for index in order))[:60]
                    ranked = [int(unit) if unit.isdecimal() else unit for unit in units]
                    lines.write(json.dumps({"id": case.gold_question.id, "ranked": ranked}) + "\n")


def held_out_weights(cases: Sequence[Case], penalty: float) -> Iterator[tuple[Case, Learned]]:
    """Yield each case with weights that were learned without its conversation."""
    groups = {
        group: number % FOLDS
        for number, group in enumerate(dict.fromkeys(case.group for case in cases))
    }
    for fold in range(FOLDS):
        learned = fit([case for case in cases if groups[case.group] != fold], penalty)
        for case in cases:
            if groups[case.group] == fold:
                yield case, learned


def cross_validated(pairs: Sequence[tuple[Case, Learned]]) -> dict[str, float]:
    """Return the mean figures over the held-out conversations."""
    figures: dict[str, list[float]] = {}
    for case, learned in pairs:
        for name, figure in _figures(case, learned).items():
            figures.setdefault(name, []).append(figure)
    return {name: sum(values) / len(values) for name, values in sorted(figures.items())}


def _figures(case: Case, learned: Learned) -> dict[str, float]:
    """Return the recall of evidence in the top ten; for a pool, also of whole sessions."""
    order = np.argsort(-learned.scores(case), kind="stable")
    ranked = [case.units[index] for index in order]
    gold = {str(unit) for unit in case.gold_question.gold}
    results = {"evidence in 10": len(gold & set(ranked[:10])) / len(gold)}
    if any("#" in unit for unit in gold):
        sessions = list(dict.fromkeys(unit.split("#")[0] for unit in ranked))
        gold_sessions = {unit.split("#")[0] for unit in gold}
        results |= {
            f"all sessions in {count}": float(gold_sessions <= set(sessions[:count]))
            for count in (5, 10)
        }
    return results


def main() -> int:
    """Learn the weights, print the scores, write the file."""
    parser = argparse.ArgumentParser(description="Learn the weights of the search features.")
    parser.add_argument("folder", type=Path, help=f"the folder with {' and '.join(FILES)}")
    parser.add_argument(
        "--family",
        choices=FAMILIES,
        action="append",
        help="learn only the weights of this family; may be repeated; default: all",
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
    options = parser.parse_args()
    families: dict[str, Any] = json.loads(WEIGHTS.read_text(encoding="utf-8"))["families"]
    default = [family for family in FAMILIES if family != "encoder" or options.similarities]
    for family in options.family or default:
        if family == "encoder" and not options.similarities:
            parser.error(
                "--family encoder requires --similarities: the encoder was trained on FOLDER"
            )
        held_out = HeldOut(options.similarities) if family == "encoder" else None
        cases = [
            case
            for name in FILES
            for case in collect(
                options.folder / name, FAMILIES[family], held_out, options.databases
            )
        ]
        answered = [case for case in cases if case.evidence.any()]
        learned = calibrate(cases, fit(answered, PENALTIES[family]))
        pairs = list(held_out_weights(answered, PENALTIES[family]))
        if options.runs:
            write_runs(pairs, options.runs, family)
        figures = ", ".join(
            f"{name} {figure:.3f}" for name, figure in cross_validated(pairs).items()
        )
        print(
            f"{family}: {len(answered)} questions with evidence, {len(cases) - len(answered)} without; "
            f"cross-validated: {figures}"
        )
        spread = np.mean([case.rows.std(axis=0) for case in cases], axis=0) * learned.weights
        for name, weight, effect in sorted(
            zip(learned.names, learned.weights, spread, strict=True), key=lambda row: -abs(row[2])
        ):
            print(f"    {name:22s} {weight:+8.3f}   moves {effect:+6.3f}")
        families[family] = {
            "signals": {
                name: round(float(weight), 4)
                for name, weight in zip(learned.names, learned.weights, strict=True)
            },
            "chance": learned.chance,
        }
    if not options.dry:
        WEIGHTS.write_text(
            json.dumps({"learned from": list(FILES), "families": families}, indent=1) + "\n",
            encoding="utf-8",
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())

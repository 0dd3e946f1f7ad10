"""Recall of an encoder alone, by cosine, on the development files; also cross-validated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from encoder import sources
from encoder.conversations import Conversation
from encoder.dialogues import write_dialogues
from encoder.samples import FOLDS, Composer, lme_folds

Embed = Callable[[Sequence[Sequence[int]]], NDArray[np.float32]]

FILES = {
    "locomo": "locomo_dev.json.gz",
    "lme": "lme_pool_dev.json.gz",
    "beam": "beam100k_dev.json.gz",
}
FACTS_EXCLUDED = {"event_ordering", "summarization"}
LOCOMO_ADVERSARIAL = "5"
GRAMMAR_SEED = 99  # other dialogues than those of the training
GRAMMAR_DIALOGUES = 12


@dataclass
class Evaluated:
    """A conversation with its tokens, and the fold of each question."""

    data_set: str
    conversation: Conversation
    turns: list[list[int]]
    questions: list[list[int]]
    folds: list[int]
    similarities: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0), np.float32))


def load(folder: Path, composer: Composer) -> list[Evaluated]:
    """Read the development files that are in a folder."""
    conversations: list[tuple[str, Conversation, list[int]]] = []
    if (folder / FILES["locomo"]).is_file():
        for talk in sources.read_locomo(folder / FILES["locomo"]):
            conversations.append(("locomo", talk, []))
    if (folder / FILES["lme"]).is_file():
        pool = sources.read_lme(folder / FILES["lme"])
        conversations.append(("lme", pool, lme_folds(pool)))
    if (folder / FILES["beam"]).is_file():
        for number, chat in enumerate(sources.read_beam_development(folder / FILES["beam"])):
            conversations.append(("beam", chat, [number % FOLDS] * len(chat.questions)))
    for dialogue in write_dialogues(GRAMMAR_DIALOGUES, GRAMMAR_SEED):
        conversations.append((f"grammar {dialogue.name[-2:]}", dialogue, []))
    return [
        Evaluated(
            data_set,
            conversation,
            composer.conversation(conversation.turns),
            [composer.question(question.text) for question in conversation.questions],
            folds,
        )
        for data_set, conversation, folds in conversations
    ]


def compare(evaluated: list[Evaluated], embed: Embed, fold: int | None = None) -> None:
    """Compute the similarities of all turns with all questions, or with those of one fold."""
    for item in evaluated:
        if fold is not None and fold not in item.folds:
            continue
        similarities = embed(item.questions) @ embed(item.turns).T
        if fold is None or item.similarities.shape != similarities.shape:
            item.similarities = similarities
        else:
            rows = np.array(item.folds) == fold
            item.similarities[rows] = similarities[rows]


def measure(evaluated: list[Evaluated]) -> dict[str, float]:
    """Return recall and mean reciprocal rank by data set."""
    values: dict[str, list[float]] = {}

    def add(name: str, value: float) -> None:
        values.setdefault(name, []).append(value)

    for item in evaluated:
        if not item.similarities.size:
            continue
        for number, question in enumerate(item.conversation.questions):
            if not question.evidence:
                continue
            order = np.argsort(-item.similarities[number], kind="stable")
            rank = _ranks(order, question.evidence)
            if item.data_set == "locomo" and question.kind == LOCOMO_ADVERSARIAL:
                continue
            if item.data_set == "beam" and question.kind in FACTS_EXCLUDED:
                continue
            add(f"{item.data_set} R@10", float((rank < 10).mean()))
            add(f"{item.data_set} MRR", 1 / (float(rank.min()) + 1))
            if question.distractors:
                distractor_ranks = _ranks(order, question.distractors)
                add(
                    f"{item.data_set} answer above question",
                    float(rank.min() < distractor_ranks.min()),
                )
            if item.data_set == "lme":
                _measure_sessions(item, order, question.evidence, add)
    return {name: round(float(np.mean(numbers)), 4) for name, numbers in values.items()}


def _ranks(order: NDArray[np.int64], evidence: Sequence[int]) -> NDArray[np.int64]:
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks[list(evidence)]


def _measure_sessions(
    item: Evaluated,
    order: NDArray[np.int64],
    evidence: Sequence[int],
    add: Callable[[str, float], None],
) -> None:
    turns = item.conversation.turns
    ranked = list(dict.fromkeys(turns[turn_index].session for turn_index in order))
    evidence_sessions = {turns[turn_index].session for turn_index in evidence}
    for count in (5, 10):
        add(f"lme all@{count}", float(evidence_sessions <= set(ranked[:count])))


def write_similarities(evaluated: list[Evaluated], file: Path) -> None:
    """Write the similarities of each conversation; bench/learn.py fits ranking weights with them."""
    arrays: dict[str, Any] = {}
    for item in evaluated:
        if item.similarities.size:
            name = item.conversation.name.replace("/", "_")
            arrays[f"{item.data_set}.{name}"] = item.similarities.astype(np.float16)
    np.savez_compressed(file, **arrays)

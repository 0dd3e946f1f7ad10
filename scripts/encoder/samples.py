"""Training samples: a question, the turns that answer it, and similar turns that do not."""

from __future__ import annotations

import json
import lzma
import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from encoder.conversations import Conversation, Question, Turn, normalized_words

Neighbours = Literal["none", "before", "both"]

TEXT_TOKENS = 150  # of the turn itself, from its start
BEFORE_TOKENS = 36  # of the turn before, from its end
AFTER_TOKENS = 28  # of the turn after, from its start
QUESTION_TOKENS = 96
LETTERS_PER_TOKEN = 12
INDEXED_LETTERS = 1_000  # of a turn, for negatives by words
FOLDS = 5
NEGATIVES_BY_WORDS = 6
NEGATIVES_NEARBY = (-2, -1, 1, 2)
NEGATIVES_AT_RANDOM = 2


@dataclass(frozen=True)
class StoredTurn:
    """A turn with as much of its text as any sample needs."""

    speaker: str
    start: str  # the first TEXT_TOKENS
    end: str  # the last BEFORE_TOKENS
    before: int  # index of the turn before in the same session, or -1
    after: int


@dataclass
class Sample:
    """A question with the indexes of its turns in `Samples.turns`."""

    question: str
    source: str
    evidence: list[int]
    distractors: list[int]
    negatives: list[int]
    named: bool  # False: a chat of a user and an assistant, whose speakers may get names
    fold: int = -1  # set for questions that are also used for evaluation


@dataclass
class Samples:
    """All samples, and the turns that they refer to."""

    turns: list[StoredTurn] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)

    def write(self, file: Path) -> None:
        """Write everything as compressed JSON."""
        content = {
            "turns": [list(asdict(turn).values()) for turn in self.turns],
            "samples": [asdict(sample) for sample in self.samples],
        }
        with lzma.open(file, "wt", encoding="utf-8", preset=6) as stream:
            json.dump(content, stream, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def read(cls, file: Path) -> Samples:
        """Read a file that `write` wrote."""
        with lzma.open(file, "rt", encoding="utf-8") as stream:
            content = json.load(stream)
        turns = [StoredTurn(*turn) for turn in content["turns"]]
        return cls(turns, [Sample(**sample) for sample in content["samples"]])


class WordIndex:
    """BM25 over the turns of a conversation."""

    def __init__(self, texts: Sequence[str]) -> None:
        lengths = np.zeros(len(texts))
        postings: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for index, text in enumerate(texts):
            words = normalized_words(text[:INDEXED_LETTERS])
            lengths[index] = len(words)
            for word, count in Counter(words).items():
                postings[word].append((index, count))
        penalty = 0.9 * (0.6 + 0.4 * lengths / max(1.0, float(lengths.mean())))
        self._count = len(texts)
        self._weights: dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]] = {}
        for word, entries in postings.items():
            indexes = np.array([index for index, _ in entries])
            counts = np.array([count for _, count in entries], float)
            rarity = math.log(1 + (len(texts) - len(entries) + 0.5) / (len(entries) + 0.5))
            self._weights[word] = (indexes, rarity * counts / (counts + penalty[indexes]))

    def best(self, question: str, count: int) -> list[int]:
        """Return the turns that match the words of a question best, best first."""
        scores = np.zeros(self._count)
        for word in set(normalized_words(question)):
            if word in self._weights:
                indexes, weights = self._weights[word]
                scores[indexes] += weights
        order = np.argsort(-scores, kind="stable")[:count]
        return [int(index) for index in order if scores[index] > 0]


class SampleBuilder:
    """Collects samples and stores each turn once."""

    def __init__(self, tokenizer: Any, seed: int) -> None:
        self.result = Samples()
        self._tokenizer = tokenizer
        self._seed = seed

    def add(self, conversation: Conversation, folds: Sequence[int] = ()) -> None:
        """Add the questions of a conversation; `folds` gives the fold of each."""
        turns = conversation.turns
        rng = random.Random(f"{self._seed}/{conversation.name}")
        word_index = WordIndex([turn.text for turn in turns])
        answering = sorted({index for q in conversation.questions for index in q.evidence})
        stored: dict[int, int] = {}
        pending: list[tuple[Sample, Question, list[int]]] = []
        for number, question in enumerate(conversation.questions):
            if not question.evidence:
                continue
            negatives = _negatives(question, turns, word_index, answering, rng)
            source = "beam-probing" if question.kind == "probing" else conversation.source
            fold = folds[number] if folds else -1
            sample = Sample(question.text, source, [], [], [], conversation.named, fold)
            pending.append((sample, question, negatives))
        needed = {
            index
            for _, question, negatives in pending
            for index in (*question.evidence, *question.distractors, *negatives)
        }
        nearby = {
            near for index in needed for near in (index - 1, index + 1) if 0 <= near < len(turns)
        }
        self._store(turns, sorted(needed | nearby), stored)
        for sample, question, negatives in pending:
            sample.evidence = [stored[index] for index in question.evidence]
            sample.distractors = [stored[index] for index in question.distractors]
            sample.negatives = [stored[index] for index in negatives]
            self.result.samples.append(sample)

    def _store(self, turns: list[Turn], indexes: list[int], stored: dict[int, int]) -> None:
        first = len(self.result.turns)
        stored.update({index: first + number for number, index in enumerate(indexes)})
        for index in indexes:
            turn = turns[index]
            start, end = clip(turn.text, self._tokenizer)
            around = []
            for near in (index - 1, index + 1):
                same = 0 <= near < len(turns) and turns[near].session == turn.session
                around.append(stored.get(near, -1) if same else -1)
            self.result.turns.append(StoredTurn(turn.speaker, start, end, *around))


def _negatives(
    question: Question,
    turns: list[Turn],
    word_index: WordIndex,
    answering: list[int],
    rng: random.Random,
) -> list[int]:
    """Return turns that share words with the question or are near the answer, and random ones."""
    excluded = {*question.evidence, *question.distractors}
    chosen: dict[int, None] = {}
    for index in word_index.best(question.text, NEGATIVES_BY_WORDS + len(excluded) + 2):
        if index not in excluded and len(chosen) < NEGATIVES_BY_WORDS:
            chosen[index] = None
    evidence_index = rng.choice(question.evidence)
    for step in NEGATIVES_NEARBY:
        near = evidence_index + step
        if 0 <= near < len(turns) and near not in excluded:
            chosen[near] = None
    # Random negatives are turns that answer another question: these are stored anyway.
    for index in rng.sample(answering, min(NEGATIVES_AT_RANDOM, len(answering))):
        if index not in excluded:
            chosen[index] = None
    return list(chosen)


def clip(text: str, tokenizer: Any) -> tuple[str, str]:
    """Return the first TEXT_TOKENS and the last BEFORE_TOKENS of a text."""
    # A token rarely has more than 12 letters, so only a part of a long text is tokenized.
    start = text[: TEXT_TOKENS * LETTERS_PER_TOKEN]
    end = text[-BEFORE_TOKENS * LETTERS_PER_TOKEN :]
    encoding = tokenizer.encode(start, add_special_tokens=False)
    if len(encoding.ids) > TEXT_TOKENS:
        start = start[: encoding.offsets[TEXT_TOKENS - 1][1]]
    encoding = tokenizer.encode(end, add_special_tokens=False)
    if len(encoding.ids) > BEFORE_TOKENS:
        end = end[encoding.offsets[-BEFORE_TOKENS][0] :]
    return start, end


def lme_folds(conversation: Conversation) -> list[int]:
    """Assign questions to folds; questions that share a session are in the same fold."""
    group: dict[int, int] = {}
    for number, question in enumerate(conversation.questions):
        sessions = {conversation.turns[index].session for index in question.evidence}
        joined = {group[session] for session in sessions if session in group}
        for session, own in group.items():
            if own in joined:
                group[session] = number
        group.update(dict.fromkeys(sessions, number))
    groups = [
        group[conversation.turns[question.evidence[0]].session] if question.evidence else number
        for number, question in enumerate(conversation.questions)
    ]
    order = {own: rank for rank, own in enumerate(dict.fromkeys(groups))}
    return [order[own] % FOLDS for own in groups]


class Composer:
    """Builds the token ids of turns with their neighbours."""

    def __init__(self, tokenizer: Any, neighbours: Neighbours) -> None:
        self._tokenizer = tokenizer
        self._neighbours = neighbours
        self._start = tokenizer.token_to_id("[CLS]")
        self._stop = tokenizer.token_to_id("[SEP]")
        self._before = self.ids(["|| before:"])[0]
        self._after = self.ids(["|| after:"])[0]
        self._speakers: dict[str, list[int]] = {}

    def ids(self, texts: Iterable[str]) -> list[list[int]]:
        """Return the token ids of texts without special tokens."""
        encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def question(self, text: str) -> list[int]:
        """Return the token ids of a question."""
        return [self._start, *self.ids([text])[0][:QUESTION_TOKENS], self._stop]

    def turn(self, speaker: str, text: list[int], before: list[int], after: list[int]) -> list[int]:
        """Return the token ids of a turn; an empty neighbour is left out."""
        if speaker not in self._speakers:
            self._speakers[speaker] = self.ids([f"{speaker}:"])[0]
        tokens = [self._start, *self._speakers[speaker], *text[:TEXT_TOKENS]]
        if before and self._neighbours != "none":
            tokens += [*self._before, *before[-BEFORE_TOKENS:]]
        if after and self._neighbours == "both":
            tokens += [*self._after, *after[:AFTER_TOKENS]]
        return [*tokens, self._stop]

    def conversation(self, turns: list[Turn]) -> list[list[int]]:
        """Return the token ids of all turns of a conversation."""
        clipped = [clip(turn.text, self._tokenizer) for turn in turns]
        starts = self.ids(start for start, _ in clipped)
        ends = self.ids(end for _, end in clipped)
        composed: list[list[int]] = []
        for index, turn in enumerate(turns):
            before: list[int] = []
            after: list[int] = []
            if index and turns[index - 1].session == turn.session:
                before = ends[index - 1]
            if index + 1 < len(turns) and turns[index + 1].session == turn.session:
                after = starts[index + 1]
            composed.append(self.turn(turn.speaker, starts[index], before, after))
        return composed

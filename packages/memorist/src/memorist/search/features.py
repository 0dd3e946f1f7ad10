"""Features of search candidates, as arrays with one number per candidate.

Every feature is relative to the question and to the other candidates, so that one set of weights
works for short and long conversations. A feature that is unknown for a candidate (a row without a
vector, a record without neighbours) gets the average.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from memorist.base import clock
from memorist.search.candidates import Candidates, Corpus
from memorist.search.question import Question

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

BM25_K1 = 0.9  # saturation of repeated words
BM25_B = 0.6  # penalty for long texts
NEIGHBOUR_WEIGHTS = {-1: 0.6, 1: 0.4, -2: 0.4, 2: 0.2}  # by distance; earlier turns count more
ANSWERING_ROLES = frozenset(("assistant", "tool"))


def measure(question: Question, candidates: Candidates, corpus: Corpus) -> dict[str, Array]:
    """Return the features by name."""
    table = _FeatureTable(candidates)
    counts = table.count_words(question.words)
    rarity = _word_rarity(question, corpus)
    features: dict[str, Array] = {}
    _add_text_features(features, question, table, counts, rarity)
    _add_meaning_features(features, table)
    base = features["words"]
    if "meaning" in features:
        base = _standardize(features["words"] + features["meaning"])
    _add_speaker_features(features, question, table)
    _add_time_features(features, question, table)
    threads = _Threads(table.records, table.seq)
    _add_neighbour_features(features, base, counts, rarity, threads, table)
    _add_session_features(features, base, counts, rarity, threads)
    return features


class _FeatureTable:
    """The candidates as columns, one value per candidate."""

    def __init__(self, candidates: Candidates) -> None:
        import numpy as np

        self.count = len(candidates)
        self.records = [(key.kind, key.id) for key in candidates.keys]
        self.seq = np.array([key.seq for key in candidates.keys], np.int64)
        self.at = np.array(candidates.at, float)
        self.authors = candidates.authors
        self.is_answer = np.array([role in ANSWERING_ROLES for role in candidates.roles], float)
        self.cosines = candidates.cosines
        self.count_words = candidates.count_words
        self.lengths = candidates.lengths
        self.asks = candidates.has_question
        self.question_words = candidates.question_words


def _word_rarity(question: Question, corpus: Corpus) -> Array:
    """Return the weight of each word of the question: its inverse document frequency.

    Words that no row has, and names of authors, weigh nothing; for names see `speaker`.
    """
    import numpy as np

    names = frozenset(question.names)
    rows = max(corpus.count, *corpus.document_frequencies, 1)
    return np.array(
        [
            0.0
            if word in names or not frequency
            else math.log(1 + (rows - frequency + 0.5) / (frequency + 0.5))
            for word, frequency in zip(question.words, corpus.document_frequencies, strict=True)
        ]
    )


def _add_text_features(
    features: dict[str, Array],
    question: Question,
    table: _FeatureTable,
    counts: Array,
    rarity: Array,
) -> None:
    """Add what a candidate's own text says: words by BM25, coverage, length, whether it asks."""
    import numpy as np

    lengths = table.lengths
    relative = 1 - BM25_B + BM25_B * lengths / max(lengths.mean(), 1)
    bm25 = counts * (BM25_K1 + 1) / (counts + BM25_K1 * relative[:, None]) @ rarity
    total_rarity = rarity.sum() or 1.0
    features["words"] = _standardize(bm25)
    features["words of the best"] = bm25 / (bm25.max() or 1.0)
    features["coverage"] = (counts > 0) @ rarity / total_rarity
    rarest = ((counts > 0) * rarity).max(axis=1, initial=0.0)
    features["rarest word"] = rarest / (rarity.max(initial=0.0) or 1.0)
    features["length"] = np.log1p(lengths) * (1 - table.is_answer)
    features["length of an answer"] = np.log1p(lengths) * table.is_answer
    features["asks"] = table.asks * (1 - table.is_answer)
    features["asks the same"] = _asks_the_same(question, table, counts, features["coverage"])
    quoted = np.zeros(table.count)
    for phrase in question.phrases:
        quoted = np.maximum(quoted, (table.count_words(phrase) > 0).sum(axis=1) / len(phrase))
    features["quoted"] = quoted


def _asks_the_same(
    question: Question, table: _FeatureTable, counts: Array, coverage: Array
) -> Array:
    """Return how much each candidate merely repeats the question, from 0 to 1.

    A candidate with further words may contain information, so it counts less. Zero if the question
    is about questions: then a message that asks the same is wanted.
    """
    import numpy as np

    if question.about_questions:
        return np.zeros(table.count)
    shared = np.minimum(counts.sum(axis=1) / np.maximum(table.question_words, 1), 1)
    same: Array = (coverage * shared) ** 2 * (table.question_words > 0)
    return same


def _add_meaning_features(features: dict[str, Array], table: _FeatureTable) -> None:
    """Add the cosine, standardized and relative to the nearest candidate."""
    import numpy as np

    is_unknown = np.isnan(table.cosines)
    if is_unknown.all():
        return
    average = table.cosines[~is_unknown].mean()
    cosines = np.where(is_unknown, average, table.cosines)
    features["meaning"] = _standardize(cosines)
    features["nearest"] = cosines - cosines.max()


def _add_speaker_features(
    features: dict[str, Array], question: Question, table: _FeatureTable
) -> None:
    """Add whether the one asked about said it: a named author, else the user or the assistant."""
    import numpy as np

    is_answer = table.is_answer
    if question.authors:
        by_author = [author in question.authors for author in table.authors]
        features["speaker"] = np.array(by_author, float)
    else:
        about_user = question.own and not question.about_answers
        features["speaker"] = np.where(
            is_answer > 0, float(question.about_answers), float(about_user)
        )
    features["answer"] = is_answer
    features["answer asked for"] = is_answer * question.about_answers


def _add_time_features(
    features: dict[str, Array], question: Question, table: _FeatureTable
) -> None:
    """Add nearness to the time asked about, and recency if the latest or the first is wanted."""
    import numpy as np

    at = table.at
    near = np.zeros(table.count)
    for span in question.spans:
        days = np.maximum(0, np.maximum(span.start - at, at - span.end)) / clock.DAY
        near = np.maximum(near, np.exp(-days / (3 + (span.end - span.start) / clock.DAY / 4)))
    features["time"] = near
    older_share = np.searchsorted(np.sort(at), at) / len(at)
    features["recent"] = older_share * question.recent
    features["first"] = (1 - older_share) * question.first


class _Groups:
    """Groups of candidates, for sums and maxima by group."""

    def __init__(self, group: NDArray[np.int64]) -> None:
        """group: the number of each candidate's group, from 0 without gaps."""
        import numpy as np

        self._order = np.argsort(group, kind="stable")
        self._starts = np.flatnonzero(np.diff(group[self._order], prepend=-1))

    def sum(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of each group's values."""
        import numpy as np

        return np.add.reduceat(values[self._order], self._starts)

    def max(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the highest value of each group."""
        import numpy as np

        return np.maximum.reduceat(values[self._order], self._starts)


class _Threads:
    """Positions of candidates in their threads. A thread is a session or a document."""

    def __init__(self, records: Sequence[tuple[str, str]], seq: NDArray[np.int64]) -> None:
        import numpy as np

        numbers: dict[tuple[str, str], int] = {}
        self.thread = np.array(
            [numbers.setdefault(record, len(numbers)) for record in records], np.int64
        )
        self.count = len(numbers)
        self.groups = _Groups(self.thread)
        # Wide enough that the end of a thread is no neighbour of the beginning of the next.
        stride = int(seq.max()) - int(seq.min()) + 1 + 2 * max(NEIGHBOUR_WEIGHTS)
        keys, self.position = _distinct(self.thread * stride + seq)
        self._positions = _Groups(self.position)
        steps = np.array(list(NEIGHBOUR_WEIGHTS))
        # For each step and candidate the position `step` further on; -1 if there is none.
        self.neighbours = _lookup(keys, keys + steps[:, None])[:, self.position]
        thread_of_position = self._positions.max(self.thread)
        sizes = np.bincount(thread_of_position, minlength=self.count)
        self.is_single = (sizes == 1)[self.thread] & (seq == 0)

    def neighbour(self, step: int, values: Array, default: float) -> Array:
        """Return for each candidate the value of the position `step` further on."""
        positions = self.neighbours[list(NEIGHBOUR_WEIGHTS).index(step)]
        neighbours: Array = values[positions]
        neighbours[positions < 0] = default
        return neighbours

    def around(self, values: Array, default: float) -> Array:
        """Return the values of `neighbour`, with a row for each step of NEIGHBOUR_WEIGHTS."""
        neighbours: Array = values[self.neighbours]
        neighbours[self.neighbours < 0] = default
        return neighbours

    def best(self, values: Array) -> Array:
        """Return the highest value of each position; a long message has several rows at one."""
        return self._positions.max(values)


def _distinct(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct values, ascending, and for each value its index among them.

    Like `np.unique`, whose first call imports `numpy.ma`: 30 ms of the first search.
    """
    import numpy as np

    order = np.argsort(values, kind="stable")
    ascending = values[order]
    is_first = np.diff(ascending, prepend=ascending[0] - 1) > 0
    indexes = np.empty(len(values), np.int64)
    indexes[order] = np.cumsum(is_first) - 1
    return ascending[is_first], indexes


def _lookup(keys: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the indexes of wanted values in sorted keys, -1 for those that are missing."""
    import numpy as np

    indexes = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[indexes] == wanted, indexes, -1)


def _add_neighbour_features(
    features: dict[str, Array],
    base: Array,
    counts: Array,
    rarity: Array,
    threads: _Threads,
    table: _FeatureTable,
) -> None:
    """Add what the neighbours say.

    An answer often has no word of the question, while the turn before it has all of them. A reply
    is an answer of one person to another, not of a person to an assistant or the other way round.
    """
    import numpy as np

    score = threads.best(base)
    words = np.minimum(threads.best(counts), 1)
    # In the order of NEIGHBOUR_WEIGHTS.
    names = ("before", "after", "second before", "second after")
    features.update(zip(names, threads.around(score, base.min()), strict=True))
    features["beside"] = np.maximum(features["before"], features["after"])
    features["near by"] = np.maximum(features["second before"], features["second after"])
    asks = threads.best(table.asks)
    score_before = np.maximum(threads.neighbour(-1, score, 0.0), 0)
    features["answers"] = score_before * threads.neighbour(-1, asks, 0.0)
    after_answer = threads.neighbour(-1, threads.best(table.is_answer), 1.0)
    features["replies"] = features["answers"] * (1 - table.is_answer) * (1 - after_answer)
    weights = np.array(list(NEIGHBOUR_WEIGHTS.values()))
    wide_counts = counts + (weights[:, None, None] * threads.around(words, 0.0)).sum(axis=0)
    total_rarity = rarity.sum() or 1.0
    features["words around"] = np.minimum(wide_counts, 1) @ rarity / total_rarity
    features["added around"] = features["words around"] - features["coverage"]
    bm25 = wide_counts * (BM25_K1 + 1) / (wide_counts + BM25_K1) @ rarity
    features["window"] = _standardize(bm25)
    if "meaning" in features:
        meaning = threads.best(features["meaning"])
        weight_sum = 1 + (weights[:, None] * (threads.neighbours >= 0)).sum(axis=0)
        others_sum = (weights[:, None] * threads.around(meaning, 0.0)).sum(axis=0)
        features["meaning around"] = _standardize((features["meaning"] + others_sum) / weight_sum)
    _set_average(
        features,
        threads.is_single,
        ("before", "after", "second before", "second after", "beside", "near by"),
    )


def _add_session_features(
    features: dict[str, Array], base: Array, counts: Array, rarity: Array, threads: _Threads
) -> None:
    """Add what the whole thread says: its best turns, its words, its meaning."""
    import numpy as np

    thread = threads.thread
    turns_with_word = threads.groups.sum((counts > 0).astype(float))
    total_rarity = rarity.sum() or 1.0
    features["session's words"] = ((turns_with_word > 0) @ rarity / total_rarity)[thread]
    saturated = turns_with_word / (turns_with_word + 1.5) @ rarity / total_rarity
    features["session by words"] = _standardize(saturated[thread])
    only_others = (turns_with_word[thread] - (counts > 0) > 0) & (counts == 0)
    features["added by session"] = only_others @ rarity / total_rarity
    weight = threads.groups.sum(np.exp(base))
    features["session"] = np.zeros(len(base))
    if threads.count > 1:
        features["session"] = _standardize(np.log(weight)[thread])
    best, three = _best_others(base, thread, threads.count)
    features["session's best"] = best
    features["session's three"] = three
    if "meaning" in features:
        top = _highest(features["meaning"], thread, threads.count, 3, 0.0)
        mean = top.sum(axis=1) / np.minimum(np.bincount(thread), 3)
        features["session's meaning"] = _standardize(mean[thread])
    _set_average(
        features,
        threads.is_single,
        ("session", "session by words", "session's best", "session's three", "session's meaning"),
    )


def _best_others(base: Array, thread: NDArray[np.int64], thread_count: int) -> tuple[Array, Array]:
    """Return the highest score of the others in the thread, and the mean of their three highest."""
    import numpy as np

    top = _highest(base, thread, thread_count, 4, base.min())
    mine = top[thread]
    rank = np.minimum((mine > base[:, None]).sum(axis=1), 3)  # own rank in the top four
    best = np.where(rank == 0, mine[:, 1], mine[:, 0])
    three = np.where(mine[:, 3] < base, mine.sum(axis=1) - base, mine[:, :3].sum(axis=1)) / 3
    return best, three


def _highest(
    values: Array, thread: NDArray[np.int64], thread_count: int, limit: int, default: float
) -> Array:
    """Return the highest values of each thread, best first, padded with `default`."""
    import numpy as np

    order = np.lexsort((-values, thread))
    sorted_threads = thread[order]
    starts = np.searchsorted(sorted_threads, np.arange(thread_count))
    rank = np.arange(len(order)) - starts[sorted_threads]
    selected = rank < limit
    highest = np.full((thread_count, limit), default)
    highest[sorted_threads[selected], rank[selected]] = values[order][selected]
    return highest


def _standardize(values: Array) -> Array:
    """Return values as standard deviations above the mean."""
    import numpy as np

    # `mean` and `std` take several times as long.
    centred: Array = values - np.add.reduce(values) / len(values)
    deviation = math.sqrt(centred @ centred / len(centred))
    return centred / deviation if deviation > 1e-9 else centred * 0.0


def _set_average(
    features: dict[str, Array], which: NDArray[np.bool_], names: Sequence[str]
) -> None:
    """Give some candidates the average of the others.

    A record that has no neighbours by nature is neither better nor worse for that.
    """
    if not which.any() or which.all():
        return
    for name in names:
        if name in features:
            features[name] = features[name].copy()
            features[name][which] = features[name][~which].mean()

"""Features of search candidates, as arrays with one number per candidate.

Every feature is relative to the question and to the other candidates, so that one set of weights
works for short and long conversations. A feature that is unknown for a candidate (a row without a
vector, a record without neighbours) gets the average.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from retain.base import clock
from retain.search.candidates import COUNT_MASK, Candidate, Corpus, word_code
from retain.search.question import Question

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

BM25_K1 = 0.9  # saturation of repeated words
BM25_B = 0.6  # penalty for long texts
NEIGHBOUR_WEIGHTS = {-1: 0.6, 1: 0.4, -2: 0.4, 2: 0.2}  # by distance; earlier turns count more
ANSWERING_ROLES = frozenset(("assistant", "tool"))


def measure(
    question: Question, candidates: Sequence[Candidate], corpus: Corpus
) -> dict[str, Array]:
    """Return the features by name."""
    words = _WordCounts(candidates)
    counts = words.of(question.words)
    rarity = _word_rarity(question, corpus)
    features: dict[str, Array] = {}
    _add_text_features(features, question, candidates, words, counts, rarity)
    _add_meaning_features(features, candidates)
    base = features["words"]
    if "meaning" in features:
        base = _standardize(features["words"] + features["meaning"])
    _add_speaker_features(features, question, candidates)
    _add_time_features(features, question, candidates)
    threads = _Threads(candidates)
    _add_neighbour_features(features, base, counts, rarity, threads, candidates)
    _add_session_features(features, base, counts, rarity, threads)
    return features


class _WordCounts:
    """The occurrences of words in the candidates."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        import numpy as np

        packed = [candidate.digest.words for candidate in candidates]
        codes = np.frombuffer(b"".join(packed), np.int64)
        self._count = len(candidates)
        self._candidate = np.repeat(
            np.arange(len(packed)), [len(words) // codes.itemsize for words in packed]
        )
        self._occurrences = codes & COUNT_MASK
        self._words = codes & ~COUNT_MASK

    def of(self, words: Sequence[str]) -> Array:
        """Return the occurrences of words: a row for each candidate, a column for each word."""
        import numpy as np

        counts = np.zeros((self._count, len(words)))
        for column, word in enumerate(words):
            places = np.flatnonzero(self._words == word_code(word))
            counts[self._candidate[places], column] = self._occurrences[places]
        return counts


def _word_rarity(question: Question, corpus: Corpus) -> Array:
    """Return the weight of each word of the question: its inverse document frequency.

    Words that no row has, and names of authors, weigh nothing; for names see `speaker`.
    """
    import numpy as np

    names = frozenset(question.names)
    rows = max(corpus.count, *corpus.having, 1) if corpus.having else 1
    return np.array(
        [
            0.0
            if word in names or not having
            else math.log(1 + (rows - having + 0.5) / (having + 0.5))
            for word, having in zip(question.words, corpus.having, strict=True)
        ]
    )


def _add_text_features(
    features: dict[str, Array],
    question: Question,
    candidates: Sequence[Candidate],
    words: _WordCounts,
    counts: Array,
    rarity: Array,
) -> None:
    """Add what a candidate's own text says: words by BM25, coverage, length, whether it asks."""
    import numpy as np

    lengths = np.array([candidate.digest.length for candidate in candidates], float)
    relative = 1 - BM25_B + BM25_B * lengths / max(lengths.mean(), 1)
    bm25 = counts * (BM25_K1 + 1) / (counts + BM25_K1 * relative[:, None]) @ rarity
    total_rarity = rarity.sum() or 1.0
    features["words"] = _standardize(bm25)
    features["words of the best"] = bm25 / (bm25.max() or 1.0)
    features["coverage"] = (counts > 0) @ rarity / total_rarity
    rarest = ((counts > 0) * rarity).max(axis=1, initial=0.0)
    features["rarest word"] = rarest / (rarity.max(initial=0.0) or 1.0)
    is_answer = _is_answer(candidates)
    features["length"] = np.log1p(lengths) * (1 - is_answer)
    features["length of an answer"] = np.log1p(lengths) * is_answer
    asks = np.array([candidate.digest.has_question for candidate in candidates], float)
    features["asks"] = asks * (1 - is_answer)
    quoted = np.zeros(len(candidates))
    for phrase in question.phrases:
        quoted = np.maximum(quoted, (words.of(phrase) > 0).sum(axis=1) / len(phrase))
    features["quoted"] = quoted


def _add_meaning_features(features: dict[str, Array], candidates: Sequence[Candidate]) -> None:
    """Add the cosine, standardized and relative to the nearest candidate."""
    import numpy as np

    known = [candidate.cosine for candidate in candidates if candidate.cosine is not None]
    if not known:
        return
    average = sum(known) / len(known)
    cosines = np.array(
        [average if candidate.cosine is None else candidate.cosine for candidate in candidates]
    )
    features["meaning"] = _standardize(cosines)
    features["nearest"] = cosines - cosines.max()


def _add_speaker_features(
    features: dict[str, Array], question: Question, candidates: Sequence[Candidate]
) -> None:
    """Add whether the one asked about said it: a named author, else the user or the assistant."""
    import numpy as np

    is_answer = _is_answer(candidates)
    if question.authors:
        by_author = [candidate.author in question.authors for candidate in candidates]
        features["speaker"] = np.array(by_author, float)
    else:
        about_user = question.own and not question.about_answers
        features["speaker"] = np.where(
            is_answer > 0, float(question.about_answers), float(about_user)
        )
    features["answer"] = is_answer
    features["answer asked for"] = is_answer * question.about_answers


def _add_time_features(
    features: dict[str, Array], question: Question, candidates: Sequence[Candidate]
) -> None:
    """Add nearness to the time asked about, and recency if the latest or the first is wanted."""
    import numpy as np

    at = np.array([candidate.at for candidate in candidates], float)
    near = np.zeros(len(candidates))
    for span in question.spans:
        days = np.maximum(0, np.maximum(span.start - at, at - span.end)) / clock.DAY
        near = np.maximum(near, np.exp(-days / (3 + (span.end - span.start) / clock.DAY / 4)))
    features["time"] = near
    older_share = np.searchsorted(np.sort(at), at) / len(at)
    features["recent"] = older_share * question.recent
    features["first"] = (1 - older_share) * question.first


def _is_answer(candidates: Sequence[Candidate]) -> Array:
    import numpy as np

    return np.array([candidate.role in ANSWERING_ROLES for candidate in candidates], float)


class _Threads:
    """Positions of candidates in their threads. A thread is a session or a document."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        import numpy as np

        numbers: dict[tuple[str, str], int] = {}
        self.thread = np.array(
            [
                numbers.setdefault((candidate.kind, candidate.id), len(numbers))
                for candidate in candidates
            ],
            np.int64,
        )
        seq = np.array([candidate.seq for candidate in candidates], np.int64)
        # Wide enough that the end of a thread is no neighbour of the beginning of the next.
        stride = int(seq.max()) - int(seq.min()) + 1 + 2 * max(NEIGHBOUR_WEIGHTS)
        keys, self.position = np.unique(self.thread * stride + seq, return_inverse=True)
        self.position_count = len(keys)
        self.thread_count = len(numbers)
        self.neighbours = {step: _lookup(keys, keys + step) for step in NEIGHBOUR_WEIGHTS}
        thread_of_position = np.zeros(self.position_count, np.int64)
        thread_of_position[self.position] = self.thread
        sizes = np.bincount(thread_of_position, minlength=self.thread_count)
        self.is_single = (sizes == 1)[self.thread] & (seq == 0)

    def neighbour(self, step: int, values: Array, default: float) -> Array:
        """Return for each candidate the value of the position `step` further on."""
        import numpy as np

        positions = self.neighbours[step][self.position]
        shape = (len(positions),) + (1,) * (values.ndim - 1)
        return np.where((positions >= 0).reshape(shape), values[positions], default)

    def best(self, values: Array) -> Array:
        """Return the highest value of each position; a long message has several rows at one."""
        import numpy as np

        highest = np.full((self.position_count, *values.shape[1:]), -np.inf)
        np.maximum.at(highest, self.position, values)
        return highest


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
    candidates: Sequence[Candidate],
) -> None:
    """Add what the neighbours say.

    An answer often has no word of the question, while the turn before it has all of them.
    """
    import numpy as np

    lowest = base.min()
    score = threads.best(base)
    words = np.minimum(threads.best(counts), 1)
    for name, step in (("before", -1), ("after", 1), ("second before", -2), ("second after", 2)):
        features[name] = threads.neighbour(step, score, lowest)
    features["beside"] = np.maximum(features["before"], features["after"])
    features["near by"] = np.maximum(features["second before"], features["second after"])
    asks = threads.best(
        np.array([candidate.digest.has_question for candidate in candidates], float)
    )
    score_before = np.maximum(threads.neighbour(-1, score, 0.0), 0)
    features["answers"] = score_before * threads.neighbour(-1, asks, 0.0)
    wide_counts = counts + sum(
        weight * threads.neighbour(step, words, 0.0) for step, weight in NEIGHBOUR_WEIGHTS.items()
    )
    total_rarity = rarity.sum() or 1.0
    features["words around"] = np.minimum(wide_counts, 1) @ rarity / total_rarity
    features["added around"] = features["words around"] - features["coverage"]
    bm25 = wide_counts * (BM25_K1 + 1) / (wide_counts + BM25_K1) @ rarity
    features["window"] = _standardize(bm25)
    if "meaning" in features:
        meaning = threads.best(features["meaning"])
        weight_sum = 1 + sum(
            weight * (threads.neighbours[step][threads.position] >= 0)
            for step, weight in NEIGHBOUR_WEIGHTS.items()
        )
        meaning_sum = features["meaning"] + sum(
            weight * threads.neighbour(step, meaning, 0.0)
            for step, weight in NEIGHBOUR_WEIGHTS.items()
        )
        features["meaning around"] = _standardize(meaning_sum / weight_sum)
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
    thread_count = threads.thread_count
    turns_with_word = np.zeros((thread_count, counts.shape[1]))
    np.add.at(turns_with_word, thread, counts > 0)
    total_rarity = rarity.sum() or 1.0
    features["session's words"] = ((turns_with_word > 0) @ rarity / total_rarity)[thread]
    saturated = turns_with_word / (turns_with_word + 1.5) @ rarity / total_rarity
    features["session by words"] = _standardize(saturated[thread])
    only_others = (turns_with_word[thread] - (counts > 0) > 0) & (counts == 0)
    features["added by session"] = only_others @ rarity / total_rarity
    weight = np.zeros(thread_count)
    np.add.at(weight, thread, np.exp(base))
    features["session"] = np.zeros(len(base))
    if thread_count > 1:
        features["session"] = _standardize(np.log(weight)[thread])
    best, three = _best_others(base, thread, thread_count)
    features["session's best"] = best
    features["session's three"] = three
    if "meaning" in features:
        top = _highest(features["meaning"], thread, thread_count, 3, np.nan)
        features["session's meaning"] = _standardize(np.nanmean(top, axis=1)[thread])
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

    deviation = values.std()
    if deviation <= 1e-9:
        return np.zeros(len(values))
    standardized: Array = (values - values.mean()) / deviation
    return standardized


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

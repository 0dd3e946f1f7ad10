"""What can be said of each candidate of a search, as numbers: what it says, what stands around it, what its session says.

Every signal is relative to the question and to the other candidates, so that one set of weights serves short chats and long
ones. Where something is not known (a row without a vector, a thing that has no neighbours) its signal is the average.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from retain.base import clock
from retain.search.candidates import Candidate, Corpus
from retain.search.question import Question

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_K1 = 0.9  # how soon a word that comes again says nothing new
_B = 0.6  # how much a long text has to say more to count the same
_BESIDE = {
    -1: 0.6,
    1: 0.4,
    -2: 0.4,
    2: 0.2,
}  # what a word, or a meaning, of a neighbour counts: what leads up to it more
_ANSWERING = frozenset(("assistant", "tool"))


def measure(
    question: Question, candidates: Sequence[Candidate], corpus: Corpus
) -> dict[str, Array]:
    """The signals by their names, each with a number for every candidate."""
    import numpy as np

    counts = np.array(
        [[one.digest.counts.get(word, 0) for word in question.words] for one in candidates], float
    )
    counts = counts.reshape(len(candidates), len(question.words))
    rarity = _rarity(question, corpus)
    found: dict[str, Array] = {}
    _say(found, question, candidates, counts, rarity)
    _mean(found, candidates)
    base = _scaled(found["words"] + found["meaning"]) if "meaning" in found else found["words"]
    _speak(found, question, candidates)
    _date(found, question, candidates)
    around = _Around(candidates)
    _stand_beside(found, base, counts, rarity, around, candidates)
    _gather(found, base, counts, rarity, around)
    return found


def _rarity(question: Question, corpus: Corpus) -> Array:
    """What each word of the question tells: rare ones most, those that no row has nothing; of names see `speaker`."""
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


def _say(
    found: dict[str, Array],
    question: Question,
    candidates: Sequence[Candidate],
    counts: Array,
    rarity: Array,
) -> None:
    """What a candidate says: which words of the question, by BM25 and by how many; how long it is, whether it asks."""
    import numpy as np

    lengths = np.array([one.digest.length for one in candidates], float)
    relative = 1 - _B + _B * lengths / max(lengths.mean(), 1)
    told = counts * (_K1 + 1) / (counts + _K1 * relative[:, None]) @ rarity
    whole = rarity.sum() or 1.0
    found["words"] = _scaled(told)
    found["words of the best"] = told / (told.max() or 1.0)
    found["coverage"] = (counts > 0) @ rarity / whole
    rarest = ((counts > 0) * rarity).max(axis=1, initial=0.0)
    found["rarest word"] = rarest / (rarity.max(initial=0.0) or 1.0)
    answers = np.array([one.role in _ANSWERING for one in candidates], float)
    found["length"] = np.log1p(lengths) * (1 - answers)
    found["length of an answer"] = np.log1p(lengths) * answers
    found["asks"] = np.array([one.digest.asks for one in candidates], float) * (1 - answers)
    quoted = np.zeros(len(candidates))
    for phrase in question.phrases:
        has = [
            sum(word in one.digest.counts for word in phrase) / len(phrase) for one in candidates
        ]
        quoted = np.maximum(quoted, has)
    found["quoted"] = quoted


def _mean(found: dict[str, Array], candidates: Sequence[Candidate]) -> None:
    """How near a candidate is in meaning, among the candidates and against the nearest."""
    import numpy as np

    known = [one.cosine for one in candidates if one.cosine is not None]
    if not known:
        return
    average = sum(known) / len(known)
    cosines = np.array([average if one.cosine is None else one.cosine for one in candidates])
    found["meaning"] = _scaled(cosines)
    found["nearest"] = cosines - cosines.max()


def _speak(found: dict[str, Array], question: Question, candidates: Sequence[Candidate]) -> None:
    """Whether it was said by who is asked about: one who is named; or else the user or the assistant."""
    import numpy as np

    answers = np.array([one.role in _ANSWERING for one in candidates], float)
    if question.authors:
        by = [one.author in question.authors for one in candidates]
        found["speaker"] = np.array(by, float)
    else:
        found["speaker"] = np.where(
            answers > 0, float(question.told), float(question.own and not question.told)
        )
    found["answer"] = answers
    found["answer asked for"] = answers * question.told


def _date(found: dict[str, Array], question: Question, candidates: Sequence[Candidate]) -> None:
    """Whether it is from the time that is asked about, or the latest or first where that is asked."""
    import numpy as np

    at = np.array([one.at for one in candidates], float)
    near = np.zeros(len(candidates))
    for span in question.spans:
        days = np.maximum(0, np.maximum(span.start - at, at - span.end)) / clock.DAY
        near = np.maximum(near, np.exp(-days / (3 + (span.end - span.start) / clock.DAY / 4)))
    found["time"] = near
    later = np.searchsorted(np.sort(at), at) / len(at)  # the share of candidates that are older
    found["recent"] = later * question.recent
    found["first"] = (1 - later) * question.first


class _Around:
    """Where candidates stand: each has a place in a thread (a session, a document), and threads have places side by side."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        import numpy as np

        threads: dict[tuple[str, str], int] = {}
        self.thread = np.array(
            [threads.setdefault((one.kind, one.id), len(threads)) for one in candidates], np.int64
        )
        seq = np.array([one.seq for one in candidates], np.int64)
        wide = (
            int(seq.max()) - int(seq.min()) + 1 + 2 * max(_BESIDE)
        )  # so that no thread's end is beside another's beginning
        standing, self.place = np.unique(self.thread * wide + seq, return_inverse=True)
        self.places, self.threads = len(standing), len(threads)
        self.beside = {step: _places(standing, standing + step) for step in _BESIDE}
        of_thread = np.zeros(self.places, np.int64)
        of_thread[self.place] = self.thread
        alone = np.bincount(of_thread, minlength=self.threads)
        self.single = (alone == 1)[self.thread] & (seq == 0)

    def at(self, step: int, values: Array, nothing: float) -> Array:
        """The values of the neighbours so many steps on; `nothing` where there is none."""
        import numpy as np

        there = self.beside[step][self.place]
        shape = (len(there),) + (1,) * (values.ndim - 1)
        return np.where((there >= 0).reshape(shape), values[there], nothing)

    def best(self, values: Array) -> Array:
        """For each place the highest value of what stands there: a long message may be there in parts."""
        import numpy as np

        highest = np.full((self.places, *values.shape[1:]), -np.inf)
        np.maximum.at(highest, self.place, values)
        return highest


def _places(standing: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where what is wanted stands, -1 where it does not."""
    import numpy as np

    there = np.minimum(np.searchsorted(standing, wanted), len(standing) - 1)
    return np.where(standing[there] == wanted, there, -1)


def _stand_beside(
    found: dict[str, Array],
    base: Array,
    counts: Array,
    rarity: Array,
    around: _Around,
    candidates: Sequence[Candidate],
) -> None:
    """What the neighbours say: an answer often has no word of the question, but the turn before it has them all."""
    import numpy as np

    least, score, words = base.min(), around.best(base), np.minimum(around.best(counts), 1)
    for name, step in (("before", -1), ("after", 1), ("second before", -2), ("second after", 2)):
        found[name] = around.at(step, score, least)
    found["beside"] = np.maximum(found["before"], found["after"])
    found["near by"] = np.maximum(found["second before"], found["second after"])
    asked = around.best(np.array([one.digest.asks for one in candidates], float))
    found["answers"] = np.maximum(around.at(-1, score, 0.0), 0) * around.at(-1, asked, 0.0)
    wide = counts + sum(weight * around.at(step, words, 0.0) for step, weight in _BESIDE.items())
    whole = rarity.sum() or 1.0
    found["words around"] = np.minimum(wide, 1) @ rarity / whole
    found["added around"] = found["words around"] - found["coverage"]
    found["window"] = _scaled(wide * (_K1 + 1) / (wide + _K1) @ rarity)
    if "meaning" in found:
        meaning = around.best(found["meaning"])
        weight = 1 + sum(
            share * (around.beside[step][around.place] >= 0) for step, share in _BESIDE.items()
        )
        total = found["meaning"] + sum(
            share * around.at(step, meaning, 0.0) for step, share in _BESIDE.items()
        )
        found["meaning around"] = _scaled(total / weight)
    _average(
        found,
        around.single,
        ("before", "after", "second before", "second after", "beside", "near by"),
    )


def _gather(
    found: dict[str, Array], base: Array, counts: Array, rarity: Array, around: _Around
) -> None:
    """What the session says as a whole: its best turns, the words that it has, the meaning it is about."""
    import numpy as np

    thread, threads = around.thread, around.threads
    have = np.zeros((threads, counts.shape[1]))
    np.add.at(have, thread, counts > 0)
    whole = rarity.sum() or 1.0
    found["session's words"] = ((have > 0) @ rarity / whole)[thread]
    found["session by words"] = _scaled((have / (have + 1.5) @ rarity / whole)[thread])
    others = (have[thread] - (counts > 0) > 0) & (counts == 0)
    found["added by session"] = others @ rarity / whole
    weight = np.zeros(threads)
    np.add.at(weight, thread, np.exp(base))
    found["session"] = _scaled(np.log(weight)[thread]) if threads > 1 else np.zeros(len(base))
    found["session's best"], found["session's three"] = _best_others(base, thread, threads)
    if "meaning" in found:
        found["session's meaning"] = _scaled(_top_mean(found["meaning"], thread, threads)[thread])
    _average(
        found,
        around.single,
        ("session", "session by words", "session's best", "session's three", "session's meaning"),
    )


def _best_others(base: Array, thread: NDArray[np.int64], threads: int) -> tuple[Array, Array]:
    """For each candidate the highest score of the others in its thread, and the average of their three highest."""
    import numpy as np

    least = base.min()
    top = _top(base, thread, threads, 4, least)
    mine = top[thread]
    rank = np.minimum(
        (mine > base[:, None]).sum(axis=1), 3
    )  # at which of the four it is itself, if at any
    best = np.where(rank == 0, mine[:, 1], mine[:, 0])
    three = np.where(mine[:, 3] < base, mine.sum(axis=1) - base, mine[:, :3].sum(axis=1)) / 3
    return best, three


def _top_mean(values: Array, thread: NDArray[np.int64], threads: int) -> Array:
    """The average of the three highest values of each thread, or of as many as it has."""
    import numpy as np

    average: Array = np.nanmean(_top(values, thread, threads, 3, np.nan), axis=1)
    return average


def _top(
    values: Array, thread: NDArray[np.int64], threads: int, most: int, nothing: float
) -> Array:
    """The highest values of each thread, best first, filled up with `nothing`."""
    import numpy as np

    order = np.lexsort((-values, thread))
    of = thread[order]
    starts = np.searchsorted(of, np.arange(threads))
    place = np.arange(len(order)) - starts[of]
    kept = place < most
    top = np.full((threads, most), nothing)
    top[of[kept], place[kept]] = values[order][kept]
    return top


def _scaled(values: Array) -> Array:
    """Values as how many deviations they are above the average."""
    import numpy as np

    spread = values.std()
    return (values - values.mean()) / spread if spread > 1e-9 else np.zeros(len(values))


def _average(found: dict[str, Array], which: NDArray[np.bool_], names: Sequence[str]) -> None:
    """Where a thing stands alone by its nature, what stands around it speaks neither for nor against it."""
    if which.any() and not which.all():
        for name in names:
            if name in found:
                found[name] = found[name].copy()
                found[name][which] = found[name][~which].mean()

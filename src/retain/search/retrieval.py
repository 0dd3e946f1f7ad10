"""How both legs look for rows, whatever the engine: which rows have a word, which are near, and which of those may be seen.

Every row has some marks beside its words: one that all rows have, one for its kind, one for its session, one for each place
that it is below. So which rows there are, and which a narrow filter leaves, is asked the same way as which rows have a word,
and needs no index of its own.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from retain.search import words as analysis
from retain.search.engine import Item, Matches, SearchFilter
from retain.search.vector_cache import EVERYBODY, NOBODY, Source, VectorCache, Whose, cosines, page
from retain.storage.database import Row, Transaction

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from retain.search.engine import Vector
    from retain.search.vector_cache import Numbers, Scores

CAP = 4000
"""A common word brings only its newest rows: older ones are found by the rarer words of the question."""
EVERY_ROW = "_"
NARROW = 4
"""A kind, session or place with less than this part of the scope's rows is looked up first, and not filtered afterwards."""
_MOST_COUNTS = 20_000
SECONDS_OF_A_COUNT = 30.0
"""The newest number does not tell of removals: a count is made again after so long, or a hundred times what it took."""
_LARGEST_LOOK = 20_000
COLUMNS = "number, kind, id, seq, part, user_id, agent, board, session_id, at, expires_at, role, author, title, text, place"
PLACE_SEPARATOR = "\x1f"
"""What follows each name of a place: no name has it, and it comes before all that a name can have."""


class Posting(NamedTuple):
    """The rows that have a word, the newest first, and how many there are: more than these where it was capped."""

    numbers: Numbers
    having: int


class _Count(NamedTuple):
    """How many rows had a word when that was the newest row, and until when to believe it."""

    rows: int
    newest: int
    until: float


def marks(kind: str, session: str | None, place: str | None = None) -> list[str]:
    """What is indexed of a row beside its words; no word begins like these."""
    found = (
        [EVERY_ROW, of_kind(kind), of_session(session)] if session else [EVERY_ROW, of_kind(kind)]
    )
    if place:
        found += [
            of_place(place[: at + 1])
            for at, letter in enumerate(place)
            if letter == PLACE_SEPARATOR
        ]
    return found


def of_kind(kind: str) -> str:
    """The mark of the rows of a kind."""
    return f"_k{short_hash(kind)}"


def of_session(session: str) -> str:
    """The mark of the rows of a session."""
    return f"_s{short_hash(session)}"


def of_place(place: str) -> str:
    """The mark of the rows at a place and below it."""
    return f"_p{short_hash(place)}"


def place_range(place: str | None) -> tuple[str | None, str | None]:
    """From where to where the places are that begin with one."""
    return (place, place[:-1] + " ") if place else (None, None)


@lru_cache(1 << 14)
def short_hash(name: str) -> str:
    """A name as a few letters that an index word can be made of."""
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=5).hexdigest()


def index_terms(
    kind: str,
    session: str | None,
    author: str,
    title: str,
    text: str,
    at: int,
    place: str | None = None,
) -> set[str]:
    """Everything that a row is found by."""
    return {*analysis.item_words(author, title, text, at), *marks(kind, session, place)}


def item_from_row(row: Row) -> Item:
    """A record from a row of COLUMNS."""
    (
        number,
        kind,
        id,
        seq,
        part,
        user,
        agent,
        board,
        session,
        at,
        expires_at,
        role,
        author,
        title,
        text,
        place,
    ) = row
    return Item(
        kind,
        id,
        text,
        at,
        seq,
        part,
        user,
        agent,
        board,
        session,
        author,
        role,
        title,
        expires_at,
        number,
        place,
    )


class IndexReader:
    """What is the same on every engine; an engine says how to look up words, vectors and rows."""

    def __init__(self, vector_mib: int = 512) -> None:
        self._shelves = VectorCache(vector_mib << 20)
        self._counts: dict[tuple[str, str | None, str], _Count] = {}

    # -- what an engine does -----------------------------------------------------------------------------------

    def _postings(
        self, tx: Transaction, words: Sequence[str], user: str | None, cap: int | None
    ) -> list[Posting]:
        """The rows of a user and of nobody that have each word, whatever the other filters."""
        raise NotImplementedError

    def _newest(self, tx: Transaction) -> int:
        """About the newest row's number: by how much it grew says whether a count is still good."""
        raise NotImplementedError

    def _visible(self, tx: Transaction, numbers: Sequence[int], asked: SearchFilter) -> set[int]:
        """Those of the rows that pass every filter."""
        raise NotImplementedError

    # -- by words ----------------------------------------------------------------------------------------------

    def matching(
        self, tx: Transaction, words: Sequence[str], asked: SearchFilter, most: int
    ) -> Matches:
        """Rows with any of the words, at most so many, by how rare the words are that they have; filters come first."""
        distinct = list(dict.fromkeys(words))
        if not distinct:
            return Matches([])
        among = self._among(tx, asked)
        found = self._postings(tx, distinct, asked.user, CAP if among is None else None)
        extent = self.extent(tx, asked)
        kept = self._survivors(tx, _ranked(found, extent, among), asked, most)
        capped = any(len(posting.numbers) < posting.having for posting in found)
        if len(kept) < most and capped:
            whole = self._postings(tx, distinct, asked.user, None)
            kept = self._survivors(tx, _ranked(whole, extent, among), asked, most)
        having = {word: posting.having for word, posting in zip(distinct, found, strict=True)}
        return Matches(kept, [having[word] for word in words])

    def _among(self, tx: Transaction, asked: SearchFilter) -> Numbers | None:
        """The only rows that can pass a narrow filter; None where all of them have to be looked at."""
        import numpy as np

        extent, among = self.extent(tx, asked), None
        for names in (
            [of_kind(kind) for kind in asked.kinds or ()],
            [of_session(asked.session)] if asked.session else [],
            [of_place(asked.place)] if asked.place else [],
        ):
            if (
                names
                and sum(self._count(tx, name, asked.user) for name in names) * NARROW <= extent
            ):
                rows = np.concatenate(
                    [posting.numbers for posting in self._postings(tx, names, asked.user, None)]
                )
                among = rows if among is None else np.intersect1d(among, rows)
        return None if among is None else np.sort(among)

    def _survivors(
        self, tx: Transaction, ranked: Numbers, asked: SearchFilter, most: int
    ) -> list[int]:
        """The first so many that pass the filters: a few are looked at, then more and more of them."""
        kept: list[int] = []
        start, size = 0, most + most // 4
        while start < len(ranked) and len(kept) < most:
            look = ranked[start : start + size].tolist()
            visible = self._visible(tx, look, asked)
            kept += [number for number in look if number in visible]
            start, size = start + size, min(4 * size, _LARGEST_LOOK)
        return kept[:most]

    def extent(self, tx: Transaction, asked: SearchFilter) -> int:
        """About how many rows the scope has, whatever its other filters; it may be some hundredths out of date."""
        return self._count(tx, EVERY_ROW, asked.user)

    def _count(self, tx: Transaction, word: str, user: str | None) -> int:
        """How many rows have a word; it is counted again when there are a fiftieth more rows, or after a while."""
        key, newest, began = (tx.tenant, user, word), self._newest(tx), time.monotonic()
        known = self._counts.get(key)
        if (
            known is None
            or began > known.until
            or not 0 <= newest - known.newest <= known.rows // 50
        ):
            rows, now = self._counted(tx, word, user), time.monotonic()
            if len(self._counts) >= _MOST_COUNTS:
                self._counts.clear()
            known = self._counts[key] = _Count(
                rows, newest, now + max(SECONDS_OF_A_COUNT, 100 * (now - began))
            )
        return known.rows

    def _counted(self, tx: Transaction, word: str, user: str | None) -> int:
        raise NotImplementedError

    # -- by vectors --------------------------------------------------------------------------------------------

    def _source(self, tx: Transaction, model: str, whose: Whose, dimension: int) -> Source:
        """The vectors in the table."""
        raise NotImplementedError

    def nearest(
        self, tx: Transaction, vector: Vector, model: str, asked: SearchFilter, most: int
    ) -> list[tuple[int, float]]:
        """Rows by the cosine of their vector of this model, at most so many; filters come first."""
        return self._nearest(tx, vector, model, asked, most, self._among(tx, asked))

    def _nearest(
        self,
        tx: Transaction,
        vector: Vector,
        model: str,
        asked: SearchFilter,
        most: int,
        among: Numbers | None,
    ) -> list[tuple[int, float]]:
        """The same, where `among` are the only rows that can pass a narrow filter."""
        import numpy as np

        parts = []
        for whose in (
            (Whose(EVERYBODY),)
            if asked.user is None
            else (Whose(NOBODY), Whose("user", asked.user))
        ):
            source = self._source(tx, model, whose, len(vector))
            parts.append(self._shelves.scores((tx.tenant, model, whose), source, vector, among))
        numbers, scores = (np.concatenate(part) for part in zip(*parts, strict=True))
        kept: dict[int, float] = {}
        seen, size = 0, most + most // 4
        while len(kept) < most and seen < len(numbers):
            best = _top(numbers, scores, size)[seen:]
            visible = self._visible(tx, numbers[best].tolist(), asked)
            kept |= {
                n: float(s)
                for n, s in zip(numbers[best].tolist(), scores[best], strict=True)
                if n in visible
            }
            seen, size = size, 4 * size
        return list(kept.items())[:most]

    def cosines(
        self, tx: Transaction, vector: Vector, model: str, numbers: Sequence[int]
    ) -> dict[int, float]:
        """The cosine of each row that has a vector of this model."""
        rows = self._vectors_of(tx, model, numbers, len(vector)) if numbers else []
        if not rows:
            return {}
        found = page(rows)
        return dict(zip(found.numbers.tolist(), cosines(vector, found).tolist(), strict=True))

    def _vectors_of(
        self, tx: Transaction, model: str, numbers: Sequence[int], dimension: int
    ) -> list[Row]:
        """Number, scale and vector of rows."""
        raise NotImplementedError


def _top(numbers: Numbers, scores: Scores, size: int) -> NDArray[np.intp]:
    """Where the best are, in order; of equals the newest first."""
    import numpy as np

    places = (
        np.argpartition(scores, len(scores) - size)[-size:]
        if size < len(scores)
        else np.arange(len(scores))
    )
    return places[np.lexsort((-numbers[places], -scores[places]))]


def _ranked(found: Sequence[Posting], extent: int, among: Numbers | None) -> Numbers:
    """The rows of some postings by the weight of the words that they have; of equals the newest first."""
    import numpy as np

    numbers = np.concatenate([posting.numbers for posting in found])
    rarity = [
        np.log1p(max(extent - posting.having, 0.5) / (posting.having + 0.5)) for posting in found
    ]
    weights = np.repeat(np.array(rarity), [len(posting.numbers) for posting in found])
    if among is not None:
        inside = np.isin(numbers, among)
        numbers, weights = numbers[inside], weights[inside]
    if not len(numbers):
        return numbers
    order = np.argsort(numbers, kind="stable")
    numbers, weights = numbers[order], weights[order]
    starts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1))
    sums = np.round(np.add.reduceat(weights, starts), 9)
    distinct: Numbers = numbers[starts]
    return distinct[np.lexsort((-distinct, -sums))]

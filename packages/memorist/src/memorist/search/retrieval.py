"""Retrievers: find rows by words and by vectors, the same way on every engine.

Besides its words, every row is indexed under some marks: one that all rows have, one for its kind,
one for its session, and one for each place above it. So the rows of a narrow filter are looked up
like the rows of a word, and need no index of their own.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from memorist.search import words as analysis
from memorist.search.search_engine import CandidateRow, IndexRow, Matches, SearchFilter, Unembedded
from memorist.search.vector_cache import (
    EVERYBODY,
    NOBODY,
    RowOwner,
    Scan,
    StoredVectors,
    VectorBlock,
    VectorCache,
    cosines,
    page,
)
from memorist.storage.database import Row, Transaction
from memorist.storage.tables import PLACE_SEPARATOR, Check

if TYPE_CHECKING:
    from memorist.search.search_engine import Vector
    from memorist.search.vector_cache import Numbers

MAX_ROWS_PER_WORD = 4000
"""A common word brings only its newest rows; rarer words of the question find older ones."""
EVERY_ROW = "_"
"""The mark that all rows have."""
NARROW_RATIO = 4
"""A filter that leaves less than one in this many rows of the scope is looked up first."""
MAX_NARROW_ROWS = 4000
"""A filter that leaves at most this many rows is looked up first, unless three quarters pass it."""
COUNT_SECONDS = 30.0
"""Lifetime of a cached count, or a hundred times as long as counting took if that is longer."""
MAX_CACHED_COUNTS = 20_000
MAX_ROWS_PER_CHECK = 20_000
COLUMNS = """number, kind, id, seq, part, user_id, agent, board, session_id, at, expires_at, role,
    author, title, text, place, false"""
CANDIDATE_COLUMNS = "number, kind, id, seq, part, at, expires_at, board, role, author, digest"
OF_USER = {EVERYBODY: "", NOBODY: "and user_id is null", "user": "and user_id = :user"}
"""SQL condition on `search_vectors`, by kind of owner."""


Anchor = IndexRow | CandidateRow
"""A row whose neighbours are read."""


class Posting(NamedTuple):
    """The rows that have a word."""

    numbers: Numbers  # newest first
    row_count: int  # number of rows with the word; more than `numbers` if those were capped


class _Count(NamedTuple):
    """A cached count of the rows that have a word."""

    rows: int
    newest: int  # the newest row when they were counted
    until: float  # when the count expires


def marks(kind: str, session: str | None, place: str | None = None) -> list[str]:
    """Return the marks of a row. No word starts like them."""
    names = [EVERY_ROW, kind_mark(kind)]
    if session:
        names.append(session_mark(session))
    if place:
        names += [
            place_mark(place[: index + 1])
            for index, letter in enumerate(place)
            if letter == PLACE_SEPARATOR
        ]
    return names


def kind_mark(kind: str) -> str:
    """Return the mark of the rows of a kind."""
    return f"_k{short_hash(kind)}"


def session_mark(session: str) -> str:
    """Return the mark of the rows of a session."""
    return f"_s{short_hash(session)}"


def place_mark(place: str) -> str:
    """Return the mark of the rows at a place and below it."""
    return f"_p{short_hash(place)}"


def place_range(place: str | None) -> tuple[str | None, str | None]:
    """Return the range of places that start with a place: first, and first beyond."""
    return (place, place[:-1] + " ") if place else (None, None)


@lru_cache(1 << 14)
def short_hash(name: str) -> str:
    """Return a name as a few letters that can be part of an index word."""
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=5).hexdigest()


def index_terms(row: IndexRow) -> set[str]:
    """Return everything that a row is indexed under: its words and its marks."""
    words = analysis.item_words(row.author, row.title, row.text, row.at)
    return {*words, *marks(row.kind, row.session, row.place)}


def item_from_row(row: Row) -> IndexRow:
    """Return the item of a row of COLUMNS; the last one is `text_in_record`."""
    number, kind, id, seq, part, user, agent, board, session, at, expires_at, *rest = row
    role, author, title, text, place, text_in_record = rest
    return IndexRow(
        kind,
        id,
        text,
        at,
        seq=seq,
        part=part,
        user=user,
        agent=agent,
        board=board,
        session=session,
        author=author,
        role=role,
        title=title,
        expires_at=expires_at,
        number=number,
        place=place,
        text_in_record=bool(text_in_record),
    )


class IndexReader:
    """The index of one kind of database; its methods run in a transaction of one tenant.

    Retrieval is the same on every engine. An engine implements the lookups and the words.
    """

    checks: tuple[Check, ...]
    """Invariants of words and vectors, for `verify`."""

    def __init__(self, vector_mib: int = 512) -> None:
        self._vectors = VectorCache(vector_mib << 20)
        self._counts: dict[tuple[str, str | None, str], _Count] = {}

    # -- lookups of an engine --------------------------------------------------------------------

    def _postings(
        self, tx: Transaction, words: Sequence[str], user: str | None, cap: int | None
    ) -> list[Posting]:
        """Return for each word the rows of a user, and shared ones, without other filters."""
        raise NotImplementedError

    def _newest(self, tx: Transaction) -> int:
        """Return about the newest row's number; its growth shows whether a count is outdated."""
        row = tx.one("select coalesce(max(number), 0) from search_items where tenant = :tenant")
        return int((row or (0,))[0])

    def _count_rows(self, tx: Transaction, word: str, user: str | None) -> int:
        """Count the rows that have a word."""
        raise NotImplementedError

    def _visible(
        self, tx: Transaction, numbers: Sequence[int], filter: SearchFilter
    ) -> dict[int, CandidateRow]:
        """Return those of the rows that pass the filter, by number."""
        raise NotImplementedError

    def _items(self, tx: Transaction, numbers: Sequence[int]) -> list[Row]:
        """Return the rows with these numbers, with all columns of an item."""
        raise NotImplementedError

    def _items_around(
        self, tx: Transaction, rows: Sequence[Anchor], reach: int, numbers: Sequence[int]
    ) -> list[Row]:
        """Return rows and their neighbours; a row may be returned several times.

        Rows with `part > 0` are included only if their number is in `numbers`.
        """
        raise NotImplementedError

    def _candidates_around(
        self, tx: Transaction, rows: Sequence[CandidateRow], reach: int
    ) -> list[Row]:
        """Return the first parts of rows and their neighbours, each perhaps several times."""
        raise NotImplementedError

    def _vector_mark(self, tx: Transaction, model: str) -> Any:
        """Return the current mark of the table of vectors, for `_vector_source`."""
        raise NotImplementedError

    def _vector_source(
        self, tx: Transaction, model: str, owner: RowOwner, dimension: int, mark: Any
    ) -> StoredVectors:
        """Return the vectors in the table."""
        raise NotImplementedError

    def _vectors_of(
        self, tx: Transaction, model: str, numbers: Sequence[int], dimension: int
    ) -> list[Row]:
        """Return number, scale and vector of rows."""
        raise NotImplementedError

    # -- words and digests of an engine ----------------------------------------------------------

    def add(self, tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert rows of search_items, given by column name without `number`, and their words."""
        raise NotImplementedError

    def lost(self, tx: Transaction) -> list[int]:
        """Return the numbers of rows with missing words, some thousands at most."""
        raise NotImplementedError

    def without_digest(self, tx: Transaction, after: int, limit: int) -> list[int]:
        """Return the numbers of the next rows after a number that have no digest."""
        raise NotImplementedError

    def reword(self, tx: Transaction, rows: Mapping[int, Collection[str]]) -> int:
        """Replace the words of rows that still exist; return how many rows that were."""
        raise NotImplementedError

    def sweep(self, tx: Transaction) -> int:
        """Remove the words of deleted rows; return how many rows that were."""
        raise NotImplementedError

    def snapshot(self, tx: Transaction) -> tuple[int, int]:
        """Return the oldest running transaction and the next one that will start.

        If they are equal, no row with a lower number than the newest one can appear any more.
        """
        raise NotImplementedError

    # -- by numbers ------------------------------------------------------------------------------

    def items(self, tx: Transaction, numbers: Sequence[int]) -> dict[int, IndexRow]:
        """Return rows by their numbers."""
        return {row[0]: item_from_row(row) for row in self._items(tx, numbers)}

    def around(self, tx: Transaction, items: Sequence[IndexRow], reach: int) -> list[IndexRow]:
        """Return the neighbours of rows: same kind and id, up to `reach` before and after."""
        known = {item.number for item in items}
        rows = dict.fromkeys(self._items_around(tx, items, reach, []))
        return [item_from_row(row) for row in rows if row[0] not in known]

    def rows_with_neighbours(
        self, tx: Transaction, rows: Sequence[CandidateRow], reach: int
    ) -> list[CandidateRow]:
        """Return the rows and their neighbours, up to `reach` before and after, without texts."""
        around = dict.fromkeys(self._candidates_around(tx, rows, reach))
        return [CandidateRow._make(row) for row in around]

    def items_with_neighbours(
        self, tx: Transaction, rows: Sequence[CandidateRow]
    ) -> list[IndexRow]:
        """Return the rows that still exist, and the rows directly before and after them."""
        numbers = [row.number for row in rows]
        around = dict.fromkeys(self._items_around(tx, rows, 1, numbers))
        return [item_from_row(row) for row in around]

    # -- by words --------------------------------------------------------------------------------

    def matching(
        self, tx: Transaction, words: Sequence[str], filter: SearchFilter, limit: int
    ) -> Matches:
        """Return up to `limit` rows with any of the words, those with the rarest words first."""
        import numpy as np

        distinct = list(dict.fromkeys(words))
        if not distinct:
            return Matches([])
        narrow = self._narrow_rows(tx, filter)
        cap = MAX_ROWS_PER_WORD if narrow is None else None
        separate_marks = [kind_mark(kind) for kind in filter.separate_kinds]
        every_posting = self._postings(tx, [*distinct, *separate_marks], filter.user, cap)
        every_extent = self.extent(tx, filter)

        # Kinds that are ranked separately must not change the statistics of the others.
        postings = every_posting[: len(distinct)]
        all_document_frequencies = _frequencies(words, distinct, postings)
        separate = every_posting[len(distinct) :]
        separate_extent = sum(posting.row_count for posting in separate)
        separate_rows: list[CandidateRow] = []
        if separate_extent:
            separate_numbers = np.sort(np.concatenate([posting.numbers for posting in separate]))
            separate_filter = only_separate_kinds(filter)
            if separate_filter.kinds:
                ranked = _rank(postings, every_extent, separate_numbers)
                separate_rows = self._first_visible(tx, ranked, separate_filter, limit)
            postings = [_exclude(posting, separate_numbers) for posting in postings]
        extent = max(every_extent - separate_extent, 0)

        rows = self._first_visible(tx, _rank(postings, extent, narrow), filter, limit)
        capped = any(len(posting.numbers) < posting.row_count for posting in postings)
        if len(rows) < limit and capped:
            complete = self._postings(tx, distinct, filter.user, None)
            rows = self._first_visible(tx, _rank(complete, extent, narrow), filter, limit)
        return Matches(
            rows,
            _frequencies(words, distinct, postings),
            extent,
            separate_rows,
            separate_extent,
            all_document_frequencies,
        )

    def _narrow_rows(self, tx: Transaction, filter: SearchFilter) -> Numbers | None:
        """Return the only rows that can pass a narrow filter; None if the filter is wide."""
        import numpy as np

        kinds = (
            [] if filter.place else filter.kinds or ()
        )  # the place is narrow enough: few kinds have places
        filter_marks = [
            [kind_mark(kind) for kind in kinds],
            [session_mark(filter.session)] if filter.session else [],
            [place_mark(filter.place)] if filter.place else [],
        ]
        if not any(filter_marks):
            return None
        extent = self.extent(tx, filter)
        limit = max(extent // NARROW_RATIO, min(MAX_NARROW_ROWS, extent * 3 // 4))
        narrow = None
        for names in filter_marks:
            if not names:
                continue
            count = sum(self._cached_count(tx, name, filter.user) for name in names)
            if count <= limit:
                postings = self._postings(tx, names, filter.user, None)
                rows = np.concatenate([posting.numbers for posting in postings])
                if narrow is None:
                    narrow = rows
                else:
                    narrow = np.intersect1d(narrow, rows, assume_unique=True)
        return None if narrow is None else np.sort(narrow)

    def _first_visible(
        self, tx: Transaction, ranked: Numbers, filter: SearchFilter, limit: int
    ) -> list[CandidateRow]:
        """Return the first rows that pass the filter, checked in growing batches."""
        rows: list[CandidateRow] = []
        checked = 0
        size = limit
        while checked < len(ranked) and len(rows) < limit:
            batch = ranked[checked : checked + size].tolist()
            visible = self._visible(tx, batch, filter)
            rows += [visible[number] for number in batch if number in visible]
            checked += size
            size = min(_next_batch(limit, len(rows), checked), MAX_ROWS_PER_CHECK)
        return rows[:limit]

    def extent(self, tx: Transaction, filter: SearchFilter) -> int:
        """Return the approximate number of rows of the filter's user; it may be 2 % off."""
        return self._cached_count(tx, EVERY_ROW, filter.user)

    def _known_extent(self, tx: Transaction, filter: SearchFilter) -> int:
        """Return the extent as it was counted last, without asking whether that is outdated."""
        count = self._counts.get((tx.tenant, filter.user, EVERY_ROW))
        return self.extent(tx, filter) if count is None else count.rows

    def _cached_count(self, tx: Transaction, word: str, user: str | None) -> int:
        """Return how many rows have a word; count again after 2 % more rows, or after a while.

        The newest number shows additions but not removals, so a count also expires.
        """
        key = (tx.tenant, user, word)
        newest = self._newest(tx)
        started = time.monotonic()
        count = self._counts.get(key)
        if (
            count is not None
            and started <= count.until
            and 0 <= newest - count.newest <= count.rows // 50
        ):
            return count.rows
        rows = self._count_rows(tx, word, user)
        now = time.monotonic()
        if len(self._counts) >= MAX_CACHED_COUNTS:
            self._counts.clear()
        lifetime = max(COUNT_SECONDS, 100 * (now - started))
        self._counts[key] = _Count(rows, newest, now + lifetime)
        return rows

    # -- by vectors ------------------------------------------------------------------------------

    def nearest(
        self, tx: Transaction, vector: Vector, model: str, filter: SearchFilter, limit: int
    ) -> list[tuple[CandidateRow, float]]:
        """Return up to `limit` rows with the cosine of their vector of a model, nearest first."""
        return self._nearest(tx, vector, model, filter, limit, self._narrow_rows(tx, filter))

    def _nearest(
        self,
        tx: Transaction,
        vector: Vector,
        model: str,
        filter: SearchFilter,
        limit: int,
        narrow: Numbers | None,
    ) -> list[tuple[CandidateRow, float]]:
        """Return the nearest rows; `narrow` are the only ones that can pass a narrow filter."""
        scan = Scan(vector)
        mark = self._vector_mark(tx, model)
        for owner in _row_owners(filter.user):
            source = self._vector_source(tx, model, owner, len(vector), mark)
            self._vectors.compare(scan, (tx.tenant, model, owner), source, narrow)
        nearest: list[tuple[CandidateRow, float]] = []
        checked = 0
        size = limit
        while len(nearest) < limit and checked < len(scan):
            numbers, scores = scan.best(checked + size)
            batch = numbers[checked:].tolist()
            visible = self._visible(tx, batch, filter)
            for number, score in zip(batch, scores[checked:].tolist(), strict=True):
                if number in visible:
                    nearest.append((visible[number], score))
            checked += size
            size = _next_batch(limit, len(nearest), checked)
        return nearest[:limit]

    def put(self, tx: Transaction, model: str, vectors: Sequence[tuple[int, float, bytes]]) -> None:
        """Store vectors of rows that still exist; replace those of another model or length."""
        rows = [
            {
                "model": model,
                "number": number,
                "scale": scale,
                "vector": vector,
                "dimension": len(vector),
            }
            for number, scale, vector in vectors
        ]
        tx.many(
            """delete from search_vectors where tenant = :tenant and number = :number
               and (model <> :model or length(vector) <> :dimension)""",
            rows,
        )
        tx.many(
            """insert into search_vectors (tenant, number, user_id, model, scale, vector)
               select tenant, number, user_id, :model, :scale, :vector from search_items
               where tenant = :tenant and number = :number on conflict do nothing""",
            rows,
        )

    def _count_vectors(self, tx: Transaction, model: str, owner: RowOwner) -> int:
        of_user = OF_USER[owner.kind]
        row = tx.one(
            f"""select count(*) from search_vectors
                where tenant = :tenant and model = :model {of_user}""",
            model=model,
            user=owner.user,
        )
        return int((row or (0,))[0])

    def without_vector(
        self, tx: Transaction, model: str, dimension: int, after: int, limit: int
    ) -> Unembedded:
        """Return which of the next `limit` rows after a number have no vector of a model."""
        # Two lists, compared here: a server without statistics would join them in quadratic time.
        rows = tx.all(
            """select number from search_items where tenant = :tenant and number > :after
               order by number limit :limit""",
            after=after,
            limit=limit,
        )
        numbers = [int(number) for (number,) in rows]
        top = numbers[-1] if numbers else after
        embedded = {
            number
            for (number,) in tx.all(
                """select number from search_vectors where tenant = :tenant
                   and number > :after and number <= :top
                   and model = :model and length(vector) = :dimension""",
                model=model,
                dimension=dimension,
                after=after,
                top=top,
            )
        }
        missing = [number for number in numbers if number not in embedded]
        return Unembedded(missing, top, is_last=len(numbers) < limit)

    def cosines(
        self, tx: Transaction, vector: Vector, model: str, numbers: Sequence[int]
    ) -> dict[int, float]:
        """Return the cosine of each of the rows that has a vector of a model."""
        rows = self._vectors_of(tx, model, numbers, len(vector)) if numbers else []
        return _cosines_by_number(vector, [page(rows)] if rows else [])

    def cosines_in_memory(
        self, tx: Transaction, vector: Vector, model: str, user: str | None, numbers: Sequence[int]
    ) -> dict[int, float]:
        """Return the cosine of each of the rows whose vector `nearest` has loaded.

        The rows must exist: the vector of a deleted one may still be in memory.
        """
        pages: list[VectorBlock] = []
        for owner in _row_owners(user):
            pages += self._vectors.lookup((tx.tenant, model, owner), numbers)
        return _cosines_by_number(vector, pages)


def _frequencies(
    words: Sequence[str], distinct: Sequence[str], postings: Sequence[Posting]
) -> list[int]:
    """Return the number of rows with each word, from the postings of the distinct words."""
    counts = {word: posting.row_count for word, posting in zip(distinct, postings, strict=True)}
    return [counts[word] for word in words]


def only_separate_kinds(filter: SearchFilter) -> SearchFilter:
    """Return a filter for the kinds that are ranked separately and that the search includes."""
    kinds = [kind for kind in filter.separate_kinds if filter.kinds is None or kind in filter.kinds]
    return replace(filter, kinds=tuple(kinds), separate_kinds=())


def _exclude(posting: Posting, numbers: Numbers) -> Posting:
    """Return a posting without some rows."""
    import numpy as np

    others = posting.numbers[~np.isin(posting.numbers, numbers)]
    return Posting(others, posting.row_count - (len(posting.numbers) - len(others)))


def _next_batch(limit: int, passed: int, checked: int) -> int:
    """Return how many rows to check next for a filter: probably enough, if as many pass as before.

    passed: the number of rows that have passed
    checked: the number of rows that have been checked
    """
    if not passed:
        return 4 * checked
    expected = (limit - passed) * checked // passed
    return max(expected + expected // 4, checked // 2)


def _cosines_by_number(vector: Vector, pages: Sequence[VectorBlock]) -> dict[int, float]:
    return {
        number: cosine
        for part in pages
        for number, cosine in zip(
            part.numbers.tolist(), cosines(vector, part).tolist(), strict=True
        )
    }


def _row_owners(user: str | None) -> list[RowOwner]:
    """Return the owners whose rows a user may see; without a user, everybody."""
    if user is None:
        return [RowOwner(EVERYBODY)]
    return [RowOwner(NOBODY), RowOwner("user", user)]


def _rank(postings: Sequence[Posting], extent: int, narrow: Numbers | None) -> Numbers:
    """Return the rows of postings by the summed rarity of their words; equals newest first."""
    import numpy as np

    numbers = np.concatenate([posting.numbers for posting in postings])
    rarity = [
        np.log1p(max(extent - posting.row_count, 0.5) / (posting.row_count + 0.5))
        for posting in postings
    ]
    weights = np.repeat(np.array(rarity), [len(posting.numbers) for posting in postings])
    if narrow is not None:
        inside = np.isin(numbers, narrow)
        numbers = numbers[inside]
        weights = weights[inside]
    if not len(numbers):
        return numbers
    order = np.argsort(numbers, kind="stable")
    numbers = numbers[order]
    weights = weights[order]
    starts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1))
    sums = np.round(np.add.reduceat(weights, starts), 9)
    distinct: Numbers = numbers[starts]
    return distinct[np.lexsort((-distinct, -sums))]

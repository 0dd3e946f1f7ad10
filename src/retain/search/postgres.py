"""The index on PostgreSQL: which rows have a word is a table of numbers, written in the same round trip as the row.

Row-level security is forced, so nothing may be found by an operator that could leak what it compares: words and users are
hashes, compared as numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

from retain.search.engine import Item, SearchFilter
from retain.search.retrieval import (
    COLUMNS,
    IndexReader,
    Posting,
    index_terms,
    item_from_row,
    place_range,
)
from retain.search.vector_cache import EVERYBODY, NOBODY, Page, Source, Whose, page
from retain.storage.database import Row, Transaction
from retain.storage.tables import Check

if TYPE_CHECKING:
    from retain.search.engine import Vector
    from retain.search.vector_cache import Numbers

_AT_ONCE = 8192
_IN_ONE_STATEMENT = 500
_NO_OWNER = 0
_ADD = """with added as (
              insert into search_items (tenant, kind, id, seq, part, user_id, agent, board, session_id, at, expires_at, role,
                                        author, title, text, place, owner, words)
              values (:tenant, :kind, :id, :seq, :part, :user_id, :agent, :board, :session_id, :at, :expires_at, :role,
                      :author, :title, :text, :place, :owner, :words::int[]) returning number, owner, words)
          insert into search_words (tenant, word, owner, number)
          select :tenant, word, owner, number from added, unnest(words) word"""
# Many rows at once: their words come as one list, and each row takes its part of it.
_ADD_MANY = """with added as (
        insert into search_items (tenant, kind, id, seq, part, user_id, agent, board, session_id, at, expires_at, role,
                                  author, title, text, place, owner, words)
        select :tenant, kind, id, seq, part, user_id, agent, board, session_id, at, expires_at, role, author, title, text,
               place, owner, (:words::int[])[past + 1 : until]
        from unnest(:kind::text[], :id::text[], :seq::bigint[], :part::bigint[], :user_id::text[], :agent::text[],
            :board::text[], :session_id::text[], :at::bigint[], :expires_at::bigint[], :role::text[], :author::text[],
            :title::text[], :text::text[], :place::text[], :owner::int[], :past::int[], :until::int[]) with ordinality
        given (kind, id, seq, part, user_id, agent, board, session_id, at, expires_at, role, author, title, text, place,
               owner, past, until, nth)
        order by nth returning number, owner, words)
    insert into search_words (tenant, word, owner, number)
    select :tenant, word, owner, number from added, unnest(words) word"""
_NEWEST = "select coalesce(max(number), 0) from search_items where tenant = :tenant"
# Each list is read from the end of its part of the index, and no further than the cap.
_POSTINGS = """select place, numbers from unnest(:words::int[]) with ordinality words (this, place)
    cross join unnest(:owners::int[]) whose
    cross join lateral (
        select string_agg(number::text, ',') numbers from (
            select number from search_words where tenant = :tenant and owner = whose and word = this
            order by number desc limit :cap) newest) list
    where numbers is not null"""
_COUNT = "select count(*) from search_words where tenant = :tenant and owner = any(:owners::int[]) and word = :word"
_OWNERS = """with recursive owners (owner) as (
    (select owner from search_words where tenant = :tenant order by owner limit 1) union all
    select (select search_words.owner from search_words where tenant = :tenant and search_words.owner > owners.owner
            order by search_words.owner limit 1) from owners where owners.owner is not null)
    select owner from owners where owner is not null"""
_VISIBLE = """select number from search_items where tenant = :tenant and number = any(:numbers)
    and (user_id is null or user_id = coalesce(:user, user_id)) and (agent is null or agent = coalesce(:agent, agent))
    and (board is null or board = any(coalesce(:boards, array[board])))
    and kind = any(coalesce(:kinds, array[kind])) and (:session::text is null or session_id = :session)
    and at >= coalesce(:since, at) and (:until::bigint is null or at < :until)
    and (expires_at is null or expires_at > :now)
    and (:under::text is null or (place >= :under and place < :beyond))"""
_ITEMS = f"select {COLUMNS} from search_items where tenant = :tenant and number = any(:numbers)"
_AUTHORS = """select distinct author from search_items
              where tenant = :tenant and number = any(:numbers) and author <> ''"""
_AROUND = f"""select distinct {COLUMNS} from unnest(:kinds::text[], :ids::text[], :lows::bigint[], :highs::bigint[])
    spans (of_kind, of_id, low, high) join search_items
    on tenant = :tenant and kind = of_kind and id = of_id and seq between low and high
    where part = 0 and (expires_at is null or expires_at > :now)"""
_REPLACED = """delete from search_vectors
               where tenant = :tenant and number = any(:numbers) and (model <> :model or length(vector) <> :dimension)"""
_PUT = """insert into search_vectors (tenant, number, user_id, model, scale, vector)
          select tenant, number, user_id, :model, scale, vector from search_items
          join unnest(:numbers::bigint[], :scales::float8[], :vectors::bytea[]) given (number, scale, vector) using (number)
          where tenant = :tenant on conflict do nothing"""
_SINCE = """select number, scale, vector, stamp from search_vectors
    where tenant = :tenant and model = :model and length(vector) = :dimension
    and (stamp, number) > (:since, :after) and stamp < :until order by stamp, number limit :size"""
_SINCE_OF = """select number, scale, vector, stamp from search_vectors
    where tenant = :tenant and model = :model and user_id = :user and length(vector) = :dimension
    and (stamp, number) > (:since, :after) and stamp < :until order by stamp, number limit :size"""
_SINCE_NOBODY = """select number, scale, vector, stamp from search_vectors
    where tenant = :tenant and model = :model and user_id is null and length(vector) = :dimension
    and (stamp, number) > (:since, :after) and stamp < :until order by stamp, number limit :size"""
_SNAPSHOT = """select pg_snapshot_xmin(now)::text::bigint, pg_snapshot_xmax(now)::text::bigint
               from pg_current_snapshot() now where :tenant <> ''"""
_COUNTS = {
    EVERYBODY: "select count(*) from search_vectors where tenant = :tenant and model = :model",
    NOBODY: "select count(*) from search_vectors where tenant = :tenant and model = :model and user_id is null",
    "user": "select count(*) from search_vectors where tenant = :tenant and model = :model and user_id = :user",
}
_PAGES = {EVERYBODY: _SINCE, NOBODY: _SINCE_NOBODY, "user": _SINCE_OF}
_THEIRS = """select number, scale, vector from search_vectors
             where tenant = :tenant and number = any(:numbers) and model = :model and length(vector) = :dimension"""
_EVER = 2**63 - 1
# Where the server has pgvector: an index for each usual length. Filters are asked of each row that it brings.
_NEAR = """select v.number from search_vectors v join search_items i on i.tenant = :tenant and i.number = v.number
    where v.tenant = :tenant and v.model = :model and octet_length(v.vector) = SIZE
    and (v.user_id is null or v.user_id = coalesce(:user, v.user_id)) and (agent is null or agent = coalesce(:agent, agent))
    and (board is null or board = any(coalesce(:boards, array[board])))
    and kind = any(coalesce(:kinds, array[kind])) and (:session::text is null or session_id = :session)
    and at >= coalesce(:since, at) and (:until::bigint is null or at < :until)
    and (expires_at is null or expires_at > :now)
    and (:under::text is null or (place >= :under and place < :beyond))
    order by v.near::halfvec(SIZE) <=> :vector::halfvec(SIZE) limit :most"""
_NEAREST = {
    256: _NEAR.replace("SIZE", "256"),
    384: _NEAR.replace("SIZE", "384"),
    512: _NEAR.replace("SIZE", "512"),
    768: _NEAR.replace("SIZE", "768"),
    1024: _NEAR.replace("SIZE", "1024"),
    1536: _NEAR.replace("SIZE", "1536"),
    3072: _NEAR.replace("SIZE", "3072"),
}
_NEAR_ROWS = "select reltuples from pg_class where oid = to_regclass(:index) and :tenant <> ''"
_NEAR_SETTINGS = """select set_config('hnsw.ef_search', :ef, true), set_config('hnsw.iterative_scan', 'relaxed_order', true),
    set_config('hnsw.max_scan_tuples', :scanned, true), :tenant"""
_MOST_SCANNED = 40_000


# Words are counted in one pass: looked up row by row, before there are statistics, all of them were read for each row.
_WORDLESS = """with had as materialized (
        select owner, number, count(*) words from search_words where tenant = :tenant group by owner, number)
    select kind || ' ' || id || ' ' || seq from search_items left join had using (owner, number)
    where tenant = :tenant and cardinality(search_items.words) > coalesce(had.words, 0) limit 200"""
_STRAY = """select 'words of row ' || number || ', which is gone' from search_words where tenant = :tenant
    and not exists (select 1 from search_items where tenant = :tenant and number = search_words.number) limit 200"""
_LOST = _WORDLESS.replace("kind || ' ' || id || ' ' || seq", "number").replace(
    "limit 200", "limit 20000"
)
_SWEEP = """with gone as (
        delete from search_words where tenant = :tenant
        and not exists (select 1 from search_items where tenant = :tenant and number = search_words.number)
        returning number)
    select count(distinct number) from gone"""
_HELD = "select number from search_items where tenant = :tenant and number = any(:numbers) order by number for update"
_UNWORD = """with old as materialized (select owner, unnest(words) as word, number from search_items
                 where tenant = :tenant and number = any(:numbers))
    delete from search_words using old where search_words.tenant = :tenant and search_words.owner = old.owner
    and search_words.word = old.word and search_words.number = old.number"""
_REWORD = """update search_items set words = (:words::int[])[past + 1 : until]
    from unnest(:numbers::bigint[], :past::int[], :until::int[]) given (this, past, until)
    where tenant = :tenant and number = this"""
_WORD = """insert into search_words (tenant, word, owner, number)
    select :tenant, word, owner, number from search_items, unnest(words) word
    where tenant = :tenant and number = any(:numbers) on conflict do nothing"""


class PostgresEngine(IndexReader):
    """Words and vectors on PostgreSQL."""

    checks = (
        Check(
            "every row of the index has its words (`retain reindex` writes them again)", _WORDLESS
        ),
        Check("there are no words of rows that are gone (`retain reindex` removes them)", _STRAY),
    )

    exact = 150_000
    """Up to so many rows in the scope every vector is looked at: that is as quick as an index, and misses nothing."""

    # -- writing -----------------------------------------------------------------------------------------------

    def add(self, tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows and their words."""
        if len(rows) == 1:
            tx.run(_ADD, **rows[0], owner=_owner(rows[0]["user_id"]), words=_hashes(rows[0]))
            return
        for start in range(0, len(rows), _IN_ONE_STATEMENT):
            some = rows[start : start + _IN_ONE_STATEMENT]
            columns = {name: [row[name] for row in some] for name in some[0]}
            words = [_hashes(row) for row in some]
            until = list(accumulate(len(its) for its in words))
            tx.run(
                _ADD_MANY,
                **columns,
                owner=[_owner(row["user_id"]) for row in some],
                words=list(chain.from_iterable(words)),
                past=[0, *until[:-1]],
                until=until,
            )

    def lost(self, tx: Transaction) -> list[int]:
        """Rows that have fewer words than they say."""
        return [number for (number,) in tx.all(_LOST)]

    def reword(self, tx: Transaction, rows: Mapping[int, Collection[str]]) -> int:
        """Write the words of rows anew; who removes one meanwhile waits, and removes the new ones."""
        numbers = [number for (number,) in tx.all(_HELD, numbers=list(rows))]
        words = [list({_hash(word) for word in rows[number]}) for number in numbers]
        until = list(accumulate(len(its) for its in words))
        tx.run(_UNWORD, numbers=numbers)
        tx.run(
            _REWORD,
            numbers=numbers,
            words=list(chain.from_iterable(words)),
            past=[0, *until[:-1]][: len(until)],
            until=until,
        )
        tx.run(_WORD, numbers=numbers)
        return len(numbers)

    def sweep(self, tx: Transaction) -> int:
        """Remove words of rows that are gone."""
        return int((tx.one(_SWEEP) or (0,))[0])

    def put(self, tx: Transaction, model: str, vectors: Sequence[tuple[int, float, bytes]]) -> None:
        """Keep the vectors of rows that are still there, in place of another model's, or of another length."""
        for start in range(0, len(vectors), _IN_ONE_STATEMENT):
            numbers, scales, small = zip(*vectors[start : start + _IN_ONE_STATEMENT], strict=True)
            tx.run(_REPLACED, model=model, numbers=list(numbers), dimension=len(small[0]))
            tx.run(
                _PUT, model=model, numbers=list(numbers), scales=list(scales), vectors=list(small)
            )

    # -- reading -----------------------------------------------------------------------------------------------

    def items(self, tx: Transaction, numbers: Sequence[int]) -> dict[int, Item]:
        """The rows by their numbers."""
        return {row[0]: item_from_row(row) for row in tx.all(_ITEMS, numbers=list(numbers))}

    def authors(self, tx: Transaction, numbers: Sequence[int]) -> set[str]:
        """Who said what is in the rows."""
        return {author for (author,) in tx.all(_AUTHORS, numbers=list(numbers))}

    def around(self, tx: Transaction, items: Sequence[Item], reach: int) -> list[Item]:
        """The neighbours of rows."""
        found = tx.all(
            _AROUND,
            kinds=[row.kind for row in items],
            ids=[row.id for row in items],
            lows=[row.seq - reach for row in items],
            highs=[row.seq + reach for row in items],
        )
        known = {row.number for row in items}
        return [item_from_row(row) for row in found if row[0] not in known]

    def _visible(self, tx: Transaction, numbers: Sequence[int], asked: SearchFilter) -> set[int]:
        return {number for (number,) in tx.all(_VISIBLE, numbers=list(numbers), **_filters(asked))}

    # -- words -------------------------------------------------------------------------------------------------

    def _postings(
        self, tx: Transaction, words: Sequence[str], user: str | None, cap: int | None
    ) -> list[Posting]:
        import numpy as np

        hashes = [_hash(word) for word in words]
        rows = tx.all(_POSTINGS, words=hashes, owners=_owners(tx, user), cap=cap)
        lists: list[list[Numbers]] = [[] for _ in words]
        for place, listed in rows:
            lists[place - 1].append(np.fromstring(listed, np.int64, sep=","))
        found = []
        for word, parts in zip(words, lists, strict=True):
            numbers = np.sort(np.concatenate([np.zeros(0, np.int64), *parts]))[::-1][:cap]
            having = self._count(tx, word, user) if len(numbers) == cap else len(numbers)
            found.append(Posting(numbers, max(having, len(numbers))))
        return found

    def _counted(self, tx: Transaction, word: str, user: str | None) -> int:
        return int((tx.one(_COUNT, word=_hash(word), owners=_owners(tx, user)) or (0,))[0])

    def _newest(self, tx: Transaction) -> int:
        return int((tx.one(_NEWEST) or (0,))[0])

    # -- vectors -----------------------------------------------------------------------------------------------

    def _nearest(
        self,
        tx: Transaction,
        vector: Vector,
        model: str,
        asked: SearchFilter,
        most: int,
        among: Numbers | None,
    ) -> list[tuple[int, float]]:
        """From an index where there are many rows and it brings enough of them."""
        if among is None and self._has_index(tx, len(vector), asked, most):
            tx.one(_NEAR_SETTINGS, ef=str(min(1000, most + most // 4)), scanned=str(_MOST_SCANNED))
            rows = tx.all(
                _NEAREST[len(vector)],
                vector=str(vector.tolist()),
                model=model,
                most=most,
                **_filters(asked),
            )
            if len(rows) == most:
                found = self.cosines(tx, vector, model, [number for (number,) in rows])
                return sorted(found.items(), key=lambda pair: (-pair[1], -pair[0]))
        return super()._nearest(tx, vector, model, asked, most, among)

    def _has_index(self, tx: Transaction, size: int, asked: SearchFilter, most: int) -> bool:
        """Whether an index is likely to bring so many rows of the scope before it has looked at too many others."""
        extent = self.extent(tx, asked)
        if size not in _NEAREST or extent <= self.exact:
            return False
        rows = tx.one(_NEAR_ROWS, index=f"search_vectors_near_{size}")
        return rows is not None and most * rows[0] / extent < _MOST_SCANNED / 2

    def _source(self, tx: Transaction, model: str, whose: Whose, dimension: int) -> Source:
        low, high = tx.one(_SNAPSHOT) or (0, 0)

        def since(mark: int) -> Iterator[Page]:
            # Stamps of a restored dump may be from another server's future: they are read once, at the beginning.
            named = {
                "model": model,
                "user": whose.user,
                "dimension": dimension,
                "until": high if mark else _EVER,
            }
            after = -1
            while rows := tx.all(
                _PAGES[whose.owner], since=mark, after=after, size=_AT_ONCE, **named
            ):
                yield page([row[:3] for row in rows])
                mark, after = rows[-1][3], rows[-1][0]

        def count() -> int:
            return int((tx.one(_COUNTS[whose.owner], model=model, user=whose.user) or (0,))[0])

        return Source(since, int(low), count)

    def _vectors_of(
        self, tx: Transaction, model: str, numbers: Sequence[int], dimension: int
    ) -> list[Row]:
        return tx.all(_THEIRS, numbers=list(numbers), model=model, dimension=dimension)


def _filters(asked: SearchFilter) -> dict[str, Any]:
    under, beyond = place_range(asked.place)
    boards, kinds = (
        None if names is None else list(names) for names in (asked.boards, asked.kinds)
    )
    return {
        "user": asked.user, "agent": asked.agent, "boards": boards, "kinds": kinds, "session": asked.session,
        "since": asked.since, "until": asked.until, "under": under, "beyond": beyond,
    }  # fmt: skip


@lru_cache(1 << 16)
def _hash(word: str) -> int:
    digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=4).digest()
    return int.from_bytes(digest, signed=True)


def _hashes(row: Mapping[str, Any]) -> list[int]:
    found = index_terms(
        row["kind"],
        row["session_id"],
        row["author"],
        row["title"],
        row["text"],
        row["at"],
        row["place"],
    )
    return list({_hash(word) for word in found})


def _owner(user: str | None) -> int:
    return _NO_OWNER if user is None else _hash(user)


def _owners(tx: Transaction, user: str | None) -> list[int]:
    """Whose words are asked for: a user's and nobody's, or those of everybody there is."""
    return (
        [owner for (owner,) in tx.all(_OWNERS)] if user is None else list({_owner(user), _NO_OWNER})
    )

"""The index on PostgreSQL: a table of words and their rows, written in the row's round trip.

Row-level security is forced, so rows may only be found with operators that cannot leak what they
compare. That is why words and users are stored as hashes and compared as numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

from memorist.search.candidates import FORMAT, NO_OWNER, Digest, digest, owner_hash, word_hash
from memorist.search.retrieval import (
    CANDIDATE_COLUMNS,
    COLUMNS,
    OF_USER,
    Anchor,
    IndexReader,
    Posting,
    marks,
    place_range,
)
from memorist.search.search_engine import CandidateRow, SearchFilter
from memorist.search.vector_cache import RowOwner, StoredVectors, VectorBlock
from memorist.storage.database import Row, Transaction
from memorist.storage.tables import Check

if TYPE_CHECKING:
    from memorist.search.search_engine import Vector
    from memorist.search.vector_cache import Numbers

ROWS_PER_READ = 2048
ROWS_PER_STATEMENT = 500
MAX_STAMP = 2**63 - 1
MAX_SCANNED_TUPLES = 40_000

FILTERS = """(agent is null or agent = coalesce(:agent, agent))
    and (board is null or board = any(coalesce(:boards, array[board])))
    and kind = any(coalesce(:kinds, array[kind])) and kind <> all(:separate_kinds::text[])
    and (:session::text is null or session_id = :session)
    and at >= coalesce(:since, at) and (:until::bigint is null or at < :until)
    and (expires_at is null or expires_at > :now)
    and (:under::text is null or (place >= :under and place < :beyond))"""
# With pgvector there is an index for each usual length. Filters apply to each row it returns.
_NEAR = f"""select i.{CANDIDATE_COLUMNS} from search_vectors v
    join search_items i on i.tenant = :tenant and i.number = v.number
    where v.tenant = :tenant and v.model = :model and octet_length(v.vector) = SIZE
    and (v.user_id is null or v.user_id = coalesce(:user, v.user_id)) and {FILTERS}
    order by v.near::halfvec(SIZE) <=> :vector::halfvec(SIZE) limit :limit"""
NEAREST_BY_INDEX = {
    size: _NEAR.replace("SIZE", str(size)) for size in (256, 384, 512, 768, 1024, 1536, 3072)
}
# `set local` takes no parameters, so there is a statement for each size of the candidate list.
MAX_EF_SEARCH = 1000
SET_EF_SEARCH = {
    size: f"set local hnsw.ef_search = {size}" for size in (125, 250, 500, MAX_EF_SEARCH)
}
SET_MAX_SCANNED_TUPLES = f"set local hnsw.max_scan_tuples = {MAX_SCANNED_TUPLES}"
# Words are counted in one pass: row by row, a server without statistics read all of them each time.
_WITHOUT_WORDS = """with had as materialized (
        select owner, number, count(*) words from search_words
        where tenant = :tenant group by owner, number)
    select RESULT from search_items left join had using (owner, number)
    where tenant = :tenant and cardinality(search_items.words) > coalesce(had.words, 0)"""
ITEMS_AROUND = """unnest(:kinds::text[], :ids::text[], :lows::bigint[], :highs::bigint[])
        spans (of_kind, of_id, low, high)
    join search_items on tenant = :tenant and kind = of_kind and id = of_id
    and seq between low and high and (expires_at is null or expires_at > :now)"""
INSERT_ITEM = """insert into search_items (tenant, kind, id, seq, part, user_id, agent, board,
        session_id, at, expires_at, role, author, title, text, place, digest, owner, words)
    values (:tenant, :kind, :id, :seq, :part, :user_id, :agent, :board, :session_id, :at,
        :expires_at, :role, :author, :title, :text, :place, :digest, :owner, :words::int[])"""
_IS_STRAY = """not exists (
        select 1 from search_items where tenant = :tenant and number = search_words.number)"""


class PostgresEngine(IndexReader):
    """Words and vectors on PostgreSQL."""

    checks = (
        Check(
            "every row of the index has its words (`memorist reindex` restores them)",
            _WITHOUT_WORDS.replace("RESULT", "kind || ' ' || id || ' ' || seq") + " limit 200",
        ),
        Check(
            "no words belong to removed rows (`memorist reindex` removes them)",
            f"""select 'words of row ' || number || ', which is gone' from search_words
                where tenant = :tenant and {_IS_STRAY} limit 200""",
        ),
    )

    exact = 150_000
    """Up to this many rows every vector is compared: as fast as an index, and exact."""

    # -- writing ---------------------------------------------------------------------------------

    def add(self, tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert rows, their words and their digests."""
        digests = [digest(row["author"], row["title"], row["text"], row["at"]) for row in rows]
        words = [_word_hashes(row, analysed) for row, analysed in zip(rows, digests, strict=True)]
        rows = [
            {**row, "digest": analysed.pack()} for row, analysed in zip(rows, digests, strict=True)
        ]
        if len(rows) == 1:
            self._add_one(tx, rows[0], words[0])
            return
        for start in range(0, len(rows), ROWS_PER_STATEMENT):
            end = start + ROWS_PER_STATEMENT
            self._add_many(tx, rows[start:end], words[start:end])

    def _add_one(self, tx: Transaction, row: Mapping[str, Any], words: Sequence[int]) -> None:
        tx.send(
            f"""with added as ({INSERT_ITEM} returning number, owner, words)
                insert into search_words (tenant, word, owner, number)
                select :tenant, word, owner, number from added, unnest(words) word""",
            **row,
            owner=owner_hash(row["user_id"]),
            words=_array(words),
        )

    def _add_many(
        self, tx: Transaction, rows: Sequence[Mapping[str, Any]], words: Sequence[Sequence[int]]
    ) -> None:
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        ends = list(accumulate(len(hashes) for hashes in words))
        # The words of all rows are one list, from which each row takes its part.
        tx.send(
            """with added as (
                   insert into search_items (tenant, kind, id, seq, part, user_id, agent, board,
                       session_id, at, expires_at, role, author, title, text, place, digest,
                       owner, words)
                   select :tenant, kind, id, seq, part, user_id, agent, board, session_id, at,
                       expires_at, role, author, title, text, place, digest, owner,
                       (:words::int[])[past + 1 : until]
                   from unnest(:kind::text[], :id::text[], :seq::bigint[], :part::bigint[],
                       :user_id::text[], :agent::text[], :board::text[], :session_id::text[],
                       :at::bigint[], :expires_at::bigint[], :role::text[], :author::text[],
                       :title::text[], :text::text[], :place::text[], :digest::bytea[],
                       :owner::int[], :past::int[], :until::int[]) with ordinality
                   given (kind, id, seq, part, user_id, agent, board, session_id, at, expires_at,
                       role, author, title, text, place, digest, owner, past, until, nth)
                   order by nth returning number, owner, words)
               insert into search_words (tenant, word, owner, number)
               select :tenant, word, owner, number from added, unnest(words) word""",
            **columns,
            owner=[owner_hash(row["user_id"]) for row in rows],
            words=_array(chain.from_iterable(words)),
            past=[0, *ends[:-1]],
            until=ends,
        )

    def lost(self, tx: Transaction) -> list[int]:
        """Return rows with fewer words than they should have."""
        rows = tx.all(_WITHOUT_WORDS.replace("RESULT", "number") + " limit 20000")
        return [number for (number,) in rows]

    def without_digest(self, tx: Transaction, after: int, limit: int) -> list[int]:
        """Return the numbers of the next rows after a number that have no digest."""
        rows = tx.all(
            """select number from search_items where tenant = :tenant
               and number > :after and (digest is null or get_byte(digest, 0) <> :format)
               order by number limit :limit""",
            format=FORMAT,
            after=after,
            limit=limit,
        )
        return [number for (number,) in rows]

    def reword(self, tx: Transaction, rows: Mapping[int, Collection[str]]) -> int:
        """Replace the words of rows, which are locked against removal meanwhile."""
        locked = tx.all(
            """select number from search_items
               where tenant = :tenant and number = any(:numbers) order by number for update""",
            numbers=list(rows),
        )
        numbers = [number for (number,) in locked]
        words = [list({word_hash(word) for word in rows[number]}) for number in numbers]
        ends = list(accumulate(len(hashes) for hashes in words))
        tx.run(
            """with old as materialized (
                   select owner, unnest(words) as word, number from search_items
                   where tenant = :tenant and number = any(:numbers))
               delete from search_words using old
               where search_words.tenant = :tenant and search_words.owner = old.owner
               and search_words.word = old.word and search_words.number = old.number""",
            numbers=numbers,
        )
        tx.run(
            """update search_items set words = (:words::int[])[past + 1 : until]
               from unnest(:numbers::bigint[], :past::int[], :until::int[])
                   given (this, past, until)
               where tenant = :tenant and number = this""",
            numbers=numbers,
            words=list(chain.from_iterable(words)),
            past=[0, *ends[:-1]][: len(ends)],
            until=ends,
        )
        tx.run(
            """insert into search_words (tenant, word, owner, number)
               select :tenant, word, owner, number from search_items, unnest(words) word
               where tenant = :tenant and number = any(:numbers) on conflict do nothing""",
            numbers=numbers,
        )
        return len(numbers)

    def sweep(self, tx: Transaction) -> int:
        """Remove the words of deleted rows."""
        removed = tx.one(
            f"""with gone as (
                    delete from search_words where tenant = :tenant and {_IS_STRAY}
                    returning number)
                select count(distinct number) from gone"""
        )
        return int((removed or (0,))[0])

    def put(self, tx: Transaction, model: str, vectors: Sequence[tuple[int, float, bytes]]) -> None:
        """Store vectors of rows that still exist; replace those of another model or length."""
        for start in range(0, len(vectors), ROWS_PER_STATEMENT):
            batch = vectors[start : start + ROWS_PER_STATEMENT]
            numbers = [number for number, _, _ in batch]
            tx.run(
                """delete from search_vectors where tenant = :tenant and number = any(:numbers)
                   and (model <> :model or length(vector) <> :dimension)""",
                model=model,
                numbers=numbers,
                dimension=len(batch[0][2]),
            )
            tx.run(
                """insert into search_vectors (tenant, number, user_id, model, scale, vector)
                   select tenant, number, user_id, :model, scale, vector from search_items
                   join unnest(:numbers::bigint[], :scales::float8[], :vectors::bytea[])
                       given (number, scale, vector) using (number)
                   where tenant = :tenant on conflict do nothing""",
                model=model,
                numbers=numbers,
                scales=[scale for _, scale, _ in batch],
                vectors=[vector for _, _, vector in batch],
            )

    # -- reading ---------------------------------------------------------------------------------

    def snapshot(self, tx: Transaction) -> tuple[int, int]:
        """Return the oldest running transaction and the next one that will start."""
        ((low, high),) = tx.unscoped(
            """select pg_snapshot_xmin(now)::text::bigint, pg_snapshot_xmax(now)::text::bigint
               from pg_current_snapshot() now"""
        )
        return low, high

    def _items(self, tx: Transaction, numbers: Sequence[int]) -> list[Row]:
        return tx.all(
            f"select {COLUMNS} from search_items where tenant = :tenant and number = any(:numbers)",
            numbers=list(numbers),
        )

    def _items_around(
        self, tx: Transaction, rows: Sequence[Anchor], reach: int, numbers: Sequence[int]
    ) -> list[Row]:
        return tx.all(
            f"""select {COLUMNS} from {ITEMS_AROUND}
                where part = 0 or number = any(:numbers::bigint[])""",
            **_spans(rows, reach),
            numbers=list(numbers),
        )

    def _candidates_around(
        self, tx: Transaction, rows: Sequence[CandidateRow], reach: int
    ) -> list[Row]:
        return tx.all(
            f"select {CANDIDATE_COLUMNS} from {ITEMS_AROUND} where part = 0",
            **_spans(rows, reach),
        )

    def _visible(
        self, tx: Transaction, numbers: Sequence[int], filter: SearchFilter
    ) -> dict[int, CandidateRow]:
        rows = tx.all(
            f"""select {CANDIDATE_COLUMNS} from search_items
                where tenant = :tenant and number = any(:numbers)
                and (user_id is null or user_id = coalesce(:user, user_id)) and {FILTERS}""",
            numbers=list(numbers),
            **_filter_parameters(filter),
        )
        return {row[0]: CandidateRow._make(row) for row in rows}

    # -- words -----------------------------------------------------------------------------------

    def _postings(
        self, tx: Transaction, words: Sequence[str], user: str | None, cap: int | None
    ) -> list[Posting]:
        import numpy as np

        # Each list is read from the end of its part of the index, and no further than the cap.
        rows = tx.all(
            """select place, numbers from unnest(:words::int[]) with ordinality words (this, place)
               cross join unnest(:owners::int[]) whose
               cross join lateral (
                   select string_agg(number::text, ',') numbers from (
                       select number from search_words
                       where tenant = :tenant and owner = whose and word = this
                       order by number desc limit :cap) newest) list
               where numbers is not null""",
            words=[word_hash(word) for word in words],
            owners=_owners(tx, user),
            cap=cap,
        )
        lists: list[list[Numbers]] = [[] for _ in words]
        for place, joined in rows:
            lists[place - 1].append(np.fromstring(joined, np.int64, sep=","))
        postings = []
        for word, parts in zip(words, lists, strict=True):
            numbers = np.sort(np.concatenate([np.zeros(0, np.int64), *parts]))[::-1][:cap]
            count = self._cached_count(tx, word, user) if len(numbers) == cap else len(numbers)
            postings.append(Posting(numbers, max(count, len(numbers))))
        return postings

    def _count_rows(self, tx: Transaction, word: str, user: str | None) -> int:
        row = tx.one(
            """select count(*) from search_words
               where tenant = :tenant and owner = any(:owners::int[]) and word = :word""",
            word=word_hash(word),
            owners=_owners(tx, user),
        )
        return int((row or (0,))[0])

    # -- vectors ---------------------------------------------------------------------------------

    def _nearest(
        self,
        tx: Transaction,
        vector: Vector,
        model: str,
        filter: SearchFilter,
        limit: int,
        narrow: Numbers | None,
    ) -> list[tuple[CandidateRow, float]]:
        """Return the nearest rows, from pgvector's index if that is faster and has enough."""
        if narrow is None and self._has_index(tx, len(vector), filter, limit):
            size = next((size for size in SET_EF_SEARCH if size >= limit * 1.25), MAX_EF_SEARCH)
            tx.unscoped(SET_EF_SEARCH[size])
            tx.unscoped("set local hnsw.iterative_scan = relaxed_order")
            tx.unscoped(SET_MAX_SCANNED_TUPLES)
            rows = tx.all(
                NEAREST_BY_INDEX[len(vector)],
                vector=str(vector.tolist()),
                model=model,
                limit=limit,
                **_filter_parameters(filter),
            )
            if len(rows) == limit:
                candidates = [CandidateRow._make(row) for row in rows]
                numbers = [row.number for row in candidates]
                cosines = self.cosines(tx, vector, model, numbers)
                nearest = [
                    (row, cosines[row.number]) for row in candidates if row.number in cosines
                ]
                return sorted(nearest, key=lambda pair: (-pair[1], -pair[0].number))
        return super()._nearest(tx, vector, model, filter, limit, narrow)

    def _has_index(self, tx: Transaction, size: int, filter: SearchFilter, limit: int) -> bool:
        """Return whether an index is likely to find enough rows of the scope early enough."""
        if size not in NEAREST_BY_INDEX:
            return False
        extent = self._known_extent(tx, filter)
        if extent <= self.exact:
            return False
        rows = tx.unscoped(
            "select reltuples from pg_class where oid = to_regclass(:index)",
            index=f"search_vectors_near_{size}",
        )
        return bool(rows) and limit * rows[0][0] / extent < MAX_SCANNED_TUPLES / 2

    def _vector_mark(self, tx: Transaction, model: str) -> tuple[int, int, int]:
        """Return the bounds of the snapshot, and the newest stamp of a model's vectors.

        Transactions below the first bound are all visible.
        """
        snapshot = tx.one(
            """select pg_snapshot_xmin(now)::text::bigint, pg_snapshot_xmax(now)::text::bigint,
                   (select coalesce(max(stamp), 0) from search_vectors
                    where tenant = :tenant and model = :model)
               from pg_current_snapshot() now""",
            model=model,
        )
        low, high, newest = snapshot or (0, 0, 0)
        return low, high, newest

    def _vector_source(
        self,
        tx: Transaction,
        model: str,
        owner: RowOwner,
        dimension: int,
        mark: tuple[int, int, int],
    ) -> StoredVectors:
        import numpy as np

        of_user = OF_USER[owner.kind]
        low, high, newest = mark

        def since(stamp: int) -> Iterator[VectorBlock]:
            # One row for many vectors: an object for each of 100,000 takes half as long again.
            sql = f"""select string_agg(int8send(number), ''), string_agg(float8send(scale), ''),
                    string_agg(vector, ''), string_agg(int8send(stamp), '')
                from (select number, scale, vector, stamp from search_vectors
                    where tenant = :tenant and model = :model {of_user}
                    and length(vector) = :dimension
                    and (stamp, number) > (:since, :after) and stamp < :until
                    order by stamp, number limit :size) batch"""
            # Stamps of a restored dump may be in the future: they are read once, at the beginning.
            until = high if stamp else MAX_STAMP
            after = -1
            while True:
                row = tx.one(
                    sql,
                    model=model,
                    user=owner.user,
                    dimension=dimension,
                    since=stamp,
                    after=after,
                    until=until,
                    size=ROWS_PER_READ,
                )
                if row is None or row[0] is None:
                    return
                numbers = np.frombuffer(row[0], ">i8").astype(np.int64)
                yield VectorBlock(
                    numbers,
                    np.frombuffer(row[1], ">f8").astype(np.float32),
                    np.frombuffer(row[2], np.int8).reshape(len(numbers), dimension),
                )
                stamps = np.frombuffer(row[3], ">i8")
                stamp = int(stamps.max())
                after = int(numbers[stamps == stamp].max())

        return StoredVectors(since, low, newest, lambda: self._count_vectors(tx, model, owner))

    def _vectors_of(
        self, tx: Transaction, model: str, numbers: Sequence[int], dimension: int
    ) -> list[Row]:
        return tx.all(
            """select number, scale, vector from search_vectors
               where tenant = :tenant and number = any(:numbers)
               and model = :model and length(vector) = :dimension""",
            numbers=list(numbers),
            model=model,
            dimension=dimension,
        )


class CitusEngine(PostgresEngine):
    """Words and vectors on a cluster, where each tenant is on one of several servers.

    A statement with the tenant's tables alone runs on that server. One that needs the result of
    another would run on the coordinator, which must not write the rows of others. So a trigger on
    the server adds the words of a row.
    """

    _has_trigger = False

    def _add_one(self, tx: Transaction, row: Mapping[str, Any], words: Sequence[int]) -> None:
        self._add_many(tx, [row], [words])

    def _add_many(
        self, tx: Transaction, rows: Sequence[Mapping[str, Any]], words: Sequence[Sequence[int]]
    ) -> None:
        tx.many(
            INSERT_ITEM,
            [
                {**row, "owner": owner_hash(row["user_id"]), "words": _array(hashes)}
                for row, hashes in zip(rows, words, strict=True)
            ],
        )
        if self._trigger_exists(tx):
            return
        tx.send(
            """insert into search_words (tenant, word, owner, number)
               select tenant, word, owner, number from search_items
               join unnest(:kinds::text[], :ids::text[], :seqs::bigint[], :parts::bigint[])
                   added (of_kind, of_id, of_seq, of_part)
               on kind = of_kind and id = of_id and seq = of_seq and part = of_part
               cross join unnest(words) word
               where tenant = :tenant on conflict do nothing""",
            kinds=[row["kind"] for row in rows],
            ids=[row["id"] for row in rows],
            seqs=[row["seq"] for row in rows],
            parts=[row["part"] for row in rows],
        )

    def _trigger_exists(self, tx: Transaction) -> bool:
        """Return whether the tables are distributed, by a version of memorist that adds the trigger."""
        if not self._has_trigger:
            rows = tx.unscoped(
                """select 1 from pg_trigger where tgname = 'search_items_added'
                   and tgrelid = to_regclass('search_items')"""
            )
            self._has_trigger = bool(rows)
        return self._has_trigger

    def snapshot(self, tx: Transaction) -> tuple[int, int]:
        """Return the oldest running transaction and the next one on the tenant's server."""
        snapshot = tx.one(
            """select pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
                      pg_snapshot_xmax(pg_current_snapshot())::text::bigint
               from tenants where tenant = :tenant"""
        )
        low, high = snapshot or (0, 0)
        return low, high

    def _vector_mark(self, tx: Transaction, model: str) -> tuple[int, int, int]:
        """Return the bounds of the coordinator's snapshot, and the newest stamp of a model's vectors.

        The coordinator stamps the vectors, and its transaction ends after the one on the server.
        """
        low, high = super().snapshot(tx)
        newest = tx.one(
            """select coalesce(max(stamp), 0) from search_vectors
               where tenant = :tenant and model = :model""",
            model=model,
        )
        return low, high, (newest or (0,))[0]


def _filter_parameters(filter: SearchFilter) -> dict[str, Any]:
    """Return the parameters of FILTERS, and the user."""
    under, beyond = place_range(filter.place)
    return {
        "user": filter.user,
        "agent": filter.agent,
        "boards": None if filter.boards is None else list(filter.boards),
        "kinds": None if filter.kinds is None else list(filter.kinds),
        "separate_kinds": list(filter.separate_kinds),
        "session": filter.session,
        "since": filter.since,
        "until": filter.until,
        "under": under,
        "beyond": beyond,
    }


def _spans(rows: Sequence[Anchor], reach: int) -> dict[str, Any]:
    """Return the parameters of ITEMS_AROUND."""
    return {
        "kinds": [row.kind for row in rows],
        "ids": [row.id for row in rows],
        "lows": [row.seq - reach for row in rows],
        "highs": [row.seq + reach for row in rows],
    }


def _word_hashes(row: Mapping[str, Any], analysed: Digest) -> list[int]:
    """Return the hashes of everything that a row is indexed under: its words and its marks."""
    names = marks(row["kind"], row["session_id"], row["place"])
    return list({*map(word_hash, analysed.words), *map(word_hash, names)})


def _array(numbers: Iterable[int]) -> str:
    """Return numbers as the text of an array: the driver takes seven times as long for a list."""
    return "{" + ",".join(map(str, numbers)) + "}"


def _owners(tx: Transaction, user: str | None) -> list[int]:
    """Return the owners whose words are searched: a user and nobody, or all there are."""
    if user is not None:
        return list({owner_hash(user), NO_OWNER})
    rows = tx.all(
        """with recursive owners (owner) as (
               (select owner from search_words where tenant = :tenant order by owner limit 1)
               union all
               select (select search_words.owner from search_words
                       where tenant = :tenant and search_words.owner > owners.owner
                       order by search_words.owner limit 1)
               from owners where owners.owner is not null)
           select owner from owners where owner is not null"""
    )
    return [owner for (owner,) in rows]

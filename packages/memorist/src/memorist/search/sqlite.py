"""The index on SQLite: words in FTS5, vectors in memory.

An insert into FTS5 with each commit would double the cost of an append. So the newest rows wait
in the tail: every search reads them and matches them itself. A write that makes the tail long
enough moves it into FTS5 at once, and stores the digests of its rows. There is one tail for all
tenants, because row numbers are shared; a search reads only its own tenant's rows of it.

The text of a message is stored once, in the message: the row of a message in the index has an empty
text if its text is the `text` of the message's content. It has no session, which is its `id`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memorist.base.lazy_pattern import LazyPattern
from memorist.search.candidates import FORMAT, digest_of_words
from memorist.search.retrieval import (
    CANDIDATE_COLUMNS,
    EVERY_ROW,
    OF_USER,
    Anchor,
    IndexReader,
    Posting,
    index_terms,
    marks,
    place_range,
    short_hash,
)
from memorist.search.search_engine import CandidateRow, SearchFilter, Unembedded
from memorist.search.vector_cache import NOBODY, RowOwner, StoredVectors, VectorBlock
from memorist.search.words import metadata_words, text_words
from memorist.storage.database import Row, Transaction
from memorist.storage.tables import Check

if TYPE_CHECKING:
    from memorist.search.vector_cache import Numbers

TAIL = 128
"""Every so many rows, the tail is moved into FTS5."""
ROWS_PER_TAIL_CHECK = 16
"""A process looks at the length of the tail after adding this many rows, and after its first."""
ROWS_PER_READ = 8192
SCALE_FACTOR = 10**15
MAX_CACHED_WORDS = 200_000  # of the tail: about 20 MB
FTS5_PAGE_BYTES = 4000
_NOT_IN_FTS5_WORDS = LazyPattern(r"[^a-zA-Z0-9_\x80-\U0010ffff]|[\ud800-\udfff]")

INSERT_ITEM = """insert into search_items (tenant, kind, id, seq, part, user_id, agent, board,
        session_id, at, expires_at, role, author, title, text, place)
    values (:tenant, :kind, :id, :seq, :part, :user_id, :agent, :board,
        iif(:kind = 'messages' and :session_id = :id, null, :session_id), :at, :expires_at, :role,
        :author, :title, iif(:text_in_record, '', :text), :place)"""
MESSAGE_TEXT = """(select content ->> 'text' from messages where messages.tenant = search_items.tenant
    and messages.session_id = search_items.id and messages.seq = search_items.seq)"""
IS_TEXT_IN_RECORD = "search_items.text = '' and kind = 'messages'"
TEXT = f"iif({IS_TEXT_IN_RECORD}, coalesce({MESSAGE_TEXT}, ''), text)"
ITEM_SESSION = "iif(kind = 'messages', coalesce(session_id, id), session_id)"
COLUMNS = f"""number, kind, id, search_items.seq, part, user_id, agent, board, {ITEM_SESSION}, at,
    expires_at, role, author, title, {TEXT}, place, {IS_TEXT_IN_RECORD}"""
# `values`, not `select`: before a statement that may insert several rows, FTS5 writes all pending
# words to its table. That took six times as long.
INSERT_WORDS = """insert into search_words (rowid, words)
    values (:number, :words)"""
PUT_DIGEST = "update search_items set digest = :digest where number = :number"
DELETE_WORDS = "delete from search_words where rowid = :number"
# With automerge on, FTS5 merges many pages at once after rows were removed.
AUTOMERGE = "select v from search_words_config where k = 'automerge'"
DISABLE_AUTOMERGE = "insert into search_words (search_words, rank) values ('automerge', 0)"
MERGE_PAGES = "insert into search_words (search_words, rank) values ('merge', :pages)"
COUNT_REMOVED = "update search_absorbed set removed = removed + :count"
NEWEST_NUMBER = "select coalesce(max(number), 0) from search_items"
ABSORBED_NUMBER = "select number from search_absorbed"
ITEMS_BY_NUMBER = """(select value as this from json_each(:numbers))
    cross join search_items on number = this"""
ITEMS_AROUND = """(select value as span from json_each(:spans))
    cross join search_items on tenant = :tenant and kind = span ->> 0 and id = span ->> 1
    and seq between span ->> 2 and span ->> 3 and (expires_at is null or expires_at > :now)"""
VECTORS_OF_MODEL = """from search_vectors
    where tenant = :tenant and model = :model and length(vector) = :dimension"""
# FTS5 lists the rows that it has in the docsize table.
ROWS_WITHOUT_WORDS = """from search_items where tenant = :tenant
    and number <= (select number from search_absorbed)
    and number not in (select id from search_words_docsize)"""


def _stray(tx: Transaction) -> list[int]:
    """Return the numbers of deleted rows that FTS5 still has."""
    # Only the words tell the tenant: every row has the mark that all rows of its tenant have.
    rows = tx.unscoped(
        """select rowid from search_words where search_words match :query
           and not exists (select 1 from search_items where number = search_words.rowid)
           limit 20000""",
        query=_fts5_query(tx.tenant, EVERY_ROW, None),
    )
    return [number for (number,) in rows]


class SqliteEngine(IndexReader):
    """Words and vectors on SQLite."""

    checks = (
        Check(
            "every row of the index has its words (`memorist reindex` restores them)",
            f"select kind || ' ' || id || ' ' || seq {ROWS_WITHOUT_WORDS} limit 200",
        ),
        Check(
            "no words belong to removed rows (`memorist reindex` removes them)",
            find=lambda tx: [f"words of row {number}, which is gone" for number in _stray(tx)],
        ),
    )

    def __init__(self, vector_mib: int = 512) -> None:
        super().__init__(vector_mib)
        self._tail_words: dict[Row, set[str]] = {}
        self._unchecked_rows = ROWS_PER_TAIL_CHECK

    # -- writing ---------------------------------------------------------------------------------

    def add(self, tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert rows; move the tail into FTS5 if they make it long enough."""
        tx.many(INSERT_ITEM, rows)
        self._unchecked_rows += len(rows)
        if self._unchecked_rows < ROWS_PER_TAIL_CHECK:
            return
        self._unchecked_rows = 0
        ((last,),) = tx.unscoped(NEWEST_NUMBER)
        ((absorbed,),) = tx.unscoped(ABSORBED_NUMBER)
        if last // TAIL > absorbed // TAIL:
            self._absorb(tx, absorbed, last)

    def _absorb(self, tx: Transaction, after: int, last: int) -> None:
        """Move the tail, the rows after a number, up to a row into FTS5."""
        waiting = f"""select number, tenant, user_id, kind, {ITEM_SESSION}, author, title, {TEXT},
                at, place
            from search_items where number > :after and number <= :last
            order by number limit :size"""
        while rows := tx.unscoped(waiting, after=after, last=last, size=ROWS_PER_READ):
            word_rows = []
            digests = []
            for number, tenant, user, kind, session, author, title, text, at, place in rows:
                terms = text_words(text)
                metadata = metadata_words(author, title, at)
                digest = digest_of_words(text, terms, metadata)
                every_term = {*digest.words, *marks(kind, session, place)}
                word_rows.append(_fts5_row(number, tenant, user, every_term))
                digests.append({"number": number, "digest": digest.pack()})
            _add_words(tx, word_rows, last)
            for values in digests:
                tx.unscoped(PUT_DIGEST, **values)
            after = rows[-1][0]
        tx.unscoped("update search_absorbed set number = :number", number=last)

    def lost(self, tx: Transaction) -> list[int]:
        """Return rows that should be in FTS5 and are not."""
        return [number for (number,) in tx.all(f"select number {ROWS_WITHOUT_WORDS} limit 20000")]

    def without_digest(self, tx: Transaction, after: int, limit: int) -> list[int]:
        """Return the numbers of the next rows after a number that have no digest of this version."""
        # The plus sign excludes the index by tenant, which has the rows in another order.
        rows = tx.all(
            """select number from search_items where +tenant = :tenant
               and number > :after and (digest is null or substr(digest, 1, 1) <> :format)
               order by number limit :limit""",
            format=bytes([FORMAT]),
            after=after,
            limit=limit,
        )
        return [number for (number,) in rows]

    def reword(self, tx: Transaction, rows: Mapping[int, Collection[str]]) -> int:
        """Replace the words of rows. The tail needs none: each search analyses its texts."""
        existing = tx.all(
            f"""select number, user_id from {ITEMS_BY_NUMBER}
                where tenant = :tenant and number <= (select number from search_absorbed)""",
            numbers=json.dumps(list(rows)),
        )
        for number, _ in existing:
            tx.unscoped(DELETE_WORDS, number=number)
        word_rows = [_fts5_row(number, tx.tenant, user, rows[number]) for number, user in existing]
        if word_rows:
            _add_words(tx, word_rows, self._newest(tx))
        tx.unscoped(COUNT_REMOVED, count=len(existing))
        return len(existing)

    def sweep(self, tx: Transaction) -> int:
        """Remove the words of deleted rows."""
        stray = _stray(tx)
        for number in stray:
            tx.unscoped(DELETE_WORDS, number=number)
        tx.unscoped(COUNT_REMOVED, count=len(stray))
        return len(stray)

    # -- reading ---------------------------------------------------------------------------------

    def without_vector(
        self, tx: Transaction, model: str, dimension: int, after: int, limit: int
    ) -> Unembedded:
        """Return which of the next `limit` rows after a number have no vector of a model."""
        # The plus signs exclude the indexes by tenant and by model, which have many more rows.
        rows = tx.all(
            """select number, not exists (
                   select 1 from search_vectors where search_vectors.number = search_items.number
                   and +model = :model and length(vector) = :dimension)
               from search_items where +tenant = :tenant and number > :after
               order by number limit :limit""",
            model=model,
            dimension=dimension,
            after=after,
            limit=limit,
        )
        is_last = len(rows) < limit
        # Rows of other tenants up to the newest one need not be read again.
        top = max(after, self._newest(tx)) if is_last else rows[-1][0]
        return Unembedded([number for number, is_missing in rows if is_missing], top, is_last)

    def snapshot(self, tx: Transaction) -> tuple[int, int]:
        """Return zeros: there is one writer, so rows appear in the order of their numbers."""
        return 0, 0

    def _items(self, tx: Transaction, numbers: Sequence[int]) -> list[Row]:
        return tx.all(
            f"select {COLUMNS} from {ITEMS_BY_NUMBER} where tenant = :tenant",
            numbers=json.dumps(list(numbers)),
        )

    def _items_around(
        self, tx: Transaction, rows: Sequence[Anchor], reach: int, numbers: Sequence[int]
    ) -> list[Row]:
        return tx.all(
            f"""select {COLUMNS} from {ITEMS_AROUND}
                where part = 0 or number in (select value from json_each(:numbers))""",
            spans=_spans(rows, reach),
            numbers=json.dumps(list(numbers)),
        )

    def _candidates_around(
        self, tx: Transaction, rows: Sequence[CandidateRow], reach: int
    ) -> list[Row]:
        return tx.all(
            f"select {CANDIDATE_COLUMNS} from {ITEMS_AROUND} where part = 0",
            spans=_spans(rows, reach),
        )

    def _visible(
        self, tx: Transaction, numbers: Sequence[int], filter: SearchFilter
    ) -> dict[int, CandidateRow]:
        under, beyond = place_range(filter.place)
        rows = tx.all(
            f"""select {CANDIDATE_COLUMNS} from {ITEMS_BY_NUMBER} where tenant = :tenant
                and (user_id is null or user_id = coalesce(:user, user_id))
                and (agent is null or agent = coalesce(:agent, agent))
                and (board is null or :boards is null
                     or board in (select value from json_each(:boards)))
                and (:kinds is null or kind in (select value from json_each(:kinds)))
                and kind not in (select value from json_each(:separate_kinds))
                and (:session is null or {ITEM_SESSION} = :session)
                and at >= coalesce(:since, at) and (:until is null or at < :until)
                and (expires_at is null or expires_at > :now)
                and (:under is null or (place >= :under and place < :beyond))""",
            numbers=json.dumps(numbers),
            user=filter.user,
            agent=filter.agent,
            boards=None if filter.boards is None else json.dumps(filter.boards),
            kinds=None if filter.kinds is None else json.dumps(filter.kinds),
            separate_kinds=json.dumps(filter.separate_kinds),
            session=filter.session,
            since=filter.since,
            until=filter.until,
            under=under,
            beyond=beyond,
        )
        return {row[0]: CandidateRow._make(row) for row in rows}

    # -- words -----------------------------------------------------------------------------------

    def _postings(
        self, tx: Transaction, words: Sequence[str], user: str | None, cap: int | None
    ) -> list[Posting]:
        import numpy as np

        tail = self._tail(tx, user)
        lists = tx.unscoped(
            """select (select group_concat(rowid) from (
                   select rowid from search_words where search_words match queries.value
                   order by rowid desc limit :cap))
               from json_each(:queries) queries order by queries.key""",
            queries=json.dumps([_fts5_query(tx.tenant, word, user) for word in words]),
            cap=-1 if cap is None else cap,
        )
        postings = []
        for word, (joined,) in zip(words, lists, strict=True):
            absorbed: Numbers = np.fromstring(joined or "", np.int64, sep=",")
            waiting = [number for number, terms in tail.items() if word in terms]
            count = len(absorbed) + len(waiting)
            if len(absorbed) == cap:
                count = max(count, self._cached_count(tx, word, user))
            numbers = np.concatenate([np.array(waiting, np.int64), absorbed])
            postings.append(Posting(numbers, count))
        return postings

    def _count_rows(self, tx: Transaction, word: str, user: str | None) -> int:
        waiting = sum(word in terms for terms in self._tail(tx, user).values())
        ((count,),) = tx.unscoped(
            "select count(*) from search_words where search_words match :query",
            query=_fts5_query(tx.tenant, word, user),
        )
        return int(count) + waiting

    def _newest(self, tx: Transaction) -> int:
        ((newest,),) = tx.unscoped(NEWEST_NUMBER)
        return int(newest)

    def _tail(self, tx: Transaction, user: str | None) -> dict[int, set[str]]:
        """Return the index terms of each row of the tail, newest first."""
        # A number alone could be reused after the schema was dropped and created again.
        # The plus keeps the planner from the index by tenant, which would read all of its rows.
        keys = tx.all(
            """select number, id, seq, at, length(text) from search_items
               where number > (select number from search_absorbed) and +tenant = :tenant
               and (user_id is null or user_id = coalesce(:user, user_id)) order by number desc""",
            user=user,
        )
        known = self._tail_words
        new = {key[0]: key for key in keys if key not in known}
        if new:
            known = known.copy()
            for number, item in self.items(tx, list(new)).items():
                known[new[number]] = index_terms(item)
            ((absorbed,),) = tx.unscoped(ABSORBED_NUMBER)
            cached = {key: terms for key, terms in known.items() if key[0] > absorbed}
            fits = sum(map(len, cached.values())) <= MAX_CACHED_WORDS
            self._tail_words = cached if fits else {}
        return {key[0]: known[key] for key in keys}

    # -- vectors ---------------------------------------------------------------------------------

    def _vector_mark(self, tx: Transaction, model: str) -> int:
        """Return the next stamp."""
        rows = tx.unscoped("select seq + 1 from sqlite_sequence where name = 'search_vectors'")
        return int(rows[0][0]) if rows else 0

    def _vector_source(
        self, tx: Transaction, model: str, owner: RowOwner, dimension: int, mark: int
    ) -> StoredVectors:
        import numpy as np

        of_user = OF_USER[owner.kind]

        def since(stamp: int) -> Iterator[VectorBlock]:
            # One row for many vectors: an object for each of 100,000 takes longer than reading
            # them. Scales are integers here, because SQLite formats floats slowly.
            sql = f"""select count(*), group_concat(number),
                    group_concat(cast(scale * {SCALE_FACTOR} as integer)),
                    cast(group_concat(vector, '') as blob), max(stamp)
                from (select number, scale, vector, stamp {VECTORS_OF_MODEL} {of_user}
                    and stamp >= :since order by stamp limit :size)"""
            while True:
                row = tx.one(
                    sql,
                    model=model,
                    user=owner.user,
                    since=stamp,
                    dimension=dimension,
                    size=ROWS_PER_READ,
                )
                if row is None or not row[0]:
                    return
                size, numbers, scales, vectors, last = row
                yield VectorBlock(
                    np.fromstring(numbers, np.int64, sep=","),
                    # Parsed as integers, which takes a fifth of the time.
                    (np.fromstring(scales, np.int64, sep=",") / SCALE_FACTOR).astype(np.float32),
                    np.frombuffer(vectors, np.int8).reshape(size, dimension),
                )
                stamp = last + 1

        return StoredVectors(since, mark, mark - 1, lambda: self._count_vectors(tx, model, owner))

    def _vectors_of(
        self, tx: Transaction, model: str, numbers: Sequence[int], dimension: int
    ) -> list[Row]:
        return tx.all(
            """select number, scale, vector
               from (select value as this from json_each(:numbers))
               cross join search_vectors on number = this
               where tenant = :tenant and model = :model and length(vector) = :dimension""",
            numbers=json.dumps(list(numbers)),
            model=model,
            dimension=dimension,
        )


def _spans(rows: Sequence[Anchor], reach: int) -> str:
    """Return the parameter of ITEMS_AROUND."""
    return json.dumps([(row.kind, row.id, row.seq - reach, row.seq + reach) for row in rows])


def _add_words(tx: Transaction, rows: Sequence[Mapping[str, Any]], newest: int) -> None:
    """Insert rows into FTS5, and merge a number of pages in proportion to their size.

    So each merge is short, and the number of segments stays small.

    newest: the number of the newest row of the index
    """
    if tx.unscoped(AUTOMERGE) != [(0,)]:
        tx.unscoped(DISABLE_AUTOMERGE)
    for row in rows:
        tx.unscoped(INSERT_WORDS, **row)
    words = " ".join(row["words"] for row in rows)
    # Four segments of a level become one of the next, so a page is rewritten once for each level.
    levels = 1 + (newest // TAIL).bit_length() // 2
    # Each distinct word once, and two bytes for each of its rows.
    estimated_bytes = len(" ".join(set(words.split())).encode()) + 2 * words.count(" ")
    tx.unscoped(MERGE_PAGES, pages=1 + levels * estimated_bytes // FTS5_PAGE_BYTES)


def _fts5_row(number: int, tenant: str, user: str | None, words: Collection[str]) -> dict[str, Any]:
    """Return a row for FTS5.

    Each word has a suffix for tenant and user, so that the list of a word's rows is short.
    """
    suffix = f".{short_hash(tenant)}{_owner(user)}"
    return {"number": number, "words": f"{suffix} ".join(words) + suffix}


def _owner(user: str | None) -> str:
    return NOBODY if user is None else short_hash(user)


def _fts5_query(tenant: str, word: str, user: str | None) -> str:
    """Return the FTS5 query for a word, without characters that FTS5 interprets or splits at."""
    term = f"{_NOT_IN_FTS5_WORDS.sub('', word)}.{short_hash(tenant)}"
    if user is None:
        return f'"{term}" *'
    return f'"{term}{_owner(user)}" OR "{term}{NOBODY}"'

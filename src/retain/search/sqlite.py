"""The index on SQLite: words in FTS5, vectors in memory.

One insert into FTS5 at each commit would double what an append costs. So the newest rows wait: they are the tail, which
every search reads and matches by itself, until a write has made it long enough to be absorbed at once. The tail is one for
all tenants, because the numbers are; a search reads its own tenant's rows of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from retain.search.engine import Item, SearchFilter
from retain.search.retrieval import (
    COLUMNS,
    EVERY_ROW,
    IndexReader,
    Posting,
    index_terms,
    item_from_row,
    place_range,
    short_hash,
)
from retain.search.vector_cache import EVERYBODY, NOBODY, Page, Source, Whose, page
from retain.storage.database import Row, Transaction
from retain.storage.tables import Check

if TYPE_CHECKING:
    from retain.search.vector_cache import Numbers

_DIVIDING = re.compile(r"[^a-zA-Z0-9_\x80-\U0010ffff]|[\ud800-\udfff]")
TAIL = 128
"""How many rows are absorbed at once."""
_AT_ONCE = 8192
_MOST_KNOWN = 200_000  # words of the tail that are kept in memory: about 20 MB
_VALUES = """(tenant, kind, id, seq, part, user_id, agent, board, session_id, at, expires_at, role, author, title, text,
           place)
          values (:tenant, :kind, :id, :seq, :part, :user_id, :agent, :board, :session_id, :at, :expires_at, :role, :author,
                  :title, :text, :place)"""
_ADD = f"insert into search_items {_VALUES}"
_ADD_ONE = f"insert into search_items {_VALUES} returning number"
_NEWEST = "select coalesce(max(number), 0), :tenant from search_items"
_ABSORBED = "select number, :tenant from search_absorbed"
_MARK = "update search_absorbed set number = :number where :tenant <> ''"
_WAITING = """select number, tenant, user_id, kind, session_id, author, title, text, at, place from search_items
              where number > :after and number <= :last and :tenant <> '' order by number limit :size"""
_INDEX = "insert into search_words (rowid, words) select :number, :words where :tenant <> ''"
# The plus keeps the planner from the index by tenant, which would read all of a tenant's rows.
_TAIL = """select number, kind, session_id, author, title, text, at, place from search_items
           where number > (select number from search_absorbed) and +tenant = :tenant
           and (user_id is null or user_id = coalesce(:user, user_id)) order by number desc"""
_POSTING = """select group_concat(rowid), :tenant from (
                  select rowid from search_words where search_words match :query order by rowid desc limit :cap)"""
_COUNT = "select count(*), :tenant from search_words where search_words match :query"
_FILTERS = """ and (user_id is null or user_id = coalesce(:user, user_id))
    and (agent is null or agent = coalesce(:agent, agent))
    and (board is null or :boards is null or board in (select value from json_each(:boards)))
    and (:kinds is null or kind in (select value from json_each(:kinds)))
    and (:session is null or session_id = :session) and at >= coalesce(:since, at) and (:until is null or at < :until)
    and (expires_at is null or expires_at > :now) and (:under is null or (place >= :under and place < :beyond))"""
_THESE = "(select value as this from json_each(:numbers)) cross join search_items on number = this"
_VISIBLE = f"select number from {_THESE} where tenant = :tenant {_FILTERS}"
_ITEMS = f"select {COLUMNS} from {_THESE} where tenant = :tenant"
_AUTHORS = f"select distinct author from {_THESE} where tenant = :tenant and author <> ''"
_AROUND = f"""select distinct {COLUMNS} from (select value as span from json_each(:spans)) cross join search_items
    on tenant = :tenant and kind = span ->> 0 and id = span ->> 1 and seq between span ->> 2 and span ->> 3
    where part = 0 and (expires_at is null or expires_at > :now)"""
_REPLACED = """delete from search_vectors
               where tenant = :tenant and number = :number and (model <> :model or length(vector) <> :dimension)"""
_PUT = """insert into search_vectors (tenant, number, user_id, model, scale, vector)
          select tenant, number, user_id, :model, :scale, :vector from search_items
          where tenant = :tenant and number = :number on conflict do nothing"""
_OF_MODEL = (
    "from search_vectors where tenant = :tenant and model = :model and length(vector) = :dimension"
)
_SINCE = f"select number, scale, vector, stamp {_OF_MODEL} and stamp >= :since order by stamp limit :size"
_SINCE_OF = f"select number, scale, vector, stamp {_OF_MODEL} and user_id is :user and stamp >= :since order by stamp limit :size"
_STAMP = "select seq + 1, :tenant from sqlite_sequence where name = 'search_vectors'"
_VECTORS = "select count(*) from search_vectors where tenant = :tenant and model = :model"
_VECTORS_OF = "select count(*) from search_vectors where tenant = :tenant and model = :model and user_id is :user"
_THEIRS = """select number, scale, vector
             from (select value as this from json_each(:numbers)) cross join search_vectors on number = this
             where tenant = :tenant and model = :model and length(vector) = :dimension"""


# What FTS5 has of a row, it has under the row's number in this table of its own.
_WORDLESS = """select kind || ' ' || id || ' ' || seq from search_items where tenant = :tenant
    and number <= (select number from search_absorbed) and number not in (select id from search_words_docsize) limit 200"""
_LOST = _WORDLESS.replace("kind || ' ' || id || ' ' || seq", "number").replace(
    "limit 200", "limit 20000"
)
# Whose words they are, only the words say: every row has the mark that all rows of its tenant have.
_STRAY = """select rowid, :tenant from search_words where search_words match :query
    and not exists (select 1 from search_items where number = search_words.rowid) limit 20000"""
_STILL = f"select number, user_id from {_THESE} where tenant = :tenant and number <= (select number from search_absorbed)"
_UNWORD = "delete from search_words where rowid = :number and :tenant <> ''"
_REMOVED = "update search_absorbed set removed = removed + :count where :tenant <> ''"


def _stray(tx: Transaction) -> list[int]:
    return [number for number, _ in tx.all(_STRAY, query=_query(tx.tenant, EVERY_ROW, None))]


class SqliteEngine(IndexReader):
    """Words and vectors on SQLite."""

    checks = (
        Check(
            "every row of the index has its words (`retain reindex` writes them again)", _WORDLESS
        ),
        Check(
            "there are no words of rows that are gone (`retain reindex` removes them)",
            find=lambda tx: [f"words of row {number}, which is gone" for number in _stray(tx)],
        ),
    )

    def __init__(self, vector_mib: int = 512) -> None:
        super().__init__(vector_mib)
        self._known: dict[tuple[int, int, int], set[str]] = {}

    # -- writing -----------------------------------------------------------------------------------------------

    def add(self, tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows; the one that makes the tail long enough has it absorbed."""
        if len(rows) == 1:
            (last,) = tx.one(_ADD_ONE, **rows[0]) or (0,)
        else:
            tx.many(_ADD, rows)
            last, _ = tx.one(_NEWEST) or (0, "")
        if last // TAIL != (last - len(rows)) // TAIL:
            self._absorb(tx, last)

    def _absorb(self, tx: Transaction, last: int) -> None:
        after, _ = tx.one(_ABSORBED) or (0, "")
        while rows := tx.all(_WAITING, after=after, last=last, size=_AT_ONCE):
            tx.many(
                _INDEX,
                [
                    _line(number, tenant, user, index_terms(*said))
                    for number, tenant, user, *said in rows
                ],
            )
            after = rows[-1][0]
        tx.run(_MARK, number=last)

    def lost(self, tx: Transaction) -> list[int]:
        """Rows that FTS5 should have and does not."""
        return [number for (number,) in tx.all(_LOST)]

    def reword(self, tx: Transaction, rows: Mapping[int, Collection[str]]) -> int:
        """Write the words of rows anew; those of the tail are read from their text at each search."""
        still = tx.all(_STILL, numbers=json.dumps(list(rows)))
        tx.many(_UNWORD, [{"number": number} for number, _ in still])
        tx.many(_INDEX, [_line(number, tx.tenant, user, rows[number]) for number, user in still])
        tx.run(_REMOVED, count=len(still))
        return len(still)

    def sweep(self, tx: Transaction) -> int:
        """Remove words of rows that are gone."""
        stray = _stray(tx)
        tx.many(_UNWORD, [{"number": number} for number in stray])
        tx.run(_REMOVED, count=len(stray))
        return len(stray)

    def put(self, tx: Transaction, model: str, vectors: Sequence[tuple[int, float, bytes]]) -> None:
        """Keep the vectors of rows that are still there, in place of another model's, or of another length."""
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
        tx.many(_REPLACED, rows)
        tx.many(_PUT, rows)

    # -- reading -----------------------------------------------------------------------------------------------

    def items(self, tx: Transaction, numbers: Sequence[int]) -> dict[int, Item]:
        """The rows by their numbers."""
        return {
            row[0]: item_from_row(row) for row in tx.all(_ITEMS, numbers=json.dumps(list(numbers)))
        }

    def authors(self, tx: Transaction, numbers: Sequence[int]) -> set[str]:
        """Who said what is in the rows."""
        return {author for (author,) in tx.all(_AUTHORS, numbers=json.dumps(list(numbers)))}

    def around(self, tx: Transaction, items: Sequence[Item], reach: int) -> list[Item]:
        """The neighbours of rows."""
        spans = [(row.kind, row.id, row.seq - reach, row.seq + reach) for row in items]
        known = {row.number for row in items}
        return [
            item_from_row(row)
            for row in tx.all(_AROUND, spans=json.dumps(spans))
            if row[0] not in known
        ]

    def _visible(self, tx: Transaction, numbers: Sequence[int], asked: SearchFilter) -> set[int]:
        under, beyond = place_range(asked.place)
        found = tx.all(
            _VISIBLE,
            numbers=json.dumps(numbers),
            user=asked.user,
            agent=asked.agent,
            boards=None if asked.boards is None else json.dumps(asked.boards),
            kinds=None if asked.kinds is None else json.dumps(asked.kinds),
            session=asked.session,
            since=asked.since,
            until=asked.until,
            under=under,
            beyond=beyond,
        )
        return {number for (number,) in found}

    # -- words -------------------------------------------------------------------------------------------------

    def _postings(
        self, tx: Transaction, words: Sequence[str], user: str | None, cap: int | None
    ) -> list[Posting]:
        import numpy as np

        tail = self._tail(tx, user)
        found = []
        for word in words:
            listed, _ = tx.one(
                _POSTING, query=_query(tx.tenant, word, user), cap=-1 if cap is None else cap
            ) or ("", "")
            numbers: Numbers = np.fromstring(listed or "", np.int64, sep=",")
            late = [number for number, its in tail.items() if word in its]
            having = len(numbers) + len(late)
            if len(numbers) == cap:
                having = max(having, self._count(tx, word, user))
            found.append(Posting(np.concatenate([np.array(late, np.int64), numbers]), having))
        return found

    def _counted(self, tx: Transaction, word: str, user: str | None) -> int:
        late = sum(word in its for its in self._tail(tx, user).values())
        count, _ = tx.one(_COUNT, query=_query(tx.tenant, word, user)) or (0, "")
        return int(count) + late

    def _newest(self, tx: Transaction) -> int:
        newest, _ = tx.one(_NEWEST) or (0, "")
        return int(newest)

    def _tail(self, tx: Transaction, user: str | None) -> dict[int, set[str]]:
        """What each row of the tail is found by, the newest first."""
        tail, new = {}, {}
        for number, kind, session, author, title, text, at, place in tx.all(_TAIL, user=user):
            which = (
                number,
                at,
                len(text),
            )  # a number alone could come back, after a schema went down and up
            words = self._known.get(which)
            if words is None:
                words = new[which] = index_terms(kind, session, author, title, text, at, place)
            tail[number] = words
        if new:
            absorbed, _ = tx.one(_ABSORBED) or (0, "")
            kept = {
                which: words for which, words in (self._known | new).items() if which[0] > absorbed
            }
            self._known = kept if sum(map(len, kept.values())) <= _MOST_KNOWN else {}
        return tail

    # -- vectors -----------------------------------------------------------------------------------------------

    def _source(self, tx: Transaction, model: str, whose: Whose, dimension: int) -> Source:
        def since(mark: int) -> Iterator[Page]:
            sql = _SINCE if whose.owner == EVERYBODY else _SINCE_OF
            while rows := tx.all(
                sql, model=model, user=whose.user, since=mark, dimension=dimension, size=_AT_ONCE
            ):
                yield page([row[:3] for row in rows])
                mark = rows[-1][3] + 1

        def count() -> int:
            sql = _VECTORS if whose.owner == EVERYBODY else _VECTORS_OF
            return int((tx.one(sql, model=model, user=whose.user) or (0,))[0])

        return Source(since, int((tx.one(_STAMP) or (0,))[0]), count)

    def _vectors_of(
        self, tx: Transaction, model: str, numbers: Sequence[int], dimension: int
    ) -> list[Row]:
        return tx.all(_THEIRS, numbers=json.dumps(list(numbers)), model=model, dimension=dimension)


def _line(number: int, tenant: str, user: str | None, words: Collection[str]) -> dict[str, Any]:
    """What FTS5 is given of a row: each word with a suffix for its tenant and its user, so that postings are short."""
    suffix = f".{short_hash(tenant)}{_owner(user)}"
    return {"number": number, "words": " ".join([word + suffix for word in words])}


def _owner(user: str | None) -> str:
    return NOBODY if user is None else short_hash(user)


def _query(tenant: str, word: str, user: str | None) -> str:
    """A word as FTS5 is asked for it, with nothing in it that could mean something to FTS5 or divide it."""
    whole = f"{_DIVIDING.sub('', word)}.{short_hash(tenant)}"
    if user is None:
        return f'"{whole}" *'
    return f'"{whole}{_owner(user)}" OR "{whole}{NOBODY}"'

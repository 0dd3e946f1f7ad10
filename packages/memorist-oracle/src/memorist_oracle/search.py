"""The index on Oracle: a table of words and their rows, by hashes, in portable SQL.

Oracle Text is not used: it needs privileges of its own, and finds rows only some time after their
commit. A list of values is a fixed number of parameters, filled up with its last value, so that
there are few different statements.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from memorist.base import clock
from memorist.search.candidates import FORMAT, NO_OWNER, digest, owner_hash, word_hash
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
from memorist.search.vector_cache import RowOwner, StoredVectors, VectorBlock, page
from memorist.storage.database import Row, Transaction
from memorist.storage.tables import Check

if TYPE_CHECKING:
    from memorist.search.vector_cache import Numbers

T = TypeVar("T")
ROWS_PER_READ = 1000
LONGEST_TRANSACTION = 15 * clock.MINUTE
"""A row of a transaction that takes longer may get its vector only from `memorist reindex`."""
SPAN_LETTERS = "abcdefghijklmnopqrst"
NUMBER_NAMES = ["n" + first + second for first in "abcdefghij" for second in SPAN_LETTERS]
NUMBER_LIST = ", ".join([":" + name for name in NUMBER_NAMES])
SPAN_LIST = " or ".join(
    [
        "(kind = :kind_X and id = :id_X and seq between :low_X and :high_X)".replace("X", letter)
        for letter in SPAN_LETTERS
    ]
)
INSERT_ITEM = """insert into search_items (tenant, kind, id, seq, part, user_id, agent, board,
        session_id, at, expires_at, role, author, title, text, place, digest)
    values (:tenant, :kind, :id, :seq, :part, :user_id, :agent, :board, :session_id, :at,
        :expires_at, :role, :author, :title, :text, :place, :digest)
    returning number"""
INSERT_WORD = """insert into search_words (tenant, owner, word, number)
    values (:tenant, :owner, :word, :number) on conflict do nothing"""
WITHOUT_WORDS = """from search_items where tenant = :tenant and not exists (
        select 1 from search_words
        where search_words.tenant = :tenant and search_words.number = search_items.number)"""
OF_OWNERS = {
    True: "and owner in (:nobody, :owner)",
    False: "",
}


class OracleIndex(IndexReader):
    """Words and vectors on Oracle."""

    checks = (
        Check(
            "every row of the index has its words (`memorist reindex` restores them)",
            f"select kind || ' ' || id || ' ' || cast(seq as {{text}}) {WITHOUT_WORDS} limit 200",
        ),
    )

    # -- writing ---------------------------------------------------------------------------------

    def add(self, tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert rows, their words and their digests."""
        words: list[dict[str, Any]] = []
        for row in rows:
            analysed = digest(row["author"], row["title"], row["text"], row["at"])
            (number,) = tx.one(INSERT_ITEM, **row, digest=analysed.pack()) or (0,)
            names = marks(row["kind"], row["session_id"], row["place"])
            words += _word_rows(number, row["user_id"], [*analysed.words, *names])
        tx.many(INSERT_WORD, words)

    def lost(self, tx: Transaction) -> list[int]:
        """Return rows without words."""
        return [number for (number,) in tx.all(f"select number {WITHOUT_WORDS} limit 20000")]

    def without_digest(self, tx: Transaction, after: int, limit: int) -> list[int]:
        """Return the numbers of the next rows after a number that have no digest."""
        missing: list[int] = []
        while len(missing) < limit:
            rows = tx.all(
                """select number, digest from search_items
                   where tenant = :tenant and number > :after order by number limit :size""",
                after=after,
                size=ROWS_PER_READ,
            )
            missing += [number for number, stored in rows if not stored or stored[0] != FORMAT]
            if len(rows) < ROWS_PER_READ:
                break
            after = rows[-1][0]
        return missing[:limit]

    def reword(self, tx: Transaction, rows: Mapping[int, Collection[str]]) -> int:
        """Replace the words of rows, which are locked against removal meanwhile."""
        locked: list[Row] = []
        for numbers in _batches(sorted(rows), len(NUMBER_NAMES)):
            locked += tx.all(
                f"""select number, user_id from search_items
                    where tenant = :tenant and number in ({NUMBER_LIST}) for update""",
                **_numbers(numbers),
            )
        tx.many(
            "delete from search_words where tenant = :tenant and number = :number",
            [{"number": number} for number, _ in locked],
        )
        words: list[dict[str, Any]] = []
        for number, user in locked:
            words += _word_rows(number, user, rows[number])
        tx.many(INSERT_WORD, words)
        return len(locked)

    def sweep(self, tx: Transaction) -> int:
        """Do nothing: words are removed with their rows."""
        return 0

    def put(self, tx: Transaction, model: str, vectors: Sequence[tuple[int, float, bytes]]) -> None:
        """Store vectors of rows that still exist; replace those of another model or length."""
        tx.lock("search vectors")  # so that stamps are committed in their order
        super().put(tx, model, vectors)

    # -- reading ---------------------------------------------------------------------------------

    def snapshot(self, tx: Transaction) -> tuple[int, int]:
        """Return times: transactions that began before the first one have probably ended."""
        return tx.now - LONGEST_TRANSACTION, tx.now

    def _items(self, tx: Transaction, numbers: Sequence[int]) -> list[Row]:
        rows: list[Row] = []
        for batch in _batches(numbers, len(NUMBER_NAMES)):
            rows += tx.all(
                f"""select {COLUMNS} from search_items
                    where tenant = :tenant and number in ({NUMBER_LIST})""",
                **_numbers(batch),
            )
        return rows

    def _items_around(
        self, tx: Transaction, rows: Sequence[Anchor], reach: int, numbers: Sequence[int]
    ) -> list[Row]:
        around: list[Row] = []
        for batch in _batches(rows, len(SPAN_LETTERS)):
            around += tx.all(
                f"""select {COLUMNS} from search_items where tenant = :tenant
                    and ({SPAN_LIST}) and (expires_at is null or expires_at > :now)""",
                **_spans(batch, reach),
            )
        wanted = set(numbers)
        return [row for row in around if row[4] == 0 or row[0] in wanted]

    def _candidates_around(
        self, tx: Transaction, rows: Sequence[CandidateRow], reach: int
    ) -> list[Row]:
        around: list[Row] = []
        for batch in _batches(rows, len(SPAN_LETTERS)):
            around += tx.all(
                f"""select {CANDIDATE_COLUMNS} from search_items where tenant = :tenant
                    and ({SPAN_LIST}) and part = 0 and (expires_at is null or expires_at > :now)""",
                **_spans(batch, reach),
            )
        return around

    def _visible(
        self, tx: Transaction, numbers: Sequence[int], filter: SearchFilter
    ) -> dict[int, CandidateRow]:
        under, beyond = place_range(filter.place)
        rows: list[Row] = []
        for batch in _batches(numbers, len(NUMBER_NAMES)):
            rows += tx.all(
                f"""select {CANDIDATE_COLUMNS} from search_items
                    where tenant = :tenant and number in ({NUMBER_LIST})
                    and (user_id is null or user_id = coalesce(:user, user_id))
                    and (agent is null or agent = coalesce(:agent, agent))
                    and (:session is null or session_id = :session)
                    and at >= coalesce(:since, at) and at < coalesce(:until, at + 1)
                    and (expires_at is null or expires_at > :now)
                    and (:under is null or (place >= :under and place < :beyond))""",
                **_numbers(batch),
                user=filter.user,
                agent=filter.agent,
                session=filter.session,
                since=filter.since,
                until=filter.until,
                under=under,
                beyond=beyond,
            )
        candidates = [CandidateRow._make(row) for row in rows]
        return {row.number: row for row in candidates if _passes(row, filter)}

    # -- words -----------------------------------------------------------------------------------

    def _postings(
        self, tx: Transaction, words: Sequence[str], user: str | None, cap: int | None
    ) -> list[Posting]:
        import numpy as np

        of_owners = OF_OWNERS[user is not None]
        sql = f"""select number from search_words
                  where tenant = :tenant and word = :word {of_owners} order by number desc"""
        if cap is not None:
            sql = f"""select number from search_words
                      where tenant = :tenant and word = :word {of_owners}
                      order by number desc limit :cap"""
        postings = []
        for word in words:
            rows = tx.all(
                sql, word=word_hash(word), nobody=NO_OWNER, owner=owner_hash(user), cap=cap
            )
            numbers: Numbers = np.array([number for (number,) in rows], np.int64)
            count = self._cached_count(tx, word, user) if len(rows) == cap else len(rows)
            postings.append(Posting(numbers, max(count, len(rows))))
        return postings

    def _count_rows(self, tx: Transaction, word: str, user: str | None) -> int:
        of_owners = OF_OWNERS[user is not None]
        row = tx.one(
            f"""select count(*) from search_words
                where tenant = :tenant and word = :word {of_owners}""",
            word=word_hash(word),
            nobody=NO_OWNER,
            owner=owner_hash(user),
        )
        return int((row or (0,))[0])

    # -- vectors ---------------------------------------------------------------------------------

    def _vector_mark(self, tx: Transaction, model: str) -> int:
        """Return a stamp above all in the table, and not above that of a later vector."""
        row = tx.one(
            "select coalesce(max(stamp), 0) + 1 from search_vectors where tenant = :tenant"
        )
        return int((row or (1,))[0])

    def _vector_source(
        self, tx: Transaction, model: str, owner: RowOwner, dimension: int, mark: int
    ) -> StoredVectors:
        of_user = OF_USER[owner.kind]

        def since(stamp: int) -> Iterator[VectorBlock]:
            sql = f"""select number, scale, vector, stamp from search_vectors
                where tenant = :tenant and model = :model {of_user}
                and length(vector) = :dimension
                and stamp >= :since order by stamp limit :size"""
            while True:
                rows = tx.all(
                    sql,
                    model=model,
                    user=owner.user,
                    dimension=dimension,
                    since=stamp,
                    size=ROWS_PER_READ,
                )
                if not rows:
                    return
                yield page(rows)
                stamp = rows[-1][3] + 1

        return StoredVectors(since, mark, mark - 1, lambda: self._count_vectors(tx, model, owner))

    def _vectors_of(
        self, tx: Transaction, model: str, numbers: Sequence[int], dimension: int
    ) -> list[Row]:
        rows: list[Row] = []
        for batch in _batches(numbers, len(NUMBER_NAMES)):
            rows += tx.all(
                f"""select number, scale, vector from search_vectors
                    where tenant = :tenant and number in ({NUMBER_LIST})
                    and model = :model and length(vector) = :dimension""",
                **_numbers(batch),
                model=model,
                dimension=dimension,
            )
        return rows


def _batches(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]


def _numbers(numbers: Sequence[int]) -> dict[str, int]:
    """Return the parameters of NUMBER_LIST."""
    last = len(numbers) - 1
    return {name: numbers[min(place, last)] for place, name in enumerate(NUMBER_NAMES)}


def _spans(rows: Sequence[Anchor], reach: int) -> dict[str, Any]:
    """Return the parameters of SPAN_LIST."""
    parameters: dict[str, Any] = {}
    for place, letter in enumerate(SPAN_LETTERS):
        row = rows[min(place, len(rows) - 1)]
        parameters[f"kind_{letter}"] = row.kind
        parameters[f"id_{letter}"] = row.id
        parameters[f"low_{letter}"] = row.seq - reach
        parameters[f"high_{letter}"] = row.seq + reach
    return parameters


def _passes(row: CandidateRow, filter: SearchFilter) -> bool:
    """Return whether a row is of a kind and on a board that the filter lets pass."""
    if filter.boards is not None and row.board is not None and row.board not in filter.boards:
        return False
    if filter.kinds is not None and row.kind not in filter.kinds:
        return False
    return row.kind not in filter.separate_kinds


def _word_rows(number: int, user: str | None, words: Collection[str]) -> list[dict[str, Any]]:
    hashes = {word_hash(word) for word in words}
    return [{"owner": owner_hash(user), "word": word, "number": number} for word in sorted(hashes)]

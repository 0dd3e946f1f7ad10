"""The search contract of every engine."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import apsw
import numpy as np
import psycopg
import pytest
from memorist.search.postgres import NEAREST_BY_INDEX, _filter_parameters
from memorist.search.retrieval import EVERY_ROW, IndexReader, short_hash
from memorist.search.search_engine import IndexRow, SearchFilter

from memorist import Memory
from memorist.search.embedders import quantise
from memorist.search.index import Index
from memorist.storage.database import Transaction
from memorist.storage.sqlite import maintenance
from testkit.databases import SERVERS, SETTINGS, new_database
from testkit.embedders import directions

MODEL = "test@1"
ADA = SearchFilter(user="ada")
T = TypeVar("T")


class Rows:
    """Rows of one tenant, written directly to the index."""

    def __init__(self, memory: Memory, tenant: str = "acme") -> None:
        self.database = memory.database
        self.index: Index = memory.scope(tenant=tenant).services.index
        self.engine: IndexReader = self.index.engine
        self.tenant = tenant
        self.made = 0

    def add(self, *texts: str, together: bool = True, **named: Any) -> list[int]:
        items = []
        for text in texts:
            self.made += 1
            values = {
                "kind": "messages",
                "id": "s",
                "seq": self.made,
                "at": 1,
                "text": text,
                "user": "ada",
                **named,
            }
            items.append(IndexRow(**values))
        for some in [items] if together else [[item] for item in items]:
            self.database.write(self.tenant, partial(self.index.add, items=some))
        return self.read(lambda tx: [n for (n,) in tx.all(_NEWEST, size=len(items))][::-1])

    def write(self, work: Callable[[Transaction], object]) -> None:
        self.database.write(self.tenant, work)

    def read(self, work: Callable[[Transaction], T]) -> T:
        return self.database.read(self.tenant, work)

    def matching(self, words: str, asked: SearchFilter = ADA, most: int = 10) -> list[int]:
        return self.read(lambda tx: self.engine.matching(tx, words.split(), asked, most)).numbers

    def frequencies(self, words: str, asked: SearchFilter = ADA) -> list[int]:
        return self.read(
            lambda tx: self.engine.matching(tx, words.split(), asked, 10)
        ).document_frequencies

    def extent(self, asked: SearchFilter = ADA) -> int:
        return self.read(lambda tx: self.engine.extent(tx, asked))

    def put(self, numbers: Sequence[int], vectors: Any, model: str = MODEL) -> None:
        created = [
            (n, scale, small) for n, (scale, small) in zip(numbers, quantise(vectors), strict=True)
        ]
        self.write(lambda tx: self.engine.put(tx, model, created))

    def nearest(
        self, vector: Any, asked: SearchFilter = ADA, most: int = 10, model: str = MODEL
    ) -> list[int]:
        return [
            row.number
            for row, _ in self.read(lambda tx: self.engine.nearest(tx, vector, model, asked, most))
        ]

    def findings(self, memory: Memory) -> set[str]:
        """Return the problems that `verify` finds, except for missing source objects."""
        results = {finding.check for finding in memory.verify() if not finding.ok}
        return results & {check.what for check in self.engine.checks}

    def remove(self, numbers: Sequence[int]) -> None:
        self.write(lambda tx: tx.many(_REMOVE, [{"number": n} for n in numbers]))


_NEWEST = "select number from search_items where tenant = :tenant order by number desc limit :size"
_REMOVE = "delete from search_items where tenant = :tenant and number = :number"


def name(n: int) -> str:
    """Return a word that is indexed unchanged."""
    return "z" + "".join("bcdfghjklm"[int(digit)] for digit in str(n)) + "o"


@pytest.fixture
def rows(memory: Memory) -> Rows:
    return Rows(memory)


class TestWords:
    """Keyword search."""

    def test_a_row_is_found_at_once(self, rows: Rows) -> None:
        (number,) = rows.add("the blue zebra")
        assert rows.matching("zebra") == [number]
        assert rows.matching("green") == []
        assert rows.matching("") == []

    def test_rare_words_weigh_more(self, rows: Rows) -> None:
        common = rows.add(*["train ticket"] * 30)
        (rare,) = rows.add("train zanzibar")
        both = rows.add("ticket zanzibar", "nothing")[0]
        assert rows.matching("train ticket zanzibar", most=2) == [both, rare]
        assert rows.matching("ticket zanzibar", most=3) == [both, rare, common[-1]]
        assert rows.frequencies("train ticket zanzibar absent") == [31, 31, 2, 0]
        assert rows.extent() == 33

    def test_results_do_not_depend_on_how_rows_were_written(self, rows: Rows) -> None:
        """Alone, together, in the tail or merged."""
        texts = [f"a{name(n % 7)} x{name(n)}" for n in range(300)]
        numbers = (
            rows.add(*texts[:100], together=False)
            + rows.add(*texts[100:290])
            + rows.add(*texts[290:], together=False)
        )
        assert rows.matching("a" + name(3), most=1000) == numbers[3::7][::-1]
        assert rows.frequencies(f"a{name(3)} x{name(299)} x{name(0)} x{name(128)}") == [43, 1, 1, 1]
        for place in (0, 99, 100, 127, 128, 289, 290, 299):
            assert rows.matching("x" + name(place)) == [numbers[place]]

    def test_removed_rows_are_not_found(self, rows: Rows) -> None:
        """P13: neither from the tail nor from merged rows."""
        numbers = rows.add(*[f"same {name(n)}" for n in range(200)], together=False)
        rows.remove([numbers[3], numbers[150], numbers[199]])
        left = [
            number for number in numbers if number not in (numbers[3], numbers[150], numbers[199])
        ]
        assert rows.matching("same", most=1000) == left[::-1]
        assert [rows.matching(name(n)) for n in (3, 150, 199)] == [[], [], []]
        assert rows.frequencies("same") == [197]
        rows.add(*[f"same {name(n)}" for n in range(200, 400)])
        assert len(rows.matching("same", most=1000)) == 397
        assert rows.extent() == 397

    def test_the_row_count_follows_removals(self, rows: Rows) -> None:
        """The highest number does not show them; rows are recounted later."""
        numbers = rows.add(*["same"] * 100)
        assert rows.extent() == 100
        rows.remove(numbers[:90])
        assert rows.extent() == 100
        assert isinstance(rows.engine, IndexReader)
        for key, count in rows.engine._counts.items():
            rows.engine._counts[key] = count._replace(until=0.0)
        assert rows.extent() == 10

    def test_users_see_their_own_and_shared_rows(self, rows: Rows) -> None:
        for size in (1, 200):  # in the tail, and merged
            mine = rows.add(*["public word"] * size, user="ada")
            theirs = rows.add(*["public word"] * size, user="bob")
            public = rows.add(*["public word"] * size, user=None)
        result = rows.matching("public", most=1000)
        assert set(mine) | set(public) < set(result)
        assert not set(theirs) & set(result)
        assert len(result) == 402
        assert rows.frequencies("public") == [402]
        assert rows.extent() == 402
        assert len(rows.matching("public", SearchFilter(), most=1000)) == 603
        assert rows.extent(SearchFilter()) == 603
        assert len(rows.matching("public", SearchFilter(user="nobody"), most=1000)) == 201
        assert (
            rows.matching("publi", SearchFilter(), most=1000) == []
        )  # a prefix of a word is no word

    def test_tenants_are_isolated(self, rows: Rows, memory: Memory) -> None:
        other = Rows(memory, "other")
        mine = rows.add(*["same word"] * 150)
        theirs = other.add(*["same word"] * 150)
        assert rows.matching("same", SearchFilter(), most=1000) == mine[::-1]
        assert other.matching("same", SearchFilter(), most=1000) == theirs[::-1]
        assert rows.frequencies("same") == [150]
        assert rows.extent(SearchFilter()) == other.extent(SearchFilter()) == 150

    def test_filters_apply_before_the_limit(self, rows: Rows) -> None:
        """Nine of ten matching rows are filtered out; the others are found."""
        plain: dict[str, Any] = {"agent": None, "session": "s", "at": 5}
        for wrong in (
            {"agent": "other"},
            {"board": "hidden"},
            {"kind": "notes"},
            {"session": "t"},
            {"at": 4},
            {"at": 9},
            {"expires_at": 7},
        ):
            rows.add(*["lantern word"] * 20, **{**plain, **wrong})
        right = rows.add(*["lantern word"] * 12, **plain)
        for wrong in ({"agent": "other"}, {"kind": "notes"}, {"at": 4}, {"expires_at": 7}):
            rows.add(*["lantern word"] * 20, **{**plain, **wrong})
        result = SearchFilter("ada", "scout", ("shown",), ("messages", "entries"), "s", 5, 9)
        assert rows.matching("lantern word", result, most=10) == right[::-1][:10]
        assert rows.matching("lantern word", result, most=100) == right[::-1]

    def test_expired_rows_take_no_place(self, rows: Rows) -> None:
        """Of 6,000 rows 99 % have expired, also the newest 5,000; the first ten hits are live."""
        live = rows.add(*["lantern straw"] * 60)
        rows.add(*["lantern straw"] * 5940, expires_at=5)
        assert rows.matching("lantern straw") == live[::-1][:10]
        assert rows.frequencies("lantern") == [6000]

    def test_narrow_filters_reach_old_rows(self, rows: Rows) -> None:
        """A kind and a session with few rows, older than thousands of others with the same words."""
        note = rows.add("camel word", kind="notes", id="n", session="old")
        rows.add(*["camel word"] * 4500)
        assert rows.matching("camel", SearchFilter("ada", kinds=("notes",))) == note
        assert rows.matching("camel", SearchFilter("ada", session="old")) == note
        assert rows.matching("camel", SearchFilter("ada", kinds=("notes",), session="s")) == []
        assert rows.frequencies("camel", SearchFilter("ada", kinds=("notes",))) == [4501]

    def test_any_word_is_a_valid_query(self, rows: Rows) -> None:
        """No syntax of FTS5 or SQL."""
        rows.add("plain text")
        for word in (
            '"',
            "'",
            "*",
            "a*",
            "NEAR",
            "AND",
            "(",
            "a:b",
            "-x",
            "^",
            "%",
            "\x00",
            "😀",
            "ß",
            "\ud800",
            "x" * 999,
        ):
            assert (
                rows.read(partial(rows.engine.matching, words=[word], filter=ADA, limit=10)).numbers
                == []
            )


class TestRows:
    """Reading rows and their neighbours."""

    def test_items_round_trip(self, rows: Rows) -> None:
        (number,) = rows.add(
            "text",
            agent="scout",
            board="b",
            session="s",
            author="Ada",
            role="user",
            title="t",
            at=7,
            expires_at=2**60,
        )
        (item,) = rows.read(lambda tx: rows.engine.items(tx, [number, 999])).values()
        assert item == IndexRow(
            "messages",
            "s",
            "text",
            7,
            1,
            0,
            "ada",
            "scout",
            "b",
            "s",
            "Ada",
            "user",
            "t",
            2**60,
            number,
        )
        assert rows.read(lambda tx: rows.engine.items(tx, [])) == {}

    def test_neighbours_belong_to_the_same_object(self, rows: Rows) -> None:
        numbers = rows.add(*"abcdefghij")
        rows.add("other", id="t", seq=5)
        rows.add("expired", id="s", seq=3, part=1, expires_at=5)
        result = rows.read(
            lambda tx: list(rows.engine.items(tx, [numbers[3], numbers[4]]).values())
        )
        around = rows.read(lambda tx: rows.engine.around(tx, result, 2))
        assert sorted(row.text for row in around) == ["b", "c", "f", "g"]
        assert rows.read(lambda tx: rows.engine.around(tx, [], 2)) == []


class TestVectors:
    """Vector search."""

    def test_nearest_returns_the_nearest(self, rows: Rows) -> None:
        numbers = rows.add(*["text"] * 300)
        vectors = directions(300)
        rows.put(numbers, vectors)
        exact = np.argsort(-(vectors @ vectors[17]))[:20]
        result = rows.nearest(vectors[17], most=20)
        assert result[0] == numbers[17]
        assert len(set(result) & {numbers[place] for place in exact}) >= 19
        close = rows.read(lambda tx: rows.engine.nearest(tx, vectors[17], MODEL, ADA, 5))
        assert close[0][1] == pytest.approx(1, abs=0.01)
        assert [score for _, score in close] == sorted((score for _, score in close), reverse=True)
        cosines = rows.read(
            lambda tx: rows.engine.cosines(tx, vectors[17], MODEL, [*numbers[:50], 10**6])
        )
        assert list(cosines) == numbers[:50] or set(cosines) == set(numbers[:50])
        assert [cosines[n] for n in numbers[:50]] == pytest.approx(
            vectors[:50] @ vectors[17], abs=0.02
        )

    def test_nearest_follows_writes_and_removals(self, rows: Rows) -> None:
        numbers, vectors = rows.add(*["text"] * 40), directions(40)
        rows.put(numbers[:10], vectors[:10])
        assert rows.nearest(vectors[3])[0] == numbers[3]
        assert numbers[30] not in rows.nearest(vectors[30], most=100)
        rows.put(numbers[10:], vectors[10:])
        assert rows.nearest(vectors[30])[0] == numbers[30]
        rows.remove([numbers[30]])
        result = rows.nearest(vectors[30], most=100)
        assert len(result) == 39
        assert numbers[30] not in result
        assert (
            rows.read(lambda tx: rows.engine.cosines(tx, vectors[30], MODEL, [numbers[30]])) == {}
        )
        rows.put([numbers[30]], vectors[30:31])  # a removed row keeps no vector
        assert (
            rows.read(lambda tx: rows.engine.cosines(tx, vectors[30], MODEL, [numbers[30]])) == {}
        )

    def test_vectors_of_two_models_are_never_compared(self, rows: Rows) -> None:
        numbers, vectors = rows.add("a", "b"), directions(2)
        longer = directions(2, 96)
        rows.put(numbers, vectors)
        rows.put(numbers[:1], longer[:1], "other@1")
        assert rows.nearest(vectors[0]) == numbers[1:]
        assert rows.nearest(longer[0], model="other@1") == numbers[:1]
        assert rows.read(lambda tx: rows.engine.cosines(tx, vectors[0], MODEL, numbers)).keys() == {
            numbers[1]
        }
        rows.put(numbers, longer, "other@1")
        assert set(rows.nearest(longer[0], model="other@1")) == set(numbers)

    def test_vectors_are_isolated_by_owner(self, rows: Rows, memory: Memory) -> None:
        vectors = directions(3)
        mine, theirs, public = (rows.add("text", user=user)[0] for user in ("ada", "bob", None))
        rows.put([mine, theirs, public], vectors)
        other = Rows(memory, "other")
        foreign = other.add("text")
        other.put(foreign, vectors[:1])
        assert rows.nearest(vectors[1]) in ([mine, public], [public, mine])
        assert rows.nearest(vectors[1], SearchFilter())[0] == theirs
        assert len(rows.nearest(vectors[1], SearchFilter())) == 3
        assert other.nearest(vectors[0], SearchFilter()) == foreign

    def test_filters_apply_first(self, rows: Rows) -> None:
        """The nearest 300 have expired or are of another kind or session; the twelve others
        are found.
        """
        best = directions(1)[0]
        wrong: list[dict[str, Any]] = [
            {"expires_at": 5},
            {"kind": "notes"},
            {"session": "t"},
            {"at": 1},
            {"agent": "other"},
        ]
        plain: dict[str, Any] = {"session": "s", "at": 5}
        for values in wrong:
            numbers = rows.add(*["text"] * 60, **{**plain, **values})
            rows.put(numbers, np.tile(best, (60, 1)))
        right = rows.add(*["text"] * 12, **plain)
        rows.put(right, directions(12, seed=2))
        result = SearchFilter("ada", "scout", None, ("messages",), "s", 5, 9)
        assert set(rows.nearest(best, result, most=12)) == set(right)
        assert len(rows.nearest(best, result, most=3)) == 3


@pytest.mark.parametrize(("share", "batches"), [(1, 1), (20, 2), (2, 3)])
def test_filtered_rows_are_read_in_few_batches(
    rows: Rows, monkeypatch: pytest.MonkeyPatch, share: int, batches: int
) -> None:
    """One row in `share` of the rows belongs to another agent, or all do to the same."""
    numbers = []
    for place in range(400):
        hidden = share > 1 and place % share == 0
        numbers += rows.add("walrus", agent="other" if hidden else "scout")
    hidden_numbers = set(numbers[::share]) if share > 1 else set()
    newest_first = [number for number in reversed(numbers) if number not in hidden_numbers]
    read: list[int] = []
    visible = type(rows.engine)._visible

    def record(self: IndexReader, tx: Transaction, some: Sequence[int], *more: Any) -> Any:
        read.append(len(some))
        return visible(self, tx, some, *more)

    monkeypatch.setattr(type(rows.engine), "_visible", record)
    asked = SearchFilter(user="ada", agent="scout")
    assert rows.matching("walrus", asked, 100) == newest_first[:100]
    assert len(read) <= batches
    assert sum(read) <= 100 * (1 if share == 1 else share / (share - 1)) + 60


@pytest.fixture
def modern(postgres_url: str) -> Iterator[Rows]:
    with Memory.open(postgres_url, settings=SETTINGS) as memory:
        yield Rows(memory)


def create_vector_index(rows: Rows, url: str) -> None:
    """Create the index, as `memorist migrate up` does for a very large number of vectors."""
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(
            "update pg_class set reltuples = 1e6 where oid = 'memorist.search_vectors'::regclass"
        )
    rows.database.refit()


_NEAR_INDEXES = "select count(*) from pg_indexes where indexname like 'search_vectors_near_%'"
_NEAR_COLUMNS = "select count(*) from information_schema.columns where table_name = 'search_vectors' and column_name = 'near'"


def test_a_small_database_has_no_vector_index(modern: Rows, postgres_url: str) -> None:
    """It makes writing a vector much slower; below a million rows a full scan is fast."""
    modern.put(modern.add("text"), directions(1, 256))
    modern.database.refit()
    with psycopg.connect(postgres_url) as owner:
        assert (
            owner.execute(_NEAR_INDEXES).fetchone()
            == owner.execute(_NEAR_COLUMNS).fetchone()
            == (0,)
        )
    create_vector_index(modern, postgres_url)
    with psycopg.connect(postgres_url) as owner:
        assert owner.execute(_NEAR_INDEXES).fetchone() == (7,)
    modern.put(modern.add("text"), directions(1, 256))
    modern.database.refit()
    assert [finding for finding in modern.database.health() if not finding.ok] == []


def test_the_vector_index_finds_nearly_the_same(
    modern: Rows, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With pgvector; filters apply first, and what the index misses is scanned."""
    rows = modern
    vectors = directions(900, 256)
    mine = rows.add(*["text"] * 600) + rows.add(*["text"] * 100, user=None)
    theirs, gone = rows.add(*["text"] * 100, user="bob"), rows.add(*["text"] * 100, expires_at=5)
    rows.put([*mine, *theirs, *gone], vectors)
    exact = [rows.nearest(vector, most=40) for vector in vectors[::90]]
    create_vector_index(rows, postgres_url)
    monkeypatch.setattr(rows.engine, "exact", 0)
    by_index = [rows.nearest(vector, most=40) for vector in vectors[::90]]
    shared = [len(set(first) & set(other)) for first, other in zip(exact, by_index, strict=True)]
    assert sum(shared) > 0.9 * 40 * 10
    assert not {number for item in by_index for number in item} & {*theirs, *gone}
    assert len(rows.nearest(vectors[0], most=700)) == 700
    plan = rows.read(
        lambda tx: tx.all(
            f"explain {NEAREST_BY_INDEX[256]}",
            vector=str(vectors[0].tolist()),
            model=MODEL,
            limit=9,
            **_filter_parameters(ADA),
        )
    )
    assert "search_vectors_near_256" in str(plan)


def test_a_server_that_gets_pgvector_later(
    modern: Rows, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is exact without, and `memorist migrate up` indexes the existing vectors."""
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute("drop extension if exists vector cascade")
    numbers, vectors = modern.add(*["text"] * 300), directions(300, 256)
    modern.put(numbers, vectors)
    monkeypatch.setattr(modern.engine, "exact", 0)
    assert modern.nearest(vectors[7])[0] == numbers[7]
    create_vector_index(modern, postgres_url)
    create_vector_index(modern, postgres_url)
    with psycopg.connect(postgres_url) as owner:
        rows = owner.execute(
            "select count(near), sum(vector_dims(near)) from memorist.search_vectors"
        ).fetchone()
    assert rows == (300, 300 * 256)
    assert modern.nearest(vectors[7])[0] == numbers[7]
    assert [finding for finding in modern.database.health() if not finding.ok] == []


def test_results_match_a_plain_scan(rows: Rows) -> None:
    """The same rows in the same order on every engine."""
    dice = random.Random(7)
    vocabulary = [name(n) for n in range(200)]
    texts = [
        " ".join(dice.choices(vocabulary, [1 / (n + 1) for n in range(200)], k=12))
        for _ in range(700)
    ]
    numbers = rows.add(*texts)
    having = {
        word: [n for n, text in zip(numbers, texts, strict=True) if word in text.split()]
        for word in vocabulary
    }
    for _ in range(30):
        words = list(dict.fromkeys(dice.choices(vocabulary, k=dice.randrange(1, 7))))
        sums: dict[int, float] = {}
        for word in words:
            rarity = math.log1p((700 - len(having[word])) / (len(having[word]) + 0.5))
            for number in having[word]:
                sums[number] = sums.get(number, 0) + rarity
        best = sorted(sums, key=lambda number: (round(sums[number], 9), number), reverse=True)[:20]
        assert rows.matching(" ".join(words), most=20) == best
        assert rows.frequencies(" ".join(words)) == [len(having[word]) for word in words]


def test_words_of_removed_rows_are_not_left_in_the_file(tmp_path: Path) -> None:
    """P13: merged words are removed by the next compaction."""
    with Memory.open(f"sqlite:///{tmp_path}/agent.db", settings=SETTINGS) as memory:
        rows = Rows(memory)
        row = rows.add(*[f"lantern {name(n)}" for n in range(400)])
        gone = rows.add(
            *["zanzibarcanary"] * 200, user="bob"
        )  # an index stores words without their common prefix
        rows.add(*[f"lantern {name(n)}" for n in range(400)])
        memory.database.compact()
        assert b"zibarcanar" in (tmp_path / "agent.db").read_bytes()
        rows.remove(gone)
        assert memory.database.compact()
        files = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
        assert b"zibar" not in files
        assert rows.matching(name(7)) != []
        assert rows.extent() == 800
        assert rows.frequencies("lantern") == [800]
        rows.remove(row)
        assert rows.frequencies("lantern") == [400]


def test_words_are_gone_although_most_pages_begin_with_none(tmp_path: Path) -> None:
    """A frequent word has many pages, and only its first one is in the list of words by page."""
    file = tmp_path / "agent.db"
    with Memory.open(f"sqlite:///{file}", settings=SETTINGS) as memory:
        frequent = " ".join(f"word{n}" for n in range(20))
        insert = "insert into search_words (rowid, words) values (?, ?)"
        with closing(apsw.Connection(str(file))) as connection, connection:
            connection.executemany(insert, [(n, frequent) for n in range(1, 20_001)])
            connection.execute(insert, (20_001, "zanzibarcanary"))
        with closing(apsw.Connection(str(file))) as connection, connection:
            connection.execute("insert into search_words (search_words) values ('optimize')")
            connection.execute("delete from search_words where rowid = 20001")
            connection.execute("update search_absorbed set removed = 1")
        assert memory.database.compact()
        files = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
        assert b"zibarcanar" not in files


def test_two_processes_that_merge_at_once_leave_a_count_of_zero(tmp_path: Path) -> None:
    """Both saw the same removed rows; below zero, the next merge would come too late."""
    file = tmp_path / "agent.db"
    Memory.open(f"sqlite:///{file}", settings=SETTINGS).close()
    with closing(apsw.Connection(str(file))) as connection:
        connection.execute("update search_absorbed set removed = 5")
        for _ in range(2):
            maintenance.forget_removed_rows(connection, 5)
        assert maintenance.removed_rows(connection) == 0


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Rows]:
    """Each PostgreSQL server in turn, before it has statistics."""
    for url in new_database(request.param):
        with Memory.open(url, settings=SETTINGS) as memory:
            yield Rows(memory)


def words_read(rows: Rows, work: Callable[[Transaction], object]) -> int:
    """Return how many words a server reads for some work, possibly with the previous statement's."""

    def measured(tx: Transaction) -> int:
        work(tx)
        (read,) = tx.one(_WORDS_READ) or (0,)
        return int(read)

    return rows.database.write(rows.tenant, measured, long=True)


_WORDS_READ = """select coalesce(idx_tup_fetch, 0) + coalesce(seq_tup_read, 0) from pg_stat_xact_user_tables
                 where relname = 'search_words' and :tenant <> ''"""
_WORDS = "select count(*) from search_words where tenant = :tenant"
_REMOVE_ALL = "delete from search_items where tenant = :tenant and id = :id"


def test_removing_rows_reads_only_their_words(server: Rows) -> None:
    """P13: without statistics, too."""
    for id in "abc":
        server.add(*[f"lantern {name(n)}" for n in range(500)], id=id)
    ((words,),) = server.read(lambda tx: tx.all(_WORDS))
    assert words_read(server, lambda tx: tx.run(_REMOVE_ALL, id="a")) < 10 * words
    assert words_read(server, lambda tx: tx.run(_REMOVE_ALL, id="b")) < 10 * words
    assert server.read(lambda tx: tx.all(_WORDS)) == [(words // 3,)]


def test_words_are_verified_in_one_pass(server: Rows) -> None:
    """Also on a server without statistics."""
    server.add(*[f"lantern {name(n)}" for n in range(1000)])
    ((words,),) = server.read(lambda tx: tx.all(_WORDS))
    wordless, stray = (check.sql for check in server.engine.checks)
    assert words_read(server, lambda tx: tx.all(wordless)) < 10 * words
    assert words_read(server, lambda tx: tx.all(stray)) < 10 * words


def test_verify_finds_damage_of_words(rows: Rows, memory: Memory, engine: str) -> None:
    """Words without a row, and a row without its words."""
    numbers = rows.add(*["lantern word"] * 300)
    assert rows.findings(memory) == set()
    rows.remove(numbers[:2])
    assert rows.findings(memory) == set()
    if engine == "sqlite":
        rows.write(
            lambda tx: tx.run(
                "delete from search_words where rowid = :n and :tenant <> ''", n=numbers[7]
            )
        )
        mark = f"{EVERY_ROW}.{short_hash(rows.tenant)}"  # only the words say whose they are
        rows.write(
            lambda tx: tx.run(
                "insert into search_words (rowid, words) select 9999, :mark where :tenant <> ''",
                mark=mark,
            )
        )
    else:
        rows.write(
            lambda tx: tx.run(
                "delete from search_words where tenant = :tenant and number = :n", n=numbers[7]
            )
        )
        rows.write(
            lambda tx: tx.run(
                "insert into search_words (tenant, owner, word, number) values (:tenant, 1, 1, 9999)"
            )
        )
    wrong = {
        "every row of the index has its words (`memorist reindex` restores them)",
        "no words belong to removed rows (`memorist reindex` removes them)",
    }
    assert rows.findings(memory) & wrong == wrong

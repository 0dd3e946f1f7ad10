"""The contract of every engine: the Database protocol, one class of tests run on each engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from memorist import Memory
from memorist.base import clock
from memorist.base.errors import (
    Busy,
    Conflict,
    Invalid,
    MemoristError,
    NotFound,
    ReadOnly,
    StorageError,
    Unreachable,
)
from memorist.storage.database import Database, Step, Transaction, UnscopedSql

TIMEOUT_SECONDS = 30
COUNT = "select count(*) from agents where tenant = :tenant"
NAMES = "select name from agents where tenant = :tenant order by name"
INSERT = """insert into agents (tenant, name, prompt, model, tools, color, icon, version, created_at, updated_at,
                                checksum)
            values (:tenant, :name, '', '', '[]', '', '', 1, :now, :now, 0)"""


def add(name: str) -> Callable[[Transaction], int]:
    """Return a transaction function that adds a row with this name."""
    return lambda tx: tx.run(INSERT, name=name)


def names(database: Database, tenant: str = "acme") -> list[str]:
    """Return the names of all rows."""
    return [name for (name,) in database.read(tenant, lambda tx: tx.all(NAMES))]


class TestDatabase:
    """The contract; `database` is an empty, migrated database of each engine."""

    @pytest.fixture
    def database(self, open_memory: Callable[..., Memory]) -> Database:
        return open_memory(wait_seconds=1.0).database

    # -- reading and writing -----------------------------------------------------------------------------------

    def test_a_write_can_be_read(self, database: Database) -> None:
        assert database.write("acme", add("a")) == 1
        assert names(database) == ["a"]

    def test_a_read_sees_one_snapshot(self, database: Database) -> None:
        """Commits during a read are invisible to it; the next read sees them."""
        database.write("acme", add("a"))

        def work(tx: Transaction) -> list[int]:
            seen = []
            for n in range(3):
                seen.append((tx.one(COUNT) or (0,))[0])
                with ThreadPoolExecutor(1) as pool:
                    pool.submit(database.write, "acme", add(f"meanwhile {n}")).result(
                        TIMEOUT_SECONDS
                    )
            return seen

        assert database.read("acme", work) == [1, 1, 1]
        assert len(names(database)) == 4

    def test_a_write_is_invisible_to_others_before_its_commit(self, database: Database) -> None:
        seen = []

        def work(tx: Transaction) -> int:
            tx.run(INSERT, name="a")
            with ThreadPoolExecutor(1) as pool:
                seen.append(pool.submit(names, database).result(TIMEOUT_SECONDS))
            return int((tx.one(COUNT) or (0,))[0])

        assert database.write("acme", work) == 1
        assert seen == [[]]
        assert names(database) == ["a"]

    @pytest.mark.parametrize(
        "blow",
        [
            ValueError("mine"),
            Invalid(field="f", problem="p"),
            NotFound(what="w", id="i"),
            Conflict(problem="c"),
        ],
    )
    def test_an_exception_rolls_back_and_is_raised_unchanged(
        self, database: Database, blow: Exception
    ) -> None:
        """P3: the next write works."""

        def work(tx: Transaction) -> None:
            tx.run(INSERT, name="half")
            tx.many(INSERT, [{"name": "more"}, {"name": "and more"}])
            raise blow

        with pytest.raises(type(blow)) as caught:
            database.write("acme", work)
        assert caught.value is blow
        assert names(database) == []
        assert database.tenants() == []
        database.write("acme", add("after"))
        assert names(database) == ["after"]

    @pytest.mark.parametrize("blow", [KeyboardInterrupt, SystemExit])
    def test_an_interruption_rolls_back_and_leaves_the_database_usable(
        self, database: Database, blow: type[BaseException]
    ) -> None:
        def work(tx: Transaction) -> None:
            tx.run(INSERT, name="half")
            raise blow

        def reading(tx: Transaction) -> None:
            tx.all(NAMES)
            raise blow

        for _ in range(12):  # more often than there are connections
            with pytest.raises(blow):
                database.write("acme", work)
            with pytest.raises(blow):
                database.read("acme", reading)
        database.write("acme", add("after"))
        assert names(database) == ["after"]

    def test_a_caught_error_does_not_commit_partial_work(self, database: Database) -> None:
        """After a failed statement the transaction fails, or the statement had no effect: never in
        between.
        """

        def work(tx: Transaction) -> None:
            tx.run(INSERT, name="a")
            try:
                tx.run(INSERT, name="a")
            except Exception:
                tx.run(INSERT, name="b")

        try:
            database.write("acme", work)
        except MemoristError:
            assert names(database) == []
        else:
            assert names(database) == ["a", "b"]

    def test_a_failing_job_does_not_affect_others_of_its_batch(self, database: Database) -> None:
        """While a first write is blocked, others queue behind it; every third fails."""
        started, go_on = threading.Event(), threading.Event()

        def first(tx: Transaction) -> int:
            started.set()
            assert go_on.wait(TIMEOUT_SECONDS)
            return tx.run(INSERT, name="first")

        def job(n: int) -> str:
            def work(tx: Transaction) -> str:
                tx.run(INSERT, name=f"{n:02}")
                if n % 3 == 0:
                    raise ValueError(f"job {n}")
                if n % 3 == 1:
                    tx.run(INSERT, name=f"{n:02} more")
                return f"result {n}"

            return database.write(f"tenant {n % 2}", work)

        with ThreadPoolExecutor(25) as pool:
            leading = pool.submit(database.write, "acme", first)
            assert started.wait(TIMEOUT_SECONDS)
            jobs = [pool.submit(job, n) for n in range(24)]
            time.sleep(0.1)  # let them queue; an engine with many writers need not
            go_on.set()
            assert leading.result(TIMEOUT_SECONDS) == 1
            for n, future in enumerate(jobs):
                if n % 3 == 0:
                    assert isinstance(future.exception(TIMEOUT_SECONDS), ValueError)
                    assert str(future.exception()) == f"job {n}"
                else:
                    assert future.result(TIMEOUT_SECONDS) == f"result {n}"
        for tenant in (0, 1):
            kept = [n for n in range(24) if n % 2 == tenant and n % 3]
            expected = sorted(
                [f"{n:02}" for n in kept] + [f"{n:02} more" for n in kept if n % 3 == 1]
            )
            assert names(database, f"tenant {tenant}") == expected
        assert database.tenants() == ["acme", "tenant 0", "tenant 1"]

    def test_results_return_to_the_calling_thread(self, database: Database) -> None:
        def ask(n: int) -> list[tuple[int, str]]:
            def work(tx: Transaction) -> tuple[int, str]:
                tx.run(INSERT, name=f"{n} {threading.get_ident()} {time.monotonic_ns()}")
                return n, tx.tenant

            return [database.write(f"t{n}", work) for _ in range(5)]

        with ThreadPoolExecutor(16) as pool:
            for n, results in enumerate(pool.map(ask, range(16), timeout=TIMEOUT_SECONDS)):
                assert results == [(n, f"t{n}")] * 5

    def test_a_read_cannot_write(self, database: Database) -> None:
        with pytest.raises(ReadOnly):
            database.read("acme", add("a"))
        assert names(database) == []

    # -- statements --------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        "call",
        [
            lambda tx: tx.all("select name from agents"),
            lambda tx: tx.one("select name from agents where tenant = 'acme'"),
            lambda tx: tx.run("delete from agents"),
            lambda tx: tx.many("delete from agents where name = :name", [{"name": "a"}]),
            lambda tx: list(tx.each("select * from agents")),
        ],
    )
    def test_a_statement_without_a_tenant_is_rejected(
        self, database: Database, call: Callable[[Transaction], Any]
    ) -> None:
        database.write("acme", add("a"))
        with pytest.raises(UnscopedSql):
            database.write("acme", call)
        with pytest.raises(UnscopedSql):
            database.read("acme", call)
        assert names(database) == ["a"]

    def test_tenant_and_now_cannot_be_overridden(self, database: Database) -> None:
        """A caller that passes values by these names cannot change the tenant."""

        def work(tx: Transaction) -> list[Any]:
            stolen = {"tenant": "other", "now": -1, "name": "a"}
            tx.run(INSERT, **stolen)
            tx.many(INSERT, [{**stolen, "name": "b"}])
            rows = [tx.all(NAMES, tenant="other"), [tx.one(COUNT, tenant="other")]]
            return [
                *rows,
                [row["name"] for row in tx.each(NAMES, tenant="other")],
                tx.one("select :now, :tenant", now=-1),
            ]

        all_of, one, each, (now, tenant) = database.write("acme", work)
        assert (all_of, one, each) == ([("a",), ("b",)], [(2,)], ["a", "b"])
        assert tenant == "acme"
        assert now > 0
        assert database.tenants() == ["acme"]

    def test_values_are_bound(self, database: Database) -> None:
        hostile = [
            "'; drop table agents; --", ":tenant", "%s %(name)s %", "{key}", "$1", "\\", '"',
            "x' or '1'='1",
        ]  # fmt: skip
        for name in hostile:
            database.write("acme", add(name))
        assert names(database) == sorted(hostile)

    def test_run_counts_and_one_returns_none(self, database: Database) -> None:
        def work(tx: Transaction) -> list[Any]:
            tx.many(INSERT, [{"name": name} for name in "abc"])
            tx.many(INSERT, [])
            return [
                tx.run(
                    "update agents set color = 'red' where tenant = :tenant and name > :name",
                    name="a",
                ),
                tx.run(
                    "update agents set color = 'red' where tenant = :tenant and name = :name",
                    name="nobody",
                ),
                tx.run(INSERT + " on conflict do nothing", name="a"),
                tx.run(INSERT + " on conflict do nothing", name="d"),
                tx.one(
                    "select name from agents where tenant = :tenant and name = :name", name="nobody"
                ),
                tx.one(
                    "delete from agents where tenant = :tenant and name = :name returning name",
                    name="d",
                ),
                tx.run("delete from agents where tenant = :tenant"),
            ]

        assert database.write("acme", work) == [2, 0, 0, 1, None, ("d",), 3]

    def test_each_yields_rows_by_name_in_order(self, database: Database) -> None:
        database.write(
            "acme", lambda tx: tx.many(INSERT, [{"name": f"{n:05}"} for n in range(3000)])
        )

        def work(tx: Transaction) -> list[str]:
            return [
                row["name"]
                for row in tx.each("select * from agents where tenant = :tenant order by name")
            ]

        assert database.read("acme", work) == [f"{n:05}" for n in range(3000)]
        assert database.read("nobody", work) == []

    def test_a_stream_may_be_abandoned_or_nested(self, database: Database) -> None:
        database.write(
            "acme", lambda tx: tx.many(INSERT, [{"name": f"{n:05}"} for n in range(2500)])
        )

        def work(tx: Transaction) -> list[str]:
            pairs = []
            for outer in tx.each(NAMES):
                inner = next(iter(tx.each(NAMES)))
                pairs.append(f"{outer['name']} {inner['name']}")
                if len(pairs) == 3:
                    break
            return pairs

        for _ in range(12):
            assert database.read("acme", work) == ["00000 00000", "00001 00000", "00002 00000"]
        database.write("acme", add("after"))
        assert len(names(database)) == 2501

    def test_streaming_sees_one_snapshot(self, database: Database) -> None:
        database.write(
            "acme", lambda tx: tx.many(INSERT, [{"name": f"{n:05}"} for n in range(2500)])
        )

        def work(tx: Transaction) -> int:
            seen = 0
            for _ in tx.each(NAMES):
                if seen == 10:
                    with ThreadPoolExecutor(1) as pool:
                        pool.submit(database.write, "acme", add("99999")).result(TIMEOUT_SECONDS)
                seen += 1
            return seen

        assert database.read("acme", work) == 2500

    def test_columns_come_from_the_catalog(self, database: Database) -> None:
        columns = database.read("acme", lambda tx: tx.columns("message_keys"))
        assert columns == [
            "tenant", "session_id", "key", "digest", "first_seq", "last_seq", "created_at",
        ]  # fmt: skip
        assert database.read("acme", lambda tx: tx.columns("no_such_table")) == []

    def test_text_keys_compare_byte_by_byte(self, database: Database, engine: str) -> None:
        """The same order on every engine, whatever the server's locale."""
        if engine == "h2":
            pytest.skip("H2 sorts by UTF-16; Oracle with nls_sort = binary sorts by bytes")
        unsorted = [
            "b", "B", "a", "ä", "A", "_", "Z", "é", "e\u0301", "10", "9", " x", "\U0001f600",
            "\uffff",
        ]  # fmt: skip
        database.write("acme", lambda tx: tx.many(INSERT, [{"name": name} for name in unsorted]))
        assert names(database) == sorted(unsorted, key=str.encode)

    # -- tenants and time --------------------------------------------------------------------------------------

    def test_tenants_are_listed_after_their_first_write(self, database: Database) -> None:
        assert database.tenants() == []
        for tenant in ("b", "a", "ä", "b"):
            database.write(tenant, lambda tx: None)
        database.read("reader", lambda tx: tx.all(NAMES))
        assert database.tenants() == ["a", "b", "ä"]

    def test_tenants_are_isolated(self, database: Database) -> None:
        database.write("a", add("mine"))
        database.write("b", add("mine"))
        database.write("b", lambda tx: tx.run("delete from agents where tenant = :tenant"))
        assert (names(database, "a"), names(database, "b")) == (["mine"], [])

    def test_time_comes_from_the_given_clock(self, open_memory: Callable[..., Memory]) -> None:
        moments = iter(range(1_000, 10_000))
        database = open_memory(clock=lambda: next(moments)).database
        first = database.write("acme", lambda tx: tx.now)
        second = database.read(
            "acme", lambda tx: (tx.now, tx.one("select :now where :tenant = :tenant"))
        )
        assert first < second[0] < 10_000
        assert second[1] == (second[0],)

    def test_without_a_clock_time_comes_from_the_database(self, database: Database) -> None:
        before = clock.now()
        seen = [database.read("acme", lambda tx: tx.now), database.write("acme", lambda tx: tx.now)]
        assert before - clock.MINUTE < seen[0] <= seen[1] < clock.now() + clock.MINUTE

    # -- errors ------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        "work",
        [
            lambda tx: (tx.run(INSERT, name="a"), tx.run(INSERT, name="a")),
            lambda tx: tx.run(INSERT, name=None),
            lambda tx: tx.run("insert into no_such_table values (:tenant)"),
            lambda tx: tx.run("this is not sql :tenant"),
            lambda tx: tx.all("select no_such_column from agents where tenant = :tenant"),
        ],
        ids=["twice", "null", "no table", "no sql", "no column"],
    )
    def test_database_errors_are_typed_and_roll_back(
        self, database: Database, work: Callable[[Transaction], Any]
    ) -> None:
        with pytest.raises(StorageError) as error:
            database.write("acme", lambda tx: (tx.run(INSERT, name="before"), work(tx)))
        assert error.value.__cause__ is not None or error.value.problem
        assert not isinstance(error.value, Unreachable | Busy)
        assert names(database) == []

    def test_a_row_without_its_parent_is_rejected(self, database: Database) -> None:
        orphan = """insert into message_keys (tenant, session_id, key, digest, first_seq, last_seq, created_at)
                    values (:tenant, 'no such session', 'k', 'd', 1, 1, :now)"""
        with pytest.raises(StorageError):
            database.write("acme", lambda tx: tx.run(orphan))
        database.write("acme", add("after"))
        assert names(database) == ["after"]

    def test_a_closed_database_is_unreachable(self, database: Database) -> None:
        database.write("acme", add("a"))
        database.close()
        for call in (
            lambda: database.read("acme", lambda tx: tx.all(NAMES)),
            lambda: database.write("acme", add("b")),
            database.tenants,
        ):
            with pytest.raises(Unreachable, match="closed"):
                call()
        database.close()  # closing twice is allowed

    def test_a_migration_out_of_order_does_nothing(self, database: Database) -> None:
        version = database.version()
        for step in (Step(version, "again", "this is not sql", up=True), Step(version + 2, "ahead", "nor this", up=True),
                     Step(version - 1, "below", "nor this", up=False)):  # fmt: skip
            assert database.step(step) is False
        assert database.version() == version

    def test_a_healthy_database_has_no_findings(self, database: Database) -> None:
        findings = database.health()
        assert findings
        assert [finding for finding in findings if not finding.ok] == []

    def test_the_display_name_has_no_credentials(self, database: Database, url: str) -> None:
        assert database.name.partition(":")[0] == url.partition(":")[0]
        assert "@" not in database.name

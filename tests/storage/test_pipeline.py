"""PostgreSQL: how many round trips a transaction takes, and what happens when one of them fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from memorist import Memory, Scope
from memorist.base.errors import InDoubt, StorageError
from memorist.kinds.items import Put
from memorist.storage.database import Transaction
from memorist.storage.postgres import pipeline
from memorist.storage.postgres.connections import PostgresConnection
from memorist_frameworks.checkpoints.checkpoints import checkpoints_of
from testkit.databases import SERVERS

COUNT = "select count(*) from agents where tenant = :tenant"
INSERT = """insert into agents (tenant, name, prompt, model, tools, color, icon, version, created_at, updated_at,
                                checksum)
            values (:tenant, :name, '', '', '[]', '', '', 1, :now, :now, 0)"""
FAILING = "select 1 / 0, :tenant"


class Interruption(Exception):
    """Raised by the work of a transaction."""


@pytest.fixture(params=SERVERS)
def engine(request: pytest.FixtureRequest) -> str:
    """Servers only."""
    return str(request.param)


@pytest.fixture
def memory(open_memory: Callable[..., Memory]) -> Memory:
    """A database with one connection."""
    return open_memory(postgres_pool=1)


@pytest.fixture
def round_trips(me: Scope, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Return a function that calls another one and counts the waits for the server."""
    waits: list[PostgresConnection] = []
    wait = PostgresConnection.wait

    def counted(connection: PostgresConnection, *arguments: Any, **options: Any) -> Any:
        waits.append(connection)
        return wait(connection, *arguments, **options)

    monkeypatch.setattr(PostgresConnection, "wait", counted)

    def count(call: Callable[[], object]) -> int:
        call()  # the first call may add the tenant
        waits.clear()
        call()
        return len(waits)

    return count


def test_a_verb_takes_few_round_trips(me: Scope, round_trips: Callable[..., int]) -> None:
    """One up to the first result that the verb needs, and one for the rest with the commit."""
    me.sessions.add("s")
    assert round_trips(lambda: me.messages.append("s", "user", "Hello.")) == 2
    keys = iter("abc")
    assert round_trips(lambda: me.messages.append("s", "user", "Hello.", key=next(keys))) == 2
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
    usage = {"model": "m", "tokens_in": 5}
    assert round_trips(lambda: me.save_turn("s", messages, usage=usage)) == 2
    assert round_trips(lambda: me.messages.window("s", last=20)) == 1
    assert round_trips(lambda: me.state.set("theme", "dark")) == 2
    assert round_trips(lambda: me.state.get("theme")) == 1
    assert round_trips(me.notes.read) == 1
    assert round_trips(lambda: me.items.put(("a",), "b", {"n": 1})) == 2
    assert round_trips(lambda: me.items.put(("a",), "b", {"n": 1}, fields=[])) == 2
    assert round_trips(lambda: me.items.get(("a",), "b")) == 1
    state = ("json", b"{}")
    values = {("n", "1"): state, ("messages", "1"): state}
    assert round_trips(lambda: checkpoints_of(me).add("t", "1", state, values=values)) == 1
    assert round_trips(lambda: checkpoints_of(me).get("t")) == 1


def test_one_round_trip_has_every_sent_statement(memory: Memory, round_trips: Any) -> None:
    def work(tx: Transaction) -> list[list[Any]]:
        for name in "abc":
            tx.send(INSERT, name=name)
        sent = [tx.send(COUNT), tx.send("select :now, :tenant")]
        tx.many("delete from agents where tenant = :tenant and name = :name", [{"name": "a"}])
        tx.lock("a lock")
        tx.lock_rows("select 1 from agents where tenant = :tenant and name = 'b'")
        results = [statement.rows() for statement in sent]
        assert results[1][0][0] == tx.now
        tx.send("delete from agents where tenant = :tenant")
        return results

    assert round_trips(lambda: memory.database.write("acme", work)) == 2
    assert memory.database.write("acme", work)[0] == [(3,)]


def test_a_failed_statement_undoes_the_transaction(memory: Memory) -> None:
    """Its error is raised by the next result that is read, or else by the commit."""

    def fail_at_commit(tx: Transaction) -> None:
        tx.send(INSERT, name="a")
        tx.send(FAILING)
        tx.send(INSERT, name="b")

    def fail_at_next_result(tx: Transaction) -> None:
        fail_at_commit(tx)
        with pytest.raises(psycopg.errors.DivisionByZero):
            tx.all(COUNT)
        raise Interruption

    for idempotent in (True, False):
        with pytest.raises(StorageError, match="division by zero"):
            memory.database.write("acme", fail_at_commit, idempotent=idempotent)
    with pytest.raises(Interruption):
        memory.database.write("acme", fail_at_next_result)
    assert memory.database.read("acme", lambda tx: tx.one(COUNT)) == (0,)


def test_a_caught_error_is_not_committed(memory: Memory) -> None:
    """The server answers `commit` with a rollback, which is not an error of its own."""

    def work(tx: Transaction) -> None:
        tx.send(INSERT, name="a")
        with pytest.raises(psycopg.errors.DivisionByZero):
            tx.one(FAILING)

    with pytest.raises(StorageError, match="rolled back"):
        memory.database.write("acme", work)
    assert memory.database.read("acme", lambda tx: tx.one(COUNT)) == (0,)


def test_an_exception_discards_what_was_sent(memory: Memory) -> None:
    def work(tx: Transaction) -> None:
        tx.send(INSERT, name="a")
        raise Interruption

    for _ in range(3):
        with pytest.raises(Interruption):
            memory.database.write("acme", work)
    assert memory.database.read("acme", lambda tx: tx.one(COUNT)) == (0,)


def test_an_interrupted_rollback_leaves_no_transaction_open(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Ctrl+C does: the next transaction must not commit what was rolled back."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    def work(tx: Transaction) -> None:
        tx.run(INSERT, name="a")
        monkeypatch.setattr(pipeline, "run_script", interrupted)
        raise Interruption

    with pytest.raises(KeyboardInterrupt):
        memory.database.write("acme", work)
    monkeypatch.undo()
    memory.database.write("acme", lambda tx: tx.run(INSERT, name="b"))
    assert memory.database.read("acme", lambda tx: tx.one(COUNT)) == (1,)


def end_connections(url: str) -> None:
    """End the other connections of a database, as a restart of the server does."""
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(
            """select pg_terminate_backend(pid) from pg_stat_activity
               where datname = current_database() and pid <> pg_backend_pid()
               and application_name not like 'pg%' and state = 'idle'"""
        )


def test_a_connection_lost_while_idle_is_not_in_doubt(memory: Memory, url: str) -> None:
    """Although the write reads no result before its commit."""
    for number in range(3):
        end_connections(url)
        memory.database.write("acme", lambda tx, n=number: tx.send(INSERT, name=f"{n}"))  # type: ignore[misc]
    assert memory.database.read("acme", lambda tx: tx.one(COUNT)) == (3,)


def test_a_connection_lost_with_the_commit_is_in_doubt(memory: Memory, url: str) -> None:
    """Unless the write is idempotent: it is repeated."""
    attempts: list[int] = []

    def work(tx: Transaction) -> None:
        (pid, _) = tx.one("select pg_backend_pid(), :tenant") or (0, "")
        if not attempts:
            with psycopg.connect(url, autocommit=True) as admin:
                admin.execute("select pg_terminate_backend(%s, 5000)", [pid])
        attempts.append(pid)
        tx.send(INSERT, name="a")

    with pytest.raises(InDoubt):
        memory.database.write("acme", work)
    assert memory.database.read("acme", lambda tx: tx.one(COUNT)) == (0,)
    attempts.clear()
    memory.database.write("acme", work, idempotent=True)
    assert len(attempts) == 2
    assert memory.database.read("acme", lambda tx: tx.one(COUNT)) == (1,)


def test_the_least_recently_used_prepared_statements_go(
    memory: Memory, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "MAX_PREPARED", 20)
    monkeypatch.setattr(pipeline, "MAX_COUNTED", 30)
    prepared = "select count(*) from pg_prepared_statements where :tenant = :tenant"
    for number in range(40):
        for _ in range(pipeline.PREPARE_THRESHOLD):
            memory.database.read(
                "acme",
                lambda tx, n=number: tx.one(f"select {n}, :tenant"),  # type: ignore[misc]
            )
    row = memory.database.read("acme", lambda tx: tx.one(prepared))
    assert row is not None
    assert 15 <= row[0] <= 20


def test_a_statement_is_prepared_again_after_an_error_before_it(memory: Memory) -> None:
    """The server skips the preparation with everything else."""

    def work(tx: Transaction) -> None:
        tx.send(FAILING)
        for _ in range(2 * pipeline.PREPARE_THRESHOLD):
            tx.send(COUNT)

    for _ in range(2):
        with pytest.raises(StorageError):
            memory.database.write("acme", work)
    for _ in range(2 * pipeline.PREPARE_THRESHOLD):
        assert memory.database.read("acme", lambda tx: tx.one(COUNT)) == (0,)


def test_more_statements_than_are_sent_at_once(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "MAX_UNANSWERED", 50)
    long_name = "n" * 100

    def work(tx: Transaction) -> Any:
        sent = [tx.send(INSERT + " returning name", name=f"{long_name}{n}") for n in range(500)]
        return [statement.rows()[0][0] for statement in sent]

    assert memory.database.write("acme", work) == [f"{long_name}{n}" for n in range(500)]
    assert memory.database.read("acme", lambda tx: tx.one(COUNT)) == (500,)


def test_items_are_put_in_one_transaction(me: Scope) -> None:
    """Each statement writes its own item."""
    puts = [Put(("a",), f"{n}", {"n": n}) for n in range(30)]
    for version in (1, 2):
        me.items.write(puts)
        items = me.items.read([(("a",), f"{n}") for n in range(30)])
        assert [item.value["n"] for item in items if item] == list(range(30))
        assert {item.version for item in items if item} == {version}

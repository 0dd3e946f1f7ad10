"""PostgreSQL: enforced isolation, least privilege, and a pool that recovers."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict

import memorist
from memorist import AsyncMemory, Memory
from memorist.base import clock
from memorist.base.errors import (
    Busy,
    InDoubt,
    Invalid,
    MemoristError,
    SchemaTooOld,
    SettingsError,
    StorageError,
    Unreachable,
)
from memorist.storage import migrate
from memorist.storage.database import Transaction
from memorist.storage.postgres import server
from memorist.storage.postgres.roles import ROLE
from memorist.storage.postgres.server import Begin
from testkit.databases import SERVERS, SETTINGS, new_database
from testkit.rows import fill, raw
from testkit.servers import debian_binaries, free_port, modern_binaries

TIMEOUT_SECONDS = 30
GUARDED = ["tenants", "agents", "sessions", "messages", "message_keys", "state", "interactions"]


@pytest.fixture(params=SERVERS)
def engine(request: pytest.FixtureRequest) -> str:
    """Servers only."""
    return str(request.param)


def as_user(url: str, user: str, **more: str) -> str:
    """Return the URL of the same database for another role."""
    parts = conninfo_to_dict(url) | {"user": user} | more
    password = f":{parts['password']}" if "password" in parts else ""
    return (
        f"postgresql://{parts['user']}{password}@{parts['host']}:{parts['port']}/{parts['dbname']}"
    )


@pytest.fixture
def roles(url: str) -> Iterator[Callable[[str], str]]:
    """Create roles that may log in; dropped after the test."""
    made: list[str] = []

    def make(options: str) -> str:
        name = f"r_{uuid.uuid4().hex[:12]}"
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute(f"create role {name} login {options}")
        made.append(name)
        return name

    yield make
    with psycopg.connect(url, autocommit=True) as admin:
        for name in made:
            admin.execute(f"drop owned by {name} cascade")
            admin.execute(f"drop role {name}")


def idle_in_transaction(url: str) -> int:
    """Count the connections to this database that are idle in a transaction."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "select count(*) from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'"
        ).fetchone()
    return int((row or (0,))[0])


# -- row-level security --------------------------------------------------------------------------------------------


def test_every_table_with_a_tenant_has_forced_row_level_security(memory: Memory, url: str) -> None:
    """P11, a meta-test: it reads the catalog, so no new table can be forgotten."""
    with raw(url) as database:
        tables = database.all(
            """select c.relname, c.relrowsecurity, c.relforcerowsecurity, r.rolname, c.oid::bigint from pg_class c
               join pg_namespace n on n.oid = c.relnamespace join pg_roles r on r.oid = c.relowner
               where n.nspname = 'memorist' and c.relkind in ('r', 'p') order by 1"""
        )
        assert {name for name, *_ in tables} > {"messages", "sessions", "state", "tenants"}
        for name, enabled, forced, owner, oid in tables:
            assert owner != ROLE
            columns = [
                column
                for (column,) in database.all(
                    f"select attname from pg_attribute where attrelid = {oid}"
                )
            ]
            if "tenant" not in columns:
                assert name == "memorist_schema"
                continue
            assert (enabled, forced) == (True, True), name
            policies = database.all(
                f"""select polpermissive, polcmd, polroles::text, pg_get_expr(polqual, polrelid),
                           pg_get_expr(polwithcheck, polrelid) from pg_policy where polrelid = {oid}"""
            )
            assert len(policies) == 1, name
            _, command, whom, using, check = policies[0]
            assert (command, whom) == ("*", "{0}"), "for every command and every role"
            mine = (
                "(tenant = current_setting( CASE "
                "WHEN (current_setting('memorist.tenant'::text, true) <> ''::text) "
                "THEN 'memorist.tenant'::text ELSE 'memorist.tenant is not set'::text END))"
            )
            check = " ".join(check.split())
            using = " ".join(using.split())
            assert check == mine
            assert (using == mine) is (name not in ("tenants", "search_behind", "keyed")), (
                "which tenants there are, no more"
            )
            keys = database.all(
                f"""select (select attname from pg_attribute where attrelid = {oid} and attnum = indkey[0])
                    from pg_index where indrelid = {oid} and indisunique"""
            )
            assert keys
            assert set(keys) == {("tenant",)}, "a unique key without the tenant tells about others"
        assert (
            database.all(
                "select proname from pg_proc where pronamespace = 'memorist'::regnamespace and prosecdef"
            )
            == []
        )
        assert (
            database.all(
                "select relname from pg_class where relnamespace = 'memorist'::regnamespace and relkind = 'v'"
            )
            == []
        )


def test_the_working_role_has_minimal_privileges(memory: Memory, url: str) -> None:
    with raw(url) as database:
        rights = "rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication"
        assert database.all(f"select {rights} from pg_roles where rolname = '{ROLE}'") == [
            (False,) * 6
        ]
        assert database.all(f"select 1 from pg_auth_members where member = '{ROLE}'::regrole") == []
        allowed = database.all(
            f"""select distinct privilege_type from information_schema.role_table_grants
                where grantee = '{ROLE}' and table_schema = 'memorist' order by 1"""
        )
        assert allowed == [("DELETE",), ("INSERT",), ("SELECT",), ("UPDATE",)]
        assert database.all(
            f"""select privilege_type from information_schema.role_table_grants
                where grantee = '{ROLE}' and table_name = 'memorist_schema'"""
        ) == [("SELECT",)]


def run_as_application(connection: psycopg.Connection, tenant: str | None, sql: str) -> None:
    """Run a statement with the application's role, and with a tenant unless it is None."""
    with connection.transaction():
        connection.execute(f"set local role {ROLE}")
        if tenant is not None:
            connection.execute(f"set local memorist.tenant = '{tenant}'")
        connection.execute(sql)


@pytest.mark.parametrize("tenant", [None, ""])
def test_a_statement_without_a_tenant_fails(memory: Memory, url: str, tenant: str | None) -> None:
    """An empty result would hide the mistake. A setting is empty after its first transaction."""
    fill(memory)
    statements = [
        "select count(*) from memorist.{}",
        "select * from memorist.{} where tenant = 'acme'",
        "update memorist.{} set tenant = tenant",
        "delete from memorist.{}",
    ]
    with psycopg.connect(url, autocommit=True) as connection:
        for table in GUARDED:
            for statement in statements:
                with pytest.raises(errors.UndefinedObject, match="memorist.tenant is not set"):
                    run_as_application(connection, tenant, statement.format(table))
        with pytest.raises(errors.UndefinedObject, match="memorist.tenant is not set"):
            run_as_application(connection, tenant, "insert into memorist.tenants values ('new', 0)")


def test_the_error_without_a_tenant_says_what_happened(memory: Memory) -> None:
    fill(memory)
    with pytest.raises(StorageError, match="memorist.tenant"):
        memory.database.read(
            "acme",
            lambda tx: (
                tx.all("select set_config('memorist.tenant', '', true) where :tenant <> ''"),
                tx.all("select 1 from sessions where tenant = :tenant"),
            ),
        )


def test_another_tenant_sees_no_rows(memory: Memory, url: str) -> None:
    fill(memory)
    with psycopg.connect(url, autocommit=True) as connection:
        with connection.transaction():
            connection.execute(f"set local role {ROLE}")
            connection.execute("set local memorist.tenant = 'nobody'")
            for table in GUARDED:
                query = f"select count(*) from memorist.{table}"
                assert connection.execute(query).fetchone() == (0,)
                assert connection.execute(f"delete from memorist.{table}").rowcount == 0
        with connection.transaction():
            connection.execute(f"set local role {ROLE}")
            connection.execute("set local memorist.tenant = '*'")
            assert connection.execute("select tenant from memorist.tenants").fetchall() == [
                ("acme",)
            ]
            for table in GUARDED[1:]:
                assert connection.execute(f"select count(*) from memorist.{table}").fetchone() == (
                    0,
                )
            assert connection.execute("delete from memorist.tenants where false").rowcount == 0


def test_the_check_for_a_tenant_uses_the_index(memory: Memory, url: str) -> None:
    """The check runs once per scan, not once per row."""
    fill(memory)
    with psycopg.connect(url, autocommit=True) as connection, connection.transaction():
        connection.execute(f"set local role {ROLE}")
        connection.execute("set local memorist.tenant = 'acme'")
        connection.execute("set local enable_seqscan = off")
        connection.execute("set local enable_bitmapscan = off")
        rows = connection.execute(
            "explain select * from memorist.messages where tenant = 'acme' and session_id = 's'"
        ).fetchall()
    plan = "\n".join(line for (line,) in rows)
    assert "One-Time Filter" in plan
    assert (
        "Index Cond: ((tenant = 'acme'::text COLLATE \"C\") AND (session_id = 's'::text))" in plan
    )


def test_a_row_of_another_tenant_cannot_be_written(memory: Memory, url: str) -> None:
    fill(memory)
    fill(memory, "other")

    def work(sql: str) -> Callable[[Transaction], object]:
        return lambda tx: tx.run(sql)

    for sql in (
        "insert into tenants (tenant, created_at) select 'new', 1 where :tenant = :tenant",
        "insert into tenants (tenant, created_at) select '*', 1 where :tenant = :tenant",
        "update agents set tenant = 'other' where tenant = :tenant",
        "insert into state (tenant, area, key, value, version, created_at, updated_at, checksum) "
        "select 'other', 'tenant', 'planted', '1', 1, 1, 1, 1 where :tenant = :tenant",
    ):
        with pytest.raises(StorageError, match="row-level security"):
            memory.database.write("acme", work(sql))
    assert memory.database.write("acme", work("delete from sessions where :tenant <> tenant")) == 0
    assert memory.tenants() == ["acme", "other"]


# -- an owner and an application -----------------------------------------------------------------------------------


@pytest.fixture
def empty(engine: str) -> Iterator[str]:
    """A database without a schema."""
    yield from new_database(engine, "template1")


def test_an_owner_migrates_and_an_application_works(
    roles: Callable[[str], str], empty: str
) -> None:
    """D2, least privilege: neither is a superuser; the application is only a member of the role."""
    owner = roles("")
    application = roles(f"in role {ROLE}")
    with psycopg.connect(empty, autocommit=True) as admin:
        admin.execute(f"grant create on database {conninfo_to_dict(empty)['dbname']} to {owner}")
        admin.execute(f"grant {ROLE} to {owner}")
    as_application, as_owner = as_user(empty, application), as_user(empty, owner)
    with pytest.raises(SchemaTooOld, match="memorist migrate"):
        Memory.open(as_application, settings=SETTINGS)
    with Memory.open(as_application, settings=replace(SETTINGS, owner_database=as_owner)) as memory:
        fill(memory)
        assert [finding for finding in memory.verify() if not finding.ok] == []
    with Memory.open(as_application, settings=SETTINGS) as memory:
        me = memory.scope(tenant="acme", user="ada", agent="scout")
        assert me.messages.append("acme ada 1", "user", "still works").seq == 14
        with pytest.raises(StorageError, match="permission denied"):
            memory.database.write(
                "acme",
                lambda tx: tx.run("update memorist_schema set version = 9 where :tenant = :tenant"),
            )
    with Memory.open(as_owner, settings=SETTINGS) as memory:
        migrate.down(memory.database, memory.migrations, to=0)
    with pytest.raises(SchemaTooOld) as error:
        Memory.open(as_application, settings=SETTINGS)
    assert error.value.found == 0
    Memory.open(as_owner, settings=SETTINGS).close()
    with psycopg.connect(as_application, autocommit=True) as connection:
        for statement in (
            "create table memorist.mine (x int)",
            "create schema mine",
            "drop table memorist.messages",
            "truncate memorist.messages",
            "alter table memorist.messages no force row level security",
            "drop policy tenant on memorist.messages",
            "create index on memorist.messages (role)",
            "set session_replication_role = replica",
        ):
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(statement)


def test_an_owner_that_cannot_use_the_role_gets_advice(
    roles: Callable[[str], str], empty: str
) -> None:
    owner = roles("")
    with psycopg.connect(empty, autocommit=True) as admin:
        admin.execute(f"grant create on database {conninfo_to_dict(empty)['dbname']} to {owner}")
    with pytest.raises(SettingsError, match=f"grant {ROLE} to"):
        Memory.open(as_user(empty, owner), settings=SETTINGS)
    with psycopg.connect(empty, autocommit=True) as admin:
        admin.execute(f"grant {ROLE} to {owner}")
    with Memory.open(as_user(empty, owner), settings=SETTINGS) as memory:
        fill(memory)
        with (
            psycopg.connect(as_user(empty, owner)) as connection,
            pytest.raises(
                psycopg.Error, match="memorist.tenant is not set"
            ),  # forced, for the owner, too
        ):
            connection.execute("select count(*) from memorist.messages")
        assert len(memory.scope(tenant="acme").messages.window("acme ada 1")) == 13


# -- what the database sees ----------------------------------------------------------------------------------------


def test_the_database_sees_the_tenant(memory: Memory, url: str) -> None:
    """D4: in pg_stat_activity and during the transaction only."""

    def work(tx: Transaction) -> Any:
        return tx.one(
            """select current_setting('application_name'), current_setting('memorist.tenant'), current_user::text,
                      pg_backend_pid(), :tenant"""
        )

    name, tenant, role, pid, _ = memory.database.read("Bücher & Söhne", work)
    assert (name, tenant, role) == ("memorist B?cher & S?hne", "Bücher & Söhne", ROLE)
    with raw(url) as database:
        (after,) = database.all(
            f"select state, application_name from pg_stat_activity where pid = {pid}"
        )
    assert after[0] == "idle"
    assert "Söhne" not in after[1]

    def look(tx: Transaction) -> Any:
        backend = (tx.one("select pg_backend_pid(), :tenant") or (0,))[0]
        with raw(url) as database:
            return database.all(
                f"select application_name, state from pg_stat_activity where pid = {backend}"
            )

    assert memory.database.write("acme", look) == [("memorist acme", "idle in transaction")]


def test_settings_do_not_outlive_the_transaction(
    open_memory: Callable[..., Memory], url: str
) -> None:
    """One connection, two tenants: the second sees nothing that the first set."""
    memory = open_memory(postgres_pool=1)
    seen = "select current_setting('memorist.tenant'), pg_backend_pid() where :tenant = :tenant"
    first = memory.database.write("a", lambda tx: tx.one(seen))
    with pytest.raises(ValueError, match="mine"):
        memory.database.write("b", lambda tx: [tx.one(seen), int("mine")])
    assert memory.database.write("c", lambda tx: tx.one(seen)) == ("c", (first or ("", 0))[1])
    pool = memory.database._primary.pool  # type: ignore[attr-defined]
    connection = pool.take()
    row = connection.execute(
        "select current_setting('memorist.tenant', true), current_user::text"
    ).fetchone()
    pool.give_back(connection)
    assert row == ("", "postgres")


def test_the_database_clock_is_used(
    memory: Memory, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "now", lambda: 5)
    monkeypatch.setattr(time, "time_ns", lambda: 5)
    me = memory.scope(tenant="acme", user="ada", agent="scout")
    session = me.sessions.add("s")
    message = me.messages.append("s", "user", "x")
    with raw(url) as database:
        ((now,),) = database.all("select (extract(epoch from clock_timestamp()) * 1000000)::bigint")
    for moment in (session.created_at, message.created_at):
        assert 0 <= now - clock.from_datetime(moment, "f") < clock.MINUTE


def test_a_slow_statement_is_cancelled(
    open_memory: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "STATEMENT_SECONDS", 0.2)
    memory = open_memory()
    with pytest.raises(Busy, match="timeout"):
        memory.database.read("acme", lambda tx: tx.one("select pg_sleep(30), :tenant"))
    assert memory.database.read("acme", lambda tx: tx.one("select 1, :tenant")) == (1, "acme")
    slow = "select 1, :tenant from pg_sleep(0.5)"
    assert memory.database.read("acme", lambda tx: tx.one(slow), long=True) == (1, "acme")
    with pytest.raises(Busy, match="timeout"):
        memory.database.read("acme", lambda tx: tx.one(slow))


HOSTILE_TENANT = "a'; set role postgres; --\\' \"$$ E'\\\\' %s {0}"


def count_settings(database: Any) -> int:
    """Return how many settings a transaction makes."""
    statements = [
        statement for statement, _ in database._primary.begin_statements(Begin("begin", False), "a")
    ]
    assert not [statement for statement in statements if b"set_config" in statement]
    return sum(statement.startswith(b"set local ") for statement in statements)


def test_transaction_settings_are_set_local_and_quoted(memory: Memory) -> None:
    """Citus passes on `set local`, not `set_config`; a tenant's name stays a name."""
    sql = """select current_setting('memorist.tenant'), current_user::text, current_setting('search_path'),
                    current_setting('statement_timeout'), current_setting('jit'), :tenant"""
    row = memory.database.read(HOSTILE_TENANT, lambda tx: tx.one(sql))
    assert row == (HOSTILE_TENANT, ROLE, "memorist, public", "15s", "off", HOSTILE_TENANT)
    database: Any = memory.database
    assert count_settings(database) == 3, "the role, the tenant and the name"
    database._primary._begins.clear()
    database._primary.keeps_settings = False  # as behind a pooler
    assert count_settings(database) == 10
    assert memory.database.read(HOSTILE_TENANT, lambda tx: tx.one(sql)) == row
    source = Path(memorist.__file__).parent
    assert [file for file in source.rglob("*.py") if "set_config(" in file.read_text("utf-8")] == []


@pytest.mark.parametrize("keeps_settings", [True, False])
def test_a_long_transaction_has_the_settings_of_the_server(
    open_memory: Callable[..., Memory], keeps_settings: bool
) -> None:
    database: Any = open_memory(postgres_pool=1).database
    assert database._primary.keeps_settings
    if not keeps_settings:  # as behind a pooler, where connections have no settings
        database._primary.keeps_settings = False
        database._primary.pool.forget_idle()
    sql = """select current_setting('enable_seqscan'), current_setting('jit'),
                    current_setting('statement_timeout'), current_setting('search_path'), :tenant"""

    def settings(long: bool) -> Any:
        return database.read("acme", lambda tx: tx.one(sql), long=long)[:4]

    with psycopg.connect(database._primary.url) as connection:
        (jit,) = connection.execute("show jit").fetchone() or ("",)
    for _ in range(2):
        assert settings(long=False) == ("off", "off", "15s", "memorist, public")
        assert settings(long=True) == ("on", jit, "0", "memorist, public")


def test_a_frozen_server_process_does_not_block_its_clients(
    open_memory: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel of a stopped process acknowledges packets, so TCP notices nothing."""
    monkeypatch.setattr(server, "ANSWER_SECONDS", 0.5)
    memory = open_memory(postgres_pool=1)
    sql = "select pg_backend_pid(), :tenant"
    frozen, _ = memory.database.read("acme", lambda tx: tx.one(sql)) or (0, "")
    os.kill(frozen, signal.SIGSTOP)
    try:
        with ThreadPoolExecutor(1) as thread:
            reading = thread.submit(memory.database.read, "acme", lambda tx: tx.one(sql))
            try:
                pid, _ = reading.result(timeout=TIMEOUT_SECONDS) or (0, "")
            finally:
                os.kill(frozen, signal.SIGCONT)
        assert pid not in (0, frozen)
    finally:
        with suppress(ProcessLookupError):  # it has ended, as its client left
            os.kill(frozen, signal.SIGCONT)


def test_a_commit_without_a_response_is_in_doubt(
    open_memory: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "ANSWER_SECONDS", 0.5)
    memory = open_memory(postgres_pool=1)
    frozen: list[int] = []

    def work(tx: Transaction) -> None:
        frozen.extend((tx.one("select pg_backend_pid(), :tenant") or (0,))[:1])
        os.kill(frozen[-1], signal.SIGSTOP)

    try:
        with pytest.raises(InDoubt, match="did not answer within"):
            memory.database.write("acme", work)
    finally:
        os.kill(frozen[-1], signal.SIGCONT)
    assert len(frozen) == 1


@pytest.mark.parametrize("streams", [False, True])
def test_a_connection_lost_in_the_commit(
    open_memory: Callable[..., Memory], url: str, streams: bool
) -> None:
    """A write is in doubt, also if it has streamed rows; a read is not."""
    memory = open_memory(postgres_pool=1, wait_seconds=0)

    def work(tx: Transaction) -> None:
        sql = "select pg_backend_pid() as pid, :tenant"
        (pid,) = [row["pid"] for row in tx.each(sql)] if streams else (tx.one(sql) or (0,))[:1]
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute("select pg_terminate_backend(%s, 5000)", [pid])

    with pytest.raises(InDoubt):
        memory.database.write("acme", work)
    with pytest.raises(Unreachable) as caught:
        memory.database.read("acme", work)
    assert not isinstance(caught.value, InDoubt)


# -- the pool ------------------------------------------------------------------------------------------------------


def test_an_exhausted_pool_is_busy_and_recovers(
    open_memory: Callable[..., Memory], url: str
) -> None:
    """F8: callers without a connection in time get an error, and nothing is leaked."""
    memory = open_memory(postgres_pool=2, wait_seconds=0.3)
    let_go, holding = threading.Event(), threading.Semaphore(0)

    def hold(tx: Transaction) -> None:
        holding.release()
        assert let_go.wait(TIMEOUT_SECONDS)

    with ThreadPoolExecutor(12) as pool:
        held = [pool.submit(memory.database.write, tenant, hold) for tenant in ("a", "b")]
        for _ in held:
            assert holding.acquire(timeout=TIMEOUT_SECONDS)
        refused = [pool.submit(memory.tenants) for _ in range(8)]
        for future in refused:
            error = future.exception(TIMEOUT_SECONDS)
            assert isinstance(error, Busy), error
            assert "postgres_pool" in str(error)
        let_go.set()
        assert [future.result(TIMEOUT_SECONDS) for future in held] == [None, None]
        assert [
            f.result(TIMEOUT_SECONDS) for f in [pool.submit(memory.tenants) for _ in range(8)]
        ] == [["a", "b"]] * 8
    assert idle_in_transaction(url) == 0


def test_no_transaction_is_left_open_after_exceptions(memory: Memory, url: str) -> None:
    """B32: connections return clean, more often than there are connections."""

    def raising(blow: type[BaseException], sql: str) -> Callable[[Transaction], None]:
        def work(tx: Transaction) -> None:
            tx.all(sql)
            raise blow

        return work

    for blow in (ValueError, KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError):
        for _ in range(5):
            for call in (memory.database.read, memory.database.write):
                with pytest.raises(blow):
                    call("acme", raising(blow, "select 1, :tenant"))
                with pytest.raises(StorageError):
                    call("acme", raising(blow, "select 1 / 0, :tenant"))
    assert idle_in_transaction(url) == 0
    with ThreadPoolExecutor(8) as pool:
        assert (
            list(pool.map(lambda _: memory.tenants(), range(16), timeout=TIMEOUT_SECONDS))
            == [[]] * 16
        )


def test_no_transaction_is_left_open_by_cancelled_callers(url: str) -> None:
    """B32: 200 requests whose callers leave at once; their threads finish, and the pool recovers."""

    async def cancel_calls() -> None:
        memory = await AsyncMemory.open(
            url, settings=replace(SETTINGS, postgres_pool=4), wait_seconds=20
        )
        me = memory.scope(tenant="acme", user="ada", agent="scout")
        await me.sessions.add("s")
        cancelled = 0
        for start in range(0, 200, 20):
            tasks = [
                asyncio.create_task(me.messages.append("s", "user", f"{start + n}"))
                for n in range(20)
            ]
            await asyncio.sleep(0.002 * (start / 20))
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            cancelled += sum(isinstance(result, asyncio.CancelledError) for result in results)
            assert not [r for r in results if isinstance(r, MemoristError)]
        assert cancelled >= 20
        last = await me.messages.append("s", "user", "the last")
        messages = await me.messages.window("s")
        assert messages[-1].seq >= last.seq
        assert [message.seq for message in messages] == list(range(1, len(messages) + 1))
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while idle_in_transaction(url) and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        assert idle_in_transaction(url) == 0
        await memory.close()

    asyncio.run(cancel_calls())


# -- what cannot be reached ----------------------------------------------------------------------------------------


def test_connection_errors_give_the_reason(url: str) -> None:
    parts = conninfo_to_dict(url)
    wrong = {
        "does not exist": as_user(url, "postgres", dbname="no_such_database"),
        "refused": as_user(url, "postgres", port=str(free_port())),
        "no_such_role": as_user(url, "no_such_role"),
        "no-such-host": as_user(url, "postgres", host="no-such-host.invalid"),
    }
    for expected, address in wrong.items():
        with_password = address.replace("@", ":hunter2@", 1)
        with pytest.raises(Unreachable, match=expected) as error:
            Memory.open(with_password, settings=SETTINGS)
        assert "hunter2" not in f"{error.value!r} {error.value.details}"
    assert parts["dbname"]


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ada:hunter2@[::1/db",
        "postgresql://ada:hunter2@localhost:port/db",
        "postgresql://ada:hunter2@localhost/db?no_such_option=1",
        "postgresql://ada:hunter2@localhost/db?sslmode",
        "postgresql://ada:hunter2%zz@localhost/db",
    ],
)
def test_an_invalid_url_is_a_settings_error_without_the_password(address: str) -> None:
    with pytest.raises((SettingsError, Unreachable)) as error:
        Memory.open(address, settings=SETTINGS)
    assert (
        "hunter2"
        not in f"{error.value!r} {error.value} {error.value.details} {error.value.__cause__!r}"
    )


def test_an_invalid_owner_url_is_a_settings_error_too(url: str) -> None:
    with pytest.raises(SettingsError, match="owner_database") as error:
        Memory.open(
            url, settings=replace(SETTINGS, owner_database="postgresql://ada:hunter2@[::1/db")
        )
    assert "hunter2" not in f"{error.value!r} {error.value.__cause__!r}"


def test_a_wrong_password_is_reported_and_not_repeated(
    url: str, roles: Callable[[str], str]
) -> None:
    """The server requires a password for one role only."""
    name = roles(f"password 'right' in role {ROLE}")
    with raw(url) as database:
        rules = Path(database.all("show hba_file")[0][0])
        before = rules.read_text()
        rules.write_text(f"host all {name} 127.0.0.1/32 scram-sha-256\n{before}")
        try:
            database.all("select pg_reload_conf()")
            deadline = time.monotonic() + TIMEOUT_SECONDS
            while (error := refusal(as_user(url, name, password="hunter2"))) is None:
                assert time.monotonic() < deadline, "the server did not read its rules again"
                time.sleep(0.05)
            assert "password authentication failed" in str(error)
            assert "hunter2" not in f"{error!r} {error.details} {error.__cause__!r}"
            with Memory.open(as_user(url, name, password="right"), settings=SETTINGS) as memory:
                assert "right" not in memory.database.name
                assert memory.tenants() == []
        finally:
            rules.write_text(before)
            database.all("select pg_reload_conf()")


def refusal(address: str) -> Unreachable | None:
    """Return why the database cannot be opened, or None."""
    try:
        Memory.open(address, settings=SETTINGS).close()
    except Unreachable as error:
        return error
    return None


def test_a_restarted_server_is_reconnected(memory: Memory, url: str) -> None:
    """Broken connections are replaced without the caller noticing."""
    memory.scope(tenant="acme", user="ada", agent="scout").sessions.add("s")
    with raw(url) as database:
        for n in range(5):
            database.all(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where datname = current_database() and pid <> pg_backend_pid()"
            )
            assert (
                memory.scope(tenant="acme", user="ada", agent="scout")
                .messages.append("s", "user", "x", key=f"{n}")
                .seq
                == n + 1
            )


# -- backup --------------------------------------------------------------------------------------------------------


@pytest.fixture
def programs(engine: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the server's own programs first on the path."""
    binaries = modern_binaries() if engine == "modern" else debian_binaries()
    assert binaries is not None
    monkeypatch.setenv("PATH", f"{binaries}{os.pathsep}{os.environ['PATH']}")
    if engine == "modern":
        monkeypatch.setenv("LD_LIBRARY_PATH", str(binaries.parent / "lib"))
    return binaries


def test_a_backup_can_be_restored(
    memory: Memory, url: str, empty: str, programs: Path, tmp_path: Path
) -> None:
    fill(memory)
    target = tmp_path / "backup.dump"
    memory.backup(target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    restore = [str(programs / "pg_restore"), "--dbname", empty, "--exit-on-error", str(target)]
    subprocess.run(restore, check=True, capture_output=True)
    with Memory.open(empty, settings=SETTINGS) as restored:
        assert [finding for finding in restored.verify() if not finding.ok] == []
        session = "acme ada 1"
        assert restored.scope(tenant="acme").messages.window(session) == memory.scope(
            tenant="acme"
        ).messages.window(session)
    with pytest.raises(Invalid, match="already exists"):
        memory.backup(target)
    with pytest.raises(Invalid, match="folder"):
        memory.backup(tmp_path / "nowhere" / "backup.dump")


def test_a_backup_by_an_owner_who_sees_no_rows_is_rejected(
    roles: Callable[[str], str], empty: str, programs: Path, tmp_path: Path
) -> None:
    """Forced security applies to a plain owner: no dump is better than one without its rows."""
    owner = roles(f"in role {ROLE}")
    with psycopg.connect(empty, autocommit=True) as admin:
        admin.execute(f"grant create on database {conninfo_to_dict(empty)['dbname']} to {owner}")
    with Memory.open(as_user(empty, owner), settings=SETTINGS) as memory:
        fill(memory)
        with pytest.raises(SettingsError, match="bypassrls"):
            memory.backup(tmp_path / "backup.dump")
        assert list(tmp_path.iterdir()) == []
        with psycopg.connect(empty, autocommit=True) as admin:
            admin.execute(f"alter role {owner} bypassrls")
        memory.backup(tmp_path / "backup.dump")
    listed = subprocess.run(
        [str(programs / "pg_restore"), "--data-only", "--file=-", str(tmp_path / "backup.dump")],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert "acme ada 1" in listed.stdout


def test_a_failed_backup_leaves_no_file(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "backup.dump"
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SettingsError, match="pg_dump"):
        memory.backup(target)
    program = tmp_path / "pg_dump"
    program.write_text("#!/bin/sh\necho half > \"$5\"\necho 'no luck' >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(StorageError, match="no luck"):
        memory.backup(target)
    assert not target.exists()


def test_a_backup_does_not_pass_the_password_as_argument(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other users of the machine can read a command's arguments."""
    program = tmp_path / "pg_dump"
    program.write_text(
        f'#!/bin/sh\necho "$*" > {tmp_path}/arguments\necho "$PGPASSWORD" > {tmp_path}/password\ntouch "$5"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with Memory.open(as_user(url, "postgres", password="hunter2"), settings=SETTINGS) as memory:
        memory.backup(tmp_path / "backup.dump")
    assert (tmp_path / "password").read_text() == "hunter2\n"
    arguments = (tmp_path / "arguments").read_text()
    assert arguments.startswith("--format=custom --schema memorist --file ")
    assert "hunter2" not in arguments

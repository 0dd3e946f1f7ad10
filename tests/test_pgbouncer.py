"""A real PgBouncer in transaction mode (B33, H6): each transaction may run on another connection of
the server.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from memorist import Memory
from memorist.base.errors import KeyReused, SettingsError, Unreachable
from memorist.storage import migrate
from memorist.storage.postgres.engine import PostgresDatabase
from testkit.databases import SETTINGS, new_database
from testkit.failures import raised
from testkit.memories import problems, scope_of
from testkit.rows import LATER, fill, hashes
from testkit.servers import pooler_of


@pytest.fixture(scope="module")
def pooler() -> Iterator[int]:
    """Start a PgBouncer with four connections to the modern server; yield its port."""
    with pooler_of(int(os.environ["TEST_POSTGRES_MODERN"])) as port:
        yield port


@pytest.fixture
def direct_url(pooler: int) -> Iterator[str]:
    """The address of an empty database, without the pooler."""
    yield from new_database("modern")


@pytest.fixture
def empty_url(pooler: int) -> Iterator[str]:
    """The address of a database without a schema."""
    yield from new_database("modern", "template1")


def through_pooler(url: str, port: int) -> str:
    return f"postgresql://postgres@127.0.0.1:{port}/{conninfo_to_dict(url)['dbname']}"


@pytest.fixture
def memory(direct_url: str, pooler: int) -> Iterator[Memory]:
    with Memory.open(through_pooler(direct_url, pooler), settings=SETTINGS) as memory:
        yield memory


def test_a_pooler_is_detected_and_prepared_statements_are_off(
    memory: Memory, direct_url: str
) -> None:
    """Prepared statements belong to a server connection, which the next transaction may not get."""
    database = memory.database
    assert isinstance(database, PostgresDatabase)
    assert not database._primary.prepares
    fill(memory)
    for _ in range(20):  # psycopg prepares what it has seen five times
        scope_of(memory).messages.window("acme ada 1", last=3)
    prepared = memory.database.read(
        "acme", lambda tx: tx.one("select count(*), :tenant from pg_prepared_statements")
    )
    assert prepared == (0, "acme")
    with Memory.open(direct_url, settings=SETTINGS) as direct:
        assert isinstance(direct.database, PostgresDatabase)
        assert direct.database._primary.prepares


def test_tables_are_not_rewritten_through_a_pooler(
    memory: Memory, direct_url: str, pooler: int
) -> None:
    """The settings of the rewrite would stay with a connection that others get."""
    with pytest.raises(SettingsError) as error:
        memory.database.plan_rewrite()
    assert error.value.where == "owner_database"
    settings = replace(SETTINGS, owner_database=direct_url)
    with Memory.open(through_pooler(direct_url, pooler), settings=settings) as with_owner:
        assert with_owner.database.plan_rewrite()
        assert with_owner.database.rewrite(lambda done, total: None).is_complete


def test_the_main_flows_of_every_kind(memory: Memory, direct_url: str) -> None:
    for tenant in ("acme", "other"):
        fill(memory, tenant)
    me = scope_of(memory, "ada", "scout")
    assert me.sessions.resume("stale").id == "acme ada 1"
    sent = me.messages.append("acme ada 1", "user", "once", key="k")
    assert me.messages.append("acme ada 1", "user", "once", key="k") == sent
    raised(KeyReused, me.messages.append, "acme ada 1", "user", "other", key="k")
    assert [m.seq for m in me.messages.window("acme ada 1")] == list(range(1, 15))
    assert len(me.messages.window("acme ada 1", tokens=60)) < 14
    assert me.state.set("key 1", 2, if_version=1).version == 2
    assert [item.key for item in me.state.list(prefix="key 1")] == ["key 1", "key 10"]
    assert [total.calls for total in me.interactions.totals("model")] == [3]
    assert [agent.name for agent in me.agents.list()] == ["cook of acme"]
    assert problems(memory) == []
    out = io.BytesIO()
    memory.export(out)
    removed = memory.scope(tenant="acme").admin.users.erase("ada").removed
    assert removed["messages"] == 14
    memory.import_(io.BytesIO(out.getvalue()))
    again = io.BytesIO()
    memory.export(again)
    assert again.getvalue() == out.getvalue()
    assert memory.purge(days=365).messages == 0
    me.sessions.remove("acme ada 1")
    assert memory.tenants() == ["acme", "other"]
    assert hashes(direct_url, ["messages"])["messages"][0] == 13 * 3


def test_migrations_through_a_pooler(empty_url: str, pooler: int) -> None:
    """Six processes migrate at once; then down and up again."""
    address = through_pooler(empty_url, pooler)
    with ThreadPoolExecutor(6) as pool:
        for memory in pool.map(lambda _: Memory.open(address, settings=SETTINGS), range(6)):
            assert memory.database.version() == memory.migrations[-1].number
            memory.close()
    with Memory.open(address, settings=SETTINGS) as memory:
        fill(memory)
        before = hashes(empty_url)
        known = [*memory.migrations, *LATER]
        assert migrate.up(memory.database, known) == [*LATER]
        assert migrate.down(memory.database, known, to=memory.migrations[-1].number)
        assert hashes(empty_url) == before
        assert problems(memory) == []


def test_many_threads_and_tenants_share_four_connections(direct_url: str, pooler: int) -> None:
    """Numbers have no gaps, every row is in its own tenant, no transaction stays open."""
    with Memory.open(
        through_pooler(direct_url, pooler), settings=replace(SETTINGS, postgres_pool=24)
    ) as memory:
        tenants = [f"t{n}" for n in range(4)]
        for tenant in tenants:
            memory.scope(tenant=tenant, user="ada", agent="scout").sessions.add("s")

        def write(n: int) -> list[int]:
            me = memory.scope(tenant=tenants[n % 4], user="ada", agent="scout")
            numbers = []
            for k in range(15):
                numbers.append(
                    me.messages.append("s", "user", f"{tenants[n % 4]} {n} {k}", key=f"{n} {k}").seq
                )
                me.state.set(f"k{n}", tenants[n % 4])
                assert me.messages.window("s", last=2)[-1].text.startswith(tenants[n % 4])
            return numbers

        with ThreadPoolExecutor(24) as pool:
            numbers = list(pool.map(write, range(24)))
        for place, tenant in enumerate(tenants):
            values = sorted(seq for n in range(24) if n % 4 == place for seq in numbers[n])
            assert values == list(range(1, 91))
            texts = [message.text for message in memory.scope(tenant=tenant).messages.window("s")]
            assert len(set(texts)) == 90
            assert all(text.startswith(f"{tenant} ") for text in texts)
        assert problems(memory) == []
    with psycopg.connect(direct_url) as connection:
        left = connection.execute(
            """select count(*) from pg_stat_activity where datname = current_database()
               and state like 'idle in transaction%' and pid <> pg_backend_pid()"""
        ).fetchone()
    assert left == (0,)


def test_the_tenant_does_not_leak_into_the_next_transaction(
    memory: Memory, direct_url: str, pooler: int
) -> None:
    """A server connection keeps nothing of the tenant that used it before."""
    fill(memory)
    for _ in range(8):
        scope_of(memory, "ada", "scout").state.set("k", 1)
        with psycopg.connect(through_pooler(direct_url, pooler), autocommit=True) as connection:
            row = connection.execute(
                "select coalesce(current_setting('memorist.tenant', true), ''), current_user::text"
            ).fetchone()
        assert row == ("", "postgres")


def test_a_stopped_server_behind_the_pooler_is_unreachable(pooler: int) -> None:
    with pytest.raises(Unreachable, match="no_such_database"):
        Memory.open(f"postgresql://postgres@127.0.0.1:{pooler}/no_such_database", settings=SETTINGS)

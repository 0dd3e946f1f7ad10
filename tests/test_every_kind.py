"""Rules for every kind of memory: isolation, export and import, erasure, keys by tenant."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memorist import Memory, Scope
from memorist.base.errors import Conflict
from memorist.base.verbs import Endpoint
from memorist.kinds import KINDS
from memorist.kinds.kind import Kind
from memorist.memory import TABLES
from memorist.storage.postgres.engine import PostgresDatabase
from memorist.storage.sqlite.engine import SqliteDatabase
from testkit.databases import ENGINES, new_database
from testkit.examples import EXAMPLES, KEEP, exported, populate
from testkit.interfaces import Setting, library, outcome
from testkit.isolation import STORY_SETTINGS, check_isolation
from testkit.sizes import FULL
from testkit.story import run_story

kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def test_every_kind_is_an_attribute_of_a_scope() -> None:
    assert EXAMPLES.keys() == {kind.name for kind in KINDS}
    assert [kind.name for kind in KINDS] == [
        name for name in vars(Memory.open("memory:").scope()) if name not in ("owner", "services")
    ]


@pytest.mark.slow_on_postgres
def test_a_stranger_finds_and_changes_nothing(open_memory: Callable[..., Memory]) -> None:
    """P11: through every verb, with the owner's ids; a foreign id behaves like an unknown one."""
    memory = open_memory(summary_model="extractive")
    assert check_isolation("library", ["tenant", "user"], memory) > 100


@kinds
def test_another_user_reads_only_tenant_wide_rows(
    memory: Memory, me: Scope, kind: type[Kind]
) -> None:
    """P11: rows of a user are hidden from other users."""
    EXAMPLES[kind.name](me, KEEP)
    bob = exported(memory, tenants=["acme"], user="bob")
    assert KEEP.encode() not in bob
    mine = exported(memory, tenants=["acme"], user="ada")
    for table in kind.tables:
        rows = mine.count(f'"table":"{table.name}"'.encode())
        assert (rows > 0) == bool(table.owned), table.name


# -- export and import -----------------------------------------------------------------------------------------------


@contextmanager
def opened(engine: str, folder: Path, **options: Any) -> Iterator[Memory]:
    """Open an empty database of an engine."""
    if engine == "sqlite":
        with Memory.open(
            f"sqlite:///{folder}/agent.db", settings=STORY_SETTINGS, **options
        ) as memory:
            yield memory
        return
    for url in new_database(engine):
        with Memory.open(url, settings=STORY_SETTINGS, **options) as memory:
            yield memory


def reads_of_story(memory: Memory, folder: Path) -> list[tuple[Endpoint, dict[str, Any]]]:
    """Run the story without its end; return its reads, without searches, which need an index."""
    reads: list[tuple[Endpoint, dict[str, Any]]] = []

    def record(endpoint: Endpoint, arguments: dict[str, Any]) -> None:
        if endpoint.effect == "read" and "query" not in arguments and endpoint.kind:
            reads.append((endpoint, arguments))

    list(
        run_story(library(Setting(memory, folder, ExitStack(), tenant="story")), record, ends=False)
    )
    return reads


@pytest.mark.parametrize("target", ENGINES)
@pytest.mark.parametrize("source", ENGINES)
def test_an_export_round_trips_byte_for_byte(tmp_path: Path, source: str, target: str) -> None:
    """Ids, numbers, times, expiry, versions and raw JSON, from any engine into any other."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with opened(source, tmp_path / "a") as first, opened(target, tmp_path / "b") as two:
        for tenant, user in (("acme", "ada"), ("acme", "bob"), ("z'\\%é", "ada")):
            populate(first.scope(tenant=tenant, user=user, agent="scout"), f"{KEEP} of {user}")
        reads = reads_of_story(first, tmp_path)
        whole = exported(first)
        rows = two.import_(io.BytesIO(whole))
        assert exported(two) == whole
        assert rows.new == sum(rows.rows.values()) == sum(first.counts().values())
        assert two.import_(io.BytesIO(whole)).new == 0
        assert exported(two) == whole
        assert all(count > 0 for count in rows.rows.values()), rows.rows
        assert first.counts() == two.counts()
        results = [
            [
                outcome(library(Setting(memory, tmp_path, ExitStack(), tenant="story")), *read)
                for read in reads
            ]
            for memory in (first, two)
        ]
        assert results[0] == results[1]
        assert [finding for finding in two.verify() if not finding.ok] == []


def test_work_continues_after_an_import(tmp_path: Path, engine: str) -> None:
    """Numbers, versions and keys continue as in the exported database."""
    with opened("sqlite", tmp_path) as services:
        me = services.scope(tenant="acme", user="ada", agent="scout")
        populate(me)
        whole = exported(services)
    (tmp_path / "away").mkdir()
    with opened(engine, tmp_path / "away") as away:
        away.import_(io.BytesIO(whole))
        me = away.scope(tenant="acme", user="ada", agent="scout")
        session = f"session of {KEEP} talking"
        assert me.messages.append(session, "user", "next").seq == 5
        retried = {
            "role": "user",
            "content": f"{KEEP} \\u0000 \x00",
            "created_at": datetime(2001, 2, 3, 4, 5, 6, 789_012, UTC),
        }
        assert me.messages.extend(session, [retried], key="k")[0].seq == 1
        assert (
            me.state.set(
                "again", 1, area=f"session:session of {KEEP} keeping", if_version=2
            ).version
            == 3
        )
        assert me.sessions.active().id == f"session of {KEEP} taking turns"
        with pytest.raises(Conflict):
            away.import_(io.BytesIO(whole))


# -- erasure ----------------------------------------------------------------------------------------------------------


def hashed(memory: Memory, user: str) -> str:
    """Return a hash of all rows of a user."""
    return hashlib.sha256(exported(memory, tenants=["acme"], user=user)).hexdigest()


@pytest.mark.slow_on_postgres
def test_erasing_a_user_leaves_other_users_unchanged(
    open_memory: Callable[..., Memory],
) -> None:
    """Compares hashes in every kind, and checks the receipt; also for user names that contain
    one another. CHAOS=full tries all 49.
    """
    memory = open_memory()
    users = [f"user {n}" for n in range(46 if FULL else 2)] + ["user%", "user_1", "user", "*"]
    for user in users:
        populate(memory.scope(tenant="acme", user=user, agent="scout"), f"{KEEP} of {user}")
    populate(memory.scope(tenant="other", user="user", agent="scout"), f"{KEEP} elsewhere")
    memory.scope(tenant="acme").state.set("of all", KEEP, area="tenant")
    elsewhere = exported(memory, tenants=["other"])
    nothing = hashed(memory, "nobody")
    for gone in ("user", "user%"):
        users.remove(gone)
        before = {user: hashed(memory, user) for user in users}
        assert len(set(before.values())) == len(users)
        counts = memory.counts()
        held = exported(memory, tenants=["acme"], user=gone)
        receipt = memory.scope(tenant="acme").admin.users.erase(gone)
        owned = [table.name for table in TABLES if table.owned]
        assert receipt.removed == {
            name: held.count(f'"table":"{name}"'.encode()) for name in owned
        } | {"stored_responses": 0}
        assert all(receipt.removed[name] for name in owned)
        assert {name: counts[name] - count for name, count in memory.counts().items()} == {
            table.name: receipt.removed.get(table.name, 0) for table in TABLES
        }
        assert {user: hashed(memory, user) for user in users} == before
        assert hashed(memory, gone) == nothing
    assert exported(memory, tenants=["other"]) == elsewhere
    assert memory.scope(tenant="acme").state.get("of all", area="tenant").value == KEEP
    assert set(memory.scope(tenant="acme").admin.users.erase("user").removed.values()) == {0}
    assert [finding for finding in memory.verify() if not finding.ok] == []


# -- keys -------------------------------------------------------------------------------------------------------------


def keys_of(memory: Memory) -> dict[str, list[list[str]]]:
    """Return the columns of every primary, unique and foreign key by table, from the catalog."""
    results: dict[str, list[list[str]]] = {}
    if isinstance(memory.database, SqliteDatabase):
        import apsw

        connection = apsw.Connection(str(memory.database.path))
        for (table,) in connection.execute(
            "select name from sqlite_master where type = 'table'"
        ).fetchall():
            rows = connection.execute(
                "select name from pragma_table_info(?) where pk > 0 order by pk", (table,)
            ).fetchall()
            results[str(table)] = [[str(name) for (name,) in rows]]
            for (index,) in connection.execute(
                'select name from pragma_index_list(?) where "unique"', (table,)
            ).fetchall():
                columns = connection.execute(
                    "select name from pragma_index_info(?) order by seqno", (index,)
                ).fetchall()
                results[str(table)].append([str(name) for (name,) in columns])
            foreign: dict[Any, list[str]] = {}
            for id, column in connection.execute(
                'select id, "from" from pragma_foreign_key_list(?) order by id, seq', (table,)
            ):
                foreign.setdefault(id, []).append(str(column))
            results[str(table)] += foreign.values()
        connection.close()
        return results
    import psycopg

    assert isinstance(memory.database, PostgresDatabase)
    with psycopg.connect(memory.settings.database) as connection_:
        rows_ = connection_.execute(
            """select c.relname, k.conname,
                      array(select a.attname::text from unnest(k.conkey) with ordinality as u(n, place)
                            join pg_attribute a on a.attrelid = c.oid and a.attnum = u.n order by place)
               from pg_class c join pg_namespace s on s.oid = c.relnamespace
               left join pg_constraint k on k.conrelid = c.oid and k.contype in ('p', 'u', 'f')
               where c.relkind = 'r' and s.nspname = %s""",
            ("memorist",),
        ).fetchall()
    for table, _, columns_ in rows_:
        results.setdefault(table, []).append(columns_)
    return results


def test_every_database_key_starts_with_the_tenant(memory: Memory) -> None:
    """No id can be probed, or collide, between tenants."""
    if memory.database.name.startswith("oracle:"):
        pytest.skip("the migrations are the same; this reads the catalogs of the other engines")
    result = keys_of(memory)
    assert result.pop("memorist_schema")
    assert result.pop("leases")[0] == ["tenant", "what"], "who is at work is not memory"
    assert result.pop("job_marks")[0] == ["tenant", "job"], "nor how far jobs are"
    assert result.pop("due_sessions")[0] == ["tenant", "session_id"], "nor what they do again"
    assert result.pop("keys")[0] == ["tenant", "id"], (
        "who may come in is not memory: no export has it, no import brings it"
    )
    assert result.pop("keyed")[0] == ["tenant"]
    assert result.pop("signins")[0] == ["tenant", "digest"], (
        "nor is which browsers came in with them"
    )
    assert result.pop("audit")[0] == ["tenant", "number"], (
        "what was done is not memory: it stays where it was done"
    )
    assert result.pop("stored_responses")[0] == ["tenant", "principal", "route", "key"], (
        "nor is what was answered"
    )
    assert result.pop("event_numbers")[0] == ["tenant"], "nor who is told about changes"
    assert result.pop("events")[0] == ["tenant", "number"]
    assert result.pop("webhooks")[0] == ["tenant", "id"]
    assert result.pop("dead_letters")[0] == ["tenant", "webhook_id", "number"]
    assert result.pop("tenants")[0] == ["tenant"]
    derived = {
        name: result.pop(name)
        for name in list(result)
        if name.startswith(("search_", "index_", "fresh_", "sqlite_"))
    }
    assert derived.keys() >= {
        "search_behind", "index_owners", "index_segments", "index_parts", "index_vectors",
        "index_failures", "fresh_records", "fresh_sessions",
    }, "what is made of the others"  # fmt: skip
    for name, keys in derived.items():
        if not name.startswith("sqlite_"):
            assert all(key[0] == "tenant" for key in keys), (name, keys)
    assert result.keys() == {table.name for table in TABLES}
    for table in TABLES:
        assert all(key[0] == "tenant" for key in result[table.name]), (
            table.name,
            result[table.name],
        )
        assert ["tenant", *table.key] in result[table.name]
        assert len(result[table.name]) >= 2, (
            "and a foreign key to the tenant or to what it belongs to"
        )


def test_every_table_declares_its_user_column() -> None:
    """Erasing a user needs to know the rows of a user in every table."""
    folder = (
        Path(__file__).parent.parent
        / "packages"
        / "memorist"
        / "src"
        / "memorist"
        / "storage"
        / "migrations"
    )
    schema = "".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.sql")))
    for table in TABLES:
        definition = re.search(rf"create table {table.name} \((.*?)\n\) ", schema, re.DOTALL)
        assert definition, table.name
        personal = any(
            column in definition[1]
            for column in (
                "user_id",
                "area {key}",
                "session_id",
                "consolidation_id",
                "document_id",
                "entity_id",
                "fact_id",
                "references threads",
            )
        )
        assert personal == bool(table.owned), table.name

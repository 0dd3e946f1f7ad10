"""Migrations up and down on databases with data, without losing or changing a row (M1, M2, M5, P14,
B35).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from memorist import Memory
from memorist.base.errors import Invalid, SchemaTooNew, StorageError
from memorist.base.settings import Settings
from memorist.storage import migrate
from memorist.storage.migrate import Migration
from memorist.storage.postgres import roles
from testkit.databases import SETTINGS, new_database
from testkit.rows import LATER, TABLES, fill, hashes, raw, widths
from testkit.servers import debian_binaries, modern_binaries

HEAD = migrate.shipped("sqlite")[-1].number
NEWEST = LATER[-1].number


@pytest.fixture
def empty_url(engine: str, tmp_path: Path) -> Iterator[str]:
    """The URL of a database without a schema."""
    if engine == "sqlite":
        yield f"sqlite:///{tmp_path}/empty.db"
    else:
        yield from new_database(engine, "template1")


@pytest.fixture
def url(engine: str, tmp_path: Path, migrated_file: Path) -> Iterator[str]:
    """The URL of a database at the newest version, copied from one that was migrated to it."""
    if engine == "sqlite":
        shutil.copy(migrated_file, tmp_path / "agent.db")
        yield f"sqlite:///{tmp_path}/agent.db"
    else:
        yield from new_database(engine)


def opened(url: str, settings: Settings = SETTINGS, up: bool = False) -> Memory:
    return Memory.open(url, settings=settings, migrate_up=up)


def schema(url: str, engine: str) -> list[str]:
    """Return the complete schema of the database."""
    if engine == "sqlite":
        with raw(url) as database:
            return sorted(
                f"{kind} {name} {sql}"
                for kind, name, sql in database.all("select type, name, sql from sqlite_master")
            )
    binaries = modern_binaries() if engine == "modern" else debian_binaries()
    assert binaries is not None
    env = (
        {**os.environ, "LD_LIBRARY_PATH": str(binaries.parent / "lib")}
        if engine == "modern"
        else dict(os.environ)
    )
    command = [str(binaries / "pg_dump"), "--schema-only", "--schema=memorist", url]
    dump = subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout
    return [
        line
        for line in dump.splitlines()
        if line and not line.startswith(("--", "\\restrict", "\\unrestrict"))
    ]


# -- what is shipped -----------------------------------------------------------------------------------------------


def test_migrations_are_numbered_without_a_gap_on_every_engine() -> None:
    for engine in ("sqlite", "postgres"):
        steps = migrate.shipped(engine)
        assert [step.number for step in steps] == list(range(1, len(steps) + 1))
        assert all(step.up.strip() and step.down.strip() for step in steps)
    assert [(s.number, s.name) for s in migrate.shipped("sqlite")] == [
        (s.number, s.name) for s in migrate.shipped("postgres")
    ]


def test_every_table_of_every_kind_comes_from_a_migration() -> None:
    """B35: a table or column that no migration creates would be missing after an upgrade."""
    for engine in ("sqlite", "postgres"):
        script = "".join(migration.up for migration in migrate.shipped(engine))
        missing = [table for table in TABLES if f"create table {table} " not in script]
        assert missing == []


# -- up and down with data -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [HEAD, HEAD + 1])
def test_up_and_down_from_every_version_changes_no_row(url: str, engine: str, version: int) -> None:
    """A database filled at a version is the same, row by row, at the newest version and back at that
    version.
    """
    with opened(url) as memory:
        known = [*memory.migrations, *LATER]
        for tenant in ("acme", "other"):
            fill(memory, tenant)
        migrate.up(memory.database, known, to=version)
        before = hashes(url)
        shape = schema(url, engine)
        assert all(count for count, _ in before.values())
        columns = widths(url, TABLES)  # the newest version adds some
        applied = migrate.up(memory.database, known)
        assert [migration.number for migration in applied] == [*range(version + 1, NEWEST + 1)]
        assert hashes(url, columns=columns) == before
        assert all(finding.ok for finding in memory.database.health())
        memory.scope(tenant="acme", user="ada", agent="scout").state.set("after", 1)
        after = hashes(url, columns=columns)
        undone = migrate.down(memory.database, known, to=version)
        assert [migration.number for migration in undone] == [*range(NEWEST, version, -1)]
        assert memory.database.version() == version
        assert (hashes(url), schema(url, engine)) == (after, shape)
        me = memory.scope(tenant="acme", user="ada", agent="scout")
        assert me.messages.append("acme ada 1", "user", "goes on").seq == 14


def test_down_to_nothing_and_up_again_under_an_open_memory(url: str) -> None:
    """A process that has cached a tenant writes it again after the tables were recreated."""
    with opened(url) as memory:
        fill(memory)
        migrate.down(memory.database, memory.migrations, to=0)
        assert memory.database.version() == 0
        with raw(url) as database:
            for table in TABLES:
                with pytest.raises(Exception, match="no such table|does not exist"):
                    database.all(f"select 1 from {table}")
        migrate.up(memory.database, memory.migrations)
        assert memory.tenants() == []
        fill(memory)
        assert memory.tenants() == ["acme"]


@pytest.mark.slow_on_postgres
def test_a_fresh_schema_equals_a_migrated_one(url: str, empty_url: str, engine: str) -> None:
    """Every migration goes up, down and up; the later ones go down again."""
    with opened(empty_url) as memory:
        known = [*memory.migrations, *LATER]
        for version in range(1, NEWEST + 1):
            migrate.up(memory.database, known, to=version)
            migrate.down(memory.database, known, to=version - 1)
            migrate.up(memory.database, known, to=version)
        migrate.down(memory.database, known, to=HEAD)
    grown = schema(empty_url, engine)
    assert len(grown) > 8
    assert grown == schema(url, engine)


# -- a migration that changes data (D3)
# ----------------------------------------------------------------------------

TO_JSON = """-- Labels become JSON: {"text": …}. Written only for this test.

-- up
alter table sessions add column label_json {json};
update sessions set label_json = '{"text":"' || replace(replace(label, '\\', '\\\\'), '"', '\\"') || '"}';
alter table sessions drop column label;

-- down
alter table sessions add column label {text} not null default '';
update sessions set label = replace(replace(substr(label_json, 10, length(label_json) - 11), '\\"', '"'), '\\\\', '\\');
alter table sessions drop column label_json;
"""


def migration_users(url: str, engine: str) -> Iterator[Settings]:
    """Yield who migrates: the superuser, and on a server also a plain owner under forced security."""
    yield SETTINGS
    if engine == "sqlite":
        return
    owner = f"r_{uuid.uuid4().hex[:12]}"
    parts = conninfo_to_dict(url)
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"create role {owner} login in role {roles.ROLE}")
        admin.execute(
            f"alter schema memorist owner to {owner}; grant create on database {parts['dbname']} to {owner}"
        )
        for (table,) in admin.execute(
            "select relname from pg_class where relnamespace = 'memorist'::regnamespace and relkind='r'"
        ):
            admin.execute(f"alter table memorist.{table} owner to {owner}")
    yield Settings(**{**vars(SETTINGS), "owner_database": url.replace("postgres@", f"{owner}@", 1)})
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(
            f"reassign owned by {owner} to postgres; drop owned by {owner}; drop role {owner}"
        )


def test_a_data_migration_and_back(url: str, engine: str) -> None:
    """D3: it rewrites every row of every tenant, whoever owns the tables; and back."""
    labels = {
        "plain": "Trip",
        "empty": "",
        "quotes": 'say "hi" \\ there',
        "words": "':tenant' %s {key}",
    }
    with opened(url, up=True) as memory:
        for tenant in ("acme", "other"):
            fill(memory, tenant)
            for id, label in labels.items():
                memory.scope(tenant=tenant, user="ada", agent="scout").sessions.add(id, label=label)
    untouched = [table for table in TABLES if table != "sessions"]
    before = hashes(url, untouched)
    sessions = "select tenant, id, {} from sessions order by tenant, id"
    with raw(url) as database:
        texts = database.all(sessions.format("label"))
    extra = migrate.read(HEAD + 1, "labels_as_json", TO_JSON)
    for settings in migration_users(url, engine):
        with opened(url, settings) as memory:
            known = [*memory.migrations, extra]
            assert [m.number for m in migrate.up(memory.database, known)] == [HEAD + 1]
            with raw(url) as database:
                found = database.all(sessions.format("label_json"))
            assert [(tenant, id, json.loads(label)["text"]) for tenant, id, label in found] == texts
            assert hashes(url, untouched) == before
            assert all(finding.ok for finding in memory.database.health())
            assert [m.number for m in migrate.down(memory.database, known, to=HEAD)] == [HEAD + 1]
            with raw(url) as database:
                assert database.all(sessions.format("label")) == texts
            assert hashes(url, untouched) == before
            assert all(finding.ok for finding in memory.verify())
            assert memory.scope(tenant="acme").sessions.get("quotes").label == 'say "hi" \\ there'


# -- what is refused -----------------------------------------------------------------------------------------------


def test_a_newer_schema_is_rejected_and_untouched(url: str, engine: str) -> None:
    """P14: neither up nor down."""
    with opened(url, up=True) as memory:
        fill(memory)
        newer = Migration(
            HEAD + 1, "future", "create table future (tenant {key} not null);", "drop table future;"
        )
        migrate.up(memory.database, [*memory.migrations, newer])
    before, shape = hashes(url), schema(url, engine)
    with pytest.raises(SchemaTooNew) as error:
        opened(url, up=True)
    assert (error.value.found, error.value.known) == (HEAD + 1, HEAD)
    with opened(url) as memory, pytest.raises(SchemaTooNew):
        migrate.down(memory.database, memory.migrations, to=0)
    assert (hashes(url), schema(url, engine)) == (before, shape)


def test_a_failing_migration_leaves_the_previous_version(url: str, engine: str) -> None:
    """Atomic: its changes to data and schema are rolled back; earlier migrations stay."""
    with opened(url, up=True) as memory:
        fill(memory)
        before, shape = hashes(url), schema(url, engine)
        good = Migration(
            HEAD + 1,
            "good",
            "create table extra (tenant {key} not null, x {int});",
            "drop table extra;",
        )
        bad = Migration(
            HEAD + 2,
            "bad",
            "create table more (tenant {key} not null); update sessions set label = 'x'; drop table extra; nonsense;",
            "drop table no_such_table;",
        )
        known = [*memory.migrations, good, bad]
        with pytest.raises(StorageError):
            migrate.up(memory.database, known)
        assert memory.database.version() == HEAD + 1
        assert hashes(url) == before
        with raw(url) as database:
            assert database.all("select count(*) from extra") == [(0,)]
        with pytest.raises(StorageError):
            migrate.up(memory.database, known)
        assert (
            memory.scope(tenant="acme", user="ada", agent="scout")
            .messages.append("acme ada 1", "user", "works")
            .seq
            == 14
        )
        migrate.down(memory.database, [*memory.migrations, good], to=HEAD)
        assert schema(url, engine) == shape
        undone = Migration(
            HEAD, memory.migrations[-1].name, "", "drop table interactions; nonsense;"
        )
        with pytest.raises(StorageError):
            migrate.down(memory.database, [*memory.migrations[:-1], undone], to=HEAD - 1)
        assert memory.database.version() == HEAD
        assert schema(url, engine) == shape


@pytest.mark.parametrize("to", [-1, HEAD + 1, 99])
def test_an_unknown_version_is_rejected(url: str, to: int) -> None:
    with opened(url, up=True) as memory:
        for go in (migrate.up, migrate.down):
            with pytest.raises(Invalid, match="version"):
                go(memory.database, memory.migrations, to)
        assert memory.database.version() == HEAD


def test_up_reports_its_steps_and_is_idempotent(empty_url: str) -> None:
    with opened(empty_url) as memory:
        assert memory.database.version() == 0
        known = [*memory.migrations, *LATER]
        assert [m.number for m in migrate.up(memory.database, known, to=HEAD + 1)] == [
            *range(1, HEAD + 2)
        ]
        assert [m.number for m in migrate.up(memory.database, known)] == [NEWEST]
        assert migrate.up(memory.database, known) == []
        assert migrate.down(memory.database, known, to=NEWEST) == []
        assert memory.database.version() == NEWEST


# -- files ---------------------------------------------------------------------------------------------------------


def test_a_migration_file_has_an_up_and_a_down_part() -> None:
    text = "-- Why.\n--\n-- up and down in a comment are words\n\n-- up\ncreate;\n-- upwards\n\n-- down\ndrop;\n"
    step = migrate.read(7, "x", text)
    assert (step.number, step.name, step.up, step.down) == (
        7,
        "x",
        "create;\n-- upwards\n\n",
        "drop;\n",
    )
    assert (step.step(up=True).script, step.step(up=False).script) == (step.up, step.down)
    for broken in (
        "",
        "-- up\nx",
        "-- down\nx\n-- up\ny\n",
        "--up\nx\n--down\ny\n",
        "-- Up\nx\n-- Down\ny\n",
    ):
        with pytest.raises(ValueError, match=re.escape("migration 0007 x")):
            migrate.read(7, "x", broken)


def test_each_engine_adds_its_own_file_to_the_shared_one(tmp_path: Path) -> None:
    for name, word in {
        "0002_b.sqlite.sql": "file",
        "0002_b.postgres.sql": "server",
        "0001_a.postgres.sql": "more",
        "0001_a.sql": "both",
        "0010_c.sql": "later",
        "README.md": "no",
        "1_short.sql": "no",
        "0003_x.oracle.sql": "no",
    }.items():
        (tmp_path / name).write_text(f"-- up\n{word};\n-- down\nno {word};\n")
    steps = {
        engine: [
            (step.number, step.name, step.up, step.down)
            for step in migrate.read_folders(engine, tmp_path)
        ]
        for engine in ("sqlite", "postgres")
    }
    assert steps == {
        "sqlite": [
            (1, "a", "both;\n", "no both;\n"),
            (2, "b", "file;\n", "no file;\n"),
            (10, "c", "later;\n", "no later;\n"),
        ],
        "postgres": [
            (1, "a", "both;\nmore;\n", "no more;\nno both;\n"),
            (2, "b", "server;\n", "no server;\n"),
            (10, "c", "later;\n", "no later;\n"),
        ],
    }


# -- two versions at the same time ---------------------------------------------------------------------

FIRST_COMPATIBLE = 3
"""The first migration that servers of the version before must survive: before the first release,
0002 replaced the search index."""
_BREAKS_OLDER_SERVERS = re.compile(
    r"""drop\s+(?:table|column) | \brename\b | set\s+(?:not\s+null|data\s+type)
        | alter\s+column\s+\w+\s+type | create\s+unique\s+index | add\s+constraint
        | add\s+column\s+(?:(?!default)[^;,])*not\s+null(?:(?!default)[^;,])*(?:;|,|\Z)""",
    re.VERBOSE | re.IGNORECASE,
)


def breaking_statement(script: str) -> str:
    """Return the first part of a script that servers of an older version do not survive, or ""."""
    match = _BREAKS_OLDER_SERVERS.search(re.sub("--.*", "", script))
    return match[0] if match else ""


def test_servers_of_the_version_before_survive_a_migration() -> None:
    """While servers are upgraded one by one, the old ones use the new schema.

    If a change cannot be made this way, make it in two releases: add the new form in one, and
    remove the old form in the next.
    """
    for migration in migrate.shipped("postgres"):
        if migration.number >= FIRST_COMPATIBLE:
            assert breaking_statement(migration.up) == "", f"{migration.number} {migration.name}"


@pytest.mark.parametrize(
    ("script", "breaks"),
    [
        ("alter table a drop column b;", True),
        ("drop table a;", True),
        ("alter table a rename to b;", True),
        ("alter table a add column b {int} not null;", True),
        ("alter table a alter column b set not null;", True),
        ("create unique index a_once on a (tenant, b);", True),
        ("alter table a add column b {int} not null default 0;", False),
        ("alter table a add column b {int} default 0 not null;", False),
        ("alter table a add column b {int}; create table c (d {int} not null);", False),
        ("create index a_by_b on a (tenant, b) where b is not null; drop index a_by_c;", False),
    ],
)
def test_statements_that_older_servers_do_not_survive(script: str, breaks: bool) -> None:
    assert bool(breaking_statement(script)) == breaks

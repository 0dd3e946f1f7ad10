"""`erase --compact` on PostgreSQL: no word of an erased user stays in the data files."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from memorist import Memory
from memorist.base.errors import Busy, Invalid, SettingsError
from memorist.storage.postgres import rewrite
from memorist.storage.postgres.roles import ROLE
from testkit.commands import Run, answer
from testkit.databases import SETTINGS, new_database
from testkit.examples import populate

WORD = "zqjcanaryofada"
pytestmark = pytest.mark.parametrize("engine", ["modern", "debian"], indirect=True)


@pytest.fixture
def url(engine: str) -> Iterator[str]:
    """A database of its own, whose files no other test uses."""
    yield from new_database(engine)


def files_with_word(url: str) -> set[str]:
    """Return the names of the data files with the word, and which tables they belong to."""
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("checkpoint")
        (folder, oid), *_ = admin.execute(
            """select current_setting('data_directory'), oid::text from pg_database
               where datname = current_database()"""
        ).fetchall()
    files = list((Path(folder) / "base" / oid).iterdir())
    assert len(files) > 300
    return {path.name for path in files if WORD.encode() in path.read_bytes()}


def tables_of(url: str, files: set[str]) -> set[str]:
    """Return the tables that files belong to."""
    with psycopg.connect(url) as admin:
        rows = admin.execute(
            "select relname from pg_class where pg_relation_filenode(oid)::text = any(%s)",
            [[name.partition(".")[0] for name in files]],
        ).fetchall()
    return {name for (name,) in rows}


def fill(url: str) -> None:
    """Write every kind for two users, with versions and statistics that have the word of one."""
    with Memory.open(url, settings=replace(SETTINGS, summary_model="extractive")) as memory:
        for user, word in (("ada", WORD), ("bob", "another")):
            me = memory.scope(tenant="acme", user=user, agent="scout")
            populate(me, word)
            for number in range(30):
                me.state.set("changed", f"{word} {number}")
            me.admin.jobs.run()
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("analyze")


def remove_shared_rows(url: str) -> None:
    """Remove the rows with the word that belong to the tenant and not to the user."""
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("set session_replication_role = replica")
        for table in ("board_members", "boards", "entries", "agents"):
            admin.execute(
                f"delete from memorist.{table} shared where strpos(shared::text, %s) > 0", [WORD]
            )
        # As text, bytes are hexadecimal.
        has_word = "strpos(t::text, %s) > 0 or strpos(t::text, %s) > 0"
        values = [WORD, WORD.encode().hex()]
        tables = admin.execute("select tablename from pg_tables where schemaname = 'memorist'")
        for (table,) in tables.fetchall():
            if table.startswith(("index_", "fresh_")):  # the index of what was removed above
                admin.execute(f"delete from memorist.{table} t where {has_word}", values)
            count = f"select count(*) from memorist.{table} t where {has_word}"
            assert admin.execute(count, values).fetchone() == (0,), table


def test_nothing_is_left_in_the_data_files(run: Run, url: str) -> None:
    fill(url)
    filled = tables_of(url, files_with_word(url))
    assert {"messages", "facts", "notes", "entries", "pg_statistic"} <= filled
    assert len(filled) > 40
    done = answer(run("memorist erase --user ada --tenant acme --yes --json"))
    assert done["compacted"] is False
    assert any("data files" in place for place in done["not_reached"])  # type: ignore[attr-defined]
    remove_shared_rows(url)
    assert "messages" in tables_of(url, files_with_word(url))
    # The user was erased before: the command removes nothing more, and rewrites the tables.
    shown = run("memorist erase --user ada --tenant acme --compact --yes --json")
    assert "rewrites the" in shown.stderr
    again = answer(shown)
    assert again["compacted"] is True
    left = files_with_word(url)
    assert left == set(), tables_of(url, left)
    places = str(again["not_reached"])
    assert "data files" not in places
    assert all(word in places for word in ("max_wal_size is", "archive_mode is off", "backups"))
    with Memory.open(url, settings=SETTINGS) as memory:
        assert [finding for finding in memory.verify() if not finding.ok] == []
        assert memory.scope(tenant="acme", user="bob").search("another").hits


COMPACT = "memorist erase --user ada --tenant acme --compact --json"


def add_session(memory: Memory) -> None:
    me = memory.scope(tenant="acme", user="ada", agent="scout")
    me.messages.append(me.sessions.resume().id, "user", WORD)


def test_it_says_what_it_locks_before_it_erases(run: Run, memory: Memory) -> None:
    add_session(memory)
    refused = run(COMPACT)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "rewrites the" in refused.stderr
    assert "all tenants" in refused.stderr
    assert memory.counts()["messages"] == 1


def test_an_agent_is_erased_from_the_data_files(run: Run, url: str, memory: Memory) -> None:
    """No message is left, so `analyze` keeps the statistics of the table."""
    me = memory.scope(tenant="acme", user="ada", agent="scout")
    session = me.sessions.resume().id
    me.messages.extend(session, [{"role": "user", "content": f"{WORD} {n}"} for n in range(5)])
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("analyze")
    assert {"messages", "pg_statistic"} <= tables_of(url, files_with_word(url))
    receipt = answer(run("memorist erase --agent scout --tenant acme --compact --yes --json"))
    assert (receipt["agent"], receipt["compacted"]) == ("scout", True)
    assert "max_wal_size is" in str(receipt["not_reached"])
    assert files_with_word(url) == set()
    later = memory.scope(tenant="acme").admin.users.erase_agent("critic")
    assert not later.compacted
    assert {*rewrite.REMNANTS} < {*later.not_reached}


@pytest.mark.parametrize(
    "statement",
    [
        "set transaction isolation level repeatable read; select 1",
        "lock table memorist.messages in access share mode",
    ],
)
def test_an_open_transaction_is_waited_for(
    run: Run, url: str, memory: Memory, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    """It could still see the deleted rows, so a rewrite would keep them; or it holds a lock."""
    add_session(memory)
    with psycopg.connect(url) as reader, monkeypatch.context() as patch:
        patch.setattr(rewrite, "WAIT_SECONDS", 0)
        reader.execute(statement)
        refused = run(f"{COMPACT} --yes")
        assert refused.returncode == Busy.exit_code
        receipt = json.loads(refused.stdout)  # the rows are erased
        assert (receipt["removed"]["messages"], receipt["compacted"]) == (1, False)
        assert files_with_word(url)
        reader.rollback()
        with ThreadPoolExecutor() as pool:
            reader.execute(statement)
            patch.setattr(rewrite, "WAIT_SECONDS", 60)
            waiting = pool.submit(run, f"{COMPACT} --yes")
            while not blocked_or_rewriting(url):
                assert not waiting.done()
            reader.rollback()
            assert answer(waiting.result())["compacted"] is True
    assert files_with_word(url) == set()


def blocked_or_rewriting(url: str) -> bool:
    """Return whether another connection runs `vacuum`."""
    with psycopg.connect(url, autocommit=True) as admin:
        row = admin.execute(
            """select count(*) from pg_stat_activity
               where datname = current_database() and query like 'vacuum (full%'"""
        ).fetchone()
    return row != (0,)


def test_only_the_owner_may_rewrite(url: str, run: Run, memory: Memory) -> None:
    add_session(memory)
    names = [f"r_{uuid.uuid4().hex[:12]}" for _ in range(2)]
    owner, application = names
    with psycopg.connect(url, autocommit=True) as admin:
        for name in names:
            admin.execute(f"create role {name} login in role {ROLE}")
        admin.execute(f"alter schema memorist owner to {owner}")
        tables = admin.execute("select tablename from pg_tables where schemaname = 'memorist'")
        for (table,) in tables.fetchall():
            admin.execute(f"alter table memorist.{table} owner to {owner}")
    as_application, as_owner = (url.replace("postgres@", f"{name}@", 1) for name in names[::-1])
    try:
        refused = run(f"{COMPACT} --yes", MEMORIST_DATABASE=as_application)
        assert (refused.returncode, refused.stdout) == (SettingsError.exit_code, "")
        assert "owner_database" in refused.stderr
        assert owner in refused.stderr
        assert memory.counts()["messages"] == 1
        settings = {"MEMORIST_DATABASE": as_application, "MEMORIST_OWNER_DATABASE": as_owner}
        receipt = answer(run(f"{COMPACT} --yes", **settings))
        assert receipt["compacted"] is True
        assert "pg_statistic" in str(receipt["not_reached"])
        assert files_with_word(url) == set()
    finally:
        with psycopg.connect(url, autocommit=True) as admin:
            for name in names:
                admin.execute(f"reassign owned by {name} to postgres; drop owned by {name}")
                admin.execute(f"drop role {name}")


def test_a_cluster_is_refused_before_anything_is_erased(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Citus is not installed here; the engine asks for it when it connects."""
    monkeypatch.setattr(memory.database, "is_cluster", True)
    with pytest.raises(Invalid) as error:
        memory.database.plan_rewrite()
    assert error.value.field == "--compact"

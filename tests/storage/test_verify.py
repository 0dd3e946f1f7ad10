"""Verify: silent about a healthy database, and finds each kind of damage made here (P17, D5)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from memorist import Memory, NewMessage
from memorist.base.errors import Invalid
from memorist.memory import TABLES
from memorist.storage import migrate
from memorist.storage.postgres import roles, row_security
from memorist.storage.transfer import verify
from testkit.databases import SERVERS, SETTINGS
from testkit.rows import fill, raw

S = "session_id = 'acme ada 1'"


def problems(memory: Memory) -> dict[str, str]:
    return {finding.check: finding.problem for finding in memory.verify() if not finding.ok}


def test_a_healthy_database_has_no_problems(memory: Memory) -> None:
    assert problems(memory) == {}
    for tenant in ("acme", "other"):
        fill(memory, tenant)
    assert problems(memory) == {}
    checks = [finding.check for finding in memory.verify()]
    assert len(checks) == len(set(checks)) > 6


def test_an_interrupted_run_can_be_continued(memory: Memory) -> None:
    fill(memory, "acme")
    whole = memory.verify()
    received: list[tuple[int, int]] = []

    def interrupt(done: int, total: int) -> None:
        received.append((done, total))
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        memory.verify(progress=interrupt)
    assert [done for done, _ in received] == [1, 2, 3, 4, 5]
    rest = memory.verify(start=6, progress=lambda done, total: received.append((done, total)))
    assert 0 < len(rest) < len(whole)
    assert rest == whole[-len(rest) :]
    assert received[-1] == (received[0][1], received[0][1])
    assert memory.verify(start=1) == whole
    for start in (0, received[0][1] + 1):
        with pytest.raises(Invalid):
            memory.verify(start=start)


def test_counts_of_large_tables_are_estimated(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counting reads at most some thousand rows of each table, however many there are."""
    for tenant in ("acme", "other"):
        me = memory.scope(tenant=tenant, user="ada", agent="scout")
        me.sessions.add("s")
        me.messages.extend("s", [NewMessage("user", "Hello.")] * 300)
    monkeypatch.setattr(verify, "MAX_COUNTED", 200)
    exact = memory.counts(exact=True)
    assert exact["messages"] == 600
    monkeypatch.setattr(verify, "MAX_COUNTED", 300)
    assert memory.counts() == exact  # exactly as many as are counted
    monkeypatch.setattr(verify, "MAX_COUNTED", 200)
    estimated = memory.counts()
    assert 400 <= estimated.pop("messages") <= 1000
    assert estimated == {name: size for name, size in exact.items() if name != "messages"}
    for table in TABLES:
        assert memory.database.estimate_rows("nobody", table) == 0


GAPS = "messages are numbered without a gap"
KEYS = "an idempotency key refers to messages of its session"
SUMMARY = "a summary covers no more messages than there are"
ACTIVE = "an active session belongs to its user and agent"
ORPHANS = "every message has its session"
OWNER = "every state item has its owner"
DAMAGES: dict[str, tuple[str, str, str]] = {
    "a gap in the middle": (f"delete from messages where {S} and seq = 5", GAPS, "acme: session acme ada 1"),
    "several gaps": (f"delete from messages where {S} and seq in (3, 4, 7)", GAPS, "has 10 messages from 1 to 13"),
    "the first is missing": (f"delete from messages where {S} and seq = 1", GAPS, "begins at 1"),
    "first_seq is wrong": ("update sessions set first_seq = 3 where id = 'acme bob 1'", GAPS, "acme: session acme bob 1"),
    "a number beside the others": (f"update messages set seq = 99 where {S} and seq = 13", GAPS, "to 99"),
    "a key without its messages": (f"delete from messages where {S} and seq = 12", KEYS, "key kept as it came"),
    "a key without any messages": (f"delete from messages where {S}", KEYS, "acme ada 1"),
    "a summary of messages that are not there": (
        "update sessions set summarized_count = 14 where id = 'acme ada 1'", SUMMARY, "session acme ada 1"),
    "a summary of less than nothing": (
        "update sessions set summarized_count = -1 where id = 'acme ada 1'", SUMMARY, "session acme ada 1"),
    "somebody else's session is active": (
        "update active_sessions set active_session_id = 'acme bob 0'"
        " where tenant = 'acme' and user_id = 'ada'", ACTIVE, "ada / scout"),
    "another agent's session is active": (
        "update sessions set agent = 'cook' where tenant = 'acme' and user_id = 'ada'", ACTIVE, "ada / scout"),
    "state of nobody": (
        "update state set user_id = null where tenant = 'acme' and area = 'user:ada' and key = 'key 1'",
        OWNER, "user:ada key 1"),
    "state of somebody else": (
        "update state set user_id = 'bob' where tenant = 'acme' and area = 'user:ada' and key = 'key 1'",
        OWNER, "user:ada key 1"),
    "messages of no session": ("delete from sessions where id = 'acme ada 1'", ORPHANS, "acme: session acme ada 1"),
    "no such session is active": ("delete from sessions where id = 'acme ada 1'", ACTIVE, "acme: ada / scout"),
    "state of no session": ("delete from sessions where id = 'acme ada 1'", OWNER, "session:acme ada 1 of the session"),
}  # fmt: skip


@pytest.fixture
def filled(memory: Memory) -> Memory:
    """A healthy database of two tenants."""
    for tenant in ("acme", "other"):
        fill(memory, tenant)
    return memory


def test_every_kind_of_damage_is_found_and_named(filled: Memory, url: str) -> None:
    """Per damage: damage, verify, repair, verify."""
    with raw(url) as database:
        for name, (damage, check, expected) in DAMAGES.items():
            table = damage.removeprefix("update ").removeprefix("delete from ").split(maxsplit=1)[0]
            keep = database.all(f"select * from {table}")
            database.all(damage)
            found = problems(filled)
            assert expected in found.get(check, ""), (name, found)
            assert all("other: " not in problem for problem in found.values()), name
            rows = (", ".join(literal(value) for value in row) for row in keep)
            database.all(f"delete from {table}")
            database.all(f"insert into {table} values ({'), ('.join(rows)})")
        assert problems(filled) == {}


def literal(value: object) -> str:
    if value is None:
        return "null"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def test_a_long_list_of_problems_is_truncated_and_counted(memory: Memory, url: str) -> None:
    me = memory.scope(tenant="acme", user="ada", agent="scout")
    for n in range(25):
        me.sessions.add(f"s{n:02}")
        me.messages.extend(f"s{n:02}", [{"role": "user", "content": "x"}] * 3)
    with raw(url) as database:
        database.all("delete from messages where seq = 2")
    found = problems(memory)[GAPS]
    assert found.count(" begins at ") == 20
    assert found.endswith(" and 5 more")


def test_an_outdated_schema_is_found(memory: Memory, url: str) -> None:
    migrate.down(memory.database, memory.migrations, to=0)
    with Memory.open(url, settings=SETTINGS, migrate_up=False) as behind:
        assert problems(behind) == {
            "the schema is up to date": f"it is at 0 of {len(memory.migrations)}"
        }
        assert not all(finding.ok for finding in behind.verify(start=5))
    with Memory.open(url, settings=SETTINGS) as current:
        assert problems(current) == {}


# -- SQLite --------------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


def on_file(file: Path, work: Callable[[Memory], object] = fill) -> dict[str, str]:
    """Open the file, run work, and verify."""
    with Memory.open(f"sqlite:///{file}", settings=SETTINGS) as memory:
        work(memory)
        return problems(memory)


def nothing(_: Memory) -> None:
    """Only open it."""


@pytest.mark.parametrize(
    ("statement", "table"),
    [
        ("delete from sessions where id = 'acme ada 1'", "sessions"),
        ("delete from tenants where tenant = 'acme'", "tenants"),
        (
            "update messages set session_id = 'nowhere' where seq = 1 and session_id = 'acme ada 1'",
            "messages",
        ),
        ("update state set session_id = 'nowhere' where session_id = 'acme ada 1'", "state"),
    ],
)
def test_an_orphan_is_found(file: Path, statement: str, table: str) -> None:
    assert on_file(file) == {}
    with raw(f"sqlite:///{file}") as database:
        database.all(statement)
    assert "without a parent" in on_file(file, nothing)["every reference has its row"], table


def test_a_damaged_index_is_found(file: Path) -> None:
    """Rows missing from an index, by writing the table while the schema hides the index."""
    on_file(file)
    with raw(f"sqlite:///{file}") as database:
        database.all("pragma writable_schema = on")
        ((sql,),) = database.all("select sql from sqlite_master where name = 'sessions_by_user'")
        page = database.all("select rootpage from sqlite_master where name = 'sessions_by_user'")[
            0
        ][0]
        database.all("delete from sqlite_master where name = 'sessions_by_user'")
    with raw(f"sqlite:///{file}") as database:
        database.all("update sessions set user_id = 'zoe' where id = 'acme ada 1'")
        database.all("pragma writable_schema = on")
        database.all(
            f"insert into sqlite_master values ('index', 'sessions_by_user', 'sessions', {page}, '{sql}')"
        )
    assert "sessions_by_user" in on_file(file, nothing)["pages and indexes are intact"]


def test_a_file_accessible_to_others_is_found(file: Path) -> None:
    on_file(file)
    file.chmod(0o644)
    assert "chmod 600" in on_file(file, nothing)["only its owner can open the file"]


# -- PostgreSQL ----------------------------------------------------------------------------------------------------

RLS = "row-level security is forced on every table"
ON_A_SERVER: dict[str, tuple[str, str, str, str]] = {
    "switched off": ("alter table messages disable row level security", RLS, "messages",
                     "alter table messages enable row level security"),
    "not forced": (
        "alter table state no force row level security", RLS, "state", "alter table state force row level security"),
    "no policy": ("drop policy tenant on agents", RLS, "agents",
                  f"create policy tenant on agents using ({row_security.OWN_ROWS}) with check ({row_security.OWN_ROWS})"),
    "a policy without a guard": (
        "alter policy tenant on agents using (tenant = nullif(current_setting('memorist.tenant', true), ''))", RLS, "agents",
        f"alter policy tenant on agents using ({row_security.OWN_ROWS})"),
    "a new table without it": ("create table extra (tenant text)", RLS, "extra", "drop table extra"),
    "an invalid index": (
        "update pg_index set indisvalid = false where indexrelid = 'sessions_by_user'::regclass",
        "every index is valid", "sessions_by_user",
        "update pg_index set indisvalid = true where indexrelid = 'sessions_by_user'::regclass"),
    "a view": ("create view everything as select * from messages", "no view or function goes round it", "everything",
               "drop view everything"),
    "a function": (
        "create function spy() returns bigint language sql security definer as 'select count(*) from memorist.messages'",
        "no view or function goes round it", "spy", "drop function spy"),
    "an owner who works": (f"alter table signins owner to {roles.ROLE}", "the working role owns no table",
                           "signins", "alter table signins owner to postgres"),
}  # fmt: skip


@pytest.mark.parametrize("engine", SERVERS, indirect=True)
def test_broken_isolation_on_a_server_is_found(filled: Memory, url: str) -> None:
    with raw(url) as database:
        for name, (damage, check, expected, mending) in ON_A_SERVER.items():
            database.all(damage)
            found = problems(filled)
            assert expected in found.get(check, ""), (name, found)
            assert set(found) == {check}, name
            database.all(mending)
            assert problems(filled) == {}, name


@pytest.mark.parametrize("engine", SERVERS, indirect=True)
def test_asynchronous_commit_is_found(filled: Memory, url: str) -> None:
    """P1: an acknowledged write would not survive a power cut."""
    with raw(url) as database:
        ((name,),) = database.all("select current_database()")
        database.all(f"alter database {name} set synchronous_commit = off")
        assert problems(filled) == {"a commit waits for the disk": "synchronous_commit is off"}
        database.all(f"alter database {name} reset synchronous_commit")
    assert problems(filled) == {}


@pytest.mark.parametrize("engine", SERVERS, indirect=True)
def test_a_working_role_with_too_many_privileges_is_found(url: str) -> None:
    """The other tests use the same role, so the privilege is not committed."""
    with psycopg.connect(url) as connection:
        connection.execute(f"set search_path = {roles.SCHEMA}")
        assert not any(finding.problem for finding in row_security.findings(connection))
        connection.execute(f"alter role {roles.ROLE} bypassrls")
        (finding,) = [finding for finding in row_security.findings(connection) if finding.problem]
        connection.rollback()
    assert finding.check == "the working role cannot go round it"
    assert f"the role {roles.ROLE} is a superuser or bypasses" in finding.problem

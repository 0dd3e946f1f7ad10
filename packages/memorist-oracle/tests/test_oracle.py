"""The Oracle engine against a double of python-oracledb, and texts through H2.

The double answers as the driver's documentation says: cursors, large objects, arrays of `returning`,
batch errors, and errors with their codes. It records what the engine sends.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import oracledb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorist import Memory
from memorist.base.errors import (
    Busy,
    Full,
    InDoubt,
    MemoristError,
    OldDatabase,
    ReadOnly,
    SettingsError,
    StorageError,
    Unreachable,
)
from memorist.base.settings import Settings
from memorist.cli import main
from memorist.storage import migrate
from memorist.storage.connect import foreign
from memorist.storage.database import Step
from memorist_oracle import connections, security
from memorist_oracle.address import Address
from memorist_oracle.connections import translate_error
from memorist_oracle.engine import LOCK, MIGRATION_BUCKET, OracleDatabase
from memorist_oracle.migrations import shipped
from testkit.h2 import H2Database, oracle_error
from testkit.oracle import H2_URL, oracle_database
from testkit.rows import TABLES

URL = "oracle://memorist_app:secret@db:1521/orclpdb"
OWNED = Settings(owner_database="oracle://memorist:secret@db:1521/orclpdb")


class Lob:
    """A large object, as output variables return it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def read(self) -> str:
        return self.text


class Variable:
    """An output variable; for `returning` it has a list of values."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self.values: list[Any] = []

    def getvalue(self, position: int = 0) -> list[Any]:
        return self.values


class Server:
    """What the double answers to each statement, by a pattern, and what it was sent."""

    version = "19.23.0.0.0"

    def __init__(self) -> None:
        self.answers: list[tuple[str, Any]] = [
            ("systimestamp", [(datetime(2026, 1, 1),)]),
            ("all_policies", [(0,)]),
            ("session_privs", [(0,)]),
            ('max\\("version"\\)', [(0,)]),
            ('1 from "memorist_locks"', [(1,)]),
            ('"memorist_locks" .* for update', [(MIGRATION_BUCKET,)]),
            ('"applied_at", "progress"', []),
        ]
        self.sent: list[tuple[str, Any]] = []
        self.sizes: list[dict[str, Any]] = []
        self.opened: list[Connection] = []
        self.on_commit: list[Exception] = []
        self.on_rollback: list[BaseException] = []

    def answer(self, pattern: str, *results: Any) -> None:
        """Answer statements that match with these results in turn, the last one for ever."""
        self.answers.insert(0, (pattern, list(results)))

    def result(self, sql: str) -> Any:
        for pattern, results in self.answers:
            if re.search(pattern, sql):
                if results and isinstance(results[0], list | Exception):
                    return results.pop(0) if len(results) > 1 else results[0]
                return results
        return None

    def statements(self, pattern: str) -> list[str]:
        return [sql for sql, _ in self.sent if re.search(pattern, sql)]


class Connection:
    """A connection of the double."""

    def __init__(self, server: Server, address: Address) -> None:
        self.server = server
        self.address = address
        self.version = server.version
        self.call_timeout = 0
        self.module = self.client_identifier = ""
        self.is_closed = False
        server.opened.append(self)

    def cursor(self) -> Cursor:
        return Cursor(self)

    def commit(self) -> None:
        self.server.sent.append(("commit", None))
        if self.server.on_commit:
            raise self.server.on_commit.pop(0)

    def rollback(self) -> None:
        self.server.sent.append(("rollback", None))
        if self.server.on_rollback:
            raise self.server.on_rollback.pop(0)

    def ping(self) -> None:
        self.server.sent.append(("ping", None))

    def is_healthy(self) -> bool:
        return not self.is_closed

    def close(self) -> None:
        self.is_closed = True


class Cursor:
    """A cursor of the double."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.description: list[tuple[str]] | None = None
        self.rowcount = 0
        self.arraysize = 100
        self.warning: Exception | None = None
        self.rows: list[Any] = []
        self.batch_errors: list[Any] = []

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def var(self, kind: Any) -> Variable:
        return Variable(kind)

    def setinputsizes(self, **sizes: Any) -> None:
        self.connection.server.sizes.append(sizes)

    def execute(self, sql: str, values: Any = None) -> None:
        server = self.connection.server
        server.sent.append((sql, values))
        result = server.result(sql)
        self.warning = None
        if isinstance(result, oracledb.Warning):
            self.warning, result = result, None
        if isinstance(result, Exception):
            raise result
        outputs = [value for value in (values or {}).values() if isinstance(value, Variable)]
        self.rows = list(result or [])
        self.rowcount = len(self.rows)
        self.description = None if outputs or result is None else [("c",)]
        for place, output in enumerate(outputs):
            output.values = [row[place] for row in self.rows]

    def executemany(self, sql: str, rows: list[Any], *, batcherrors: bool = False) -> None:
        self.connection.server.sent.append((sql, rows))
        result = self.connection.server.result(sql)
        self.batch_errors = [error.args[0] for error in result or []] if batcherrors else []

    def getbatcherrors(self) -> list[Any]:
        return self.batch_errors

    def fetchone(self) -> Any:
        return self.rows.pop(0) if self.rows else None

    def fetchall(self) -> list[Any]:
        return self.rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server()
    monkeypatch.setattr(connections, "open_connection", lambda address: Connection(server, address))
    return server


def error(code: str, cls: type[oracledb.Error] = oracledb.DatabaseError) -> oracledb.Error:
    return oracle_error(cls, f"{code}: what the server says")


def opened(settings: Settings | None = None, wait_seconds: float = 30.0) -> OracleDatabase:
    return OracleDatabase(URL, settings or Settings(), wait_seconds=wait_seconds)


DELETE = "delete from state where tenant = :tenant and key = :key returning key, value, version"
PUT = """insert into notes (tenant, user_id, agent, version, text, tokens, created_at, updated_at, checksum)
         values (:tenant, '', '', 1, :text, 0, :now, :now, 0)"""


# -- errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "expected", "hint"),
    [
        ("ORA-00001", StorageError, ""),
        ("ORA-00060", Busy, ""),
        ("ORA-01555", Busy, ""),
        ("ORA-03113", Unreachable, ""),
        ("ORA-12541", Unreachable, ""),
        ("DPY-4011", Unreachable, ""),
        ("DPY-4024", Busy, ""),
        ("ORA-12514", Unreachable, "check the service name"),
        ("DPY-6001", Unreachable, "check the service name"),
        ("ORA-01017", SettingsError, "check the user and the password"),
        ("ORA-01045", SettingsError, "grant create session"),
        ("DPY-3010", SettingsError, "19c or newer"),
        ("ORA-01031", StorageError, "lists the privileges"),
        ("ORA-00942", StorageError, "memorist migrate up"),
        ("ORA-01653", Full, ""),
        ("ORA-01456", ReadOnly, ""),
        ("ORA-12899", StorageError, "longer than its column"),
    ],
)
def test_errors_are_typed_and_say_what_to_do(
    code: str, expected: type[MemoristError], hint: str
) -> None:
    translated = translate_error(error(code))
    assert type(translated) is expected
    assert code in str(translated)
    assert hint in str(translated)


def test_the_cause_of_a_failed_connection_decides_the_hint() -> None:
    message = "DPY-6005: cannot connect to database\nDPY-6001: Service is not registered"
    translated = translate_error(oracle_error(oracledb.OperationalError, message))
    assert type(translated) is Unreachable
    assert "check the service name" in str(translated)


def test_a_character_set_that_cannot_store_every_text_is_an_error(server: Server) -> None:
    server.answer("NLS_CHARACTERSET", [("WE8MSWIN1252",)])
    with pytest.raises(SettingsError, match="WE8MSWIN1252.*must be AL32UTF8"):
        opened()
    assert all(connection.is_closed for connection in server.opened)


def test_a_deadlock_is_retried(server: Server) -> None:
    database = opened()
    server.answer('INTO "notes"', error("ORA-00060"), [])
    database.write("acme", lambda tx: tx.run(PUT, text="x"))
    assert len(server.statements('INTO "notes"')) == 2
    assert len(server.statements("rollback")) == 1


def test_a_lost_connection_is_replaced(server: Server) -> None:
    database = opened()
    server.answer('FROM "notes"', error("ORA-03113"), [(1,)])
    sql = "select version from notes where tenant = :tenant"
    assert database.read("acme", lambda tx: tx.all(sql)) == [(1,)]
    assert [connection.is_closed for connection in server.opened] == [True, True, False]


def test_a_server_that_stays_away_is_unreachable(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = opened(wait_seconds=0.1)

    def refuse(address: Address) -> None:
        raise error("ORA-12541", oracledb.OperationalError)

    monkeypatch.setattr(connections, "open_connection", refuse)
    with pytest.raises(Unreachable, match="ORA-12541"):
        database.read("acme", lambda tx: None)


def test_a_connection_that_is_lost_in_the_commit_leaves_doubt(server: Server) -> None:
    database = opened()
    server.on_commit = [error("ORA-03113")]
    with pytest.raises(InDoubt):
        database.write("acme", lambda tx: tx.run(PUT, text="x"))
    server.on_commit = [error("ORA-03113")]
    database.write("acme", lambda tx: tx.run(PUT, text="x"), idempotent=True)


def test_a_commit_without_an_answer_leaves_doubt(server: Server) -> None:
    """The server may have committed before the driver stopped waiting."""
    database = opened()
    server.on_commit = [error("DPY-4024")]
    with pytest.raises(InDoubt):
        database.write("acme", lambda tx: tx.run(PUT, text="x"))
    assert all(connection.is_closed for connection in server.opened)
    server.on_commit = [error("ORA-08177")]  # certainly rolled back, so it is tried again
    database.write("acme", lambda tx: tx.run(PUT, text="x"))
    server.on_commit = [error("ORA-02091")]
    with pytest.raises(StorageError, match="ORA-02091") as caught:
        database.write("acme", lambda tx: tx.run(PUT, text="x"))
    assert not isinstance(caught.value, InDoubt)


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), RuntimeError(), error("ORA-03113")])
@pytest.mark.parametrize("cause", [ValueError(), error("ORA-00942")])
def test_a_connection_whose_rollback_fails_is_not_reused(
    server: Server, problem: BaseException, cause: Exception
) -> None:
    """Its transaction may be open: the next one would commit its rows."""
    database = opened(settings=Settings(postgres_pool=1))
    server.on_rollback = [problem]

    def work(tx: Any) -> None:
        tx.run(PUT, text="x")
        raise cause

    with pytest.raises((type(problem), type(cause), StorageError)):
        database.write("acme", work)
    assert not server.on_rollback
    assert all(connection.is_closed for connection in server.opened)
    database.write("acme", lambda tx: tx.run(PUT, text="y"))  # the slot is free


def test_a_connection_that_cannot_be_set_up_is_closed(server: Server) -> None:
    database = opened(settings=OWNED)
    server.answer("current_schema", error("ORA-01435"))
    with pytest.raises(StorageError, match="ORA-01435"):
        database.read("acme", lambda tx: None)
    assert all(connection.is_closed for connection in server.opened)


def test_a_pool_in_use_names_its_setting(server: Server) -> None:
    database = opened(settings=Settings(postgres_pool=1), wait_seconds=0.01)

    def take_another(tx: Any) -> None:
        database._pool.take()

    with pytest.raises(Busy, match="postgres_pool.*Oracle"):
        database.read("acme", take_another)


@pytest.mark.parametrize("url", ["oracle://db", "oracle://u:p@db", "oracle://u:p@db/s?x=1"])
def test_an_invalid_address_says_that_the_engine_is_experimental(url: str) -> None:
    with pytest.raises(SettingsError, match="experimental"):
        Memory.open(url)


def test_an_old_server_is_rejected(server: Server) -> None:
    server.version = "12.2.0.1.0"
    with pytest.raises(SettingsError, match=r"12\.2\.0\.1\.0"):
        opened()


def test_migrations_have_the_numbers_of_the_other_engines() -> None:
    steps = shipped()
    assert [(s.number, s.name) for s in steps] == [
        (s.number, s.name) for s in migrate.shipped("sqlite")
    ]
    assert all(step.up.strip() and step.down.strip() for step in steps)
    script = "".join(step.up for step in steps)
    assert [table for table in TABLES if f"create table {table} " not in script] == []


def test_without_the_package_the_error_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("memorist.storage.extra_engines.extensions", lambda group: {})
    with pytest.raises(SettingsError, match=r"database: .*pip install 'memorist\[oracle\]'"):
        Memory.open(URL)
    with pytest.raises(SettingsError, match=r"file: .*pip install 'memorist\[oracle\]'"):
        foreign(URL)
    assert main.main(["migrate", "liquibase", "-"]) == 6
    assert "pip install 'memorist[oracle]'" in capsys.readouterr().err


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("memorist_oracle")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "oracledb", None)
    with pytest.raises(SettingsError, match=r"pip install 'memorist\[oracle\]"):
        Memory.open(URL)


# -- statements ------------------------------------------------------------------------------


def test_returning_gives_arrays_and_reads_large_objects(server: Server) -> None:
    database = opened()
    server.answer('DELETE FROM "state"', [("a", Lob("x" * 9000), 1), ("b", Lob("\0"), 2)])
    rows = database.write("acme", lambda tx: tx.all(DELETE, key="a"))
    assert rows == [("a", "x" * 9000, 1), ("b", "", 2)]
    (values,) = [values for sql, values in server.sent if sql.startswith('DELETE FROM "state"')]
    kinds = [value.kind for value in values.values() if isinstance(value, Variable)]
    assert kinds == [oracledb.DB_TYPE_VARCHAR, oracledb.DB_TYPE_CLOB, int]


@pytest.mark.parametrize(
    ("text", "is_large"), [("x" * 4000, False), ("x" * 4001, True), ("ä" * 2001, True), ("", False)]
)
def test_long_texts_are_sent_as_large_objects(server: Server, text: str, is_large: bool) -> None:
    database = opened()
    database.write("acme", lambda tx: tx.run(PUT, text=text))
    assert ({"p_text": oracledb.DB_TYPE_CLOB} in server.sizes) is is_large
    (values,) = [values for sql, values in server.sent if 'INTO "notes"' in sql]
    assert values["p_text"] == (text or "\0")


def test_a_null_number_is_sent_with_its_type(server: Server) -> None:
    database = opened()
    sql = "select 1 from state where tenant = :tenant and version = coalesce(:version, version)"
    database.read("acme", lambda tx: tx.all(sql, version=None))
    assert server.sizes == [{"p_version": oracledb.DB_TYPE_NUMBER}]


def test_existing_rows_are_skipped_and_other_errors_are_raised(server: Server) -> None:
    database = opened()
    sql = PUT + " on conflict do nothing"
    duplicate = error("ORA-00001", oracledb.IntegrityError)
    server.answer('INTO "notes"', duplicate)
    assert database.write("acme", lambda tx: tx.run(sql, text="x")) == 0
    rows = [{"text": "x"}, {"text": "y"}]
    server.answer('INTO "notes"', [duplicate])
    database.write("acme", lambda tx: tx.many(sql, rows))
    server.answer('INTO "notes"', [duplicate, error("ORA-01400")])
    with pytest.raises(StorageError, match="ORA-01400"):
        database.write("acme", lambda tx: tx.many(sql, rows))


DUPLICATE = error("ORA-00001", oracledb.IntegrityError)


def test_a_duplicate_of_another_key_is_an_error(server: Server) -> None:
    """Only the key that `on conflict` names may be violated."""
    database = opened()
    upsert = PUT + " on conflict (tenant, user_id, agent) do update set text = excluded.text"
    server.answer('INTO "notes"', DUPLICATE)
    with pytest.raises(StorageError, match="ORA-00001"):
        database.write("acme", lambda tx: tx.run(upsert, text="x"))
    assert len(server.statements('INTO "notes"')) == 2
    skip = PUT + " on conflict (tenant, user_id, agent) do nothing"
    rows = [{"text": "x"}, {"text": "y"}]
    with pytest.raises(StorageError, match="ORA-00001"):
        database.write("acme", lambda tx: tx.run(skip, text="x"))
    server.answer('INTO "notes"', [DUPLICATE], DUPLICATE)  # of the batch, and of its first row
    with pytest.raises(StorageError, match="ORA-00001"):
        database.write("acme", lambda tx: tx.many(skip, rows))
    server.answer('FROM "notes"', [(1,)])
    server.answer('INTO "notes"', DUPLICATE)
    assert database.write("acme", lambda tx: tx.run(skip, text="x")) == 0


def test_a_merge_is_repeated_if_the_row_was_just_added(server: Server) -> None:
    database = opened()
    merge = """insert into due_sessions (tenant, session_id, retry_at)
               select :tenant, id, :at from sessions where tenant = :tenant and id = :id
               on conflict do nothing"""
    server.answer('INTO "due_sessions"', DUPLICATE, [])
    database.write("acme", lambda tx: tx.run(merge, at=1, id="a"))
    assert len(server.statements('INTO "due_sessions"')) == 2
    server.answer('INTO "due_sessions"', [DUPLICATE], [])
    rows = [{"at": 1, "id": "a"}, {"at": 1, "id": "b"}]
    database.write("acme", lambda tx: tx.many(merge, rows))
    assert server.sent[-2][1] == {"p_tenant": "acme", "p_at": 1, "p_id": "a"}


# -- isolation -------------------------------------------------------------------------------


def test_the_working_user_gets_only_its_rights(server: Server) -> None:
    database = opened(settings=OWNED)
    assert database.step(Step(1, "first", "select 1;", up=True))
    owner = [connection for connection in server.opened if connection.address.user == "memorist"]
    assert len(owner) == 2  # the other one holds the lock
    grants = server.statements("^grant")
    assert 'grant select, insert, update, delete on "messages" to MEMORIST_APP' in grants
    assert 'grant select on "memorist_locks" to MEMORIST_APP' in grants
    assert 'grant select on "memorist_schema" to MEMORIST_APP' in grants
    assert "grant execute on memorist_context to MEMORIST_APP" in grants
    assert len(server.statements("dbms_rls.add_policy")) == 1
    assert list(security.grants(["audit"], "memorist_app"))[0] == (
        'grant select, insert, update ("subject") on "audit" to MEMORIST_APP'
    )


def test_the_working_user_gets_rights_for_the_tables_of_the_version(server: Server) -> None:
    """A step down creates again what the step up has dropped."""
    database = opened(settings=OWNED)
    for up, version in ((True, 1), (False, 2)):
        server.sent.clear()
        server.answer('max\\("version"\\)', [(version,)])
        assert database.step(Step(2, "second", "select 1;", up=up))
        grants = " ".join(server.statements("^grant"))
        assert "messages" in grants
        assert ("index_segments" in grants) == up
        assert ("search_items" in grants) == (not up)
    server.sent.clear()
    server.answer('max\\("version"\\)', [(1,)])
    assert database.step(Step(1, "first", "select 1;", up=False))
    assert not server.statements("^grant")


def test_without_the_right_to_policies_a_finding_says_what_to_do(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    database = opened(settings=OWNED)
    server.answer("add_policy", error("ORA-06550"))
    assert database.step(Step(1, "first", "select 1;", up=True))
    assert "grant execute on dbms_rls to MEMORIST" in caplog.text
    (problem,) = [finding.problem for finding in database.health() if finding.problem]
    assert "grant execute on dbms_rls to MEMORIST" in problem


def test_a_transaction_names_its_tenant_to_the_policies(server: Server) -> None:
    server.answer("all_policies", [(52,)])
    database = opened(settings=OWNED)
    database.read("acme", lambda tx: tx.all("select version from notes where tenant = :tenant"))
    sent = [sql for sql, _ in server.sent]
    assert "alter session set current_schema = MEMORIST" in sent
    begin = sent.index("set transaction read only")
    assert sent[begin + 1] == security.ENTER
    assert server.sent[begin + 1][1] == {"tenant": "acme"}
    assert server.opened[-1].module == "memorist"
    assert server.opened[-1].client_identifier == "acme"


READ = "select version from notes where tenant = :tenant"


def test_policies_of_another_process_are_respected(server: Server) -> None:
    """This process was open before the policies existed, and another one ran the migration."""
    database = opened(settings=OWNED)
    database.read("acme", lambda tx: tx.all(READ))
    assert not server.statements("memorist_context.enter")
    server.answer("all_policies", [(52,)])
    server.answer('max\\("version"\\)', [(1,)])
    assert not database.step(Step(1, "first", "select 1;", up=True))
    database.read("acme", lambda tx: tx.all(READ))
    assert server.statements("memorist_context.enter")


def test_policies_that_are_added_later_are_respected(server: Server) -> None:
    """Without a tenant, the policies raise an error: rows that nobody sees are no empty result."""
    (condition,) = [sql for sql in security.policies("a", "b") if "function memorist_rows" in sql]
    assert "is null then\n        raise_application_error" in condition
    database = opened(settings=OWNED)
    server.answer('FROM "notes"', error("ORA-28112"), [(1,)])
    assert database.read("acme", lambda tx: tx.all(READ)) == [(1,)]
    assert server.statements("memorist_context.enter") == [security.ENTER]
    server.answer('FROM "notes"', error("ORA-28112"))
    with pytest.raises(StorageError, match=r"ORA-28112.*memorist_context\.enter"):
        database.read("acme", lambda tx: tx.all(READ))


def test_each_owner_has_a_context_of_its_own() -> None:
    first, second = [" ".join(security.policies(owner, "app")) for owner in ("one", "two")]
    assert "context MEMORIST_ONE using ONE.memorist_context" in first
    assert "context MEMORIST_TWO using TWO.memorist_context" in second
    assert "MEMORIST_ONE" not in second
    assert "{" not in first


def test_a_package_that_does_not_compile_adds_no_policies(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    database = opened(settings=OWNED)
    warning = oracledb.Warning("DPY-7000: creation succeeded with compilation errors")
    server.answer("package body", warning)
    assert database.step(Step(1, "first", "select 1;", up=True))
    assert "DPY-7000" in caplog.text
    assert not server.statements("dbms_rls.add_policy")


def test_the_spelling_of_a_user_makes_no_second_user(server: Server) -> None:
    settings = Settings(owner_database=URL.replace("memorist_app", "MEMORIST_APP"))
    database = opened(settings=settings)
    assert database.step(Step(1, "first", "select 1;", up=True))
    assert not server.statements("^grant|current_schema")


SCRIPT = """create table notes (tenant {key} not null primary key);
            insert into notes (tenant) select tenant from tenants;"""
FIRST = Step(1, "first", SCRIPT, up=True)


def test_an_interrupted_migration_is_repeated(server: Server) -> None:
    """Oracle commits every change of a table, so a step may be half done."""
    database = opened()
    server.answer('"applied_at", "progress"', [(None, "up 0")])
    server.answer('CREATE TABLE "notes"', error("ORA-00955"))
    assert database.step(FIRST)
    server.answer('CREATE TABLE "notes"', error("ORA-01950"))
    with pytest.raises(StorageError, match="quota"):
        database.step(FIRST)
    assert all(connection.is_closed for connection in server.opened)  # and the lock with it


def test_a_repeated_migration_omits_what_is_done(server: Server) -> None:
    database = opened()
    server.answer('"applied_at", "progress"', [(None, "up 1")])
    assert database.step(FIRST)
    assert not server.statements('CREATE TABLE "notes"')
    assert server.statements('INSERT INTO "notes"')
    server.answer('"applied_at", "progress"', [(None, "down 1")])
    assert database.step(FIRST)
    assert server.statements('CREATE TABLE "notes"')


@pytest.mark.parametrize("begun", [[], [(None, "up 0")]])
@pytest.mark.parametrize("code", ["ORA-00001", "ORA-00904", "ORA-00942"])
def test_a_failed_change_of_rows_is_never_skipped(
    server: Server, begun: list[Any], code: str
) -> None:
    database = opened()
    server.answer('"applied_at", "progress"', begun)
    server.answer('INSERT INTO "notes"', error(code))
    with pytest.raises(StorageError, match=code):
        database.step(FIRST)
    assert not server.statements('set "applied_at" = :now')


def test_a_step_that_was_just_finished_is_not_run_again(server: Server) -> None:
    database = opened()
    server.answer('max\\("version"\\)', [(1,)])
    assert not database.step(FIRST)
    assert not server.statements('"notes"|set "applied_at"')
    lock, version = server.statements('for update|max\\("version"\\)')
    assert "for update" in lock  # another process may finish the step while this one waits
    assert "version" in version


def test_a_migration_without_its_lock_does_not_run(server: Server) -> None:
    database = opened()
    server.answer('"memorist_locks" .* for update', [])
    with pytest.raises(StorageError, match=f"memorist_locks has no row {MIGRATION_BUCKET}"):
        database.step(FIRST)
    assert not server.statements('"notes"')


def test_the_wait_for_another_migration_ends(server: Server) -> None:
    database = opened()
    server.answer('"memorist_locks" .* for update', error("DPY-4024"))
    with pytest.raises(Busy, match="another process has been migrating"):
        database.step(FIRST)
    assert not server.statements('"notes"')


def test_a_table_that_a_first_migration_finds_is_an_error(server: Server) -> None:
    database = opened()
    server.answer('CREATE TABLE "notes"', error("ORA-00955"))
    with pytest.raises(StorageError, match="ORA-00955"):
        database.step(FIRST)


# -- on H2 -----------------------------------------------------------------------------------


@pytest.fixture
def h2_memory() -> Iterator[Memory]:
    for url in oracle_database("h2"):
        memory = Memory.open(url)
        yield memory
        memory.close()


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)


@pytest.mark.slow
@given(text=TEXTS, length=st.sampled_from([0, 1, 3999, 4001, 40_000]))
def test_every_text_comes_back(h2_memory: Memory, text: str, length: int) -> None:
    """Empty, long and unusual texts, through the columns of each type."""
    text += "é" * length
    put = """insert into notes (tenant, user_id, agent, version, text, tokens, created_at, updated_at, checksum)
             values (:tenant, :key, '', 1, :text, 0, :now, :now, 0)"""
    read = """select user_id, agent, text, case when text = :text then 1 else 0 end
              from notes where tenant = :tenant and user_id = :key"""
    key = text[:100]

    def work(tx: Any) -> Any:
        tx.run("delete from notes where tenant = :tenant")
        tx.run(put, key=key, text=text)
        return tx.all(read, key=key, text=text)

    assert h2_memory.database.write("acme", work) == [(key, "", text, 1)]


@pytest.mark.slow
def test_engines_that_migrate_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them runs each step, and the one that waits does not block it."""
    h2 = H2Database()
    monkeypatch.setattr(connections, "open_connection", lambda address: h2.connect())
    databases = [OracleDatabase(H2_URL, Settings()) for _ in range(2)]
    known = shipped()
    try:
        with ThreadPoolExecutor(2) as threads:
            runs = list(threads.map(lambda database: migrate.up(database, known), databases))
        assert sorted(step.number for run in runs for step in run) == [
            step.number for step in known
        ]
        assert [database.version() for database in databases] == [known[-1].number] * 2
    finally:
        h2.close()


@pytest.mark.slow
def test_a_long_migration_is_not_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lock lasts as long as its connection."""
    h2 = H2Database()
    monkeypatch.setattr(connections, "open_connection", lambda address: h2.connect())
    known = shipped()
    database = OracleDatabase(H2_URL, Settings())
    migrate.up(database, known, to=1)
    with h2.connect() as holder, ThreadPoolExecutor(1) as threads:
        holder.cursor().execute(LOCK, {"bucket": MIGRATION_BUCKET})
        waiting = threads.submit(migrate.up, database, known, 2)
        with pytest.raises(TimeoutError):
            waiting.result(timeout=1.0)
        assert database.version() == 1
        holder.close()
        assert [step.number for step in waiting.result()] == [2]
    h2.close()


@pytest.mark.slow
def test_search_finds_words_and_meanings(h2_memory: Memory) -> None:
    me = h2_memory.scope(tenant="acme", user="ada", agent="scout")
    other = h2_memory.scope(tenant="acme", user="bob", agent="scout")
    me.entries.add("My sister Clara lives in Lisbon.", kind="core")
    me.entries.add("The build takes eleven minutes.", kind="core")
    other.entries.add("Clara is the name of my cat.", kind="core")
    hits = me.search("where does Clara live")
    assert hits[0].text == "My sister Clara lives in Lisbon."
    assert "cat" not in " ".join(hit.text for hit in hits)


def test_a_schema_of_retain_is_not_opened(server: Server) -> None:
    server.answer('max\\("version"\\)', error("ORA-00942"))
    server.answer("retain_schema", error("ORA-00942"))
    database = opened()
    assert database.version() == 0
    server.answer("retain_schema", [])
    with pytest.raises(OldDatabase) as raised:
        database.version()
    assert len(str(raised.value).splitlines()) == 3

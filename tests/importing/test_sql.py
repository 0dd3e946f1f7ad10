"""The schemas of earlier systems move in by ready maps, with their ids and times."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from memorist import Memory
from memorist.base.errors import Invalid
from memorist.cli import main
from memorist.importing import detect_format, import_from, ready_maps
from memorist.models import Models
from memorist.search.index import Index
from memorist.testing import ScriptedModel
from memorist_frameworks.langchain import MemoristChatMessageHistory
from testkit.conversation_tables import (
    CONVERSATION_ROWS,
    DAY,
    check_conversations,
    said,
    twice,
    unplaced,
)
from testkit.databases import one_engine
from testkit.failures import invalid
from testkit.memories import scope_of

LANGCHAIN = """
create table chat_message_history (
    id {serial} primary key, session_id text not null, message {json} not null, created_at {time});
create table user_agent_active_sessions (
    user_id {uuid} not null, agent_name text not null, active_session_id text not null,
    last_active_at {time}, created_at {time}, primary key (user_id, agent_name));
create table agent_long_term_memory (
    id {uuid} primary key, user_id {uuid}, agent_name text, notes text, created_at {time}, updated_at {time});
"""
CONVERSATIONS = """
create table conversations (
    id {serial} primary key, tenant_id varchar(64) not null, user_id varchar(128), label varchar(256),
    created_at {time} not null, updated_at {time}, attrs_json {json});
create table messages (
    id {serial} primary key, conversation_id {int} not null references conversations(id),
    tenant_id varchar(64) not null, role varchar(16) not null, content_json {json}, content text,
    tokens_in {int}, tokens_out {int}, cost {real}, created_at {time} not null);
create table memory_kv (
    id {serial} primary key, tenant_id varchar(64) not null, scope_id varchar(128), k varchar(128) not null,
    v_json {json}, ttl_ts {time}, updated_at {time} not null, unique (tenant_id, scope_id, k));
create table memory_long (conversation_id {int} primary key, summary_text text, updated_at {time} not null);
create table interactions (
    id {serial} primary key, tenant_id varchar(64) not null, route varchar(128), model_id varchar(255),
    params_json {json}, latency_ms {real}, tokens_in {int}, tokens_out {int}, cost_est {real},
    created_at {time} not null);
"""
SQLITE = {
    "serial": "integer",
    "json": "text",
    "time": "text",
    "uuid": "text",
    "int": "integer",
    "real": "real",
}
POSTGRES = {
    "serial": "serial", "json": "jsonb", "time": "timestamptz", "uuid": "uuid", "int": "integer", "real": "numeric",
}  # fmt: skip
ADA = "0198f000-0000-7000-8000-000000000001"
BOB = "0198f000-0000-7000-8000-000000000002"


LANGCHAIN_ROWS: dict[str, list[tuple[Any, ...]]] = {
    "chat_message_history": [
        (1, "s-ada", said("human", "Where is the invoice?"), "2025-05-21 10:00:00+00"),
        (2, "s-bob", said("human", "Hello from Bob"), "2025-05-21 10:00:01+00"),
        (3, "s-ada", said("ai", "In the drawer."), "2025-05-21 10:00:02+00"),
        (4, "s-old", said("human", "Nobody's session"), "2025-05-20 10:00:00+00"),
    ],
    "user_agent_active_sessions": [
        (ADA, "scout", "s-ada", "2025-05-21 11:00:00+00", "2025-05-20 09:00:00+00"),
        (BOB, "scout", "s-bob", "2025-05-21 10:00:01+00", "2025-05-20 09:00:00+00"),
    ],
    "agent_long_term_memory": [
        ("0198f000-0000-7000-8000-00000000000a", ADA, "scout", "# Ada\n\nPrefers tea.",
         "2025-05-01 08:00:00+00", "2025-05-02 08:00:00+00"),
    ],
}  # fmt: skip


def fill(
    connection: Any, schema: str, types: dict[str, str], rows: dict[str, list[tuple[Any, ...]]]
) -> None:
    for statement in schema.format(**types).split(";"):
        if statement.strip():
            connection.execute(statement)
    mark = "?" if types is SQLITE else "%s"
    for table, values in rows.items():
        for row in values:
            marks = ", ".join([mark] * len(row))
            connection.execute(f"insert into {table} values ({marks})", row)
    connection.commit()


def sqlite_file(path: Path, schema: str, rows: dict[str, list[tuple[Any, ...]]]) -> Path:
    connection = sqlite3.connect(path)
    fill(connection, schema, SQLITE, rows)
    connection.close()
    return path


def check_langchain(memory: Memory, source: Path | str) -> None:
    report = twice(memory, source, "langchain", tenant="acme")
    assert dict(report.written) == {"conversations": 2, "messages": 3, "notes": 1}
    assert ("conversation", "s-old") in unplaced(report)  # the source does not name its user
    ada = scope_of(memory, ADA, "scout")
    assert [message.text for message in ada.messages.window("s-ada")] == [
        "Where is the invoice?",
        "In the drawer.",
    ]
    assert [message.created_at.second for message in ada.messages.window("s-ada")] == [0, 2]
    assert ada.sessions.active().id == "s-ada"
    assert ada.sessions.resume("s-ada").id == "s-ada"
    note = ada.notes.read()
    assert note.text.strip() == "# Ada\n\nPrefers tea."
    assert note.updated_at == datetime(2025, 5, 2, 8, tzinfo=UTC)
    assert note.created_at == datetime(2025, 5, 1, 8, tzinfo=UTC)
    history = MemoristChatMessageHistory(ada, "s-ada")
    assert [message.type for message in history.messages] == ["human", "ai"]
    # The session of nobody can be given to somebody.
    rest = import_from(memory, source, "sql", map="langchain", tenant="acme", user="eve")
    assert dict(rest.written) == {"conversations": 1, "messages": 1}


def test_langchain_tables_of_sqlite(memory: Memory, tmp_path: Path) -> None:
    check_langchain(memory, sqlite_file(tmp_path / "app.db", LANGCHAIN, LANGCHAIN_ROWS))


@one_engine
def test_langchain_tables_of_a_server(memory: Memory, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        fill(connection, LANGCHAIN, POSTGRES, LANGCHAIN_ROWS)
    check_langchain(memory, postgres_url)


def test_conversations_of_tenants(memory: Memory, tmp_path: Path) -> None:
    path = sqlite_file(tmp_path / "oracle.db", CONVERSATIONS, CONVERSATION_ROWS)
    check_conversations(memory, path)


@one_engine
def test_conversations_of_a_server(memory: Memory, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        fill(connection, CONVERSATIONS, POSTGRES, CONVERSATION_ROWS)
    check_conversations(memory, postgres_url)


@one_engine
def test_conversations_of_a_dump(memory: Memory, postgres_url: str, tmp_path: Path) -> None:
    with psycopg.connect(postgres_url) as connection:
        fill(connection, CONVERSATIONS, POSTGRES, CONVERSATION_ROWS)
        dump = tmp_path / "dump.sql"
        with dump.open("wb") as file:
            file.write(b"--\n-- PostgreSQL database dump\n--\n\n")
            for table in CONVERSATION_ROWS:
                columns = connection.execute(f"select * from {table} limit 0").description
                assert columns is not None
                names = ", ".join(column.name for column in columns)
                file.write(f"COPY public.{table} ({names}) FROM stdin;\n".encode())
                with connection.cursor().copy(f"copy {table} to stdout") as copy:
                    for data in copy:
                        file.write(bytes(data))
                file.write(b"\\.\n\n")
    check_conversations(memory, dump)


@one_engine
def test_json_strings_of_a_server(memory: Memory, postgres_url: str) -> None:
    """The driver parses JSON; a string must not be parsed a second time."""
    at = "2025-05-21 10:00:00+00"
    values = {"theme": '"dark"', "pin": '"0123"', "count": "3", "list": "[1]"}
    rows: dict[str, list[tuple[Any, ...]]] = {
        "conversations": [(1, "acme", "ada", None, at, None, None)],
        "messages": [(1, 1, "acme", "user", '"Hello"', None, None, None, None, at)],
        "memory_kv": [
            (number, "acme", "ada", key, value, None, at)
            for number, (key, value) in enumerate(values.items())
        ],
    }
    with psycopg.connect(postgres_url) as connection:
        fill(connection, CONVERSATIONS, POSTGRES, rows)
    report = twice(memory, postgres_url, "conversations")
    assert not unplaced(report)
    ada = scope_of(memory, "ada")
    assert {item.key: item.value for item in ada.state.list()} == {
        "theme": "dark",
        "pin": "0123",
        "count": 3,
        "list": [1],
    }
    assert [message.text for message in ada.messages.window("1")] == ["Hello"]


@one_engine
def test_long_numbers_are_different_sessions_in_a_dump(memory: Memory, tmp_path: Path) -> None:
    """As floating-point numbers they would be equal, and their messages in one heap."""
    ids = ["1234567890123456789", "1234567890123456790", "nan", "1e3", "1000"]
    lines = [
        f"{2 * number + part}\t{id}\tuser\tmessage {part}\t2025-05-21 10:00:0{part}+00\n"
        for number, id in enumerate(ids)
        for part in (0, 1)
    ]
    dump = tmp_path / "dump.sql"
    dump.write_text(
        "-- PostgreSQL database dump\n"
        "CREATE FUNCTION public.log() RETURNS trigger LANGUAGE plpgsql AS $$\nBEGIN\n"
        "INSERT INTO audit VALUES (1);\nRETURN NEW;\nEND;\n$$;\n"
        "COPY public.chat_sessions (id, user_id) FROM stdin;\n"
        + "".join(f"{id}\tada\n" for id in ids)
        + "\\.\nCOPY public.chat_messages (id, session_id, role, content, created_at) FROM stdin;\n"
        + "".join(lines[::2] + lines[1::2])
        + "\\.\n"
    )
    report = twice(memory, dump, "chat-sessions", tenant="acme")
    assert not unplaced(report)
    assert dict(report.written) == {"conversations": len(ids), "messages": 2 * len(ids)}


@one_engine
def test_a_dump_of_insert_statements_is_an_error(memory: Memory, tmp_path: Path) -> None:
    dump = tmp_path / "dump.sql"
    dump.write_text("-- PostgreSQL database dump\nINSERT INTO public.chat_sessions VALUES (1);\n")
    invalid("file", import_from, memory, dump, "sql", map="chat-sessions", user="ada")


@one_engine
def test_numbers_that_are_none_are_listed(memory: Memory, tmp_path: Path) -> None:
    rows = {name: list(values) for name, values in CONVERSATION_ROWS.items()}
    at = "2025-05-21 10:00:00+00"
    rows["messages"] = [(1, 1, "acme", "user", None, "Hi", None, None, float("inf"), at)]
    rows["interactions"] = [(1, "acme", "chat", "m", None, float("inf"), 1, 1, None, at)]
    path = sqlite_file(tmp_path / "odd.db", CONVERSATIONS, rows)
    report = import_from(memory, path, "sql", map="conversations")
    assert {("message", "messages 1"), ("model calls", "interactions 1")} <= unplaced(report)


@one_engine
def test_times_in_seconds_and_none(memory: Memory, tmp_path: Path) -> None:
    values = {"seconds": 4102444800, "text": "2100-01-01 00:00:00", "none": "", "wrong": "soon"}
    rows = {
        "conversations": CONVERSATION_ROWS["conversations"],
        "memory_kv": [
            (number, "acme", "ada", key, "1", value, int(DAY.timestamp()))
            for number, (key, value) in enumerate(values.items())
        ],
    }
    path = sqlite_file(tmp_path / "kv.db", CONVERSATIONS, rows)
    report = import_from(memory, path, "sql", map="conversations", tenant="acme")
    assert ("state", "memory_kv 3") in unplaced(report)
    ada = scope_of(memory, "ada")
    end = datetime(2100, 1, 1, tzinfo=UTC)
    assert {item.key: item.expires_at for item in ada.state.list()} == {
        "seconds": end,
        "text": end,
        "none": None,
    }
    assert ada.state.get("seconds").updated_at == DAY


@one_engine
def test_model_calls_of_another_database_are_not_taken_for_the_same(
    memory: Memory, tmp_path: Path
) -> None:
    rows = {"conversations": CONVERSATION_ROWS["conversations"], "messages": []}
    at = "2025-05-21 10:00:00+00"
    for number, model in enumerate(("gpt-5-mini", "gpt-5")):
        calls = [(1, "acme", "chat", model, None, 12.5, 1, 1, None, at)]
        name = tmp_path / f"{number}.db"
        path = sqlite_file(name, CONVERSATIONS, {**rows, "interactions": calls})
        report = import_from(memory, path, "sql", map="conversations", tenant="acme")
    assert not report.there["model calls"]
    (call,) = [item for item in report.unplaced if item.what == "model call"]
    assert "exists with different content" in call.reason


AGENTS = "create table agents (id integer primary key, name text); insert into agents values (3, 'scout');"
JOURNAL = AGENTS + """
create table agent_memories (
    id integer primary key, agent_id integer not null, content text not null, memory_type integer not null default 0,
    created_at text not null, updated_at text not null);
insert into agent_memories values
    (1, 3, 'I met Ada', 0, '2025-05-21 10:00:00', '2025-05-21 10:00:00'),
    (2, 3, 'I am helpful', 1, '2025-05-20 10:00:00', '2025-05-20 10:00:00'),
    (3, 4, 'Of another agent', 1, '2025-05-20 10:00:00', '2025-05-20 10:00:00');
"""  # fmt: skip
MEMORIES = AGENTS + """
create table agent_memories (
    id text primary key, agent_id integer, thread_id text, memory_key varchar(255) not null, memory_type varchar(50),
    summary text, content text, content_metadata text default '{}', created_at text, is_active boolean default true);
insert into agent_memories values
    ('a', 3, 't-1', 'cmd_log_123', 'command_output', 'Log of npm install', 'added 42 packages',
     '{"command":"npm install"}', '2025-05-21 10:00:00', 1),
    ('b', 3, null, 'old.note', 'user_preference', 'Tea', 'Prefers tea', null, '2025-05-20 10:00:00', 0),
    ('c', 3, null, 'not a key!', 'note', 'Bad', 'x', null, '2025-05-20 10:00:00', 1);
"""  # fmt: skip


def scripted(path: Path, script: str) -> Path:
    connection = sqlite3.connect(path)
    connection.executescript(script)
    connection.close()
    return path


def test_journal_and_core_entries_of_agents(memory: Memory, tmp_path: Path) -> None:
    path = scripted(tmp_path / "journal.db", JOURNAL)
    invalid("user", import_from, memory, path, "sql", map="agent-journal", tenant="acme")
    report = twice(memory, path, "agent-journal", tenant="acme", shared=True)
    assert dict(report.written) == {"entries": 3}
    scout = scope_of(memory, None, "scout")
    entries = {entry.content: entry for entry in scout.entries.list()}
    assert {text: entry.kind for text, entry in entries.items()} == {
        "I met Ada": "journal",
        "I am helpful": "core",
    }
    assert entries["I met Ada"].created_at == DAY
    assert scope_of(memory, None, "4").entries.counts()["core"] == 1


def test_contents_behind_placeholders(memory: Memory, tmp_path: Path) -> None:
    path = scripted(tmp_path / "memories.db", MEMORIES)
    report = twice(memory, path, "agent-memories", tenant="acme", user="ada")
    assert dict(report.written) == {"references": 2}
    assert ("reference", "not a key!") in unplaced(report)
    ada = scope_of(memory, "ada", "scout")
    log = ada.refs.info("cmd_log_123")
    assert (log.type, log.summary, log.agent) == ("command_output", "Log of npm install", "scout")
    assert log.metadata == {"session": "t-1", "command": "npm install"}
    assert log.created_at == DAY
    assert log.is_active
    assert ada.refs.content("cmd_log_123") == b"added 42 packages"
    assert not ada.refs.info("old.note").is_active
    assert ada.refs.search("npm install")[0].key == "cmd_log_123"


def test_an_interrupted_import_leaves_no_reference_with_the_time_of_the_import(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = scripted(tmp_path / "memories.db", MEMORIES)

    def interrupt(*_: object) -> None:
        """Interrupt after the reference was inserted and before it has its time."""
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Index, "mark", interrupt)
        with pytest.raises(KeyboardInterrupt):
            import_from(memory, path, "sql", map="agent-memories", tenant="acme", user="ada")
    ada = scope_of(memory, "ada")
    assert not ada.refs.list().items
    report = import_from(memory, path, "sql", map="agent-memories", tenant="acme", user="ada")
    assert dict(report.written) == {"references": 2}
    assert ada.refs.info("cmd_log_123").created_at == DAY


SESSIONS = """
create table chat_sessions (
    id text primary key, user_id text, name text, created_at text, updated_at text, summary text,
    summarized_count integer);
create table chat_messages (id text primary key, session_id text, role text, content text, created_at text);
insert into chat_sessions values
    ('s1', 'ada', 'Trip', '2025-05-21 10:00:00', '2025-05-21 12:00:00', 'Ada plans a trip.', 2);
insert into chat_messages values
    ('z', 's1', 'user', 'To Rome', '2025-05-21 10:00:00'),
    ('y', 's1', 'assistant', 'Nice', '2025-05-21 10:00:01'),
    ('x', 's1', 'user', 'In May', '2025-05-21 10:00:02');
"""


@pytest.mark.parametrize("format", ["tables", "json"])
def test_sessions_with_summaries(memory: Memory, tmp_path: Path, format: str) -> None:
    if format == "tables":
        path = scripted(tmp_path / "sessions.db", SESSIONS)
    else:
        path = tmp_path / "sessions.json"
        messages = [
            {"id": "z", "role": "user", "content": "To Rome", "createdAt": "2025-05-21T10:00:00Z"},
            {
                "id": "y",
                "role": "assistant",
                "content": "Nice",
                "createdAt": "2025-05-21T10:00:00Z",
            },
            {"id": "x", "role": "user", "content": "In May", "createdAt": "2025-05-21T10:00:00Z"},
        ]
        session = {"id": "s1", "userId": "ada", "name": "Trip", "createdAt": "2025-05-21T10:00:00Z"}
        summary = {"summary": "Ada plans a trip.", "summarizedCount": 2}
        path.write_text(json.dumps([session | summary | {"messages": messages}]))
    twice(memory, path, "chat-sessions", tenant="acme")
    ada = scope_of(memory, "ada", "chat-sessions")
    session_ = ada.sessions.get("s1")
    assert (session_.label, session_.summary) == ("Trip", "Ada plans a trip.")
    assert session_.summarized_count == 2
    texts = [message.text for message in ada.messages.window("s1")]
    assert texts == ["To Rome", "Nice", "In May"]
    summary_ = ada.summaries.get("s1")
    assert (summary_.covers_from, summary_.covers_to, summary_.model) == (1, 2, "import")
    assert [message.text for message in ada.summaries.expand("s1")] == ["To Rome", "Nice"]


@one_engine
def test_a_summary_of_messages_that_are_not_imported_hides_none(
    memory: Memory, tmp_path: Path
) -> None:
    script = SESSIONS.replace("'s1', 'assistant', 'Nice'", "'s1', 'narrator', 'Nice'")
    report = twice(memory, scripted(tmp_path / "a.db", script), "chat-sessions", tenant="acme")
    assert ("message", "chat_messages y") in unplaced(report)
    session = scope_of(memory, "ada").sessions.get("s1")
    assert session.summarized_count == 0
    assert session.summary == "Ada plans a trip."
    assert len(scope_of(memory, "ada").messages.window("s1")) == 2


@one_engine
def test_an_imported_summary_of_unknown_coverage_is_used(
    url: str, open_memory: Callable[..., Memory], tmp_path: Path
) -> None:
    """The prompt has the summary and all messages; the next fold goes on from it."""
    model = ScriptedModel("Ada plans a trip to Rome, in May, and the agent found that nice.")
    settings = replace(
        open_memory().settings, database=url, summary_enabled=True, summary_keep_last=1
    )
    memory = Memory.open(settings=settings, models=Models(settings, summary=model))
    script = SESSIONS.replace("'Ada plans a trip.', 2", "'Ada plans a trip.', null")
    twice(memory, scripted(tmp_path / "a.db", script), "chat-sessions", tenant="acme")
    ada = scope_of(memory, "ada")
    prompt = str(ada.context("s1", "When?").messages)
    for text in ("Ada plans a trip.", "To Rome", "Nice", "In May"):
        assert text in prompt
    ada.summaries.fold("s1", force=True)
    assert "Ada plans a trip." in model.requests[0].system + model.requests[0].prompt
    assert (ada.summaries.get("s1").number, ada.summaries.get("s1").covers_from) == (2, 1)
    assert not [finding for finding in memory.verify() if not finding.ok]
    memory.close()


@one_engine
def test_references_that_are_imported_before_their_session_are_linked_later(
    memory: Memory, tmp_path: Path
) -> None:
    path = scripted(tmp_path / "memories.db", MEMORIES.replace("'t-1'", "'s1'"))
    import_from(memory, path, "sql", map="agent-memories", tenant="acme", user="ada")
    ada = scope_of(memory, "ada")
    assert ada.refs.info("cmd_log_123").session is None
    sessions = scripted(tmp_path / "sessions.db", SESSIONS)
    twice(memory, sessions, "chat-sessions", tenant="acme")
    log = ada.refs.info("cmd_log_123")
    assert (log.session, log.metadata) == ("s1", {"command": "npm install"})
    assert [ref.key for ref in ada.refs.list(session="s1")] == ["cmd_log_123"]
    assert any(hit.kind == "refs" for hit in ada.search("npm install", session="s1").hits)


@one_engine
def test_missing_tables_and_columns_are_named(memory: Memory, tmp_path: Path) -> None:
    path = scripted(
        tmp_path / "other.db",
        "create table conversations (id integer, user_id text, created_at text); create table t (x);",
    )
    with pytest.raises(Invalid) as error:
        import_from(memory, path, "sql", map="conversations")
    text = str(error.value)
    assert "the table messages" in text
    assert "the column conversations.tenant_id" in text
    assert "its tables are: conversations, t" in text
    invalid("map", import_from, memory, path, "sql", map="nonsense")
    invalid("map", import_from, memory, path, "sql")
    invalid("map", import_from, memory, path, "mem0", map="langchain")


@one_engine
def test_a_map_of_ones_own(memory: Memory, tmp_path: Path) -> None:
    path = scripted(
        tmp_path / "own.db",
        """create table lines (nr integer, thread text, who text, said text, mood text);
           insert into lines values (2, 't', 'visitor', 'second', ''), (1, 't', 'machine', 'first', '');""",
    )
    map_file = tmp_path / "own.yaml"
    map_file.write_text(
        """tables:
  - table: lines
    becomes: messages
    columns: {id: nr, session: thread, role: who, text: said}
    values: {role: {visitor: user, machine: assistant}}
"""
    )
    report = import_from(memory, path, "sql", map=str(map_file), tenant="acme", user="ada")
    assert unplaced(report) == {("column", "lines.mood")}
    own = scope_of(memory, "ada", "own")
    assert [(m.role, m.text) for m in own.messages.window("t")] == [
        ("assistant", "first"),
        ("user", "second"),
    ]
    for text, problem in (
        ("tables: []", "must have a list `tables`"),
        ("tables: [{table: lines, becomes: poems, columns: {}}]", "becomes: must be one of"),
        ("tables: [{table: lines, becomes: notes, columns: {text: said}}]", "the field 'user'"),
        ("tables: [{table: x, becomes: notes, columns: {colour: a}}]", "has a field 'colour'"),
    ):
        map_file.write_text(text)
        with pytest.raises(Invalid, match=problem):
            import_from(memory, path, "sql", map=str(map_file), user="ada")


def test_sql_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMORIST_DATABASE", f"sqlite:///{tmp_path}/agent.db")
    schema = CONVERSATIONS + "create table leftovers (id {int});"
    path = sqlite_file(tmp_path / "oracle.db", schema, CONVERSATION_ROWS)
    words = ["import", "--from", "sql", "--url", f"sqlite:///{path}", "--map", "conversations"]
    assert main.main([*words, "--dry-run"]) == 0
    assert "would be written" in capsys.readouterr().out
    assert not (tmp_path / "agent.db").exists()
    assert main.main(["state", "set", "level", "1", "--user", "ada"]) == 0  # the default tenant
    assert main.main(["import", str(path), *words[1:3], *words[5:]]) == 0
    printed = capsys.readouterr().out
    assert "model calls" in printed
    assert "leftovers" in printed
    assert main.main(["audit", "--tenant", "globex"]) == 0
    assert "import" in capsys.readouterr().out
    # A table without a place belongs to no tenant: the default one gets no audit row for it.
    assert main.main(["audit"]) == 0
    assert "import" not in capsys.readouterr().out
    secret = "sqlite://ada:hunter2@host/app.db"
    assert main.main(["import", "--from", "sql", "--map", "langchain", "--url", secret]) != 0
    printed = capsys.readouterr().err
    assert "ada" in printed
    assert "hunter2" not in printed
    assert main.main(["import", "--from", "sql", "--map", "conversations"]) != 0
    assert "--url" in capsys.readouterr().err


@pytest.mark.parametrize("script", [JOURNAL, MEMORIES, SESSIONS])
def test_a_database_of_an_earlier_system_is_recognized(tmp_path: Path, script: str) -> None:
    assert detect_format(scripted(tmp_path / "a.db", script)) == "sql"


def test_every_ready_map_has_a_test() -> None:
    assert ready_maps() == [
        "agent-journal",
        "agent-memories",
        "chat-sessions",
        "conversations",
        "langchain",
    ]

"""Views with the names of the earlier designs' tables: their own queries run, writes do not (spec D12)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from memorist import Memory, NewMessage, Scope
from memorist.base import clock
from memorist.base.errors import Conflict, Invalid
from memorist.content.formats import langchain
from memorist.importing import import_from
from memorist.models import Models
from memorist.storage import design_views, migrate
from memorist.storage.postgres import row_security
from memorist.testing import ScriptedModel
from testkit.clock import Now
from testkit.commands import BOTH, Run, answer
from testkit.databases import SETTINGS
from testkit.failures import invalid, raised
from testkit.memories import problems, scope_of
from testkit.rows import LATER, file_of, raw

DESIGNS = {
    "langchain": {"chat_message_history", "user_agent_active_sessions", "agent_long_term_memory"},
    "agent-journal": {"agents", "agent_memories"},
    "agent-memories": {"agents", "agent_memories"},
    "chat-sessions": {"chat_sessions", "chat_messages"},
    "conversations": {"conversations", "messages", "memory_kv", "memory_long", "interactions"},
}


SUMMARY = (
    "They spoke about trains, which Ada likes, and about the many questions that she still has."
)


class Reader:
    """A connection in which the tables of a design have their own names."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def all(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query, with times and JSON as values on every engine."""
        return [tuple(map(plain, row)) for row in self._connection.execute(sql).fetchall()]

    def columns(self, table: str) -> list[str]:
        """Return the names of a table's columns."""
        cursor = self._connection.execute(f"select * from {table} where 1 = 0")
        return [column[0] for column in cursor.description]


def plain(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value + "+00:00")
        except ValueError:
            pass
        if value.startswith(("{", "[")):
            return json.loads(value)
    return value


@contextmanager
def reading(memory: Memory, url: str, design: str, tenant: str = "acme") -> Iterator[Reader]:
    """Create the views of a design and read them as its programs would."""
    created = design_views.create(memory.database.views, [design])
    names = {view.name for view in created.views} | {view.name for view in created.skipped}
    assert names >= DESIGNS[design]
    if url.startswith("sqlite:"):
        connection = sqlite3.connect(file_of(url))
        connection.executescript(design_views.script(memory.database.views, [design]))
        yield Reader(connection)
        connection.close()
        return
    schema = f"memorist_{design.replace('-', '_')}"
    with psycopg.connect(url, autocommit=True) as server:
        server.execute("set role memorist_app")
        server.execute("select set_config('memorist.tenant', %s, false)", [tenant])
        server.execute(f"set search_path = {schema}")
        yield Reader(server)


# -- the designs' own queries ----------------------------------------------------------------------


def test_the_conversations_design_runs_its_queries(memory: Memory, me: Scope, url: str) -> None:
    me.sessions.add("trip", label="Trip", attributes={"pinned": True})
    me.messages.extend("trip", [NewMessage("user", f"question {n}") for n in range(7)])
    me.messages.append("trip", "system", "Be brief.", created_at=clock.to_datetime(10**15))
    me.messages.append("trip", "assistant", "Yes.", tokens_in=9, tokens_out=2, cost=0.5)
    me.messages.append("trip", "tool", {"text": "42", "tool_call_id": "c1"})
    me.sessions.add("empty")
    me.state.set("theme", {"dark": True})
    me.state.set("step", 3, area="session:trip", ttl=3600)
    me.state.set("plan", "free", area="tenant")
    me.interactions.add("chat", "m-1", latency_ms=12.5, cost=0.25, parameters={"t": 0})
    with reading(memory, url, "conversations") as tables:
        assert tables.all("select count(*) from conversations") == [(2,)]
        ((user, label, attributes),) = tables.all(
            "select user_id, label, attrs_json from conversations where id = 'trip' and tenant_id = 'acme'"
        )
        assert (user, label, attributes) == ("ada", "Trip", {"pinned": True})
        # The newest rows first, as the design checks a deployment, and a window of the last K.
        newest = tables.all(
            """select role, created_at from messages where conversation_id = 'trip'
               order by created_at desc limit 5"""
        )
        assert [role for role, _ in newest] == ["assistant", "system", *["user"] * 3]
        window = tables.all(
            """select role, content_json, created_at from (
                   select role, content_json, created_at from messages
                   where conversation_id = 'trip' order by created_at desc limit 3) as newest
               order by created_at"""
        )
        assert [content for _, content, _ in window] == [
            {"text": "question 6"},
            {"text": "Be brief."},
            {"text": "Yes."},
        ]
        assert tables.all(
            "select tokens_in, tokens_out, cost from messages where role = 'assistant'"
        ) == [(9, 2, 0.5)]
        # The design allows three roles, and every message has its conversation.
        assert tables.all(
            """select count(*) from messages m left join conversations c on c.id = m.conversation_id
               where c.id is null or m.role not in ('system', 'user', 'assistant')"""
        ) == [(0,)]
        values = tables.all(
            """select k, v_json from memory_kv where tenant_id = 'acme' and scope_id in ('ada', 'trip')
               order by k"""
        )
        assert [(key, json.loads(value) if isinstance(value, str) else value) for key, value in values] == [
            ("step", 3),
            ("theme", {"dark": True}),
        ]  # fmt: skip
        assert tables.all("select k from memory_kv where scope_id is null") == [("plan",)]
        assert tables.all(
            """select count(*), count(ttl_ts) from memory_kv
               where ttl_ts is null or ttl_ts >= current_timestamp"""
        ) == [(3, 1)]
        assert tables.all(
            "select route, model_id, params_json, latency_ms, cost_est from interactions"
        ) == [("chat", "m-1", {"t": 0}, 12.5, 0.25)]


def test_times_of_messages_ascend_whatever_the_clock_says(
    open_memory: Callable[..., Memory], url: str, now: Now
) -> None:
    """The designs sort by time; memorist's order is the number of a message."""
    memory = open_memory(clock=now)
    me = scope_of(memory, "ada", "scout")
    me.sessions.add("trip")
    for step in (60, 0, -3600, 0, 7200):
        me.messages.append(
            "trip", "user", f"after {step}", created_at=clock.to_datetime(now() - 10**10 + step)
        )
    me.messages.extend("trip", [NewMessage("user", str(n)) for n in range(40)])
    for design, sql in (
        ("langchain", "select id, created_at from chat_message_history order by created_at"),
        ("chat-sessions", "select id, created_at from chat_messages order by created_at"),
        ("conversations", "select id, created_at from messages order by created_at"),
    ):
        with reading(memory, url, design) as tables:
            rows = tables.all(sql)
            assert [id for id, _ in rows] == list(range(1, 46))
            assert len({at for _, at in rows}) == 45
            stored = [message.created_at for message in me.messages.window("trip")]
            assert rows[0][1] == stored[0]  # only ties and steps back are moved
            assert rows[-1][1] - stored[-1] < timedelta(milliseconds=1)


def test_the_langchain_tables_have_its_messages(memory: Memory, me: Scope, url: str) -> None:
    from langchain_core.messages import (
        AIMessage,
        HumanMessage,
        SystemMessage,
        ToolMessage,
        message_to_dict,
        messages_from_dict,
    )

    me.sessions.add("trip")
    call = {"name": "find", "args": {"q": "train", "none": None}, "id": "c1", "type": "tool_call"}
    written = [
        SystemMessage("Be brief."),
        HumanMessage('A "quoted" line\nand more \U0001f469', name="ada"),
        HumanMessage([{"type": "text", "text": "See"}, {"type": "image_url", "image_url": "x:y"}]),
        AIMessage("", tool_calls=[call], additional_kwargs={"refusal": None, "n": 1}),
        ToolMessage("found", tool_call_id="c1", artifact={"a": [1, None]}),
        AIMessage("Here.", usage_metadata={"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}),
    ]  # fmt: skip
    me.messages.extend("trip", [langchain.to_message(message_to_dict(each)) for each in written])
    # Messages of other clients: OpenAI's tool calls, which LangChain reads in `additional_kwargs`.
    function = {"name": "find", "arguments": '{"q": "bus"}'}
    calls = [{"id": "c2", "type": "function", "function": function}]
    me.messages.extend(
        "trip",
        [
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "content": "none", "tool_call_id": "c2"},
        ],
    )
    me.messages.append("trip", "user", "a mistake")
    me.messages.remove("trip", 9)
    with reading(memory, url, "langchain") as tables:
        rows = tables.all(
            "select id, message from chat_message_history where session_id = 'trip' order by id"
        )
        assert [id for id, _ in rows] == list(range(1, 9))
        read = messages_from_dict([message for _, message in rows])
        assert read[:6] == written
        assert read[6].tool_calls == [{**call, "args": {"q": "bus"}, "id": "c2"}]  # type: ignore[attr-defined]
        assert (read[7].content, read[7].tool_call_id) == ("none", "c2")  # type: ignore[attr-defined]
        assert tables.all(
            """select count(*) from chat_message_history h
               where not exists (select 1 from user_agent_active_sessions a
                                 where a.active_session_id = h.session_id)"""
        ) == [(0,)]


def test_the_active_sessions_and_notes_are_the_stored_ones(
    memory: Memory, me: Scope, url: str
) -> None:
    me.sessions.add("old")
    me.sessions.add("new")
    scope_of(memory, "ada", "cook").sessions.add("cooking")
    me.notes.overwrite("# Likes\n\nTrains.")
    active = me.sessions.active()
    with reading(memory, url, "langchain") as tables:
        assert tables.all(
            """select active_session_id, last_active_at from user_agent_active_sessions
               where user_id = 'ada' and agent_name = 'scout'"""
        ) == [("new", active.last_active_at)]
        assert tables.all("select count(*) from user_agent_active_sessions") == [(2,)]
        ((notes, created, updated),) = tables.all(
            """select notes, created_at, updated_at from agent_long_term_memory
               where user_id = 'ada' and agent_name = 'scout'"""
        )
        assert (notes, created) == ("# Likes\n\nTrains.", updated)


def test_the_journal_design_counts_and_sorts_its_memories(
    open_memory: Callable[..., Memory], url: str
) -> None:
    memory = open_memory(review="agent")
    me = scope_of(memory, "ada", "scout")
    me.entries.add("I am helpful.", kind="core")
    for text in ("first", "second"):
        me.entries.add(text, kind="journal")
    scope_of(memory, "ada", "cook").entries.add("Soup.", kind="journal")
    with reading(memory, url, "agent-journal") as tables:
        assert tables.all(
            """select memory_type, count(*) from agent_memories where agent_id = 'scout'
               group by memory_type order by memory_type"""
        ) == [(0, 2), (1, 1)]
        assert tables.all(
            """select content from agent_memories where agent_id = 'scout' and memory_type = 0
               order by created_at desc limit 100"""
        ) == [("second",), ("first",)]
        week_ago = "now() - interval '7 days'"
        if url.startswith("sqlite:"):
            week_ago = "datetime('now', '-7 days')"
        assert tables.all(
            f"""select count(*) from agent_memories m join agents a on a.id = m.agent_id
                where a.name = 'scout' and (memory_type = 1 or m.created_at >= {week_ago})"""
        ) == [(3,)]


def test_the_reference_design_finds_contents_by_their_keys(
    memory: Memory, me: Scope, url: str
) -> None:
    me.sessions.add("trip")
    large = "".join(f"line {n} ü\n" for n in range(60_000))  # a file, or several parts
    is_file = url.startswith("sqlite:")
    me.refs.add(large, "A log", type="command_output", session="trip", key="log", metadata={"n": 1})
    me.refs.add("short", "A word", key="word")
    me.refs.add({"rows": [1, 2]}, "A table", key="table")
    me.refs.add(b"\xff\xfe\x00", "An image", key="image")
    with reading(memory, url, "agent-memories") as tables:
        row = (
            "select content, summary, memory_type, thread_id, content_metadata from agent_memories"
        )
        ((content, *rest),) = tables.all(f"{row} where memory_key = 'log'")
        assert content == (None if is_file else large)
        assert rest[:3] == ["A log", "command_output", "trip"]
        assert rest[3]["n"] == 1
        assert tables.all("select content from agent_memories where id = 'word'") == [("short",)]
        assert tables.all("select content from agent_memories where id = 'table'") == [
            ({"rows": [1, 2]},)
        ]
        assert tables.all("select content from agent_memories where id = 'image'") == [(None,)]
        assert tables.all(
            """select count(*) from agent_memories m left join agents a on a.id = m.agent_id
               where is_active and a.id is null"""
        ) == [(0,)]


def test_the_session_design_has_summaries_of_its_own_messages(url: str) -> None:
    models = Models(SETTINGS, main=ScriptedModel(SUMMARY))
    with Memory.open(url, settings=SETTINGS, models=models) as memory:
        me = scope_of(memory, "ada", "scout")
        me.sessions.add("trip", label="Trip")
        for n in range(20):
            me.messages.append("trip", "user", f"question {n}")
            calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
            me.messages.extend(
                "trip", [{"role": "assistant", "content": None, "tool_calls": calls}]
            )
            me.messages.append("trip", "tool", {"text": "hidden", "tool_call_id": "c"})
            me.messages.append("trip", "assistant", {"parts": [{"type": "text", "text": str(n)}]})
        covered = me.summaries.fold("trip", force=True).covers_to
        turns = [m for m in me.messages.window("trip", turns_only=True) if m.seq <= covered]
        with reading(memory, url, "chat-sessions") as tables:
            ((summary, count, updated),) = tables.all(
                "select summary, summarized_count, updated_at from chat_sessions where id = 'trip'"
            )
            assert (summary, count) == (SUMMARY, len(turns))
            messages = tables.all(
                "select role, content, created_at from chat_messages where session_id = 'trip' order by id"
            )
            assert [row[:2] for row in messages[:3]] == [
                ("user", "question 0"),
                ("assistant", "0"),
                ("user", "question 1"),
            ]
            assert len(messages) == 40
            assert messages[-1][2] - updated < timedelta(milliseconds=1)
        with reading(memory, url, "conversations") as tables:
            assert tables.all("select conversation_id, summary_text from memory_long") == [
                ("trip", SUMMARY)
            ]


@pytest.mark.parametrize("design", DESIGNS)
def test_what_a_design_shows_can_be_imported(
    memory: Memory, me: Scope, url: str, design: str, tmp_path: Path
) -> None:
    """The views are the mirror image of the import maps."""
    me.sessions.add("trip", label="Trip")
    me.messages.append("trip", "user", "Hello")
    me.messages.append("trip", "assistant", "Good day")
    me.notes.overwrite("Likes trains.")
    me.entries.add("I am helpful.", kind="core")
    me.refs.add("a long log", "A log", key="log", session="trip")
    me.state.set("theme", {"dark": True})
    copy = tmp_path / "copy.db"
    with reading(memory, url, design) as tables, sqlite3.connect(copy) as target:
        for table in DESIGNS[design]:
            columns = [name for name in tables.columns(table) if name != "tenant"]
            target.execute(f"create table {table} ({', '.join(columns)})")
            rows = tables.all(f"select {', '.join(columns)} from {table}")
            places = ", ".join("?" * len(columns))
            target.executemany(
                f"insert into {table} values ({places})", [[*map(stored, row)] for row in rows]
            )
    target.close()
    with Memory.open("memory:", settings=SETTINGS) as other:
        report = import_from(
            other, copy, "sql", map=design, user="ada", agent="scout", tenant="acme"
        )
        assert [item for item in report.unplaced if item.what != "column"] == []
        there = scope_of(other, "ada", "scout")
        if "agent_memories" not in DESIGNS[design]:
            assert [m.text for m in there.messages.window("trip")] == ["Hello", "Good day"]
        if design == "langchain":
            assert there.notes.read().text.strip() == "Likes trains."
            assert there.sessions.active().id == "trip"
        elif design == "agent-journal":
            assert [(e.kind, e.content) for e in there.entries.list()] == [
                ("core", "I am helpful.")
            ]
        elif design == "agent-memories":
            assert there.refs.get("log").text == "a long log"
        elif design == "conversations":
            assert there.state.get("theme").value == {"dark": True}
            assert there.sessions.get("trip").label == "Trip"


def stored(value: Any) -> Any:
    if isinstance(value, dict | list):
        return json.dumps(value)
    return value.isoformat() if isinstance(value, datetime) else value


# -- isolation and writes --------------------------------------------------------------------------


def test_writes_fail(memory: Memory, me: Scope, url: str) -> None:
    me.sessions.add("trip")
    me.messages.append("trip", "user", "Hello")
    me.notes.overwrite("Likes trains.")
    design_views.create(memory.database.views)
    for view in memory.database.views.stored():
        with raw(url) as administrator:  # even the administrator, whom no grant binds
            ((column,), *_) = administrator.all(
                f"select name from pragma_table_info('{view.name}')"
                if url.startswith("sqlite:")
                else f"select attname from pg_attribute where attrelid = '{view.address}'::regclass and attnum > 0 order by attnum"
            )
            for statement in (
                f"delete from {view.address}",
                f"update {view.address} set {column} = null",
                f"insert into {view.address} ({column}) values (null)",
            ):
                with pytest.raises(Exception, match="cannot|not updatable|is a view"):
                    administrator.all(statement)
    assert [message.text for message in me.messages.window("trip")] == ["Hello"]
    assert me.notes.read().text == "Likes trains."


@pytest.mark.parametrize("engine", ["modern", "debian"], indirect=True)
def test_row_level_security_limits_every_view_to_the_tenant(memory: Memory, url: str) -> None:
    for tenant in ("acme", "globex"):
        scope = memory.scope(tenant=tenant, user="ada", agent="scout")
        scope.sessions.add("trip", label=tenant)
        scope.messages.append("trip", "user", tenant)
        scope.notes.overwrite(tenant)
        scope.entries.add(tenant)
        scope.refs.add(tenant, tenant, key="log")
        scope.state.set("name", tenant)
        scope.interactions.add("chat", tenant)
    design_views.create(memory.database.views)
    shown = 0
    with psycopg.connect(url, autocommit=True) as server:
        server.execute("create role reporter")
        try:
            server.execute("grant memorist_app to reporter")
            for role in ("memorist_app", "reporter"):
                server.execute(f"set role {role}")
                for view in memory.database.views.stored():
                    server.execute("select set_config('memorist.tenant', '', false)")
                    with pytest.raises(psycopg.Error, match=row_security.NO_TENANT):
                        server.execute(f"select count(*) from {view.address}")
                    for tenant in ("acme", "globex"):
                        server.execute("select set_config('memorist.tenant', %s, false)", [tenant])
                        rows = server.execute(f"select v::text from {view.address} v").fetchall()
                        other = {"acme": "globex", "globex": "acme"}[tenant]
                        assert not [row for (row,) in rows if other in row]
                        shown += len(rows)
                server.execute("reset role")
        finally:
            server.execute("reset role")
            server.execute("drop role reporter")
    assert shown >= 2 * 2 * (
        len(design_views.choose(memory.database.views, [])) - 1
    )  # no summaries
    assert problems(memory) == []


@pytest.mark.parametrize("engine", ["modern"], indirect=True)
def test_verify_names_a_view_that_ignores_row_level_security(memory: Memory, url: str) -> None:
    design_views.create(memory.database.views, ["langchain"])
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(
            "alter view memorist_langchain.chat_message_history set (security_invoker = false)"
        )
    assert problems(memory) == ["chat_message_history"]


# -- creating and dropping -------------------------------------------------------------------------


def test_the_command_creates_replaces_and_drops(run: Run, url: str, me: Scope) -> None:
    me.sessions.add("trip")
    created = answer(run("memorist migrate views --json"))
    assert answer(run("memorist migrate views --json")) == created
    shown = {(view["design"], view["name"]) for view in created["views"]}  # type: ignore[attr-defined]
    skipped = {(view["design"], view["name"]) for view in created["skipped"]}  # type: ignore[attr-defined]
    everything = {(design, name) for design, names in DESIGNS.items() for name in names}
    assert shown | skipped == everything
    assert not shown & skipped
    if url.startswith("sqlite:"):
        assert {name for _, name in skipped} == {
            "agents",
            "agent_memories",
            "messages",
            "interactions",
        }
    else:
        assert not skipped
    assert run("memorist migrate views").returncode == 0
    with raw(url) as database:
        for view in created["views"]:  # type: ignore[attr-defined]
            database.all(f"select * from {view['address']} where 1 = 0")
    dropped = answer(run("memorist migrate views --drop --json"))
    assert dropped == {"dropped": created["views"]}
    assert answer(run("memorist migrate views --drop --json")) == {"dropped": []}
    if not url.startswith("sqlite:"):
        with raw(url) as database:
            schemas = database.all(
                "select nspname from pg_namespace where nspname like 'memorist%'"
            )
        assert schemas == [("memorist",)]


def test_one_design_is_added_to_those_that_exist(memory: Memory) -> None:
    store = memory.database.views
    design_views.create(store, ["agent-journal"])
    created = design_views.create(store, ["langchain", "agent-memories"])
    names = [(view.design, view.name) for view in created.views]
    assert ("langchain", "chat_message_history") in names
    assert ("agent-memories", "agent_memories") in names
    # A file has one name for both; PostgreSQL has a schema for each design.
    assert (("agent-journal", "agent_memories") in names) != store.shares_names
    invalid("design", design_views.create, store, ["nothing"])
    assert [(view.design, view.name) for view in store.stored()] == names


def test_a_name_that_is_taken_is_refused_and_nothing_changes(memory: Memory, url: str) -> None:
    store = memory.database.views
    design_views.create(store, ["langchain"])
    before = store.stored()
    schema = "" if url.startswith("sqlite:") else "memorist_conversations."
    for kind, definition in (("table", "(x integer)"), ("view", "as select 1 as x")):
        with raw(url) as database:
            if schema:
                database.all("create schema if not exists memorist_conversations")
            database.all(f"create {kind} {schema}memory_kv {definition}")
        assert "memory_kv" in str(raised(Conflict, design_views.create, store))
        assert store.stored() == before
        with raw(url) as database:
            database.all(f"drop {kind} {schema}memory_kv")
    design_views.create(store)
    assert len(store.stored()) > len(before)


@BOTH
def test_the_script_does_the_same_as_the_command(run: Run, url: str, me: Scope) -> None:
    me.sessions.add("trip", label="Trip")
    script = run("memorist migrate views --sql").stdout
    if url.startswith("sqlite:"):
        connection = sqlite3.connect(f"file:{file_of(url)}?mode=ro", uri=True)
        connection.executescript(script * 2)  # a connection may run it again
        assert connection.execute("select label from conversations").fetchall() == [("Trip",)]
        assert connection.execute("select * from messages").fetchall() == []
        connection.close()
        assert me.sessions.get("trip").label == "Trip"
        return
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(script.encode())
        server.execute("set memorist.tenant = 'acme'")
        labels = server.execute("select label from memorist_conversations.conversations").fetchall()
    assert labels == [("Trip",)]
    before = answer(run("memorist migrate views --drop --json"))["dropped"]
    assert answer(run("memorist migrate views --json"))["views"] == before


# -- beside the rest of the system -----------------------------------------------------------------


def test_migrations_keep_the_views_and_down_drops_them(memory: Memory, me: Scope, url: str) -> None:
    me.agents.add("scout")
    me.sessions.add("trip")
    store = memory.database.views
    known = [*memory.migrations, *LATER]
    migrate.up(memory.database, known, to=LATER[0].number)
    assert store.stored() == []
    design_views.create(store, ["langchain", "agent-journal"])
    before = store.stored()
    assert [step.number for step in migrate.up(memory.database, known)] == [LATER[1].number]
    assert store.stored() == before
    assert migrate.up(memory.database, known) == []
    assert store.stored() == before
    migrate.down(memory.database, known, memory.migrations[-1].number)
    assert store.stored() == []


def test_a_failed_migration_keeps_the_views(memory: Memory) -> None:
    store = memory.database.views
    design_views.create(store, ["chat-sessions"])
    before = store.stored()
    number = memory.migrations[-1].number + 1
    broken = migrate.read(number, "broken", "-- up\ndrop table nothing;\n-- down\nselect 1;\n")
    with pytest.raises(Exception, match="nothing"):
        migrate.up(memory.database, [*memory.migrations, broken])
    assert store.stored() == before


@pytest.mark.parametrize("engine", ["modern"], indirect=True)
def test_a_view_on_which_others_depend_does_not_stop_a_migration(memory: Memory, url: str) -> None:
    store = memory.database.views
    design_views.create(store, ["langchain"])
    before = store.stored()
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(
            "create view report as select * from memorist_langchain.chat_message_history"
        )
        error = raised(Conflict, design_views.drop, store)
        assert "report" in str(error)
        known = [*memory.migrations, LATER[0]]
        assert [step.number for step in migrate.up(memory.database, known)] == [LATER[0].number]
        assert store.stored() == before
        server.execute("drop view report")
    assert design_views.drop(store) == before


@pytest.mark.parametrize("engine", ["sqlite", "modern"], indirect=True)
def test_views_do_not_disturb_verify_export_erase_or_backup(
    memory: Memory, me: Scope, url: str, run: Run, tmp_path: Path
) -> None:
    me.sessions.add("trip")
    me.messages.append("trip", "user", "Hello")
    design_views.create(memory.database.views)
    assert problems(memory) == []
    file = tmp_path / "all.jsonl"
    memory.export(file)
    assert "chat_message_history" not in file.read_text()
    assert run("memorist doctor --json").returncode == 0
    if url.startswith("sqlite:"):
        copy = tmp_path / "copy.db"
        memory.backup(copy)
        with Memory.open(f"sqlite:///{copy}", settings=SETTINGS) as restored:
            assert restored.database.views.stored() == memory.database.views.stored()
            assert problems(restored) == []
    memory.scope(tenant="acme").admin.users.erase("ada")
    assert problems(memory) == []


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_window_of_one_session_reads_only_that_session(memory: Memory, url: str) -> None:
    """The condition on the session reaches the index below the window function."""
    design_views.create(memory.database.views, ["langchain"])
    connection = sqlite3.connect(file_of(url))
    plan = connection.execute(
        """explain query plan select message from chat_message_history
           where tenant = 'acme' and session_id = 'trip' order by id"""
    ).fetchall()
    connection.close()
    assert any("SEARCH messages" in row[3] and "session_id=?" in row[3] for row in plan)


def test_an_engine_without_definitions_says_so() -> None:
    assert raised(Invalid, design_views.create, design_views.NoViews()).field == "database"

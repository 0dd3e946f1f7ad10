"""Imports from other systems: everything is stored once with its own times, or listed in the
report.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import sqlite3
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import foreign_sources as sources
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.store.sqlite import SqliteStore

from memorist import Memory, Scope
from memorist.base import ids
from memorist.base.errors import Invalid, MemoristError, SettingsError, Unreachable
from memorist.cli import main
from memorist.importing import ImportReport, detect_format, foreign_files, formats, import_from
from memorist_frameworks.langchain import MemoristChatMessageHistory
from memorist_frameworks.langgraph import MemoristStore
from memorist_frameworks.openai_agents import MemoristSession
from memorist_importers import archives
from testkit.faults import with_faults

MAKE: dict[str, Callable[[Path], Path]] = {
    "chatgpt": lambda folder: sources.chatgpt(folder / "chatgpt.zip"),
    "claude": lambda folder: sources.claude(folder / "claude.zip"),
    "langgraph": lambda folder: sources.langgraph(folder / "store.db"),
    "letta": lambda folder: sources.letta(folder / "agent.af"),
    "mcp-memory": lambda folder: sources.mcp_memory(folder / "memory.jsonl"),
    "mem0": lambda folder: sources.mem0(folder / "mem0.json"),
    "openai-agents": lambda folder: sources.openai_agents(folder / "sessions.db"),
}


def adas_import(memory: Memory, source: Path | str, format: str, **how: Any) -> ImportReport:
    """Import a source as Ada's of the tenant acme."""
    return import_from(memory, source, format, tenant="acme", user="ada", **how)


def unplaced(report: ImportReport) -> list[tuple[str, str]]:
    """Return what was not imported, and where it is in the source."""
    return [(item.what, item.where) for item in report.unplaced]


RECORDS = ("entry", "item", "note", "conversation", "entity", "relation")


def counts(report: ImportReport) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    return dict(report.read), dict(report.written), dict(report.there)


LOCAL = {"updated_at", "created_at", "touched_at", "first_at", "last_active_at"}
LOCAL |= {"id", "consolidation_id"}


def everything(memory: Memory, tmp_path: Path) -> bytes:
    """Return all rows, without the times of writing."""
    (tmp_path / "all.jsonl").unlink(missing_ok=True)
    memory.export(tmp_path / "all.jsonl", tenants=["acme"])
    lines = (tmp_path / "all.jsonl").read_text().splitlines()
    rows = [json.loads(line).get("row", {}) for line in lines]
    kept = [{name: row[name] for name in row if name not in LOCAL} for row in rows]
    return json.dumps(kept).encode()


@pytest.mark.parametrize("format", MAKE)
def test_a_dry_run_matches_the_import_and_a_second_run_adds_nothing(
    memory: Memory, tmp_path: Path, format: str
) -> None:
    source = MAKE[format](tmp_path)
    memory.scope(tenant="acme", user="ada", agent="scout").sessions.add("mine")

    before = memory.counts()
    result = adas_import(memory, source, format, dry_run=True)
    assert memory.counts() == before
    seen: list[tuple[int, int]] = []
    done = adas_import(memory, source, format, progress=lambda *step: seen.append(step))
    assert counts(done) == counts(result)
    assert done.unplaced == result.unplaced
    assert done.there.total() == 0
    assert seen[-1][0] == seen[-1][1] > 0
    left = [item for item in done.unplaced if item.what in RECORDS and "expired" not in item.reason]
    assert done.read.total() == done.written.total() + len(left)
    stored = everything(memory, tmp_path)
    again = adas_import(memory, source, format)
    assert again.written.total() == 0
    assert again.there == done.written
    assert again.unplaced == done.unplaced
    assert everything(memory, tmp_path) == stored
    assert [finding for finding in memory.verify() if not finding.ok] == []
    assert memory.scope(tenant="acme", user="ada", agent="scout").sessions.active().id == "mine"


@pytest.mark.parametrize("format", MAKE)
def test_an_interrupted_import_is_completed_by_another_run(
    open_memory: Callable[..., Memory], tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = MAKE[format](tmp_path)
    memory, faults = with_faults(open_memory())
    import_from(memory, source, format, tenant="whole", user="ada")
    monkeypatch.setattr("memorist.importing.record_writer.BATCH_SIZE", 2)
    tries = 0
    while True:
        tries += 1
        faults.fail("write", KeyboardInterrupt(), at=tries)
        try:
            import_from(memory, source, format, tenant="parts", user="ada")
            break
        except KeyboardInterrupt:
            continue
        finally:
            faults.heal()
    assert tries > 2
    for tenant in ("whole", "parts"):
        memory.export(tmp_path / f"{tenant}.jsonl", tenants=[tenant])
    assert rows(tmp_path / "whole.jsonl") == rows(tmp_path / "parts.jsonl")


STORED = ["content", "session_id", "seq", "role", "label", "attributes"]
STORED += ["place", "key", "value", "text", "name", "type"]


def rows(path: Path) -> list[str]:
    """Return the rows of an export, without generated ids and current times."""
    results = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    shown = [(line["table"], line["row"]) for line in results if "table" in line]
    return sorted(json.dumps([name, [row.get(field) for field in STORED]]) for name, row in shown)


def test_chatgpt_every_branch_and_every_field(memory: Memory, me: Scope, tmp_path: Path) -> None:
    report = adas_import(memory, sources.chatgpt(tmp_path / "export.zip"), "chatgpt")
    assert dict(report.written) == {"conversations": 3, "messages": 8, "items": 2}
    assert set(unplaced(report)) == {("file", "chat.html"), ("file", "file-1-photo.png")}
    shown = me.messages.window(sources.CONVERSATION)
    assert [(message.role, message.text) for message in shown] == [
        ("system", ""),
        ("user", "Where does my sister live?"),
        ("assistant", ""),
        ("tool", "Lisbon"),
        ("assistant", "In Lisbon."),
        ("user", "Look at this"),
    ]
    assert me.messages.window(sources.CONVERSATION, turns_only=True)[
        -1
    ].created_at == datetime.fromtimestamp(1_700_000_000.5, UTC)
    original = shown[0].content["original"]
    assert original["content"]["user_instructions"] == "Be kind."
    assert original["parent"] == "root"
    assert (
        shown[5].content["original"]["content"]["parts"][0]["asset_pointer"]
        == "file-service://file-1"
    )
    assert shown[4].content["original"]["metadata"] == {"model_slug": "gpt-5"}
    session = me.sessions.get(sources.CONVERSATION)
    assert (session.label, session.agent) == ("My sister", "chatgpt")
    assert session.attributes["default_model_slug"] == "gpt-5"
    assert session.attributes["is_archived"] is False
    assert session.created_at == datetime.fromtimestamp(1_700_000_000, UTC)
    branch = me.sessions.get(f"{sources.CONVERSATION}/q2-old")
    assert branch.attributes == {
        "import": "chatgpt",
        "branch_of": sources.CONVERSATION,
        "after": "q1",
    }
    assert [message.text for message in me.messages.window(branch.id)] == [
        "I do not know.",
        "Think!",
    ]
    assert me.items.get(("chatgpt", "account"), "user").value["email"] == "ada@example.com"
    messages = me.context(sources.CONVERSATION, "And my sister?").messages
    assert {"role": "tool", "tool_call_id": "call", "content": "Lisbon"} in messages
    assert shown[4].tokens < 10  # what is kept beside the words costs nothing


def test_claude_conversations_projects_and_memories(
    memory: Memory, me: Scope, tmp_path: Path
) -> None:
    report = adas_import(memory, sources.claude(tmp_path / "export.zip"), "claude")
    assert dict(report.written) == {"conversations": 2, "messages": 2, "items": 4, "notes": 2}
    assert unplaced(report) == [("file", "readme.txt")]
    first, second = me.messages.window(sources.CONVERSATION)
    assert (first.role, first.text) == ("user", "Where does my sister live?")
    assert first.content["original"]["attachments"][0]["extracted_content"] == "Dear"
    assert first.content["original"]["content"][0]["start_timestamp"] == "2025-03-01"
    assert [part["type"] for part in second.content["parts"]] == [
        "thinking",
        "text",
        "tool_use",
        "tool_result",
        "text",
    ]
    assert second.content["original"]["parent_message_uuid"] == "m-1"
    assert second.created_at == datetime(2025, 3, 1, 10, 1, tzinfo=UTC)
    assert me.items.get(("claude", "projects", "p-1", "docs"), "d-1").value["filename"] == "plan.md"
    assert me.items.search("tarts", ("claude",))[0].item.key == "d-1"
    notes = memory.scope(tenant="acme", user="ada", agent="claude").notes.read().text
    assert notes.count("**Ada** likes trains.") == notes.count("Books early.") == 1
    # As the export has it when it is a plain file.
    with zipfile.ZipFile(tmp_path / "export.zip") as archive:
        archive.extract("conversations.json", tmp_path)
    alone = adas_import(memory, tmp_path / "conversations.json", "claude")
    assert dict(alone.there) == {"conversations": 2, "messages": 2}
    assert not alone.written


def test_mem0_memories_with_all_metadata(memory: Memory, tmp_path: Path) -> None:
    report = import_from(memory, sources.mem0(tmp_path / "export.json"), "mem0", tenant="acme")
    assert dict(report.written) == {"entries": 2, "items": 3}
    assert [item.reason for item in report.unplaced] == [
        "has no text under memory, data, text, content",
        "is not an object",
    ]
    helper = memory.scope(tenant="acme", user="ada", agent="helper")
    (entry,) = helper.entries.list()
    assert (entry.content, entry.source, entry.kind) == (
        "Sister lives in Lisbon",
        "import",
        "journal",
    )
    assert entry.created_at == datetime(2024, 7, 20, 8, 30, 36, 275141, tzinfo=UTC)
    assert helper.items.get(("mem0", "memories"), "mem-1").value["metadata"] == {
        "category": "family"
    }
    assert helper.search("where does my sister live").hits[0].id == entry.id
    (other,) = memory.scope(tenant="acme", user="ada", agent="mem0").entries.list()
    assert (other.content, other.updated_at.day) == ("Likes trains", 22)
    others = import_from(memory, tmp_path / "export.json", "mem0", tenant="acme", user="bob")
    assert not others.written
    assert others.unplaced[0].reason.startswith("belongs to ada: import without --user")
    assert (
        helper.items.get(("mem0", "relations"), "ada → sister_of → clara").value["target"]
        == "clara"
    )


def test_mem0_history_and_points(memory: Memory, me: Scope, tmp_path: Path) -> None:
    report = adas_import(memory, sources.mem0_history(tmp_path / "history.db"), "mem0")
    assert dict(report.written) == {"items": 4, "entries": 1, "conversations": 1, "messages": 2}
    (entry,) = memory.scope(tenant="acme", user="ada", agent="mem0").entries.list()
    assert (entry.content, entry.created_at.day, entry.updated_at.day) == (
        "Sister lives in Lisbon",
        20,
        21,
    )
    assert [message.text for message in me.messages.window("mem0 user_id=ada")] == [
        "My sister moved.",
        "To Lisbon?",
    ]
    point = {
        "id": "mem-1",
        "vector": [0.5],
        "payload": {"data": "Sister lives in Lisbon", "user_id": "ada", "hash": "h"},
    }
    for value in ({"result": {"points": [point]}}, [point]):
        again = import_from(
            memory, sources.written(tmp_path / "points.json", value), "mem0", tenant="acme"
        )
        assert again.there["entries"] == 1
        assert again.unplaced[0].what == "vector"
    lines = tmp_path / "points.jsonl"
    lines.write_text(json.dumps(point) + "\n" + json.dumps({**point, "id": "mem-5"}) + "\n")
    assert import_from(memory, lines, "mem0", tenant="acme").written["entries"] == 1


def test_letta_blocks_messages_and_archive(memory: Memory, tmp_path: Path) -> None:
    report = adas_import(memory, sources.letta(tmp_path / "agent.af"), "letta")
    assert dict(report.written) == {"entries": 2, "items": 6, "conversations": 1, "messages": 5}
    assert set(unplaced(report)) == {
        ("tool", "find"),
        ("vector", "agent.af agents[0] passage-1"),
        ("block", "agent.af agents[0] block-9"),
    }
    agent = memory.scope(tenant="acme", user="ada", agent="memgpt")
    assert {(item.kind, item.content) for item in agent.entries.list()} == {
        ("core", "human: Name: Ada"),
        ("journal", "Clara bakes."),
    }
    messages = agent.messages.window("letta memgpt")
    assert [message.text for message in messages][1:] == [
        "Where does my sister live?",
        "",
        "Lisbon",
        "In Lisbon.",
    ]
    assert (
        messages[2].content["tool_calls"][0]["id"] == messages[3].content["tool_call_id"] == "c-1"
    )
    assert agent.items.get(("letta", "agents"), "memgpt").value["llm_config"] == {"model": "m"}
    assert (
        agent.items.get(("letta", "blocks"), "memgpt/block-0").value["description"] == "Who it is"
    )
    old = {"name": "first", "core_memory": [{"label": "persona", "value": "Kind"}], "tools": [{"name": "f"}],
           "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}], "created_at": "2025-01-01T00:00:00"}],
           "llm_config": {"model": "m"}}  # fmt: skip
    report = adas_import(memory, sources.written(tmp_path / "old.af", old), "letta")
    assert dict(report.written) == {"entries": 1, "items": 2, "conversations": 1, "messages": 1}
    assert [item.what for item in report.unplaced] == ["tool"]


def test_langgraph_items_keep_their_place(memory: Memory, me: Scope, tmp_path: Path) -> None:
    source = sources.langgraph(tmp_path / "store.db")
    report = adas_import(memory, f"sqlite:///{source}", "langgraph")
    assert dict(report.written) == {"items": 3}
    assert unplaced(report) == [("item", "cache gone"), ("thread", "thread-1")]
    ours = MemoristStore(me)
    with SqliteStore.from_conn_string(str(source)) as theirs:
        for key in ("a", "b.c"):
            here, there = ours.get(("memories", "ada"), key), theirs.get(("memories", "ada"), key)
            assert here is not None
            assert there is not None
            assert (here.value, here.namespace) == (there.value, there.namespace)
            assert here.created_at == datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
            assert here.updated_at == datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC)
        assert ours.list_namespaces() == theirs.list_namespaces()
    for refresh, least, most in (
        (False, 0, 120),
        (True, 3500, 3600),
    ):  # it goes when it would have; read, it lives on
        expires = me.items.get(("cache",), "soon", refresh=refresh).expires_at
        assert expires is not None
        assert least < (expires - datetime.now(UTC)).total_seconds() <= most


def test_without_its_library_a_server_import_names_the_package(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(
        SettingsError,
        match=r"requires the extra `postgres` .*; run `pip install 'memorist\[postgres\]'`",
    ):
        import_from(memory, "postgresql://localhost:1/none", "langgraph", user="ada")


def test_langgraph_store_on_a_server(memory: Memory, me: Scope, postgres_url: str) -> None:
    """Its PostgreSQL store has the same table, with the value as jsonb."""
    with psycopg.connect(postgres_url) as connection:
        connection.execute("""create table store (prefix text, key text, value jsonb, created_at timestamptz default now(),
                              updated_at timestamptz default now(), expires_at timestamptz, ttl_minutes int)""")
        connection.execute("""insert into store (prefix, key, value, created_at) values
                              ('memories.ada', 'a', '{"text": "Lisbon", "n": 1.5}', '2024-01-02T03:04:05Z')""")
        connection.execute("""insert into store (prefix, key, value, expires_at) values
                              ('cache', 'gone', '{}', now() - interval '1 day'), ('odd', 'list', '[1]', null)""")
    report = adas_import(memory, postgres_url, "langgraph")
    assert dict(report.written) == {"items": 1}
    assert unplaced(report) == [("item", "cache gone"), ("item", "odd list")]
    item = me.items.get(("memories", "ada"), "a")
    assert (item.value, item.created_at) == (
        {"text": "Lisbon", "n": 1.5},
        datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC),
    )


def test_openai_sessions_continue_in_ours(memory: Memory, tmp_path: Path) -> None:
    report = adas_import(memory, sources.openai_agents(tmp_path / "s.db"), "openai-agents")
    assert dict(report.written) == {"conversations": 2, "messages": 6}
    assert unplaced(report) == [("message", "s.db message 7")]  # the SDK passes over it
    session = MemoristSession(memory.scope(tenant="acme", user="ada", agent="scout"), "talk-1")
    assert asyncio.run(session.get_items()) == sources.ITEMS


def test_langchain_table_continues_in_ours(memory: Memory, me: Scope, postgres_url: str) -> None:
    source = sources.langchain(postgres_url)
    for is_new in (True, False):
        report = import_from(memory, source, "sql", map="langchain", tenant="acme", user="ada")
        counts = report.written if is_new else report.there
        assert dict(counts) == {"conversations": 2, "messages": 5}
        assert not (report.there if is_new else report.written)
    assert MemoristChatMessageHistory(me, sources.FIRST_TALK).messages == sources.SAID
    first = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    assert me.sessions.get(sources.FIRST_TALK).created_at == first
    with pytest.raises(Unreachable):
        import_from(memory, "postgresql://nobody@127.0.0.1:1/x", "sql", map="langchain", user="ada")


def test_the_graph_of_the_official_server(memory: Memory, me: Scope, tmp_path: Path) -> None:
    report = adas_import(memory, sources.mcp_memory(tmp_path / "memory.jsonl"), "mcp-memory")
    assert dict(report.written) == {"entities": 2, "relations": 1}
    assert [item.what for item in report.unplaced] == ["field", "line", "line"]
    graph = me.graph.read()
    assert [asdict(item) for item in graph.entities] == [
        {"name": "Ada", "type": "person", "observations": ["likes trains", "has a sister"]},
        {"name": "Clara", "type": "person", "observations": []},
    ]
    assert [(item.start, item.target, item.type) for item in graph.relations] == [
        ("Ada", "Clara", "sister of")
    ]


def test_entities_of_one_name_stay_two(memory: Memory, me: Scope, tmp_path: Path) -> None:
    """As in the server's own file; a dry run counts as a run does, and a second run adds nothing."""
    lines = [
        {
            "type": "entity",
            "name": f"e{n % 75}",
            "entityType": "x" if n else "y",
            "observations": [f"o{n}"],
        }
        for n in [*range(150), 0]
    ]
    lines += [
        {"type": "relation", "from": "e0", "to": f"e{n}", "relationType": "r"} for n in range(120)
    ]
    source = tmp_path / "memory.jsonl"
    source.write_text("\n".join(map(json.dumps, lines)))
    tried, done = (
        adas_import(memory, source, "mcp-memory", dry_run=dry_run) for dry_run in (True, False)
    )
    assert counts(tried) == counts(done)
    assert tried.unplaced == done.unplaced
    assert done.unplaced == []
    assert (done.written, done.there) == ({"entities": 150, "relations": 120}, {"entities": 1})
    twins = [
        (entity.type, entity.observations)
        for entity in me.graph.read().entities
        if entity.name == "e0"
    ]
    assert twins == [("y", ["o0"]), ("x", ["o75"])]
    again = adas_import(memory, source, "mcp-memory")
    assert (again.written, again.unplaced) == ({}, [])
    assert again.there == {"entities": 151, "relations": 120}


def test_entities_of_one_name_stay_two_after_an_interrupted_import(
    memory: Memory, me: Scope, tmp_path: Path
) -> None:
    """The first run ended between them; others of the name were in the graph before."""

    def load(*observations: str) -> ImportReport:
        lines = [
            json.dumps({"type": "entity", "name": "Ada", "entityType": "x", "observations": [text]})
            for text in observations
        ]
        file = tmp_path / "memory.jsonl"
        file.write_text("\n".join(lines), encoding="utf-8")
        return adas_import(memory, file, "mcp-memory")

    load("one")
    for _ in range(2):
        load("one", "two", "three")
        texts = [entity.observations for entity in me.graph.read().entities]
        assert texts == [["one"], ["two"], ["three"]]


def test_entities_that_the_graph_already_has(memory: Memory, me: Scope, tmp_path: Path) -> None:
    """One of the same type grows; one of another type, or one of several, is listed."""
    source = tmp_path / "memory.jsonl"

    def load(*entities: tuple[str, str, str]) -> ImportReport:
        lines = [
            {"type": "entity", "name": name, "entityType": type, "observations": [text]}
            for name, type, text in entities
        ]
        source.write_text("\n".join(map(json.dumps, lines)))
        return adas_import(memory, source, "mcp-memory")

    load(("Ada", "person", "bakes"), ("Bo", "person", "sings"))
    load(("Cy", "person", "swims"), ("Cy", "ship", "sank"))
    grown = load(("Ada", "person", "paints"), ("Bo", "ship", "sails"), ("Cy", "ship", "rusts"))
    assert [item.where for item in grown.unplaced] == ["Bo", "Cy"]
    entities = [(item.name, item.type, item.observations) for item in me.graph.read().entities]
    assert entities == [
        ("Ada", "person", ["bakes", "paints"]),
        ("Bo", "person", ["sings"]),
        ("Cy", "person", ["swims"]),
        ("Cy", "ship", ["sank"]),
    ]


def test_a_mem0_history_of_several_users_is_not_given_to_one(
    memory: Memory, me: Scope, tmp_path: Path
) -> None:
    """Issue 14, 6: history.db has no user, so memories are listed; messages name their user."""
    path = sources.mem0_history(tmp_path / "history.db")
    scope = "agent_id=scout&user_id=bob"
    with sqlite3.connect(path) as database:
        row = ("x-3", scope, "user", "I am Bob.", None, "2024-07-21T01:00:00+00:00")
        database.execute("insert into messages values (?, ?, ?, ?, ?, ?)", row)
    database.close()
    report = adas_import(memory, path, "mem0")
    assert dict(report.written) == {"conversations": 1, "messages": 2}
    assert unplaced(report) == [("memory", "mem-1"), ("conversation", f"mem0 {scope}")]
    assert "may belong to bob" in report.unplaced[0].reason
    assert list(memory.scope(tenant="acme", user="ada", agent="mem0").entries.list()) == []
    both = import_from(memory, path, "mem0", tenant="acme")
    assert dict(both.written) == {"conversations": 1, "messages": 1}
    bob = memory.scope(tenant="acme", user="bob", agent="mem0")
    assert [message.text for message in bob.messages.window(f"mem0 {scope}")] == ["I am Bob."]


@pytest.mark.parametrize("statement", ["delete from messages", "drop table messages"])
def test_a_mem0_history_without_messages_is_given_to_nobody(
    memory: Memory, tmp_path: Path, statement: str
) -> None:
    """It may hold the memories of everybody."""
    path = sources.mem0_history(tmp_path / "history.db")
    with sqlite3.connect(path) as database:
        database.execute(statement)
    database.close()
    report = adas_import(memory, path, "mem0")
    assert dict(report.written) == {}
    assert unplaced(report) == [("memory", "mem-1")]
    assert list(memory.scope(tenant="acme", user="ada", agent="mem0").entries.list()) == []


@pytest.mark.parametrize("first", ["history", "export"])
def test_a_memory_in_two_files_of_mem0_is_one_entry(
    memory: Memory, tmp_path: Path, first: str
) -> None:
    """Its export names an agent, and its history does not."""
    files = [sources.mem0_history(tmp_path / "history.db"), sources.mem0(tmp_path / "export.json")]
    for path in files if first == "history" else reversed(files):
        adas_import(memory, path, "mem0")
    entries = memory.scope(tenant="acme", user="ada").entries.list()
    assert sorted(entry.content for entry in entries) == ["Likes trains", "Sister lives in Lisbon"]


def test_removed_objects_are_imported_again(memory: Memory, me: Scope, tmp_path: Path) -> None:
    """A removed message keeps its number: the session goes on after it."""
    path = sources.openai_agents(tmp_path / "s.db")
    first = adas_import(memory, path, "openai-agents")
    me.messages.pop("talk-1")
    me.messages.clear("talk-2")
    for dry_run in (True, False):
        again = adas_import(memory, path, "openai-agents", dry_run=dry_run)
        assert again.written == {"messages": 2}
        assert again.unplaced == first.unplaced
    assert asyncio.run(MemoristSession(me, "talk-1").get_items()) == sources.ITEMS


def test_new_messages_are_added_and_differences_are_listed(
    memory: Memory, me: Scope, tmp_path: Path
) -> None:
    """Nothing is lost if both the source and the memory have changed."""
    path = sources.openai_agents(tmp_path / "s.db")
    adas_import(memory, path, "openai-agents", agent="scout")
    with sqlite3.connect(path) as database:
        database.execute("insert into agent_messages (session_id, message_data) values ('talk-2', ?)",
                         [json.dumps({"role": "user", "content": "One more"})])  # fmt: skip
    database.close()
    grown = adas_import(memory, path, "openai-agents", agent="scout")
    assert dict(grown.written) == {"messages": 1}
    assert me.messages.window("talk-2")[-1].text == "One more"
    me.messages.append("talk-1", "user", "Only here")
    again = adas_import(memory, path, "openai-agents", agent="scout")
    assert not again.written
    assert [item.what for item in again.unplaced] == ["message"]
    me.messages.append("talk-2", "user", "Only here")
    with sqlite3.connect(path) as database:
        database.execute("insert into agent_messages (session_id, message_data) values ('talk-2', ?)",
                         [json.dumps({"role": "user", "content": "Only there"})])  # fmt: skip
    database.close()
    split = adas_import(memory, path, "openai-agents", agent="scout")
    assert [item.where for item in split.unplaced if item.what == "conversation"] == ["talk-2"]
    foreign = import_from(memory, path, "openai-agents", tenant="acme", user="bob", agent="scout")
    assert [item.where for item in foreign.unplaced if item.what == "conversation"] == [
        "talk-1",
        "talk-2",
    ]
    assert not foreign.written
    tried = import_from(
        memory, path, "openai-agents", tenant="acme", user="bob", agent="scout", dry_run=True
    )
    assert tried.unplaced == foreign.unplaced


def test_unstorable_data_is_listed_and_the_rest_is_stored(
    memory: Memory, me: Scope, tmp_path: Path
) -> None:
    contents = [
        {"uuid": str(n), "sender": "human", "text": "x" * size}
        for n, size in enumerate((3, 2 << 20, 4))
    ]
    talk = {"uuid": "big", "name": "n" * 3000, "chat_messages": contents, "notes": "y" * 100_000}
    report = adas_import(memory, sources.written(tmp_path / "c.json", [talk]), "claude")
    assert unplaced(report) == [("message", "big message 1")]
    assert len(me.messages.window("big")) == 2
    stored = me.items.get(("claude", "conversations"), "big").value
    assert (stored["notes"], stored["label"]) == ("y" * 100_000, "n" * 3000)
    facts = [{"id": "1", "memory": "Fine"}, {"id": "2", "memory": "z" * 20_000}, {"id": "1", "memory": "Fine"},
             {"id": "1", "memory": "Other"}]  # fmt: skip
    for dry_run in (True, False):
        source = sources.written(tmp_path / "m.json", facts)
        report = adas_import(memory, source, "mem0", dry_run=dry_run)
        counted = (report.read, report.written, report.there)
        assert [count["entries"] for count in counted] == [4, 1, 1]
        assert [item.where for item in report.unplaced] == ["1", "2"]


def test_unexpected_fields_are_stored_or_listed(memory: Memory, me: Scope, tmp_path: Path) -> None:
    def run(format: str, value: Any) -> list[tuple[str, str]]:
        source = sources.written(tmp_path / "it.json", value)
        report = import_from(memory, source, format, tenant="acme", user="ada", agent="scout")
        return unplaced(report)

    both = {"results": [{"id": "1", "memory": "first list"}], "memories": [{"id": "2", "memory": "second list"}],
            "extra": {"a": 1}, "relations": ["odd"]}  # fmt: skip
    assert run("mem0", both) == [("relation", "it.json relations[0]")]
    assert {item.content for item in me.entries.list()} == {"first list", "second list"}
    assert me.items.get(("mem0", "files"), "it.json").value == {"extra": {"a": 1}}
    values = [{"content": None, "text": "hi"}, {"content": {"a": 1}},
            {"content": [{"type": "text", "text": "a"}], "text": "b"},
            {"content": ["c", 5]}]  # fmt: skip
    agent = {"name": "a", "messages": values, "memory_blocks": "odd", "block_ids": 5}
    blocks = [
        {"value": "one"},
        {"value": "two"},
        {"id": "x", "value": "3"},
        {"id": "x", "value": "4"},
        "odd",
    ]
    assert run(
        "letta",
        {"agents": [agent], "blocks": blocks, "tools": [5], "archival_passages": {"text": "odd"}},
    ) == [
        ("block", "it.json blocks[4]"),
        ("block", "it.json blocks[3]"),
        ("block", "it.json agents[0] memory_blocks"),
        ("tool", "it.json tools[0]"),
        ("passage", "it.json archival_passages"),
    ]
    assert [(item.text, item.content["original"]) for item in me.messages.window("letta a")] == [
        ("hi", {}), ("", {"content": {"a": 1}}), ("a", {"text": "b"}), ("c\n", {"content": ["c", 5]}),
    ]  # fmt: skip
    assert {"block: one", "block: two", "block: 3"} <= {item.content for item in me.entries.list()}
    nodes = {"root": {"message": None, "colour": "red"}, "a": {"message": "odd", "parent": "root"}}
    assert run("chatgpt", [{"id": "talk", "title": ["odd"], "mapping": nodes}]) == [
        ("message", "it.json[0] node a")
    ]
    assert me.sessions.get("talk").attributes == {
        "import": "chatgpt", "id": "talk", "title": ["odd"],
        "silent_nodes": {"root": {"colour": "red"}, "a": {"parent": "root"}},
    }  # fmt: skip


BROKEN: dict[str, Any] = {
    "cut off": '[{"uuid": "a", "chat_messages": [',
    "no list": '{"a": 1}',
    "no conversation": '[{"uuid": "a"}]',
    "a number": "[5]",
    "nothing": "",
    "deep": "[" + '{"a":' * 5000 + "1" + "}" * 5000 + "]",
    "a huge number": '[{"uuid": "a", "chat_messages": [], "n": ' + "9" * 5000 + "}]",
    "not a number": '[{"uuid": "a", "chat_messages": [], "n": NaN}]',
    "no text": b"\xff\xfe\x00[",
    "no archive": b"PK\x03\x04" + b"\x00" * 50,
    "no database": b"SQLite format 3\x00" + b"\x01" * 500,
    "types": '[{"uuid": 5, "mapping": [], "chat_messages": "x", "id": {}}]',
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_broken_sources_are_rejected_before_writing(
    memory: Memory, tmp_path: Path, content: Any
) -> None:
    """For every format the error has the place; never a traceback, and nothing is stored."""
    path = tmp_path / "source"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    refused = 0
    for format in formats():
        before = memory.counts()
        try:
            adas_import(memory, path, format)
        except MemoristError:
            refused += 1
            assert memory.counts() == before
    assert refused >= 5
    detect_format(path)


def test_malicious_archives(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is unpacked to a disk; an archive that would fill the memory is rejected."""
    for name in (
        "../../evil/conversations.json",
        "/etc/conversations.json",
        "a\\..\\conversations.json",
    ):
        with zipfile.ZipFile(tmp_path / "slip.zip", "w") as archive:
            archive.writestr(name, "[]")
            archive.writestr("../../evil.txt", "x")
        report = adas_import(memory, tmp_path / "slip.zip", "chatgpt")
        assert "../../evil.txt" in [item.where for item in report.unplaced]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "agent.db",
        "agent.db-shm",
        "agent.db-wal",
        "slip.zip",
    ]
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", b"[" + b" " * (8 << 20) + b"]")
    monkeypatch.setattr(archives, "SMALL_ARCHIVE_BYTES", 1 << 20)
    with pytest.raises(Invalid, match="zip bomb"):
        adas_import(memory, tmp_path / "bomb.zip", "chatgpt")
    with zipfile.ZipFile(tmp_path / "torn.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", json.dumps([{"n": n} for n in range(1000)]))
    torn = bytearray((tmp_path / "torn.zip").read_bytes())
    torn[60:80] = b"\xff" * 20
    (tmp_path / "torn.zip").write_bytes(torn)
    with pytest.raises(Invalid):
        adas_import(memory, tmp_path / "torn.zip", "chatgpt")
    monkeypatch.setattr(foreign_files, "MAX_JSON_BYTES", 2 << 20)
    long = [{"uuid": "a", "chat_messages": [], "x": "y" * (5 << 20)}]
    for value in (long, long[0]):
        with pytest.raises(Invalid, match="over the limit"):
            import_from(
                memory, sources.written(tmp_path / "long.json", value), "mem0", tenant="acme"
            )


def test_a_database_with_views_for_tables_is_harmless(memory: Memory, tmp_path: Path) -> None:
    path = tmp_path / "trap.db"
    with sqlite3.connect(path) as database:
        database.execute("""create view store as with recursive n(x) as (select 1 union all select x + 1 from n)
                            select 'a' as prefix, x as key, '{}' as value from n""")
    database.close()
    with pytest.raises(Invalid):
        adas_import(memory, path, "langgraph")


def test_the_owner_must_be_known(memory: Memory, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="does not name the owner"):
        import_from(memory, sources.claude(tmp_path / "c.zip"), "claude", tenant="acme")
    with pytest.raises(Invalid, match="must be one of"):
        import_from(memory, tmp_path / "c.zip", "other", tenant="acme")
    with pytest.raises(Invalid, match="is not an option of the format claude"):
        import_from(memory, tmp_path / "c.zip", "claude", tenant="acme", map="x")
    import_from(memory, tmp_path / "c.zip", "claude", tenant="acme", user="ada", dry_run=True)
    assert memory.tenants() == []
    files = {"mem0": {"results": [{"id": "1", "memory": "Ada's PIN is 1234"}]},
             "letta": {"agents": [{"name": "a", "block_ids": ["b"]}], "blocks": [{"id": "b", "value": "PIN is 1234"}]},
             "claude": [{"uuid": "p", "docs": [{"content": "PIN is 1234"}]}]}  # fmt: skip
    for format, value in files.items():
        source = sources.written(tmp_path / "projects.json", value)
        if format == "claude":
            with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
                archive.writestr("projects.json", json.dumps(value))
                archive.writestr("readme.txt", "so that there are two")
            source = tmp_path / "p.zip"
        with pytest.raises(Invalid, match="is required, or shared"):
            import_from(memory, source, format, tenant="acme")
        assert memory.tenants() == []
    result = import_from(
        memory,
        sources.written(tmp_path / "m.json", files["mem0"]),
        "mem0",
        tenant="acme",
        shared=True,
    )
    assert result.written["entries"] == 1
    assert memory.scope(tenant="acme", user=None, agent="mem0").entries.list()[0].user is None


ODD = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just([]), st.just({}), st.just("\ud800"),
    st.just([None, 5, "odd one", {}, []]), st.just({"role": 5, "id": [], "text": {"x": "odd one"}}), st.just("odd one"),
    st.just("x" * 600), st.just(10**400), st.just([{"text": "odd one"}]),
)  # fmt: skip


def plain(format: str, folder: Path) -> tuple[Path, dict[str, Any]]:
    """Return a source in which everything can be stored, and its files."""
    source = MAKE[format](folder)
    if format in ("chatgpt", "claude"):
        with zipfile.ZipFile(source) as archive:
            return source, {
                name: json.loads(archive.read(name))
                for name in archive.namelist()
                if name.endswith(".json")
            }
    if format == "mcp-memory":
        first, second, third, *_ = map(json.loads, source.read_text().splitlines()[:3])
        return source, {
            "": [first, second, {name: third[name] for name in third if name != "colour"}]
        }
    value = json.loads(source.read_text())
    if format == "mem0":
        return source, {"": {**value, "results": value["results"][:2], "count": "two of them"}}
    (agent,) = value["agents"]
    passages = [
        {name: passage[name] for name in passage if name != "embedding"}
        for passage in agent["archival_passages"]
    ]
    return source, {
        "": {
            **value,
            "tools": [],
            "agents": [{**agent, "block_ids": [], "archival_passages": passages}],
        }
    }


def write_plain(source: Path, format: str, said: dict[str, Any]) -> None:
    if "" not in said:
        with zipfile.ZipFile(source, "w") as archive:
            for name, value in {"readme.txt": "so that there are two", **said}.items():
                archive.writestr(name, json.dumps(value))
    else:
        lines = said[""] if format == "mcp-memory" and isinstance(said[""], list) else [said[""]]
        source.write_text("\n".join(map(json.dumps, lines)))


def spoilt(value: Any, data: st.DataObject) -> Any:
    """Return the value with a part replaced."""
    if not isinstance(value, dict | list) or not value or data.draw(st.integers(0, 4)) == 0:
        return data.draw(ODD)
    key = data.draw(
        st.sampled_from(sorted(value) if isinstance(value, dict) else range(len(value)))
    )
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[key] = spoilt(value[key], data)
    return copy


def texts(value: Any) -> Iterator[str]:
    """Return every text in a value, also in JSON inside texts."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts(item)
    elif isinstance(value, str):
        yield value
        if value.startswith(("{", "[")):
            with suppress(ValueError):
                yield from texts(json.loads(value))


def lost(memory: Memory, folder: Path, tenant: str, said: Any) -> set[str]:
    """Return the texts of a source that its tenant does not have, except for normalised letters and
    kinds.
    """
    (folder / "kept.jsonl").unlink(missing_ok=True)
    memory.export(folder / "kept.jsonl", tenants=[tenant])
    text = "\n".join(
        texts(
            [json.loads(line) for line in (folder / "kept.jsonl").read_text().split("\n") if line]
        )
    )
    plain = {item.strip() for item in texts(said) if item.isascii() and item.isprintable()} - {
        "entity",
        "relation",
    }
    return {item for item in plain if item not in text}


@pytest.mark.parametrize("format", ["chatgpt", "claude", "letta", "mcp-memory", "mem0"])
@settings(max_examples=400 if os.environ.get("VENDORS") == "full" else 15)
@given(data=st.data())
def test_unexpected_types_anywhere(
    memory: Memory, tmp_path: Path, format: str, data: st.DataObject
) -> None:
    """Wrong types are rejected with their place, or listed; every text is stored or reported."""
    source, text = plain(format, tmp_path)
    if data.draw(st.booleans(), label="spoil it"):
        name = data.draw(st.sampled_from(sorted(text)))
        text[name] = spoilt(text[name], data)
    elif data.draw(st.booleans(), label="spoil each"):
        text = {name: spoilt(value, data) for name, value in text.items()}
    write_plain(source, format, text)
    tenant = ids.uuid7()
    memory.scope(tenant=tenant, user="ada", agent="scout").sessions.add("mine")
    with suppress(Invalid):
        report = import_from(memory, source, format, tenant=tenant, user="ada")
        if not [item for item in report.unplaced if item.what != "file"]:
            assert lost(memory, tmp_path, tenant, text) == set()


def test_a_file_names_its_owner(memory: Memory, tmp_path: Path) -> None:
    assert {format: detect_format(make(tmp_path)) for format, make in MAKE.items()} == {
        format: format for format in MAKE
    }
    assert detect_format(sources.mem0_history(tmp_path / "history.db")) == "mem0"
    memory.scope(tenant="acme", user="ada", agent="scout").sessions.add(
        "talk", label='"mapping": {'
    )
    memory.export(tmp_path / "ours.jsonl", tenants=["acme"])
    assert detect_format(tmp_path / "ours.jsonl") is None
    assert detect_format(tmp_path / "absent") is None


def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/new.db"
    monkeypatch.setenv("MEMORIST_DATABASE", url)
    source = str(sources.claude(tmp_path / "claude.zip"))

    def run(*words: str) -> tuple[int, str, str]:
        status = main.main(["import", *words])
        return status, *capsys.readouterr()

    status, out, _ = run(source, "--from", "claude", "--user", "ada", "--dry-run")
    assert status == 0
    assert not (tmp_path / "new.db").exists()
    assert "would be written" in out
    assert "readme.txt" in out
    status, out, _ = run(source, "--from", "claude", "--user", "ada", "--agent", "scout", "--json")
    payload = json.loads(out)
    assert (payload["written"]["messages"], payload["dry_run"]) == (2, False)
    assert payload["unplaced"][0]["where"] == "readme.txt"
    with Memory.open(url) as memory:
        me = memory.scope(user="ada", agent="scout")
        assert len(me.messages.window(sources.CONVERSATION)) == 2
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path(source).read_bytes())))
    status, out, _ = run("-", "--from", "claude", "--user", "ada", "--agent", "scout", "--json")
    assert json.loads(out)["there"]["messages"] == 2
    (tmp_path / "other.json").write_text(json.dumps([{"wrong": number} for number in range(30)]))
    status, out, _ = run(str(tmp_path / "other.json"), "--from", "mem0", "--user", "ada")
    assert (status, "30 records were not imported" in out) == (1, True)
    assert (out.count("other.json"), "… and 20 more" in out) == (10, True)
    by_map = ("--from", "sql", "--map", "langchain")
    for words, problem in (
        ((source,), "--from: is required: the file looks like --from claude."),
        ((source, "--user", "ada"), "--user: requires --from"),
        ((source, "--dry-run"), "--dry-run: requires --from"),
        (("postgresql://x/y",), "--from: is required for a server"),
        (("mysql://u:hunter2@x/y", *by_map), "begins with postgresql://, oracle:// or sqlite:///"),
        (("postgresql://u:hunter2%zz@x/y", *by_map), "%xx for special characters"),
        ((str(tmp_path),), f"file: {tmp_path} cannot be read: it is a folder"),
        ((source, "--from", "claude"), "user: is required"),
        ((source, "--from", "letta", "--user", "ada"), "cannot be read as JSON"),
    ):
        status, _, error = run(*words)
        assert (status, problem in error) == (2, True), error
        assert "hunter2" not in error

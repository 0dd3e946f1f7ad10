"""Small files in the formats of other systems, written by their own classes if installed."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import uuid
import zipfile
from pathlib import Path
from typing import Any

import psycopg
from agents import SQLiteSession
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_postgres import PostgresChatMessageHistory
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.sqlite import SqliteStore

CONVERSATION = "11111111-2222-3333-4444-555555555555"
FIRST_TALK, SECOND_TALK = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))
SAID = [
    HumanMessage("Where does my sister live?", id="h-1"),
    AIMessage("", tool_calls=[{"name": "find", "args": {"who": "sister"}, "id": "c-1"}]),
    ToolMessage("Lisbon", tool_call_id="c-1", artifact={"page": 3}),
    AIMessage(
        "In Lisbon.", usage_metadata={"input_tokens": 5, "output_tokens": 3, "total_tokens": 8}
    ),
]
ITEMS: list[Any] = [
    {"role": "user", "content": "Where does my sister live?"},
    {
        "type": "function_call",
        "call_id": "c-1",
        "name": "find",
        "arguments": '{"who": "sister"}',
        "id": "fc_1",
    },
    {"type": "function_call_output", "call_id": "c-1", "output": "Lisbon"},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "abc"},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [
            {"type": "output_text", "text": "In Lisbon.", "annotations": [], "logprobs": []}
        ],
    },
]


def written(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def node(
    id: str, parent: str | None, role: str = "", text: str = "", **more: Any
) -> dict[str, Any]:
    """Return a node of ChatGPT's tree."""
    message = {
        "id": id,
        "author": {"role": role, "name": None, "metadata": {}},
        "create_time": 1_700_000_000.5,
        "content": {"content_type": "text", "parts": [text]},
        "status": "finished_successfully",
        "end_turn": True,
        "weight": 1.0,
        "metadata": {"model_slug": "gpt-5"},
        "recipient": "all",
        **more,
    }
    return {"id": id, "message": message if role else None, "parent": parent, "children": []}


def chatgpt(path: Path) -> Path:
    """Write an archive with branches, hidden instructions, a tool call and an image."""
    nodes = [
        node("root", None),
        node("instructions", "root", "user", "Be kind.", content={
            "content_type": "user_editable_context", "user_profile": "Ada", "user_instructions": "Be kind."}),
        node("q1", "instructions", "user", "Where does my sister live?"),
        node("a1-old", "q1", "assistant", "I do not know."),
        node("q2-old", "a1-old", "user", "Think!"),
        node("call", "q1", "assistant", "print('Lisbon')", recipient="python",
             content={"content_type": "code", "language": "python", "text": "print('Lisbon')"}),
        node("output", "call", "tool", "Lisbon", author={"role": "tool", "name": "python", "metadata": {}},
             content={"content_type": "execution_output", "text": "Lisbon"}),
        node("a1", "output", "assistant", "In Lisbon."),
        node("q2", "a1", "user", "", content={"content_type": "multimodal_text", "parts": [
            {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-1", "width": 5}, "Look at this"]}),
    ]  # fmt: skip
    conversation = {
        "title": "My sister",
        "create_time": 1_700_000_000.0,
        "update_time": 1_700_000_100.0,
        "mapping": {item["id"]: item for item in nodes},
        "current_node": "q2",
        "conversation_id": CONVERSATION,
        "id": CONVERSATION,
        "gizmo_id": None,
        "is_archived": False,
        "default_model_slug": "gpt-5",
    }
    empty = {
        "title": "Nothing",
        "mapping": {"root": node("root", None)},
        "current_node": "root",
        "id": "empty-one",
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", json.dumps([conversation, empty]))
        archive.writestr("user.json", json.dumps({"id": "user-1", "email": "ada@example.com"}))
        archive.writestr(
            "message_feedback.json", json.dumps([{"id": "f-1", "rating": "thumbs_up"}])
        )
        archive.writestr("shared_conversations.json", "[]")
        archive.writestr("chat.html", "<html></html>")
        archive.writestr("file-1-photo.png", b"\x89PNG")
    return path


def claude(path: Path) -> Path:
    """Write conversations, a project with documents, and memories as in the archive."""
    values = [
        {"uuid": "m-1", "sender": "human", "text": "Where does my sister live?", "created_at": "2025-03-01T10:00:00.5Z",
         "updated_at": "2025-03-01T10:00:00.5Z", "content": [
             {"type": "text", "text": "Where does my sister live?", "start_timestamp": "2025-03-01", "citations": []}],
         "attachments": [{"file_name": "letter.txt", "file_size": 4, "file_type": "txt", "extracted_content": "Dear"}],
         "files": [{"file_name": "photo.png"}]},
        {"uuid": "m-2", "sender": "assistant", "text": "Let me look. In Lisbon.", "created_at": "2025-03-01T10:01:00Z",
         "updated_at": "2025-03-01T10:01:00Z", "parent_message_uuid": "m-1", "content": [
             {"type": "thinking", "thinking": "Hm."},
             {"type": "text", "text": "Let me look."},
             {"type": "tool_use", "id": "t-1", "name": "find", "input": {"who": "sister"}},
             {"type": "tool_result", "tool_use_id": "t-1", "name": "find", "content": [{"type": "text", "text": "Lisbon"}]},
             {"type": "text", "text": "In Lisbon."}], "attachments": [], "files": []},
    ]  # fmt: skip
    talks = [
        {"uuid": CONVERSATION, "name": "My sister", "summary": "", "created_at": "2025-03-01T10:00:00Z",
         "updated_at": "2025-03-01T10:01:00Z", "account": {"uuid": "acct"}, "chat_messages": values},
        {"uuid": "empty-one", "name": "", "created_at": "2025-03-02T10:00:00Z", "updated_at": "2025-03-02T10:00:00Z",
         "account": {"uuid": "acct"}, "chat_messages": []},
    ]  # fmt: skip
    project = {"uuid": "p-1", "name": "Travel", "description": "To Lisbon", "is_private": True, "prompt_template": "",
               "created_at": "2025-03-01T10:00:00Z", "docs": [
                   {"uuid": "d-1", "filename": "plan.md", "content": "Trams and tarts"}]}  # fmt: skip
    memory = {"conversations_memory": "**Ada** likes trains.", "project_memories": {"p-1": "Books early."},
              "account_uuid": "acct"}  # fmt: skip
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("conversations.json", json.dumps(talks))
        archive.writestr("projects.json", json.dumps([project]))
        archive.writestr("memories.json", json.dumps([memory]))
        archive.writestr(
            "users.json",
            json.dumps([{"uuid": "acct", "full_name": "Ada", "email_address": "a@example.com"}]),
        )
        archive.writestr("readme.txt", "hello")
    return path


def mem0(path: Path) -> Path:
    """Write the result of `get_all`, with a graph."""
    memories = [
        {"id": "mem-1", "memory": "Sister lives in Lisbon", "hash": "h", "metadata": {"category": "family"},
         "created_at": "2024-07-20T01:30:36.275141-07:00", "updated_at": None, "user_id": "ada", "agent_id": "helper",
         "categories": ["family"]},
        {"id": "mem-2", "memory": "Likes trains", "hash": "i", "metadata": None, "user_id": "ada",
         "created_at": "2024-07-21T01:30:36-07:00", "updated_at": "2024-07-22T01:30:36-07:00"},
        {"id": "mem-3", "memory": "  ", "user_id": "ada"},
        "no object",
    ]  # fmt: skip
    relations = [{"source": "ada", "relationship": "sister_of", "target": "clara"}]
    return written(path, {"results": memories, "relations": relations})


def mem0_history(path: Path) -> Path:
    """Write a history.db with a changed memory, a deleted one, and the last messages."""
    with sqlite3.connect(path) as database:
        database.execute("""create table history (id text primary key, memory_id text, old_memory text, new_memory text,
            event text, created_at datetime, updated_at datetime, is_deleted integer, actor_id text, role text)""")
        database.execute("create table messages (id text primary key, session_scope text, role text, content text,"
                         " name text, created_at datetime)")  # fmt: skip
        rows = [
            ("e-1", "mem-1", None, "Sister lives in Porto", "ADD", "2024-07-20T01:00:00+00:00", None, 0, None, "user"),
            ("e-2", "mem-1", "Sister lives in Porto", "Sister lives in Lisbon", "UPDATE", "2024-07-20T01:00:00+00:00",
             "2024-07-21T01:00:00+00:00", 0, None, "user"),
            ("e-3", "mem-2", None, "Likes cars", "ADD", "2024-07-20T01:00:00+00:00", None, 0, None, "user"),
            ("e-4", "mem-2", "Likes cars", None, "DELETE", "2024-07-22T01:00:00+00:00", None, 1, None, "user"),
        ]  # fmt: skip
        database.executemany("insert into history values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        database.executemany("insert into messages values (?, ?, ?, ?, ?, ?)", [
            ("x-1", "user_id=ada", "user", "My sister moved.", None, "2024-07-21T01:00:00+00:00"),
            ("x-2", "user_id=ada", "assistant", "To Lisbon?", "scout", "2024-07-21T01:00:01+00:00")])  # fmt: skip
    database.close()
    return path


def letta(path: Path) -> Path:
    """Write an agent file with blocks, messages with tool calls, an archive, tools and a file."""
    call = {"id": "c-1", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    empty: dict[str, Any] = {
        "name": None,
        "tool_calls": None,
        "tool_call_id": None,
        "tool_returns": [],
        "group_id": None,
    }

    def said(number: int, role: str, text: str, **more: Any) -> dict[str, Any]:
        parts = [{"type": "text", "text": text, "signature": None}]
        return {"id": f"message-{number}", "type": "message", "role": role, "content": parts, "model": "m", **empty,
                "created_at": f"2025-10-31T22:56:5{number}.459100+00:00", **more}  # fmt: skip

    agent = {
        "id": "agent-0", "name": "memgpt", "system": "You remember.", "block_ids": ["block-0", "block-9"],
        "tool_ids": ["tool-0"], "llm_config": {"model": "m"}, "in_context_message_ids": ["message-0"], "memory_blocks": [],
        "messages": [said(0, "system", "You remember."), said(1, "user", "Where does my sister live?"),
                     said(2, "assistant", "", tool_calls=[call]), said(3, "tool", "Lisbon", tool_call_id="c-1", name="find"),
                     said(4, "assistant", "In Lisbon.")],
        "archival_passages": [{"id": "passage-1", "text": "Clara bakes.", "created_at": "2025-01-02T00:00:00Z",
                               "tags": ["family"], "embedding": [0.5, 0.25]}],
    }  # fmt: skip
    blocks = [{"id": "block-0", "label": "human", "value": "\nName: Ada\n", "limit": 20000, "description": "Who it is",
               "metadata": {}},
              {"id": "block-7", "label": "spare", "value": "", "limit": 10}]  # fmt: skip
    return written(path, {
        "agents": [agent], "groups": [], "blocks": blocks, "files": [{"id": "file-0", "file_name": "a.txt"}], "sources": [],
        "tools": [{"id": "tool-0", "name": "find", "source_code": "def find(): ..."}], "mcp_servers": [],
        "metadata": {"revision_id": "1"}, "created_at": "2025-10-31T22:57:00Z",
    })  # fmt: skip


def mcp_memory(path: Path) -> Path:
    """Write the file of the official memory server, with lines that it ignores."""
    lines = [
        {
            "type": "entity",
            "name": "Ada",
            "entityType": "person",
            "observations": ["likes trains", "has a sister"],
        },
        {"type": "relation", "from": "Ada", "to": "Clara", "relationType": "sister of"},
        {
            "type": "entity",
            "name": "Clara",
            "entityType": "person",
            "observations": [],
            "colour": "red",
        },
        {"type": "entity", "name": 5},
    ]
    path.write_text("\n".join([*map(json.dumps, lines), "{broken", ""]), encoding="utf-8")
    return path


def openai_agents(path: Path) -> Path:
    """Write a database with the Agents SDK."""

    async def write() -> None:
        for name, items in (("talk-1", ITEMS), ("talk-2", ITEMS[:1])):
            session = SQLiteSession(name, path)
            await session.add_items(items)
            session.close()

    asyncio.run(write())
    with sqlite3.connect(path) as database:
        database.execute(
            "insert into agent_messages (session_id, message_data) values ('talk-2', '{broken')"
        )
    database.close()
    return path


def langgraph(path: Path) -> Path:
    """Write a store and a thread of a checkpointer into one file with LangGraph."""
    with SqliteStore.from_conn_string(str(path)) as store:
        store.setup()
        store.put(
            ("memories", "ada"),
            "a",
            {"text": "Sister lives in Lisbon", "tags": ["family"], "n": 1.5},
        )
        store.put(("memories", "ada"), "b.c", {"deep": {"er": [None, True]}})
        store.put(("cache",), "soon", {"x": 1}, ttl=60)
        store.put(("cache",), "gone", {"x": 1}, ttl=60)
    with SqliteSaver.from_conn_string(str(path)) as saver:
        saver.setup()
        saver.put({"configurable": {"thread_id": "thread-1", "checkpoint_ns": ""}},
                  {"v": 1, "id": "1", "ts": "2025-01-01T00:00:00+00:00", "channel_values": {}, "channel_versions": {},
                   "versions_seen": {}}, {}, {})  # type: ignore[typeddict-item]  # fmt: skip
    with sqlite3.connect(path) as database:
        database.execute("update store set expires_at = '2020-01-01 00:00:00' where key = 'gone'")
        database.execute(
            "update store set expires_at = datetime('now', '+2 minutes') where key = 'soon'"
        )
        database.execute(
            "update store set created_at = '2024-01-02 03:04:05', updated_at = '2024-02-03 04:05:06'"
        )
    database.close()
    return path


def langchain(url: str) -> str:
    """Write a table on a server with LangChain."""
    with psycopg.connect(url) as connection:
        PostgresChatMessageHistory.create_tables(connection, "chat_message_history")
        first = PostgresChatMessageHistory(
            "chat_message_history", FIRST_TALK, sync_connection=connection
        )
        second = PostgresChatMessageHistory(
            "chat_message_history", SECOND_TALK, sync_connection=connection
        )
        first.add_messages(SAID[:2])
        second.add_messages([HumanMessage("Hello")])
        first.add_messages(SAID[2:])
        connection.execute(
            "update chat_message_history set created_at = '2024-05-06T07:08:09Z' where id <= 3"
        )
    return url

"""Import the tables of systems that follow one of the five designs."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

from design_audit.audit import SCOUT, Audit, everything, refusal

Tables = dict[str, list[dict[str, Any]]]
"""The rows of tables, by name; a row is a dict of its columns."""
MORNING = "2026-01-05 09:00:00"
EVENING = "2026-01-05 18:00:00"
SESSION = "5f0c6f0e-2d57-4a40-9a3c-0d9a5d8f1c11"


def langchain_tables(audit: Audit) -> None:
    """LangChain's history, the active sessions, the notes."""
    messages = [
        {"type": "human", "data": {"content": "Where does Clara live?", "type": "human"}},
        {"type": "ai", "data": {"content": "In Lisbon.", "type": "ai"}},
    ]
    owner = {"user_id": "ada", "agent_name": "scout"}
    tables: Tables = {
        "chat_message_history": [
            {
                "id": number,
                "session_id": SESSION,
                "message": json.dumps(message),
                "created_at": MORNING,
            }
            for number, message in enumerate(messages, 1)
        ],
        "user_agent_active_sessions": [
            {
                **owner,
                "active_session_id": SESSION,
                "last_active_at": EVENING,
                "created_at": MORNING,
            }
        ],
        "agent_long_term_memory": [
            {
                **owner,
                "id": "n1",
                "notes": "# Travel\nBy train.",
                "created_at": MORNING,
                "updated_at": EVENING,
            }
        ],
    }
    file = _write_tables(audit, "langchain", tables)
    done = _import(audit, file, "langchain")
    me = audit.scope(audit.open())

    with audit.item("stm-56", "A LangChain history is imported with its session ids.") as item:
        item.check("the import succeeds", done.returncode == 0)
        texts = [message.text for message in me.messages.window(SESSION)]
        item.check("its messages in order", texts == ["Where does Clara live?", "In Lisbon."])

    with audit.item("stm-57", "The active session of each user and agent is imported.") as item:
        item.check("it is active", me.sessions.active().id == SESSION)

    with audit.item("stm-58", "Notes are imported.") as item:
        item.check("the text is unchanged", me.notes.read().text.strip() == "# Travel\nBy train.")

    with audit.item("stm-59", "An import can be repeated.") as item:
        again = _import(audit, file, "langchain")
        item.check("the second run succeeds", again.returncode == 0)
        item.check("and adds nothing", len(me.messages.window(SESSION)) == 2)

    with audit.item("stm-60", "The time of the last activity of a session can be read.") as item:
        last_active = me.sessions.active().last_active_at
        item.check("from the library", last_active.isoformat() == "2026-01-05T18:00:00+00:00")
        body = audit.http(audit.open()).get("/api/sessions/active", headers=SCOUT).json()
        item.check("over HTTP", body["last_active_at"].startswith("2026-01-05T18:00:00"))

    with audit.item("stm-61", "Existing SQL reads the tables of the design.") as item:
        rows = audit.query(
            "langchain",
            """select active_session_id, notes from user_agent_active_sessions a
               join agent_long_term_memory n on n.user_id = a.user_id and n.agent_name = a.agent_name
               where a.user_id = 'ada' and a.tenant = %(tenant)s and n.tenant = a.tenant""",
        )
        item.check("the active session and the notes", [row[0] for row in rows] == [SESSION])
        item.check("the text of the notes", "By train." in str(rows[0][1]))


def journal_tables(audit: Audit) -> None:
    """Journal and core memories in one table."""
    tables: Tables = {
        "agents": [{"id": 7, "name": "scout"}],
        "agent_memories": [
            {
                "id": number,
                "agent_id": 7,
                "content": content,
                "memory_type": kind,
                "created_at": MORNING,
                "updated_at": MORNING,
            }
            for number, (content, kind) in enumerate([("Met Clara.", 0), ("I am kind.", 1)], 1)
        ],
    }
    file = _write_tables(audit, "journal", tables)
    done = _import(audit, file, "agent-journal", "--shared")
    me = audit.scope(audit.open())

    with audit.item("jrn-55", "Entries are imported with their kinds.") as item:
        item.check("the import succeeds", done.returncode == 0)
        entries = {entry.content: entry for entry in me.entries.list()}
        kinds = {content: entry.kind for content, entry in entries.items()}
        item.check("numbers become kinds", kinds == {"Met Clara.": "journal", "I am kind.": "core"})
        item.check(
            "agent ids become names", {entry.agent for entry in entries.values()} == {"scout"}
        )

    with audit.item("jrn-56", "Entries keep their times and expire accordingly.") as item:
        old = entries["Met Clara."]
        item.check("the time", old.created_at.isoformat() == "2026-01-05T09:00:00+00:00")
        item.check("an old entry is expired", old.expired)

    with audit.item("jrn-58", "Existing SQL reads the table of the design.") as item:
        rows = audit.query(
            "agent-journal",
            """select memory_type, count(*) from agent_memories where tenant = %(tenant)s
               group by memory_type order by memory_type""",
        )
        item.check("a journal entry has the type 0, a core entry 1", rows == [(0, 1), (1, 1)])


def reference_tables(audit: Audit) -> None:
    """Large contents with keys."""
    common = {"agent_id": 7, "thread_id": None, "created_at": MORNING}
    tables: Tables = {
        "agents": [{"id": 7, "name": "scout"}],
        "agent_memories": [
            {
                **common,
                "id": "a",
                "memory_key": "cmd_log_123",
                "memory_type": "command_output",
                "summary": "The log of npm",
                "content": "npm http fetch\n" * 1000,
                "content_metadata": json.dumps({"command": "npm install"}),
                "is_active": 1,
            },
            {
                **common,
                "id": "b",
                "memory_key": "k" * 255,
                "memory_type": "user_preference",
                "summary": "Old",
                "content": "Tea.",
                "content_metadata": "{}",
                "is_active": 0,
            },
        ],
    }
    file = _write_tables(audit, "references", tables)
    done = _import(audit, file, "agent-memories", "--user", "ada")
    me = audit.scope(audit.open())

    with audit.item("ref-49", "Contents are imported under the same keys.") as item:
        item.check("the import succeeds", done.returncode == 0)
        item.check("byte for byte", me.refs.content("cmd_log_123") == b"npm http fetch\n" * 1000)
        item.check("also under the longest key", me.refs.content("k" * 255) == b"Tea.")

    with audit.item("ref-50", "Type, summary, metadata and `is_active` are imported.") as item:
        first = me.refs.info("cmd_log_123")
        second = me.refs.info("k" * 255)
        item.check("types", (first.type, second.type) == ("command_output", "user_preference"))
        item.check("the summary", first.summary == "The log of npm")
        item.check("the command", first.metadata.get("command") == "npm install")
        item.check("the flag", (first.is_active, second.is_active) == (True, False))

    with audit.item("ref-51", "Existing SQL reads the table of the design.") as item:
        rows = audit.query(
            "agent-memories",
            "select memory_key, content from agent_memories where tenant = %(tenant)s and is_active",
        )
        item.check(
            "the active key and its content", rows == [("cmd_log_123", "npm http fetch\n" * 1000)]
        )


def session_tables(audit: Audit) -> None:
    """Sessions with a rolling summary."""
    tables: Tables = {
        "chat_sessions": [
            {
                "id": SESSION,
                "user_id": "ada",
                "name": "Trains",
                "summary": "They spoke about trains.",
                "summarized_count": 4,
                "created_at": MORNING,
                "updated_at": EVENING,
            }
        ],
        "chat_messages": [
            {
                "id": f"m{number}",
                "session_id": SESSION,
                "role": ("user", "assistant")[number % 2],
                "content": f"Message {number}.",
                "created_at": f"2026-01-05 09:0{number}:00",
            }
            for number in range(6)
        ],
    }
    file = _write_tables(audit, "sessions", tables)
    done = _import(audit, file, "chat-sessions", "--agent", "scout")
    me = audit.scope(audit.open(summary_enabled=True))

    with audit.item("sum-35", "Sessions are imported with their summary.") as item:
        item.check("the import succeeds", done.returncode == 0)
        session = me.sessions.get(SESSION)
        item.check("the summary", session.summary == "They spoke about trains.")
        item.check("its count", session.summarized_count == 4)
        item.check("all messages", len(me.messages.window(SESSION)) == 6)

    with audit.item("sum-36", "The context uses the imported summary.") as item:
        text = everything(me.context(SESSION, "And now?").messages)
        item.check("the summary is in it", "They spoke about trains." in text)
        item.check("so are the turns after it", "Message 4." in text and "Message 5." in text)

    with audit.item("sum-37", "Existing SQL reads the tables of the design.") as item:
        rows = audit.query(
            "chat-sessions",
            """select s.summarized_count, count(*) from chat_sessions s
               join chat_messages m on m.session_id = s.id and m.tenant = s.tenant
               where s.tenant = %(tenant)s
               group by s.summarized_count""",
        )
        item.check("the count of the summary and the messages", rows == [(4, 6)])


def conversation_tables(audit: Audit) -> None:
    """Conversations, messages, key-value memory, summaries and telemetry."""
    tenant = {"tenant_id": audit.tenant}
    no_use = {"tokens_in": None, "tokens_out": None}
    message = {**tenant, **no_use, "conversation_id": 41, "cost": None, "created_at": MORNING}
    value = {**tenant, "ttl_ts": None, "updated_at": MORNING}
    call = {**tenant, "params_json": '{"temperature": 0}', "created_at": MORNING}
    tables: Tables = {
        "conversations": [
            {
                **tenant,
                "id": 41,
                "user_id": "ada",
                "label": "Trains",
                "created_at": MORNING,
                "updated_at": EVENING,
                "attrs_json": '{"pinned": true}',
            }
        ],
        "messages": [
            {
                **message,
                "id": 1,
                "role": "user",
                "content_json": '{"text": "Hello"}',
                "content": None,
            },
            {**message, "id": 2, "role": "assistant", "content_json": None, "content": "Good day"},
        ],
        "memory_kv": [
            {**value, "id": 1, "scope_id": "ada", "k": "theme", "v_json": '{"dark": true}'},
            {**value, "id": 2, "scope_id": "41", "k": "step", "v_json": "3"},
            {**value, "id": 3, "scope_id": None, "k": "plan", "v_json": '"free"'},
        ],
        "memory_long": [
            {"conversation_id": 41, "summary_text": "They greeted.", "updated_at": EVENING}
        ],
        "interactions": [
            {
                **call,
                **no_use,
                "id": 1,
                "route": "chat",
                "model_id": "m",
                "latency_ms": 12,
                "cost_est": None,
            }
        ],
    }
    file = _write_tables(audit, "conversations", tables)
    done = _import(audit, file, "conversations", "--agent", "scout")
    me = audit.scope(audit.open())

    with audit.item("sql-57", "Conversations and messages are imported.") as item:
        item.check("the import succeeds", done.returncode == 0)
        (session,) = list(me.sessions.list())
        item.check("the label", session.label == "Trains")
        item.check("the attributes", session.attributes.get("pinned") is True)
        texts = [message.text for message in me.messages.window(session.id)]
        item.check("JSON and older text content alike", texts == ["Hello", "Good day"])

    with audit.item("sql-61", "A summary is imported as the summary of its conversation.") as item:
        item.check("its text", session.summary == "They greeted.")
        item.check("no message is covered", session.summarized_count == 0)

    with audit.item("sql-58", "Key-value memory is imported with its scopes.") as item:
        item.check("a user's", me.state.get("theme").value == {"dark": True})
        item.check(
            "a conversation's", me.state.get("step", area=f"session:{session.id}").value == 3
        )
        item.check("the tenant's", me.state.get("plan", area="tenant").value == "free")

    with audit.item("sql-59", "Telemetry is imported, with nulls for unknown values.") as item:
        (stored,) = list(audit.scope(audit.open(), user=None, agent=None).interactions.list())
        item.check("the call", (stored.route, stored.model, stored.latency_ms) == ("chat", "m", 12))
        item.check("unknown tokens", stored.tokens_in is None and stored.tokens_out is None)

    with audit.item(
        "sql-60", "A mistake in the source is found before anything is written."
    ) as item:
        del tables["messages"]
        broken = _import(audit, _write_tables(audit, "broken", tables), "conversations")
        item.check("the missing table is named", broken.returncode and "messages" in broken.stderr)
        item.check("nothing changed", not refusal(lambda: me.sessions.get(session.id)))

    with audit.item("sql-62", "The validation queries of the design run on its tables.") as item:
        count = audit.query(
            "conversations", "select count(*) from conversations where tenant_id = %(tenant)s"
        )
        item.check("conversations are counted", count == [(1,)])
        rows = audit.query(
            "conversations",
            """select role, created_at from messages
               where conversation_id = '41' and tenant_id = %(tenant)s order by created_at desc limit 5""",
        )
        item.check(
            "the newest messages come first", [row[0] for row in rows] == ["assistant", "user"]
        )
        values = audit.query(
            "conversations",
            "select k, v_json, updated_at from memory_kv where tenant_id = %(tenant)s and scope_id = 'ada'",
        )
        item.check("the values of a user", [row[0] for row in values] == ["theme"])


def _write_tables(audit: Audit, name: str, tables: Tables) -> Path:
    """Write tables to a new SQLite file and return its path."""
    file = audit.folder / f"{name}.db"
    with closing(sqlite3.connect(file)) as connection:
        for table, rows in tables.items():
            columns = list(rows[0])
            connection.execute(f"create table {table} ({', '.join(columns)})")
            places = ", ".join(f":{column}" for column in columns)
            connection.executemany(f"insert into {table} values ({places})", rows)
        connection.commit()
    return file


def _import(audit: Audit, file: Path, map: str, *flags: str) -> subprocess.CompletedProcess[str]:
    return audit.command("import", str(file), "--from", "sql", "--map", map, *flags)

"""OpenAI's Agents SDK: the database of its `SQLiteSession`, as sessions with the same ids.

Who opens a session by its id with `retain.integrations.openai_agents` goes on where the database stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from retain.base.errors import Invalid
from retain.integrations.importers import files
from retain.integrations.importers.record import Conversation, Record, Unplaced, moment, text
from retain.messages.formats import openai
from retain.messages.message import NewMessage
from retain.storage.connect import foreign

_SESSIONS = "select session_id, created_at, updated_at from agent_sessions order by session_id"
_MESSAGES = (
    "select id, session_id, message_data, created_at from agent_messages order by session_id, id"
)
_TABLES = {"agent_sessions", "agent_messages"}


def read(source: str) -> Iterator[Record]:
    """Every session, with its items as messages."""
    database = foreign(source)
    tables = database.tables()
    if not tables >= _TABLES:
        raise Invalid(field="file", problem="has no tables agent_sessions and agent_messages")
    about = {text(row["session_id"]): row for row in database.rows(_SESSIONS)}
    spoken = set()
    for id, rows in groupby(database.rows(_MESSAGES), key=lambda row: text(row["session_id"])):
        messages = []
        for row in rows:
            where = f"{Path(source).name} message {row['id']}"
            try:
                item = files.parse(text(row["message_data"]), where)
                if not isinstance(item, dict):
                    raise Invalid(field=where, problem="is no object")
                messages.append(
                    replace(openai.to_message(item, where), created_at=moment(row["created_at"]))
                )
            except Invalid as error:  # the SDK itself passes over such a row
                yield Unplaced("message", where, str(error))
        spoken.add(id)
        yield _session(id, messages, about.get(id, {}))
    for id, row in about.items():
        if id not in spoken:
            yield _session(id, [], row)
    for name in sorted(tables - _TABLES - {"sqlite_sequence"}):
        yield Unplaced("table", name, "is not one that SQLiteSession keeps its items in")


def _session(id: str, messages: list[NewMessage], row: Any) -> Conversation:
    times: dict[str, Any] = {name: moment(row.get(name)) for name in ("created_at", "updated_at")}
    return Conversation(id, messages, attributes={"import": "openai-agents"}, **times)

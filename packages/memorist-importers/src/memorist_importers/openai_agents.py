"""OpenAI Agents SDK: the database of its `SQLiteSession`, as sessions with the same ids.

`memorist_frameworks.openai_agents.MemoristSession` then continues each session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from memorist.base.errors import Invalid
from memorist.content.message import NewMessage
from memorist.importing import foreign_files
from memorist.importing.importer import Importer, ImportSource
from memorist.importing.records import ImportedConversation, Record, Unplaced, parse_time
from memorist.storage.connect import foreign
from memorist_frameworks.formats import openai
from memorist_importers.fields import NOT_AN_OBJECT, as_text

SELECT_SESSIONS = (
    "select session_id, created_at, updated_at from agent_sessions order by session_id"
)
SELECT_MESSAGES = (
    "select id, session_id, message_data, created_at from agent_messages order by session_id, id"
)
_TABLES = {"agent_sessions", "agent_messages"}


def read(source: ImportSource) -> Iterator[Record]:
    """Yield every session with its items as messages."""
    database = foreign(source.location)
    tables = database.tables()
    if not tables >= _TABLES:
        raise Invalid(field="file", problem="has no tables agent_sessions and agent_messages")
    sessions = {as_text(row["session_id"]): row for row in database.rows(SELECT_SESSIONS)}
    rows = database.rows(SELECT_MESSAGES)
    with_messages = set()
    for id, session_rows in groupby(rows, key=lambda row: as_text(row["session_id"])):
        messages = []
        for row in session_rows:
            where = f"{Path(source.location).name} message {row['id']}"
            try:
                messages.append(_parse_message(row, where))
            except Invalid as error:  # the SDK ignores such a row
                yield Unplaced("message", where, str(error))
        with_messages.add(id)
        yield _conversation(id, messages, sessions.get(id, {}))
    for id, row in sessions.items():
        if id not in with_messages:
            yield _conversation(id, [], row)
    for name in sorted(tables - _TABLES - {"sqlite_sequence"}):
        yield Unplaced("table", name, "is not a table of SQLiteSession")


IMPORTER = Importer(read, tables=("agent_messages",))


def _parse_message(row: Mapping[str, Any], where: str) -> NewMessage:
    item = foreign_files.parse_json(as_text(row["message_data"]), where)
    if not isinstance(item, dict):
        raise Invalid(field=where, problem=NOT_AN_OBJECT)
    return replace(openai.to_message(item, where), created_at=parse_time(row["created_at"]))


def _conversation(
    id: str, messages: list[NewMessage], row: Mapping[str, Any]
) -> ImportedConversation:
    return ImportedConversation(
        id,
        messages,
        attributes={"import": "openai-agents"},
        created_at=parse_time(row.get("created_at")),
        updated_at=parse_time(row.get("updated_at")),
    )

"""LangChain: the table of `PostgresChatMessageHistory`, as sessions with the same ids.

`retain.integrations.langchain.RetainChatMessageHistory` then reads the same messages as before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any

from retain.base.errors import Invalid
from retain.integrations.importers import reader
from retain.integrations.importers.records import Conversation, Record, Unplaced, parse_time
from retain.messages.formats import langchain
from retain.messages.message import NewMessage
from retain.storage.connect import foreign

TABLE = "chat_message_history"


def read(source: str, table: str | None = None) -> Iterator[Record]:
    """Yield every session of the table."""
    rows = foreign(source).history(table or TABLE)
    for id, session_rows in groupby(rows, key=lambda row: str(row["session_id"])):
        messages: list[NewMessage] = []
        for row in session_rows:
            where = f"row {row['id']}"
            try:
                message = langchain.to_message(_parse_message(row["message"], where), where)
            except Invalid as error:
                yield Unplaced("message", where, str(error))
                continue
            messages.append(replace(message, created_at=parse_time(row["created_at"])))
        yield Conversation(
            id,
            messages,
            attributes={"import": "langchain"},
            created_at=messages[0].created_at if messages else None,
            updated_at=messages[-1].created_at if messages else None,
        )


def _parse_message(text: Any, where: str) -> dict[str, Any]:
    value = reader.parse_json(text, where)
    if not isinstance(value, dict):
        raise Invalid(field=where, problem="is not a message")
    return value

"""LangChain's chat history on a PostgreSQL server: the table of `PostgresChatMessageHistory`, as sessions with the same ids.

Who opens one with `retain.integrations.langchain.RetainChatMessageHistory` reads the same messages as before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any

from retain.base.errors import Invalid
from retain.integrations.importers import files
from retain.integrations.importers.record import Conversation, Record, Unplaced, moment
from retain.messages.formats import langchain
from retain.messages.message import NewMessage
from retain.storage.connect import foreign

TABLE = "chat_message_history"


def read(source: str, table: str | None = None) -> Iterator[Record]:
    """Every session of the table."""
    for id, rows in groupby(
        foreign(source).history(table or TABLE), key=lambda row: str(row["session_id"])
    ):
        messages: list[NewMessage] = []
        for row in rows:
            where = f"row {row['id']}"
            try:
                new = langchain.to_message(_object(row["message"], where), where)
            except Invalid as error:
                yield Unplaced("message", where, str(error))
                continue
            messages.append(replace(new, created_at=moment(row["created_at"])))
        began, ended = (
            (messages[0].created_at, messages[-1].created_at) if messages else (None, None)
        )
        about = {"import": "langchain"}
        yield Conversation(id, messages, attributes=about, created_at=began, updated_at=ended)


def _object(written: Any, where: str) -> dict[str, Any]:
    value = files.parse(written, where)
    if not isinstance(value, dict):
        raise Invalid(field=where, problem="is no message")
    return value

"""Mem0: an export or the result of `get_all`, the points of its vector store, or its `history.db`.

A memory becomes a journal entry with its text and times. Everything else that Mem0 stores of it is
an item at `mem0/memories` with the same id. Of a `history.db`, the last state of each memory is an
entry, and each event an item at `mem0/history`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from memorist.content.message import ROLES, NewMessage
from memorist.importing import foreign_files
from memorist.importing.importer import Importer, ImportSource
from memorist.importing.records import (
    MAX_KEY_CHARACTERS,
    ImportedConversation,
    ImportedEntry,
    ImportedItem,
    Record,
    Unplaced,
    parse_time,
)
from memorist.storage.connect import foreign
from memorist_importers import json_files
from memorist_importers.fields import (
    FOREIGN_VECTOR,
    NOT_AN_OBJECT,
    as_text,
    drop_fields,
    split_objects,
)

SELECT_HISTORY = "select * from history order by created_at, updated_at, rowid"
SELECT_MESSAGES = "select * from messages order by session_scope, created_at, rowid"
_LIST_FIELDS = ("results", "memories", "points", "result")
_TEXT_FIELDS = ("memory", "data", "text", "content")


def read(source: ImportSource) -> Iterator[Record]:
    """Yield everything in the file; the user of the source owns what names no user.

    A `history.db` does not say whose a memory is. Its messages do: unless they name that user and
    nobody else, its memories are listed and not given to that user.
    """
    path = Path(source.location)
    with foreign_files.open_file(path) as file:
        start = file.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")
        file.seek(0)
        if start.startswith(b"SQLite"):
            yield from _read_database(source.location, source.user)
        elif start.startswith(b"["):
            for where, value in json_files.read_elements(file, path.name):
                yield from _read_memory(value, where)
        elif _is_json_lines(start):
            for where, value in json_files.read_lines(file, path.name):
                yield from _read_memory(value, where)
        else:
            yield from _read_export(foreign_files.read_json(file, path.name), path.name)


IMPORTER = Importer(
    read, is_personal=True, tables=("history",), beginning=r'"(memory|payload)"\s*:'
)


def _is_json_lines(start: bytes) -> bool:
    """Return True if the first line is a complete object and another one follows."""
    first, _, rest = start.partition(b"\n")
    return first.rstrip().endswith(b"}") and rest.lstrip().startswith(b"{")


def _read_export(value: Any, where: str) -> Iterator[Record]:
    """Read a single memory, a list, or an object with (objects with) lists of memories."""
    if isinstance(value, list):
        for number, memory in enumerate(value):
            yield from _read_memory(memory, f"{where}[{number}]")
        return
    lists: list[str] = []
    if isinstance(value, dict):
        lists = [name for name in _LIST_FIELDS if isinstance(value.get(name), list | dict)]
    if not lists:
        yield from _read_memory(value, where)
        return
    records = [record for name in lists for record in _read_export(value[name], f"{where} {name}")]
    yield from records
    # Values beside the memories of a single user belong to that user.
    users = {record.user for record in records if isinstance(record, ImportedEntry)}
    user = users.pop() if len(users) == 1 else None
    relations, unplaced = split_objects(value.get("relations"), "relation", f"{where} relations")
    yield from unplaced
    for number, relation in enumerate(relations):
        parts = [
            as_text(relation.get(part))
            for part in ("source", "relationship", "target", "destination")
        ]
        key = "\n".join(parts).strip().replace("\n", " → ")[:100] or str(number)
        yield ImportedItem(("mem0", "relations"), key, relation, fields=None, user=user)
    rest = drop_fields(value, "relations", *lists)
    if rest:
        yield ImportedItem(("mem0", "files"), where, rest, user=user)


def _read_memory(value: Any, where: str) -> Iterator[Record]:
    """Read a memory, or a point of a vector store whose payload is one."""
    if not isinstance(value, dict):
        yield Unplaced("memory", where, NOT_AN_OBJECT)
        return
    is_point = isinstance(value.get("payload"), dict)
    memory = value["payload"] if is_point else value
    text_field = next((name for name in _TEXT_FIELDS if as_text(memory.get(name)).strip()), None)
    if text_field is None:
        yield Unplaced("memory", where, f"has no text under {', '.join(_TEXT_FIELDS)}")
        return
    if "vector" in value:
        yield Unplaced("vector", where, FOREIGN_VECTOR)
    raw_id = memory.get("id") if value.get("id") is None else value["id"]
    has_id = isinstance(raw_id, str | int) and not isinstance(raw_id, bool) and str(raw_id).strip()
    id = str(raw_id) if has_id else memory[text_field]
    user = as_text(memory.get("user_id")) or None
    yield ImportedEntry(
        id,
        memory[text_field],
        user=user,
        agent=as_text(memory.get("agent_id")) or None,
        created_at=parse_time(memory.get("created_at")),
        updated_at=parse_time(memory.get("updated_at")),
    )
    # An id that is not the item's whole key stays a field.
    id_field = "id" if has_id and len(id) <= MAX_KEY_CHARACTERS else ""
    rest = drop_fields(
        memory,
        text_field,
        id_field if memory.get("id") == raw_id else "",
        "" if is_point else "vector",
    )
    point = drop_fields(value, "payload", "vector", id_field) if is_point else {}
    if point:
        rest["point"] = point
    if rest:
        yield ImportedItem(("mem0", "memories"), id[:MAX_KEY_CHARACTERS], rest, user=user)


def _read_database(source: str, user: str | None) -> Iterator[Record]:
    database = foreign(source)
    tables = database.tables()
    users: set[str] = set()
    if "messages" in tables:
        scopes = database.rows("select distinct session_scope from messages")
        users = {owner for row in scopes if (owner := _scope_user(row.get("session_scope")))}
    if "history" in tables:
        reason = "" if users == {user} else _reason_not_to_give(sorted(users - {user}))
        yield from _read_history(database.rows(SELECT_HISTORY), reason)
    if "messages" in tables:
        yield from _read_messages(database.rows(SELECT_MESSAGES))
    for name in sorted(tables - {"history", "messages"}):
        yield Unplaced("table", name, "is not a table of Mem0")


def _reason_not_to_give(others: Sequence[str]) -> str:
    """Return why memories are not given to the user of the source."""
    start = f"may belong to {', '.join(others[:5])}" if others else "has no owner"
    return (
        f"{start}: history.db does not say whose a memory is. "
        "Import the result of get_all, or the vector store, which do"
    )


def _read_history(rows: Iterable[Mapping[str, Any]], reason: str) -> Iterator[Record]:
    """Read the events and the last state of each memory, or list the memories with a reason."""
    latest: dict[str, tuple[Any, Mapping[str, Any]]] = {}  # creation time and newest row of each
    for row in rows:
        id = as_text(row.get("memory_id"))
        key = as_text(row.get("id")) or f"{id} {len(latest)}"
        if not reason:
            yield ImportedItem(("mem0", "history"), key, drop_fields(row))
        created = latest[id][0] if id in latest else row.get("created_at")
        latest[id] = (created, row)
    for id, (created, row) in latest.items():
        memory = as_text(row.get("new_memory")).strip()
        is_deleted = row.get("event") == "DELETE" or row.get("is_deleted")
        if is_deleted or not memory or not id:
            continue
        if reason:
            yield Unplaced("memory", id, reason)
            continue
        updated = parse_time(row.get("updated_at")) or parse_time(row.get("created_at"))
        yield ImportedEntry(id, memory, created_at=parse_time(created), updated_at=updated)


def _scope_user(scope: Any) -> str | None:
    """Return the user in a scope such as `agent_id=scout&user_id=ada`."""
    for part in as_text(scope).split("&"):
        name, _, value = part.partition("=")
        if name == "user_id" and value:
            return value
    return None


def _read_messages(rows: Iterable[Mapping[str, Any]]) -> Iterator[Record]:
    for scope, scope_rows in groupby(rows, key=lambda row: as_text(row.get("session_scope"))):
        messages = [_read_message(row) for row in scope_rows]
        id = f"mem0 {scope}".strip()
        yield ImportedConversation(id, messages, scope, {"import": "mem0"}, user=_scope_user(scope))


def _read_message(row: Mapping[str, Any]) -> NewMessage:
    role = as_text(row.get("role"))
    text_field = "content" if isinstance(row.get("content"), str) else ""
    content = {
        "text": as_text(row.get("content")),
        "original": drop_fields(row, "session_scope", text_field),
    }
    return NewMessage(
        role if role in ROLES else "user", content, created_at=parse_time(row.get("created_at"))
    )

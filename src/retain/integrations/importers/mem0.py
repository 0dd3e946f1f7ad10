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

from retain.integrations.importers import reader
from retain.integrations.importers.records import (
    FOREIGN_VECTOR,
    MAX_KEY_CHARACTERS,
    NOT_AN_OBJECT,
    Conversation,
    Entry,
    Item,
    Record,
    Unplaced,
    as_text,
    drop_fields,
    parse_time,
    split_objects,
)
from retain.messages.message import ROLES, NewMessage
from retain.storage.connect import foreign

SELECT_HISTORY = "select * from history order by created_at, updated_at, rowid"
SELECT_MESSAGES = "select * from messages order by session_scope, created_at, rowid"
_LIST_FIELDS = ("results", "memories", "points", "result")
_TEXT_FIELDS = ("memory", "data", "text", "content")


def read(source: str, user: str | None = None) -> Iterator[Record]:
    """Yield everything in the file; `user` owns what names no user.

    A `history.db` does not say whose a memory is. Its messages do: if they name anybody else, its
    memories are listed and not given to `user`.
    """
    path = Path(source)
    with reader.open_file(path) as file:
        start = file.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")
        file.seek(0)
        if start.startswith(b"SQLite"):
            yield from _read_database(source, user)
        elif start.startswith(b"["):
            for where, value in reader.read_elements(file, path.name):
                yield from _read_memory(value, where)
        elif _is_json_lines(start):
            for where, value in reader.read_lines(file, path.name):
                yield from _read_memory(value, where)
        else:
            yield from _read_export(reader.read_json(file, path.name), path.name)


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
    users = {record.user for record in records if isinstance(record, Entry)}
    user = users.pop() if len(users) == 1 else None
    relations, unplaced = split_objects(value.get("relations"), "relation", f"{where} relations")
    yield from unplaced
    for number, relation in enumerate(relations):
        parts = [
            as_text(relation.get(part))
            for part in ("source", "relationship", "target", "destination")
        ]
        key = "\n".join(parts).strip().replace("\n", " → ")[:100] or str(number)
        yield Item(("mem0", "relations"), key, relation, fields=None, user=user)
    rest = drop_fields(value, "relations", *lists)
    if rest:
        yield Item(("mem0", "files"), where, rest, user=user)


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
    yield Entry(
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
        yield Item(("mem0", "memories"), id[:MAX_KEY_CHARACTERS], rest, user=user)


def _read_database(source: str, user: str | None) -> Iterator[Record]:
    database = foreign(source)
    tables = database.tables()
    users: set[str] = set()
    if "messages" in tables:
        scopes = database.rows("select distinct session_scope from messages")
        users = {owner for row in scopes if (owner := _scope_user(row.get("session_scope")))}
    others = sorted(users - {user})
    if "history" in tables:
        yield from _read_history(database.rows(SELECT_HISTORY), others)
    if "messages" in tables:
        yield from _read_messages(database.rows(SELECT_MESSAGES))
    for name in sorted(tables - {"history", "messages"}):
        yield Unplaced("table", name, "is not a table of Mem0")


def _read_history(rows: Iterable[Mapping[str, Any]], others: Sequence[str]) -> Iterator[Record]:
    """Read the events and the last state of each memory, unless they may belong to others."""
    reason = ""
    if others:
        reason = (
            f"may belong to {', '.join(others[:5])}: history.db does not say whose a memory is. "
            "Import the result of get_all, or the vector store, which do"
        )
    latest: dict[str, tuple[Any, Mapping[str, Any]]] = {}  # creation time and newest row of each
    for row in rows:
        id = as_text(row.get("memory_id"))
        key = as_text(row.get("id")) or f"{id} {len(latest)}"
        if not reason:
            yield Item(("mem0", "history"), key, drop_fields(row))
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
        yield Entry(id, memory, created_at=parse_time(created), updated_at=updated)


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
        yield Conversation(id, messages, scope, {"import": "mem0"}, user=_scope_user(scope))


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

"""Mem0: what `get_all` or an export wrote, the points of its vector store, or its `history.db`.

A memory becomes a journal entry with its words and times: old ones are in no prompt by themselves, and are found when they
are asked for, as with Mem0. All else that Mem0 says of it is an item at `mem0/memories` under the same id. A `history.db`
has what became of each memory: what it says last is an entry, each event an item at `mem0/history`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from retain.integrations.importers import files
from retain.integrations.importers.record import (
    Conversation,
    Fact,
    Record,
    Thing,
    Unplaced,
    moment,
    sifted,
    text,
    without,
)
from retain.messages.message import ROLES, NewMessage
from retain.storage.connect import foreign

_LISTS = ("results", "memories", "points", "result")
_WORDS = ("memory", "data", "text", "content")
_LONGEST = 200
_HISTORY = "select * from history order by created_at, updated_at, rowid"
_MESSAGES = "select * from messages order by session_scope, created_at, rowid"


def read(source: str) -> Iterator[Record]:
    """Everything that the file has."""
    path = Path(source)
    with files.opened(path) as file:
        start = file.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")
        file.seek(0)
        if start.startswith(b"SQLite"):
            yield from _database(source)
        elif start.startswith(b"["):
            for where, value in files.elements(file, path.name):
                yield from _memory(value, where)
        elif _is_lines(start):
            for where, value in files.lines(file, path.name):
                yield from _memory(value, where)
        else:
            yield from _export(files.whole(file, path.name), path.name)


def _is_lines(start: bytes) -> bool:
    """Whether the first line is an object that is closed, and another follows."""
    first, _, rest = start.partition(b"\n")
    return first.rstrip().endswith(b"}") and rest.lstrip().startswith(b"{")


def _export(value: Any, where: str) -> Iterator[Record]:
    """An object that has lists of memories, or objects that do; or a memory that is alone in its file."""
    lists = (
        [name for name in _LISTS if isinstance(value.get(name), list | dict)]
        if isinstance(value, dict)
        else []
    )
    if not lists:
        for number, one in enumerate(value if isinstance(value, list) else [value]):
            yield from _memory(one, f"{where}[{number}]" if isinstance(value, list) else where)
        return
    found = [record for name in lists for record in _export(value[name], f"{where} {name}")]
    yield from found
    users = {record.user for record in found if isinstance(record, Fact)}
    user = (
        users.pop() if len(users) == 1 else None
    )  # what stands beside one person's memories is that person's
    relations, odd = sifted(value.get("relations"), "relation", f"{where} relations")
    yield from odd
    for number, one in enumerate(relations):
        key = "\n".join(
            text(one.get(part)) for part in ("source", "relationship", "target", "destination")
        ).strip()
        yield Thing(
            ("mem0", "relations"),
            key.replace("\n", " → ")[:100] or str(number),
            one,
            None,
            user=user,
        )
    if rest := without(value, "relations", *lists):
        yield Thing(("mem0", "files"), where, rest, user=user)


def _memory(value: Any, where: str) -> Iterator[Record]:
    """A memory, or a point of a vector store that has one as its payload."""
    if not isinstance(value, dict):
        yield Unplaced("memory", where, "is no object")
        return
    point = isinstance(value.get("payload"), dict)
    about = value["payload"] if point else value
    words = next((name for name in _WORDS if text(about.get(name)).strip()), None)
    if words is None:
        yield Unplaced("memory", where, f"has no text under {', '.join(_WORDS)}")
        return
    if "vector" in value:
        yield Unplaced("vector", where, "belongs to another embedder; this database makes its own")
    named = about.get("id") if value.get("id") is None else value["id"]
    known = isinstance(named, str | int) and not isinstance(named, bool) and str(named).strip()
    id = str(named) if known else about[words]
    whose: dict[str, Any] = {"user": text(about.get("user_id")) or None}
    times: dict[str, Any] = {name: moment(about.get(name)) for name in ("created_at", "updated_at")}
    yield Fact(id, about[words], agent=text(about.get("agent_id")) or None, **whose, **times)
    key = "id" if known and len(id) <= _LONGEST else ""  # or it is kept as a field
    rest = without(about, words, key if about.get("id") == named else "", "" if point else "vector")
    if point and (beside := without(value, "payload", "vector", key)):
        rest["point"] = beside
    if rest:
        yield Thing(("mem0", "memories"), id[:_LONGEST], rest, **whose)


def _database(source: str) -> Iterator[Record]:
    database = foreign(source)
    tables = database.tables()
    latest: dict[str, tuple[Any, dict[str, Any]]] = {}
    for row in database.rows(_HISTORY) if "history" in tables else ():
        id = text(row.get("memory_id"))
        yield Thing(("mem0", "history"), text(row.get("id")) or f"{id} {len(latest)}", without(row))
        latest[id] = (latest[id][0] if id in latest else row.get("created_at"), row)
    for id, (began, row) in latest.items():
        told = text(row.get("new_memory")).strip()
        if row.get("event") != "DELETE" and not row.get("is_deleted") and told and id:
            changed = moment(row.get("updated_at")) or moment(row.get("created_at"))
            yield Fact(id, told, created_at=moment(began), updated_at=changed)
    if "messages" in tables:
        yield from _messages(database.rows(_MESSAGES))
    for name in sorted(tables - {"history", "messages"}):
        yield Unplaced("table", name, "is none of Mem0's")


def _messages(rows: Iterable[Mapping[str, Any]]) -> Iterator[Record]:
    for scope, some in groupby(rows, key=lambda row: text(row.get("session_scope"))):
        said = [
            NewMessage(
                role if (role := text(row.get("role"))) in ROLES else "user",
                {
                    "text": text(row.get("content")),
                    "original": without(row, "session_scope", _words(row)),
                },
                created_at=moment(row.get("created_at")),
            )
            for row in some
        ]
        yield Conversation(f"mem0 {scope}".strip(), said, scope, {"import": "mem0"})


def _words(row: Mapping[str, Any]) -> str:
    return "content" if isinstance(row.get("content"), str) else ""

"""LangGraph's stores, in its SQLite files or on its PostgreSQL servers: items at the same places under the same keys.

`retain.integrations.langgraph.RetainStore` finds them where they were. What a search finds of an item is all its text.
Threads of a checkpointer are listed: they are the state of programs, in a form that only LangGraph reads. Who needs them
copies them with LangGraph's own classes, from its saver to ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from retain.api import namespaces
from retain.base.errors import Invalid
from retain.integrations.importers import files
from retain.integrations.importers.record import Record, Thing, Unplaced, moment, text
from retain.storage.connect import foreign

_STORE = "select * from store order by prefix, key"
_THREADS = (
    "select thread_id, count(*) as steps from checkpoints group by thread_id order by thread_id"
)
_OURS = {
    "store",
    "store_migrations",
    "vector_migrations",
    "checkpoint_migrations",
    "sqlite_sequence",
}
_CHECKPOINTS = {"checkpoints", "checkpoint_blobs", "checkpoint_writes", "writes"}


def read(source: str) -> Iterator[Record]:
    """Every item of the store, and the name of every thread."""
    database = foreign(source)
    tables = database.tables()
    if not tables & {"store", "checkpoints"}:
        raise Invalid(field="file", problem="has no table `store`, and no table `checkpoints`")
    for row in database.rows(_STORE) if "store" in tables else ():
        yield from _item(row)
    for row in database.rows(_THREADS) if "checkpoints" in tables else ():
        reason = f"is the state of a program in {row['steps']} steps; copy it from LangGraph's saver to RetainSaver"
        yield Unplaced("thread", text(row["thread_id"]), reason)
    if "store_vectors" in tables:
        yield Unplaced(
            "table", "store_vectors", "belongs to another embedder; this database makes its own"
        )
    if "://" not in source:
        for name in sorted(tables - _OURS - _CHECKPOINTS - {"store_vectors"}):
            yield Unplaced("table", name, "is none of LangGraph's")


def _item(row: dict[str, Any]) -> Iterator[Record]:
    where = f"{row['prefix']} {row['key']}"
    try:
        value = (
            files.parse(row["value"], where)
            if isinstance(row["value"], str | bytes)
            else row["value"]
        )
        ends = _end(row.get("expires_at"), where)
    except Invalid as error:
        yield Unplaced("item", where, str(error))
        return
    if not isinstance(value, dict):
        yield Unplaced("item", where, "has a value that is no object")
        return
    times: dict[str, Any] = {name: moment(row.get(name)) for name in ("created_at", "updated_at")}
    ttl, minutes = None, row.get("ttl_minutes")
    if ends is not None:
        left = (ends - datetime.now(UTC)).total_seconds()
        if left <= 0:
            yield Unplaced("item", where, f"expired at {row['expires_at']}")
            return
        ttl = 60.0 * minutes if isinstance(minutes, int | float) and minutes > 0 else left
    place, key = (
        namespaces.place(text(row["prefix"]).split(".")),
        namespaces.stored(text(row["key"])),
    )
    yield Thing(place, key, value, None, ttl, **times, expires_at=ends)


def _end(value: Any, where: str) -> datetime | None:
    """When an item goes: text in SQLite, a time on a server."""
    try:
        until = datetime.fromisoformat(value) if isinstance(value, str) else value
        return None if until is None else until if until.tzinfo else until.replace(tzinfo=UTC)
    except (ValueError, AttributeError):
        raise Invalid(
            field=where, problem=f"has an expires_at that is no time: {str(value)[:100]}"
        ) from None

"""LangGraph's stores, from its SQLite files or PostgreSQL servers: items with the same addresses.

`memorist_frameworks.langgraph.MemoristStore` then finds them. All text of an item is searchable. The
threads of a checkpointer are listed only: copy them with LangGraph's own classes, from its saver to
`MemoristSaver`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from memorist.base.errors import Invalid
from memorist.importing import foreign_files
from memorist.importing.importer import Importer, ImportSource
from memorist.importing.records import ImportedItem, Record, Unplaced, parse_time
from memorist.storage.connect import foreign
from memorist_frameworks import namespaces
from memorist_importers.fields import FOREIGN_VECTOR, as_text

SELECT_ITEMS = "select * from store order by prefix, key"
SELECT_THREADS = (
    "select thread_id, count(*) as steps from checkpoints group by thread_id order by thread_id"
)
_KNOWN_TABLES = {
    "checkpoint_blobs",
    "checkpoint_migrations",
    "checkpoint_writes",
    "checkpoints",
    "sqlite_sequence",
    "store",
    "store_migrations",
    "store_vectors",
    "vector_migrations",
    "writes",
}


def read(source: ImportSource) -> Iterator[Record]:
    """Yield every item of the store, and list every thread."""
    database = foreign(source.location)
    tables = database.tables()
    if not tables & {"store", "checkpoints"}:
        raise Invalid(field="file", problem="has neither a table `store` nor `checkpoints`")
    if "store" in tables:
        for row in database.rows(SELECT_ITEMS):
            yield _read_item(row)
    if "checkpoints" in tables:
        for row in database.rows(SELECT_THREADS):
            reason = (
                f"is a program's state in {row['steps']} steps; "
                "copy it from LangGraph's saver to MemoristSaver"
            )
            yield Unplaced("thread", as_text(row["thread_id"]), reason)
    if "store_vectors" in tables:
        yield Unplaced("table", "store_vectors", FOREIGN_VECTOR)
    if "://" not in source.location:
        for name in sorted(tables - _KNOWN_TABLES):
            yield Unplaced("table", name, "is not a table of LangGraph")


IMPORTER = Importer(read, tables=("store", "checkpoints"))


def _read_item(row: dict[str, Any]) -> Record:
    where = f"{row['prefix']} {row['key']}"
    value = row["value"]
    try:
        if isinstance(value, str | bytes):
            value = foreign_files.parse_json(value, where)
        expires_at = _parse_expiry(row.get("expires_at"), where)
    except Invalid as error:
        return Unplaced("item", where, str(error))
    if not isinstance(value, dict):
        return Unplaced("item", where, "has a value that is not an object")
    ttl = None
    if expires_at is not None:
        remaining = (expires_at - datetime.now(UTC)).total_seconds()
        if remaining <= 0:
            return Unplaced("item", where, f"expired at {row['expires_at']}")
        minutes = row.get("ttl_minutes")
        ttl = remaining
        if isinstance(minutes, int | float) and minutes > 0:
            ttl = 60.0 * minutes
    return ImportedItem(
        namespaces.place(as_text(row["prefix"]).split(".")),
        namespaces.stored(as_text(row["key"])),
        value,
        fields=None,
        ttl=ttl,
        created_at=parse_time(row.get("created_at")),
        updated_at=parse_time(row.get("updated_at")),
        expires_at=expires_at,
    )


def _parse_expiry(value: Any, where: str) -> datetime | None:
    """Parse an expiry: text in SQLite, a datetime on a server."""
    if value is None:
        return None
    try:
        expires_at = datetime.fromisoformat(value) if isinstance(value, str) else value
        return expires_at if expires_at.tzinfo else expires_at.replace(tzinfo=UTC)
    except (ValueError, AttributeError):
        problem = f"has an expires_at that is not a time: {str(value)[:100]}"
        raise Invalid(field=where, problem=problem) from None

"""Databases and exports of retain, as memorist was called before its first release.

A database of retain is not opened. Its export can be imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memorist.base.errors import OldDatabase
from memorist.base.settings import Settings

APPLICATION_ID = 0x5265_746E  # "Retn"
"""Marks an SQLite file of retain."""
HAS_SCHEMA = """select 1 from pg_class c join pg_namespace n on n.oid = c.relnamespace
                where n.nspname = 'retain' and c.relname = 'retain_schema'"""
"""PostgreSQL: finds a row if retain has recorded its migrations in the database."""
HAS_TABLE = 'select 1 from "retain_schema" where 1 = 0'
"""Oracle: fails unless retain has recorded its migrations in the schema."""
EXPORT_MARK = "retain"
"""Stands in the first line of an export of retain."""
EXPORT_SCHEMA = 28
"""The schema of the last version of retain."""
_DEFAULT_FILE = "retain.db"


def reject_default_file(settings: Settings) -> None:
    """Raise `OldDatabase` if retain's default file is there and memorist's is not."""
    if settings.origins.get("database") or settings.database != Settings().database:
        return
    file = Path(settings.database.removeprefix("sqlite:///"))
    old_file = file.with_name(_DEFAULT_FILE)
    if old_file.exists() and not file.exists():
        raise OldDatabase(name=str(old_file.absolute()))


def translate_row(table: str, row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an exported row of retain as memorist exports it."""
    if table == "turns" and row.get("report"):
        # The items of a report begin with their kind; the kind `knowledge` is `documents` now.
        return {**row, "report": row["report"].replace('"knowledge ', '"documents ')}
    return row

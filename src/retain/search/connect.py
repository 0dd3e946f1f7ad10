"""From a database to its index: the one place that chooses how an engine finds things."""

from __future__ import annotations

from retain.base.settings import Settings
from retain.search.index import Index
from retain.search.postgres import PostgresEngine
from retain.search.sqlite import SqliteEngine
from retain.storage.database import Database
from retain.storage.sqlite import SqliteDatabase


def index(database: Database, settings: Settings) -> Index:
    """The index of a database."""
    made = SqliteEngine if isinstance(database, SqliteDatabase) else PostgresEngine
    return Index(made(settings.vector_memory_mib))

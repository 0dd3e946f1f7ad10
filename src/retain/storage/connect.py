"""From an address to a database: the one place that chooses an engine."""

from __future__ import annotations

from pathlib import Path

from retain.clock import Clock
from retain.errors import SettingsError
from retain.settings import Settings
from retain.storage.database import Database
from retain.storage.migrate import Migration, shipped
from retain.storage.sqlite import SqliteDatabase


def connect(settings: Settings, clock: Clock | None = None) -> tuple[Database, list[Migration]]:
    """The database that the settings name, and the migrations for its engine; nothing is migrated yet."""
    url = settings.database
    if url == "memory:":
        return SqliteDatabase(None, settings, clock), shipped("sqlite")
    if url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
        return SqliteDatabase(Path(url.removeprefix("sqlite:///")), settings, clock), shipped("sqlite")
    if url.startswith(("postgresql://", "postgres://")):
        try:
            from retain.storage.postgres import PostgresDatabase
        except ImportError as error:
            problem = f"PostgreSQL needs an extra ({error}): pip install 'retain[postgres]'"
            raise SettingsError(where="database", problem=problem) from error
        return PostgresDatabase(url, settings, clock), shipped("postgres")
    scheme = url.partition(":")[0]
    expected = "sqlite:///FILE, postgresql://USER@HOST/DATABASE or memory:"
    raise SettingsError(where="database", problem=f"cannot open an address that starts with {scheme!r}; use {expected}")

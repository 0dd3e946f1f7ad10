"""Open a database by its address: the one place that chooses an engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from memorist.base.clock import Clock
from memorist.base.errors import Invalid, SettingsError, install_hint
from memorist.base.settings import Settings
from memorist.storage import files
from memorist.storage.contents.folder import Folder
from memorist.storage.database import Database, Finding
from memorist.storage.extra_engines import ForeignDatabase, find_engine
from memorist.storage.migrate import Migration, shipped
from memorist.storage.postgres.dump import DUMP_HEAD, verify_dump
from memorist.storage.postgres.foreign_tables import ForeignServer
from memorist.storage.sqlite import log_check
from memorist.storage.sqlite.engine import SqliteDatabase
from memorist.storage.sqlite.foreign_file import HEAD, ForeignFile

POSTGRES = ("postgresql://", "postgres://")
LOG_CHECK_PAUSES = (0.05, 0.2, 0.0)


def connect(
    settings: Settings,
    clock: Clock | None = None,
    *,
    create: bool = True,
    wait_seconds: float | None = None,
    read_only: bool = False,
) -> tuple[Database, Sequence[Migration]]:
    """Open the database in the settings, and return it with the migrations of its engine.

    Nothing is migrated yet. `wait_seconds` limits the wait for a connection or another writer. With
    `read_only`, an SQLite file is not changed; one that may not be written is always opened so.
    """
    url = settings.database
    if settings.read_database and not url.startswith(POSTGRES):
        problem = "needs PostgreSQL as `database`"
        raise SettingsError(where="read_database", problem=problem)
    if in_memory(settings):
        return SqliteDatabase(None, settings, clock, wait_seconds=wait_seconds), shipped("sqlite")
    if url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
        file = Path(url.removeprefix("sqlite:///"))
        database = SqliteDatabase(file, settings, clock, create, wait_seconds, read_only)
        return database, shipped("sqlite")
    if url.startswith(POSTGRES):
        try:
            # Imported here because it needs the extra `postgres`.
            from memorist.storage.postgres.engine import PostgresDatabase
        except ImportError as error:
            problem = (
                f"PostgreSQL requires the extra `postgres` ({error}); {install_hint('postgres')}"
            )
            raise SettingsError(where="database", problem=problem) from error
        return PostgresDatabase(url, settings, clock, wait_seconds), shipped("postgres")
    if engine := find_engine(url, "database"):
        return engine.open(settings, clock, wait_seconds)
    file_name = url.removeprefix("sqlite:").lstrip("/")
    if url.strip(":/") in ("memory", "sqlite:memory"):
        suggestion = "did you mean memory:? "
    elif file_name and ":" not in file_name:
        suggestion = f"did you mean sqlite:///{file_name}? "
    else:
        suggestion = ""
    formats = (
        "sqlite:///FILE, postgresql://USER@HOST/DATABASE, oracle://USER@HOST/SERVICE or memory:"
    )
    shown = settings.shown("database")
    problem = f"{shown!r} is not a database address; {suggestion}use {formats}"
    raise SettingsError(where="database", problem=problem)


def embedded(settings: Settings) -> bool:
    """Return True if the database is a file or in memory, not a server."""
    scheme, separator, _ = settings.database.partition("://")
    return not separator or scheme == "sqlite"


def in_memory(settings: Settings) -> bool:
    """Return True if the database is in the memory of this process."""
    return settings.database in ("memory:", "sqlite:///:memory:")


def is_missing(settings: Settings) -> bool:
    """Return True if opening the database would create it."""
    url = settings.database
    return in_memory(settings) or (
        url.startswith("sqlite:///") and not Path(url.removeprefix("sqlite:///")).exists()
    )


def folder(settings: Settings) -> Folder | None:
    """Return the folder for large contents, from the settings or beside the SQLite file, or None."""
    url = settings.database
    if settings.ref_folder:
        path = Path(settings.ref_folder).absolute()
    elif url.startswith("sqlite:///") and url != "sqlite:///:memory:":
        file = Path(url.removeprefix("sqlite:///")).resolve()
        path = file.with_name(file.name + "-refs")
    else:
        return None
    return Folder(path, min_free_mib=files.MIN_FREE_MIB)


def verify_backup(
    file: Path, settings: Settings, verify_file: Callable[[Settings], list[Finding]]
) -> list[Finding]:
    """Check a file that a backup wrote; `verify_file` checks the one with the given settings."""
    with file.open("rb") as opened:
        head = opened.read(16)
    if head.startswith(DUMP_HEAD):
        return verify_dump(file)
    if head.startswith(HEAD):
        return verify_file(replace(settings, database=f"sqlite:///{file}", ref_folder=""))
    raise Invalid(field=str(file), problem="is not a backup of memorist")


def lost_commits(settings: Settings) -> int:
    """Return how many commits in the log of a database file cannot be read; call before opening it.

    Opening the file discards the log behind a damaged place.
    """
    url = settings.database
    if in_memory(settings) or not url.startswith("sqlite:///"):
        return 0
    log = Path(url.removeprefix("sqlite:///") + "-wal")
    for pause in LOG_CHECK_PAUSES:
        lost = log_check.lost_commits(log)
        if not lost:
            return 0
        time.sleep(pause)  # another process may just be writing to it
    return lost


def liquibase_changelog(settings: Settings) -> str:
    """Return the migrations for Oracle Database as a Liquibase changelog, for the users in the settings."""
    engine = find_engine("oracle://", "database")
    assert engine  # else it raises
    return engine.changelog(settings)


def foreign(source: str) -> ForeignDatabase:
    """Open another program's database for reading: a server by its address, or a file."""
    if source.startswith(POSTGRES):
        return ForeignServer(source)
    name = source.removeprefix("sqlite:///")
    if "://" in name:
        if engine := find_engine(source, "file"):
            return engine.open_foreign(source)
        problem = "must be a file, or a URL that begins with postgresql://, oracle:// or sqlite:///"
        raise Invalid(field="file", problem=problem)
    return ForeignFile(Path(name))

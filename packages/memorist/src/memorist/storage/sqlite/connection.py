"""Open an SQLite file with safe settings, wait for other writers, and translate SQLite's errors."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import apsw

from memorist.base.errors import (
    Busy,
    Corrupt,
    Full,
    MemoristError,
    NotOurs,
    OldDatabase,
    ReadOnly,
    ReadTooLong,
    StorageError,
    Unreachable,
)
from memorist.storage import former_name
from memorist.storage.files import has_room, make_private, take_from_ballast

APPLICATION_ID = 0x4D65_6D6F  # "Memo": marks a file as ours
BUSY_SECONDS = 30.0
"""The longest wait for another process that is writing."""
MAX_LOG_MIB = 256
"""Readers that keep the write-ahead log above this size are stopped."""
WRITER_CACHE_KIB = 8192
READER_CACHE_KIB = 2048
"""Page cache of each reader. SQLite drops it whenever somebody has written, and the operating
system caches the file too: 8 MiB were not faster, and 16 readers grew by up to 96 MiB."""


def open_connection(
    path: Path, wait_seconds: float, *, writing: bool, relaxed: bool
) -> apsw.Connection:
    """Open the file, and create it if it is missing.

    `relaxed` gives up that acknowledged writes survive a power failure.
    """
    make_private(path)
    try:
        return _open(path, wait_seconds, writing, relaxed)
    except apsw.Error as error:
        if has_room(path.parent) or isinstance(
            error, apsw.BusyError | apsw.ReadOnlyError | apsw.NotADBError
        ):
            raise translate_error(error, path, wait_seconds) from error
        if not take_from_ballast(path.with_name(path.name + "-ballast")):
            raise Full(problem=f"there is no room to open {path} ({error})") from error
    try:
        return _open(path, wait_seconds, writing, relaxed)
    except apsw.Error as error:
        raise translate_error(error, path, wait_seconds) from error


def may_write(path: Path) -> bool:
    """Return True if the file and its folder can be written, or the file is still missing."""
    if not os.path.exists(path):
        return True
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def open_read_only(path: Path, wait_seconds: float) -> apsw.Connection:
    """Open a file that may not be written, such as one on a read-only disk, and leave no trace.

    Every writer has a write-ahead log. Without one the file does not change, and SQLite can read it
    without the shared memory for which it would have to create a file.
    """
    has_log = path.with_name(path.name + "-wal").exists()
    mode = "mode=ro" if has_log else "mode=ro&immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    try:
        connection = apsw.Connection(f"{path.absolute().as_uri()}?{mode}", flags=flags)
        try:
            connection.set_busy_handler(BusyHandler(wait_seconds))
            connection.pragma("cache_size", -READER_CACHE_KIB)
            mark = connection.pragma("application_id")
        except BaseException:  # an interruption must not leave the file open
            connection.close()
            raise
    except apsw.CantOpenError as error:
        if has_log and os.access(path, os.R_OK):
            problem = (
                f"the last writer of {path} did not close it, and its log cannot be read without "
                "write access; copy the file and its -wal file to a folder that can be written"
            )
            raise ReadOnly(problem=problem) from error
        raise translate_error(error, path, wait_seconds) from error
    except apsw.Error as error:
        raise translate_error(error, path, wait_seconds) from error
    if mark != APPLICATION_ID:
        connection.close()
        raise _not_ours(mark, path)
    return connection


def _open(path: Path, wait_seconds: float, writing: bool, relaxed: bool) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    try:
        # Keep query plans stable; otherwise new parameter values cause a new plan.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        connection.set_busy_handler(BusyHandler(wait_seconds))
        if writing:
            _mark_as_ours(connection, path)
        elif connection.pragma("application_id") == former_name.APPLICATION_ID:
            raise OldDatabase(name=str(path))
        connection.execute(
            "pragma synchronous = normal" if relaxed else "pragma synchronous = full"
        )
        connection.execute("pragma foreign_keys = on")
        connection.execute("pragma secure_delete = on")
        connection.pragma("cache_size", -(WRITER_CACHE_KIB if writing else READER_CACHE_KIB))
        connection.execute("pragma wal_autocheckpoint = 2000").fetchall()
        connection.execute("pragma journal_size_limit = 67108864").fetchall()
        connection.execute("pragma query_only = off" if writing else "pragma query_only = on")
    except BaseException:  # an interruption must not leave the file open
        connection.close()
        raise
    return connection


def _mark_as_ours(connection: apsw.Connection, path: Path) -> None:
    """Mark an empty file as ours; raise `NotOurs` for another program's file."""
    # Read the schema version first: a process that creates tables has set the mark before.
    used = connection.pragma("schema_version")
    mark = connection.pragma("application_id")
    if mark == APPLICATION_ID:
        # A copy made by `vacuum into` or another tool is not in WAL mode.
        if connection.pragma("journal_mode") != "wal":
            connection.execute("pragma journal_mode = wal").fetchall()
        return
    if mark or used:
        if connection.pragma("application_id") == APPLICATION_ID:
            return  # another process has just made it ours
        raise _not_ours(mark, path)
    if not os.access(path, os.W_OK):
        raise ReadOnly(problem=f"there is no write permission for {path}")
    connection.execute("pragma auto_vacuum = incremental")
    connection.execute("pragma journal_mode = wal").fetchall()
    connection.pragma("application_id", APPLICATION_ID)


def _not_ours(mark: object, path: Path) -> StorageError:
    if mark == former_name.APPLICATION_ID:
        return OldDatabase(name=str(path))
    return NotOurs(path=str(path), problem="another program created it")


def truncate_log(connection: apsw.Connection, wait_seconds: float) -> bool:
    """Empty the write-ahead log.

    Returns False if a reader still needs it: waiting here would block all writers.
    """
    connection.execute(
        "pragma wal_checkpoint(passive)"
    ).fetchall()  # most of the work, without blocking anyone
    connection.set_busy_handler(None)
    try:
        return not connection.execute("pragma wal_checkpoint(truncate)").fetchall()[0][0]
    except apsw.BusyError:
        return False
    finally:
        connection.set_busy_handler(BusyHandler(wait_seconds))


class BusyHandler:
    """SQLite's busy handler: short random pauses, so that processes do not retry in step."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since = 0.0

    def __call__(self, attempt: int) -> bool:
        if attempt == 0:
            self._since = time.monotonic()
        if time.monotonic() - self._since > self._seconds:
            return False
        time.sleep(random.uniform(0.0002, min(0.02, 0.001 * (attempt + 1))))
        return True


def translate_error(error: apsw.Error, path: Path, wait_seconds: float) -> MemoristError:
    """Return the error of memorist for an error of SQLite."""
    problem = f"{path}: {error}"
    if isinstance(error, apsw.BusyError):
        return Busy(problem=f"another process held {path} for over {wait_seconds} seconds")
    if isinstance(error, apsw.FullError):
        return Full(problem=problem)
    if isinstance(error, apsw.ReadOnlyError):
        return ReadOnly(problem=problem)
    if isinstance(error, apsw.CorruptError) or "malformed JSON" in str(error):
        return Corrupt(problem=problem)
    if isinstance(error, apsw.NotADBError):
        return NotOurs(path=str(path), problem="it is not an SQLite file")
    if isinstance(
        error,
        apsw.CantOpenError | apsw.PermissionsError | apsw.AuthError | apsw.ConnectionClosedError,
    ):
        return Unreachable(problem=problem)
    if isinstance(error, apsw.InterruptError):
        return ReadTooLong(limit_mib=MAX_LOG_MIB)
    return StorageError(problem=problem)

"""Maintenance of an SQLite file: migrations, integrity checks, backup, and freeing space."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import apsw

from memorist.base.errors import Corrupt
from memorist.storage.database import Finding, Step
from memorist.storage.pace import Pace
from memorist.storage.sqlite.connection import APPLICATION_ID, truncate_log

PAGES_PER_VACUUM = 200
COLUMN_TYPES = {
    "{key}": "text",
    "{text}": "text",
    "{json}": "text",
    "{time}": "integer",
    "{int}": "integer",
    "{real}": "real",
    "{blob}": "blob",
    "{checksum}": "integer",
    # Around a text column: its stored bytes, also where they are no valid text.
    "{bytes_begin}": "cast(",
    "{bytes_end}": " as blob)",
    "{strict}": "strict",
    # The fields of the column `value`; the last one of a name counts, as in Python.
    "{fields}": "jsonb_patch('{}', value)",
    # The type of a field that is compared as a number; no value of it is an error.
    "{number}": "real",
    # A table of the members of a JSON object, with the columns `key` and `value`, both texts.
    "{members_of_versions}": "json_each(versions)",
}


def expand_types(sql: str) -> str:
    """Replace the column types in braces by those of SQLite."""
    for word, meaning in COLUMN_TYPES.items():
        sql = sql.replace(word, meaning)
    return sql


def version(connection: apsw.Connection) -> int:
    """Return the newest migration that was applied, 0 for none."""
    if not connection.execute(
        "select 1 from sqlite_master where name = 'memorist_schema'"
    ).fetchall():
        return 0
    rows = connection.execute("select coalesce(max(version), 0) from memorist_schema").fetchall()
    return int(str(rows[0][0]))


def apply(connection: apsw.Connection, step: Step) -> bool:
    """Run one migration inside the open transaction; return False if another one is due."""
    if version(connection) != step.number - int(step.up):
        return False
    for _ in connection.execute(script(step)):
        pass
    return True


def script(step: Step) -> str:
    """Return all statements of one migration."""
    now = "cast(unixepoch('subsec') * 1000000 as integer)"
    record = f"insert into memorist_schema values ({step.number}, '{step.name}', {now});"
    if not step.up:
        record = f"delete from memorist_schema where version = {step.number};"
    mark = f"pragma application_id = {APPLICATION_ID};\n" if step.number == 1 and step.up else ""
    table = "create table if not exists memorist_schema (version integer primary key, name text not null, applied_at integer);"
    return f"-- {step.number:04} {step.name}\n{mark}{table}\n{expand_types(step.script).strip()}\n{record}\n"


def check_integrity(connection: apsw.Connection) -> list[Finding]:
    """Check the file's pages, indexes and foreign keys."""
    problems = [str(row[0]) for row in connection.execute("pragma integrity_check(20)")]
    broken = connection.execute("pragma foreign_key_check").fetchall()
    mode = connection.pragma("journal_mode")
    is_logged = mode == "wal" or connection.readonly("main")  # the first writer switches it on
    return [
        Finding("pages and indexes are intact", "" if problems == ["ok"] else "; ".join(problems)),
        Finding(
            "every reference has its row", f"{len(broken)} rows without a parent" if broken else ""
        ),
        Finding("write-ahead logging is on", "" if is_logged else f"journal_mode is {mode}"),
    ]


def copy(connection: apsw.Connection, target: Path) -> None:
    """Write a consistent copy to an empty file, and check it."""
    connection.execute("vacuum into ?", (str(target),))
    with closing(apsw.Connection(str(target))) as copied:
        problems = [str(row[0]) for row in copied.execute("pragma quick_check(5)")]
    if problems != ["ok"]:
        raise Corrupt(problem="; ".join(problems))


def reclaim_space(connection: apsw.Connection, wait_seconds: float) -> bool:
    """Return free pages to the disk, a few at a time to let others write, and empty the log."""
    pace = Pace(PAGES_PER_VACUUM)
    free_pages = _free_pages(connection)
    previous = -1
    while free_pages and free_pages != previous:
        started = time.monotonic()
        connection.execute(f"pragma incremental_vacuum({pace.size})").fetchall()
        pace.record_and_pause(time.monotonic() - started)
        previous = free_pages
        free_pages = _free_pages(connection)
    deadline = time.monotonic() + wait_seconds
    while (
        not (is_truncated := truncate_log(connection, wait_seconds)) and time.monotonic() < deadline
    ):
        time.sleep(0.05)
    return is_truncated


def _free_pages(connection: apsw.Connection) -> int:
    return int(str(connection.pragma("freelist_count")))

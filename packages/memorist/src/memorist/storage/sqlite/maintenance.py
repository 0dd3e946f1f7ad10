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

PAGES_PER_MERGE = 16
MIN_PAGES_PER_MERGE = 4
"""FTS5 ends each step with a partly filled page, so smaller steps would waste space."""
MAX_REWRITES = 8
"""A merge gives up after it has written this many times the pages of the index."""
_SEGMENT_SHIFT = 37
"""The bits of a row number in `search_words_data` below the number of its segment."""
PAGES_PER_VACUUM = 200
MIN_REMOVED_ROWS = 5_000
"""With fewer removed rows, the full-text index is merged only when the file is compacted."""
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


def needs_merge(connection: apsw.Connection) -> bool:
    """Return whether enough rows of the full-text index have been removed to merge it: a fifth.

    A step of the merge ends when it has written its pages, regardless of how many words of removed
    rows it skips. The more removed rows the index still has, the longer each further removal takes.
    """
    ((removed, remaining),) = connection.execute(
        "select removed, (select count(*) from search_words_docsize) from search_absorbed"
    ).fetchall()
    return int(str(removed)) >= max(MIN_REMOVED_ROWS, int(str(remaining)) // 4)


def removed_rows(connection: apsw.Connection) -> int:
    """Return how many rows were removed since the full-text index was merged.

    Until the next merge, its pages hold their words.
    """
    if not connection.execute(
        "select 1 from sqlite_master where name = 'search_absorbed'"
    ).fetchall():
        return 0
    ((removed,),) = connection.execute("select removed from search_absorbed").fetchall()
    return int(str(removed))


def pages_of_search_index(connection: apsw.Connection) -> int:
    """Return how many pages the full-text index has, and two rows more.

    `search_words_idx` lacks the pages on which no word begins.
    """
    ((count,),) = connection.execute("select count(*) from search_words_data").fetchall()
    return int(str(count))


def segments(connection: apsw.Connection) -> set[int]:
    """Return the numbers of the segments of the full-text index, and of their lists of removed rows."""
    numbers: set[int] = set()
    next_row = 1 << _SEGMENT_SHIFT
    sql = "select id from search_words_data where id >= ? order by id limit 1"
    while rows := connection.execute(sql, (next_row,)).fetchall():
        number = int(str(rows[0][0])) >> _SEGMENT_SHIFT
        numbers.add(number)
        next_row = (number + 1) << _SEGMENT_SHIFT
    return numbers


def merge_search_index(
    connection: apsw.Connection, pages: int, old: set[int], *, is_first: bool
) -> set[int]:
    """Merge the full-text index until `pages` pages are written; return which `old` segments are left.

    is_first: start a merge of all segments. Otherwise, continue the merge under way, and start
        another only if there is none: it would include the segments that others add meanwhile.
    """
    # FTS5 starts a merge of all segments if the number is negative.
    for signed_pages in (-pages,) if is_first else (pages, -pages):
        before = connection.total_changes()
        connection.execute(
            "insert into search_words (search_words, rank) values ('merge', ?)", (signed_pages,)
        )
        if connection.total_changes() - before >= 2:
            return old & segments(connection)
    return set()  # there was nothing to merge: one segment without removed rows


def forget_removed_rows(connection: apsw.Connection, count: int) -> None:
    """Record that the words of `count` removed rows are gone.

    Another process may have merged at the same time, and recorded the same rows.
    """
    connection.execute("update search_absorbed set removed = max(0, removed - ?)", (count,))


def _free_pages(connection: apsw.Connection) -> int:
    return int(str(connection.pragma("freelist_count")))

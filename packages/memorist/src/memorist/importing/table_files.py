"""Files that hold tables: SQL dumps by `pg_dump`, and JSON files. They are read into memory."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from memorist.base.errors import Invalid
from memorist.importing import foreign_files
from memorist.storage.connect import foreign

_COPY = re.compile(r"COPY (?P<table>[^ (]+) \((?P<columns>.*)\) FROM stdin;")
_INTEGER = re.compile(r"-?[0-9]{1,100}")
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPED = re.compile(r"\\(.)")
_LIST_FIELDS = ("sessions", "data", "conversations")
SESSIONS = "chat_sessions"
MESSAGES = "chat_messages"


class Tables(Protocol):
    """A database or a file with tables."""

    def tables(self) -> set[str]:
        """Return the names of the tables."""

    def columns(self, table: str) -> list[str]:
        """Return the names of a table's columns."""

    def read_table(
        self, table: str, columns: Sequence[str], order: Sequence[str] = ()
    ) -> Iterator[dict[str, Any]]:
        """Yield the given columns of every row, sorted by `order`."""


class TableFile:
    """The tables of a file, in memory."""

    def __init__(
        self,
        rows: dict[str, list[dict[str, Any]]],
        columns: dict[str, list[str]],
        *,
        is_ordered: bool = False,
    ) -> None:
        self._rows = rows
        self._columns = columns
        self._is_ordered = is_ordered  # keep the order of the file

    def tables(self) -> set[str]:
        """Return the names of the tables."""
        return set(self._rows)

    def columns(self, table: str) -> list[str]:
        """Return the names of a table's columns."""
        return self._columns[table]

    def read_table(
        self, table: str, columns: Sequence[str], order: Sequence[str] = ()
    ) -> Iterator[dict[str, Any]]:
        """Yield all rows of a table, ordered by columns."""
        rows = self._rows[table]
        if self._is_ordered:
            return iter(rows)
        return iter(sorted(rows, key=lambda row: [_sort_key(row.get(name)) for name in order]))


def open_tables(source: str) -> Tables:
    """Open a database by its URL, or an SQLite file, a dump or a JSON file."""
    if "://" in source:
        return foreign(source)
    path = Path(source)
    with foreign_files.open_file(path) as file:
        head = file.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")
        if head.startswith(b"SQLite format 3"):
            return foreign(source)
        file.seek(0)
        if head.startswith((b"{", b"[")):
            return _read_json(foreign_files.read_json(file, path.name), path.name)
        if head.startswith(b"PGDMP"):
            problem = f"is a dump in the custom format; run `pg_restore -f dump.sql {path.name}`"
            raise Invalid(field="file", problem=f"{problem} and import dump.sql")
        if b"PostgreSQL database dump" in head or b"COPY " in head:
            return _read_dump(line.decode("utf-8") for line in file)
    problem = "must be an SQLite database, a pg_dump file, a JSON file or the URL of a database"
    raise Invalid(field="file", problem=problem)


def _sort_key(value: Any) -> tuple[int, float, str]:
    """Order numbers, also those written as text, before other text; equal keys are equal values."""
    text = str(value)
    try:
        number = int(text) if _INTEGER.fullmatch(text) else float(value)
    except (TypeError, ValueError, OverflowError):
        return (1, 0.0, text)
    return (1, 0.0, text) if math.isnan(number) else (0, number, text)


# -- dumps ----------------------------------------------------------------------------------------


def _read_dump(lines: Iterator[str]) -> TableFile:
    rows: dict[str, list[dict[str, Any]]] = {}
    columns: dict[str, list[str]] = {}
    has_inserts = False
    try:
        for line in lines:
            has_inserts = has_inserts or line.startswith("INSERT INTO ")
            match = _COPY.fullmatch(line.rstrip("\r\n"))
            if match is None:
                continue
            table = match["table"].rpartition(".")[2].strip('"')
            columns[table] = [name.strip().strip('"') for name in match["columns"].split(",")]
            rows[table] = list(_read_copy(lines, table, columns[table]))
    except UnicodeDecodeError:
        raise Invalid(field="file", problem="is not UTF-8") from None
    if has_inserts and not rows:  # with COPY, the statements belong to functions of the database
        problem = "has INSERT statements; write the dump without --inserts"
        raise Invalid(field="file", problem=problem)
    return TableFile(rows, columns)


def _read_copy(lines: Iterator[str], table: str, columns: Sequence[str]) -> Iterator[Any]:
    for line in lines:
        text = line.rstrip("\r\n")
        if text == "\\.":
            return
        values = [_parse_value(value) for value in text.split("\t")]
        if len(values) != len(columns):
            break
        yield dict(zip(columns, values, strict=True))
    raise Invalid(field="file", problem=f"is damaged in the rows of the table {table}")


def _parse_value(value: str) -> str | None:
    if value == "\\N":
        return None
    return _ESCAPED.sub(lambda match: _ESCAPES.get(match[1], match[1]), value)


# -- JSON -----------------------------------------------------------------------------------------


def _read_json(value: Any, where: str) -> TableFile:
    """Read an object of tables, or sessions with their messages."""
    if isinstance(value, dict):
        for name in _LIST_FIELDS:
            if isinstance(value.get(name), list):
                value = value[name]
                break
    if isinstance(value, dict) and not isinstance(value.get("messages"), list):
        rows = {
            name: [row for row in items if isinstance(row, dict)]
            for name, items in value.items()
            if isinstance(items, list)
        }
        return TableFile(rows, {name: _column_names(items) for name, items in rows.items()})
    sessions: list[dict[str, Any]] = []
    messages: list[dict[str, Any]] = []
    for number, session in enumerate(value if isinstance(value, list) else [value]):
        if not isinstance(session, dict) or not isinstance(session.get("messages", []), list):
            problem = "must be a session: an object with an id and a list of messages"
            raise Invalid(field=f"{where}[{number}]", problem=problem)
        sessions.append({name: item for name, item in session.items() if name != "messages"})
        for message in session.get("messages", []):
            if not isinstance(message, dict):
                problem = "has a message that is not an object"
                raise Invalid(field=f"{where}[{number}]", problem=problem)
            messages.append({**message, "session_id": session.get("id")})
    return TableFile(
        {SESSIONS: sessions, MESSAGES: messages},
        {
            SESSIONS: _column_names(sessions),
            MESSAGES: _column_names(messages) if messages else ["session_id", "role", "content"],
        },
        is_ordered=True,
    )


def _column_names(rows: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))

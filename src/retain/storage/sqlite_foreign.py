"""Reading another program's SQLite file: it may be written to just now, or made to do harm, and is never changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw

from retain.base.errors import Invalid

HEAD = b"SQLite format 3\x00"
_MOST_BYTES = 256 << 20
_TABLES = "select name from sqlite_schema where type = 'table'"


class ForeignFile:
    """Another program's file. Views and triggers in it do not work here, so that a table is nothing but a table."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def tables(self) -> set[str]:
        """The names of its tables."""
        return {str(row["name"]) for row in self.rows(_TABLES)}

    def rows(self, statement: str) -> Iterator[dict[str, Any]]:
        """What a statement selects, row by row."""
        try:
            connection = self._open()
            try:
                cursor = connection.execute(statement)
                for row in cursor:
                    yield dict(
                        zip([column[0] for column in cursor.get_description()], row, strict=True)
                    )
            finally:
                connection.close()
        except apsw.Error as error:
            raise Invalid(
                field="file", problem=f"is no database that can be read: {error}"
            ) from None

    def history(self, table: str) -> Iterator[dict[str, Any]]:
        """A chat history is on a server."""
        raise Invalid(
            field="file", problem=f"must be the address of the server that has the table {table!r}"
        )

    def _open(self) -> apsw.Connection:
        if not self._path.is_file():
            raise Invalid(field="file", problem="cannot be read: there is no such file")
        try:
            return self._opened("ro")
        except (
            apsw.CantOpenError,
            apsw.ReadOnlyError,
        ):  # a log beside it that only a writer could use
            return self._opened("ro&immutable=1")

    def _opened(self, how: str) -> apsw.Connection:
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        connection = apsw.Connection(f"{self._path.absolute().as_uri()}?mode={how}", flags=flags)
        connection.set_busy_timeout(5000)
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, _MOST_BYTES)
        for option, value in (
            (apsw.SQLITE_DBCONFIG_DEFENSIVE, 1),
            (apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0),
            (apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0),
            (apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0),
        ):
            connection.config(option, value)
        connection.execute("select count(*) from sqlite_schema").fetchall()
        return connection

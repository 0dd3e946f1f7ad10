"""Read another program's SQLite file, which may be in use or malicious; it is never changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw

from memorist.base.errors import Invalid

HEAD = b"SQLite format 3\x00"
MAX_VALUE_BYTES = 256 << 20
_TABLES = "select name from sqlite_schema where type = 'table'"
_COLUMNS = "select name from pragma_table_info(?)"


class ForeignFile:
    """Another program's file, opened with views and triggers disabled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def tables(self) -> set[str]:
        """Return the names of its tables."""
        return {str(row["name"]) for row in self.rows(_TABLES)}

    def columns(self, table: str) -> list[str]:
        """Return the names of a table's columns."""
        return [str(row["name"]) for row in self.rows(_COLUMNS, (table,))]

    def read_table(
        self, table: str, columns: Sequence[str], order: Sequence[str] = ()
    ) -> Iterator[dict[str, Any]]:
        """Yield the given columns of every row, sorted by `order`."""
        names = ", ".join(_quote(column) for column in columns)
        keys = ", ".join(_quote(column) for column in order)
        clause = f" order by {keys}" if keys else ""
        return self.rows(f"select {names} from {_quote(table)}{clause}")

    def rows(self, statement: str, parameters: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
        """Yield the rows of a statement."""
        try:
            connection = self._open()
            try:
                cursor = connection.execute(statement, parameters)
                for row in cursor:
                    yield dict(
                        zip([column[0] for column in cursor.get_description()], row, strict=True)
                    )
            finally:
                connection.close()
        except apsw.Error as error:
            raise Invalid(
                field="file", problem=f"is not a readable SQLite database: {error}"
            ) from None

    def _open(self) -> apsw.Connection:
        if not self._path.is_file():
            raise Invalid(field="file", problem="cannot be read: there is no such file")
        try:
            return self._open_as("ro")
        except (apsw.CantOpenError, apsw.ReadOnlyError):
            # The file has a write-ahead log that only a writer could use.
            return self._open_as("ro&immutable=1")

    def _open_as(self, how: str) -> apsw.Connection:
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        connection = apsw.Connection(f"{self._path.absolute().as_uri()}?mode={how}", flags=flags)
        connection.set_busy_timeout(5000)
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
        for option, value in (
            (apsw.SQLITE_DBCONFIG_DEFENSIVE, 1),
            (apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0),
            (apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0),
            (apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0),
        ):
            connection.config(option, value)
        connection.execute("select count(*) from sqlite_schema").fetchall()
        return connection


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

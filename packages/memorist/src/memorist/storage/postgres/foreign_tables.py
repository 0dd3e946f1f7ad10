"""Read another program's tables on a PostgreSQL server, in a read-only transaction."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from memorist.base.canonical import JsonText
from memorist.base.errors import Invalid, SettingsError, Unreachable, install_hint

if TYPE_CHECKING:
    from psycopg import sql

_TABLES = """select table_name from information_schema.tables
             where table_type = 'BASE TABLE' and table_schema = any (current_schemas(false))"""
_COLUMNS = """select column_name from information_schema.columns
              where table_name = %s and table_schema = any (current_schemas(false))
              order by ordinal_position"""
_IN_ONE_READ = 500


class ForeignServer:
    """Another program's database."""

    def __init__(self, address: str) -> None:
        try:
            import psycopg as _  # noqa: F401 - the import below fails without it
        except ImportError as error:
            problem = (
                f"PostgreSQL requires the extra `postgres` ({error}); {install_hint('postgres')}"
            )
            raise SettingsError(where="file", problem=problem) from error
        # Imported here because it needs the extra `postgres`.
        from memorist.storage.postgres.connections import read_address

        try:
            read_address(address, "file")
        except SettingsError as error:
            raise Invalid(field="file", problem=error.problem) from None
        self._address = address

    def tables(self) -> set[str]:
        """Return the names of its tables."""
        return {str(row["table_name"]) for row in self.rows(_TABLES)}

    def columns(self, table: str) -> list[str]:
        """Return the names of a table's columns."""
        return [str(row["column_name"]) for row in self.rows(_COLUMNS, (table,))]

    def read_table(
        self, table: str, columns: Sequence[str], order: Sequence[str] = ()
    ) -> Iterator[dict[str, Any]]:
        """Yield the given columns of every row, sorted by `order`."""
        from psycopg import sql

        names = sql.SQL(", ").join(sql.Identifier(column) for column in columns)
        statement = sql.SQL("select {} from {}").format(names, sql.Identifier(table))
        if order:
            keys = sql.SQL(", ").join(sql.Identifier(column) for column in order)
            statement = sql.SQL("{} order by {}").format(statement, keys)
        return self.rows(statement)

    def rows(
        self, statement: str | sql.Composed, parameters: Sequence[str] = ()
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows of a statement; a JSON value that is a string is `JsonText`."""
        import psycopg
        from psycopg.rows import dict_row
        from psycopg.types.json import set_json_loads

        try:
            with psycopg.connect(self._address, connect_timeout=10) as connection:
                connection.read_only = True
                set_json_loads(_load_json, connection)
                with connection.cursor("memorist_import", row_factory=dict_row) as cursor:
                    cursor.itersize = _IN_ONE_READ
                    cursor.execute(statement, parameters or None)
                    yield from cursor
        except psycopg.OperationalError as error:
            raise Unreachable(problem=f"the server to import from: {error}") from None
        except psycopg.Error as error:
            raise Invalid(field="file", problem=f"is not a readable database: {error}") from None


def _load_json(data: str | bytes) -> Any:
    """Parse JSON; a string stays JSON, so that it is not taken for text that was not parsed yet."""
    value = json.loads(data)
    if isinstance(value, str):
        return JsonText(data if isinstance(data, str) else data.decode())
    return value

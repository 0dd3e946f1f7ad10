"""The views of an SQLite file. It has one name space, so views cannot have the names of memorist's tables.

A temporary view can: it hides the table in one connection.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import apsw

from memorist.base.errors import Conflict
from memorist.storage import design_views
from memorist.storage.design_views import StoredView, TableView

Run = Callable[[Callable[[apsw.Connection], Any]], Any]
_MARK = "/* memorist migrate views: {} */"
_TIME = re.compile(r"\{time ([^}]*)\}")
_TIME_AS_TEXT = (
    r"strftime('%Y-%m-%d %H:%M:%S', \1 / 1000000, 'unixepoch') || printf('.%06d', \1 % 1000000)"
)


class SqliteViews:
    """The views of one file; `read` and `write` run a function in a transaction."""

    shares_names = True

    def __init__(self, read: Run, write: Run) -> None:
        self.available = design_views.read(__package__)
        self._read = read
        self._write = write

    def stored(self) -> list[StoredView]:
        """Return the views with memorist's comment."""
        found: list[StoredView] = self._read(_stored)
        return found

    def replace(self, views: Sequence[TableView]) -> None:
        """Drop the stored views and create these."""
        self._write(lambda connection: _replace(connection, views))

    def script(self, views: Sequence[TableView]) -> str:
        """Return statements that create temporary views, which one connection has."""
        statements = []
        for view in views:
            query = _translate(view.query, "main.")
            statements.append(f"drop view if exists temp.{view.name};\n")
            statements.append(f"create temp view {view.name} as\n{query};\n\n")
        return "".join(statements)


def _stored(connection: apsw.Connection) -> list[StoredView]:
    rows = connection.execute("select name, sql from sqlite_master where type = 'view'").fetchall()
    sql = {str(name): str(statement) for name, statement in rows}
    return sorted(
        StoredView(view.design, view.name, view.name)
        for view in design_views.read(__package__)
        if _MARK.format(view.design) in sql.get(view.name, "")
    )


def _replace(connection: apsw.Connection, views: Sequence[TableView]) -> None:
    for stored in _stored(connection):
        connection.execute(f"drop view {stored.name}")
    for view in views:
        taken = connection.execute(
            "select type from sqlite_master where lower(name) = ?", (view.name,)
        ).fetchall()
        if taken:
            problem = (
                f"the {taken[0][0]} {view.name} exists already, and memorist did not create it"
            )
            raise Conflict(problem=f"{problem}: rename it first")
        mark = _MARK.format(view.design)
        connection.execute(f"create view {view.name} as {mark}\n{_translate(view.query, '')}")


def _translate(query: str, schema: str) -> str:
    return _TIME.sub(_TIME_AS_TEXT, query).replace("memorist.", schema)

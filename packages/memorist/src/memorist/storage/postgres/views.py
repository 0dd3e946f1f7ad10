"""The views of a PostgreSQL database, in a schema for each design: names of their tables are used twice.

A view has the rights of the role that reads it (`security_invoker`), so row-level security applies.
In a cluster, only the coordinator has views.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress

from psycopg import errors
from psycopg.sql import Literal

from memorist.base.errors import Conflict, SettingsError
from memorist.storage import design_views
from memorist.storage.design_views import StoredView, TableView
from memorist.storage.postgres import citus, roles
from memorist.storage.postgres.connections import PostgresConnection
from memorist.storage.postgres.roles import quoted

MIN_SERVER_VERSION = 150_000
"""Earlier servers have no views with the rights of the reader."""
_MARK = "memorist migrate views: "
_STORED = """
    select n.nspname || '.' || c.relname, obj_description(c.oid, 'pg_class')
    from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.relkind = 'v'"""
_CREATE = """create schema if not exists {schema};
grant usage on schema {schema} to {role};
create view {schema}.{name} with (security_invoker = true) as
{query};
comment on view {schema}.{name} is {mark};
grant select on {schema}.{name} to {role};

"""

Connect = Callable[[], AbstractContextManager[PostgresConnection]]


class PostgresViews:
    """The views of one database.

    `connect` opens a connection of the owner, `begin` also a transaction with the lock of migrations.
    """

    shares_names = False

    def __init__(self, connect: Connect, begin: Connect) -> None:
        self.available = design_views.read(__package__)
        self._connect = connect
        self._begin = begin

    def stored(self) -> list[StoredView]:
        """Return the views with memorist's comment."""
        with self._connect() as connection:
            return _stored(connection)

    def replace(self, views: Sequence[TableView]) -> None:
        """Drop the stored views and create these, as the owner."""
        with self._begin() as connection:
            if connection.info.server_version < MIN_SERVER_VERSION:
                problem = "is on a server before PostgreSQL 15, whose views ignore the rights of their reader"
                raise SettingsError(where="database", problem=problem)
            if citus.is_installed(connection):
                connection.execute("set local citus.enable_ddl_propagation = off")
            try:
                _replace(connection, views)
            except errors.InsufficientPrivilege as error:
                problem = f"must name the owner of the tables, which may create schemas ({error})"
                raise SettingsError(where="owner_database", problem=problem) from error
            except errors.DependentObjectsStillExist as error:
                problem = (
                    f"other objects depend on a view; drop them first: {error.diag.message_detail}"
                )
                raise Conflict(problem=problem) from error

    def script(self, views: Sequence[TableView]) -> str:
        """Return the statements of `replace`."""
        dropped = "".join(f"drop view {view.address};\n" for view in self.stored())
        return f"begin;\n{dropped}{''.join(map(_create, views))}commit;\n"


def _schema(design: str) -> str:
    return f"{roles.SCHEMA}_{design.replace('-', '_')}"


def _address(view: TableView) -> str:
    return f"{_schema(view.design)}.{view.name}"


def _stored(connection: PostgresConnection) -> list[StoredView]:
    found = {(address, mark) for address, mark in connection.execute(_STORED).fetchall()}
    return sorted(
        StoredView(view.design, view.name, _address(view))
        for view in design_views.read(__package__)
        if (_address(view), _MARK + view.design) in found
    )


def _replace(connection: PostgresConnection, views: Sequence[TableView]) -> None:
    stored = _stored(connection)
    for former in stored:
        connection.execute(f"drop view {former.address}".encode())
    for view in views:
        _check_name(connection, view)
        for statement in citus.split(_create(view)):
            if statement:
                connection.execute(statement.encode())
    for schema in {_schema(former.design) for former in stored}:
        # Whatever else is in the schema, new views included, keeps it.
        with suppress(errors.DependentObjectsStillExist), connection.transaction():
            connection.execute(f"drop schema {schema}".encode())


def _create(view: TableView) -> str:
    return _CREATE.format(
        schema=_schema(view.design),
        name=view.name,
        query=view.query.replace("memorist.", f"{quoted(roles.SCHEMA)}."),
        mark=Literal(_MARK + view.design).as_string(),
        role=quoted(roles.ROLE),
    )


def _check_name(connection: PostgresConnection, view: TableView) -> None:
    """Raise `Conflict` if something that memorist did not create has the name of a view."""
    address = _address(view)
    if connection.execute("select to_regclass(%s)", (address,)).fetchone() != (None,):
        problem = f"{address} exists already, and memorist did not create it: rename it first"
        raise Conflict(problem=problem)

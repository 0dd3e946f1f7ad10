"""Rewrite the tables, so that no deleted row stays in the data files of PostgreSQL.

A deleted row stays in its file, and its words in the indexes, until the server overwrites them. `vacuum
full` copies the rows that remain into new files and deletes the old ones. It keeps a deleted row that
an open transaction can still see, so this module waits for the transactions that began earlier.
"""

from __future__ import annotations

import random
import time
from contextlib import suppress

import psycopg
from psycopg import errors
from psycopg.sql import SQL, Composable, Identifier

from memorist.base.errors import Busy, SettingsError
from memorist.storage.database import Progress
from memorist.storage.postgres.roles import SCHEMA

WAIT_SECONDS = 120.0
"""The longest wait for transactions that use a table, or can still see deleted rows."""
_STATEMENTS = "PostgreSQL's own log, if it records statements with their values"
REMNANTS = (
    "deleted rows and the planner's statistics in PostgreSQL's data files, until the server overwrites "
    "them; `memorist erase --compact` rewrites the tables",
    "PostgreSQL's write-ahead log and its archives, until they are recycled or expire",
    _STATEMENTS,
)
_STATISTICS = (
    "the planner's statistics (pg_statistic), until PostgreSQL overwrites them; "
    "`memorist erase --compact` as a superuser removes them"
)
_OF_SCHEMA = "pg_class c where c.relnamespace = to_regnamespace(%s) and c.relkind = 'r'"
_TABLES = f"select c.relname from {_OF_SCHEMA} order by pg_total_relation_size(c.oid), 1"
_SIZES = f"""
    select count(*), pg_size_pretty(coalesce(sum(pg_total_relation_size(c.oid)), 0)),
           pg_size_pretty(coalesce(max(pg_total_relation_size(c.oid)), 0))
    from {_OF_SCHEMA}"""
# The same condition as that of `vacuum`.
_OF_OTHERS = f"""
    select pg_get_userbyid(c.relowner), current_user from {_OF_SCHEMA}
    and not pg_has_role(c.relowner, 'usage') and not (
        select pg_has_role(datdba, 'usage') from pg_database where datname = current_database())"""
_NEXT_TRANSACTION = "select pg_snapshot_xmax(pg_current_snapshot())::xid::text"
# A rewrite drops the rows that were deleted before the oldest transaction that is still visible to
# any other, and stores that transaction as the table's oldest one.
_IS_REWRITTEN = """
    select age(relfrozenxid) <= age(cast(%s as xid)) from pg_class where oid = to_regclass(%s)"""
_IS_SUPERUSER = "select rolsuper from pg_roles where rolname = current_user"
# `analyze` keeps the statistics of a table that has become empty.
_EMPTY_TABLES_STATISTICS = f"""
    with empty as (select c.oid from {_OF_SCHEMA} and c.reltuples = 0)
    delete from pg_catalog.pg_statistic where starelid in (
        select oid from empty
        union all select indexrelid from pg_index where indrelid in (select oid from empty))"""
_LOG = """
    select current_setting('max_wal_size'), current_setting('archive_mode'),
           (select string_agg(slot_name, ', ' order by slot_name) from pg_replication_slots)"""

Connection = psycopg.Connection[tuple[object, ...]]


def plan(connection: Connection) -> str:
    """Return what `rewrite` will do; raise `SettingsError` if this role may not do it."""
    if row := connection.execute(_OF_OTHERS, (SCHEMA,)).fetchone():
        owner, role = row
        raise SettingsError(
            where="owner_database",
            problem=f"must connect as the role that owns the tables, {owner}, to rewrite them; "
            f"{role} may not. Nothing was erased",
        )
    if connection.execute("select pg_backend_pid()").fetchone() != (connection.info.backend_pid,):
        # Settings of the connection would stay with the pooler, for others.
        raise SettingsError(
            where="owner_database",
            problem="must be the address of the server and not of a pooler, to rewrite the tables. "
            "Nothing was erased",
        )
    count, size, largest = connection.execute(_SIZES, (SCHEMA,)).fetchone() or (0, "", "")
    return (
        f"Then it rewrites the {count} tables of the database ({size}), one after the other. While a table is "
        f"rewritten, all calls of all tenants that use it wait, and fail after 15 s. The largest one has "
        f"{largest}, and the disk needs as much free space."
    )


def rewrite(connection: Connection, progress: Progress) -> tuple[str, ...]:
    """Rewrite all tables with their indexes and statistics; return where deleted words remain."""
    connection.execute("set lock_timeout = '200ms'; set statement_timeout = 0")
    mark = _next_transaction(connection)
    # The smallest one first: it shows whether a transaction can still see deleted rows.
    tables = [str(name) for (name,) in connection.execute(_TABLES, (SCHEMA,)).fetchall()]
    for number, table in enumerate(tables):
        progress(number, len(tables))
        _rewrite(connection, Identifier(SCHEMA, table), mark)
    progress(len(tables), len(tables))
    has_statistics = connection.execute(_IS_SUPERUSER).fetchone() != (True,)
    if not has_statistics:
        connection.execute(_EMPTY_TABLES_STATISTICS, (SCHEMA,))
        statistics = Identifier("pg_catalog", "pg_statistic")
        _rewrite(connection, statistics, _next_transaction(connection))
    with suppress(errors.InsufficientPrivilege):  # the server does it after checkpoint_timeout
        connection.execute("checkpoint")
    remnants = (*_remnants_of_log(connection), _STATEMENTS)
    return (*remnants, _STATISTICS) if has_statistics else remnants


def _next_transaction(connection: Connection) -> object:
    (mark,) = connection.execute(_NEXT_TRANSACTION).fetchone() or (None,)
    return mark


def _rewrite(connection: Connection, table: Composable, mark: object) -> None:
    """Rewrite a table without the rows that were deleted before the transaction `mark`.

    It waits for a lock only for a moment, because all others queue behind it, and tries again.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    name = table.as_string()
    while True:
        try:
            connection.execute(SQL("vacuum (full, analyze) {}").format(table))
            if connection.execute(_IS_REWRITTEN, (mark, name)).fetchone() == (True,):
                return
            problem = "can still see deleted rows; end it, or drop the replication slot that it belongs to"
        except (errors.LockNotAvailable, errors.DeadlockDetected):
            problem = f"uses the table {name}"
        if time.monotonic() > deadline:
            raise Busy(
                problem=f"not all tables were rewritten, because a transaction {problem} "
                "(see pg_stat_activity, pg_prepared_xacts and pg_replication_slots)"
            )
        time.sleep(random.uniform(0.2, 0.4))


def _remnants_of_log(connection: Connection) -> tuple[str, str]:
    """Return what remains of the write-ahead log, and until when."""
    size, archive_mode, slots = connection.execute(_LOG).fetchone() or ("", "", None)
    held = f"; the replication slots {slots} may hold more" if slots else ""
    return (
        "PostgreSQL's write-ahead log, until the server overwrites its files "
        f"(max_wal_size is {size}{held})",
        f"archives of the write-ahead log, until you remove them (archive_mode is {archive_mode})",
    )

"""Who may touch what in PostgreSQL: the owner that migrates, the role that works, and row-level security over every table.

After each migration every table that has a tenant gets forced row-level security, so that a new table cannot be forgotten:
without a tenant in the transaction there are no rows, and with one there are only its own.
"""

from __future__ import annotations

from typing import Any, LiteralString

import psycopg
from psycopg import errors
from psycopg.sql import SQL, Identifier

from retain.errors import SettingsError
from retain.settings import Settings
from retain.storage.database import Finding, Step

_MINE: LiteralString = "tenant = nullif(current_setting('retain.tenant', true), '')"
_POLICY = SQL(
    "alter table {table} enable row level security; alter table {table} force row level security;"
    "drop policy if exists tenant on {table};"
    "create policy tenant on {table} using ({using}) with check ({mine})"
)
_TABLES = """
    select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = %s and c.relkind in ('r', 'p') and exists (
        select 1 from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant' and not a.attisdropped)
    order by c.relname"""

Connection = psycopg.Connection[tuple[Any, ...]]


def quoted(name: str) -> str:
    """An identifier as it is written in SQL."""
    return Identifier(name).as_string()


def version(connection: Connection, schema: str) -> int:
    """The newest migration that was applied, 0 for none."""
    table = Identifier(schema, "retain_schema")
    if connection.execute("select to_regclass(%s)", (table.as_string(),)).fetchone() == (None,):
        return 0
    row = connection.execute(SQL("select coalesce(max(version), 0) from {}").format(table)).fetchone()
    return int(row[0]) if row else 0


def apply(connection: Connection, step: Step, script: str, settings: Settings) -> bool:
    """Run one step inside the open transaction, which holds the migration lock; False if it is not its turn."""
    schema = Identifier(settings.postgres_schema)
    connection.execute("set local lock_timeout = '2s'")
    if version(connection, settings.postgres_schema) != (step.number - 1 if step.up else step.number):
        return False
    if step.number == 1 and step.up:
        _make_role(connection, settings.postgres_role)
        connection.execute(SQL("create schema if not exists {}").format(schema))
    connection.execute(SQL("set local search_path = {}, public").format(schema))
    connection.execute(
        "create table if not exists retain_schema (version bigint primary key, name text not null, applied_at bigint)"
    )
    connection.execute(script)
    if step.up:
        record = "insert into retain_schema values (%s, %s, (extract(epoch from clock_timestamp()) * 1000000)::bigint)"
        connection.execute(record, (step.number, step.name))
        _protect(connection, settings)
    else:
        connection.execute("delete from retain_schema where version = %s", (step.number,))
    return True


def _make_role(connection: Connection, role: str) -> None:
    """The role that transactions take on; it can log in nowhere and owns nothing."""
    if not role:
        return
    name = Identifier(role)
    try:
        with connection.transaction():
            if connection.execute("select 1 from pg_roles where rolname = %s", (role,)).fetchone() is None:
                connection.execute(SQL("create role {} nologin").format(name))
    except (errors.DuplicateObject, errors.UniqueViolation):
        pass  # another database of this server has just made it
    except errors.InsufficientPrivilege as error:
        problem = (
            f"the owner may not create the role {role}: let an administrator run `create role {role} nologin; "
            f"grant {role} to CURRENT_USER_OF_RETAIN`, or set postgres_role to '' to work as the connecting role"
        )
        raise SettingsError(where="postgres_role", problem=problem) from error
    with connection.transaction():
        member = connection.execute("select pg_has_role(current_user, %s, 'member')", (role,)).fetchone()
        if member == (False,):
            connection.execute(SQL("grant {} to current_user").format(name))


def _protect(connection: Connection, settings: Settings) -> None:
    everything = settings.postgres_schema
    mine = SQL(_MINE)
    for (table,) in connection.execute(_TABLES, (everything,)).fetchall():
        using = SQL("{} or current_setting('retain.tenant', true) = '*'").format(mine) if table == "tenants" else mine
        connection.execute(_POLICY.format(table=Identifier(everything, table), using=using, mine=mine))
    if settings.postgres_role:
        grants = SQL(
            "grant usage on schema {schema} to {role};"
            "grant select, insert, update, delete on all tables in schema {schema} to {role};"
            "revoke insert, update, delete on {version} from {role}"
        )
        connection.execute(
            grants.format(
                schema=Identifier(everything),
                role=Identifier(settings.postgres_role),
                version=Identifier(everything, "retain_schema"),
            )
        )


def findings(connection: Connection, settings: Settings) -> list[Finding]:
    """What is wrong with isolation, indexes and durability on this server."""
    schema, role = settings.postgres_schema, settings.postgres_role

    def names(sql: LiteralString, values: tuple[Any, ...]) -> str:
        return ", ".join(str(row[0]) for row in connection.execute(sql, values).fetchall())

    working = connection.execute("select coalesce(nullif(%s, ''), current_user)", (role,)).fetchone() or (role,)
    return [
        Finding(
            "row-level security is forced on every table",
            names(
                "select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace"
                " join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant'"
                " where n.nspname = %s and c.relkind in ('r', 'p') and not (c.relrowsecurity and c.relforcerowsecurity"
                " and exists (select 1 from pg_policy p where p.polrelid = c.oid and p.polqual is not null"
                " and p.polwithcheck is not null))",
                (schema,),
            ),
        ),
        Finding(
            "the working role cannot go round it",
            names(
                "select 'the role ' || rolname || ' is a superuser or bypasses row-level security' from pg_roles"
                " where rolname = %s and (rolsuper or rolbypassrls)",
                working,
            ),
        ),
        Finding(
            "the working role owns no table",
            names(
                "select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace"
                " join pg_roles r on r.oid = c.relowner where n.nspname = %s and c.relkind in ('r', 'p') and r.rolname = %s",
                (schema, *working),
            ),
        ),
        Finding(
            "no view or function goes round it",
            names(
                "select p.proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace"
                " where n.nspname = %s and p.prosecdef union all"
                " select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = %s and"
                " c.relkind = 'v' and not coalesce(c.reloptions::text like '%%security_invoker=true%%', false)",
                (schema, schema),
            ),
        ),
        Finding(
            "every index is valid",
            names(
                "select c.relname from pg_index i join pg_class c on c.oid = i.indexrelid"
                " join pg_namespace n on n.oid = c.relnamespace"
                " where n.nspname = %s and not (i.indisvalid and i.indisready)",
                (schema,),
            ),
        ),
        Finding(
            "a commit waits for the disk",
            names(
                "select name || ' is ' || setting from pg_settings where setting = 'off'"
                " and name in ('fsync', 'synchronous_commit', 'full_page_writes')",
                (),
            ),
        ),
    ]

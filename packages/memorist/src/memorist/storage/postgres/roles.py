"""The schema in PostgreSQL and its roles.

The owner of the tables migrates. The application's role runs all transactions; it owns nothing, so
it can neither change the schema nor disable row-level security.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.sql import Identifier

from memorist.base.errors import SettingsError

SCHEMA = "memorist"
"""The schema that holds the tables."""
ROLE = "memorist_app"
"""The role of all transactions."""
CREATE_ROLE = """do $$
declare usable boolean;
begin
    if not exists (select 1 from pg_roles where rolname = {role_text}) then
        create role {role} nologin;
    end if;
    if current_setting('server_version_num')::int >= 160000 then
        usable := pg_has_role(current_user, {role_text}, 'set');
    else
        usable := pg_has_role(current_user, {role_text}, 'member');
    end if;
    if not usable then
        grant {role} to current_user;
    end if;
exception
    when duplicate_object or unique_violation then null;  -- another database of this server has just made it
    when insufficient_privilege then
        raise exception using errcode = 'insufficient_privilege', message = 'the owner may not create or use the role '
            || {role_text} || ': ask an administrator to run `create role ' || {role_text} || ' nologin` and `grant '
            || {role_text} || ' to` the role that memorist connects as';
end $$;
"""
GRANT = """grant usage on schema {schema} to {role};
grant select, insert, update, delete on all tables in schema {schema} to {role};
revoke insert, update, delete on memorist_schema from {role};
revoke update, delete on audit from {role};
grant update (subject) on audit to {role};  -- an erasure replaces subjects by their hashes"""

Connection = psycopg.Connection[tuple[Any, ...]]


def quoted(name: str) -> str:
    """Quote an identifier for SQL."""
    return Identifier(name).as_string()


def is_role_error(error: psycopg.Error) -> bool:
    """Return True if the application's role could not be created or used."""
    return (error.diag.message_primary or "").startswith("the owner may not")


def check_can_dump(connection: Connection) -> None:
    """Raise if the role cannot dump all tenants: forced row-level security binds the owner too."""
    sql = "select rolname, rolsuper or rolbypassrls from pg_roles where rolname = current_user"
    name, free = connection.execute(sql).fetchone() or ("", False)
    if not free:
        problem = (
            "must name a role that row-level security does not bind, for a backup: a superuser, or one after "
            f"`alter role {name} bypassrls` (`memorist export` needs no such role)"
        )
        raise SettingsError(where="owner_database", problem=problem)

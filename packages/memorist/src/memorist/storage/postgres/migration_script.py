"""The script of one migration for PostgreSQL, and the version of a database.

Each migration ends by forcing row-level security on every table that has a tenant, and by granting
the application's role its rights, so that no new table is forgotten.
"""

from __future__ import annotations

from psycopg.sql import SQL, Identifier, Literal

from memorist.base.errors import OldDatabase
from memorist.storage import former_name
from memorist.storage.database import Step
from memorist.storage.postgres import roles, row_security

_SCRIPT = """-- {number:04} {name}
{role_script}create schema if not exists {schema};
set local search_path = {schema}, public;
create table if not exists memorist_schema (version bigint primary key, name text not null, applied_at bigint);
{steps}
{record};
"""
_NOW = "(extract(epoch from clock_timestamp()) * 1000000)::bigint"


def version(connection: roles.Connection) -> int:
    """Return the newest migration that was applied, 0 for none.

    Raises `OldDatabase` if there is only a schema of retain.
    """
    table = Identifier(roles.SCHEMA, "memorist_schema")
    if connection.execute("select to_regclass(%s)", (table.as_string(),)).fetchone() == (None,):
        if connection.execute(former_name.HAS_SCHEMA).fetchone():
            raise OldDatabase(name=f"the database {connection.info.dbname}")
        return 0
    row = connection.execute(
        SQL("select coalesce(max(version), 0) from {}").format(table)
    ).fetchone()
    return int(row[0]) if row else 0


def script(step: Step, steps: str) -> str:
    """Return all statements of one migration, with row-level security and grants."""
    names = {
        "schema": roles.quoted(roles.SCHEMA),
        "schema_text": Literal(roles.SCHEMA).as_string(),
        "role": roles.quoted(roles.ROLE),
        "role_text": Literal(roles.ROLE).as_string(),
    }
    names["role_script"] = roles.CREATE_ROLE.format(**names) if step.number == 1 and step.up else ""
    parts = [steps.strip()]
    if touched := sorted(set(row_security.TOUCHED.findall(steps))):
        parts.insert(0, row_security.LIFT.format(touched=Literal(touched).as_string(), **names))
    has_tables = step.up or step.number > 1  # a step down can create tables again
    if has_tables:
        parts.append(row_security.PROTECT.format(own_rows=row_security.OWN_ROWS, **names))
    if has_tables:
        parts.append(roles.GRANT.format(**names))
    record = f"insert into memorist_schema values ({step.number}, '{step.name}', {_NOW})"
    if not step.up:
        record = f"delete from memorist_schema where version = {step.number}"
    return _SCRIPT.format(
        number=step.number, name=step.name, steps="\n".join(parts), record=record, **names
    )

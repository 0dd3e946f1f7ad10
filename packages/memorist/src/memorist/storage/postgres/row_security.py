"""Row-level security in PostgreSQL: its policies, and the checks that they hold.

A transaction sees only its tenant's rows, and without a tenant its statements fail: an empty result
would look like an answer. This applies to the owner of the tables, too, so a migration that rewrites
rows lifts the security of the tables it names for its own transaction.
"""

from __future__ import annotations

import re

from memorist.storage.database import Finding
from memorist.storage.postgres.roles import ROLE, SCHEMA, Connection

LIFT = """set local row_security = off;  -- rows that security hides from the owner are an error, never left out
do $$
declare table_name text;
begin
    for table_name in
        select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = {schema_text} and c.relforcerowsecurity and c.relname = any({touched}::text[]) order by 1
    loop
        execute format('alter table %1$I.%2$I no force row level security', {schema_text}, table_name);
    end loop;
end $$;"""
TOUCHED = re.compile(
    r"\b(?:update|from|into|join|using)\s+([a-z_]+)"
)  # tables whose rows a step reads or writes
NO_TENANT = "memorist.tenant is not set"
"""The name of a setting that does not exist: reading it is an error with this name in it."""
# The condition is one call: Citus evaluates every call of an expression with columns by itself.
OWN_ROWS = f"""tenant = current_setting(
    case when current_setting('memorist.tenant', true) <> '' then 'memorist.tenant' else '{NO_TENANT}' end)"""
PROTECT = """do $$
declare
    table_name text;
    own_rows text := $q${own_rows}$q$;
    visible_rows text;
begin
    for table_name in
        select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
        join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant'
        where n.nspname = {schema_text} and c.relkind in ('r', 'p')
        and not (c.relrowsecurity and c.relforcerowsecurity and exists (  -- a table that has it must not be locked again
            select 1 from pg_policy p where p.polrelid = c.oid and p.polname = 'tenant')) order by 1
    loop
        visible_rows := own_rows;
        if table_name in ('tenants', 'search_behind', 'keyed') then  -- which tenants there are, are behind, or have keys
            visible_rows := own_rows || $q$ or current_setting('memorist.tenant', true) = '*'$q$;
        end if;
        execute format('alter table %1$I.%2$I enable row level security', {schema_text}, table_name);
        execute format('alter table %1$I.%2$I force row level security', {schema_text}, table_name);
        execute format('drop policy if exists tenant on %1$I.%2$I', {schema_text}, table_name);
        execute format('create policy tenant on %1$I.%2$I using (%3$s) with check (%4$s)',
            {schema_text}, table_name, visible_rows, own_rows);
    end loop;
end $$;"""
_TABLES = "pg_class c join pg_namespace n on n.oid = c.relnamespace and n.nspname = %(schema)s and c.relkind in ('r', 'p')"
# The policies' conditions, as the server writes them back.
_STORED_OWN_ROWS = f"""$q$(tenant = current_setting(
CASE
    WHEN (current_setting('memorist.tenant'::text, true) <> ''::text) THEN 'memorist.tenant'::text
    ELSE '{NO_TENANT}'::text
END))$q$"""
_STORED_OWN_OR_ALL_ROWS = f"'(' || {_STORED_OWN_ROWS} || $q$ OR (current_setting('memorist.tenant'::text, true) = '*'::text))$q$"
_CHECKS = {
    "row-level security is forced on every table": f"""
        select c.relname from {_TABLES} join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant'
        where not (c.relrowsecurity and c.relforcerowsecurity)
        or (select count(*) from pg_policy p where p.polrelid = c.oid) <> 1
        or not exists (
            select 1 from pg_policy p
            where p.polrelid = c.oid and p.polpermissive and p.polcmd = '*' and p.polroles = '{{0}}'
            and pg_get_expr(p.polqual, c.oid)
                = case when c.relname in ('tenants', 'search_behind', 'keyed') then {_STORED_OWN_OR_ALL_ROWS} else {_STORED_OWN_ROWS} end
            and pg_get_expr(p.polwithcheck, c.oid) = {_STORED_OWN_ROWS})""",
    "the working role cannot go round it": """
        select 'the role ' || rolname || ' is a superuser or bypasses row-level security' from pg_roles
        where rolname = %(role)s and (rolsuper or rolbypassrls)""",
    "the working role owns no table": f"""
        select c.relname from {_TABLES} join pg_roles r on r.oid = c.relowner
        where r.rolname = %(role)s""",
    "the audit log can only be added to": """
        select 'the role ' || r.rolname || ' may change it' from pg_roles r
        where r.rolname = %(role)s and to_regclass('audit') is not null
        and (has_table_privilege(r.oid, to_regclass('audit'), 'update')
             or has_table_privilege(r.oid, to_regclass('audit'), 'delete'))""",
    "no view or function goes round it": """
        select p.proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace
        where n.nspname = %(schema)s and p.prosecdef
        union all
        select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where (n.nspname = %(schema)s or starts_with(n.nspname, %(schema)s || '_')) and (c.relkind = 'm' or c.relkind = 'v'
        and not coalesce(c.reloptions::text ~ 'security_invoker=(true|on|1)', false))""",
    "every index is valid": """
        select c.relname from pg_index i join pg_class c on c.oid = i.indexrelid
        join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = %(schema)s and not (i.indisvalid and i.indisready)""",
    "a commit waits for the disk": """
        select name || ' is ' || setting from pg_settings
        where setting = 'off' and name in ('fsync', 'synchronous_commit', 'full_page_writes')""",
}


def findings(connection: Connection) -> list[Finding]:
    """Check isolation, indexes and durability on this server."""
    parameters = {"schema": SCHEMA, "role": ROLE}
    rows_by_check = {
        check: connection.execute(sql, parameters).fetchall() for check, sql in _CHECKS.items()
    }
    return [
        Finding(check, ", ".join(str(row[0]) for row in rows))
        for check, rows in rows_by_check.items()
    ]

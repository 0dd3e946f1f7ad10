"""Citus: PostgreSQL spread over several servers, with the tables distributed by tenant.

All rows of a tenant are on one worker. The coordinator sends it the statements of a transaction, as
the application's role, and what was set by `set local`. The worker enforces row-level security.
"""

from __future__ import annotations

import re
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier

from memorist.base.errors import StorageError
from memorist.storage.database import Finding

CANNOT_REWRITE = (
    "is not available on a Citus cluster. Erase without it; then, on the coordinator and as the owner of the "
    "tables, run `vacuum (full, analyze) memorist.messages`, and the same for each other table of the schema "
    "memorist: Citus sends it to every shard"
)
SETTINGS = {"citus.propagate_set_commands": "local"}
"""Settings of every transaction: without it, `set local` would stay on the coordinator."""
# A table comes after those that it refers to.
_LOCAL_TABLES = """
    select c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant'
    where c.relnamespace = to_regnamespace(%s) and c.relkind = 'r'
    and not exists (select 1 from pg_dist_partition p where p.logicalrelid = c.oid)
    order by c.relname <> 'tenants', c.oid"""
_LAYOUT = """
    select count(*), (select count(*) from pg_dist_node where isactive and shouldhaveshards and noderole = 'primary')
    from pg_dist_partition p join pg_class c on c.oid = p.logicalrelid where c.relnamespace = to_regnamespace(%s)"""
_MISSING = "select 'Citus is not installed' where not exists (select 1 from pg_extension where extname = 'citus')"
_NODE_PROBLEMS = f"""select concat_ws(', ', ({_MISSING}),
    (select 'the role ' || {{role}} || ' cannot log in' where not exists (
        select 1 from pg_roles where rolname = {{role}} and rolcanlogin)),
    (select string_agg(name || ' is off', ', ') from pg_settings
     where setting = 'off' and name in ('fsync', 'synchronous_commit', 'full_page_writes')))"""
_TOKEN = re.compile(
    r"""--[^\n]*                           # a comment
        | '(?:[^']|'')*' | "[^"]*"         # a text or a name
        | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$  # the body of a function
        | ;""",
    re.VERBOSE | re.DOTALL,
)

Connection = psycopg.Connection[tuple[Any, ...]]


def is_installed(connection: Connection) -> bool:
    """Return whether the database has the extension."""
    sql = "select 1 from pg_extension where extname = 'citus'"
    return connection.execute(sql).fetchone() is not None


def split(script: str) -> list[str]:
    """Return the statements of a script: Citus would send the whole script to its workers."""
    statements = []
    start = 0
    for match in _TOKEN.finditer(script):
        if match[0] == ";":
            statements.append(script[start : match.start()].strip())
            start = match.end()
    return [*statements, script[start:].strip()]


def is_distributed(connection: Connection, schema: str) -> bool:
    """Return whether the tables are distributed, as they are after the first migrations."""
    if not is_installed(connection):
        return False
    sql = "select 1 from pg_dist_partition where logicalrelid = to_regclass(%s)"
    tenants = Identifier(schema, "tenants").as_string()
    return connection.execute(sql, (tenants,)).fetchone() is not None


def run_script(connection: Connection, script: str, schema: str, role: str) -> None:
    """Run a migration of distributed tables, and distribute those that it creates."""
    allow_changes(connection)
    for statement in split(script):
        if statement:
            connection.execute(statement)
    distribute(connection, schema, role)


def local_tables(connection: Connection, schema: str) -> list[str]:
    """Return the tables with a tenant that are not distributed."""
    return [table for (table,) in connection.execute(_LOCAL_TABLES, (schema,)).fetchall()]


def is_complete(connection: Connection, schema: str) -> bool:
    """Return whether `distribute` would change nothing."""
    return not local_tables(connection, schema)


def layout(connection: Connection, schema: str) -> str:
    """Return a sentence about the tables that are distributed."""
    count, workers = connection.execute(_LAYOUT, (schema,)).fetchone() or (0, 0)
    return f"{count} tables are distributed by tenant over {workers} workers."


def distribute(connection: Connection, schema: str, role: str) -> None:
    """Distribute the tables with a tenant that are not, and allow the role to log in to the workers."""
    allow_changes(connection)
    _let_log_in(connection, role)
    # Citus reads every table, and an owner who is no superuser may not without a tenant.
    connection.execute("set local citus.propagate_set_commands = 'local'")
    connection.execute("set local memorist.tenant = '*'")
    tables = local_tables(connection, schema)
    filled = [table for table in tables if _distribute_table(connection, schema, table)]
    for table in filled:  # the rows were copied
        connection.execute(
            "select truncate_local_data_after_distributing_table(%s)",
            (Identifier(schema, table).as_string(),),
        )


def allow_changes(connection: Connection) -> None:
    """Prepare this transaction for changes of the schema."""
    # Over one connection to each worker, where a statement sees what the ones before it did.
    connection.execute("set local citus.multi_shard_modify_mode = 'sequential'")
    connection.execute("set local citus.enable_unsafe_triggers = on")


def _let_log_in(connection: Connection, role: str) -> None:
    """Let the application's role log in: the coordinator connects to the workers as it."""
    sql = "select 1 from pg_roles where rolname = %s and not rolcanlogin"
    if connection.execute(sql, (role,)).fetchone():
        connection.execute(SQL("alter role {} login").format(Identifier(role)))


def _distribute_table(connection: Connection, schema: str, table: str) -> bool:
    """Distribute a table with its rows; return whether it has any."""
    name = Identifier(schema, table)
    size = connection.execute("select pg_relation_size(%s)", (name.as_string(),)).fetchone()
    has_rows = size != (0,)
    if has_rows:  # they are copied by a command that row-level security forbids
        connection.execute(SQL("alter table {} no force row level security").format(name))
    model = "default" if table == "tenants" else Identifier(schema, "tenants").as_string()
    connection.execute(
        "select create_distributed_table(%s, 'tenant', colocate_with => %s)",
        (name.as_string(), model),
    )
    if has_rows:
        connection.execute(SQL("alter table {} force row level security").format(name))
    return has_rows


def check_nodes(connection: Connection) -> None:
    """Raise `StorageError` naming each reachable node without the citus extension.

    Citus's own error does not name it.
    """
    nodes = _run_on_nodes(connection, _MISSING)
    if problems := [f"{node}: {result}" for node, success, result in nodes if success and result]:
        raise StorageError(problem="; ".join(problems))


def _run_on_nodes(connection: Connection, query: str) -> list[tuple[Any, ...]]:
    """Return the address of every node, whether the query succeeded, and its result or error."""
    return connection.execute(
        """select n.nodename || ':' || n.nodeport, r.success, r.result
           from run_command_on_all_nodes(%s) r join pg_dist_node n using (nodeid) order by 1""",
        (query,),
    ).fetchall()


def findings(connection: Connection, schema: str, role: str) -> list[Finding]:
    """Check that every node can do its part, and that every table is distributed."""
    nodes = _run_on_nodes(connection, SQL(_NODE_PROBLEMS).format(role=role).as_string())
    problems = [f"{node}: {result}" for node, success, result in nodes if not success or result]
    return [
        Finding("every node of the cluster is ready", "; ".join(problems)),
        Finding(
            "every table is distributed by tenant (`memorist migrate up` does it)",
            ", ".join(local_tables(connection, schema)),
        ),
    ]

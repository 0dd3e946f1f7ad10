"""Privileges in Oracle: the owner that migrates, the working user, and policies for tenants.

With `owner_database`, the working user owns nothing and has only the grants below. A policy of
Oracle's Virtual Private Database adds the tenant of the transaction to every statement of every
table. It reads the tenant from a context that only the package `memorist_context` can set. Where the
owner may not use `dbms_rls`, or the edition lacks it, there are no policies, and `memorist doctor` and
`memorist verify` say so.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from typing import Any

import oracledb

from memorist.base.errors import SettingsError
from memorist.storage.database import Finding

log = logging.getLogger("memorist.storage")
ENTER = "begin memorist_context.enter(:tenant); end;"
"""Sets the tenant of the session, until the next transaction sets another."""
MIGRATE = "begin memorist_context.migrate; end;"
"""Lets the owner see the rows of all tenants, in this session."""
APPEND_ONLY = {"audit": 'select, insert, update ("subject")'}
POLICIES = "select count(*) from all_policies where policy_name = 'MEMORIST_TENANT' and object_owner = :owner"
PACKAGE = """create or replace package memorist_context as
    procedure enter(tenant in varchar2);
    procedure migrate;
end;"""
PACKAGE_BODY = """create or replace package body memorist_context as
    procedure enter(tenant in varchar2) is
    begin
        dbms_session.set_context('{context}', 'migrating', 'no');
        dbms_session.set_context('{context}', 'tenant', tenant);
    end;
    procedure migrate is
    begin
        if sys_context('userenv', 'session_user') = '{owner}' then
            dbms_session.set_context('{context}', 'migrating', 'yes');
        end if;
    end;
end;"""
CONTEXT = "create or replace context {context} using {owner}.memorist_context"
# A session without a tenant gets an error, not an empty result. Under the tenant `*`, only the lists of tenants can be read.
CONDITION = """create or replace function memorist_rows(
    schema_name in varchar2, table_name in varchar2) return varchar2 as
begin
    if sys_context('{context}', 'migrating') = 'yes' then
        return null;
    end if;
    if sys_context('{context}', 'tenant') is null then
        raise_application_error(-20001, 'no tenant: call memorist_context.enter first');
    end if;
    if sys_context('{context}', 'tenant') = '*'
        and table_name in ('tenants', 'search_behind', 'keyed') then
        return null;
    end if;
    return '"tenant" = sys_context(''{context}'', ''tenant'', 4000)';
end;"""
ADD_POLICIES = """begin
    for found in (
        select c.table_name from user_tab_columns c join user_tables t on t.table_name = c.table_name
        where c.column_name = 'tenant' and not exists (
            select 1 from user_policies p
            where p.object_name = c.table_name and p.policy_name = 'MEMORIST_TENANT'))
    loop
        dbms_rls.add_policy(
            object_schema => user, object_name => '"' || found.table_name || '"',
            policy_name => 'MEMORIST_TENANT', function_schema => user,
            policy_function => 'MEMORIST_ROWS', update_check => true);
    end loop;
end;"""
NO_RIGHT = {201, 439, 1031, 6550, 6553, 24344}
"""The owner may not use `dbms_rls` or create contexts, or the edition has no policies."""
GRANTS_NEEDED = "`grant execute on dbms_rls to {owner}` and `grant create any context to {owner}`"


def identifier(user: str) -> str:
    """Return the name of a user as Oracle stores it, in upper case."""
    if not re.fullmatch(r"[A-Za-z]\w*", user):
        raise SettingsError(
            where="database", problem=f"names the user {user!r}; use letters, digits and _"
        )
    return user.upper()


def grants(tables: Sequence[str], worker: str) -> Iterator[str]:
    """Yield the statements that give the working user its rights."""
    name = identifier(worker)
    for table in tables:
        rights = APPEND_ONLY.get(table, "select, insert, update, delete")
        yield f'grant {rights} on "{table}" to {name}'
    for table in ("memorist_schema", "memorist_locks"):
        yield f'grant select on "{table}" to {name}'


def policies(owner: str, worker: str) -> Iterator[str]:
    """Yield the statements that make the policies; each can be repeated."""
    name = identifier(owner)
    # Contexts have no schema: the owner's name separates those of several owners in one database.
    context = f"MEMORIST_{name}"
    for statement in (PACKAGE, PACKAGE_BODY, CONTEXT, CONDITION):
        yield statement.replace("{owner}", name).replace("{context}", context)
    yield f"grant execute on memorist_context to {identifier(worker)}"
    yield ADD_POLICIES


def protect(cursor: Any, tables: Sequence[str], owner: str, worker: str) -> None:
    """Grant the working user its rights, and add the policies where the owner may."""
    for statement in grants(tables, worker):
        cursor.execute(statement)
    try:
        for statement in policies(owner, worker):
            cursor.execute(statement)
            if cursor.warning:  # the driver raises no error for PL/SQL that does not compile
                log.warning(
                    "the rows of tenants are not separated by policies (%s): "
                    "`select * from user_errors`, as the owner, says why",
                    cursor.warning,
                )
                return
    except oracledb.DatabaseError as error:
        if getattr(error.args[0], "code", 0) not in NO_RIGHT:
            raise
        log.warning(
            "the rows of tenants are not separated by policies (%s): %s",
            str(error).partition("\n")[0],
            GRANTS_NEEDED.replace("{owner}", identifier(owner)),
        )


def is_installed(connection: Any, owner: str) -> bool:
    """Return whether policies separate the tenants."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(POLICIES, {"owner": identifier(owner)})
            (count,) = cursor.fetchone()
    except oracledb.DatabaseError as error:
        if getattr(error.args[0], "code", 0) == 942:  # only servers with policies have this view
            return False
        raise
    return bool(count)


def findings(connection: Any, owner: str, tables: Sequence[str]) -> list[Finding]:
    """Check that every table has a policy, and that the working user is bound by it."""
    with connection.cursor() as cursor:
        has_policies = is_installed(connection, owner)
        cursor.execute(
            "select count(*) from session_privs where privilege = 'EXEMPT ACCESS POLICY'"
        )
        (is_exempt,) = cursor.fetchone()
        count = 0
        if has_policies:
            cursor.execute(POLICIES, {"owner": identifier(owner)})
            (count,) = cursor.fetchone()
    missing = f"ask an administrator to run {GRANTS_NEEDED.replace('{owner}', identifier(owner))}"
    return [
        Finding(
            "policies separate the tenants in every table",
            "" if count >= len(tables) else f"{count} of {len(tables)} tables have one; {missing}",
        ),
        Finding(
            "the working user is bound by the policies",
            "it has the privilege EXEMPT ACCESS POLICY" if is_exempt else "",
        ),
    ]

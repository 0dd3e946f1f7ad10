"""Every statement and migration of memorist in Oracle's SQL, executed on H2 in Oracle mode.

H2 checks names, types and syntax. It does not check what Oracle forbids for large texts and indexes,
so tests below check that in the translated text. To read all translations:

    python -m tests.storage.test_oracle_dialect
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import oracledb
import pytest
from sqlglot import exp, parse_one

from memorist.storage.database import UnscopedSql
from memorist_oracle import dialect
from memorist_oracle.dialect import Statement, Translation, translate
from memorist_oracle.migrations import shipped
from testkit.h2 import H2Connection, H2Database
from testkit.statements import statements

VIOLATIONS = {1, 2290, 2291}
"""Errors of a statement that ran, with values that break a constraint."""


def parts(translation: Translation) -> Iterator[Statement]:
    """Yield the statements of a translation."""
    if translation.lock:
        yield translation.lock
    if translation.update:
        yield translation.update
    if translation.existing:
        yield translation.existing
    yield translation.statement


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            "select number, start from audit where tenant = :tenant and who = '' limit :size",
            'SELECT "number", "start" FROM "audit" WHERE "tenant" = :p_tenant AND "who" = CHR(0)'
            " FETCH FIRST :p_size ROWS ONLY",
        ),
        ("select :now, :tenant", 'SELECT :p_now, :p_tenant FROM "DUAL"'),
        (
            "select exists (select 1 from notes where tenant = :tenant), version = 1 from notes",
            'SELECT CASE WHEN EXISTS(SELECT 1 FROM "notes" WHERE "tenant" = :p_tenant) THEN 1 ELSE 0'
            ' END, CASE WHEN "version" = 1 THEN 1 ELSE 0 END FROM "notes"',
        ),
        (
            "select key from state where tenant = :tenant and (area, key) > (:area, :key)",
            'SELECT "key" FROM "state" WHERE "tenant" = :p_tenant AND ("area" > :p_area OR'
            ' ("area" = :p_area AND "key" > :p_key))',
        ),
        (
            "select created_at / 1000 from notes where tenant = :tenant",
            'SELECT TRUNC("created_at" / 1000) FROM "notes" WHERE "tenant" = :p_tenant',
        ),
        (
            "select user_id from notes where tenant = :tenant and text <> '' for update",
            'SELECT "user_id" FROM "notes" WHERE "tenant" = :p_tenant AND'
            ' DBMS_LOB.COMPARE("text", TO_CLOB(CHR(0))) <> 0 FOR UPDATE',
        ),
        (
            "select key from state where tenant = :tenant and area = 'user:' || user_id",
            'SELECT "key" FROM "state" WHERE "tenant" = :p_tenant AND "area" = CASE WHEN NOT "user_id"'
            " IS NULL THEN 'user:' || REPLACE(\"user_id\", CHR(0)) END",
        ),
        (
            "delete from state where tenant = :tenant returning area, value",
            'DELETE FROM "state" WHERE "tenant" = :p_tenant returning "area", "value" into :r_0, :r_1',
        ),
        (
            "with wanted (a, b) as (values (:x, :y), (:z, :tenant)) select a from wanted",
            'WITH "wanted"("a", "b") AS (SELECT * FROM (SELECT :p_x AS "c0", :p_y AS "c1" FROM "DUAL"'
            ' UNION ALL SELECT :p_z AS "c0", :p_tenant AS "c1" FROM "DUAL")) SELECT "a" FROM "wanted"',
        ),
    ],
)
def test_a_statement_is_translated(sql: str, expected: str) -> None:
    assert translate(sql).statement.text == expected


def test_an_insert_or_update_becomes_two_statements() -> None:
    translation = translate(
        """insert into leases (tenant, what, fence, expires_at) values (:tenant, :what, 1, :until)
           on conflict (tenant, what) do update set fence = leases.fence + 1, expires_at = excluded.expires_at
           where leases.expires_at <= :now returning fence"""
    )
    assert translation.update is not None
    assert translation.update.text == (
        'UPDATE "leases" SET "fence" = "leases"."fence" + 1, "expires_at" = :p_until WHERE'
        ' ("leases"."tenant" = :p_tenant AND "leases"."what" = :p_what) AND'
        ' ("leases"."expires_at" <= :p_now) returning "fence" into :r_0'
    )
    assert translation.statement.text == (
        'INSERT INTO "leases" ("tenant", "what", "fence", "expires_at") VALUES'
        ' (:p_tenant, :p_what, 1, :p_until) returning "fence" into :r_0'
    )
    assert translation.lock is not None
    assert translation.lock.text == (
        'SELECT 1 FROM "leases" WHERE "leases"."tenant" = :p_tenant AND "leases"."what" = :p_what'
        " FOR UPDATE"
    )
    assert translation.statement.outputs == ("{int}",)
    assert translation.update.numbers == {"until", "now"}


def test_an_insert_of_selected_rows_becomes_a_merge() -> None:
    translation = translate(
        """insert into due_sessions (tenant, session_id, retry_at)
           select :tenant, id, :at from sessions where tenant = :tenant and id = :id on conflict do nothing"""
    )
    assert translation.statement.text == (
        'MERGE INTO "due_sessions" USING (SELECT :p_tenant AS "tenant", "id" AS "session_id",'
        ' :p_at AS "retry_at" FROM "sessions" WHERE "tenant" = :p_tenant AND "id" = :p_id) "excluded"'
        ' ON ("due_sessions"."tenant" = "excluded"."tenant" AND "due_sessions"."session_id" ='
        ' "excluded"."session_id") WHEN NOT MATCHED THEN INSERT ("tenant", "session_id", "retry_at")'
        ' VALUES ("excluded"."tenant", "excluded"."session_id", "excluded"."retry_at")'
    )


def test_a_statement_without_the_tenant_is_rejected() -> None:
    with pytest.raises(UnscopedSql):
        translate("select name from agents")


MAX_INDEX_BYTES = 6398
"""The columns of an index must fit into a block of 8 KiB together."""


def test_every_index_fits_into_a_block() -> None:
    """ORA-01450 and ORA-01408, which H2 does not know."""
    schema = dialect.schema()
    sizes = {
        place: int(column.oracle_type.partition("(")[2].split(" ")[0].rstrip(")") or 0)
        for place, column in schema.columns.items()
        if column.oracle_type.startswith("varchar2")
    }
    places = [(table, *columns) for table, columns in schema.keys.items()]
    places += [place for name, place in schema.indexes.items() if name not in schema.skipped]
    for table, *columns in places:
        size = sum(sizes.get((table, column), 22) + 2 for column in columns)
        assert size < MAX_INDEX_BYTES, (table, columns)
    assert len(places) == len(set(places))


@pytest.mark.slow
def test_no_large_text_is_sorted_or_grouped() -> None:
    """ORA-00932, which H2 does not know."""
    columns = dialect.schema().columns
    large = {name for (_, name), column in columns.items() if column.oracle_type == "clob"}
    short = {name for (_, name), column in columns.items() if column.oracle_type != "clob"}
    problems = []
    for sql in statements():
        for part in parts(translate(sql, is_scoped=":tenant" in sql)):
            tree = parse_one(part.text.partition(" returning ")[0], read="oracle")
            for node in tree.find_all(exp.Order, exp.Group, exp.Distinct, exp.Max, exp.Min):
                names = {
                    column.name
                    for column in node.find_all(exp.Column)
                    if not column.find_ancestor(exp.Anonymous)  # it is compared
                }
                if isinstance(node, exp.Distinct) and isinstance(node.parent, exp.Select):
                    names = {column.alias_or_name for column in node.parent.selects}
                problems += [f"{name}: {part.text}" for name in names & large - short]
    assert problems == []


# -- on H2 -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def connection() -> Iterator[H2Connection]:
    database = H2Database()
    with database.connect() as connection:
        cursor = connection.cursor()
        for migration in shipped():
            for statement in dialect.migration_statements(migration.up):
                cursor.execute(statement)
        yield connection
    database.close()


def run(connection: H2Connection, part: Statement) -> None:
    """Run a statement with some value for each parameter; violated constraints are no errors."""
    cursor = connection.cursor()
    values: dict[str, Any] = {
        dialect.PREFIX + name: 1 if name in part.numbers else "x" for name in part.parameters
    }
    values |= {f"{dialect.OUTPUT}{place}": cursor.var() for place in range(len(part.outputs))}
    try:
        cursor.execute(part.text, values)
    except oracledb.IntegrityError as error:
        if error.args[0].code not in VIOLATIONS:
            raise
    finally:
        connection.rollback()


@pytest.mark.slow
def test_every_statement_runs(connection: H2Connection) -> None:
    failed = []
    collected = statements()
    for sql, where in collected.items():
        for part in parts(translate(sql, is_scoped=":tenant" in sql)):
            try:
                run(connection, part)
            except oracledb.Error as error:
                failed.append(f"{where}: {part.text}\n{error}")
    assert failed == []
    assert len(collected) > 700


@pytest.mark.slow
def test_migrations_can_be_applied_reverted_and_applied() -> None:
    database = H2Database()
    with database.connect() as connection:
        cursor = connection.cursor()
        tables = "select table_name from information_schema.tables where table_schema = 'PUBLIC'"
        created = []
        for _ in range(2):
            for migration in shipped():
                for statement in dialect.migration_statements(migration.up):
                    cursor.execute(statement)
            cursor.execute(tables)
            created.append(sorted(name for (name,) in cursor.fetchall()))
            for migration in reversed(shipped()):
                for statement in dialect.migration_statements(migration.down):
                    cursor.execute(statement)
            cursor.execute(tables)
            assert cursor.fetchall() == []
        assert created[0] == created[1] == sorted(dialect.schema().keys)
    database.close()


def main() -> None:
    """Print every statement and its translation."""
    for sql, where in statements().items():
        print(f"-- {where}\n{sql.strip()}")
        for part in parts(translate(sql, is_scoped=":tenant" in sql)):
            print(f"--> {part.text};")
        print()


if __name__ == "__main__":
    main()

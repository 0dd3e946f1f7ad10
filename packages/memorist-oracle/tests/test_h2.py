"""The stand-in for an Oracle server: H2 behind the interface of python-oracledb."""

from __future__ import annotations

from collections.abc import Iterator

import oracledb
import pytest

from testkit.h2 import H2Connection, H2Database

pytestmark = pytest.mark.slow  # `make test-all` installs H2


@pytest.fixture
def database() -> Iterator[H2Database]:
    database = H2Database()
    with database.connect() as connection:
        cursor = connection.cursor()
        cursor.execute(
            """create table "audit" ("tenant" varchar2(600 byte) not null,
               "number" number(19) generated always as identity, "text" clob not null,
               "cost" binary_double, "vector" blob, primary key ("tenant", "number"))"""
        )
        connection.commit()
    yield database
    database.close()


@pytest.fixture
def connection(database: H2Database) -> Iterator[H2Connection]:
    with database.connect() as connection:
        yield connection


INSERT = 'insert into "audit" ("tenant", "text", "cost", "vector") values (:a, :b, :c, :d)'


def test_values_come_back_with_the_types_of_the_driver(connection: H2Connection) -> None:
    row = {"a": "ä😀", "b": "x" * 100_000, "c": 0.1, "d": bytes(range(256))}
    cursor = connection.cursor()
    cursor.execute(INSERT, row)
    assert cursor.rowcount == 1
    cursor.execute('select * from "audit"')
    assert cursor.description is not None
    assert [column[0] for column in cursor.description] == [
        "tenant", "number", "text", "cost", "vector",
    ]  # fmt: skip
    assert cursor.fetchall() == [(row["a"], 1, row["b"], row["c"], row["d"])]


def test_an_empty_text_is_null_as_in_oracle(connection: H2Connection) -> None:
    with pytest.raises(oracledb.IntegrityError) as error:
        connection.cursor().execute(INSERT, {"a": "a", "b": "", "c": None, "d": None})
    assert error.value.args[0].full_code == "ORA-01400"


def test_returning_fills_the_variables(connection: H2Connection) -> None:
    cursor = connection.cursor()
    rows = [{"a": "a", "b": text, "c": None, "d": None} for text in "xyz"]
    cursor.executemany(INSERT, rows)
    assert cursor.rowcount == 3
    numbers, texts = cursor.var(), cursor.var()
    cursor.execute(
        'delete from "audit" where "tenant" = :a and "number" > :n returning "number", "text" into :o1, :o2',
        {"a": "a", "n": 1, "o1": numbers, "o2": texts},
    )
    assert (numbers.getvalue(), texts.getvalue()) == ([2, 3], ["y", "z"])
    assert cursor.rowcount == 2


def test_errors_have_the_numbers_of_oracle(connection: H2Connection) -> None:
    cursor = connection.cursor()
    cursor.execute('create table "k" ("a" number(19) primary key)')
    cursor.execute('insert into "k" values (1)')
    for statement, code in [
        ('insert into "k" values (1)', "ORA-00001"),
        ('insert into "missing" values (1)', "ORA-00942"),
        ('select "missing" from "k"', "ORA-00904"),
        ("no sql", "ORA-00900"),
    ]:
        with pytest.raises(oracledb.DatabaseError) as error:
            cursor.execute(statement)
        assert error.value.args[0].full_code == code
    cursor.executemany('insert into "k" values (:n)', [{"n": 1}, {"n": 2}], batcherrors=True)
    assert [(error.code, error.offset) for error in cursor.getbatcherrors()] == [(1, 0)]


def test_a_read_only_transaction_has_one_snapshot(
    database: H2Database, connection: H2Connection
) -> None:
    reader = connection.cursor()
    reader.execute("set transaction read only")
    assert reader.execute('select count(*) from "audit"') is reader
    assert reader.fetchall() == [(0,)]
    with database.connect() as other:
        other.cursor().execute(INSERT, {"a": "a", "b": "x", "c": None, "d": None})
        other.commit()
    reader.execute('select count(*) from "audit"')
    assert reader.fetchall() == [(0,)]
    with pytest.raises(oracledb.DatabaseError, match="ORA-01456"):
        reader.execute('delete from "audit"')
    connection.commit()
    reader.execute('select count(*) from "audit"')
    assert reader.fetchall() == [(1,)]


def test_a_closed_connection_is_lost(connection: H2Connection) -> None:
    connection.close()
    with pytest.raises(oracledb.InterfaceError):
        connection.cursor()

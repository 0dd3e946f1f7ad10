"""H2 in Oracle mode behind the interface of python-oracledb, for tests without an Oracle server.

`H2Database().connect()` returns a connection with the part of oracledb's interface that memorist uses.
Errors are oracledb's classes with Oracle's numbers. Where H2 differs from Oracle:

- `returning … into` runs as `select … from final table (…)`.
- Parameters have no types in H2, so each is cast to the type of its Python value.
- `set transaction read only` is a snapshot here, and this module rejects its writes.
- Texts are in the order of UTF-16, where some characters come before others that UTF-8 has later.
- A call of PL/SQL (`begin … end;`) and `alter session` are noted and not run.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import json
import os
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import oracledb
import pytest
from sqlglot import exp, parse_one

JAR = Path("/usr/share/java/h2.jar")
MODES = "MODE=Oracle;DB_CLOSE_DELAY=-1;DEFAULT_NULL_ORDERING=HIGH;LOCK_TIMEOUT=10000"
ERRORS: dict[int, tuple[type[oracledb.DatabaseError], int]] = {
    23505: (oracledb.IntegrityError, 1),  # unique
    23502: (oracledb.IntegrityError, 1400),  # not null
    23503: (oracledb.IntegrityError, 2292),  # has children
    23506: (oracledb.IntegrityError, 2291),  # has no parent
    23513: (oracledb.IntegrityError, 2290),  # check
    22001: (oracledb.DatabaseError, 12899),  # too long
    40001: (oracledb.DatabaseError, 60),  # deadlock
    50200: (oracledb.DatabaseError, 60),  # lock timeout
    90131: (oracledb.DatabaseError, 60),  # concurrent update
    42102: (oracledb.DatabaseError, 942),  # no table
    42103: (oracledb.DatabaseError, 942),
    42104: (oracledb.DatabaseError, 942),
    42101: (oracledb.DatabaseError, 955),  # the table exists
    42122: (oracledb.DatabaseError, 904),  # no column
    42000: (oracledb.DatabaseError, 900),  # syntax
    42001: (oracledb.DatabaseError, 900),
    90096: (oracledb.DatabaseError, 1031),  # no rights
}
"""By H2's number: the class and the number of Oracle's error. Others are ORA-00600."""
_NOT_A_PARAMETER = r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*"
_PARAMETER = re.compile(rf"({_NOT_A_PARAMETER})|:(\w+)")
_RETURNING = re.compile(r"\sreturning\s+(.+?)\s+into\s+((?::\w+(?:,\s*)?)+)\s*\Z", re.I | re.DOTALL)
_COMMON_TABLE = re.compile(r'(?:WITH|\),) "(\w+)"\("')
_statement_numbers = itertools.count()
_WRITES = re.compile(r"\s*(insert|update|delete|merge)\b", re.IGNORECASE)


def skip_without_tools(name: str) -> NoReturn:
    """Skip a test whose tool is missing; fail where `make test-all` has installed it."""
    assert os.environ.get("ENGINES") != "all", f"not installed: {name}"
    pytest.skip(f"not installed, `make test-all` does it: {name}")


@cache
def java() -> Any:
    """Start a virtual machine with H2 in this process, and return the module `jpype`."""
    if importlib.util.find_spec("jpype") is None or not JAR.exists():
        skip_without_tools("H2 or jpype")
    jpype = importlib.import_module("jpype")
    if not jpype.isJVMStarted():
        options = ["-Xrs", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        jpype.startJVM(*options, classpath=[str(JAR)], convertStrings=False)
    return jpype


class H2Database:
    """A database in memory; it lasts until `close`."""

    def __init__(self, modes: str = MODES) -> None:
        self._driver = java().JClass("org.h2.Driver")()
        self._url = f"jdbc:h2:mem:{uuid.uuid4().hex};{modes}"

    def connect(self, user: str = "SA", password: str = "", **_: Any) -> H2Connection:
        """Open another connection."""
        properties = java().JClass("java.util.Properties")()
        properties.setProperty("user", user)
        properties.setProperty("password", password)
        with errors():
            return H2Connection(self._driver.connect(self._url, properties))

    def close(self) -> None:
        """Remove the database with everything in it."""
        self.connect().jdbc.createStatement().execute("shutdown immediately")


class H2Connection:
    """A connection with oracledb's interface."""

    version = "19.0.0.0.0"
    module = ""
    action = ""
    client_identifier = ""
    call_timeout = 0
    outputtypehandler: Any = None

    def __init__(self, jdbc: Any) -> None:
        self.jdbc = jdbc
        self.is_read_only = False
        self.calls: list[str] = []
        """The PL/SQL that H2 cannot run."""
        jdbc.setAutoCommit(False)

    def cursor(self) -> H2Cursor:
        """Return a new cursor."""
        if self.jdbc.isClosed():
            raise oracle_error(oracledb.InterfaceError, "DPY-1001: not connected to database")
        return H2Cursor(self)

    def commit(self) -> None:
        """Commit the transaction."""
        self._end("commit")

    def rollback(self) -> None:
        """Roll the transaction back."""
        self._end("rollback")

    def _end(self, method: str) -> None:
        with errors():
            getattr(self.jdbc, method)()
            if self.is_read_only:
                self.is_read_only = False
                self.jdbc.setTransactionIsolation(2)  # read committed

    def begin_read_only(self) -> None:
        """Begin a transaction on one snapshot."""
        self.is_read_only = True
        with errors():
            self.jdbc.setTransactionIsolation(6)  # snapshot

    def ping(self) -> None:
        """Raise if the connection is lost."""
        self.cursor()

    def is_healthy(self) -> bool:
        """Return whether the connection can be used again."""
        return not self.jdbc.isClosed()

    def close(self) -> None:
        """Close the connection and roll back."""
        if not self.jdbc.isClosed():
            self.jdbc.rollback()
            self.jdbc.close()

    def __enter__(self) -> H2Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class H2Variable:
    """An output variable: a list of the values of each execution, as oracledb returns them."""

    def __init__(self) -> None:
        self.values: list[list[Any]] = []

    def getvalue(self, position: int = 0) -> Any:
        """Return the values of one execution."""
        return self.values[position] if position < len(self.values) else []


class H2Cursor:
    """A cursor with oracledb's interface."""

    def __init__(self, connection: H2Connection) -> None:
        self.connection = connection
        self.description: list[tuple[Any, ...]] | None = None
        self.rowcount = 0
        self.warning = None
        self.arraysize = 100
        self.prefetchrows = 2
        self._rows: Any = None
        self._statement: Any = None
        self._batch_errors: list[Any] = []

    def var(self, *_: Any, **__: Any) -> H2Variable:
        """Return an output variable; H2 knows its type itself."""
        return H2Variable()

    def setinputsizes(self, **_: Any) -> None:
        """Do nothing: values have their own types here."""

    def execute(
        self, sql: str, values: Mapping[str, Any] | Sequence[Any] | None = None, **named: Any
    ) -> H2Cursor | None:
        """Run a statement; return the cursor if it has rows."""
        self._close_rows()
        if re.match(r"\s*set\s+transaction\s+read\s+only", sql, re.IGNORECASE):
            self.connection.begin_read_only()
            return None
        if re.match(r"\s*(begin|declare)\b|\s*alter\s+session\b", sql, re.IGNORECASE):
            self.connection.calls.append(sql)
            return None
        if self.connection.is_read_only and _WRITES.match(sql):
            problem = (
                "ORA-01456: may not perform insert, delete, update inside a READ ONLY transaction"
            )
            raise oracle_error(oracledb.DatabaseError, problem)
        bound = values if values is not None else named
        outputs: list[H2Variable] = []
        if match := _RETURNING.search(sql):
            names = [name.strip().lstrip(":") for name in match[2].split(",") if name.strip()]
            outputs = [bound[name] for name in names]  # type: ignore[index]
            when = "old" if sql.lstrip()[:6].lower() == "delete" else "final"
            sql = f"select {match[1]} from {when} table ({sql[: match.start()]})"
        query, ordered = positional(in_h2(sql), bound)
        with errors():
            statement = self._statement = self.connection.jdbc.prepareStatement(query)
            for number, value in enumerate(ordered, 1):
                bind(statement, number, value)
            if statement.execute():
                self._rows = statement.getResultSet()
                self._describe()
            else:
                self.rowcount = int(statement.getUpdateCount())
                self._close_rows()
        if outputs:
            rows = self.fetchall()
            self.rowcount = len(rows)
            self.description = None
            for place, output in enumerate(outputs):
                output.values.append([row[place] for row in rows])
            return None
        return self if self._rows is not None else None

    def executemany(
        self, sql: str, rows: Sequence[Mapping[str, Any]], *, batcherrors: bool = False
    ) -> None:
        """Run a statement for each row; with `batcherrors`, go on after a row that fails."""
        changed = 0
        self._batch_errors = []
        for offset, row in enumerate(rows):
            try:
                self.execute(sql, row)
            except oracledb.DatabaseError as error:
                if not batcherrors:
                    raise
                error.args[0].offset = offset
                self._batch_errors.append(error.args[0])
            else:
                changed += self.rowcount
        self.rowcount = changed

    def getbatcherrors(self) -> list[Any]:
        """Return the errors of `executemany`."""
        return self._batch_errors

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row, or None."""
        if self._rows is None:
            return None
        with errors():
            if self._rows.next():
                return tuple(
                    convert(self._rows, place, column)
                    for place, column in enumerate(self._types, 1)
                )
        self._close_rows()
        return None

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """Return the next rows."""
        rows: list[tuple[Any, ...]] = []
        while len(rows) < (size or self.arraysize) and (row := self.fetchone()) is not None:
            rows.append(row)
        return rows

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all other rows."""
        return list(self)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        while (row := self.fetchone()) is not None:
            yield row

    def close(self) -> None:
        """Close the cursor."""
        self._close_rows()

    def __enter__(self) -> H2Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _describe(self) -> None:
        data = self._rows.getMetaData()
        places = range(1, data.getColumnCount() + 1)
        self._types = [str(data.getColumnTypeName(place)) for place in places]
        self.description = [
            (str(data.getColumnLabel(place)), name, None, None, None, None, True)
            for place, name in zip(places, self._types, strict=True)
        ]

    def _close_rows(self) -> None:
        if self._statement is not None:
            self._statement.close()
        self._rows = self._statement = None


def in_h2(sql: str) -> str:
    """Return a statement without Oracle's functions that H2 lacks."""
    if "DBMS_LOB.COMPARE" in sql:
        sql = parse_one(sql, read="oracle").transform(_compare_texts).sql("oracle")
    sql = sql.replace("IDENTITY (ORDER)", "IDENTITY")
    # H2's `ltrim` removes only the first one of several characters.
    sql = re.sub(r"LTRIM\(([^,]+), '(\s+)'\)", r"REGEXP_REPLACE(\1, '^[\2]+', '')", sql)
    sql = re.sub(r"LENGTHB\(|DBMS_LOB\.GETLENGTH\(", "OCTET_LENGTH(", sql)
    return sql.replace("TO_CLOB(", "(")


def _compare_texts(node: exp.Expression) -> exp.Expression:
    """Write `dbms_lob.compare(a, b) = 0` as `a = b`."""
    call = node.this if isinstance(node, exp.EQ | exp.NEQ) else None
    if isinstance(call, exp.Dot):
        call = call.expression
    if isinstance(call, exp.Anonymous) and call.name.lower() == "compare":
        left, right = call.expressions
        return type(node)(this=left, expression=right)
    return node


def positional(sql: str, values: Mapping[str, Any] | Sequence[Any]) -> tuple[str, list[Any]]:
    """Return a statement with question marks, and its values in order."""
    ordered: list[Any] = []
    is_inlined = sql.startswith("WITH")  # H2 mixes up the parameters of recursive statements
    if is_inlined:  # and it may use the rows of an earlier statement with the same names
        number = next(_statement_numbers)
        for name in set(_COMMON_TABLE.findall(sql)):
            sql = sql.replace(f'"{name}"', f'"{name}_{number}"')

    def replace(match: re.Match[str]) -> str:
        if match[1]:
            return match[1]
        value = values[match[2]] if isinstance(values, Mapping) else values[len(ordered)]
        if is_inlined:
            return literal(value)
        ordered.append(value)
        return cast_to(value)

    return _PARAMETER.sub(replace, sql), ordered


def literal(value: Any) -> str:
    """Return a value as a constant of SQL."""
    if isinstance(value, str):
        escaped = value.replace("'", "''").replace("\0", "' || chr(0) || '")
        return f"'{escaped}'" if value else "null"
    return "null" if value is None else str(value)


def cast_to(value: Any) -> str:
    """Return a parameter with the type of its value."""
    match value:
        case bool() | int():
            return "cast(? as bigint)"
        case float():
            return "cast(? as double precision)"
        case bytes():
            return "cast(? as varbinary)"
        case str():
            return "cast(? as varchar)"
    return "?"


def bind(statement: Any, number: int, value: Any) -> None:
    """Set a parameter of a JDBC statement."""
    match value:
        case None:
            statement.setNull(number, 0)
        case bool() | int():
            statement.setLong(number, int(value))
        case float():
            statement.setDouble(number, value)
        case bytes():
            statement.setBytes(number, java().JArray(java().JByte)(value))
        case datetime():
            moment = java().JClass("java.time.LocalDateTime").parse(value.isoformat())
            statement.setObject(number, moment)
        case _:
            statement.setString(number, value)


def convert(rows: Any, place: int, column: str) -> Any:
    """Return a value of a row as oracledb does; large objects as text or bytes."""
    value: Any
    if column in ("BIGINT", "INTEGER", "SMALLINT", "TINYINT"):
        value = rows.getLong(place)
        return None if rows.wasNull() else int(value)
    if column in ("DOUBLE PRECISION", "REAL", "FLOAT"):
        value = rows.getDouble(place)
        return None if rows.wasNull() else float(value)
    if column in ("BINARY VARYING", "BINARY", "BINARY LARGE OBJECT"):
        value = rows.getBytes(place)
        return None if value is None else bytes(value)
    if column == "BOOLEAN":
        value = rows.getBoolean(place)
        return None if rows.wasNull() else bool(value)
    value = rows.getString(place)
    if value is None:
        return None
    text = str(value)
    if column in ("NUMERIC", "DECIMAL", "DECFLOAT"):
        return _number(text)
    if column.startswith("TIMESTAMP"):
        return datetime.fromisoformat(text)
    if column == "JSON":
        return json.loads(text)
    return text


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        number = float(text)
        return int(number) if number.is_integer() else number


class errors:  # noqa: N801 — used like a function
    """Raise oracledb's error for an error of H2."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        jpype = java()
        if not isinstance(error, jpype.JException):
            return
        if not isinstance(error, jpype.JClass("java.sql.SQLException")):
            raise oracle_error(oracledb.DatabaseError, f"ORA-00600: {error}") from None
        code = int(error.getErrorCode())
        if code in (90098, 90007, 90067, 90121):  # closed, or the database was
            problem = f"DPY-4011: the database or network closed the connection: {error}"
            raise oracle_error(oracledb.DatabaseError, problem) from None
        cls, number = ERRORS.get(code, (oracledb.DatabaseError, 600))
        raise oracle_error(cls, f"ORA-{number:05}: {error.getMessage()} ({code})") from None


@dataclass
class Details:
    """What an error of oracledb has in `args[0]`."""

    message: str
    full_code: str
    code: int
    isrecoverable: bool
    offset: int = 0
    context: str = ""

    def __str__(self) -> str:
        return self.message


def oracle_error(cls: type[oracledb.Error], message: str) -> oracledb.Error:
    """Return an error of oracledb with its documented attributes."""
    full_code = message.partition(":")[0]
    number = int(full_code.removeprefix("ORA-")) if full_code.startswith("ORA-") else 0
    return cls(Details(message, full_code, number, full_code in ("DPY-4011", "DPY-1001")))

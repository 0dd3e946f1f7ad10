"""Read another program's tables in an Oracle Database, in a read-only transaction."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any

from memorist.base.canonical import JsonText
from memorist.base.errors import Invalid, MemoristError, SettingsError, Unreachable, install_hint
from memorist_oracle.address import read_address

if TYPE_CHECKING:
    import oracledb

_COLUMNS = """select table_name, column_name, data_type from all_tab_columns
              where owner = sys_context('userenv', 'current_schema') and table_name not like 'BIN$%'
              order by table_name, column_id"""
_SESSION = (
    "alter session set nls_sort = binary",  # equal keys are equal texts
    "alter session set nls_comp = binary",
    "alter session set time_zone = '+00:00'",
    "set transaction read only",
)
_IN_ONE_READ = 200
_ZONED = re.compile(r"TIMESTAMP\(\d\) WITH( LOCAL)? TIME ZONE")
_CODE = re.compile(r"\b(?:ORA|DPY)-\d{4,5}\b")
_LISTENER = (
    "the listener does not know this service: check the name after the last / of the address; "
    "`lsnrctl services` on the server lists the names"
)
_NO_SERVER = "no listener answers there: check host, port and firewall, and that the server runs"
_NO_RIGHTS = "the user may not read it: let its owner `grant select` on the tables to the user"
_UNREACHABLE = {
    "DPY-6001": _LISTENER,
    "ORA-12514": _LISTENER,
    "DPY-6003": _LISTENER,
    "ORA-12505": _LISTENER,
    "DPY-3001": "the server requires native network encryption, which this driver lacks: use TLS (protocol=tcps)",
    "DPY-3010": "the server is too old: Oracle Database 19c or later is required",
    "DPY-4000": "tnsnames.ora has no such name",
    "DPY-4026": "the folder config_dir has no tnsnames.ora",
    "DPY-2018": "the folder wallet_location has no ewallet.pem",
    "DPY-6008": "the server's TLS certificate does not match: check host and wallet",
    "ORA-01017": "user or password is wrong",
    "ORA-28000": "the account of the user is locked",
    "ORA-28001": "the password of the user has expired",
    "ORA-01045": "the user may not connect: ask an administrator to `grant create session` to it",
    "ORA-12541": _NO_SERVER,
    "DPY-6005": _NO_SERVER,
    "DPY-4011": "the connection was lost: run the import again, it continues where it stopped",
    "ORA-01555": "the tables changed while they were read: run the import again, it continues where it stopped",
}
"""By the code of an error: what to do. Where a message has several codes, the first here counts."""
_UNREADABLE = {
    "ORA-00942": _NO_RIGHTS,
    "ORA-01031": _NO_RIGHTS,
    "ORA-41900": _NO_RIGHTS,
    "ORA-01435": "there is no such schema: check the option `schema` of the address",
}


class ForeignSchema:
    """Another program's schema."""

    def __init__(self, address: str) -> None:
        try:
            import oracledb as _  # noqa: F401 - the import below fails without it
        except ImportError as error:
            problem = f"Oracle requires the extra `oracle` ({error}); {install_hint('oracle')}"
            raise SettingsError(where="file", problem=problem) from error
        try:
            self._address = read_address(address, "file", for_import=True)
        except SettingsError as error:
            raise Invalid(field="file", problem=error.problem) from None

    def tables(self) -> set[str]:
        """Return the names of its tables and views."""
        if not self._types:
            schema = self._address.schema or "the user's own schema"
            problem = (
                f"contains no tables readable by this user in {schema}: name the schema of the tables "
                "with ?schema=OWNER, and let the owner `grant select` on them to the user"
            )
            raise Invalid(field="file", problem=problem)
        return set(self._types)

    def columns(self, table: str) -> list[str]:
        """Return the names of a table's columns."""
        return list(self._types[table])

    def read_table(
        self, table: str, columns: Sequence[str], order: Sequence[str] = ()
    ) -> Iterator[dict[str, Any]]:
        """Yield the given columns of every row, sorted by `order`."""
        types = self._types[table]
        selected = ", ".join(_select(column, types[column]) for column in columns)
        names = ", ".join(_quote(column) for column in order)
        clause = f" order by {names}" if names else ""
        for row in self.rows(f"select {selected} from {_quote(table)}{clause}"):
            yield {column: _convert(value, types[column]) for column, value in row.items()}

    def rows(self, statement: str, parameters: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
        """Yield the rows of a statement; large objects are text or bytes."""
        import oracledb

        try:
            with self._connect() as connection, connection.cursor() as cursor:
                cursor.arraysize = _IN_ONE_READ
                cursor.execute(statement, list(parameters))
                names = [column[0] for column in cursor.description or ()]
                for row in cursor:
                    yield dict(zip(names, row, strict=True))
        except oracledb.Error as error:
            raise _translate(error) from None

    @cached_property
    def _types(self) -> dict[str, dict[str, str]]:
        """The types of the columns of each table."""
        types: dict[str, dict[str, str]] = {}
        for row in self.rows(_COLUMNS):
            table, column, type = row.values()
            types.setdefault(table, {})[column] = type
        return types

    def _connect(self) -> oracledb.Connection:
        import oracledb

        connection = oracledb.connect(**self._address.parameters)
        try:
            connection.outputtypehandler = _read_large_objects
            connection.module = "memorist"
            connection.action = "import"
            if self._address.schema is not None:
                connection.current_schema = self._address.schema
            with connection.cursor() as cursor:
                for statement in _SESSION:
                    cursor.execute(statement)
        except BaseException:  # an interruption must not leave the connection open
            connection.close()
            raise
        return connection


def _read_large_objects(cursor: oracledb.Cursor, column: oracledb.FetchInfo) -> Any:
    """Fetch large objects with their rows; a round trip for each would take hours."""
    import oracledb

    types = {
        oracledb.DB_TYPE_CLOB: oracledb.DB_TYPE_LONG,
        oracledb.DB_TYPE_NCLOB: oracledb.DB_TYPE_LONG_NVARCHAR,
        oracledb.DB_TYPE_BLOB: oracledb.DB_TYPE_LONG_RAW,
    }
    type = types.get(column.type_code)
    return None if type is None else cursor.var(type, arraysize=cursor.arraysize)


def _select(column: str, type: str) -> str:
    """Return the expression for a column; the driver drops time zones, so the server converts to UTC."""
    name = _quote(column)
    if _ZONED.fullmatch(type):
        return f"cast({name} at time zone 'UTC' as timestamp) {name}"
    return name


def _convert(value: Any, type: str) -> Any:
    if value is None:
        return None
    if type == "RAW":
        return value.hex().upper()
    if type in ("CHAR", "NCHAR"):
        return value.rstrip(" ")  # the server pads it
    if type == "JSON":
        plain = _plain(value)
        return JsonText(json.dumps(plain)) if isinstance(plain, str) else plain
    return value


def _plain(value: Any) -> Any:
    """Return a JSON value without the types that Oracle adds to JSON."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex().upper()
    return value if isinstance(value, str | int | float | None) else str(value)


def _translate(error: oracledb.Error) -> MemoristError:
    """Return the error of memorist for an error of the driver, with what to do."""
    text = getattr(error.args[0], "message", str(error)) if error.args else str(error)
    message = " ".join(text.partition("\nHelp:")[0].split())
    codes = set(_CODE.findall(message))
    for code, advice in _UNREACHABLE.items():
        if code in codes:
            return Unreachable(problem=f"the server to import from: {message}; {advice}")
    for code, advice in _UNREADABLE.items():
        if code in codes:
            return Invalid(field="file", problem=f"is not readable: {message}; {advice}")
    return Invalid(field="file", problem=f"is not a readable database: {message}")


def _quote(name: str) -> str:
    return '"' + name + '"'  # a name in Oracle has no double quotes

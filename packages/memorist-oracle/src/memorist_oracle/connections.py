"""Connections of python-oracledb in thin mode, and the translation of their errors."""

from __future__ import annotations

import re
from typing import Any

import oracledb

from memorist.base.errors import (
    Busy,
    Full,
    MemoristError,
    ReadOnly,
    SettingsError,
    StorageError,
    Unreachable,
)
from memorist_oracle.address import EXPERIMENTAL, Address

MIN_VERSION = 19
LOST = {28, 1033, 1034, 1089, 1090, 3113, 3114, 3135, 12537, 12541, 12547, 12570}
LOST_CODES = {"DPY-1001", "DPY-4011", "DPY-6000", "DPY-6005"}
"""The connection is lost, or the server is down."""
ROLLED_BACK = {60, 1555, 8177}
"""A deadlock, a snapshot that is too old, and a serialization failure: a retry may succeed."""
COMMIT_FAILED = 2091
"""A constraint that is checked by the commit is violated; the transaction was rolled back."""
FULL = {257, 1536, 1652, 1653, 1654, 1658, 1688, 1691, 1693, 30036}
READ_ONLY = {1456, 16000}
BUSY = {54, 30006}
NO_TABLE = 942
DUPLICATE = 1
PARENT_GONE = 2291
POLICY_FAILED = 28112
"""The function of a policy has failed: no tenant was named."""
HINTS = {
    "ORA-01017": "check the user and the password of the address",
    "ORA-28000": "the account is locked: `alter user … account unlock`",
    "ORA-01045": "grant it to the user: `grant create session to …`",
    "ORA-01031": "docs/guides/oracle.md lists the privileges of the owner and of the working user",
    "ORA-01950": "give the owner space: `alter user … quota unlimited on users`",
    "ORA-12514": "check the service name at the end of the address; `lsnrctl services` lists them",
    "ORA-12505": "name a service, not a SID; `lsnrctl services` lists them",
    "DPY-6001": "check the service name at the end of the address; `lsnrctl services` lists them",
    "DPY-6003": "name a service, not a SID; `lsnrctl services` lists them",
    "DPY-3010": f"memorist needs Oracle Database {MIN_VERSION}c or newer",
    "ORA-00942": "run `memorist migrate up`, or grant the working user its privileges",
    "ORA-28112": "a policy needs the tenant of the session; `begin memorist_context.enter('…'); end;` names it",
    "ORA-12899": "the text is longer than its column in Oracle (4,000 bytes)",
}
"""What to do, by the code of an error."""
_CODE = re.compile(r"\b(?:ORA|DPY)-\d{4,5}\b")


def open_connection(address: Address) -> Any:
    """Open a connection; large texts are read as texts."""
    connection = oracledb.connect(**address.parameters)
    connection.outputtypehandler = _read_large_objects
    connection.stmtcachesize = 200
    return connection


def _read_large_objects(cursor: Any, metadata: Any) -> Any:
    if metadata.type_code is oracledb.DB_TYPE_CLOB:
        return cursor.var(oracledb.DB_TYPE_LONG, arraysize=cursor.arraysize)
    if metadata.type_code is oracledb.DB_TYPE_BLOB:
        return cursor.var(oracledb.DB_TYPE_LONG_RAW, arraysize=cursor.arraysize)
    return None


def close(connection: Any) -> None:
    """Close a connection that may be lost already."""
    try:
        connection.close()
    except oracledb.Error:
        return


def number_of(error: oracledb.Error) -> int:
    """Return the number of an error, such as 1 for ORA-00001; 0 for an error of the driver."""
    return int(getattr(error.args[0], "code", 0) or 0) if error.args else 0


def is_lost(error: oracledb.Error) -> bool:
    """Return whether the connection is gone."""
    return number_of(error) in LOST or _full_code(error) in LOST_CODES


def is_rolled_back(error: oracledb.Error) -> bool:
    """Return whether a commit with this error has certainly committed nothing."""
    is_violation = isinstance(error, oracledb.IntegrityError)
    return is_violation or number_of(error) in {*ROLLED_BACK, COMMIT_FAILED}


def is_transient(error: oracledb.Error) -> bool:
    """Return whether the same transaction may succeed later."""
    return is_lost(error) or number_of(error) in {*ROLLED_BACK, PARENT_GONE}


def translate_error(error: oracledb.Error) -> MemoristError:
    """Return the error of memorist for an error of the driver or the server."""
    number = number_of(error)
    problem = str(error).strip().partition("\nHelp:")[0] or type(error).__name__
    # The message can have the codes of several errors: that of the driver, and its cause.
    codes = [_full_code(error), *_CODE.findall(problem)]
    code = next((code for code in codes if code in HINTS), codes[0])
    problem = " ".join(problem.split())
    if hint := HINTS.get(code):
        problem = f"{problem}; {hint}"
    if is_lost(error) or code in ("ORA-12514", "ORA-12505", "ORA-12154", "DPY-6001", "DPY-6003"):
        return Unreachable(problem=f"{problem} ({EXPERIMENTAL})")
    if code in ("ORA-01017", "ORA-28000", "ORA-01045", "DPY-3010", "DPY-4027"):
        return SettingsError(where="database", problem=f"{problem} ({EXPERIMENTAL})")
    if number in FULL:
        return Full(problem=problem)
    if number in READ_ONLY:
        return ReadOnly(problem=problem)
    if number in ROLLED_BACK or number in BUSY or code == "DPY-4024":
        return Busy(problem=problem)
    return StorageError(problem=problem)


def _full_code(error: oracledb.Error) -> str:
    return str(getattr(error.args[0], "full_code", "")) if error.args else ""

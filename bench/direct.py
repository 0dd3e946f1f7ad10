"""The same work with the bare drivers: same tables, same pragmas, same durability.

`insert` is the smallest possible append: a counter in the program numbers the messages, and nothing
is checked. `correct` is an append that also works with several writers: the transaction reads the
session's next number.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import psycopg

from bench.harness import SESSION, TENANT, TEXT
from memorist.storage.checksum import checksum
from memorist.storage.sqlite.connection import open_connection

RAW = '{"text":"' + TEXT + '"}'
CHECKSUM = checksum(RAW, None)
COLUMNS = "tenant, session_id, seq, role, content, author, chatter, tokens, tokens_in, tokens_out, cost, created_at, checksum"
READ = "seq, role, content, author, tokens, tokens_in, tokens_out, cost, created_at"
PRAGMAS = {
    "synchronous": 2,
    "foreign_keys": 1,
    "secure_delete": 1,
    "cache_size": -8192,
    "wal_autocheckpoint": 2000,
    "journal_size_limit": 67108864,
}
INSERT = f"insert into messages ({COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
NEXT = "select coalesce(max(seq), 0) + 1 from messages where tenant = ? and session_id = ?"
WINDOW = f"""select {READ} from messages where tenant = ? and session_id = ? and seq <= ? and chatter <= ?
             order by seq desc limit ?"""


def connect(path: Path, busy_seconds: float = 30) -> apsw.Connection:
    """Connect with memorist's pragmas to a file with memorist's tables."""
    connection = apsw.Connection(str(path))
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.set_busy_timeout(int(busy_seconds * 1000))
    for name, value in PRAGMAS.items():
        connection.execute(f"pragma {name} = {value}").fetchall()
    return connection


def differences(path: Path) -> list[str]:
    """Return the pragmas in which a bare connection differs from memorist's: none, if it is fair."""
    ours = open_connection(path, 30.0, writing=True, relaxed=False)
    direct = connect(path)
    try:
        names = [
            *PRAGMAS,
            "journal_mode",
            "page_size",
            "auto_vacuum",
            "temp_store",
            "mmap_size",
            "locking_mode",
        ]
        return [name for name in names if ours.pragma(name) != direct.pragma(name)]
    finally:
        ours.close()
        direct.close()


def values(seq: int, session: str = SESSION) -> tuple[Any, ...]:
    """Return a row as memorist writes it."""
    return (
        TENANT,
        session,
        seq,
        "user",
        RAW,
        None,
        0,
        60,
        None,
        None,
        None,
        time.time_ns() // 1000,
        CHECKSUM,
    )


def last_seq(connection: apsw.Connection) -> int:
    """Return the number of the session's last message."""
    return int(str(connection.execute(NEXT, (TENANT, SESSION)).fetchall()[0][0])) - 1


def insert(connection: apsw.Connection) -> Callable[[], None]:
    """Return a function that begins, inserts and commits; a counter numbers the messages."""
    execute = connection.execute
    seq = last_seq(connection)

    def append() -> None:
        nonlocal seq
        seq += 1
        execute("begin immediate")
        execute(INSERT, values(seq))
        execute("commit")

    return append


def correct(connection: apsw.Connection, session: str = SESSION) -> Callable[[], None]:
    """Return a function that begins, reads the next number, inserts and commits, or rolls back."""
    execute = connection.execute

    def append() -> None:
        execute("begin immediate")
        try:
            ((seq,),) = execute(NEXT, (TENANT, session)).fetchall()
            execute(INSERT, values(int(str(seq)), session))
            execute("commit")
        except BaseException:
            if connection.in_transaction:
                execute("rollback")
            raise

    return append


def connect_postgres(url: str) -> psycopg.Connection[Any]:
    """Connect with psycopg to memorist's tables."""
    return psycopg.connect(url, options="-c search_path=memorist")


def insert_postgres(connection: psycopg.Connection[Any]) -> Callable[[], None]:
    """Return a function that inserts and commits; a counter numbers the messages."""
    sql = INSERT.replace("?", "%s")
    row = connection.execute(NEXT.replace("?", "%s"), (TENANT, SESSION)).fetchone()
    seq = int(row[0]) - 1 if row else 0

    def append() -> None:
        nonlocal seq
        seq += 1
        connection.execute(sql, values(seq))
        connection.commit()

    return append


def correct_postgres(
    connection: psycopg.Connection[Any], session: str = SESSION
) -> Callable[[], None]:
    """Return a function that locks the session, reads the next number, inserts and commits."""
    sql = INSERT.replace("?", "%s")
    next_number = NEXT.replace("?", "%s")
    lock = "select 1 from sessions where tenant = %s and id = %s for no key update"

    def append() -> None:
        try:
            connection.execute(lock, (TENANT, session))
            row = connection.execute(next_number, (TENANT, session)).fetchone()
            connection.execute(sql, values(int(row[0]) if row else 1, session))
            connection.commit()
        except BaseException:
            connection.rollback()
            raise

    return append

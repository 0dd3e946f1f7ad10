"""Shared by storage tests: a database with rows in every table, and direct access to it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import psycopg

from memorist import Memory
from memorist.base.canonical import JsonText
from memorist.storage import migrate

TABLES = (
    "tenants", "agents", "sessions", "active_sessions", "messages", "message_keys", "state",
    "interactions",
)  # fmt: skip
_NEWEST = migrate.shipped("sqlite")[-1].number
# Two steps after the newest one, as later versions have them. Written only for tests.
LATER = (
    migrate.read(
        _NEWEST + 1,
        "moods",
        """-- up
create table moods (
    tenant {key} not null references tenants (tenant),
    id {key} not null,
    mood {text} not null,
    primary key (tenant, id)
) {strict};
insert into moods select tenant, id, label from sessions;
-- down
drop table moods;
""",
    ),
    migrate.read(
        _NEWEST + 2,
        "moods_by_time",
        """-- up
alter table moods add column felt_at {time} not null default 0;
create index moods_by_time on moods (tenant, felt_at);
alter table agents add column mood {key} check (mood in ('good', 'bad'));
-- down
alter table agents drop column mood;
drop index moods_by_time;
alter table moods drop column felt_at;
""",
    ),
)
WEIRD = (
    "plain",
    "",
    "  \t\r\n ",
    "quotes ' \" ; -- /* $$ \\ %s %(tenant)s :tenant {0} {key} ${x}",
    "\\u0000 as six characters, and \x00 itself",
    "half an emoji \ud83d and a whole one \U0001f469\u200d\U0001f469\u200d\U0001f467",
    "line separators \u2028 \u2029 \x85, right to left \u202e, e\u0301 against \xe9, a\u0300\u0301\u0302\u0303",
    "\ufeffmark first, \x01\x1b[31m control, \uffff last",
    "'); drop table messages; --",
    '{"table":"messages"}\n{"end":true}',
    "long " * 2000,
)


class Raw:
    """A connection that bypasses row-level security, tenants and foreign keys."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def all(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement, if any."""
        cursor = self._connection.execute(sql)
        if isinstance(cursor, psycopg.Cursor) and cursor.description is None:
            return []
        return [tuple(row) for row in cursor.fetchall()]

    def tables(self) -> list[str]:
        """Return the names of all tables."""
        sql = "select name from sqlite_master where type = 'table'"
        if isinstance(self._connection, psycopg.Connection):
            sql = "select 'memorist.' || tablename from pg_tables where schemaname = 'memorist'"
        return [name for (name,) in self.all(sql)]


class OracleRaw(Raw):
    """The same for Oracle, or H2 in its place; foreign keys are still enforced."""

    def all(self, sql: str) -> list[tuple[Any, ...]]:
        from sqlglot import parse_one  # needs the extra `oracle`

        cursor = self._connection.cursor()
        cursor.execute(parse_one(sql, read="postgres").sql("oracle", identify=True))
        rows = cursor.fetchall() if cursor.description else []
        self._connection.commit()
        return rows

    def tables(self) -> list[str]:
        from memorist_oracle.dialect import schema

        return list(schema().keys)


@contextmanager
def raw(url: str) -> Iterator[Raw]:
    """Open the database as its administrator."""
    if url.startswith("sqlite:///"):
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        connection.set_busy_timeout(10_000)
        try:
            yield Raw(connection)
        finally:
            connection.close()
    elif url.startswith("oracle:"):
        from memorist_oracle import connections  # needs the extra `oracle`
        from memorist_oracle.address import read_address

        with connections.open_connection(read_address(url, "database")) as server:
            yield OracleRaw(server)
    else:
        with psycopg.connect(url, autocommit=True) as server:
            server.execute("set search_path = memorist; set session_replication_role = replica")
            yield Raw(server)


def file_of(url: str) -> Path:
    """Return the file of an SQLite URL."""
    return Path(url.removeprefix("sqlite:///"))


def widths(url: str, tables: Sequence[str]) -> dict[str, int]:
    """Return the number of columns of each table, which must have a row."""
    with raw(url) as database:
        return {table: len(database.all(f"select * from {table} limit 1")[0]) for table in tables}


def hashes(
    url: str,
    tables: Sequence[str] = TABLES,
    where: str = "",
    columns: Mapping[str, int] | None = None,
) -> dict[str, tuple[int, str]]:
    """Return the row count of each table, and a hash of its content, or of its first columns."""
    found = {}
    with raw(url) as database:
        for table in tables:
            width = (columns or {}).get(table)
            rows = sorted(
                repr(row[:width]) for row in database.all(f"select * from {table} {where}")
            )
            found[table] = (len(rows), hashlib.sha256("\n".join(rows).encode()).hexdigest())
    return found


def fill(
    memory: Memory,
    tenant: str = "acme",
    users: Sequence[str] = ("ada", "bob"),
    tables: Sequence[str] = TABLES,
) -> None:
    """Fill every table, with unusual text in every text column."""
    memory.scope(tenant=tenant).agents.add(
        f"cook of {tenant}", prompt=WEIRD[3], model=WEIRD[5], tools=["set_state"], icon="\U0001f9d1"
    )
    for user in users:
        me = memory.scope(tenant=tenant, user=user, agent="scout")
        session = f"{tenant} {user} 1"
        me.sessions.add(f"{tenant} {user} 0", label="empty")
        me.sessions.add(
            session,
            label="':tenant' %s",
            attributes={"deep": [[{"x": None}]], "%": 1e300, "": -0.0},
        )
        me.messages.extend(
            session, [{"role": "user", "content": text} for text in WEIRD], key=f"batch ' {user}"
        )
        me.messages.append(
            session, "assistant", JsonText('{ "b": 1e2, "a" :0.10, "b": 2 }'), key="kept as it came"
        )
        me.messages.append(
            session, "tool", {"text": "t"}, author="'me", tokens_in=2**53, tokens_out=0, cost=0.1 + 0.2,
            created_at=datetime(2001, 2, 3, 4, 5, 6, 7, UTC),
        )  # fmt: skip
        if "state" in tables:
            for n, text in enumerate(WEIRD):
                me.state.set(f"key {n}", {text: [text]})
            me.state.set("Schlüssel '", 12345678901234567890, ttl=1e9)
            me.state.set("of the session", WEIRD[4], area=f"session:{session}")
            memory.scope(tenant=tenant, user=user).state.set(
                f"of the tenant, by {user}", [], area="tenant"
            )
        if "interactions" in tables:
            for n in range(3):
                me.interactions.add(
                    "chat'",
                    "m",
                    latency_ms=0.1 * n,
                    tokens_in=n,
                    tokens_out=0,
                    cost=1e-7 * n,
                    error=WEIRD[n],
                    session=session,
                )

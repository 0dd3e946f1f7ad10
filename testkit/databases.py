"""Databases for tests: real files and real PostgreSQL servers, each empty and migrated."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import uuid
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from memorist import Memory
from memorist.base.settings import Settings
from memorist.models import circuit_breaker
from memorist.storage.sqlite import engine as sqlite
from testkit.servers import Kind, PostgresServer
from testkit.sizes import FULL

if TYPE_CHECKING:
    import psycopg

sqlite.BALLAST_MIB = 0  # a test of the reserve file sets it again
circuit_breaker.FIRST_RETRY_SECONDS = 0.01
SETTINGS = Settings(postgres_pool=8, rate_per_second=0)
SERVERS: tuple[Kind, ...] = ("modern", "debian")
ENGINES = ("sqlite", *SERVERS)
MANY_ROWS = 1 << 20  # bytes
INDEXING_SECONDS = 60
TEMPLATE = "memorist_template"
IN_MEMORY = "TEST_IN_MEMORY"
GIVEN_DATABASE = "TEST_DATABASE"
"""A database to use instead of the modern server; `make test-cluster` sets it."""
GIVEN_ORACLE = "TEST_ORACLE"
"""An Oracle server to run the files below on, instead of H2; `make test-oracle` sets it."""
ENOUGH = 3 << 30  # bytes of memory for two servers and the files of a few tests
_started: dict[str, PostgresServer] = {}
_folders: list[Path] = []


def start_server(folder: Path | None, kind: Kind) -> None:
    """Start a PostgreSQL server with a migrated database that others are copied from."""
    # Tests empty tables by deleting rows. Statistics of an empty table would mislead the planner.
    server = _started[kind] = PostgresServer(kind, folder, autovacuum="off")
    url = server.create(TEMPLATE)
    Memory.open(url, settings=SETTINGS).close()
    os.environ[f"TEST_POSTGRES_{kind.upper()}"] = str(server.port)


def stop_servers() -> None:
    """Stop the servers and remove the folders."""
    for server in _started.values():
        server.close()
    for folder in _folders:
        shutil.rmtree(folder, ignore_errors=True)


def check_given_database(url: str) -> None:
    """Raise UsageError unless the tests may empty this database: never a file of a developer."""
    if not url.startswith(("postgresql://", "postgres://")):
        raise pytest.UsageError(
            "MEMORIST_TEST_DATABASE must be the address of a PostgreSQL database, which loses all its "
            f"rows: postgresql://… instead of {url}"
        )


def in_memory() -> Path | None:
    """Return a folder in memory; None if memory is short or the long tests need a disk."""
    memory = Path("/dev/shm")
    if FULL or not os.access(memory, os.W_OK):
        return None
    if min(shutil.disk_usage(memory).free, psutil.virtual_memory().available) < ENOUGH:
        return None
    for abandoned in memory.glob("memorist-tests-*-*"):  # by a run that was killed
        if not psutil.pid_exists(int(abandoned.name.split("-")[2])):
            shutil.rmtree(abandoned, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"memorist-tests-{os.getpid()}-", dir=memory))
    folder.chmod(0o755)  # the servers run as somebody else
    _folders.append(folder)
    return folder


def memory_folder() -> Path | None:
    """Return the folder in memory that `in_memory` made, also in workers; None without one."""
    return Path(os.environ[IN_MEMORY]) if IN_MEMORY in os.environ else None


def server_url(kind: str, database: str) -> str:
    """Return the address of a database on a running server."""
    port = os.environ.get(f"TEST_POSTGRES_{kind.upper()}")
    if port is None:
        pytest.skip(
            "the distribution's PostgreSQL is not installed: run the tests with `make test`"
        )
    return f"postgresql://postgres@127.0.0.1:{port}/{database}"


one_engine = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
"""For tests that do not depend on the engine."""


def new_database(kind: str, template: str = TEMPLATE) -> Iterator[str]:
    """Yield the address of a database that is dropped at the end of the test."""
    if GIVEN_DATABASE in os.environ:
        if kind != "modern" or template != TEMPLATE or _given_in_use:
            pytest.skip("needs a database of its own")
        yield from given_database(os.environ[GIVEN_DATABASE])
        return
    name = f"t_{uuid.uuid4().hex}"
    create_database(kind, name, template)
    yield server_url(kind, name)
    administrator(kind).execute(f"drop database {name} with (force)")


def create_database(kind: str, name: str, template: str = TEMPLATE) -> None:
    """Create a database from a template."""
    server = administrator(kind)
    copies = IN_MEMORY in os.environ and server.info.server_version >= 150_000
    strategy = " strategy file_copy" * copies  # without it, the copy goes through the log
    server.execute(f"create database {name} template {template}{strategy}")


# What a test may leave behind in a shared database besides rows: when it changes, the database is
# made anew. Tables that hold rows in the template (the schema version) are part of it.
SCHEMA_FINGERPRINT = """
    select sum(hashtextextended(line, 0)) from (
        select concat(relnamespace, relname, relkind, relowner, relacl, relrowsecurity) line
        from pg_class where relnamespace not in (
            select oid from pg_namespace where nspname ~ '^(pg_|information_schema)')
        union all select concat(attrelid, attname, atttypid, attnum) from pg_attribute
        where attrelid > 16384
        union all select concat(oid, proname) from pg_proc where oid > 16384
        union all select concat(oid, tgname, tgenabled) from pg_trigger
        union all select concat(oid, polname) from pg_policy
        union all select extname from pg_extension
        union all select concat(setdatabase, setrole, setconfig) from pg_db_role_setting
    ) lines"""
FILLED_TABLES = """
    select format('%I.%I', nspname, relname) from pg_class join pg_namespace on pg_namespace.oid = relnamespace
    where relkind = 'r' and nspname !~ '^(pg_|information_schema)' and pg_relation_size(pg_class.oid) > 0"""
# Waits for those in a transaction; the others end before they read another statement.
END_OTHERS = """
    select pg_terminate_backend(pid, case when xact_start is null then 0 else 5000 end)
    from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"""
_shared: dict[str, tuple[str, psycopg.Connection, str, set[str]]] = {}


def shared_database(kind: str) -> Iterator[str]:
    """Yield the address of this process's database on a server; its rows are removed after the test.

    That takes a few milliseconds, where creating and dropping a database takes a hundred.
    """
    if GIVEN_DATABASE in os.environ:
        yield from new_database(kind)
        return
    if kind not in _shared:
        import psycopg

        name = f"t_{uuid.uuid4().hex}"
        create_database(kind, name)
        connection = psycopg.connect(server_url(kind, name), autocommit=True)
        connection.execute("set lock_timeout = '2s'")
        _shared[kind] = (name, connection, fingerprint(connection), filled_tables(connection))
    name, connection, schema, preserved = _shared[kind]
    yield server_url(kind, name)
    try:
        # An abandoned transaction of a test could be committed after the rows are removed.
        connection.execute(END_OTHERS)
        clean = fingerprint(connection) == schema
        if clean:
            remove_rows(connection, filled_tables(connection) - preserved)
    except Exception:  # somebody holds a lock, or the server was restarted
        clean = False
    if not clean:
        del _shared[kind]
        connection.close()
        administrator(kind).execute(f"drop database if exists {name} with (force)")


_given_in_use: list[str] = []


def given_database(url: str) -> Iterator[str]:
    """Yield the address of the given database, and remove the rows of all tenants after the test."""
    _given_in_use.append(url)
    try:
        yield url
    finally:
        _given_in_use.clear()
        wait_for_indexing()
        remove_tenants(url)


def wait_for_indexing() -> None:
    """Wait for threads that index after a search: a memory does not wait for them when it closes.

    Rows that are removed meanwhile are locked by them, or written again.
    """
    for thread in threading.enumerate():
        if thread.name == "memorist-index":
            thread.join(INDEXING_SECONDS)
            assert not thread.is_alive(), "a thread still writes the index"


def remove_tenants(url: str) -> None:
    """Remove the rows of all tenants."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("set search_path = memorist")
        tables = connection.execute(
            """select c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid
               where c.relnamespace = 'memorist'::regnamespace and c.relkind = 'r' and attname = 'tenant'
               order by c.relname = 'tenants', c.oid desc"""  # those that refer to others come first
        ).fetchall()
        for (tenant,) in connection.execute("select tenant from tenants").fetchall():
            for (table,) in tables:
                connection.execute(f"delete from {table} where tenant = %s", [tenant])


def remove_rows(connection: psycopg.Connection, tables: set[str]) -> None:
    """Empty tables and start their identities again.

    Deleting a few rows takes a fifth of the time of `truncate`, which replaces the files of every
    table and index; but deleted rows stay in these files.
    """
    sizes = connection.execute(
        "select sum(pg_relation_size(name::regclass)) from unnest(%s::text[]) name", [list(tables)]
    ).fetchone()
    if sizes and (sizes[0] or 0) > MANY_ROWS:
        connection.execute(f"truncate {', '.join(sorted(tables))} restart identity cascade")
        return
    with connection.transaction():
        connection.execute("set local session_replication_role = replica")  # no triggers
        for table in sorted(tables):
            connection.execute(f"delete from {table}")
        connection.execute("select setval(oid, 1, false) from pg_class where relkind = 'S'")


def fingerprint(connection: psycopg.Connection) -> str:
    """Return a hash of everything in a database that a test should leave as it was, but for rows."""
    row = connection.execute(SCHEMA_FINGERPRINT).fetchone()
    return str(row[0]) if row else ""


def filled_tables(connection: psycopg.Connection) -> set[str]:
    """Return the names of the tables that have, or had, rows."""
    return {str(row[0]) for row in connection.execute(FILLED_TABLES)}


@cache
def administrator(kind: str) -> psycopg.Connection:
    """Return the superuser's connection to a server, open as long as this process."""
    import psycopg

    return psycopg.connect(server_url(kind, "postgres"), autocommit=True)

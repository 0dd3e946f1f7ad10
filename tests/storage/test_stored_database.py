"""A database of each earlier schema is upgraded, and keeps every row.

`stored/schema_N.*` are databases with rows of every table, as the version with that schema wrote them.
`STORE_DATABASES=1 pytest -n 0 tests/storage/test_stored_database.py` stores those of the newest schema:
do it with each new migration, and never change those of a released schema.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from memorist import Memory
from memorist.memory import TABLES
from memorist.storage import migrate
from testkit.databases import SETTINGS, new_database
from testkit.examples import populate
from testkit.servers import modern_binaries

STORED = Path(__file__).parent / "stored"
NEWEST = migrate.shipped("sqlite")[-1].number
NAMES = {"sqlite": "schema_{}.db.gz", "modern": "schema_{}.postgres.sql.gz"}
NO_STATEMENT = ("\\", "--", "SET transaction_timeout")
"""How lines of a dump begin that only some servers or only psql understand."""


@pytest.fixture(autouse=True)
def only_stored_engines(engine: str) -> None:
    if engine not in NAMES:
        pytest.skip("no database of this server is stored")


@pytest.fixture
def empty_url(engine: str, tmp_path: Path) -> Iterator[str]:
    """The address of a database without a schema."""
    if engine == "sqlite":
        yield f"sqlite:///{tmp_path}/stored.db"
    else:
        yield from new_database(engine, "template1")


def restore(url: str, data: bytes) -> None:
    """Restore a stored database."""
    if url.startswith("sqlite:///"):
        file = Path(url.removeprefix("sqlite:///"))
        file.write_bytes(data)
        file.chmod(0o600)
        return
    lines = [line for line in data.decode().split("\n") if not line.startswith(NO_STATEMENT)]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("\n".join(lines).encode())


def dump(url: str) -> bytes:
    """Return a database as it is stored."""
    if url.startswith("sqlite:///"):
        return Path(url.removeprefix("sqlite:///")).read_bytes()
    binaries = modern_binaries()
    environment = {**os.environ, "LD_LIBRARY_PATH": str(binaries.parent / "lib")}
    options = ["--schema=memorist", "--inserts", "--no-owner"]
    command = [str(binaries / "pg_dump"), *options, url]
    return subprocess.run(command, check=True, capture_output=True, env=environment).stdout


def rows(export: bytes) -> list[tuple[str, dict[str, Any]]]:
    """Return the rows of an export with their tables."""
    lines = [json.loads(line) for line in export.splitlines()]
    return [(line["table"], line["row"]) for line in lines if "table" in line]


@pytest.mark.skipif("STORE_DATABASES" not in os.environ, reason="stores the newest schema")
def test_store_the_newest_schema(empty_url: str, engine: str) -> None:
    export = STORED / f"schema_{NEWEST}.jsonl.gz"
    with Memory.open(empty_url, settings=SETTINGS) as memory:
        if export.exists() and engine != "sqlite":  # the same rows
            memory.import_(io.BytesIO(gzip.decompress(export.read_bytes())))
        else:
            populate(memory.scope(tenant="acme", user="ada", agent="scout"))
            out = io.BytesIO()
            memory.export(out)
            export.write_bytes(gzip.compress(out.getvalue(), mtime=0))
        memory.reindex()
        memory.database.compact()
    data = gzip.compress(dump(empty_url), mtime=0)
    (STORED / NAMES[engine].format(NEWEST)).write_bytes(data)


@pytest.mark.parametrize("number", range(1, NEWEST + 1))
def test_a_stored_database_is_upgraded(empty_url: str, engine: str, number: int) -> None:
    stored = STORED / NAMES[engine].format(number)
    expected = rows(gzip.decompress((STORED / f"schema_{number}.jsonl.gz").read_bytes()))
    restore(empty_url, gzip.decompress(stored.read_bytes()))
    with Memory.open(empty_url, settings=SETTINGS, migrate_up=False) as memory:
        assert memory.database.version() == number
    with Memory.open(empty_url, settings=SETTINGS) as memory:
        assert memory.database.version() == NEWEST
        assert [finding for finding in memory.verify() if not finding.ok] == []
        out = io.BytesIO()
        memory.export(out)
        upgraded = rows(out.getvalue())
        if number == NEWEST:
            assert {table for table, _ in expected} == {table.name for table in TABLES}
        assert [table for table, _ in upgraded] == [table for table, _ in expected]
        for (_, new), (_, old) in zip(upgraded, expected, strict=True):
            assert old.items() <= new.items(), "later schemas may add columns"
        me = memory.scope(tenant="acme", user="ada", agent="scout")
        assert me.search("canary").hits
        me.state.set("after", 1)

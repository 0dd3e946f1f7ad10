"""A database of retain is not opened, whatever its kind; an export of retain can be imported."""

from __future__ import annotations

import gzip
import io
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from memorist import Memory
from memorist.base.errors import Invalid, OldDatabase
from memorist.base.settings import Settings
from memorist.memory import TABLES
from testkit.commands import Run
from testkit.databases import SETTINGS, new_database

STORED = Path(__file__).parent / "stored"
EXPORT = gzip.decompress((STORED / "retain_28.jsonl.gz").read_bytes())
"""Rows of every table, exported by the last version of retain (schema 28)."""


def check_message(text: str, name: str) -> None:
    what, export, import_ = text.strip().splitlines()
    assert name in what
    assert "retain" in what
    assert "`retain export FILE`" in export
    assert "`memorist import FILE`" in import_


@pytest.fixture
def old_file(tmp_path: Path) -> Path:
    """A file that the last version of retain wrote."""
    path = tmp_path / "old.db"
    path.write_bytes(gzip.decompress((STORED / "retain_28.db.gz").read_bytes()))
    return path


@pytest.fixture
def old_url(engine: str, old_file: Path) -> Iterator[str]:
    """The address of a database of retain."""
    if engine == "sqlite":
        yield f"sqlite:///{old_file}"
        return
    for url in new_database(engine, "template1"):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("create schema retain")
            connection.execute("create table retain.retain_schema (version bigint primary key)")
            connection.execute("insert into retain.retain_schema values (28)")
        yield url


@pytest.mark.parametrize("migrate_up", [True, False])
def test_a_database_of_retain_is_not_opened(old_url: str, migrate_up: bool) -> None:
    name = old_url.rsplit("/", 1)[1]
    with (
        pytest.raises(OldDatabase) as error,
        Memory.open(old_url, settings=SETTINGS, migrate_up=migrate_up) as memory,
    ):
        memory.database.version()
    check_message(str(error.value), name)
    assert (error.value.status, error.value.exit_code) == (500, 5)


@pytest.mark.parametrize("command", ["search tea", "migrate up", "serve", "import -", "verify"])
def test_a_command_on_a_database_of_retain_stops(old_url: str, run: Run, command: str) -> None:
    done = run(f"memorist {command}", stdin=EXPORT.decode(), MEMORIST_DATABASE=old_url)
    assert done.returncode == 5
    check_message(done.stderr, old_url.rsplit("/", 1)[1])


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_file_of_retain_is_not_changed(old_file: Path, engine: str) -> None:
    before = old_file.read_bytes()
    old_file.chmod(0o400)
    for _ in range(2):
        with pytest.raises(OldDatabase):
            Memory.open(f"sqlite:///{old_file}", settings=SETTINGS)
    assert old_file.read_bytes() == before


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
class TestDefaultFile:
    """`retain.db` in the working folder, where no `memorist.db` is."""

    @pytest.fixture(autouse=True)
    def default_database(
        self, old_file: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("MEMORIST_DATABASE")
        old_file.rename(tmp_path / "retain.db")

    def test_it_stops_the_start(self, run: Run, tmp_path: Path) -> None:
        for settings in (None, Settings()):
            with pytest.raises(OldDatabase) as error:
                Memory.open(settings=settings)
            check_message(str(error.value), str(tmp_path / "retain.db"))
        for command in ("serve", "sessions list", "sessions add x"):
            done = run(f"memorist {command}")
            assert done.returncode == 5
            check_message(done.stderr, "retain.db")
        assert "retain export" in run("memorist doctor").stdout
        assert not (tmp_path / "memorist.db").exists()

    def test_an_import_creates_the_new_file(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "old.jsonl").write_bytes(EXPORT)
        imported = json.loads(run("memorist import old.jsonl --json").stdout)
        assert imported["new"] == sum(imported["rows"].values()) > 100
        assert run("memorist sessions list --tenant acme --user ada").returncode == 0
        assert (tmp_path / "retain.db").exists()

    def test_an_address_is_used_as_given(self, tmp_path: Path) -> None:
        Memory.open("sqlite:///memorist.db", settings=SETTINGS).close()
        assert (tmp_path / "memorist.db").exists()
        Memory.open(settings=Settings()).close()


def test_an_export_of_retain_is_imported(memory: Memory) -> None:
    """Rows of every table come back as they were; the kind `knowledge` is `documents` now.

    References get the column that says what a search finds of them.
    """
    lines = [json.loads(line) for line in EXPORT.splitlines()]
    assert {line["table"] for line in lines if "table" in line} == {table.name for table in TABLES}
    copied = memory.import_(io.BytesIO(EXPORT))
    assert copied.rows == Counter(line["table"] for line in lines if "table" in line)
    assert memory.import_(io.BytesIO(EXPORT)).new == 0
    memory.reindex()
    assert [finding for finding in memory.verify() if not finding.ok] == []
    out = io.BytesIO()
    memory.export(out)
    expected = EXPORT.replace(rb"\"knowledge ", rb"\"documents ")
    assert expected != EXPORT
    exported = [json.loads(line) for line in out.getvalue().splitlines()[1:-1]]
    searchable = [line["row"].pop("searchable") for line in exported if line.get("table") == "refs"]
    assert any(searchable)
    assert exported == [json.loads(line) for line in expected.splitlines()[1:-1]]
    me = memory.scope(tenant="acme", user="ada", agent="scout")
    (hit, *_) = me.search("Who cleans the lamp of the lighthouse?", kinds=["documents"]).hits
    assert "Clara" in hit.text


def test_an_export_of_an_older_retain_is_rejected(memory: Memory) -> None:
    older = EXPORT.replace(b'"schema":28', b'"schema":27', 1)
    with pytest.raises(Invalid, match="27"):
        memory.import_(io.BytesIO(older))

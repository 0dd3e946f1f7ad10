"""The migrations as a Liquibase changelog: by its documented format, on H2, and by Liquibase itself."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from memorist.cli import main
from memorist_oracle import security
from memorist_oracle.dialect import schema
from memorist_oracle.engine import LOCK_BUCKETS, VERSION
from memorist_oracle.migrations import shipped
from testkit.h2 import JAR, H2Connection, H2Database, in_h2, skip_without_tools

LIQUIBASE = Path(__file__).parents[3] / ".cache/liquibase"
CHANGESET = re.compile(r"--changeset memorist:(?P<id>\S+)(?P<attributes>( \w+:\S+)*)")
ATTRIBUTES = ["dbms:oracle", "endDelimiter:/", "rollbackEndDelimiter:/", "stripComments:false"]
OWNER = "oracle://memorist_owner:pw@db.example/app"
WORKER = "oracle://memorist_app:pw@db.example/app"
TABLES = "select table_name from information_schema.tables where table_schema = 'PUBLIC'"


@dataclass
class Changeset:
    id: str
    attributes: list[str]
    up: list[str] = field(default_factory=list)
    down: list[str] = field(default_factory=list)


def parse(text: str) -> list[Changeset]:
    """Read a changelog as Liquibase's documentation describes formatted SQL."""
    head, *lines = text.splitlines()
    assert head == "--liquibase formatted sql"
    changesets: list[Changeset] = []
    statement: list[str] = []
    for line in lines:
        if match := CHANGESET.fullmatch(line):
            assert not statement, "a statement without its end"
            changesets.append(Changeset(match["id"], match["attributes"].split()))
        elif line.startswith(("--comment ", "--validCheckSum: ")) or line in (
            "",
            "--rollback empty",
        ):
            continue
        else:
            target = changesets[-1].down if line.startswith("--rollback ") else changesets[-1].up
            line = line.removeprefix("--rollback ")
            assert not line.startswith("--")
            if line == "/":
                target.append("\n".join(statement))
                statement = []
            else:
                statement.append(line)
    assert not statement
    return changesets


@pytest.fixture
def changelog(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """The changelog for an owner without a working user."""
    monkeypatch.setenv("MEMORIST_DATABASE", OWNER)
    assert main.main(["migrate", "liquibase", "-"]) == 0
    return capsys.readouterr().out


def test_each_migration_is_a_changeset_with_a_rollback(changelog: str) -> None:
    changesets = parse(changelog)
    numbers = [f"{migration.number:04}" for migration in shipped()]
    assert [changeset.id for changeset in changesets] == numbers
    for changeset in changesets:
        assert changeset.attributes == ATTRIBUTES
        assert changeset.up, "Liquibase rejects a changeset without SQL"
        assert changeset.down, "Liquibase cannot roll back a changeset without a rollback"


def test_rights_of_a_working_user(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEMORIST_DATABASE", WORKER)
    monkeypatch.setenv("MEMORIST_OWNER_DATABASE", OWNER)
    assert main.main(["migrate", "liquibase", "-"]) == 0
    *migrations, grants, policies = parse(capsys.readouterr().out)
    assert (grants.id, policies.id) == ("grants", "policies")
    assert "runOnChange:true" in grants.attributes
    # Policies are not in every edition.
    assert {"runOnChange:true", "failOnError:false"} <= set(policies.attributes)
    assert grants.up == list(security.grants(list(schema().keys), "MEMORIST_APP"))
    assert policies.up == list(security.policies("MEMORIST_OWNER", "MEMORIST_APP"))
    # The owner is bound by the policies, too: without this it would change no rows.
    for changeset in migrations:
        assert security.MIGRATE in changeset.up[0]
        assert security.MIGRATE in changeset.down[0]


def test_a_changelog_in_a_file(
    tmp_path: Path, changelog: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "changelog.sql"
    assert main.main(["migrate", "liquibase", str(path)]) == 0
    assert str(len(shipped())) in capsys.readouterr().out
    assert path.read_text(encoding="utf-8") == changelog
    assert main.main(["migrate", "liquibase", str(tmp_path / "no folder/changelog.sql")]) == 2
    assert "no folder" in capsys.readouterr().err


def test_without_an_oracle_database_in_the_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["migrate", "liquibase", "-"]) == 0
    assert len(parse(capsys.readouterr().out)) == len(shipped())


@pytest.fixture
def h2() -> Iterator[H2Connection]:
    database = H2Database()
    with database.connect() as connection:
        yield connection
    database.close()


def one(connection: H2Connection, statement: str) -> object:
    cursor = connection.cursor()
    cursor.execute(statement)
    return (cursor.fetchone() or (None,))[0]


def test_changesets_and_rollbacks_on_h2(h2: H2Connection, changelog: str) -> None:
    """The statements leave the schema as memorist's own migrations do, and nothing after all rollbacks."""
    cursor = h2.cursor()
    changesets = parse(changelog)
    for changeset in changesets:
        for statement in changeset.up:
            cursor.execute(statement)
        assert one(h2, VERSION) == int(changeset.id)
    assert one(h2, 'select count(*) from "memorist_locks"') == LOCK_BUCKETS + 1
    age = 'select max(abs("applied_at" / 1000000 - extract(epoch from systimestamp))) from "memorist_schema"'
    assert float(str(one(h2, age))) < 3600
    cursor.execute(TABLES)
    tables = {name for (name,) in cursor}
    assert tables == {*schema().keys, "memorist_schema", "memorist_locks"}
    for changeset in reversed(changesets):
        for statement in changeset.down:
            cursor.execute(statement)
    assert one(h2, TABLES) is None


def liquibase(folder: Path, url: str, *words: str) -> str:
    """Run Liquibase in a folder with `changelog.sql`, and return what it prints."""
    if not (LIQUIBASE / "ready").exists() or not JAR.exists():
        skip_without_tools("Liquibase or H2")
    command = ["java", "-cp", f"{JAR}:{LIQUIBASE}/*"]
    command += ["liquibase.integration.commandline.LiquibaseCommandLine", "--show-banner=false"]
    command += ["--changelog-file=changelog.sql", f"--url={url}", "--username=sa", "--password="]
    done = subprocess.run(
        [*command, *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_liquibase_updates_and_rolls_back(tmp_path: Path, changelog: str) -> None:
    file = tmp_path / "changelog.sql"
    file.write_text(in_h2(changelog.replace("dbms:oracle", "dbms:h2")), encoding="utf-8")
    url = f"jdbc:h2:{tmp_path}/app;MODE=Oracle"
    count = len(shipped())
    assert re.search(rf"Run: +{count}\n", liquibase(tmp_path, url, "update"))
    # A later version of memorist may write the same statements differently.
    file.write_text(file.read_text().replace("CREATE INDEX", "create index"), encoding="utf-8")
    assert re.search(rf"Previously run: +{count}\n", liquibase(tmp_path, url, "update"))
    printed = liquibase(tmp_path, url, "rollback-count", f"--count={count}")
    assert printed.count("Rolling Back Changeset") == count
    assert f"{count} changesets have not been applied" in liquibase(tmp_path, url, "status")


@pytest.mark.slow
def test_liquibase_splits_the_statements_for_oracle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a server, Liquibase prints what it would run on Oracle: PL/SQL stays whole."""
    monkeypatch.setenv("MEMORIST_DATABASE", WORKER)
    monkeypatch.setenv("MEMORIST_OWNER_DATABASE", OWNER)
    file = tmp_path / "changelog.sql"
    assert main.main(["migrate", "liquibase", str(file)]) == 0
    url = "offline:oracle?version=19.0&changeLogFile=history.csv"
    printed = liquibase(tmp_path, url, "update-sql")
    for changeset in parse(file.read_text(encoding="utf-8")):
        for statement in changeset.up:
            assert f"{statement}/\n" in printed

"""The audit against the memory designs that memorist is based on: every item that should work does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "audit_designs.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False
    )


@pytest.mark.timeout(900)
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_every_item_of_the_audit_that_should_work_does(
    database: str, request: pytest.FixtureRequest
) -> None:
    is_server = database == "postgresql"
    where = ("--database", request.getfixturevalue("postgres_url")) if is_server else ()
    done = run("--json", *where)
    assert not done.stderr
    audit = json.loads(done.stdout)
    assert audit["failures"] == []
    assert done.returncode == 0
    assert audit["totals"]["items"] > 160
    items = {item["id"]: item for items in audit["designs"].values() for item in items}
    assert len(items) == audit["totals"]["items"]
    assert items["sql-53"]["status"] == "not checked"  # there is no Oracle server
    for id in ("stm-48", "sql-39", "sql-40"):  # roles and row-level security
        assert items[id]["status"] == ("works" if is_server else "not checked")


def test_another_database_is_no_oracle_server(tmp_path: Path) -> None:
    done = run("--json", "--only", "sql-53", "--oracle", f"sqlite:///{tmp_path}/other.db")
    (item,) = [item for items in json.loads(done.stdout)["designs"].values() for item in items]
    assert (item["id"], item["status"], done.returncode) == ("sql-53", "partly", 1)


def test_an_unknown_name_is_an_error() -> None:
    done = run("--only", "no_such_design")
    assert done.returncode == 2
    assert "the designs are short-term, journal" in done.stderr

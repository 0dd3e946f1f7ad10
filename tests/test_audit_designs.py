"""The audit against the memory designs that memorist is based on: every item that should work does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

LEAST_ITEMS = {
    "short-term": 60,
    "journal": 55,
    "references": 50,
    "summaries": 35,
    "conversations": 60,
}
"""The designs, with a number of items that each has at least."""
NEED_A_SERVER = {"short-term": {"stm-48"}, "conversations": {"sql-39", "sql-40", "sql-53"}}
"""Items about roles and row-level security, and about an Oracle server."""
SCRIPT = Path(__file__).parent.parent / "scripts" / "audit_designs.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False
    )


def items_of(only: str, url: str = "") -> dict[str, str]:
    """Run a part of the audit, without failures; return the status of each item by its id."""
    done = run("--json", "--only", only, *(["--database", url] if url else []))
    assert not done.stderr
    audit = json.loads(done.stdout)
    assert audit["failures"] == []
    assert done.returncode == 0
    items = [item for items in audit["designs"].values() for item in items]
    statuses = {item["id"]: item["status"] for item in items}
    assert len(statuses) == len(items) == audit["totals"]["items"]
    return statuses


@pytest.mark.parametrize(("design", "least"), LEAST_ITEMS.items(), ids=[*LEAST_ITEMS])
def test_every_item_of_the_audit_that_should_work_does(design: str, least: int) -> None:
    statuses = items_of(design)
    assert len(statuses) >= least
    unchecked = {id for id, status in statuses.items() if status == "not checked"}
    assert unchecked >= NEED_A_SERVER.get(design, set())


@pytest.mark.slow
@pytest.mark.parametrize("design", LEAST_ITEMS)
def test_every_item_works_on_a_server(design: str, postgres_url: str) -> None:
    statuses = items_of(design, postgres_url)
    assert {id for id in NEED_A_SERVER.get(design, set()) if statuses[id] != "works"} <= {"sql-53"}


def test_items_about_a_server_work_on_one(postgres_url: str) -> None:
    """Those about roles and row-level security are not checked in a file."""
    statuses = items_of("safety", postgres_url)
    assert (statuses["sql-39"], statuses["sql-40"]) == ("works", "works")
    assert items_of("notes", postgres_url)["stm-48"] == "works"


def test_another_database_is_no_oracle_server(tmp_path: Path) -> None:
    done = run("--json", "--only", "operating", "--oracle", f"sqlite:///{tmp_path}/other.db")
    audit = json.loads(done.stdout)
    statuses = {item["id"]: item["status"] for item in audit["designs"]["conversations"]}
    assert (statuses["sql-53"], audit["failures"], done.returncode) == ("partly", ["sql-53"], 1)


def test_an_unknown_name_is_an_error() -> None:
    done = run("--only", "no_such_design")
    assert done.returncode == 2
    assert "the designs are short-term, journal" in done.stderr

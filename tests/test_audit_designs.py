"""The audit against the memory designs that retain is based on: every item that should work does."""

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


@pytest.mark.slow
def test_every_item_of_the_audit_that_should_work_does() -> None:
    done = run("--json")
    audit = json.loads(done.stdout)
    assert audit["failures"] == []
    assert done.returncode == 0
    assert audit["totals"]["items"] > 160
    ids = [item["id"] for items in audit["designs"].values() for item in items]
    assert len(set(ids)) == len(ids)


@pytest.mark.slow
def test_an_unknown_name_is_an_error() -> None:
    done = run("--only", "no_such_design")
    assert done.returncode == 2
    assert "the designs are short-term, journal" in done.stderr

"""`memorist audit`, and the audit rows of commands."""

from __future__ import annotations

import getpass
import json
from pathlib import Path

import pytest

from memorist import Memory
from memorist.cli.main import main


def test_commands_are_audited(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """3.2 item 12: changes, keys, exports, imports, purges and erasures, with the user's name; a
    typo creates no tenant.
    """
    where = ["--database", f"sqlite:///{tmp_path}/a.db"]
    mine = [*where, "--tenant", "acme"]
    file = str(tmp_path / "all.jsonl")
    assert main(["state", "set", "theme", '"dark"', "--user", "ada", *mine]) == 0
    capsys.readouterr()
    assert main(["keys", "add", "ci", "--json", *mine]) == 0
    key = json.loads(capsys.readouterr().out)["id"]
    assert main(["export", file, "--user", "ada", *mine]) == 0
    assert main(["import", file, *where]) == 0
    assert main(["purge", "--days", "9", *mine]) == 0
    assert main(["purge", "--emergency", *mine]) == 0
    (tmp_path / ".there.jsonl.lock").mkdir()
    for refused in (file, str(tmp_path / "there.jsonl"), str(tmp_path / "no" / "folder.jsonl")):
        assert main(["export", refused, *mine]) == 2
    assert main(["erase", "--user", "ada", "--yes", *mine]) == 0
    assert main(["export", str(tmp_path / "no.jsonl"), *where, "--tenant", "typo"]) == 3
    capsys.readouterr()
    assert main(["audit", "--json", *mine]) == 0
    result = json.loads(capsys.readouterr().out)["data"][::-1]
    assert {record["who"] for record in result} == {f"cli:{getpass.getuser()}"}
    change = result.pop(0)
    assert change["what"] == "state_set"
    assert change["subject"].startswith("sha256:")  # the erasure hashed it
    assert [(record["what"], record["subject"]) for record in result] == [
        ("keys_add", f"keys {key}"),
        ("export", "users ada"),
        ("import", "import"),
        ("purge", "purge"),
        ("purge", "emergency"),
        ("users_erase", "users ada"),
    ]
    with Memory.open(where[1]) as memory:
        assert memory.tenants() == ["acme"]

"""`memorist keys` at the terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memorist import Memory
from memorist.admin.credentials import KeyChecker
from memorist.base.errors import Unauthorized
from memorist.cli.main import main


def test_a_key_is_printed_alone_and_works_until_revoked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--database", f"sqlite:///{tmp_path}/a.db"]
    add = ["keys", "add", "ci", "--permissions", "write, read", "--tenant", "acme"]
    add += ["--user", "ada", "--days", "90"]
    assert main([*add, *where]) == 0
    out, message = capsys.readouterr()
    text = out.removesuffix("\n")
    assert text.startswith("mst_")
    assert "\n" not in text
    assert text not in message
    with Memory.open(where[1]) as memory:
        admitted = KeyChecker(memory.database).authenticate(text)
    principal = admitted.principal
    assert (principal.tenant, principal.user, sorted(principal.permissions)) == (
        "acme",
        "ada",
        ["read", "write"],
    )
    assert admitted.seconds == pytest.approx(90 * 86400, rel=0.001)
    assert main(["keys", "list", "--tenant", "acme", "--json", *where]) == 0
    (listed,) = json.loads(capsys.readouterr().out)["data"]
    assert (listed["id"], listed["name"]) == (admitted.key, "ci")
    assert main(["keys", "revoke", listed["id"], "--tenant", "acme", *where]) == 0
    with Memory.open(where[1]) as memory, pytest.raises(Unauthorized):
        KeyChecker(memory.database).authenticate(text)


def test_json_output_is_one_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "add", "ci", "--json", "--database", f"sqlite:///{tmp_path}/a.db"]) == 0
    payload = json.loads(capsys.readouterr().out)
    assert payload["key"].startswith("mst_")
    assert (payload["permissions"], payload["expires_at"]) == (["read", "write"], None)


def test_the_first_key_warns_that_keyless_access_ends_and_about_missing_admins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, more, closes, warns in (
        ("a", ["--json"], True, True),
        ("b", [], False, False),
        ("c", ["--permissions", "admin"], True, False),
    ):
        where = ["--database", f"sqlite:///{tmp_path}/{'a' if name == 'b' else name}.db"]
        assert main(["keys", "add", name, *more, *where]) == 0
        stderr = capsys.readouterr().err
        assert ("every request to its server needs a key" in stderr, "WARNING" in stderr) == (
            closes,
            warns,
        ), name


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["add", "x", "--permissions", "root"], 2),
        (["add", "x", "--permissions", ""], 2),
        (["add", "x", "--days", "-1"], 2),
        (["add", "x", "--days", "1e99"], 2),
        (["add", "x", "--days", "nan"], 2),
        (["add", " "], 2),
        (["revoke", "nope"], 3),
        (["list", "--limit", "0"], 2),
    ],
)
def test_errors_name_the_cause(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], status: int
) -> None:
    where = ["--database", f"sqlite:///{tmp_path}/a.db"]
    Memory.open(where[1]).close()
    assert main(["keys", *words, *where]) == status
    assert capsys.readouterr().err.startswith("memorist: ")

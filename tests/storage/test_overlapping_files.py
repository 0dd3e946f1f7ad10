"""Commands that write a file: two at once to one name, and one that is killed in between."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from memorist import Memory
from memorist.base import limits
from memorist.base.errors import FileInUse, Invalid
from memorist.base.settings import Settings
from memorist.cli.main import main
from memorist.storage import files
from memorist.storage.connect import liquibase_changelog
from testkit.databases import SETTINGS

COMMANDS = ["backup", "export", "migrate liquibase"]


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with contents in files, which the commands use."""
    monkeypatch.setattr(limits, "REF_FILE_BYTES", 1_000)
    url = f"sqlite:///{tmp_path}/agent.db"
    with Memory.open(url, settings=SETTINGS) as memory:
        me = memory.scope(tenant="acme", user="ada", agent="scout")
        for number in range(20):
            me.refs.add(f"{number} ".encode() * 2_000, key=f"ref-{number}")
    monkeypatch.setenv("MEMORIST_DATABASE", url)
    monkeypatch.setenv("MEMORIST_TENANT", "acme")
    return url


@contextmanager
def stopped_before_renaming(command: str, target: Path) -> Iterator[int]:
    """Yield a process that runs a command, stopped just before the file gets its name."""
    process = os.fork()
    if process == 0:

        def stop(event: str, arguments: tuple[Any, ...]) -> None:
            if event == "os.rename" and Path(os.fsdecode(arguments[1])) == target:
                os.kill(os.getpid(), signal.SIGSTOP)

        sys.addaudithook(stop)
        status = 70
        try:
            status = main([*command.split(), str(target), "--json"])
        finally:
            os._exit(status)
    try:
        assert os.WIFSTOPPED(os.waitpid(process, os.WUNTRACED)[1])
        yield process
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def finish(process: int) -> int:
    """Continue a stopped process, and return its exit status."""
    os.kill(process, signal.SIGCONT)
    status = os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
    assert status is not None
    return status.si_status


def check_complete(command: str, target: Path, tmp_path: Path) -> None:
    if command == "migrate liquibase":
        assert target.read_text() == liquibase_changelog(Settings())
        return
    url = f"sqlite:///{target}"
    if command == "export":
        url = f"sqlite:///{tmp_path}/imported.db"
        with Memory.open(url, settings=SETTINGS) as imported:
            imported.import_(target)
    with Memory.open(url, settings=SETTINGS) as memory:
        me = memory.scope(tenant="acme", user="ada", agent="scout")
        for number in range(20):
            assert me.refs.content(f"ref-{number}") == f"{number} ".encode() * 2_000
        assert [finding for finding in memory.verify() if not finding.ok] == []


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_second_run_to_one_name_says_that_one_is_running(
    command: str, database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    target = folder / "copy"
    with stopped_before_renaming(command, target) as running:
        assert not target.exists()
        before = names(folder)
        assert main([*command.split(), str(target), "--json"]) == FileInUse.exit_code
        error = json.loads(capsys.readouterr().err.splitlines()[-1])
        assert (error["error"], error["details"]) == ("FileInUse", {"path": str(target)})
        assert (names(folder), target.exists()) == (before, False)
        other = main([*command.split(), str(folder / "other"), "--json"])
        assert finish(running) == other == 0
    expected = {"copy", "other"}
    assert names(folder) == expected | (
        {"copy-refs", "other-refs"} if command == "backup" else set()
    )
    check_complete(command, target, tmp_path)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_killed_run_leaves_nothing_that_looks_finished_or_blocks_the_next(
    command: str, database: str, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    target = folder / "copy"
    with stopped_before_renaming(command, target):
        pass
    assert not target.exists()
    assert main([*command.split(), str(target), "--json"]) == 0
    assert names(folder) == {"copy"} | ({"copy-refs"} if command == "backup" else set())
    check_complete(command, target, tmp_path)


def test_a_file_that_appears_meanwhile_is_not_overwritten(database: str, tmp_path: Path) -> None:
    target = tmp_path / "copy"

    def write() -> None:
        with files.new_file(target) as partial:
            partial.write_text("new")
            target.write_text("theirs")

    with pytest.raises(Invalid, match="already exists"):
        write()
    assert target.read_text() == "theirs"
    assert names(tmp_path) >= {"copy"}
    assert not list(tmp_path.glob(".copy*"))

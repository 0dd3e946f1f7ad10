"""Backups: complete under their name or not there, repeatable after a kill, and checked by `memorist doctor`."""

from __future__ import annotations

import errno
import itertools
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from memorist import Memory
from memorist.base import limits
from memorist.base.errors import Invalid
from memorist.cli.main import main
from memorist.storage.postgres import dump
from testkit.databases import SETTINGS
from testkit.servers import modern_binaries
from testkit.sizes import FULL

FILE_EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree"}
CONTENTS = [b"small", b"x" * 5_000, b"y" * 20_000]


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A closed SQLite database with contents in files."""
    monkeypatch.setattr(limits, "REF_FILE_BYTES", 1_000)
    path = tmp_path / "agent.db"
    with Memory.open(f"sqlite:///{path}", settings=SETTINGS) as memory:
        me = memory.scope(tenant="acme", user="ada", agent="scout")
        for number, content in enumerate(CONTENTS):
            me.refs.add(content, key=f"ref-{number}")
    return path


def back_up_until(event_number: int, source: Path, target: Path) -> bool:
    """Back up in a child process that dies at a file system event; return True if it finished."""
    child = os.fork()
    if child == 0:
        memory = Memory.open(f"sqlite:///{source}", settings=SETTINGS)
        events = itertools.count()

        def die(event: str, arguments: Any) -> None:
            if event in FILE_EVENTS and next(events) == event_number:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(die)
        memory.backup(target)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def check_complete(target: Path) -> None:
    with Memory.open(f"sqlite:///{target}", settings=SETTINGS) as copy:
        me = copy.scope(tenant="acme", user="ada", agent="scout")
        for number, content in enumerate(CONTENTS):
            assert me.refs.content(f"ref-{number}") == content
        assert [finding for finding in copy.verify() if not finding.ok] == []


def doctor(capsys: pytest.CaptureFixture[str], file: Path) -> tuple[int, str]:
    """Return the exit status of `memorist doctor --backup` and what it found."""
    status = main(["doctor", "--backup", str(file), "--json"])
    (check,) = json.loads(capsys.readouterr().out)["checks"]
    assert check["check"] == "backup"
    return status, check["found"]


def test_a_killed_backup_never_looks_finished_and_can_be_repeated(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 14, 5: killed at every third file system event; CHAOS=full tries all of them."""
    for number in itertools.count(step=1 if FULL else 3):
        folder = tmp_path / f"backup {number}"
        folder.mkdir()
        target = folder / "copy.db"
        finished = back_up_until(number, source, target)
        if target.exists():
            assert doctor(capsys, target)[0] == 0
        else:
            assert doctor(capsys, target)[0] == 1
            with Memory.open(f"sqlite:///{source}", settings=SETTINGS) as memory:
                memory.backup(target)
            assert sorted(path.name for path in folder.iterdir()) == ["copy.db", "copy.db-refs"]
            assert not (folder / "copy.db-refs" / "unfinished-backup").exists()
        check_complete(target)
        shutil.rmtree(folder)
        if finished:
            break
    assert number > 10, "the backup was never killed in the middle"


def test_a_backup_does_not_remove_the_contents_of_another_database(
    source: Path, tmp_path: Path
) -> None:
    contents = tmp_path / "copy.db-refs"
    contents.mkdir()
    (contents / "theirs").write_text("of somebody")
    with (
        Memory.open(f"sqlite:///{source}", settings=SETTINGS) as memory,
        pytest.raises(Invalid, match="a backup never overwrites"),
    ):
        memory.backup(tmp_path / "copy.db")
    assert (contents / "theirs").read_text() == "of somebody"
    assert not (tmp_path / "copy.db").exists()


def test_a_backup_that_fails_at_the_end_leaves_no_contents(source: Path, tmp_path: Path) -> None:
    """A file of its name appears while it runs."""
    target = tmp_path / "copy.db"
    before = {path.name for path in tmp_path.iterdir()}
    with (
        Memory.open(f"sqlite:///{source}", settings=SETTINGS) as memory,
        pytest.raises(Invalid, match="already exists"),
    ):
        memory.services.blobs.backup(target, check=target.touch)
    assert {path.name for path in tmp_path.iterdir()} == before | {"copy.db"}


def test_doctor_finds_what_is_wrong_with_a_backup(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "copy.db"
    with Memory.open(f"sqlite:///{source}", settings=SETTINGS) as memory:
        memory.backup(target)
    before = target.read_bytes()
    assert doctor(capsys, target)[0] == 0
    assert target.read_bytes() == before
    assert not (tmp_path / "copy.db-wal").exists()
    stored = [path for path in (tmp_path / "copy.db-refs").rglob("*.*") if path.is_file()]
    stored[0].write_bytes(b"z" * stored[0].stat().st_size)
    status, found = doctor(capsys, target)
    assert (status, "is damaged" in found) == (1, True)
    stored[0].unlink()
    status, found = doctor(capsys, target)
    assert (status, "is missing" in found) == (1, True)
    target.write_bytes(before[: len(before) // 2])
    assert doctor(capsys, target)[0] == 1
    target.write_text("no database")
    assert doctor(capsys, target) == (1, f"{target}: is not a backup of memorist.")


def test_doctor_checks_a_dump(
    postgres_url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "REF_FILE_BYTES", 1_000)
    monkeypatch.setenv("PATH", f"{modern_binaries()}:{os.environ['PATH']}")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(modern_binaries().parent / "lib"))
    target = tmp_path / "copy.dump"
    settings = SETTINGS.__class__(ref_folder=str(tmp_path / "refs"))
    with Memory.open(postgres_url, settings=settings) as memory:
        memory.scope(tenant="acme", user="ada").refs.add(b"x" * 5_000)
        memory.backup(target)
    assert doctor(capsys, target)[0] == 0
    (stored,) = (path for path in (tmp_path / "copy.dump-refs").rglob("*.*") if path.is_file())
    checks = [finding.check for finding in dump.verify_dump(target)]
    assert checks == [
        "the dump can be read to its end",
        "every content in a file is what its hash says",
    ]

    def fail(file: IO[bytes]) -> Iterator[bytes]:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(dump, "chunks", fail)
        status, found = doctor(capsys, target)
        assert (status, "cannot be read: Input/output error" in found) == (1, True)
    stored.write_bytes(b"z" * 5_000)
    status, found = doctor(capsys, target)
    assert (status, "is damaged" in found) == (1, True)
    target.write_bytes(target.read_bytes()[:-2_000])
    status, found = doctor(capsys, target)
    assert (status, "can be read to its end" in found) == (1, True)

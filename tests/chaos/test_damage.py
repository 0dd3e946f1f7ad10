"""Unusable files (F12): each gets an error with the reason, and none is deleted, replaced or
written to.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from memorist import Memory
from memorist.base import limits
from memorist.base.errors import Corrupt, NotOurs, ReadOnly, StorageError, Unreachable
from memorist.cli.main import main
from memorist.storage.sqlite.connection import APPLICATION_ID
from memorist.storage.sqlite.log_check import lost_commits
from testkit.databases import SETTINGS
from testkit.servers import without_root
from tests.chaos.history import messages_of
from tests.chaos.writer import ROOT, SESSION, scope_of

PAGE = 4096


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A closed database with a few pages of messages."""
    path = tmp_path / "agent.db"
    with Memory.open(f"sqlite:///{path}", settings=SETTINGS) as memory:
        me = scope_of(memory)
        me.sessions.add(SESSION)
        for number in range(60):
            me.messages.append(SESSION, "user", f"{number}".ljust(2_000, "."))
    return path


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder with its bytes."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def use(path: Path) -> None:
    """Open, read everything, and write."""
    with Memory.open(f"sqlite:///{path}", settings=SETTINGS) as memory:
        me = scope_of(memory)
        me.messages.window(SESSION)
        me.messages.append(SESSION, "user", "more")


def assert_rejected(path: Path, error: type[StorageError]) -> str:
    """Check that using the file raises the error and changes nothing; return the message."""
    before = contents(path.parent)
    with pytest.raises(error) as raised:
        use(path)
    assert contents(path.parent) == before
    assert str(path) in str(raised.value)
    return str(raised.value)


def test_a_damaged_page_is_reported_and_left_alone(file: Path) -> None:
    image = bytearray(file.read_bytes())
    for page in range(len(image) // PAGE // 2, len(image) // PAGE):
        image[page * PAGE : page * PAGE + 200] = random.randbytes(200)
    file.write_bytes(image)
    assert "restore a backup" in assert_rejected(file, Corrupt)


def test_verify_finds_damage_that_no_read_has_met(file: Path) -> None:
    """A changed page number in an index: messages are readable, and verify names the place."""
    connection = apsw.Connection(str(file))
    root = connection.execute(
        "select rootpage from sqlite_master where name = 'sessions_by_user'"
    ).fetchall()[0][0]
    connection.close()
    image = bytearray(file.read_bytes())
    start = (int(str(root)) - 1) * PAGE
    image[start + 8 : start + PAGE] = bytes(PAGE - 8)
    file.write_bytes(image)
    with Memory.open(f"sqlite:///{file}", settings=SETTINGS) as memory:
        assert len(messages_of(scope_of(memory), SESSION)) == 60
        try:
            findings = [finding.check for finding in memory.verify() if not finding.ok]
        except Corrupt as error:
            findings = [str(error)]
    assert findings, "the damage went unseen"
    assert file.read_bytes() == bytes(image)


def test_a_damaged_header_is_not_taken_for_a_new_file(file: Path) -> None:
    image = bytearray(file.read_bytes())
    image[:100] = random.randbytes(100)
    file.write_bytes(image)
    assert "not an SQLite file" in assert_rejected(file, NotOurs)


@pytest.mark.parametrize("kept", [0.0, 0.37, 0.9])
def test_a_truncated_wal_gives_a_prefix(tmp_path: Path, kept: float) -> None:
    """A copy without the end of its write-ahead log has a complete prefix, and is writable."""
    with Memory.open(f"sqlite:///{tmp_path}/agent.db", settings=SETTINGS) as memory:
        me = scope_of(memory)
        me.sessions.add(SESSION)
        memory.database.compact()
        for number in range(60):
            me.messages.append(SESSION, "user", f"{number}".ljust(2_000, "."))
        copy = tmp_path / "copy"
        copy.mkdir()
        (copy / "agent.db").write_bytes((tmp_path / "agent.db").read_bytes())
        log = (tmp_path / "agent.db-wal").read_bytes()
    (copy / "agent.db-wal").write_bytes(log[: int(len(log) * kept)])
    with Memory.open(f"sqlite:///{copy}/agent.db", settings=SETTINGS) as memory:
        me = scope_of(memory)
        result = messages_of(me, SESSION)
        assert result == [(number + 1, f"{number}") for number in range(len(result))]
        assert len(result) < 60
        assert me.messages.append(SESSION, "user", "more").seq == len(result) + 1
        assert [f for f in memory.verify() if not f.ok and "only its owner" not in f.check] == []


def test_our_files_have_our_application_id(file: Path) -> None:
    assert apsw.Connection(str(file)).pragma("application_id") == APPLICATION_ID


def test_a_file_that_is_no_database_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    path.write_text("Dear diary, " * 1_000)
    assert "not an SQLite file" in assert_rejected(path, NotOurs)


def test_a_database_of_another_program_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    connection = apsw.Connection(str(path))
    connection.execute("create table bookmarks (url text); insert into bookmarks values ('x')")
    connection.close()
    assert "another program" in assert_rejected(path, NotOurs)


def test_an_empty_database_of_another_program_is_rejected(tmp_path: Path) -> None:
    """It has no table yet, and a foreign application id."""
    path = tmp_path / "agent.db"
    connection = apsw.Connection(str(path))
    connection.pragma("application_id", 42)
    connection.close()
    assert "another program" in assert_rejected(path, NotOurs)


def test_a_folder_instead_of_a_file_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    path.mkdir()
    (path / "kept").write_text("kept")
    assert_rejected(path, Unreachable)
    assert contents(path) == {"kept": b"kept"}


def test_a_missing_folder_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="missing"):
        use(tmp_path / "missing" / "agent.db")
    assert list(tmp_path.iterdir()) == []


READ_ONLY = """
import json, sys
from memorist import Memory, Settings
from memorist.base.errors import MemoristError
said = {}
try:
    with Memory.open("sqlite:///" + sys.argv[1], settings=Settings()) as memory:
        me = memory.scope(tenant="acme", user="ada", agent="scout")
        said["read"] = len(me.messages.window("s"))
        me.messages.append("s", "user", "more")
except MemoristError as error:
    said["error"] = type(error).__name__
    said["text"] = str(error)
print(json.dumps(said))
"""


def as_somebody_else(path: Path) -> dict[str, Any]:
    """Return the result of a process without root privileges."""
    command = without_root([sys.executable, "-c", READ_ONLY, str(path)])
    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HOME": "/"},
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can reach."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o700)


@pytest.mark.parametrize(
    ("file_mode", "folder_mode"), [(0o444, 0o777), (0o444, 0o555), (0o666, 0o555)]
)
def test_a_read_only_file_or_folder(open_folder: Path, file_mode: int, folder_mode: int) -> None:
    """Without root privileges the error says that the database is read-only, and why."""
    path = open_folder / "agent.db"
    with Memory.open(f"sqlite:///{path}", settings=SETTINGS) as memory:
        me = scope_of(memory)
        me.sessions.add(SESSION)
        me.messages.append(SESSION, "user", "hello")
    path.chmod(file_mode)
    open_folder.chmod(folder_mode)
    before = path.read_bytes()
    answer = as_somebody_else(path)
    assert answer["read"] == 1
    assert answer["error"] == "ReadOnly"
    assert str(path) in answer["text"]
    assert path.read_bytes() == before
    assert [file.name for file in open_folder.iterdir()] == ["agent.db"]


def test_doctor_reports_a_read_only_file(open_folder: Path) -> None:
    path = open_folder / "agent.db"
    Memory.open(f"sqlite:///{path}", settings=SETTINGS).close()
    path.chmod(0o444)
    doctor = [sys.executable, "-m", "memorist", "doctor", "--database", f"sqlite:///{path}"]
    done = subprocess.run(
        without_root(doctor),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HOME": "/"},
    )
    assert done.returncode == 1, done.stderr
    assert "It is read-only" in done.stdout
    assert "Check the permissions of the file" in done.stdout


def test_a_file_of_another_user_cannot_be_opened(open_folder: Path) -> None:
    """Databases are accessible to their owner only."""
    path = open_folder / "agent.db"
    Memory.open(f"sqlite:///{path}", settings=SETTINGS).close()
    before = path.read_bytes()
    if os.getuid() != 0:
        path.chmod(0)
    assert as_somebody_else(path)["error"] in ("Unreachable", "ReadOnly")
    path.chmod(0o600)
    assert path.read_bytes() == before


def test_an_inaccessible_folder(open_folder: Path) -> None:
    """Not a bare PermissionError."""
    folder = open_folder / "closed"
    folder.mkdir(mode=0o700 if os.getuid() == 0 else 0o000)
    assert as_somebody_else(folder / "agent.db")["error"] == "Unreachable"
    folder.chmod(0o700)
    assert list(folder.iterdir()) == []


def test_doctor_finds_commits_behind_a_flipped_bit_of_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 14, 5: SQLite drops them in silence, with every check of the file passed."""
    path = tmp_path / "agent.db"
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    copy = crashed / "agent.db"
    log = crashed / "agent.db-wal"
    with Memory.open(f"sqlite:///{path}", settings=SETTINGS) as memory:
        for number in range(5):
            scope_of(memory).sessions.add(f"session {number}")
        shutil.copy(path, copy)
        shutil.copy(tmp_path / "agent.db-wal", log)

    def doctor() -> tuple[int, str]:
        status = main(["doctor", "--database", f"sqlite:///{copy}"])
        return status, capsys.readouterr().out

    assert lost_commits(log) == 0
    before = log.read_bytes()
    frame = 24 + PAGE
    for number in (0, 1, (len(before) // frame) // 2):
        damaged = bytearray(before)
        damaged[32 + number * frame + 1000] ^= 1
        log.write_bytes(damaged)
        status, out = doctor()
        assert (status, "commits in it are lost" in out) == (1, True)
        assert log.read_bytes() == damaged, "doctor opened the file"
    log.write_bytes(before[: -frame // 2])  # a torn last write is no damage
    assert lost_commits(log) == 0
    log.write_bytes(before)
    assert doctor()[0] == 0


def test_a_read_only_disk_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read-only mount, which applies to root too."""
    monkeypatch.setattr(limits, "REF_FILE_BYTES", 1000)
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "tmpfs", str(disk)], capture_output=True, check=False
    ).returncode:
        if os.environ.get("CI"):
            pytest.fail("cannot mount a disk")
        pytest.skip("mounting a disk is not permitted here (it needs root)")
    try:
        path = disk / "agent.db"
        with Memory.open(f"sqlite:///{path}", settings=SETTINGS) as memory:
            me = scope_of(memory)
            me.sessions.add(SESSION)
            me.messages.append(SESSION, "user", "the lighthouse keeper")
            key = me.refs.add("x" * 5000, "big").key
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        before = contents(disk)
        with Memory.open(f"sqlite:///{path}", settings=SETTINGS) as memory:
            me = scope_of(memory)
            assert len(me.messages.window(SESSION)) == 1
            assert me.search("lighthouse").hits
            assert me.refs.content(key) == b"x" * 5000
            assert [finding for finding in memory.verify() if not finding.ok] == []
            memory.export(tmp_path / "export.jsonl")
            memory.backup(tmp_path / "copy.db")
            with pytest.raises(ReadOnly, match=str(path)):
                me.messages.append(SESSION, "user", "more")
        assert contents(disk) == before
        assert main(["search", "lighthouse", "--database", f"sqlite:///{path}"]) == 0
        assert contents(disk) == before
        with pytest.raises((ReadOnly, Unreachable)):
            Memory.open(f"sqlite:///{disk}/new.db", settings=SETTINGS)
        assert contents(disk) == before
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)

"""Disk faults: failing system calls at any time, and a disk that fills up."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from memorist import Memory, Scope
from memorist.base.errors import Full
from memorist.storage import files
from memorist.storage.sqlite import engine as sqlite
from testkit import sizes
from testkit.databases import SETTINGS
from tests.chaos.history import from_log, messages_of
from tests.chaos.writer import SESSION, Job, scope_of, start

FAULTS = [
    (call, error, number)
    for call, numbers in sizes.FAULTS.items()
    for error in ("EIO", "ENOSPC")
    for number in numbers
]


@pytest.mark.parametrize(("call", "error", "number"), FAULTS)
def test_a_failed_system_call_is_a_typed_error_and_never_a_false_acknowledgement(
    tmp_path: Path, call: str, error: str, number: int
) -> None:
    """Nothing acknowledged is lost, the file is intact, and the process continues after the
    fault.
    """
    if shutil.which("strace") is None and not os.environ.get("CI"):
        pytest.skip("strace is not installed: run the tests with `make test`")
    url, log = f"sqlite:///{tmp_path}/agent.db", tmp_path / "log"
    job = Job(
        url,
        str(log),
        "f",
        threads=2,
        writes=100,
        size=8_000,
        log_mib=1,  # so that the log is restarted occasionally
        tries=50,
        pause=0.02,
    )
    strace = [
        "strace",
        "-f",
        "-qq",
        "--seccomp-bpf",
        "-o",
        str(tmp_path / "trace"),
        "-e",
        f"trace={call}",
    ]
    writer = start(job, *strace, "-e", f"inject={call}:error={error}:when={number}..{number + 1}")
    assert writer.wait(200) == 0, log.read_text()[:2000]
    assert "(INJECTED)" in (tmp_path / "trace").read_text(), "the fault never struck"
    history = from_log(log)
    assert len(history.of("ok")) == 200
    with Memory.open(url, settings=SETTINGS) as memory:
        assert history.problems(messages_of(scope_of(memory), SESSION)) == []
        assert [finding for finding in memory.verify() if not finding.ok] == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of half a GiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512m", "tmpfs", str(disk)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        if os.environ.get("CI"):
            pytest.fail(f"cannot mount a small disk: {mounted.stderr.decode()}")
        pytest.skip("mounting a small disk is not permitted here (it needs root)")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(disk: Path, leave: int) -> Path:
    """Use up all but this many bytes of the disk."""
    hog = disk / "hog"
    free = shutil.disk_usage(disk).free - leave
    with hog.open("ab") as file:
        file.write(bytes(max(free, 0)))
    return hog


def fill_completely(disk: Path) -> Path:
    """Use up the whole disk."""
    hog = fill(disk, 0)
    with hog.open("ab", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass
    assert shutil.disk_usage(disk).free == 0
    return hog


@pytest.fixture(autouse=True)
def _reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "BALLAST_MIB", 16)


@pytest.mark.slow
def test_a_disk_that_fills_up(small_disk: Path) -> None:
    """Full while some space is left; reads work; an emergency purge works without any space;
    writing resumes without a restart.
    """
    path = small_disk / "agent.db"
    old = 90 * 86_400_000_000
    now = 1_800_000_000_000_000

    def clock() -> int:
        return now - old

    with Memory.open(f"sqlite:///{path}", settings=SETTINGS, clock=clock) as memory:
        me = scope_of(memory)
        me.sessions.add(SESSION)
        for number in range(600):
            me.messages.append(SESSION, "user", f"{number}".ljust(100_000, "."))
        old = 0
        fill(small_disk, 60 << 20)
        wait_for_disk_check()
        with pytest.raises(Full, match="free"):
            me.messages.append(SESSION, "user", "refused")
        assert shutil.disk_usage(small_disk).free > 40 << 20, (
            "it was refused before the disk was full"
        )
        assert len(me.messages.window(SESSION)) == 600

        fill_completely(small_disk)
        assert me.messages.window(SESSION, last=1)[0].seq == 600
        with pytest.raises(Full):
            me.messages.append(SESSION, "user", "refused")
        purged = memory.purge(days=30, emergency=True)
        assert purged.messages == 600
        assert not (small_disk / "agent.db-ballast").exists()

        wait_for_disk_check()
        assert me.messages.append(SESSION, "user", "and on").seq == 601
        assert [finding for finding in memory.verify() if not finding.ok] == []


def wait_for_disk_check() -> None:
    """The disk is checked a few times a second."""
    time.sleep(2 * sqlite.DISK_CHECK_SECONDS)


@pytest.mark.slow
def test_an_emergency_purge_on_a_full_disk(small_disk: Path) -> None:
    """Nobody has the database open, no byte is free, and `memorist purge --emergency` still
    works.
    """
    path = small_disk / "agent.db"
    long_ago = 1_700_000_000_000_000
    with Memory.open(f"sqlite:///{path}", settings=SETTINGS, clock=lambda: long_ago) as memory:
        me = scope_of(memory)
        me.sessions.add(SESSION)
        for number in range(100):
            me.messages.append(SESSION, "user", f"{number}".ljust(100_000, "."))
    fill_completely(small_disk)
    with Memory.open(f"sqlite:///{path}", settings=SETTINGS) as memory:
        assert len(scope_of(memory).messages.window(SESSION)) == 100
        assert memory.purge(days=30, emergency=True).messages == 100


def test_a_disk_that_fills_without_warning_loses_nothing(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the low-water mark, SQLite itself reaches the end of the disk."""
    path = small_disk / "agent.db"
    monkeypatch.setattr(files, "MIN_FREE_MIB", 0)
    monkeypatch.setattr(sqlite, "BALLAST_MIB", 0)
    with Memory.open(f"sqlite:///{path}", settings=SETTINGS) as memory:
        me = scope_of(memory)
        me.sessions.add(SESSION)
        hog = fill(small_disk, 3 << 20)
        stored: list[str] = []
        with pytest.raises(Full):
            append_until_refused(me, stored)
        assert len(stored) > 10
        for _ in range(3):
            with pytest.raises(Full):
                me.messages.append(SESSION, "user", "x" * 200_000)
        assert [message.text for message in me.messages.window(SESSION)] == stored
        hog.unlink()
        assert me.messages.append(SESSION, "user", "and on").seq == len(stored) + 1
        assert [finding for finding in memory.verify() if not finding.ok] == []


def append_until_refused(me: Scope, kept: list[str]) -> None:
    for number in range(1_000):
        kept.append(me.messages.append(SESSION, "user", f"{number}".ljust(20_000, ".")).text)

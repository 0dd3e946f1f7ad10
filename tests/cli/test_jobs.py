"""`memorist jobs`: once or repeatedly, with a report, and a clean stop."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memorist import Memory, NewMessage, Settings
from memorist.cli.main import main
from testkit.receiver import Receiver

EXTRACTIVE = "summary_enabled: true\nsummary_model: extractive\n"


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "memorist.yaml").write_text(EXTRACTIVE)
    url = f"sqlite:///{tmp_path}/agent.db"
    with Memory.open(url, settings=Settings()) as memory:
        for tenant in ("default", "acme"):
            me = memory.scope(tenant=tenant, user="ada", agent="scout")
            me.sessions.add("s")
            me.messages.extend(
                "s", [NewMessage("user", f"Fact {n} is {n * 7}.") for n in range(41)]
            )
    return url


def covered(url: str, tenant: str = "default") -> int:
    with Memory.open(url, settings=Settings()) as memory:
        return memory.scope(tenant=tenant).sessions.get("s").summarized_count


def say_more(url: str) -> None:
    with Memory.open(url, settings=Settings()) as memory:
        me = memory.scope(tenant="default", user="ada", agent="scout")
        me.messages.extend("s", [NewMessage("user", "One more.")] * 41)


@contextmanager
def repeating(
    database: str, *words: str, how: signal.Signals = signal.SIGTERM
) -> Iterator[subprocess.Popen[str]]:
    """Run `memorist jobs --every` as a process, stop it by a signal, and check that it ends well."""
    command = [sys.executable, "-m", "memorist.cli.main", "jobs", "--database", database]
    command += ["--every", "0.05", "--json", *words]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield worker
        worker.send_signal(how)
        _, err = worker.communicate(timeout=100)
    finally:
        worker.kill()
    assert (worker.returncode, err) == (0, "Stopped.\n")


def test_once(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["jobs", "--database", database, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["jobs"]["summaries"] == {
        "done": 1,
        "left": 0,
        "failed": 0,
        "errors": [],
    }
    assert (covered(database), covered(database, "acme")) == (29, 0)
    assert main(["jobs", "--database", database, "--all-tenants"]) == 0
    assert "summaries" in capsys.readouterr().out
    assert covered(database, "acme") == 29


def test_a_failure_is_reported_by_the_exit_status(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("memorist.yaml").write_text("summary_enabled: true\n")
    assert main(["jobs", "--database", database]) == 7
    assert "summary_model: extractive" in capsys.readouterr().err
    assert covered(database) == 0


def test_invalid_arguments(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["jobs", "--database", database, "--every", "0"]) == 2
    assert main(["jobs", "--database", database, "--tenant", "typo"]) == 3
    assert main(["jobs", "--database", database, "--tenant", "acme", "--all-tenants"]) == 2
    assert "cannot be combined with" in capsys.readouterr().err


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_repeated_runs_until_stopped(database: str, how: signal.Signals) -> None:
    """Later work is found, and a stop is a normal end."""
    with repeating(database, how=how) as worker:
        lines = [worker.stdout.readline()]  # type: ignore[union-attr]
        wait_until(lambda: covered(database) == 29)
        say_more(database)
        lines.append(worker.stdout.readline())  # type: ignore[union-attr]
        wait_until(lambda: covered(database) == 70)
    assert [json.loads(line)["jobs"]["summaries"]["done"] for line in lines] == [1, 1]
    with Memory.open(database, settings=Settings()) as memory:
        assert [finding for finding in memory.verify() if not finding.ok] == []


def test_a_tenant_without_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`memorist jobs` may start before the first write, as in a container."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "memorist.yaml").write_text(EXTRACTIVE)
    database = f"sqlite:///{tmp_path}/agent.db"
    Memory.open(database, settings=Settings()).close()
    assert main(["jobs", "--database", database]) == 0
    with repeating(database) as worker:
        time.sleep(1)
        with Memory.open(database, settings=Settings()) as memory:
            memory.scope(user="ada", agent="scout").state.set("theme", "dark")
        line = worker.stdout.readline()  # type: ignore[union-attr]
        assert json.loads(line)["jobs"]["vectors"]["done"] == 1


def test_a_slow_webhook_does_not_delay_other_jobs(database: str) -> None:
    with Receiver("slow") as receiver:
        with Memory.open(database, settings=Settings(events="private")) as memory:
            memory.webhooks.add(receiver.url)
            state = memory.scope(tenant="default", user="ada").state
            for number in range(30):
                state.set("theme", number)
        with repeating(database, "--set", "events=private"):
            wait_until(lambda: covered(database) == 29)
            assert receiver.arrived.wait(60)
            say_more(database)
            before = len(receiver.deliveries)
            wait_until(lambda: covered(database) == 70)
            assert len(receiver.deliveries) <= before + 2, "while the events are still being sent"


def wait_until(condition: object) -> None:
    assert callable(condition)
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)

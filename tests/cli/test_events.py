"""`memorist events` and `memorist webhooks` at the terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memorist.cli.main import main
from memorist.jobs import deliver_webhooks
from testkit.receiver import Receiver


def test_webhooks_and_events_at_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    where = ["--database", f"sqlite:///{tmp_path}/a.db", "--set", "events=private"]

    def run(*words: str, status: int = 0) -> str:
        assert main([*words, *where]) == status
        return capsys.readouterr().out

    with Receiver() as receiver:
        secret = run("webhooks", "add", receiver.url, "--kinds", "state").strip()
        assert secret.startswith("whsec_")
        (webhook,) = json.loads(run("webhooks", "list", "--json"))
        id = webhook["id"]
        assert secret not in json.dumps(webhook)
        run("state", "set", "theme", '"canary"', "--user", "ada")
        (line,) = run("events").splitlines()
        assert ("changed" in line, "user:ada theme" in line, "canary" in line) == (
            True,
            True,
            False,
        )
        assert json.loads(run("events", "--json"))["number"] == 1
        assert run("events", "--after", "1") == "No results.\n"
        assert run("events", "--after", "1", "--json") == ""
        run("jobs")
        assert receiver.numbers == [1]
        assert "delivered" in run("webhooks", "test", id)
        receiver.behaviour = 500
        assert "status 500" in run("webhooks", "test", id, status=1)
    assert json.loads(run("webhooks", "edit", id, "--paused", "--json"))["paused"] is True
    assert json.loads(run("webhooks", "get", id, "--json"))["position"] == 1
    assert json.loads(run("webhooks", "dead-letters", id, "--json"))["data"] == []
    assert json.loads(run("webhooks", "replay", id, "--json")) == {"events": 0}
    run("webhooks", "edit", id, "--no-paused")
    monkeypatch.setattr(deliver_webhooks, "MAX_TRIES", 1)
    run("state", "set", "theme", "1", "--user", "ada")
    run("state", "set", "theme", "2", "--user", "ada")
    run("jobs", status=7)
    letters = json.loads(run("webhooks", "dead-letters", id, "--json"))["data"]
    assert [letter["event"]["number"] for letter in letters] == [2, 3]
    run("webhooks", "remove", id)
    run("webhooks", "get", id, status=3)

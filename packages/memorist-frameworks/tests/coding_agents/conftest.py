"""Fixtures: a home folder of its own, and hooks that run in this process."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memorist.coding_agents import hook_log
from memorist.coding_agents.project import FOLDER_VARIABLES, make_folder, project_settings
from memorist.memory import Memory, Scope
from memorist_frameworks.coding_agents import hook, hosts

HOST_VARIABLES = (
    *FOLDER_VARIABLES,
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "GEMINI_CLI_HOME",
    "APPDATA",
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("MEMORIST_EMBEDDER", "static")
    for variable in (*HOST_VARIABLES, "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(variable, raising=False)
    return folder


@pytest.fixture
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shop"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


class Hooks:
    """Calls hooks, and looks at what they did."""

    def __init__(self, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
        self._project = project
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def call(self, host: str, event: str, raw: bytes | None = None, **payload: Any) -> Any:
        """Run a hook and return its answer; None if it printed nothing."""
        body = {"session_id": "s1", "cwd": str(self._project), **payload}
        raw = json.dumps(body).encode() if raw is None else raw
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
        self._capsys.readouterr()
        hook.run_hook(host, event)
        printed = self._capsys.readouterr().out
        return json.loads(printed) if printed else None

    @property
    def last(self) -> dict[str, Any]:
        """The newest line of the log."""
        return dict(hook_log.last_calls()[-1])

    def read(self, work: Callable[[Scope], Any]) -> Any:
        """Return what a function reads in the memory of the project."""
        settings = project_settings(self._project)
        make_folder(settings)
        with Memory.open(settings=settings) as memory:
            return work(memory.scope(user=settings.user, agent=settings.agent))

    def texts(self, session: str) -> list[str]:
        """Return the texts of a session."""
        return [
            message.text for message in self.read(lambda scope: scope.messages.list(session).items)
        ]


@pytest.fixture
def hooks(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Hooks:
    # At its time limit a hook ends the process, which is this one.
    monkeypatch.setattr(hosts, "LIMIT_SECONDS", dict.fromkeys(hosts.LIMIT_SECONDS, 600))
    monkeypatch.setattr(hook, "EMBED_SECONDS", 300.0)
    return Hooks(project, monkeypatch, capsys)

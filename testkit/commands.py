"""Fixtures that run commands, as a process or in the test process."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from memorist.cli import main

Run = Callable[..., subprocess.CompletedProcess[str]]
BOTH = pytest.mark.parametrize("engine", ["sqlite", "modern"], indirect=True)
"""For tests that depend on whether there is a database server, not on its version."""


@pytest.fixture
def process(url: str, tmp_path: Path) -> Run:
    """Run `memorist …` as a process, in an empty folder."""
    env = {
        "PATH": os.environ["PATH"],
        "MEMORIST_DATABASE": url,
        "MEMORIST_EMBEDDER": "static",
        "PYTHONUTF8": "1",
    }

    def run_it(command: str, *, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        words = [
            sys.executable,
            "-m",
            "memorist.cli.main",
            *shlex.split(command.removeprefix("memorist ")),
        ]
        return subprocess.run(
            words,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={**env, **more},
        )

    return run_it


@pytest.fixture
def run(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Run:
    """Run `memorist …` in this process, which saves starting an interpreter."""
    monkeypatch.chdir(tmp_path)
    for name, value in {"MEMORIST_DATABASE": url}.items():
        monkeypatch.setenv(name, value)

    def run_it(command: str, *, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        words = shlex.split(command.removeprefix("memorist "))
        capfd.readouterr()
        with monkeypatch.context() as patch:
            for name, value in more.items():
                patch.setenv(name, value)
            patch.setattr(
                "sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
            )
            try:
                status = main.main(words)
            except SystemExit as end:
                status = int(end.code or 0)
        return subprocess.CompletedProcess(words, status, *capfd.readouterr())

    return run_it


def answer(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    """Return the JSON that a command printed."""
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)
    assert isinstance(value, dict)
    return value

"""Every example runs without a key or a network, and recalls its first run in the second."""

from __future__ import annotations

import re
import runpy
import socket
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))


def test_the_list_names_every_example() -> None:
    listed = re.findall(
        r"^\| \[(\w+\.py)\]\(\1\) \|", (FOLDER / "README.md").read_text(), re.MULTILINE
    )
    assert sorted(listed) == [example.name for example in EXAMPLES]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_remembers_in_its_next_run(
    example: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Runs share a process, because a framework takes seconds to import."""
    connect = socket.socket.connect

    def near(self: socket.socket, address: Any) -> None:
        if isinstance(address, tuple) and address[0] not in ("127.0.0.1", "::1", "localhost"):
            pytest.fail(f"{example.name} calls {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", near)
    monkeypatch.setenv("MEMORIST_DATABASE", f"sqlite:///{tmp_path / 'example.db'}")
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    runpy.run_path(str(example), run_name="__main__")
    assert "remembered: nothing" in (first := capsys.readouterr().out), first
    runpy.run_path(str(example), run_name="__main__")
    received = [
        line for line in capsys.readouterr().out.splitlines() if line.startswith("remembered: ")
    ]
    assert any("Ada" in line for line in received), received

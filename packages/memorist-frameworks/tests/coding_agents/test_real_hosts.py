"""The real coding agents, from npm, with a model service of our own: install, ask, remember, remove.

Cursor and VS Code are not tried here: npm does not carry them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coding_agents.conftest import Hooks
from coding_agents.model_server import ANSWER, ModelServer, model_server
from coding_agents.transcripts import QUESTION
from memorist.cli.main import main
from memorist.coding_agents import hook_log

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

PACKAGES = {
    "claude-code": "@anthropic-ai/claude-code@2.1.197",
    "codex": "@openai/codex@0.169.0",
    "gemini": "@google/gemini-cli@0.61.0",
    "opencode": "opencode-ai@1.18.18",
}
CACHE = Path("/var/tmp/memorist-coding-agents")
PLUGIN = Path(__file__).parents[4] / "plugins" / "claude-code"


def program(host: str, name: str) -> str:
    """Return the path of a host's program; install it first where it is missing."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    folder = CACHE / PACKAGES[host].replace("/", "_")
    file = folder / "node_modules" / ".bin" / name
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text("{}")
        command = ["npm", "install", "--no-audit", "--no-fund", PACKAGES[host]]
        result = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=600, check=False
        )
        if result.returncode != 0 and "network" in result.stderr:
            pytest.skip(f"npm cannot be reached: {result.stderr[-300:]}")
        assert result.returncode == 0, result.stderr
    return str(file)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with model_server() as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "test")
        monkeypatch.setenv("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        monkeypatch.setenv("MCP_TIMEOUT", "300000")  # milliseconds, of Claude Code
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        monkeypatch.setenv("GEMINI_API_KEY", "test")
        monkeypatch.setenv("GEMINI_CLI_TRUST_WORKSPACE", "true")
        monkeypatch.setenv("TEST_KEY", "test")
        yield server


def configure(host: str, home: Path, url: str) -> None:
    """Point a host to the model service, where its variables cannot do it."""
    if host == "codex":
        file = home / ".codex" / "config.toml"
        text = (
            '# mine\nmodel = "gpt-5"\nmodel_provider = "test"\n\n[model_providers.test]\nname = "test"\n'
            f'base_url = "{url}/v1"\nwire_api = "responses"\nenv_key = "TEST_KEY"\n'
        )
    elif host == "gemini":
        file = home / ".gemini" / "settings.json"
        text = '{"security": {"auth": {"selectedType": "gemini-api-key"}}}\n'
    elif host == "opencode":
        file = home / ".config" / "opencode" / "opencode.json"
        options = {"baseURL": f"{url}/v1", "apiKey": "test"}
        model = "anthropic/claude-sonnet-4-5"
        settings = {
            "$schema": "https://opencode.ai/config.json",  # OpenCode adds it otherwise
            "autoupdate": False,
            "model": model,
            "small_model": model,
            "provider": {"anthropic": {"options": options}},
        }
        text = json.dumps(settings, indent=2) + "\n"
    else:
        file = home / ".claude" / "settings.json"
        text = '{\n  "includeCoAuthoredBy": false\n}\n'
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


COMMANDS = {
    "claude-code": ("claude", ["-p"]),
    "codex": ("codex", ["exec", "--dangerously-bypass-hook-trust", "--skip-git-repo-check"]),
    "gemini": ("gemini", ["-m", "gemini-2.5-pro", "-p"]),
    "opencode": ("opencode", ["run"]),
}


def run(command: list[str], folder: Path) -> str:
    result = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,  # on a machine with other work to do
        check=False,
        env={**os.environ, "PWD": str(folder)},  # OpenCode goes by it
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


@pytest.mark.parametrize("host", PACKAGES)
def test_a_real_host_remembers(
    host: str, home: Path, project: Path, hooks: Hooks, service: ModelServer
) -> None:
    name, options = COMMANDS[host]
    path = program(host, name)
    configure(host, home, service.url)
    settings = {file: file.read_bytes() for file in home.rglob("*") if file.is_file()}
    assert main(["install", host, "--force", "--yes"]) == 0
    listed = run([path, "mcp", "list"], project)
    assert "memorist" in listed
    assert "mcp --project" in listed
    if host != "codex":  # which does not start servers to list them
        assert "onnected" in listed

    assert ANSWER in run([path, *options, QUESTION], project)
    assert not any("Memory of this project" in body for body in service.bodies)
    service.bodies.clear()
    assert ANSWER in run([path, *options, "Remind me, please."], project)
    recalled = [body for body in service.bodies if "Memory of this project" in body]
    assert recalled
    assert QUESTION in recalled[0]

    sessions = hooks.read(lambda scope: scope.sessions.list().items)
    assert len(sessions) == 2
    # `opencode run` puts a prompt with spaces in quotes.
    saved = [[text.strip('"') for text in hooks.texts(session.id)] for session in sessions]
    assert sorted(saved) == sorted([[QUESTION, ANSWER], ["Remind me, please.", ANSWER]])
    assert {call["host"] for call in hook_log.last_calls()} == {host}

    assert main(["uninstall", host, "--yes"]) == 0
    assert {file: file.read_bytes() for file in settings} == settings
    assert "memorist" not in run([path, "mcp", "list"], project)


def test_the_plugin_is_valid(home: Path, project: Path) -> None:
    path = program("claude-code", "claude")
    assert "Validation passed" in run([path, "plugin", "validate", str(PLUGIN)], project)
    market = str(PLUGIN.parents[1])
    assert "Validation passed" in run([path, "plugin", "validate", market], project)


def test_the_plugin_of_claude_code_remembers(
    home: Path, project: Path, hooks: Hooks, service: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = program("claude-code", "claude")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    run([path, "--plugin-dir", str(PLUGIN), "-p", QUESTION], project)
    (session,) = hooks.read(lambda scope: scope.sessions.list().items)
    assert hooks.texts(session.id) == [QUESTION, ANSWER]

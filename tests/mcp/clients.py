"""MCP clients for the tests: over HTTP with a key and headers, and over stdio of a process."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from mcp import Client, StdioServerParameters

MODERN, LEGACY = "2026-07-28", "2025-11-25"
MODES = {MODERN: MODERN, LEGACY: "legacy"}


@asynccontextmanager
async def over_http(
    address: str, revision: str = MODERN, key: str = "", **whose: str
) -> AsyncIterator[Client]:
    """Yield a client of one protocol revision, with a key, for a user and an agent."""
    headers = {f"X-Retain-{name.title()}": value for name, value in whose.items()}
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
    return [str(Path(sys.executable).with_name("retain")), "mcp", "--database", database, *flags]


def text(result: Any) -> str:
    """Return the text of a result."""
    return "".join(block.text for block in result.content)

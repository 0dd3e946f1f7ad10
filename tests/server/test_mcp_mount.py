"""The MCP servers of the HTTP server: they start at the first request."""

from __future__ import annotations

from typing import Any

from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from memorist import Memory
from memorist.server.http.app import create_app
from memorist.server.routes.mcp_mount import McpEndpoint
from testkit.apps import HERE, URL
from testkit.databases import one_engine

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
ACCEPT = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}


class FailingOnce(McpEndpoint):
    """An MCP server whose first start fails."""

    failures = 1

    def _load(self) -> Any:
        if self.failures:
            self.failures -= 1
            raise OSError("too many open files")
        return super()._load()


@one_engine  # where no key exists, requests need none
def test_a_failed_start_is_tried_again(memory: Memory) -> None:
    authenticator = create_app(memory).state.authenticator
    endpoint = FailingOnce(authenticator, "agent")
    app = Starlette(routes=[Route("/mcp", endpoint)])
    with TestClient(app, URL, client=HERE, raise_server_exceptions=False) as client:
        assert client.post("/mcp", json=CALL, headers=ACCEPT).status_code == 500
        for _ in range(2):
            tools = client.post("/mcp", json=CALL, headers=ACCEPT).json()["result"]["tools"]
            assert any(tool["name"] == "search_memory" for tool in tools)


@one_engine
def test_the_address_names_the_user_and_the_agent(memory: Memory) -> None:
    memory.scope(user="ada").state.set("theme", "dark")
    call = {**CALL, "method": "tools/call", "params": {"name": "list_state", "arguments": {}}}
    with TestClient(create_app(memory), URL, client=HERE) as client:
        named = client.post("/mcp?user=ada&agent=scout", json=call, headers=ACCEPT).json()
        assert "theme" in named["result"]["content"][0]["text"]
        assert client.post("/mcp?usr=ada", json=call, headers=ACCEPT).status_code == 422

"""Two servers on one database: what they share, and what each has for itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx2
import pytest

from memorist.admin import authenticator
from testkit.keys import create_key
from testkit.talking import RunningServer, serve

RATE = 50


@pytest.fixture
def servers(url: str) -> Iterator[tuple[RunningServer, RunningServer]]:
    """Two servers, each with its own memory."""
    with ExitStack() as stack:
        first, second = [
            stack.enter_context(contextmanager(serve)(url, None, events="on", rate_per_second=RATE))
            for _ in range(2)
        ]
        second.key = first.key
        yield first, second


def test_a_retry_at_another_server_changes_nothing(
    servers: tuple[RunningServer, RunningServer],
) -> None:
    first, second = servers
    headers = {"Idempotency-Key": "once"}
    message = {"role": "user", "content": "Hello."}
    agent = {"X-Memorist-Agent": "scout"}
    with first.client(**agent) as here, second.client(**agent) as there:
        assert here.post("/api/sessions", json={"id": "s"}).status_code == 201
        sent = [
            client.post("/api/messages/s", json=message, headers=headers)
            for client in (here, there)
        ]
        assert [response.status_code for response in sent] == [201, 201]
        assert sent[0].json() == sent[1].json()
        assert len(there.get("/api/messages/s/window?last=5").json()) == 1


def test_an_event_stream_continues_at_another_server(
    servers: tuple[RunningServer, RunningServer],
) -> None:
    first, second = servers
    agent = {"X-Memorist-Agent": "scout"}
    with first.client(**agent) as here, second.client(**agent) as there:
        for number in range(6):
            created = here.post("/api/sessions", json={"id": f"s{number}"})
            assert created.status_code == 201
        seen = read_events(here, after=0, count=2)
        assert seen == [1, 2]
        assert read_events(there, after=seen[-1], count=4) == [3, 4, 5, 6]


def read_events(client: httpx2.Client, after: int, count: int) -> list[int]:
    """Return the numbers of some events, and leave the stream."""
    number = 0
    numbers: list[int] = []
    headers = {"Last-Event-ID": str(after)}
    with client.stream("GET", "/api/events", headers=headers) as response:
        for line in response.iter_lines():
            if line.startswith("event: "):
                numbers.append(number)
            elif line.startswith("id: "):
                number = int(line.removeprefix("id: "))
            if len(numbers) == count:
                break
    return numbers


def test_a_revoked_key_is_rejected_by_the_other_server_once_its_cache_expires(
    servers: tuple[RunningServer, RunningServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authenticator, "CACHE_SECONDS", 0.3)
    first, second = servers
    key, text = create_key(first.memory, "acme", "to be revoked", ["read"])
    with first.client() as here, second.client(Authorization=f"Bearer {text}") as there:
        assert there.get("/api/sessions").status_code == 200
        assert here.delete(f"/api/keys/{key.id}").status_code == 200
        while (status := there.get("/api/sessions").status_code) == 200:
            time.sleep(0.05)
        assert status == 401


def test_each_server_has_its_own_rate_limit(servers: tuple[RunningServer, RunningServer]) -> None:
    first, second = servers
    with first.client() as here, second.client() as there:
        while here.get("/api/sessions").status_code == 200:
            pass
        statuses = [there.get("/api/sessions").status_code for _ in range(RATE)]
        assert set(statuses) == {200}


@pytest.mark.slow
def test_mcp_needs_no_session(servers: tuple[RunningServer, RunningServer]) -> None:
    """Any server answers any request, also without an `initialize`."""
    first, second = servers
    accept = {"Accept": "application/json, text/event-stream"}
    initialize = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "a test", "version": "1"},
        },
    }
    with first.client() as here, second.client() as there:
        started = here.post("/mcp", json=initialize, headers=accept)
        assert started.status_code == 200
        assert "mcp-session-id" not in started.headers
        headers = accept | {"MCP-Protocol-Version": "2025-11-25"}
        tools = there.post(
            "/mcp", json={"jsonrpc": "2.0", "id": 2, "method": "tools/list"}, headers=headers
        )
        assert len(tools.json()["result"]["tools"]) > 5

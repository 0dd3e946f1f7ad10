"""The default installation, with its encoder: a memory is found by meaning, through every interface.

Other tests run as if the encoder were not installed: see `installed_encoder` in testkit/plugin.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from memorist import Memory
from memorist.testing import ScriptedModel
from testkit.browser import Web, chromium, web  # noqa: F401
from testkit.mcp_clients import call_ok, over_http
from testkit.talking import RunningServer, serve

pytestmark = pytest.mark.usefixtures("installed_encoder")
SAID = "My doctor says I must not eat anything with peanuts."
ASKED = "Which food is dangerous for me?"


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel("Noted.", "Peanuts.")


@pytest.fixture
def server(url: str, model: ScriptedModel) -> Iterator[RunningServer]:
    for server in serve(url, model):
        fill(server.memory, tenant="acme", user="ada")
        yield server


def fill(memory: Memory, tenant: str, user: str) -> None:
    """Store one message about food among others, each in a session of its own."""
    embedder = memory.services.embedder
    assert embedder is not None
    assert embedder.identity.startswith("memorist")
    me = memory.scope(tenant=tenant, user=user, agent="assistant")
    for number, text in enumerate([SAID, *(f"Train {n} leaves at noon." for n in range(20))]):
        session = me.sessions.add(f"s{number}").id
        me.messages.append(session, "user", text)
    memory.run_jobs()


def test_rest_finds_by_meaning(server: RunningServer) -> None:
    with server.client(**{"X-Memorist-Agent": "assistant"}) as client:
        hits = client.post("/api/search", json={"query": ASKED, "kinds": ["messages"]})
        assert hits.status_code == 200, hits.text
        assert hits.json()["data"][0]["text"] == SAID


def test_mcp_finds_by_meaning(server: RunningServer) -> None:
    async def search() -> str:
        async with over_http(
            f"{server.url}/mcp", key=server.key, user="ada", agent="assistant"
        ) as client:
            return str(await call_ok(client, "search_memory", query=ASKED))

    assert SAID in asyncio.run(search())


def test_chat_recalls_by_meaning(server: RunningServer, model: ScriptedModel) -> None:
    with server.client() as client:
        answer = client.post("/api/chat", json={"message": ASKED, "agent_id": "assistant"})
        assert answer.status_code == 200, answer.text
    assert SAID in str([request.messages for request in model.requests])


def test_the_search_page_finds_by_meaning(web: Web) -> None:  # noqa: F811
    fill(web.memory, tenant="default", user="default")
    page = web.open("/search")
    page.get_by_label("Search everything").fill(ASKED)
    hits = page.get_by_role("list", name="Found", exact=True).get_by_role("article")
    expect(hits.first).to_contain_text(SAID)

"""Facts are learned from German as from English: by the background job, in chat, and over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from memorist.testing import EchoModel
from testkit.talking import RunningServer, serve

AGENT = {"X-Memorist-Agent": "scout"}
SAID = {
    "Meine Schwester Clara wohnt in Lissabon.": "Lissabon",
    "Ich wohne seit Mai in Köln.": "Köln",
}


@pytest.fixture
def server(url: str) -> Iterator[RunningServer]:
    yield from serve(url, EchoModel(lambda prompt: "Gut zu wissen."))


def facts(server: RunningServer) -> list[dict[str, Any]]:
    with server.client(**AGENT) as client:
        response = client.get("/api/facts")
        assert response.status_code == 200
        found: list[dict[str, Any]] = response.json()["data"]
        return found


def test_the_background_job_learns_them(server: RunningServer) -> None:
    with server.client(**AGENT) as client:
        assert client.post("/api/sessions", json={"id": "s"}).status_code == 201
        for text in SAID:
            message = {"role": "user", "content": text}
            assert client.post("/api/messages/s", json=message).status_code == 201
        assert facts(server) == []
        server.memory.run_jobs()
        found = {fact["object"]: fact for fact in facts(server)}
        assert {*SAID.values()} <= found.keys()
        assert found["Köln"]["subject"] == "user"
        assert found["Lissabon"]["status"] == "active"

        message = {"role": "user", "content": "Ich bin nach Hamburg gezogen."}
        assert client.post("/api/messages/s", json=message).status_code == 201
        server.memory.run_jobs()
        homes = [fact["object"] for fact in facts(server) if fact["subject"] == "user"]
        assert homes == ["Hamburg"], "the older home is no longer current"


@pytest.mark.parametrize(("text", "value"), SAID.items(), ids=SAID.values())
def test_chat_learns_them(server: RunningServer, text: str, value: str) -> None:
    with server.client(**AGENT) as client:
        answer = client.post("/api/chat", json={"message": text})
        assert answer.status_code == 200, answer.text
    server.memory.run_jobs()
    assert value in [fact["object"] for fact in facts(server)]

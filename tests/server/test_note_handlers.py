"""Changes of notes, by long polling and as an event stream."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from memorist import Memory, Scope
from memorist.server.http.app import create_app
from testkit.databases import SETTINGS
from testkit.serving import serving
from testkit.talking import numbered

HEADERS = {"X-Memorist-User": "ada", "X-Memorist-Agent": "scout"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[Scope, httpx2.Client, Any]]:
    """Ada's scope, a client of the server over it, and the server's app."""
    with Memory.open(f"sqlite:///{tmp_path}/a.db", settings=SETTINGS) as memory:
        app = create_app(memory)
        with (
            serving(app) as address,
            httpx2.Client(base_url=address, headers=HEADERS, timeout=20, verify=False) as client,
        ):
            yield memory.scope(tenant=None, user="ada", agent="scout"), client, app


def test_long_polling_returns_on_a_change(server: tuple[Scope, httpx2.Client, Any]) -> None:
    me, client, _ = server
    assert client.get("/api/notes/changes", params={"wait": 0.1}).json() == []
    later = threading.Timer(0.15, lambda: me.notes.overwrite("# Tea"))
    later.start()
    payload = client.get("/api/notes/changes", params={"wait": 15}).json()
    later.join()
    assert [(item["version"], item["text"]) for item in payload] == [(1, "# Tea")]
    assert client.get("/api/notes/changes", params={"after": 1, "wait": 0}).json() == []


def test_waiting_clients_hold_no_thread(server: tuple[Scope, httpx2.Client, Any]) -> None:
    """More clients than threads wait, and other requests are served meanwhile."""
    me, client, _ = server
    answers: list[Any] = []

    def wait() -> None:
        address = f"{client.base_url}/api/notes/changes?wait=15"
        # Without verify=False, each would load the system's certificates.
        answers.append(httpx2.get(address, headers=HEADERS, timeout=20, verify=False).json())

    waiting = [threading.Thread(target=wait) for _ in range(50)]
    for item in waiting:
        item.start()
    assert client.put("/api/state/theme", json={"value": 1}).status_code == 200
    me.notes.overwrite("x")
    for item in waiting:
        item.join(20)
    assert [answer[0]["version"] for answer in answers] == [1] * 50


def test_a_stream_sends_each_change_once_and_resumes(
    server: tuple[Scope, httpx2.Client, Any],
) -> None:
    me, client, _ = server
    me.notes.overwrite("one")
    with client.stream("GET", "/api/notes/stream") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        received = numbered(stream.iter_lines())
        assert next(received)[0] == 1
        me.notes.append("two\nlines")
        id, message = next(received)
        assert (id, message["version"], message["text"]) == (2, 2, "one\n\ntwo\nlines")
    me.notes.append("three")
    with client.stream("GET", "/api/notes/stream", headers={"Last-Event-ID": "2"}) as stream:
        assert next(numbered(stream.iter_lines()))[0] == 3
    assert client.get("/api/notes/stream", headers={"Last-Event-ID": "x"}).status_code == 422
    assert client.get("/api/notes/stream?after=-1").status_code == 422
    assert client.get("/api/notes/stream", headers={"X-Memorist-Agent": ""}).status_code == 422


def test_a_stream_ends_at_shutdown(server: tuple[Scope, httpx2.Client, Any]) -> None:
    """Open streams do not keep a server from stopping."""
    me, client, app = server
    me.notes.overwrite("one")
    with client.stream("GET", "/api/notes/stream") as stream:
        received = numbered(stream.iter_lines())
        assert next(received)[0] == 1
        app.state.stopping.set()
        assert list(received) == []


def test_revoking_a_key_ends_its_streams(server: tuple[Scope, httpx2.Client, Any]) -> None:
    """A stream and a long poll end with the key they were opened with."""
    me, client, app = server
    keys = me.admin.keys
    key = keys.add("ada's", permissions=["read"], user="ada")
    app.state.authenticator.forget()
    mine = {**HEADERS, "X-API-Key": key.key}
    me.notes.overwrite("one")
    waited: list[int] = []

    def wait() -> None:
        waited.append(
            httpx2.get(
                f"{client.base_url}/api/notes/changes?after=1&wait=15", headers=mine
            ).status_code
        )

    waiting = threading.Thread(target=wait)
    with client.stream("GET", "/api/notes/stream", headers=mine) as stream:
        received = numbered(stream.iter_lines())
        assert next(received)[0] == 1
        waiting.start()
        while app.state.guard.long_running < 2:
            time.sleep(0.01)
        keys.revoke(key.id)
        app.state.authenticator.forget()
        me.notes.append("written after it was revoked")
        assert list(received) == []
    waiting.join(20)
    assert waited == [401]

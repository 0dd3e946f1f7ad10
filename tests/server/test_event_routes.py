"""The stream of events, and webhooks over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from memorist import Memory
from memorist.base import clock
from memorist.server.http.app import create_app
from testkit.apps import Calling
from testkit.databases import SETTINGS, one_engine
from testkit.keys import create_key
from testkit.receiver import Receiver
from testkit.rows import raw
from testkit.serving import serving
from testkit.talking import numbered

PRIVATE = replace(SETTINGS, events="private")
ALL = ("read", "write", "delete", "admin")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[Memory, str]]:
    """A memory with events, and the address of its server."""
    with Memory.open(f"sqlite:///{tmp_path}/a.db", settings=PRIVATE) as memory:
        for tenant in ("acme", "other"):
            create_key(memory, tenant, "first", ALL)
        with serving(create_app(memory)) as address:
            yield memory, address


def client(
    server: tuple[Memory, str], tenant: str = "acme", user: str | None = None
) -> httpx2.Client:
    memory, address = server
    _, key = create_key(memory, tenant, "test", ALL, user=user)
    return httpx2.Client(base_url=address, headers={"X-API-Key": key}, timeout=20)


def test_a_stream_sends_each_event_once_and_resumes(server: tuple[Memory, str]) -> None:
    http = client(server)
    user = {"X-Memorist-User": "ada"}
    assert http.put("/api/state/a", json={"value": "canary"}, headers=user).status_code == 200
    with http.stream("GET", "/api/events?after=0") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        events = numbered(stream.iter_lines())
        id, event = next(events)
        assert id == event["number"] == 1
        assert (event["type"], event["kind"], event["user"]) == ("changed", "state", "ada")
        assert "canary" not in repr(event)
        http.put("/api/state/b", json={"value": 2}, headers=user)
        assert next(events)[0] == 2
    http.put("/api/state/c", json={"value": 3}, headers=user)
    with http.stream("GET", "/api/events?after=0", headers={"Last-Event-ID": "1"}) as stream:
        events = numbered(stream.iter_lines())
        assert [next(events)[0], next(events)[0]] == [2, 3]
    with http.stream("GET", "/api/events") as stream:
        lines = stream.iter_lines()
        assert [next(lines), next(lines)] == ["id: 3", "retry: 1000"], "at once"
        events = numbered(lines)
        http.put("/api/state/d", json={"value": 4}, headers=user)
        assert next(events)[0] == 4, "without a number, only new events"


def test_a_stream_has_the_events_of_its_tenant_alone(server: tuple[Memory, str]) -> None:
    """P11."""
    memory, _ = server
    memory.scope(tenant="other", user="eve").state.set("theirs", 1)
    memory.scope(tenant="acme", user="ada").state.set("ours", 1)
    with client(server).stream("GET", "/api/events?after=0") as stream:
        assert next(numbered(stream.iter_lines()))[1]["subject"] == "user:ada ours"


def test_bad_requests_for_events(server: tuple[Memory, str]) -> None:
    memory, address = server
    http = client(server)
    assert httpx2.get(f"{address}/api/events").status_code == 401
    assert client(server, user="ada").get("/api/events").status_code == 403
    assert http.get("/api/events", params={"after": -1}).status_code == 422
    assert http.get("/api/events", headers={"Last-Event-ID": "x"}).status_code == 422
    assert http.get("/api/events", headers={"Last-Event-ID": "5000"}).status_code == 409
    for number in range(3):
        memory.scope(tenant="acme", user="ada").state.set("k", number)
    with raw(memory.settings.database) as database:
        database.all(f"update events set created_at = created_at - {8 * clock.DAY}")
    memory.run_jobs(tenants=["acme"])
    response = http.get("/api/events", params={"after": 1})
    assert response.status_code == 410
    assert response.json()["type"] == "/problems/events-removed"


@one_engine
def test_without_events_there_are_no_stream_and_no_new_webhooks(calling: Calling) -> None:
    http = calling("acme")
    for response in (
        http.get("/api/events"),
        http.post("/api/webhooks", json={"url": "https://1.1.1.1/"}),
    ):
        assert (response.status_code, "events: on" in response.json()["detail"]) == (409, True)


def test_a_revoked_key_ends_its_stream(server: tuple[Memory, str]) -> None:
    memory, _ = server
    http = client(server)
    scope = memory.scope(tenant="acme", user="ada")
    scope.state.set("k", 1)
    with http.stream("GET", "/api/events?after=0") as stream:
        events = numbered(stream.iter_lines())
        assert next(events)[0] == 1
        for key in http.get("/api/keys").json()["data"]:
            if key["name"] == "test":
                http.delete(f"/api/keys/{key['id']}")
        scope.state.set("k", 2)
        assert list(events) == []


def test_an_admin_manages_webhooks_and_the_server_delivers(server: tuple[Memory, str]) -> None:
    memory, _ = server
    http = client(server)
    with Receiver() as receiver:
        response = http.post("/api/webhooks", json={"url": receiver.url, "kinds": ["state"]})
        assert response.status_code == 201
        webhook = response.json()
        assert webhook["secret"].startswith("whsec_")
        path = f"/api/webhooks/{webhook['id']}"
        assert http.post(f"{path}/test").json() == {"delivered": True, "error": ""}
        receiver.deliveries.clear()
        receiver.arrived.clear()
        headers = {"X-Memorist-User": "ada"}
        http.put("/api/state/theme", json={"value": "dark"}, headers=headers)
        assert receiver.arrived.wait(20), "the server sends it soon after the write"
        assert receiver.deliveries[0].data["subject"] == "user:ada theme"
        deadline = time.monotonic() + 20
        while not http.get(path).json()["delivered_at"] and time.monotonic() < deadline:
            time.sleep(0.05)
        state = http.get(path)
        assert (state.json()["position"], "secret" in state.text) == (1, False)
        assert http.patch(path, json={"paused": True}).json()["paused"] is True
        assert http.post(f"{path}/replay").json() == {"events": 0}
        assert http.get(f"{path}/dead-letters").json() == {"data": [], "next": None}
        assert [item["id"] for item in http.get("/api/webhooks").json()] == [webhook["id"]]
        theirs = client(server, "other")
        assert theirs.get(path).status_code == 404
        assert theirs.get("/api/webhooks").json() == []
        assert http.delete(path).status_code == 204
        assert http.get(path).status_code == 404
    with raw(memory.settings.database) as database:
        audited = repr(database.all("select what, subject from audit"))
    for action in ("webhooks_add", "webhooks_edit", "webhooks_replay", "webhooks_remove"):
        assert action in audited
    assert webhook["secret"] not in audited


@one_engine
def test_webhooks_are_for_admins_of_the_whole_tenant(calling: Calling) -> None:
    for http in (calling("acme", ["read", "write", "delete"]), calling("acme", user="ada")):
        assert http.get("/api/webhooks").status_code == 403
        assert http.post("/api/webhooks", json={"url": "https://1.1.1.1/"}).status_code == 403


@one_engine
def test_private_networks_are_refused_over_http(
    open_memory: Callable[..., Memory], calling: Calling
) -> None:
    http = calling(over=create_app(open_memory(events="on")))
    for url in ("http://127.0.0.1:7700/", "http://169.254.169.254/latest/meta-data"):
        response = http.post("/api/webhooks", json={"url": url})
        assert (response.status_code, response.json()["field"]) == (422, "url")

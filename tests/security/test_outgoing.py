"""Addresses that callers name: only webhooks and the operator's model service take one (SSRF)."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from memorist import Memory
from memorist.admin.principal import PERMISSIONS
from memorist.base import http as outgoing
from memorist.server.http.app import create_app
from testkit.apps import HERE, URL
from testkit.databases import SETTINGS
from testkit.keys import create_key
from testkit.receiver import Receiver
from testkit.routes import operations

ADDRESS = re.compile(r"url|uri|href|link|host|address|endpoint|server|proxy")
PUBLIC = "93.184.216.34"
PRIVATE = ("127.0.0.1", "10.0.0.8", "169.254.169.254", "::1", "fd00:ec2::254")


@pytest.fixture(params=["on", "private"])
def memory(request: pytest.FixtureRequest) -> Iterator[Memory]:
    with Memory.open("memory:", settings=replace(SETTINGS, events=request.param)) as memory:
        yield memory


def caller(memory: Memory, tenant: str = "acme", **bound: Any) -> TestClient:
    _, key = create_key(memory, tenant, "a test", PERMISSIONS, **bound)
    headers = {"Authorization": f"Bearer {key}"}
    return TestClient(create_app(memory, jobs=False), URL, client=HERE, headers=headers)


def resolve_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Resolve every name to these addresses."""
    results = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 80)) for address in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: results)


def fields(schema: Any, document: dict[str, Any], seen: frozenset[str] = frozenset()) -> set[str]:
    """Return the names of all fields of a schema, those of its parts too."""
    if isinstance(schema, list):
        return {name for part in schema for name in fields(part, document, seen)}
    if not isinstance(schema, dict):
        return set()
    names = set(schema.get("properties", ()))
    reference = schema.get("$ref")
    if reference and reference not in seen:
        part: Any = document
        for step in reference[2:].split("/"):
            part = part[step]
        names |= fields(part, document, seen | {reference})
    return names | fields(list(schema.values()), document, seen)


def test_no_other_request_names_an_address(memory: Memory) -> None:
    """No import, upload or tool fetches what a caller names: each such field is known here."""
    document = caller(memory).get("/openapi.json").json()
    naming = set()
    for methods in document["paths"].values():
        for operation in methods.values():
            names = fields(operation.get("requestBody", {}), document)
            names |= {parameter.get("name", "") for parameter in operation.get("parameters", ())}
            naming |= {(operation["operationId"], name) for name in names if ADDRESS.search(name)}
    assert len(operations()) > 100
    assert naming == {
        ("webhooks_add", "url"),
        ("webhooks_edit", "url"),
        ("web_model", "base_url"),
        ("web_models", "base_url"),
    }


def test_only_the_operator_names_a_model_service(memory: Memory) -> None:
    with Receiver() as receiver:
        body = {"model": "m", "base_url": receiver.url}
        for stranger in (
            caller(memory, "other"),
            caller(memory, SETTINGS.tenant, user="ada"),
            caller(memory, SETTINGS.tenant, agent="scout"),
        ):
            for path in ("/api/web/model", "/api/web/models"):
                assert stranger.post(path, json=body).status_code == 403, path
        assert not receiver.deliveries


@pytest.mark.parametrize("memory", ["on"], indirect=True)
@pytest.mark.parametrize("address", PRIVATE)
def test_a_dns_answer_with_a_private_address_is_refused(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """Alone, beside a public one, and only once the webhook exists (DNS rebinding)."""
    http = caller(memory)
    for answers in ((address,), (PUBLIC, address)):
        resolve_to(monkeypatch, *answers)
        response = http.post("/api/webhooks", json={"url": "http://hooks.example/"})
        assert response.status_code == 422, response.json()
    assert http.get("/api/webhooks").json() == []
    resolve_to(monkeypatch, PUBLIC)
    webhook = http.post("/api/webhooks", json={"url": "http://hooks.example/"}).json()
    connections: list[object] = []
    monkeypatch.setattr(socket.socket, "connect", lambda *args: connections.append(args))
    resolve_to(monkeypatch, PUBLIC, address)
    tested = http.post(f"/api/webhooks/{webhook['id']}/test").json()
    assert not tested["delivered"]
    assert not connections
    changed = http.patch(f"/api/webhooks/{webhook['id']}", json={"url": "http://other.example/"})
    assert changed.status_code == 422


@pytest.mark.parametrize("memory", ["private"], indirect=True)
def test_a_redirect_is_not_followed(memory: Memory) -> None:
    http = caller(memory)
    with Receiver("redirect") as receiver:
        webhook = http.post("/api/webhooks", json={"url": receiver.url}).json()
        assert not http.post(f"/api/webhooks/{webhook['id']}/test").json()["delivered"]
        assert [delivery.path for delivery in receiver.deliveries] == ["/hooks?a=1"]
    with Receiver("redirect") as receiver:
        request = outgoing.OutgoingRequest(
            "POST", receiver.url, {"webhook-id": "x"}, allow_private=True
        )
        assert outgoing.send(request, 5).status == 302
        assert len(receiver.deliveries) == 1

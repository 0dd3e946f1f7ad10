"""Malicious input everywhere (reliability 4.6): a valid response or a problem, and no partial
effect.

A sample at every place in every run; ATTACK=full (`make attack`) sends all of it.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from memorist.api import openapi
from memorist.api.examples import EXAMPLES
from testkit import hostile_inputs as inputs
from testkit.apps import app_with_records, client_of_ada
from testkit.hostile_inputs import FULL
from testkit.routes import operations

ENDLESS = "notes_stream"
MANY = 1000 if FULL else 2
_ACCEPT = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}


@dataclass
class HostileRequest:
    """A request with one invalid part."""

    method: str
    path: str
    names: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    content: bytes | None = None

    def replacing(self, place: str, name: str, value: Any) -> HostileRequest:
        changed: Any = {place: {**(getattr(self, place) or {}), name: value}}
        return replace(self, **changed)

    def send(self, client: TestClient) -> Any:
        path = self.path
        for name, value in self.names.items():
            path = path.replace(f"{{{name}}}", _quoted(value))
        text = "&".join(f"{quote(name)}={_quoted(value)}" for name, value in self.query.items())
        headers: dict[str, str | bytes] = {
            name: value.encode("utf-8", "surrogatepass") for name, value in self.headers.items()
        }
        body = self.content
        if self.body is not None:
            body = json.dumps(self.body).encode()
        if body is not None:
            headers["Content-Type"] = "application/json"
        return client.request(
            self.method,
            f"{path}?{text}" if text else path,
            content=body,
            headers=headers,  # type: ignore[arg-type]
        )


def _quoted(value: Any) -> str:
    return quote(str(value).encode("utf-8", "surrogatepass"), safe="")


@pytest.fixture(scope="module")
def app() -> Iterator[Starlette]:
    with app_with_records() as app:
        yield app


@pytest.fixture(scope="module")
def client(app: Starlette) -> Iterator[TestClient]:
    with client_of_ada(app) as client:
        yield client


def example(told: dict[str, Any], method: str, path: str) -> HostileRequest:
    """Return a valid request, as documented."""
    sent = HostileRequest(method, path)
    for item in told.get("parameters", ()):
        shown = str((item["schema"].get("examples") or [EXAMPLES.get(item["name"], "x")])[0])
        if item["in"] == "path":
            sent.names[item["name"]] = shown
        elif item["in"] == "query" and item.get("required"):
            sent.query[item["name"]] = shown
    content = told.get("requestBody", {}).get("content", {}).get("application/json", {})
    sent.body = content.get("example", {} if content else None)
    return sent


def hostile_requests(app: Starlette, name: str, method: str, path: str) -> Iterator[HostileRequest]:
    """Yield the request with each input at each place; a fixed sample unless ATTACK=full."""
    document = openapi.document(app)
    answer = document["paths"][path][method.lower()]
    right = example(answer, method, path)
    chance = random.Random(name)

    def sample(values: Sequence[Any]) -> Sequence[Any]:
        return values if len(values) <= MANY else chance.sample(values, MANY)

    for item in answer.get("parameters", ()):
        place = {"path": "names", "query": "query", "header": "headers"}[item["in"]]
        texts = [text for text in inputs.TEXTS if place != "headers" or not {*text} & {*"\r\n\x00"}]
        yield from (right.replacing(place, item["name"], text) for text in sample(texts))
    yield right.replacing("query", "unknown", "x")
    if right.body is None:
        return
    shape = answer["requestBody"]["content"]["application/json"]["schema"]
    shape = (
        document["components"]["schemas"][shape["$ref"].rpartition("/")[2]]
        if "$ref" in shape
        else shape
    )
    for field_ in shape.get("properties", ()):
        yield from (right.replacing("body", field_, text) for text in sample(inputs.TEXTS))
        yield from (right.replacing("body", field_, value) for value in sample(inputs.VALUES))
    yield from (
        replace(right, body=None, content=body)
        for body in (inputs.BODIES if FULL else sample(inputs.BODIES))
    )


def exported(app: Starlette) -> bytes:
    out = io.BytesIO()
    app.state.memory.run_jobs()  # what was accepted before is read, and stays as it is
    app.state.memory.export(out)
    return out.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "method", "path"), operations(), ids=lambda part: str(part))
def test_every_operation_accepts_valid_input_and_rejects_the_rest(
    app: Starlette, client: TestClient, name: str, method: str, path: str
) -> None:
    """4.6: never a 5xx, never a page, always a problem with an id; a rejected request changes
    nothing.
    """
    if name == ENDLESS:
        for after in ("x", "-1", "nan", "9" * 5000):
            assert client.get(path, params={"after": after}).status_code == 422
        return
    refused = []
    for sent in hostile_requests(app, name, method, path):
        if check(sent, sent.send(client)) >= 400:
            refused.append(sent)
    before = exported(app)
    for sent in refused:
        assert sent.send(client).status_code >= 400, sent
    assert exported(app) == before


def check(sent: HostileRequest, found: Any) -> int:
    """Check properties of every response; return its status."""
    assert found.status_code < 500, (sent, found.text)
    assert found.headers["x-content-type-options"] == "nosniff", sent
    assert "text/html" not in found.headers.get("content-type", ""), sent
    if found.status_code >= 400:
        assert found.headers["content-type"] == "application/problem+json", sent
        assert found.json()["request_id"] == found.headers["x-request-id"], sent
    return int(found.status_code)


# -- MCP ---------------------------------------------------------------------------------------------------------------


def mcp_request(client: TestClient, path: str, method: str, **params: Any) -> Any:
    """Send one MCP message and return the response."""
    sent = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    return client.post(path, content=sent, headers={**_ACCEPT, "Content-Type": "application/json"})


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/mcp", "/mcp/all"])
def test_every_tool_accepts_valid_input_and_rejects_the_rest(client: TestClient, path: str) -> None:
    """4.6: a result or an error a model can read; never the text of an unexpected exception."""
    tools = mcp_request(client, path, "tools/list").json()["result"]["tools"]
    assert len(tools) > 10
    for tool in tools:
        shape, chance = tool["inputSchema"], random.Random(tool["name"])
        right = {name: EXAMPLES.get(name, "x") for name in shape.get("required", ())}
        for field_ in shape["properties"]:
            values = [*inputs.TEXTS, *inputs.VALUES]
            for value in values if FULL else chance.sample(values, MANY):
                result = mcp_request(
                    client,
                    path,
                    "tools/call",
                    name=tool["name"],
                    arguments={**right, field_: value},
                )
                assert result.status_code < 500, (tool["name"], field_, value, result.text)
                assert "should not have" not in result.text, (tool["name"], field_, value)
                assert "-32603" not in result.text, (tool["name"], field_, value, result.text)


@pytest.mark.parametrize(
    "method",
    ["resources/read", "prompts/get", "completion/complete", "resources/list", "tools/call"],
)
def test_every_protocol_message_rejects_invalid_input(client: TestClient, method: str) -> None:
    for text in inputs.TEXTS:
        for params in (
            {"uri": text},
            {"uri": f"memorist://refs/{text}"},
            {"uri": f"memorist://notes/{text}/{text}"},
            {"name": text, "arguments": {text: text}},
            {"name": "recall", "arguments": {"question": text}},
            {"cursor": text},
            {
                "ref": {"type": "ref/resource", "uri": "memorist://refs/{key}"},
                "argument": {"name": "key", "value": text},
            },
        ):
            if not FULL and random.Random(f"{method} {text!r} {params!r}").random() > 0.1:
                continue
            response = mcp_request(client, "/mcp", method, **params)
            assert response.status_code < 500, (method, params, response.text)
            assert "-32603" not in response.text, (method, params, response.text)
    for body in inputs.BODIES:
        response = client.post(
            "/mcp", content=body, headers={**_ACCEPT, "Content-Type": "application/json"}
        )
        assert 400 <= response.status_code < 500, (body[:40], response.text)

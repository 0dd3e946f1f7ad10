"""Traces collected by a user's SDK: requests, operations, tools, models; ids and counts, no
content.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from starlette.applications import Starlette
from starlette.testclient import TestClient

from memorist import Memory
from memorist.models import Completion
from memorist.models.recording import ModelCall
from memorist.server.observe import traces
from testkit.apps import Calling

ADA = {"X-Memorist-User": "ada", "X-Memorist-Agent": "scout"}
SECRET = "my sister lives in Graz"
_exporter = InMemorySpanExporter()


@pytest.fixture
def engine() -> str:
    """Traces do not depend on the engine."""
    return "sqlite"


@pytest.fixture(autouse=True)
def _sdk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An SDK for these tests only: the global one can be set once per process."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(_exporter))
    monkeypatch.setattr(traces, "_TRACER", provider.get_tracer("memorist"))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    _exporter.clear()
    yield
    monkeypatch.undo()
    traces.look()


@pytest.fixture
def client(calling: Calling) -> TestClient:
    return calling()


def spans() -> dict[str, ReadableSpan]:
    return {span.name: span for span in _exporter.get_finished_spans()}


def test_spans_of_a_request_and_its_operation(client: TestClient) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    answer = client.post(
        "/api/sessions", json={"id": "trip"}, headers={**ADA, "traceparent": parent}
    )
    request, created = spans()["POST /api/sessions"], spans()["create_memory_store sessions"]
    assert request.kind is SpanKind.SERVER
    assert request.attributes is not None
    assert created.attributes is not None
    assert created.parent is not None
    assert request.attributes["http.route"] == "/api/sessions"
    assert request.attributes["http.response.status_code"] == 201
    assert request.attributes["memorist.request.id"] == answer.headers["x-request-id"]
    assert request.parent is not None
    assert trace.format_trace_id(request.context.trace_id) == parent[3:35]
    assert created.parent.span_id == request.context.span_id
    assert created.attributes["gen_ai.operation.name"] == "create_memory_store"
    assert created.attributes["gen_ai.memory.store.id"] == "acme"
    assert created.attributes["gen_ai.memory.record.id"] == "trip"


def test_semantic_conventions_per_operation(client: TestClient) -> None:
    client.post("/api/sessions", json={"id": "trip"}, headers=ADA)
    client.post("/api/messages/trip", json={"role": "user", "content": SECRET}, headers=ADA)
    client.put("/api/state/theme", json={"value": SECRET}, headers=ADA)
    client.post("/api/search", json={"query": SECRET}, headers=ADA)
    client.post("/api/notes/append", json={"text": SECRET}, headers=ADA)
    client.get("/api/messages/trip", headers=ADA)
    client.delete("/api/state/theme", headers=ADA)
    named = spans()
    assert {
        "create_memory messages", "upsert_memory state", "search_memory", "upsert_memory notes",
        "memorist messages.list", "delete_memory state",
    } <= named.keys()  # fmt: skip
    attributes = named["search_memory"].attributes
    assert attributes is not None
    assert isinstance(attributes["gen_ai.memory.record.count"], int)
    assert "gen_ai.operation.name" not in (named["memorist messages.list"].attributes or {})
    text = "".join(span.to_json() for span in named.values())
    assert "Graz" not in text


def test_a_failure_records_its_type_and_not_its_text(client: TestClient, memory: Memory) -> None:
    assert client.get(f"/api/sessions/{SECRET}").status_code == 404
    got = spans()["memorist sessions.get"]
    assert got.attributes is not None
    assert (got.status.status_code, got.attributes["error.type"]) == (StatusCode.ERROR, "NotFound")
    assert got.status.description is None
    assert not got.events
    assert (
        spans()["GET /api/sessions/{id:path}"].status.status_code is StatusCode.UNSET
    )  # a client error


def test_spans_of_models_and_tools(app: Starlette, memory: Memory) -> None:
    scope = memory.scope(tenant="acme", user="ada", agent="scout")
    answer = Completion(SECRET, "small", 10, 5, None, 250.0)
    memory.services.record(
        memory.services, scope.owner, "chat", ModelCall("small", 250.0, answer, ""), None
    )
    memory.services.record(
        memory.services,
        scope.owner,
        "embed",
        ModelCall("vec", 1.0, None, f"ModelUnavailable: {SECRET}"),
        None,
    )
    (save,) = scope.tools(["save_to_core"])
    scope.services.observer.call_tool(save, scope.owner, {"content": SECRET})
    chat, embed, tool = (
        spans()["chat small"],
        spans()["embeddings vec"],
        spans()["execute_tool save_to_core"],
    )
    assert chat.attributes is not None
    assert embed.attributes is not None
    assert chat.kind is SpanKind.CLIENT
    assert chat.attributes["gen_ai.request.model"] == "small"
    assert (
        chat.attributes["gen_ai.usage.input_tokens"],
        chat.attributes["gen_ai.usage.output_tokens"],
    ) == (10, 5)
    assert chat.start_time is not None
    assert chat.end_time is not None
    assert 240e6 < chat.end_time - chat.start_time < 400e6
    assert embed.attributes["error.type"] == "ModelUnavailable"
    assert tool.attributes is not None
    assert tool.attributes["gen_ai.tool.name"] == "save_to_core"
    assert "Graz" not in "".join(span.to_json() for span in spans().values())


def test_an_invalid_traceparent_starts_a_new_trace(client: TestClient) -> None:
    assert client.get("/healthz", headers={"traceparent": "nonsense\x01"}).status_code == 200
    assert spans()["GET /healthz"].parent is None


def test_without_an_sdk_no_span_is_created(
    calling: Calling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "get_tracer_provider", trace.ProxyTracerProvider)
    traces.look()
    assert not traces.on
    assert calling().post("/api/sessions", json={"id": "trip"}, headers=ADA).status_code == 201
    assert not spans()

"""Metrics: complete, correct, visible to operators only, shared by workers, cheap."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from memorist import Memory
from memorist.base.errors import Full
from memorist.jobs.job import JobResult, JobResults
from memorist.kinds.interactions import Usage
from memorist.models import Completion
from memorist.models.recording import ModelCall
from memorist.server.http.app import create_app
from memorist.server.observe import metrics
from memorist.server.observe.database_metrics import FIGURES
from memorist.server.observe.metrics import MAX_MODEL_NAMES, Metrics
from memorist.testing import ScriptedModel
from testkit.apps import Calling
from testkit.commands import BOTH
from testkit.faults import FaultyDatabase, with_faults
from testkit.models import with_model
from testkit.running import run_script

DOCS = Path(__file__).parents[2] / "docs" / "guides" / "operations.md"
ADA = {"X-Memorist-User": "ada", "X-Memorist-Agent": "scout"}


@pytest.fixture
def memory(open_memory: Callable[..., Memory]) -> Memory:
    """The test's database with fault injection; no faults occur without a script."""
    return with_faults(open_memory())[0]


@pytest.fixture
def faults(memory: Memory) -> FaultyDatabase:
    assert isinstance(memory.database, FaultyDatabase)
    return memory.database


def scraped(client: TestClient) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    answer = client.get("/metrics")
    assert answer.status_code == 200
    families = text_string_to_metric_families(answer.text)
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def value(client: TestClient, name: str, **labels: str) -> float:
    return scraped(client)[f"memorist_{name}", frozenset(labels.items())]


@pytest.fixture
def operator(calling: Calling, memory: Memory) -> TestClient:
    return calling(memory.settings.tenant)


def test_requests_by_template_and_status(http: TestClient, operator: TestClient) -> None:
    http.post("/api/sessions", json={"id": "trip"}, headers=ADA)
    for _ in range(3):
        http.get("/api/sessions/secret-name")
    http.get("/no/such/secret-place")
    result = scraped(operator)
    assert (
        value(operator, "requests_total", method="POST", route="/api/sessions", status="201") == 1
    )
    assert (
        value(
            operator,
            "requests_total",
            method="GET",
            route="/api/sessions/{id:path}",
            status="404",
        )
        == 3
    )
    assert value(operator, "requests_total", method="GET", route="none", status="404") == 1
    assert value(operator, "request_seconds_count", route="/api/sessions/{id:path}") == 3
    assert value(operator, "requests_in_flight") == 0  # a scrape is not counted
    assert not any("secret" in text for name, labels in result for _, text in labels)


def test_operations_are_counted(http: TestClient, operator: TestClient) -> None:
    http.post("/api/sessions", json={"id": "trip"}, headers=ADA)
    http.post("/api/messages/trip", json={"role": "user", "content": "hello"}, headers=ADA)
    batch = {
        "messages": [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
    }
    assert http.post("/api/messages/trip/batch", json=batch, headers=ADA).status_code == 201
    assert http.get("/api/sessions/nothing").status_code == 404
    assert value(operator, "messages_appended_total") == 3
    assert value(operator, "operations_total", operation="messages.extend", outcome="ok") == 1
    assert value(operator, "operations_total", operation="sessions.get", outcome="refused") == 1
    assert value(operator, "operation_seconds_count", operation="messages.append") == 1


def test_models_tools_and_background_jobs_are_counted(
    app: Starlette, http: TestClient, operator: TestClient, memory: Memory
) -> None:
    scope = memory.scope(tenant="acme", user="ada", agent="scout")
    call = ModelCall("small", 1500.0, Completion("hi", "small", 10, 5, 0.25, 1500.0), "")
    memory.services.record(memory.services, scope.owner, "summary", call, None)
    memory.services.record(
        memory.services,
        scope.owner,
        "summary",
        ModelCall("small", 1.0, None, "ModelUnavailable: no"),
        None,
    )
    request = {"route": "mine", "model": "large", "tokens_in": 7, "latency_ms": 10}
    assert http.post("/api/interactions", json=request).status_code == 201
    (tool,) = scope.tools(["save_to_core"])
    call_tool = scope.services.observer.call_tool
    assert call_tool(tool, scope.owner, {"content": "Ada likes trains."})["success"]
    assert "error" in call_tool(tool, scope.owner, {"content": "  "})
    assert isinstance(memory.database, FaultyDatabase)
    memory.database.fail("write", Full(problem="a test"))
    with pytest.raises(Full):
        call_tool(tool, scope.owner, {"content": "Ada likes ships."})
    app.state.metrics.worked(JobResults({"vectors": JobResult(done=3, left=2, failed=1)}), 0.5)
    app.state.metrics.worked(None, 0.1)
    assert value(operator, "model_calls_total", model="small", outcome="ok") == 1
    assert value(operator, "model_calls_total", model="small", outcome="failed") == 1
    assert value(operator, "model_tokens_total", model="small", direction="out") == 5
    assert value(operator, "model_tokens_total", model="large", direction="in") == 7
    assert value(operator, "model_cost_dollars_total", model="small") == 0.25
    assert value(operator, "model_seconds_sum", model="small") == pytest.approx(1.501)
    assert value(operator, "tool_calls_total", tool="save_to_core", outcome="ok") == 1
    assert value(operator, "tool_calls_total", tool="save_to_core", outcome="refused") == 1
    assert value(operator, "tool_calls_total", tool="save_to_core", outcome="failed") == 1
    assert value(operator, "work_rounds_total", outcome="failed") == 1
    assert value(operator, "work_failed_total", job="vectors") >= 1


def test_the_model_call_of_a_saved_turn_is_counted(http: TestClient, operator: TestClient) -> None:
    """Also if the turn has the report of its context."""
    http.post("/api/sessions", json={"id": "trip"}, headers=ADA)
    context = http.post("/api/context", json={"session": "trip", "message": "Hi"}, headers=ADA)
    turn = {
        "session": "trip",
        "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}],
        "usage": {"model": "large", "tokens_in": 7, "tokens_out": 3, "cost": 0.5},
    }
    for report in ({}, {"report": context.json()["report"]}):
        assert http.post("/api/turns", json={**turn, **report}, headers=ADA).status_code == 201
    assert value(operator, "model_calls_total", model="large", outcome="ok") == 2
    assert value(operator, "model_tokens_total", model="large", direction="in") == 14
    assert value(operator, "model_cost_dollars_total", model="large") == 1.0
    assert value(operator, "operations_total", operation="save_turn", outcome="ok") == 2
    assert value(operator, "messages_appended_total") == 4


def test_model_calls_of_background_jobs_are_counted(
    open_memory: Callable[..., Memory], calling: Calling
) -> None:
    """The job that calls the model does not wake itself by its writes."""
    model = ScriptedModel("Ada plans a trip.", name="small")
    memory = with_model(open_memory(summary_enabled=True, summary_threshold=2), model)
    app = create_app(memory, jobs=False)
    client = calling(memory.settings.tenant, over=app)
    client.post("/api/sessions", json={"id": "trip"}, headers=ADA)
    batch = {"messages": [{"role": "user", "content": f"day {n}"} for n in range(20)]}
    assert client.post("/api/messages/trip/batch", json=batch, headers=ADA).status_code == 201
    (jobs,) = app.state.background
    assert jobs._taken() == [memory.settings.tenant]
    jobs._round([memory.settings.tenant])
    assert len(model.requests) == 1
    assert value(client, "model_calls_total", model="small", outcome="ok") == 1
    assert memory.scope(tenant=memory.settings.tenant).interactions.totals()
    assert jobs._taken() == []


def test_model_labels_from_callers_are_bounded(memory: Memory) -> None:
    """P16."""
    mine = Metrics(memory)
    for number in range(MAX_MODEL_NAMES + 50):
        mine.model_call(Usage(f"m{number}", "chat", 100, 1, 1))
    text = mine.render()[0].decode()
    assert text.count("\nmemorist_model_calls_total{") == MAX_MODEL_NAMES + 1
    assert 'memorist_model_calls_total{model="other",outcome="ok"} 50.0' in text


@BOTH
def test_database_gauges(engine: str, operator: TestClient, memory: Memory) -> None:
    memory.scope(tenant="acme").state.set("k", "v", area="tenant")
    result = scraped(operator)
    assert result["memorist_rows", frozenset({("table", "state")})] == 1
    assert value(operator, "tenants") >= 1
    assert ("memorist_embedding_lag_seconds", frozenset()) in result
    named = {dict(labels)["figure"] for name, labels in result if name == "memorist_database"}
    assert named >= (
        {"log_bytes", "disk_free_bytes"}
        if engine == "sqlite"
        else {"pool_size", "pool_used", "pool_waiting"}
    )


def test_row_counts_are_cached_between_scrapes(
    operator: TestClient, faults: FaultyDatabase
) -> None:
    scraped(operator)
    before = faults.calls["read"]
    for _ in range(5):
        scraped(operator)
    assert faults.calls["read"] == before


def test_visibility_of_the_metrics(calling: Calling, memory: Memory) -> None:
    """Another tenant's admin sees nothing of the whole database."""
    assert calling("acme").get("/metrics").status_code == 403
    assert (
        calling(memory.settings.tenant, ["read", "write", "delete"]).get("/metrics").status_code
        == 403
    )
    stranger = calling(None)
    assert stranger.get("/metrics").status_code == 401


def test_a_known_scraper_is_served_while_the_database_is_down(
    app: Starlette, calling: Calling, operator: TestClient, memory: Memory, faults: FaultyDatabase
) -> None:
    """A recently accepted key stays accepted; other callers are rejected, with or without a key."""
    assert operator.get("/metrics").status_code == 200
    other, stranger = calling(memory.settings.tenant), calling(None)
    app.state.authenticator.forget()

    faults.kill("read", times=None)
    assert operator.get("/metrics").status_code == 200
    assert other.get("/metrics").status_code == 503
    assert stranger.get("/metrics").status_code in (401, 503)
    faults.heal()
    for key in memory.scope(tenant=memory.settings.tenant).admin.keys.list():
        memory.scope(tenant=memory.settings.tenant).admin.keys.revoke(key.id)
    app.state.authenticator.forget()
    assert operator.get("/metrics").status_code == 401
    app.state.authenticator.forget()
    faults.kill("read", times=None)
    assert operator.get("/metrics").status_code == 503


def test_a_metrics_failure_does_not_fail_the_operation(
    app: Starlette, http: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A committed write is not answered with 500."""

    def broken(*given: object, **named: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(app.state.metrics, "model_call", broken)
    monkeypatch.setattr(app.state.metrics, "operations", broken)
    request = {"route": "mine", "model": "large", "tokens_in": 7, "latency_ms": 10}
    assert http.post("/api/interactions", json=request).status_code == 201


@BOTH
def test_keyless_loopback_sees_the_metrics(engine: str, calling: Calling) -> None:
    assert calling(None).get("/metrics").status_code == (200 if engine == "sqlite" else 401)


def test_every_metric_is_documented_and_no_other(memory: Memory) -> None:
    texts = set(re.findall(r"`(memorist_[a-z_]+)", DOCS.read_text()))
    names = set(re.findall(r"# TYPE (memorist_\w+)", Metrics(memory).render()[0].decode()))
    assert "memorist_requests_total" in names
    assert texts - {"memorist_app", "memorist_owner", "memorist_login"} == names | FIGURES.keys()


WORKER = """
import os, sys
from memorist import Memory
from memorist.jobs.job import JobResult
from memorist.jobs.job import JobResults
from memorist.server.observe.metrics import Metrics

metrics = Metrics(Memory.open("memory:"))
if sys.argv[1:]:
    seconds, left = map(float, sys.argv[1:])
    metrics.requests("GET", "/a", 200).inc()
    metrics.request_seconds("/a").observe(seconds)
    metrics.requests_in_flight.inc()
    metrics.worked(JobResults({"vectors": JobResult(left=int(left))}), 0.1)
    print(os.getpid())
else:
    print(metrics.render()[0].decode())
"""


def test_workers_share_their_metrics() -> None:
    """The counters of a worker that exited stay in the sums; its gauges do not."""
    with metrics.shared():
        run_script(WORKER, "0.002", "5")
        other = run_script(WORKER, "0.2", "7")
        text = run_script(WORKER).stdout
        assert 'memorist_requests_total{method="GET",route="/a",status="200"} 2.0' in text
        assert 'memorist_request_seconds_bucket{le="0.0025",route="/a"} 1.0' in text
        assert 'memorist_request_seconds_bucket{le="+Inf",route="/a"} 2.0' in text
        assert "memorist_requests_in_flight 2.0" in text
        assert 'memorist_work_left{job="vectors"} 7.0' in text
        metrics.worker_exited(int(other.stdout))
        text = run_script(WORKER).stdout
        assert "memorist_requests_in_flight 1.0" in text
        assert 'memorist_work_left{job="vectors"} 5.0' in text
        assert 'status="200"} 2.0' in text


def test_folders_of_killed_servers_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("old", "new"):
        (tmp_path / f"memorist-metrics-{name}").mkdir()
    os.utime(tmp_path / "memorist-metrics-old", (1, 1))
    with metrics.shared():
        assert not (tmp_path / "memorist-metrics-old").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["memorist-metrics-new"]


def test_histogram_buckets_add_up(memory: Memory) -> None:
    mine = Metrics(memory)
    for seconds in (0.0005, 0.001, 0.3, 99.0):
        mine.request_seconds("/a").observe(seconds)
    text = mine.render()[0].decode()
    assert 'bucket{le="0.001",route="/a"} 2.0' in text
    assert 'bucket{le="0.5",route="/a"} 3.0' in text
    assert 'bucket{le="30.0",route="/a"} 3.0' in text
    assert 'memorist_request_seconds_count{route="/a"} 4.0' in text


def test_importing_the_library_does_not_import_metrics() -> None:
    script = "import memorist, sys; print('prometheus_client' in sys.modules or 'opentelemetry' in sys.modules)"
    assert run_script(script).stdout.strip() == "False"


def test_every_known_path_has_a_route_template(app: Starlette, calling: Calling) -> None:
    """Pages and MCP are counted by their templates."""
    client = calling()
    known = {
        route.path: route.methods or {"POST"} for route in app.routes if isinstance(route, Route)
    }
    known |= {route.path: {route.method} for route in app.state.routes}
    assert {"/", "/docs", "/openapi.json", "/mcp", "/mcp/all", "/healthz"} <= known.keys()
    for path, methods in known.items():
        client.request(
            min(methods),
            re.sub(r"\{[^}]+\}", "1", path),
            headers={"Authorization": "Bearer nobody"},
        )
    text = app.state.metrics.render()[0].decode()
    routes = set(re.findall(r'memorist_requests_total{.*route="([^"]*)"', text))
    assert {"/", "/docs", "/openapi.json", "/mcp", "/mcp/all"} <= routes <= known.keys()

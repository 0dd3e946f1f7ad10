"""Metrics: complete, correct, visible to operators only, shared by workers, cheap."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from retain import Memory
from retain.auth.api_keys import Keys
from retain.base.errors import Full
from retain.jobs.job import JobResult
from retain.jobs.runner import JobResults
from retain.models import Completion
from retain.models.recording import ModelCall
from retain.server import metrics
from retain.server.app import create_app
from retain.server.database_metrics import FIGURES
from retain.server.metrics import MAX_MODEL_NAMES, METRICS, Metrics
from retain.testing import FaultyDatabase, ScriptedModel, with_faults
from tests.calling import Calling
from tests.conftest import one_engine
from tests.kinds.test_summaries import with_model

DOCS = Path(__file__).parents[2] / "docs" / "guides" / "operations.md"
ADA = {"X-Retain-User": "ada", "X-Retain-Agent": "scout"}


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
    return scraped(client)[name, frozenset(labels.items())]


@pytest.fixture
def operator(calling: Calling, memory: Memory) -> TestClient:
    return calling(memory.settings.tenant)


@one_engine
def test_requests_by_template_and_status(http: TestClient, operator: TestClient) -> None:
    http.post("/api/sessions", json={"id": "trip"}, headers=ADA)
    for _ in range(3):
        http.get("/api/sessions/secret-name")
    http.get("/no/such/secret-place")
    result = scraped(operator)
    assert (
        value(operator, "retain_requests_total", method="POST", route="/api/sessions", status="201")
        == 1
    )
    assert (
        value(
            operator,
            "retain_requests_total",
            method="GET",
            route="/api/sessions/{id:path}",
            status="404",
        )
        == 3
    )
    assert value(operator, "retain_requests_total", method="GET", route="none", status="404") == 1
    assert value(operator, "retain_request_seconds_count", route="/api/sessions/{id:path}") == 3
    assert value(operator, "retain_requests_in_flight") == 0  # a scrape is not counted
    assert not any("secret" in text for name, labels in result for _, text in labels)


@one_engine
def test_operations_are_counted(http: TestClient, operator: TestClient) -> None:
    http.post("/api/sessions", json={"id": "trip"}, headers=ADA)
    http.post("/api/messages/trip", json={"role": "user", "content": "hello"}, headers=ADA)
    batch = {
        "messages": [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
    }
    assert http.post("/api/messages/trip/batch", json=batch, headers=ADA).status_code == 201
    assert http.get("/api/sessions/nothing").status_code == 404
    assert value(operator, "retain_messages_appended_total") == 3
    assert (
        value(operator, "retain_operations_total", operation="messages.extend", outcome="ok") == 1
    )
    assert (
        value(operator, "retain_operations_total", operation="sessions.get", outcome="refused") == 1
    )
    assert value(operator, "retain_operation_seconds_count", operation="messages.append") == 1


@one_engine
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
    assert value(operator, "retain_model_calls_total", model="small", outcome="ok") == 1
    assert value(operator, "retain_model_calls_total", model="small", outcome="failed") == 1
    assert value(operator, "retain_model_tokens_total", model="small", direction="out") == 5
    assert value(operator, "retain_model_tokens_total", model="large", direction="in") == 7
    assert value(operator, "retain_model_cost_dollars_total", model="small") == 0.25
    assert value(operator, "retain_model_seconds_sum", model="small") == pytest.approx(1.501)
    assert value(operator, "retain_tool_calls_total", tool="save_to_core", outcome="ok") == 1
    assert value(operator, "retain_tool_calls_total", tool="save_to_core", outcome="refused") == 1
    assert value(operator, "retain_tool_calls_total", tool="save_to_core", outcome="failed") == 1
    assert value(operator, "retain_work_rounds_total", outcome="failed") == 1
    assert value(operator, "retain_work_failed_total", job="vectors") >= 1


@one_engine
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
    assert value(client, "retain_model_calls_total", model="small", outcome="ok") == 1
    assert memory.scope(tenant=memory.settings.tenant).interactions.totals()
    assert jobs._taken() == []


@one_engine
def test_model_labels_from_callers_are_bounded(memory: Memory) -> None:
    """P16."""
    mine = Metrics(memory)
    for number in range(MAX_MODEL_NAMES + 50):
        mine.model(f"m{number}", 0.1, 1, 1, None, failed=False)
    text = mine.render()[0].decode()
    assert text.count("\nretain_model_calls_total{") == MAX_MODEL_NAMES + 1
    assert 'retain_model_calls_total{model="other",outcome="ok"} 50.0' in text


def test_database_gauges(engine: str, operator: TestClient, memory: Memory) -> None:
    memory.scope(tenant="acme").state.set("k", "v", area="tenant")
    result = scraped(operator)
    assert result["retain_rows", frozenset({("table", "state")})] == 1
    assert value(operator, "retain_tenants") >= 1
    assert ("retain_embedding_lag_seconds", frozenset()) in result
    named = {dict(labels)["figure"] for name, labels in result if name == "retain_database"}
    assert named >= (
        {"log_bytes", "disk_free_bytes"}
        if engine == "sqlite"
        else {"pool_size", "pool_used", "pool_waiting"}
    )


@one_engine
def test_row_counts_are_cached_between_scrapes(
    operator: TestClient, faults: FaultyDatabase
) -> None:
    scraped(operator)
    before = faults.calls["read"]
    for _ in range(5):
        scraped(operator)
    assert faults.calls["read"] == before


@one_engine
def test_visibility_of_the_metrics(calling: Calling, memory: Memory) -> None:
    """Another tenant's admin sees nothing of the whole database."""
    assert calling("acme").get("/metrics").status_code == 403
    assert (
        calling(memory.settings.tenant, ["read", "write", "delete"]).get("/metrics").status_code
        == 403
    )
    stranger = calling(None)
    assert stranger.get("/metrics").status_code == 401


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_known_scraper_is_served_while_the_database_is_down(
    app: Starlette,
    calling: Calling,
    operator: TestClient,
    memory: Memory,
    faults: FaultyDatabase,
    engine: str,
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
    keys = Keys(memory.database)
    for key in keys.list(memory.settings.tenant):
        keys.revoke(memory.settings.tenant, key.id)
    app.state.authenticator.forget()
    assert operator.get("/metrics").status_code == 401
    app.state.authenticator.forget()
    faults.kill("read", times=None)
    assert operator.get("/metrics").status_code == 503


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_metrics_failure_does_not_fail_the_operation(
    app: Starlette, http: TestClient, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    """A committed write is not answered with 500."""

    def broken(*given: object, **named: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(app.state.metrics, "model", broken)
    monkeypatch.setattr(app.state.metrics, "operation", broken)
    request = {"route": "mine", "model": "large", "tokens_in": 7, "latency_ms": 10}
    assert http.post("/api/interactions", json=request).status_code == 201


def test_keyless_loopback_sees_the_metrics(engine: str, calling: Calling) -> None:
    assert calling(None).get("/metrics").status_code == (200 if engine == "sqlite" else 401)


def test_every_metric_is_documented_and_no_other() -> None:
    texts = set(re.findall(r"`(retain_[a-z_]+)", DOCS.read_text()))
    assert texts - {"retain_app", "retain_owner", "retain_login"} == METRICS.keys() | FIGURES.keys()


OTHER_WORKER = """
import os
from retain import Memory
from retain.jobs.job import JobResult
from retain.jobs.runner import JobResults
from retain.server.metrics import Metrics

metrics = Metrics(Memory.open("memory:"))
metrics.request("GET", "/a", 200, 0.2)
metrics.request_started()
metrics.worked(JobResults({"vectors": JobResult(left=7)}), 0.1)
print(os.getpid())
"""


@one_engine
def test_workers_share_their_metrics(memory: Memory) -> None:
    """The counters of a worker that exited stay in the sums; its gauges do not."""
    with metrics.shared():
        mine = Metrics(memory)
        mine.request("GET", "/a", 200, 0.002)
        mine.worked(JobResults({"vectors": JobResult(left=5)}), 0.1)
        other = subprocess.run(
            [sys.executable, "-c", OTHER_WORKER], capture_output=True, text=True, check=True
        )
        text = mine.render()[0].decode()
        assert 'retain_requests_total{method="GET",route="/a",status="200"} 2.0' in text
        assert 'retain_request_seconds_bucket{le="0.0025",route="/a"} 1.0' in text
        assert 'retain_request_seconds_bucket{le="+Inf",route="/a"} 2.0' in text
        assert "retain_requests_in_flight 1.0" in text
        assert 'retain_work_left{job="vectors"} 7.0' in text
        metrics.worker_exited(int(other.stdout))
        text = mine.render()[0].decode()
        assert "retain_requests_in_flight 0.0" in text
        assert 'retain_work_left{job="vectors"} 5.0' in text
        assert 'status="200"} 2.0' in text


def test_folders_of_killed_servers_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("old", "new"):
        (tmp_path / f"retain-metrics-{name}").mkdir()
    os.utime(tmp_path / "retain-metrics-old", (1, 1))
    with metrics.shared():
        assert not (tmp_path / "retain-metrics-old").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["retain-metrics-new"]


@one_engine
def test_histogram_buckets_add_up(memory: Memory) -> None:
    mine = Metrics(memory)
    for seconds in (0.0005, 0.001, 0.3, 99.0):
        mine.request("GET", "/a", 200, seconds)
    text = mine.render()[0].decode()
    assert 'bucket{le="0.001",route="/a"} 2.0' in text
    assert 'bucket{le="0.5",route="/a"} 3.0' in text
    assert 'bucket{le="30.0",route="/a"} 3.0' in text
    assert 'retain_request_seconds_count{route="/a"} 4.0' in text


def test_importing_the_library_does_not_import_metrics() -> None:
    script = "import retain, sys; print('prometheus_client' in sys.modules or 'opentelemetry' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_every_known_path_has_a_route_template(
    app: Starlette, calling: Calling, engine: str
) -> None:
    """Pages and MCP are counted by their templates."""
    client = calling()
    known = {
        route.path: route.methods or {"POST"}
        for route in (*app.routes, *app.state.endpoint_routes)
        if isinstance(route, Route)
    }
    assert {"/", "/docs", "/openapi.json", "/mcp", "/mcp/all", "/healthz"} <= known.keys()
    for path, methods in known.items():
        client.request(
            min(methods),
            re.sub(r"\{[^}]+\}", "1", path),
            headers={"Authorization": "Bearer nobody"},
        )
    text = app.state.metrics.render()[0].decode()
    routes = set(re.findall(r'retain_requests_total{.*route="([^"]*)"', text))
    assert {"/", "/docs", "/openapi.json", "/mcp", "/mcp/all"} <= routes <= known.keys()

"""Health and readiness: correct, and without internal details."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from starlette.applications import Starlette

from memorist import Memory
from memorist.base import limits
from memorist.base.errors import SchemaTooNew, Unreachable
from memorist.server.http.app import create_app
from memorist.server.observe import health as health_module
from memorist.server.observe.health import READY_SECONDS, Health
from memorist.server.process.serve import WAIT_SECONDS
from memorist.storage import migrate
from memorist.testing import ScriptedModel
from testkit.apps import Calling
from testkit.clock import Now
from testkit.databases import one_engine
from testkit.faults import with_faults
from testkit.models import with_model


@one_engine
def test_health_needs_no_key_and_reveals_nothing(calling: Calling, memory: Memory) -> None:
    """S6, CVE-2026-29787: no path, address or version."""
    stranger = calling(None)
    for route in ("/healthz", "/readyz"):
        answer = stranger.get(route)
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
        assert stranger.head(route).status_code == 200


def test_readiness_without_a_database(app: Starlette, calling: Calling, memory: Memory) -> None:
    stranger = calling(None)
    memory.close()
    assert stranger.get("/healthz").status_code == 200
    answer = stranger.get("/readyz")
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"] == "The database cannot be reached."
    assert answer.headers["retry-after"] == "1"
    assert memory.database.name not in answer.text


def test_the_cause_of_a_database_failure_is_logged_once(
    memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    """Also when the result comes after the callers were told that it takes too long."""
    memory, faults = with_faults(memory)
    health = Health(memory)
    refused = Unreachable(problem="port 5432: connection refused\nand more")
    faults.fail("read", refused, times=3)
    for _ in range(3):
        assert health._find_problem() == "The database cannot be reached."
    assert [record.getMessage() for record in caplog.records] == [
        "the database cannot be used: Unreachable: port 5432: connection refused"
    ]
    assert health._find_problem() == ""
    faults.fail("read", refused)
    health._find_problem()
    assert len(caplog.records) == 2


def test_the_database_timeout_is_shorter_than_the_readiness_timeout() -> None:
    assert WAIT_SECONDS < READY_SECONDS


def test_readiness_with_an_older_schema(app: Starlette, calling: Calling, memory: Memory) -> None:
    last = memory.migrations[-1]
    memory.migrations = [*memory.migrations, replace(last, number=last.number + 1)]
    answer = calling(None).get("/readyz")
    assert (answer.status_code, "migrate" in answer.json()["detail"]) == (503, True)


def test_a_server_keeps_working_while_a_newer_version_migrates(
    app: Starlette, calling: Calling, memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    """It stays ready, warns once, and cannot be started again."""
    client = calling("acme")
    client.headers |= {"X-Memorist-User": "ada", "X-Memorist-Agent": "scout"}
    future = add_future_migration(memory)
    for _ in range(2):
        assert client.get("/readyz").status_code == 200
        app.state.health._good_until = 0.0
    warnings = [text for text in caplog.messages if "A newer version of memorist" in text]
    assert len(warnings) == 1
    assert f"schema {future}" in warnings[0]
    assert client.post("/api/sessions", json={"id": "s"}).status_code == 201
    message = {"role": "user", "content": "Still here."}
    assert client.post("/api/messages/s", json=message).status_code == 201
    assert client.post("/api/search", json={"query": "still"}).json()["data"]
    with pytest.raises(SchemaTooNew, match=f"schema {future}.*upgrade memorist"):
        Memory.open(memory.settings.database, settings=memory.settings)


def add_future_migration(memory: Memory) -> int:
    """Apply a migration as a later version may have it; return its number."""
    number = memory.migrations[-1].number + 1
    script = """
-- up
create table gadgets (
    tenant {key} not null references tenants (tenant),
    id {key} not null,
    primary key (tenant, id)
) {strict};
alter table messages add column mood {text} not null default '';
alter table index_owners add column mood {text};
-- down
alter table index_owners drop column mood;
alter table messages drop column mood;
drop table gadgets;
"""
    future = migrate.read(number, "gadgets", script)
    assert migrate.up(memory.database, [*memory.migrations, future]) == [future]
    return number


@one_engine
def test_a_stopping_server_is_not_ready(app: Starlette, calling: Calling) -> None:
    client = calling(None)
    app.state.stopping.set()
    assert client.get("/readyz").status_code == 503


@one_engine
def test_a_server_at_capacity_is_not_ready(
    app: Starlette, calling: Calling, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check itself counts as a request. Requests whose bodies are still arriving do not."""
    stranger = calling(None)
    assert stranger.get("/readyz").status_code == 200
    guard = app.state.guard
    monkeypatch.setattr(guard, "in_flight", limits.MAX_IN_FLIGHT - 1)
    assert stranger.get("/readyz").status_code == 200
    monkeypatch.setattr(guard, "in_flight", limits.MAX_IN_FLIGHT)
    answer = stranger.get("/readyz")
    assert (answer.status_code, answer.json()["type"]) == (503, "/problems/not-ready")
    assert answer.json()["detail"] == "The server is at capacity."
    assert answer.headers["retry-after"] == "1"
    assert stranger.get("/healthz").status_code == 200
    monkeypatch.setattr(guard._bodies, "waiting", lambda long: 1)
    assert stranger.get("/readyz").status_code == 200


@one_engine
def test_concurrent_readiness_checks_share_one_query(memory: Memory) -> None:
    memory, faults = with_faults(memory)
    health = Health(memory)

    async def check_many_times() -> list[str]:
        return await asyncio.gather(*(health.trouble() for _ in range(20)))

    assert asyncio.run(check_many_times()) == [""] * 20
    assert faults.calls["read"] == 1


def test_readiness_of_a_hanging_database(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_module, "READY_SECONDS", 0.05)
    memory, faults = with_faults(memory)
    faults.delay("read", 1.0)
    assert asyncio.run(Health(memory).trouble()) == "The database does not answer in time."


def test_visibility_of_the_status(calling: Calling, memory: Memory) -> None:
    """One tenant for its admin, everything for the operator; nothing for readers."""
    memory.scope(tenant="acme").state.set("k", 1, area="tenant")
    memory.scope(tenant="other").state.set("k", 1, area="tenant")
    mine = calling("acme").get("/api/status").json()
    assert (mine["tenants"], mine["rows"]["state"], mine["database"]) == (1, 1, "")
    assert {"version", "schema_version", "embedder", "vectors"} <= mine.keys()
    everything = calling(memory.settings.tenant).get("/api/status").json()
    assert everything["rows"]["state"] == 2
    assert everything["database"] == memory.database.name
    assert calling("acme", ["read", "write"]).get("/api/status").status_code == 403
    assert mine["model"] == "none"
    assert mine["work"].keys() == {
        "index", "vectors", "summaries", "facts", "consolidations", "retention", "webhooks",
    }  # fmt: skip
    assert (mine["started_at"], mine["worked_at"]) == (None, None), (
        "when the server works is about all tenants"
    )
    assert datetime.fromisoformat(everything["started_at"]) <= datetime.now(UTC)
    assert everything["worked_at"] is None or datetime.fromisoformat(
        everything["worked_at"]
    ) <= datetime.now(UTC)


@one_engine
def test_the_status_says_why_a_summary_was_given_up(
    calling: Calling, open_memory: Callable[..., Memory], now: Now
) -> None:
    """Operations shows these sentences; only to admins of the tenant and to the operator."""
    model = ScriptedModel("I'm sorry, I can't help with that.", name="refusing")
    memory = with_model(open_memory(clock=now, summary_enabled=True), model)
    me = memory.scope(tenant="acme", user="ada", agent="scout")
    me.sessions.add("long")
    for number in range(41):
        me.messages.append("long", "user", f"Message {number}")
    for _ in range(20):
        memory.run_jobs()
        now.pass_days(1 / 24)
    app = create_app(memory)
    (problem,) = calling("acme", over=app).get("/api/status").json()["problems"]
    assert problem.startswith("Summary of session long: failed 5 times, given up for a day.")
    assert "it refuses" in problem
    assert calling("other", over=app).get("/api/status").json()["problems"] == []
    operator = calling(memory.settings.tenant, over=app)
    assert operator.get("/api/status").json()["problems"] == [problem]

"""Isolation of tenants (P11), also for statements that lack their condition on the tenant.

On PostgreSQL, row-level security separates the tenants even if a statement lacks
`tenant = :tenant`. On every engine, a record of another tenant or user behaves like one that does
not exist: for every verb, in the story of testkit/story.py. tests/test_every_kind.py has the same
through the library.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from memorist import Memory
from memorist.admin.principal import PERMISSIONS
from memorist.api.endpoints import ADMIN_ENDPOINTS
from memorist.base.verbs import Endpoint
from memorist.server.http.app import create_app
from memorist.storage.database import Row, Sent, Transaction
from testkit.apps import HERE, URL
from testkit.databases import SERVERS, one_engine
from testkit.examples import exported
from testkit.faults import with_faults
from testkit.interfaces import Setting, library, outcome
from testkit.isolation import check_isolation
from testkit.keys import create_key
from testkit.receiver import Receiver
from testkit.rows import TABLES, hashes, raw
from testkit.story import VERBS, Call, run_story, same

CONDITION = re.compile(r"\b(?:\w+\.)?tenant = :tenant\b")


@pytest.fixture
def memory(open_memory: Callable[..., Memory]) -> Memory:
    return open_memory(summary_model="extractive")


@one_engine
@pytest.mark.parametrize("interface", ["rest", "mcp"])
def test_a_stranger_finds_and_changes_nothing(memory: Memory, interface: str) -> None:
    """P11: with the owner's ids, every response is the one for ids that do not exist."""
    assert check_isolation(interface, ["tenant", "user", "agent"], memory) > 100


@one_engine
def test_a_foreign_webhook_or_key_is_one_that_does_not_exist(
    open_memory: Callable[..., Memory],
) -> None:
    """P11: administrators of another tenant, with the ids of the owner's webhooks and keys."""
    memory = open_memory(events="private")
    app = create_app(memory, jobs=False)
    admin = memory.scope(tenant="acme").admin
    with Receiver() as receiver:
        webhook = admin.webhooks.add(receiver.url)
        ids = {"webhooks": webhook.id, "keys": admin.keys.add("ci").id}
        _, text = create_key(memory, "other", "theirs", PERMISSIONS)
        headers = {"Authorization": f"Bearer {text}"}
        http = TestClient(app, URL, client=HERE, headers=headers)
        before = (admin.webhooks.list(), admin.keys.list().items)
        calls = 0
        for endpoint in ADMIN_ENDPOINTS:
            if "{id}" not in endpoint.route:
                continue
            calls += 1
            texts = []
            for id in (ids[endpoint.kind], "0" * len(ids[endpoint.kind])):
                response = http.request(endpoint.method, endpoint.route.replace("{id}", id))
                assert response.status_code == 404, endpoint.name
                request_id = response.headers["x-request-id"]
                texts.append(response.text.replace(id, "").replace(request_id, ""))
            assert texts[0] == texts[1], endpoint.name
        assert calls >= 7
        assert http.get("/api/webhooks").json() == []
        assert [key["name"] for key in http.get("/api/keys").json()["data"]] == ["theirs"]
        assert (admin.webhooks.list(), admin.keys.list().items) == before
        assert not receiver.deliveries


@one_engine
def test_a_key_of_one_agent_reaches_no_other_agent(memory: Memory) -> None:
    """P11: naming another agent is refused for every verb, and nothing is changed or read."""
    scope = memory.scope(tenant="acme", user="ada", agent="scout")
    list(run_story(library(Setting(memory, Path(), contextlib.ExitStack())), ends=False))
    scope.entries.add("Only for the scout.")
    _, text = create_key(memory, "acme", "planner", PERMISSIONS, agent="planner")
    headers = {
        "Authorization": f"Bearer {text}",
        "X-Memorist-User": "ada",
        "X-Memorist-Agent": "scout",
    }
    http = TestClient(create_app(memory, jobs=False), URL, client=HERE, headers=headers)
    before = exported(memory)

    refused = 0
    for endpoint in (endpoint for endpoint in VERBS.values() if endpoint.request):
        path = re.sub(r"{[^}]*}", "x", endpoint.route)
        response = http.request(endpoint.method, path, json=None if endpoint.in_query else {})
        assert response.status_code in (403, 422), (endpoint.name, response.text)
        refused += response.status_code == 403
    assert refused > 50
    assert exported(memory) == before
    del http.headers["X-Memorist-Agent"]
    assert http.get("/api/entries").json()["data"] == []


class ForgetfulTransaction:
    """A transaction whose statements have lost their condition on the tenant."""

    def __init__(self, tx: Transaction, changed: list[str]) -> None:
        self.tenant = tx.tenant
        self.now = tx.now
        self._tx = tx
        self._changed = changed

    def _forget(self, sql: str) -> str:
        without_condition, count = CONDITION.subn("(:tenant <> '')", sql)
        if count:
            self._changed.append(sql)
        return without_condition

    def all(self, sql: str, **values: Any) -> list[Row]:
        return self._tx.all(self._forget(sql), **values)

    def one(self, sql: str, **values: Any) -> Row | None:
        return self._tx.one(self._forget(sql), **values)

    def run(self, sql: str, **values: Any) -> int:
        return self._tx.run(self._forget(sql), **values)

    def send(self, sql: str, **values: Any) -> Sent:
        return self._tx.send(self._forget(sql), **values)

    def lock_rows(self, sql: str, **values: Any) -> None:
        self._tx.lock_rows(self._forget(sql), **values)

    def lock(self, name: str) -> None:
        self._tx.lock(name)

    def many(self, sql: str, rows: Sequence[Mapping[str, Any]]) -> None:
        self._tx.many(self._forget(sql), rows)

    def each(self, sql: str, **values: Any) -> Iterator[Mapping[str, Any]]:
        return self._tx.each(self._forget(sql), **values)

    def columns(self, table: str) -> list[str]:
        return self._tx.columns(table)

    def unscoped(self, sql: str, **values: Any) -> list[Row]:
        return self._tx.unscoped(sql, **values)


def forget_tenants(memory: Memory) -> tuple[Memory, list[str]]:
    """Return a memory whose statements lack the tenant, and a list of the changed statements."""
    memory, faults = with_faults(memory)
    changed: list[str] = []
    faults.wrap(lambda tx, work: work(ForgetfulTransaction(tx, changed)))
    return memory, changed


def foreign(url: str) -> dict[str, tuple[int, str]]:
    return hashes(url, where="where tenant <> 'mine'")


@pytest.fixture
def one_server(memory: Memory) -> None:
    """A cluster rejects most statements without a condition on the tenant."""
    if memory.database.is_cluster:
        pytest.skip("a cluster rejects statements without a tenant")


def tell(memory: Memory, tenant: str) -> Call:
    """Return a function that calls the verbs in a tenant."""
    return library(Setting(memory, Path(), contextlib.ExitStack(), tenant=tenant))


def fill_tenant(memory: Memory, tenant: str) -> None:
    """Run the story without its end."""
    list(run_story(tell(memory, tenant), ends=False))


@pytest.mark.usefixtures("one_server")
@pytest.mark.parametrize("engine", SERVERS, indirect=True)
def test_no_verb_reads_or_changes_foreign_rows_without_a_tenant_condition(
    memory: Memory, url: str
) -> None:
    """P11: the same records of other tenants change no result and are not changed."""
    expected = run_story(tell(memory, "alone"))
    results = [same(result) for _, result in expected]
    for tenant in ("aaa", "zzz"):
        fill_tenant(memory, tenant)
    memory, changed = forget_tenants(memory)
    before = foreign(url)
    call = tell(memory, "mine")

    def forgetful(endpoint: Endpoint, arguments: dict[str, Any]) -> Any:
        changed.clear()
        result = call(endpoint, arguments)
        if endpoint.effect == "read":
            assert changed, f"{endpoint.name} has no condition that could be forgotten"
        else:
            assert foreign(url) == before, endpoint.name
        return result

    for (step, result), alone in zip(run_story(forgetful), results, strict=True):
        assert same(result) == alone, step.verb


@pytest.mark.usefixtures("one_server")
@pytest.mark.parametrize("engine", SERVERS, indirect=True)
def test_no_operation_reaches_foreign_rows_without_a_tenant_condition(
    memory: Memory, url: str
) -> None:
    """Export, erase, purge and verify, each for one tenant, without the conditions."""
    fill_tenant(memory, "mine")
    alone = io.BytesIO()
    memory.export(alone, tenants=["mine"])
    fill_tenant(memory, "aaa")
    memory, changed = forget_tenants(memory)
    before = foreign(url)
    out = io.BytesIO()
    memory.export(out, tenants=["mine"])
    assert out.getvalue() == alone.getvalue()
    assert all(finding.ok for finding in memory.verify())
    assert memory.scope(tenant="mine").admin.users.erase("ada").removed["messages"]
    assert foreign(url) == before
    memory.import_(io.BytesIO(out.getvalue()))
    assert foreign(url) == before
    again = io.BytesIO()
    memory.export(again, tenants=["mine"])
    assert again.getvalue() == out.getvalue()
    assert changed
    assert memory.purge(days=1).messages == 0
    assert foreign(url)["messages"] == before["messages"]


@pytest.mark.usefixtures("one_server")
@pytest.mark.parametrize("engine", SERVERS, indirect=True)
def test_reads_return_foreign_rows_without_row_level_security(memory: Memory, url: str) -> None:
    """Without row-level security the same reads do return foreign rows: the tests above work."""
    reads: list[tuple[Endpoint, dict[str, Any]]] = []

    def record(endpoint: Endpoint, arguments: dict[str, Any]) -> None:
        if endpoint.effect == "read":
            reads.append((endpoint, arguments))

    list(run_story(tell(memory, "mine"), record, ends=False))
    fill_tenant(memory, "aaa")
    before = [same(outcome(tell(memory, "mine"), *read)) for read in reads]
    memory, _ = forget_tenants(memory)
    with raw(url) as database:
        for table in TABLES:
            database.all(f"alter table {table} disable row level security")
    leaking = {
        read[0].operation
        for read, result in zip(reads, before, strict=True)
        if same(outcome(tell(memory, "mine"), *read)) != result
    }
    assert leaking >= {
        "agents.list",
        "sessions.list",
        "messages.window",
        "interactions.list",
    }


def test_sixteen_tenants_write_concurrently(memory: Memory, url: str) -> None:
    """After 16 x 200 concurrent writes, every row is in its own tenant."""
    tenants = [f"tenant {n:02}" for n in range(16)]

    def write(tenant: str) -> None:
        me = memory.scope(tenant=tenant, user="ada", agent="scout")
        me.sessions.add("s")
        for n in range(100):
            assert me.messages.append("s", "user", f"{tenant} says {n}", key=f"{n}").seq == n + 1
        for n in range(50):
            me.state.set(f"k{n}", tenant)
            me.interactions.add(tenant, "m", latency_ms=n)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(write, tenants))
    assert memory.tenants() == tenants
    for tenant in tenants:
        me = memory.scope(tenant=tenant)
        assert [message.text for message in me.messages.window("s")] == [
            f"{tenant} says {n}" for n in range(100)
        ]
        assert {item.value for item in memory.scope(tenant=tenant, user="ada").state.list()} == {
            tenant
        }
        assert [total.name for total in me.interactions.totals("route")] == [tenant]
    with raw(url) as database:
        assert database.all("select count(*) from messages") == [(1600,)]
        assert database.all("select count(*) from state") == [(800,)]
        wrong = "select count(*) from messages where content not like '{\"text\":\"' || tenant || ' says %'"
        assert database.all(wrong) == [(0,)]

"""Isolation beyond REST endpoints: chat, MCP, streams, keys, admin routes.

Foreign objects look like missing ones. REST endpoints: tests/server/test_foreign.py.
"""

from __future__ import annotations

import io
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from memorist import Memory, Scope
from memorist.admin import authenticator
from memorist.admin.principal import PERMISSIONS
from testkit.apps import Calling
from testkit.foreign import ACCEPT, ADA, MARK, UNUSED_IDS, filled, ids, mcp_request
from testkit.keys import create_key
from testkit.routes import routes
from testkit.story import VERBS, complete_story
from testkit.talking import PausingModel, RunningServer, events, serve

WAIT = 20.0

pytestmark = pytest.mark.parametrize("engine", ["sqlite", "modern"], indirect=True)


@pytest.fixture
def foreign_scope(memory: Memory) -> Scope:
    """Another tenant with one of each kind, same user and agent names."""
    scope = filled(memory.scope(tenant="theirs", user="ada", agent="scout"))
    memory.run_jobs(tenants=["theirs"])  # otherwise jobs would change the tenant during a test
    return scope


def exported(memory: Memory, user: str | None = None) -> bytes:
    out = io.BytesIO()
    memory.export(out, tenants=["theirs"], user=user)
    return out.getvalue()


def normalized(found: Any, *names: str) -> tuple[Any, ...]:
    """Return a response without its request id and the requested name."""
    text = found.text.replace(found.headers["x-request-id"], "REQUEST")
    for name in names:
        text = text.replace(name, "NAME")
    stored = {
        name: value
        for name, value in found.headers.items()
        if name not in ("x-request-id", "request-id", "content-length", "date")
    }
    return found.status_code, text, stored


# -- nothing of theirs changes what we see -----------------------------------------------------------------------------


def visible(app: Starlette, http: TestClient) -> dict[str, tuple[Any, ...]]:
    """Return every response to requests that name no object."""
    values = {}
    for method, path, _ in routes(app):
        if (
            method == "GET"
            and "/x" not in path
            and path not in ("/api/notes/stream", "/metrics", "/openapi.json")
        ):
            values[path] = normalized(http.get(path, headers=ADA))
    values["POST /api/search"] = normalized(
        http.post("/api/search", json={"query": MARK}, headers=ADA)
    )
    for path in ("/mcp", "/mcp/all"):
        for method in ("tools/list", "resources/list", "prompts/list", "resources/templates/list"):
            values[f"{path} {method}"] = normalized(mcp_request(http, path, method))
    for step in complete_story():
        endpoint = VERBS[step.verb]
        if endpoint.effect == "read" and endpoint.request and "{" not in endpoint.request:
            value = {
                name: MARK if name == "query" else step.arguments[name] for name in step.arguments
            }
            values[f"tool {endpoint.name} {value}"] = normalized(
                mcp_request(http, "/mcp/all", "tools/call", name=endpoint.name, arguments=value)
            )
    return values


def wait_for_recorded_use(http: TestClient) -> None:
    """Use a key, and wait until its use is recorded: that happens after the response."""
    end = time.monotonic() + WAIT
    while any(key["last_used_at"] is None for key in http.get("/api/keys").json()["data"]):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_foreign_data_changes_no_response(
    memory: Memory, calling: Calling, app: Starlette, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P11: lists, searches, counts, pages, MCP listings and admin views are the same before and
    after.
    """
    # Otherwise our own key would be recorded again in a test that takes longer than a minute.
    monkeypatch.setattr(authenticator, "RECORD_USE_SECONDS", 3600.0)
    http = calling("acme")
    wait_for_recorded_use(http)
    memory.scope(tenant="acme", user="ada", agent="scout").notes.overwrite("ours")
    memory.run_jobs(
        tenants=["acme"]
    )  # otherwise the age of a missing vector would differ between the responses
    before = visible(app, http)
    assert len(before) > 60
    filled(memory.scope(tenant="theirs", user="ada", agent="scout"))
    foreign_scope = calling("theirs")
    foreign_scope.post("/api/chat", json={"message": MARK}, headers={"X-Memorist-User": "ada"})
    foreign_scope.post(
        "/api/entries",
        json={"content": MARK, "kind": "core"},
        headers={**ADA, "Idempotency-Key": "k"},
    )
    foreign_scope.post("/api/users/ada/export")
    after = visible(app, http)
    assert {name: value for name, value in after.items() if value != before[name]} == {}


def test_foreign_cursors_versions_and_etags_reveal_nothing(
    calling: Calling, foreign_scope: Scope
) -> None:
    """P11: they neither show nor change anything."""
    http, other = calling("acme"), calling("theirs")
    for path in (
        "agents",
        "sessions",
        "entries",
        "refs",
        "state",
        "documents",
        "interactions",
        "keys",
        "audit",
    ):
        page = other.get(f"/api/{path}", params={"limit": 1}, headers=ADA).json()
        if page["next"]:
            response = http.get(f"/api/{path}", params={"after": page["next"]}, headers=ADA)
            assert (response.status_code, MARK in response.text) == (200, False), path
            assert path == "keys" or response.json()["data"] == [], (path, response.text)
    name = f"agent of {MARK}"
    tag = other.get(f"/api/agents/{name}").headers["etag"]
    for headers in ({"If-None-Match": tag}, {"If-None-Match": "*"}, {}):
        assert normalized(http.get(f"/api/agents/{name}", headers=headers), name) == normalized(
            http.get("/api/agents/no one"), "no one"
        )
    for method in ("PATCH", "DELETE"):
        how: Any = (
            {"headers": {"If-Match": tag}, "json": {"model": "m"}} if method == "PATCH" else {}
        )
        assert normalized(http.request(method, f"/api/agents/{name}", **how), name) == normalized(
            http.request(method, "/api/agents/no one", **how), "no one"
        )


# -- MCP ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stranger", ["tenant", "user"])
def test_no_memory_tool_or_resource_distinguishes_foreign_from_missing(
    memory: Memory, calling: Calling, foreign_scope: Scope, stranger: str
) -> None:
    """In the default profile; tests/test_isolation.py has the tools of all verbs."""
    result, before = ids(foreign_scope), exported(memory, "ada")
    http = calling("acme") if stranger == "tenant" else calling("theirs", user="bob")
    http.headers["X-Memorist-User"] = "ada" if stranger == "tenant" else "bob"
    session, area = result["messages"], f"session:{result['state']}"
    named: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
        ("retrieve_memory", "memory_key", result["refs"], {}),
        ("correct_fact", "fact_id", result["facts"], {"statement": "mine"}),
        ("search_memory", "thread_id", session, {"query": "x"}),
        ("get_state", "area", area, {"key": "again"}),
        ("set_state", "area", area, {"key": "again", "value": 1}),
        ("list_state", "area", area, {}),
        ("remove_state", "area", area, {"key": "again"}),
    )
    for tool, name, foreign, others in named:
        answers = []
        for value in (foreign, "session:nobody" if name == "area" else UNUSED_IDS["id"]):
            answer = str(
                _call(http, "/mcp", "tools/call", name=tool, arguments={**others, name: value})
            )
            for part in (value, value.removeprefix("session:")):
                answer = answer.replace(part, "NAME")
            answers.append(answer)
        assert answers[0] == answers[1], tool
        assert MARK not in answers[0], tool
    for uri, other in (
        (
            f"memorist://sessions/{result['messages']}",
            f"memorist://sessions/{UNUSED_IDS['session']}",
        ),
        (f"memorist://refs/{result['refs']}", f"memorist://refs/{UNUSED_IDS['key']}"),
    ):
        both = [
            http.post("/mcp", json=_message("resources/read", uri=item), headers=ACCEPT)
            .text.replace(item, "URI")
            .replace(item.rpartition("/")[2], "NAME")
            for item in (uri, other)
        ]
        assert both[0] == both[1]
        assert '"error"' in both[0]
    template = {"type": "ref/resource", "uri": "memorist://refs/{key}"}
    argument = {"name": "key", "value": result["refs"][:3]}
    answer = _call(http, "/mcp", "completion/complete", ref=template, argument=argument)
    assert answer["completion"]["values"] == []
    assert exported(memory, "ada") == before


def _message(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def _call(http: TestClient, path: str, method: str, **params: Any) -> Any:
    payload = http.post(
        path, json=_message(method, **params), headers={**ACCEPT, "X-Memorist-Agent": "scout"}
    ).json()
    return payload.get("result", payload)


# -- chat and streams --------------------------------------------------------------------------------------------------


@contextmanager
def two_clients(
    url: str, model: PausingModel
) -> Iterator[tuple[RunningServer, httpx2.Client, httpx2.Client]]:
    """Run a server and yield a client of each tenant."""
    for served in serve(url, model):
        _, key = create_key(served.memory, "theirs", "theirs", PERMISSIONS)
        with served.client() as ours, served.client(Authorization=f"Bearer {key}") as other:
            yield served, ours, other


def test_a_foreign_turn_is_invisible(url: str) -> None:
    """Neither running nor finished; the same session and key in another tenant is another
    turn.
    """
    model = PausingModel(f"{MARK} is here and stays", "Ours is another one altogether")
    session, key = str(uuid.uuid4()), "the same"
    with two_clients(url, model) as (served, ours, other):
        payload = {"message": MARK, "session_id": session, "key": key}
        answers: list[Any] = []
        turn = threading.Thread(
            target=lambda: answers.append(other.post("/api/chat", json=payload))
        )
        turn.start()
        assert model.halted.acquire(timeout=WAIT)
        nobodys = str(uuid.uuid4())

        def listen() -> None:
            results = [
                normalized(
                    ours.get(f"/api/chat/turns/{key}/events", params={"session_id": item}), item
                )
                for item in (session, nobodys)
            ]
            assert results[0] == results[1]
            assert results[0][0] == 404
            assert ours.get(f"/api/chat/turns/{key}/events").status_code == 404
            for path in (f"/api/chat/sessions/{session}", f"/api/chat/sessions/{session}/messages"):
                assert normalized(ours.get(path), session) == normalized(
                    ours.get(path.replace(session, nobodys)), nobodys
                )

        listen()
        model.going.set()
        turn.join(WAIT)
        assert answers[0].status_code == 200
        listen()
        mine = ours.post("/api/chat", json=payload).json()
        assert mine["message"].startswith("Ours")
        received = list(
            events(
                ours.get(
                    f"/api/chat/turns/{key}/events", params={"session_id": session}
                ).iter_lines()
            )
        )
        assert received[-1].name == "done"
        assert MARK not in str([event.data for event in received])
        assert len(served.memory.scope(tenant="theirs", user="ada").messages.list(session)) == 2
        _, bob = create_key(served.memory, "theirs", "bob's", PERMISSIONS, user="bob")
        with served.client(user=None, Authorization=f"Bearer {bob}") as bobs:
            before = exported(served.memory)
            results = [
                normalized(
                    bobs.get(f"/api/chat/turns/{key}/events", params={"session_id": item}), item
                )
                for item in (session, nobodys)
            ]
            assert results[0] == results[1]
            result = bobs.post("/api/chat", json={"message": "let me in", "session_id": session})
            assert normalized(result, session) == normalized(
                bobs.post("/api/chat", json={"message": "let me in", "session_id": "nobody"}),
                "nobody",
            )
            assert bobs.get("/api/chat/sessions").json()["data"] == []
            assert exported(served.memory) == before


def test_a_note_stream_has_only_own_changes(url: str) -> None:
    """The same user and agent of another tenant write meanwhile."""
    with two_clients(url, PausingModel("x")) as (_, ours, other):
        whose = {"user": "ada", "agent": "scout"}
        with ours.stream("GET", "/api/notes/stream", params=whose) as stream:
            lines = stream.iter_lines()
            assert [next(lines), next(lines)] == ["id: 0", "retry: 1000"]
            assert other.put("/api/notes", params=whose, json={"text": MARK}).status_code == 200
            assert ours.put("/api/notes", params=whose, json={"text": "ours"}).status_code == 200
            first = next(events(lines))
            assert first.data["version"] == 1
            assert MARK not in str(first.data)
        assert ours.get("/api/notes/changes", params={**whose, "after": 1}).json() == []


# -- admins ------------------------------------------------------------------------------------------------------------


def test_an_admin_is_limited_to_the_tenant(
    memory: Memory, calling: Calling, foreign_scope: Scope
) -> None:
    """Exports, erasure, keys and the audit log."""
    other = calling("theirs")
    other.put("/api/state/x", json={"value": MARK}, headers=ADA)
    keys = [element["id"] for element in other.get("/api/keys").json()["data"]]
    http = calling("acme")
    before = exported(memory)
    assert MARK not in http.post("/api/users/ada/export").text
    assert set(http.post("/api/users/ada/erase").json()["removed"].values()) <= {0}
    assert exported(memory) == before
    nobodys = "a" * len(keys[0])
    for key in keys:
        assert normalized(http.delete(f"/api/keys/{key}"), key) == normalized(
            http.delete(f"/api/keys/{nobodys}"), nobodys
        )
    assert other.get("/api/me").status_code == 200, "their key still works"
    for item in (
        {},
        {"who": "a test"},
        {"what": "state_set"},
        {"after": other.get("/api/audit?limit=1").json()["next"]},
    ):
        response = http.get(
            "/api/audit", params={name: value for name, value in item.items() if value}
        )
        assert response.status_code == 200
        assert "state" not in str([record["subject"] for record in response.json()["data"]])
    assert http.get("/metrics").status_code == 403
    assert MARK not in http.get("/api/status").text
    answer = http.post("/api/keys", json={"name": "x", "permissions": ["read"], "tenant": "theirs"})
    assert answer.status_code == 422

"""Isolation beyond REST endpoints: chat, MCP, streams, keys, admin routes.

Foreign objects look like missing ones. REST endpoints: tests/server/test_foreign.py.
"""

from __future__ import annotations

import io
import re
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

from retain import Memory, Scope
from retain.api.endpoints import ENDPOINTS, SCOPE_ENDPOINTS
from retain.api.examples import EXAMPLES
from retain.auth import authenticator
from retain.auth.api_keys import Keys
from retain.auth.principal import PERMISSIONS
from tests.calling import Calling
from tests.server.talking import PausingModel, RunningServer, events, serve
from tests.server.test_foreign import MARK, UNUSED_IDS, filled, ids
from tests.server.test_request_authenticator import routes

ADA = {"X-Retain-User": "ada", "X-Retain-Agent": "scout"}
ACCEPT = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
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


def mcp_request(http: TestClient, path: str, method: str, **params: Any) -> Any:
    """Send one MCP message and return the response."""
    payload = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return http.post(path, json=payload, headers={**ACCEPT, **ADA})


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
    for endpoint in (*ENDPOINTS, *SCOPE_ENDPOINTS):
        if endpoint.needs == "read" and "{" not in endpoint.route:
            value = REQUIRED_ARGUMENTS.get(endpoint.name, {})
            values[f"tool {endpoint.name}"] = normalized(
                mcp_request(http, "/mcp/all", "tools/call", name=endpoint.name, arguments=value)
            )
    return values


REQUIRED_ARGUMENTS: dict[str, dict[str, Any]] = {
    "search": {"query": MARK},
    "entries_search": {"query": MARK},
    "refs_search": {"query": MARK},
    "knowledge_search": {"query": MARK},
    "notes_diff": {"version": 1},
    "interactions_totals": {"by": "day"},
    "turns_list": {"session": "x"},
}
"""Required arguments of tools."""


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
    foreign_scope.post("/api/chat", json={"message": MARK}, headers={"X-Retain-User": "ada"})
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
        "knowledge",
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


def test_idempotency_keys_are_separate_per_key_and_tenant(memory: Memory, calling: Calling) -> None:
    """P11, P2: the same Idempotency-Key of another tenant, or of another API key, is another
    request.
    """
    payload: Any = {
        "json": {"content": MARK, "kind": "core"},
        "headers": {**ADA, "Idempotency-Key": "the same"},
    }
    first = calling("theirs").post("/api/entries", **payload)
    for http in (calling("acme"), calling("theirs", user="bob"), calling("theirs", user="ada")):
        mine: Any = {
            **payload,
            "headers": {"X-Retain-Agent": "scout", "Idempotency-Key": "the same", **_user(http)},
        }
        for body in ({"content": MARK, "kind": "core"}, {"content": "other", "kind": "core"}):
            response = http.post("/api/entries", **{**mine, "json": body})
            if body["content"] == MARK:
                assert (response.status_code, "idempotent-replayed" in response.headers) == (
                    201,
                    False,
                )
                assert response.json()["id"] != first.json()["id"]
            else:
                assert response.status_code == 422, "one's own key was used for something else"
    assert memory.scope(tenant="acme").entries.list().items[0].content == MARK


def _user(http: TestClient) -> dict[str, str]:
    user = http.get("/api/me").json()["user"]
    return {} if user else {"X-Retain-User": "ada"}


# -- MCP ---------------------------------------------------------------------------------------------------------------

NAMES = ("id", "session", "key", "name", "stored_id", "memory_key", "area")
"""Tool arguments that name an object."""


def calls(
    found: dict[str, str], tools: list[Any]
) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield every tool that names an object, with a foreign name and with an unused one."""
    kinds = {endpoint.name: endpoint.kind for endpoint in (*ENDPOINTS, *SCOPE_ENDPOINTS)}
    for tool in tools:
        kind, shape = kinds.get(tool["name"], ""), tool["inputSchema"]
        right = {
            name: EXAMPLES.get(f"{kind}.{name}", EXAMPLES.get(name, "x"))
            for name in shape.get("required", ())
        }
        for name in NAMES:
            if name not in shape["properties"]:
                continue
            if name == "session" or name == "stored_id":
                both = found["messages"], UNUSED_IDS["session"]
            elif name == "name":
                both = found["agents"], UNUSED_IDS["name"]
            elif name == "memory_key" or (name == "key" and kind == "refs"):
                both = found["refs"], UNUSED_IDS["key"]
            elif name == "area":
                both = f"session:{found['state']}", f"session:{UNUSED_IDS['session']}"
            elif name == "id":
                both = (
                    (found[kind], UNUSED_IDS["session"])
                    if kind == "sessions"
                    else (found[kind], UNUSED_IDS["id"])
                )
            else:
                continue
            yield f"{tool['name']} {name}", *({**right, name: item} for item in both)  # type: ignore[misc]


@pytest.mark.slow_on_postgres
@pytest.mark.parametrize("path", ["/mcp", "/mcp/all"])
def test_no_tool_distinguishes_foreign_from_missing(
    memory: Memory, calling: Calling, foreign_scope: Scope, path: str
) -> None:
    """Every tool of both profiles and every resource, with every foreign name: for a
    key of another tenant and of another user.
    """
    result, before = ids(foreign_scope), exported(memory, "ada")
    users = ("sessions", "messages", "summaries", "refs", "state", "turns")
    for http, tenant in ((calling("acme"), "acme"), (calling("theirs", user="bob"), "theirs")):
        headers = {"X-Retain-User": "ada"} if tenant == "acme" else {"X-Retain-User": "bob"}
        http.headers.update(headers)
        tools = _call(http, path, "tools/list")["tools"]
        tried = 0
        for what, foreign, nobodys in calls(result, tools):
            name, _, field = what.partition(" ")
            if (
                tenant == "theirs"
                and not name.startswith(users)
                and name not in ("retrieve_memory", "context", "search")
            ):
                continue
            if (name, field) in CHOSEN_BY_THE_CALLER:
                continue
            answer = [
                str(_call(http, path, "tools/call", name=name, arguments=arguments)).replace(
                    arguments[field], "NAME"
                )
                for arguments in (foreign, nobodys)
            ]
            answer = [
                text.replace(arguments[field].removeprefix("session:"), "NAME")
                for text, arguments in zip(answer, (foreign, nobodys), strict=True)
            ]
            assert _normalized_text(answer[0]) == _normalized_text(answer[1]), (tenant, what)
            assert MARK not in answer[0].replace(foreign[field], ""), what
            tried += 1
        assert tried >= (20 if path == "/mcp/all" else 1)
        for uri, other in (
            (
                f"retain://sessions/{result['messages']}",
                f"retain://sessions/{UNUSED_IDS['session']}",
            ),
            (f"retain://refs/{result['refs']}", f"retain://refs/{UNUSED_IDS['key']}"),
        ):
            both = [
                http.post(path, json=_message("resources/read", uri=item), headers=ACCEPT)
                .text.replace(item, "URI")
                .replace(item.rpartition("/")[2], "NAME")
                for item in (uri, other)
            ]
            assert both[0] == both[1]
            assert '"error"' in both[0]
        template = {"type": "ref/resource", "uri": "retain://refs/{key}"}
        answer = _call(
            http,
            path,
            "completion/complete",
            ref=template,
            argument={"name": "key", "value": result["refs"][:3]},
        )
        assert answer["completion"]["values"] == []
    assert exported(memory, "ada") == before


CHOSEN_BY_THE_CALLER = {("refs_add", "key"), ("sessions_add", "id"), ("agents_add", "name")}
"""Arguments that name something new."""


def _message(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def _call(http: TestClient, path: str, method: str, **params: Any) -> Any:
    payload = http.post(
        path, json=_message(method, **params), headers={**ACCEPT, "X-Retain-Agent": "scout"}
    ).json()
    return payload.get("result", payload)


def _normalized_text(text: str) -> str:
    """Return the text without times and generated ids."""
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID", text)
    return re.sub(
        r"\d{4}-\d\d-\d\dT[\d:.]+Z|memory [0-9a-f]{12}|[a-z0-9-]+-[0-9a-f]{8}\b", "THEN", text
    )


# -- chat and streams --------------------------------------------------------------------------------------------------


@contextmanager
def two_clients(
    url: str, model: PausingModel
) -> Iterator[tuple[RunningServer, httpx2.Client, httpx2.Client]]:
    """Run a server and yield a client of each tenant."""
    for served in serve(url, model):
        _, key = Keys(served.memory.database).create("theirs", "theirs", PERMISSIONS)
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
        _, bob = Keys(served.memory.database).create("theirs", "bob's", PERMISSIONS, user="bob")
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

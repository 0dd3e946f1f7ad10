"""Isolation over HTTP: ids of another tenant or user look like ids that do not exist."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from retain import Memory, Scope
from retain.api.endpoints import ENDPOINTS
from tests.calling import Calling
from tests.test_every_kind import EXAMPLES

MARK = "their mark"
UNUSED_IDS = {
    "id": "01234567-89ab-7cde-8f01-23456789abcd",
    "session": "a session of nobody",
    "name": "an agent of nobody",
    "key": "nothing-0a1b2c3d",
}
BODIES: dict[str, Any] = {
    "agents_edit": {"model": "mine"},
    "sessions_activate": {},
    "sessions_edit": {"label": "mine"},
    "messages_append": {"role": "user", "content": "mine"},
    "messages_extend": {"messages": [{"role": "user", "content": "mine"}]},
    "messages_pop": {},
    "summaries_fold": {"force": True},
    "facts_correct": {"statement": "mine"},
    "facts_retract": {},
    "facts_confirm": {},
    "facts_undo": {},
    "entries_edit": {"content": "mine"},
    "entries_accept": {},
    "entries_refuse": {},
    "consolidations_accept": {},
    "consolidations_refuse": {},
    "consolidations_undo": {},
    "refs_edit": {"summary": "mine"},
    "state_set": {"value": "mine"},
}
CHOSEN_BY_THE_CALLER = {"entries_share", "items_put"}
"""Endpoints whose id the caller chooses."""
OF_USERS = ("sessions", "messages", "summaries", "facts", "refs", "state", "items", "turns")
"""Kinds that belong to one user."""

Request = tuple[str, str, str, str, dict[str, Any]]


@pytest.fixture
def foreign_scope(memory: Memory) -> Scope:
    """A scope of another tenant with one of each kind."""
    scope = filled(memory.scope(tenant="theirs", user="ada", agent="scout"))
    memory.run_jobs(tenants=["theirs"])  # otherwise jobs would change the tenant during a test
    return scope


def filled(scope: Scope) -> Scope:
    for make in EXAMPLES.values():
        make(scope, MARK)
    return scope


def ids(scope: Scope) -> dict[str, str]:
    """Return the id of one object of each kind."""
    talking = f"session of {MARK} talking"
    item = next(iter(scope.items.list()))
    return {
        "items": item.key,
        "place": json.dumps(item.place),
        "agents": f"agent of {MARK}",
        "sessions": talking,
        "messages": talking,
        "summaries": f"session of {MARK} folding",
        "facts": next(iter(scope.facts.list())).id,
        "entries": next(iter(scope.entries.list())).id,
        "consolidations": next(iter(scope.consolidations.list())).id,
        "refs": next(iter(scope.refs.list())).key,
        "state": f"session of {MARK} keeping",
        "knowledge": next(iter(scope.knowledge.list())).id,
        "turns": next(iter(scope.turns.list(f"session of {MARK} taking turns"))).id,
    }


def requests(found: dict[str, str], *, kinds: tuple[str, ...] = ()) -> Iterator[Request]:
    """Return every endpoint that takes an id: name, method, and the path with that id and with an
    unused one.
    """
    for endpoint in ENDPOINTS:
        if (
            "{" not in endpoint.route
            or endpoint.name in CHOSEN_BY_THE_CALLER
            or (kinds and endpoint.kind not in kinds)
        ):
            continue
        kind, mine = endpoint.kind, found[endpoint.kind]
        name = {"agents": "name", "refs": "key"}.get(
            kind, "session" if kind in ("messages", "summaries", "sessions") else "id"
        )
        body = BODIES.get(endpoint.name)
        assert (body is None) == (endpoint.method in ("GET", "DELETE")), (
            f"{endpoint.name} needs a body here"
        )
        if kind == "state":
            values = [{"area": f"session:{id}"} for id in (mine, UNUSED_IDS["session"])]
            for item in values:
                where = {"json": {**body, **item}} if body is not None else {"params": item}
                yield (
                    endpoint.name,
                    endpoint.method,
                    "/api/state/again",
                    item["area"].partition(":")[2],
                    where,
                )
            continue
        if kind == "items":
            for id in (mine, UNUSED_IDS["key"]):
                yield (
                    endpoint.name,
                    endpoint.method,
                    f"/api/items/{quote(id, safe='')}",
                    id,
                    {"params": {"place": found["place"]}},
                )
            continue
        for id in (mine, UNUSED_IDS[name]):
            path = endpoint.route.replace("{seq:int}", "1")
            start, end = path.index("{"), path.index("}")
            path = path[:start] + quote(id, safe="") + path[end + 1 :]
            yield endpoint.name, endpoint.method, path, id, {} if body is None else {"json": body}


def answers(
    client: TestClient, made: Iterator[Request], **whose: str
) -> Iterator[tuple[str, tuple[Any, ...], tuple[Any, ...]]]:
    """Return the responses per endpoint for the id and for an unused one, without volatile parts."""
    values: dict[str, list[tuple[Any, ...]]] = {}
    for name, method, path, id, how in made:
        params = {**whose, **how.pop("params", {})} if method in ("GET", "DELETE") else whose
        response = client.request(method, path, params=params, **how)
        text = response.text.replace(response.headers["x-request-id"], "REQUEST").replace(
            json.dumps(id, ensure_ascii=False)[1:-1], "ID"
        )
        stored = {
            name: value
            for name, value in response.headers.items()
            if name not in ("x-request-id", "content-length")
        }
        values.setdefault(name, []).append((response.status_code, text, stored))
    for name, both in values.items():
        yield name, both[0], both[1]


def exported(memory: Memory) -> bytes:
    out = io.BytesIO()
    memory.export(out, tenants=["theirs"])
    return out.getvalue()


def test_a_key_finds_nothing_of_another_tenant(
    memory: Memory, calling: Calling, foreign_scope: Scope
) -> None:
    """With every permission, on every endpoint that takes an id, exactly as if it did not
    exist.
    """
    http, before = calling("acme"), exported(memory)
    seen = 0
    for name, foreign, nobodys in answers(
        http, requests(ids(foreign_scope)), user="ada", agent="scout"
    ):
        assert foreign == nobodys, name
        assert foreign[0] == 404, (name, foreign)
        assert MARK not in foreign[1], name
        seen += 1
    assert seen == sum("{" in endpoint.route for endpoint in ENDPOINTS) - len(CHOSEN_BY_THE_CALLER)
    assert exported(memory) == before


def test_a_key_for_one_user_finds_nothing_of_another(
    memory: Memory, calling: Calling, foreign_scope: Scope
) -> None:
    """Nor can a request name another user in any way."""
    before = exported(memory)
    http = calling("theirs", user="bob")
    for name, foreign, nobodys in answers(
        http, requests(ids(foreign_scope), kinds=OF_USERS), agent="scout"
    ):
        assert foreign == nobodys, name
        assert foreign[0] == 404, (name, foreign)
    for how in ({"params": {"user": "ada"}}, {"headers": {"X-Retain-User": "ada"}}):
        response = http.get("/api/sessions", **how)  # type: ignore[arg-type]
        assert (response.status_code, MARK in response.text) == (403, False)
        assert http.put("/api/notes", json={"text": "mine"}, **how).status_code == 403  # type: ignore[arg-type]
    assert http.get("/api/sessions").json()["data"] == []
    assert http.get("/api/sessions", params={"user": "bob"}).status_code == 200
    assert exported(memory) == before


def test_a_key_bound_to_an_agent_rejects_other_agents(calling: Calling) -> None:
    http = calling("acme", agent="scout")
    assert http.get("/api/entries", headers={"X-Retain-Agent": "planner"}).status_code == 403
    assert http.get("/api/entries", params={"agent": "planner"}).status_code == 403
    assert http.get("/api/entries", params={"agent": "scout"}).status_code == 200
    assert http.get("/api/entries").status_code == 200


NAMES_A_SESSION: list[tuple[str, str, dict[str, Any]]] = [
    ("GET", "/api/turns", {"params": {"session": "SESSION"}}),
    (
        "POST",
        "/api/turns",
        {"json": {"session": "SESSION", "messages": [{"role": "user", "content": "mine"}]}},
    ),
    ("POST", "/api/context", {"json": {"session": "SESSION", "message": "hello"}}),
    ("POST", "/api/search", {"json": {"query": MARK, "session": "SESSION"}}),
    ("GET", "/api/refs", {"params": {"session": "SESSION"}}),
    ("POST", "/api/refs", {"json": {"content": "mine", "session": "SESSION"}}),
    (
        "POST",
        "/api/refs/capture",
        {"json": {"output": "mine", "source": "ls", "session": "SESSION"}},
    ),
    (
        "POST",
        "/api/interactions",
        {"json": {"route": "r", "model": "m", "latency_ms": 1.0, "session": "SESSION"}},
    ),
    ("GET", "/api/interactions", {"params": {"session": "SESSION"}}),
    ("GET", "/api/chat/sessions/SESSION", {}),
    ("GET", "/api/chat/sessions/SESSION/messages", {}),
    ("PATCH", "/api/chat/sessions/SESSION", {"json": {"label": "mine"}}),
]
"""Requests that name a session outside the path."""


def test_a_foreign_session_looks_unknown(
    memory: Memory, calling: Calling, foreign_scope: Scope
) -> None:
    http, before = calling("acme"), exported(memory)
    for method, path, how in NAMES_A_SESSION:
        received = []
        for id in (f"session of {MARK} taking turns", UNUSED_IDS["session"]):
            payload = json.loads(json.dumps(how).replace("SESSION", id))
            params = {"user": "ada", **payload.pop("params", {})}
            response = http.request(
                method, path.replace("SESSION", quote(id, safe="")), params=params, **payload
            )
            text = response.text.replace(response.headers["x-request-id"], "REQUEST").replace(
                id, "ID"
            )
            received.append((response.status_code, text if response.status_code >= 400 else ""))
            assert MARK not in text, (method, path)
            assert response.status_code < 500, (method, path, text)
        assert received[0] == received[1], (method, path)
    assert exported(memory) == before

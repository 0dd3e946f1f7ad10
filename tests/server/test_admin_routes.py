"""Admin routes: read the audit log, export and erase a user; only for admins of the tenant."""

from __future__ import annotations

import errno
import io
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from memorist import Memory, Scope
from memorist.admin.principal import PERMISSIONS
from memorist.admin.users import first_user
from memorist.kinds.graph import GraphEntity
from memorist.server.http.app import create_app
from memorist_frameworks.checkpoints.checkpoints import checkpoints_of
from testkit.apps import HERE, URL, Calling
from testkit.databases import one_engine
from testkit.keys import create_key
from testkit.search_index import index_now

CANARY = "CANARYqwzx7"
ADA = {"X-Memorist-User": "ada", "X-Memorist-Agent": "scout"}


def store_canary(http: TestClient, user: str = "ada", said: str = CANARY) -> None:
    """Write the canary to every kind over HTTP, also as stored idempotent responses."""
    session = f"trip-of-{user}"
    for method, path, body in (
        ("POST", "/api/sessions", {"id": session, "label": said, "attributes": {"x": said}}),
        ("POST", f"/api/messages/{session}", {"role": "user", "content": said}),
        ("PUT", "/api/notes", {"text": f"# {said}"}),
        ("POST", "/api/entries", {"content": said, "kind": "core"}),
        ("POST", "/api/refs", {"content": f"{said} " * 900, "description": said}),
        ("PUT", "/api/state/theme", {"value": said}),
        ("POST", "/api/documents", {"title": said, "text": f"{said} text"}),
        (
            "POST",
            "/api/interactions",
            {"route": "r", "model": "m", "latency_ms": 1.0, "error": said},
        ),
        ("POST", "/api/search", {"query": said}),
    ):
        headers = {**ADA, "X-Memorist-User": user, "Idempotency-Key": f"{user} {path}"}
        response = http.request(method, path, json=body, headers=headers)
        assert response.status_code < 300, (path, response.text)


@one_engine
def test_writes_over_http_are_audited_for_admins(http: TestClient, calling: Calling) -> None:
    """D6, 3.2 item 12: who, what, when and the request id; no content."""
    store_canary(http)
    response = http.get("/api/audit", params={"limit": 50})
    assert response.status_code == 200
    records = response.json()["data"]
    assert {record["what"] for record in records} >= {
        "sessions_add",
        "notes_overwrite",
        "entries_add",
        "refs_add",
        "state_set",
    }
    assert "messages_append" not in {record["what"] for record in records}
    assert CANARY not in response.text
    assert all(record["who"].startswith("a test (") for record in records)
    answered = http.put("/api/state/theme", json={"value": 1}, headers=ADA)
    (last,) = http.get("/api/audit", params={"limit": 1}).json()["data"]
    assert last["request_id"] == answered.headers["X-Request-ID"] != ""
    for permissions, bound in ((["read", "write", "delete"], {}), (["admin"], {"user": "ada"})):
        for method, path in (
            ("GET", "/api/audit"),
            ("POST", "/api/users/ada/export"),
            ("POST", "/api/users/ada/erase"),
        ):
            refused = calling("acme", permissions, **bound).request(method, path)
            assert refused.status_code == 403, path
    assert calling("acme", ["admin"]).post("/api/users/ada/erase").status_code == 403
    assert calling("other").get("/api/audit").json()["data"] == []


def test_export_of_one_user_can_be_imported(http: TestClient, memory: Memory) -> None:
    store_canary(http)
    store_canary(http, "bob", "somebody else's words")
    response = http.post("/api/users/ada/export")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("application/jsonl")
    assert CANARY in response.text
    assert "somebody else" not in response.text
    lines = [json.loads(line) for line in response.text.splitlines()]
    assert lines[-1]["rows"] == len(lines) - 3
    with Memory.open("memory:") as copy:
        copy.import_(io.BytesIO(response.content))
        assert (
            copy.scope(tenant="acme", user="ada", agent="scout").notes.read().text == f"# {CANARY}"
        )
    (last,) = memory.scope(tenant="acme").admin.audit.list(limit=1)
    assert (last.what, last.subject) == ("export", "users ada")


def test_erase_leaves_nothing_of_the_user(
    http: TestClient, memory: Memory, engine: str, tmp_path: Path
) -> None:
    """No row, index row, stored response or byte of the file holds the user's content; the
    receipt lists what was removed.
    """
    store_canary(http)
    store_canary(http, "bob", "somebody else's words")
    index_now(memory)
    response = http.post("/api/users/ada/erase")
    assert response.status_code == 200, response.text
    receipt = response.json()
    assert (receipt["tenant"], receipt["user"]) == ("acme", "ada")
    assert (
        min(
            receipt["removed"][name]
            for name in ("messages", "notes", "entries", "refs", "state", "stored_responses")
        )
        > 0
    )
    whole = io.BytesIO()
    memory.export(whole)
    assert CANARY.encode() not in whole.getvalue()
    assert whole.getvalue().count(b"somebody else") > 5
    for sql in _ALL_ROWS.values():
        rows = memory.database.read("acme", lambda tx, sql=sql: tx.all(sql))  # type: ignore[misc]
        assert CANARY not in str(rows)
        assert "of-ada" not in str(rows)
    index_now(memory)
    owners = {row[1] for row in memory.database.read("acme", lambda tx: tx.all(_INDEX_OWNERS))}
    assert owners == {"ubob"}
    if engine == "sqlite":
        memory.close()
        for file in tmp_path.rglob("*"):
            assert not file.is_file() or CANARY.encode() not in file.read_bytes(), file
        return
    (last,) = memory.scope(tenant="acme").admin.audit.list(limit=1)
    assert (last.what, last.subject) == ("users_erase", "users ada")


_INDEX_OWNERS = "select * from index_owners where tenant = :tenant"
_ALL_ROWS = {
    "stored_responses": "select * from stored_responses where tenant = :tenant",
    "index_owners": _INDEX_OWNERS,
    "index_segments": "select * from index_segments where tenant = :tenant",
    "index_parts": "select * from index_parts where tenant = :tenant",
    "index_vectors": "select * from index_vectors where tenant = :tenant",
    "fresh_records": "select * from fresh_records where tenant = :tenant",
    "fresh_sessions": "select * from fresh_sessions where tenant = :tenant",
    "audit": "select * from audit where tenant = :tenant",
}


@one_engine
def test_erasing_an_unknown_user_succeeds_and_an_invalid_name_is_rejected(
    http: TestClient,
) -> None:
    erased = http.post("/api/users/nobody%2Fat%20all/erase")
    assert (erased.status_code, erased.json()["user"]) == (200, "nobody/at all")
    assert not any(
        count for name, count in erased.json()["removed"].items() if name != "stored_responses"
    )
    assert http.post("/api/users/%00/erase").status_code == 422
    assert http.post(f"/api/users/{'x' * 600}/export").status_code == 413


@pytest.mark.parametrize("engine", ["sqlite", "modern"], indirect=True)
def test_logs_contain_neither_content_nor_keys(
    open_memory: Callable[..., Memory], calling: Calling, caplog: pytest.LogCaptureFixture
) -> None:
    """3.2 item 10: every library at debug level, while all kinds are written and some requests
    fail.
    """
    app = create_app(open_memory(log_level="debug"))
    for name in [None, *logging.root.manager.loggerDict]:
        caplog.set_level(logging.DEBUG, logger=name)
    http = calling("acme", over=app)
    store_canary(http)
    http.post("/api/entries", json={"content": CANARY, "nonsense": CANARY}, headers=ADA)
    http.post("/api/messages/nowhere", json={"role": CANARY, "content": CANARY}, headers=ADA)
    http.put(
        "/api/notes", content=f"{{{CANARY}", headers={**ADA, "content-type": "application/json"}
    )
    http.get("/api/audit", headers={"Authorization": f"Bearer mst_{CANARY}"})
    http.post("/api/users/ada/export")
    http.post("/api/users/ada/erase")
    lines = [
        f"{record.getMessage()} {record.__dict__}"
        for record in caplog.records
        if record.name != "httpx"
    ]
    key = http.headers["Authorization"].removeprefix("Bearer ")
    assert not [
        line for line in lines if CANARY in line or key in line or key.rpartition("_")[2] in line
    ]


def test_key_of_an_erased_user_is_rejected(tmp_path: Path) -> None:
    """At once, in the process that erased."""
    with Memory.open(f"sqlite:///{tmp_path}/a.db") as memory:
        texts = [
            create_key(memory, "acme", "x", PERMISSIONS, user=user)[1] for user in (None, "ada")
        ]
        app = create_app(memory)
        boss, ada = (
            TestClient(app, URL, headers={"X-API-Key": text}, client=HERE) for text in texts
        )
        assert ada.get("/api/me").json()["user"] == "ada"
        assert boss.post("/api/users/ada/erase").status_code == 200
        assert ada.get("/api/me").status_code == 401
        assert boss.get("/api/me").status_code == 200


@one_engine
def test_an_agent_is_erased_with_a_receipt(
    http: TestClient, calling: Calling, memory: Memory
) -> None:
    """Its settings, entries, notes, sessions and keys; audited."""
    store_canary(http)
    assert http.post("/api/agents", json={"name": "scout"}).status_code == 201
    bound = calling("acme", agent="scout")
    assert bound.get("/api/me").status_code == 200
    assert calling("acme", ["admin"]).post("/api/agents/scout/erase").status_code == 403
    erased = http.post("/api/agents/scout/erase")
    assert erased.status_code == 200, erased.text
    receipt = erased.json()
    assert (receipt["tenant"], receipt["agent"]) == ("acme", "scout")
    removed = receipt["removed"]
    for table in ("agents", "sessions", "messages", "notes", "entries"):
        assert removed[table] >= 1, table
    assert bound.get("/api/me").status_code == 401
    assert http.get("/api/entries", headers=ADA).json()["data"] == []
    (row,) = http.get("/api/audit", params={"what": "users_erase_agent"}).json()["data"]
    assert row["subject"] == "agents scout"


def test_export_without_disk_space_returns_507(monkeypatch: pytest.MonkeyPatch) -> None:
    """507, and no partial export."""

    class FullDisk(io.BytesIO):
        def write(self, data: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(
        "memorist.server.routes.export_route.tempfile.SpooledTemporaryFile", lambda size: FullDisk()
    )
    with Memory.open("memory:") as memory:
        result = TestClient(create_app(memory), URL, client=HERE).post("/api/users/ada/export")
    assert (result.status_code, result.headers["content-type"]) == (507, "application/problem+json")


@pytest.mark.parametrize("engine", ["sqlite", "modern"], indirect=True)
def test_users_with_data_of_any_kind_are_listed(http: TestClient, memory: Memory) -> None:
    writes: dict[str, Callable[[Scope], object]] = {
        "Élodie": lambda scope: scope.items.put(["prefs"], "theme", {"dark": True}),
        "graph": lambda scope: scope.graph.add([GraphEntity("g1", "city")]),
        "thread": lambda scope: checkpoints_of(scope).add("t1", "c1", ("bytes", b"x")),
        "called": lambda scope: scope.interactions.add("r", "m", latency_ms=1),
    }
    for user, write in writes.items():
        write(memory.scope(tenant="acme", user=user, agent="scout"))
    users = http.get("/api/users").json()["data"]
    assert {user["user"] for user in users} == writes.keys()
    for search, expected in (
        ("Élo", ["Élodie"]),
        ("élo", ["Élodie"]),
        ("ÉLODIE", ["Élodie"]),
        ("ODIE", ["Élodie"]),
        ("a\0", []),
    ):
        response = http.get("/api/users", params={"search": search})
        assert response.status_code == 200, response.text
        assert [user["user"] for user in response.json()["data"]] == expected, search
    for user in writes:
        assert first_user(memory.database, "acme", user) == user


def test_users_are_listed_with_counts(http: TestClient, calling: Calling, memory: Memory) -> None:
    """The page lists who has data: with counts, by search, page by page; for admins only."""
    store_canary(http)
    store_canary(http, "Bob_1", "tea")
    memory.scope(tenant="acme", user="nobody", agent="scout").sessions.add("empty")
    pending = memory.scope(tenant="acme", user="ada", agent="scout", source="tool")
    pending.entries.add("I am the administrator.", kind="core")
    pending.facts.add("The user is the administrator.")
    memory.scope(tenant="acme", user="ada", agent="scout").facts.add("The user drinks tea.")
    users = http.get("/api/users").json()["data"]
    assert [user["user"] for user in users] == ["ada", "Bob_1"]
    counts = {name: users[0][name] for name in ("conversations", "memories", "pending", "notes")}
    assert counts == {"conversations": 1, "memories": 1, "pending": 1, "notes": 1}
    assert {users[0][name] for name in ("refs", "documents", "state", "facts")} == {1}
    for search, expected in (("bob_", ["Bob_1"]), ("%", []), ("b!", []), ("a", ["ada"])):
        data = http.get("/api/users", params={"search": search}).json()["data"]
        assert [user["user"] for user in data] == expected, search
    first = http.get("/api/users", params={"limit": 1}).json()
    second = http.get("/api/users", params={"limit": 1, "after": first["next"]}).json()
    assert [page["data"][0]["user"] for page in (first, second)] == ["ada", "Bob_1"]
    assert second["next"] is None
    for permissions, bound in ((["read", "write", "delete"], {}), (["admin"], {"user": "ada"})):
        assert calling("acme", permissions, **bound).get("/api/users").status_code == 403
    assert calling("other").get("/api/users").json()["data"] == []

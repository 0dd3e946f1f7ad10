"""Keys that are bound to a user or an agent, and sessions named in requests of the chat.

tests/test_isolation.py has the verbs, tests/security/test_foreign.py the other routes.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from memorist import Memory
from testkit.apps import Calling
from testkit.examples import exported
from testkit.foreign import MARK, UNUSED_IDS, filled


@pytest.fixture
def foreign_tenant(memory: Memory) -> None:
    """Another tenant with records of each kind."""
    filled(memory.scope(tenant="theirs", user="ada", agent="scout"))
    memory.run_jobs(tenants=["theirs"])  # otherwise jobs would change the tenant during a test


@pytest.mark.usefixtures("foreign_tenant")
def test_a_key_for_one_user_cannot_name_another(memory: Memory, calling: Calling) -> None:
    before = exported(memory, tenants=["theirs"])
    http = calling("theirs", user="bob")
    named: tuple[dict[str, Any], ...] = (
        {"params": {"user": "ada"}},
        {"headers": {"X-Memorist-User": "ada"}},
    )
    for how in named:
        response = http.get("/api/sessions", **how)
        assert (response.status_code, MARK in response.text) == (403, False)
        assert http.put("/api/notes", json={"text": "mine"}, **how).status_code == 403
    assert http.get("/api/sessions").json()["data"] == []
    assert http.get("/api/sessions", params={"user": "bob"}).status_code == 200
    assert exported(memory, tenants=["theirs"]) == before


@pytest.mark.usefixtures("foreign_tenant")
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/api/chat/sessions/SESSION", None),
        ("GET", "/api/chat/sessions/SESSION/messages", None),
        ("PATCH", "/api/chat/sessions/SESSION", {"label": "mine"}),
    ],
)
def test_a_foreign_session_of_the_chat_looks_unknown(
    memory: Memory, calling: Calling, method: str, path: str, body: Any
) -> None:
    http, before = calling("acme"), exported(memory, tenants=["theirs"])
    received = []
    for id in (f"session of {MARK} taking turns", UNUSED_IDS["session"]):
        address = path.replace("SESSION", quote(id, safe=""))
        response = http.request(method, address, params={"user": "ada"}, json=body)
        text = response.text.replace(response.headers["x-request-id"], "REQUEST").replace(id, "ID")
        received.append((response.status_code, text))
    assert received[0] == received[1]
    assert received[0][0] == 404
    assert exported(memory, tenants=["theirs"]) == before

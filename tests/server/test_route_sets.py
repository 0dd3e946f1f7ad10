"""Routes of other packages: found by entry points, and called like every other route."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from memorist import Memory
from memorist.base import extensions
from memorist.base.errors import SettingsError
from memorist.server.http.app import create_app
from memorist.server.routes.route_sets import RouteCall, RouteOperation, RouteSet
from testkit.apps import Calling
from testkit.databases import one_engine

pytestmark = one_engine


def remember(call: RouteCall) -> dict[str, str]:
    """Store what the body says."""
    return {"version": str(call.scope.state.set("mood", {"now": call.body["mood"]}).version)}


MOODS = RouteSet(
    kind="state",
    subject="mood of",
    operations=(
        RouteOperation(
            "POST", "/v9/moods/{day}", "write", "moods_add", remember, body=frozenset({"mood"})
        ),
    ),
)
TEXT = "not a set of routes"


def install(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let the server find these names of this module instead of the installed packages."""
    points = {name: EntryPoint(name, f"{__name__}:{name}", extensions.ROUTES) for name in names}
    monkeypatch.setattr(extensions, "extensions", lambda group: points)


def test_the_server_authorizes_parses_and_audits_for_a_set(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, calling: Calling
) -> None:
    install(monkeypatch, "MOODS")
    app = create_app(memory)
    reader = calling(permissions=["read"], over=app)
    assert reader.post("/v9/moods/monday", json={"wrong": 1}).status_code == 403
    writer = calling(permissions=["write"], over=app, user="ada")
    unknown = writer.post("/v9/moods/monday", json={"wrong": 1})
    assert (unknown.status_code, unknown.json()["field"]) == (422, "wrong")
    assert writer.get("/v9/moods/monday").status_code == 405
    done = writer.post("/v9/moods/monday", json={"mood": "calm"})
    assert (done.status_code, done.json()) == (200, {"version": "1"})
    audit = memory.database.read(
        "acme", lambda tx: tx.all("select what, subject from audit where tenant = :tenant")
    )
    assert audit == [("moods_add", "mood of monday")]


def test_without_the_package_the_server_has_no_routes_of_vendors(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, calling: Calling
) -> None:
    install(monkeypatch)
    client = calling(over=create_app(memory))
    for path in ("/v1/conversations", "/v1/memory_stores", "/store/items"):
        assert client.post(path, json={}).status_code == 404
    assert client.get("/api/sessions").status_code == 200


def test_another_object_stops_the_start(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "TEXT")
    with pytest.raises(SettingsError) as raised:
        create_app(memory)
    assert raised.value.details["where"] == "memorist.routes: TEXT"

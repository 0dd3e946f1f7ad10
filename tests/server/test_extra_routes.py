"""Routes of other packages: found by entry points, and called like every other route."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from memorist import Memory
from memorist.api.route import ApiRoute
from memorist.base import extensions
from memorist.server.http import app
from memorist.server.http.authentication import RequestAuthenticator
from memorist.server.http.routing import api_route
from testkit.apps import Calling
from testkit.databases import one_engine

pytestmark = one_engine


class Mood(BaseModel):
    """The body of a request."""

    mood: str


def moods(authenticator: RequestAuthenticator) -> list[ApiRoute]:
    """Return the route of a package."""

    async def remember(request: Request, day: str, body: Mood) -> Response:
        scope = authenticator.scope(request, request.state.principal, None, None)
        scope.state.set(day, {"now": body.mood})
        return JSONResponse(scope.state.get(day).value)

    return [
        api_route(
            authenticator=authenticator,
            method="POST",
            path="/v9/moods/{day}",
            permission="write",
            handler=remember,
            body=Mood,
        )
    ]


def install(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let the server find these names of this module instead of the installed packages."""
    points = {name: EntryPoint(name, f"{__name__}:{name}", extensions.ROUTES) for name in names}
    monkeypatch.setattr(app, "extensions", lambda group: points)


def test_the_server_adds_the_routes_of_a_package(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, calling: Calling
) -> None:
    install(monkeypatch, "moods")
    server = app.create_app(memory)
    reader = calling(permissions=["read"], over=server)
    assert reader.post("/v9/moods/monday", json={"wrong": 1}).status_code == 403
    writer = calling(permissions=["write"], over=server, user="ada")
    assert writer.post("/v9/moods/monday", json={"wrong": 1}).status_code == 422
    assert writer.get("/v9/moods/monday").status_code == 405
    done = writer.post("/v9/moods/monday", json={"mood": "calm"})
    assert (done.status_code, done.json()) == (200, {"now": "calm"})


def test_without_the_package_the_server_has_no_routes_of_vendors(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, calling: Calling
) -> None:
    install(monkeypatch)
    client = calling(over=app.create_app(memory))
    for path in ("/v1/conversations", "/v1/memory_stores", "/store/items"):
        assert client.post(path, json={}).status_code == 404
    assert client.get("/api/sessions").status_code == 200

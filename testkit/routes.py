"""Lists of every route and operation of the server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from starlette.applications import Starlette

from memorist import Memory
from memorist.server.http.app import create_app
from memorist.server.http.routing import Methods
from memorist.server.routes import web_app

PAGES = {f"/{page}{below}" for page in web_app.PAGES for below in ("", "/{below:path}")}
OPEN = {
    "/",
    "/healthz",
    "/readyz",
    "/assets/{path:path}",
    "/api/web",
    "/api/web/sign-in",
    "/api/web/sign-out",
    *PAGES,
}
"""Routes without authentication: the page, which contains no stored data, and the health checks."""
TESTED_ELSEWHERE = ("/mcp", "/.well-known")
"""Permissions of MCP tools are tested with MCP."""


def routes(app: Starlette) -> Iterator[tuple[str, str, str | None]]:
    """Yield the method, a matching path and the permission of every route."""
    for route in app.state.routes:
        if route.path not in OPEN:
            yield route.method, example_path(route.path), route.permission
    for page in app.routes:
        path = getattr(page, "path", None)
        is_api = isinstance(getattr(page, "endpoint", None), Methods)
        if is_api or path is None or path in OPEN or path.startswith(TESTED_ELSEWHERE):
            continue
        for method in getattr(page, "methods", None) or ("GET",):
            yield method, example_path(path), None


def example_path(path: str) -> str:
    path = path.replace("{seq:int}", "1")
    return re.sub(r"\{[^}]*\}", "x", path)


@cache
def operations() -> list[tuple[str, str, str]]:
    """Return name, method and path of every operation: writing the document would take longer."""
    with Memory.open("memory:") as memory:
        state = create_app(memory).state
    return [
        (route.name, route.method, re.sub(r":\w+}", "}", route.path))
        for route in state.routes
        if route.name
    ]

"""`/mcp`: the MCP server over HTTP.

Every request is authenticated, and runs a session manager of its own: no state is kept between
requests. The first request imports the library, which takes longer than the rest of the server's
start.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from memorist.admin.principal import PERMISSIONS
from memorist.api import problem
from memorist.api.schemas import OwnerParameters
from memorist.base import limits
from memorist.base.errors import NotFound, Unauthorized
from memorist.mcp.mcp_caller import McpCaller
from memorist.server.http.authentication import RequestAuthenticator
from memorist.server.http.routing import read_query

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from memorist.mcp.server import Context, Profile

PATHS: dict[str, Profile] = {"/mcp": "agent", "/mcp/all": "all", "/mcp/graph": "graph"}
METADATA = "/.well-known/oauth-protected-resource"
_CALLER = "mcp_caller"


def routes(authenticator: RequestAuthenticator) -> list[Route]:
    """Return the MCP servers, and the routes that say where a client gets a token.

    `/mcp` has an agent's tools, `/all` every verb, `/graph` the graph. There are none without the
    package mcp, which is a separate extra: other libraries need an older version.
    """
    if find_spec("mcp") is None:
        return []

    async def metadata(request: Request) -> Response:
        return JSONResponse(_metadata(authenticator, request))

    paths = (METADATA, *(METADATA + path for path in PATHS))
    return [
        *(Route(path, McpEndpoint(authenticator, profile)) for path, profile in PATHS.items()),
        *(Route(path, metadata, methods=["GET"]) for path in paths),
    ]


class McpEndpoint:
    """One MCP server; a rejected client learns where to get a token."""

    def __init__(self, authenticator: RequestAuthenticator, profile: Profile) -> None:
        self._authenticator = authenticator
        self._profile = profile
        self._lock = threading.Lock()
        self._new_manager: Callable[[], StreamableHTTPSessionManager] | None = None

    def _load(self) -> Callable[[], StreamableHTTPSessionManager]:
        """Create the server at the first request. If that fails, the next request tries again."""
        with self._lock:
            if self._new_manager is None:
                # Imported here because it takes 1.4 s: the HTTP server starts without it.
                from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

                from memorist.mcp.server import create_server

                self._new_manager = partial(
                    StreamableHTTPSessionManager,
                    create_server(self._authenticator.memory, self._profile, _caller),
                    json_response=True,
                    stateless=True,
                    max_request_body_size=limits.MAX_BODY_BYTES,
                )
                gc.freeze()  # searching the library for garbage takes 27 ms, in which nothing else runs
            return self._new_manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        request = Request(scope, receive)
        if scope["method"] != "POST":  # there are no streams and no sessions
            await problem.response(
                405, "Send a POST.", problem.request_id(request), headers={"Allow": "POST"}
            )(scope, receive, send)
            return
        try:
            principal = await self._authenticator.authenticate_request(request)
        except Unauthorized as error:
            response = problem.of_error(error, problem.request_id(request))
            if error.status == 401 and self._authenticator.memory.settings.jwt_issuer:
                response.headers["WWW-Authenticate"] = (
                    f'Bearer resource_metadata="{_url(request, METADATA)}{scope["path"]}"'
                )
            await response(scope, receive, send)
            return
        named: Any = OwnerParameters.model_validate(read_query(request))
        owner = self._authenticator.scope(request, principal, named.user, named.agent).owner
        caller = McpCaller(
            self._authenticator.memory,
            principal,
            owner.user,
            owner.agent,
            problem.request_id(request),
        )
        scope.setdefault("state", {})[_CALLER] = caller
        scope["headers"] = [
            (name, value.strip()) for name, value in scope["headers"]
        ]  # not every parser does
        new_manager = self._new_manager
        if new_manager is None:
            new_manager = await asyncio.to_thread(self._load)
        manager = new_manager()
        async with manager.run():
            await manager.handle_request(scope, receive, send)


def _caller(ctx: Context) -> McpCaller:
    caller = ctx.request.scope["state"][_CALLER] if ctx.request is not None else None
    assert isinstance(caller, McpCaller)
    return caller


def _metadata(authenticator: RequestAuthenticator, request: Request) -> dict[str, Any]:
    """Return the protected resource metadata (RFC 9728) if the server accepts tokens."""
    settings = authenticator.memory.settings
    if not settings.jwt_issuer:
        raise NotFound(what="address", id=request.url.path)
    audience = settings.jwt_audience
    return {
        "resource": audience
        if "://" in audience
        else _url(request, request.url.path.removeprefix(METADATA) or "/mcp"),
        "authorization_servers": [settings.jwt_issuer],
        "scopes_supported": sorted(PERMISSIONS),
        "bearer_methods_supported": ["header"],
        "resource_name": "memorist",
    }


def _url(request: Request, path: str) -> str:
    return str(request.base_url).rstrip("/") + path

"""`/mcp`: the MCP server over HTTP.

Every request is authenticated; no state is kept between requests.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from retain.api import problem
from retain.auth.principal import PERMISSIONS
from retain.base import limits
from retain.base.errors import NotFound, Unauthorized
from retain.mcp.mcp_caller import McpCaller
from retain.mcp.server import Context, Profile, create_server
from retain.server import lifespan
from retain.server.request_authenticator import RequestAuthenticator

PATHS: dict[str, Profile] = {"/mcp": "agent", "/mcp/all": "all", "/mcp/graph": "graph"}
METADATA = "/.well-known/oauth-protected-resource"
_CALLER = "mcp_caller"


def add(app: Starlette, authenticator: RequestAuthenticator) -> None:
    """Add the MCP servers: the tools of an agent, `/all` every endpoint, `/graph` the graph."""
    for path, profile in PATHS.items():
        endpoint = Endpoint(authenticator, profile)
        app.router.routes.append(Route(path, endpoint))
        lifespan.register(app, endpoint.running)

    async def metadata(request: Request) -> Response:
        return JSONResponse(_metadata(authenticator, request))

    for path in (METADATA, *(METADATA + path for path in PATHS)):
        app.add_route(path, metadata, methods=["GET"])


class Endpoint:
    """One MCP server; a rejected client learns where to get a token."""

    def __init__(self, authenticator: RequestAuthenticator, profile: Profile) -> None:
        self._authenticator = authenticator
        self._server = create_server(authenticator.memory, profile, _caller)
        self._manager: StreamableHTTPSessionManager | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Accept requests inside of this block."""
        manager = StreamableHTTPSessionManager(
            self._server,
            json_response=True,
            stateless=True,
            max_request_body_size=limits.MAX_BODY_BYTES,
        )
        async with manager.run():
            self._manager = manager
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        request = Request(scope, receive)
        if scope["method"] != "POST":  # there are no streams and no sessions
            await problem.answer(
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
        owner = self._authenticator.scope(request, principal, None, None).owner
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
        assert self._manager is not None, "the app's lifespan was not entered"
        await self._manager.handle_request(scope, receive, send)


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
        "resource_name": "retain",
    }


def _url(request: Request, path: str) -> str:
    return str(request.base_url).rstrip("/") + path

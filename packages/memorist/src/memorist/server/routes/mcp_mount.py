"""`/mcp`: the MCP server over HTTP.

Every request is authenticated; no state is kept between requests. The first request imports the
library, which takes longer than the rest of the server's start.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
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
from memorist.server.http.parsing import read_query

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from memorist.mcp.server import Context, Profile

PATHS: dict[str, Profile] = {"/mcp": "agent", "/mcp/all": "all", "/mcp/graph": "graph"}
METADATA = "/.well-known/oauth-protected-resource"
_CALLER = "mcp_caller"


def servers(authenticator: RequestAuthenticator) -> dict[str, McpEndpoint]:
    """Return the MCP servers by path: an agent's tools, `/all` every verb, `/graph` the graph."""
    return {path: McpEndpoint(authenticator, profile) for path, profile in PATHS.items()}


def metadata_routes(authenticator: RequestAuthenticator) -> list[Route]:
    """Return the routes that say where a client gets a token."""

    async def metadata(request: Request) -> Response:
        return JSONResponse(_metadata(authenticator, request))

    paths = (METADATA, *(METADATA + path for path in PATHS))
    return [Route(path, metadata, methods=["GET"]) for path in paths]


@dataclass(frozen=True)
class _Running:
    """One run of an MCP server, in one event loop."""

    manager: asyncio.Future[StreamableHTTPSessionManager]
    requested: asyncio.Event = field(default_factory=asyncio.Event)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)


class McpEndpoint:
    """One MCP server; a rejected client learns where to get a token."""

    def __init__(self, authenticator: RequestAuthenticator, profile: Profile) -> None:
        self._authenticator = authenticator
        self._profile = profile
        self._running: dict[asyncio.AbstractEventLoop, _Running] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Accept requests inside of this block."""
        loop = asyncio.get_running_loop()
        self._running[loop] = running = _Running(loop.create_future())
        task = asyncio.create_task(self._run(running))
        try:
            yield
        finally:
            running.stopping.set()
            self._running[loop].requested.set()
            await task
            del self._running[loop]

    async def _run(self, running: _Running) -> None:
        """Start the MCP server at the first request, and run it until the app stops.

        If the start fails, the requests that wait for it fail, and the next one tries again.
        """
        while True:
            await running.requested.wait()
            if running.stopping.is_set():
                return
            try:
                manager = await asyncio.to_thread(self._load)
                async with manager.run():
                    running.manager.set_result(manager)
                    await running.stopping.wait()
                return
            except Exception as error:  # raised again in the requests that wait
                if running.manager.done():  # it had started
                    raise
                running.manager.set_exception(error)
                loop = asyncio.get_running_loop()
                running = _Running(loop.create_future(), stopping=running.stopping)
                self._running[loop] = running

    def _load(self) -> StreamableHTTPSessionManager:
        # Imported here because it takes 1.4 s: the server starts without it.
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from memorist.mcp.server import create_server

        manager = StreamableHTTPSessionManager(
            create_server(self._authenticator.memory, self._profile, _caller),
            json_response=True,
            stateless=True,
            max_request_body_size=limits.MAX_BODY_BYTES,
        )
        gc.freeze()  # searching the library for garbage takes 27 ms, in which nothing else runs
        return manager

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
        running = self._running.get(asyncio.get_running_loop())
        assert running is not None, "the app's lifespan was not entered"
        running.requested.set()
        manager = await asyncio.shield(running.manager)
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

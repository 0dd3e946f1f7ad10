"""The app: one memory, every way to it over HTTP, and what an operator needs to see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect

from memorist.api import problem
from memorist.api.route import ApiRoute
from memorist.base import limits
from memorist.base.extensions import ROUTES, extensions
from memorist.memory import Memory
from memorist.server.http.authentication import RequestAuthenticator
from memorist.server.http.middleware import ProtectionMiddleware, set_thread_limit
from memorist.server.http.routing import starlette_routes
from memorist.server.observe import health, metrics
from memorist.server.observe.measuring import RequestLog, client_disconnected, observe
from memorist.server.process import background
from memorist.server.routes import (
    chat_routes,
    conversation_routes,
    docs_page,
    event_routes,
    export_route,
    mcp_mount,
    model_routes,
    sign_in,
    verb_routes,
    web_app,
)
from memorist.server.routes.running_turns import FINISHING_SHARE, RunningTurns


def create_app(memory: Memory, *, jobs: bool = True) -> Starlette:
    """Return the app for an open memory. The caller closes the memory.

    jobs: also run the background jobs
    """
    stopping = asyncio.Event()
    authenticator = RequestAuthenticator(memory)
    guard = ProtectionMiddleware(memory.settings, stopping)
    turns = RunningTurns(limits.MAX_RUNNING_TURNS)
    counters = metrics.Metrics(memory)
    observe(memory, counters)
    job_threads = background.job_threads(memory, counters.worked)
    memory.services.writer.listen(partial(authenticator.forget_changed, on_erasure=turns.forget))
    handlers = verb_routes.handlers(authenticator)
    api = [
        *verb_routes.routes(handlers),
        *export_route.routes(authenticator),
        *event_routes.routes(authenticator),
        *chat_routes.routes(authenticator, turns),
        *conversation_routes.routes(authenticator),
        *_routes_of_packages(authenticator),
        *sign_in.routes(authenticator),
        *model_routes.routes(authenticator),
    ]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with (
            turns.during(stopping, limits.STOP_SECONDS * FINISHING_SHARE),
            background.running(job_threads if jobs else ()),
        ):
            set_thread_limit()
            yield

    app = Starlette(
        routes=[
            *starlette_routes(api),
            *health.ROUTES,
            *metrics.routes(authenticator, counters),
            *docs_page.routes(authenticator),
            *mcp_mount.routes(authenticator),
            *web_app.routes(),
        ],
        middleware=[
            Middleware(RequestLog, counters),
            # `around` returns this one guard, whose counters the health checks and the server read.
            Middleware(guard.around),
        ],
        exception_handlers={
            **dict.fromkeys(problem.EXPECTED, problem.respond),
            404: web_app.not_found,
            ClientDisconnect: client_disconnected,
        },
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.memory = memory
    app.state.authenticator = authenticator
    app.state.metrics = counters
    app.state.health = health.Health(memory)
    app.state.stopping = stopping
    app.state.guard = guard
    app.state.runs = turns
    app.state.background = job_threads
    app.state.handlers = {handler.endpoint.name: handler for handler in handlers}
    app.state.routes = api
    return app


def _routes_of_packages(authenticator: RequestAuthenticator) -> list[ApiRoute]:
    """Return the routes of other packages, such as the wire protocols of vendors."""
    return [
        route
        for extension in extensions(ROUTES).values()
        for route in extension.load()(authenticator)
    ]

"""The app: one memory, every way to it over HTTP, and what an operator needs to see."""

from __future__ import annotations

from importlib.util import find_spec

from starlette.applications import Starlette

from retain.api import problem
from retain.memory import Memory
from retain.server import (
    admin_routes,
    background,
    chat_routes,
    conversation_routes,
    docs_page,
    event_routes,
    health,
    key_routes,
    message_routes,
    metrics,
    middleware,
    model_routes,
    note_routes,
    operations,
    request_log,
    routes,
    sign_in,
    status_routes,
    turn_routes,
    uploads,
    vendors,
    web_app,
)
from retain.server.lifespan import lifespan
from retain.server.request_authenticator import RequestAuthenticator

if find_spec("mcp"):  # a separate extra: other libraries need an older version
    from retain.server import mcp_mount as mount
else:
    mount = None  # type: ignore[assignment]


def create_app(memory: Memory, *, jobs: bool = True) -> Starlette:
    """Return the app for an open memory. The caller closes the memory.

    jobs: also run the background jobs
    """
    app = Starlette(lifespan=lifespan)
    app.router.redirect_slashes = False
    app.state.memory = memory
    app.state.authenticator = authenticator = RequestAuthenticator(memory)
    app.state.metrics = metrics.Metrics(memory)
    problem.install(app)
    routes.add(app, authenticator)
    turn_routes.add(app, authenticator)
    message_routes.add(app)
    uploads.add(app)
    note_routes.add(app, authenticator)
    health.add(app)  # first, because Starlette tries routes in their order
    metrics.add(app, authenticator)
    docs_page.add(app, authenticator)
    key_routes.add(app, authenticator)
    admin_routes.add(app, authenticator)
    event_routes.add(app, authenticator)
    chat_routes.add(app, authenticator)
    conversation_routes.add(app, authenticator)
    vendors.add(app, authenticator)
    if mount:
        mount.add(app, authenticator)
    sign_in.add(app, authenticator)
    model_routes.add(app, authenticator)
    status_routes.add(app, authenticator)
    web_app.add(app)
    routes.install(app)
    operations.install(app)
    background.install(app, starts=jobs)  # after the operations, which measure its model calls
    middleware.install(app)  # after the routes, so that it wraps all of them
    request_log.install(app)  # last, so that it sees every request
    return app

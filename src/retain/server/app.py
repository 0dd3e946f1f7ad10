"""The app: one memory, every way to it over HTTP, and what an operator needs to see."""

from __future__ import annotations

from importlib.util import find_spec

from fastapi import FastAPI

from retain import wires
from retain.faces.command import version
from retain.gate import guard, problem
from retain.gate.door import Door
from retain.memory import Memory
from retain.rest import admin, docs, index, keys, openapi, routes, turns, uploads
from retain.server import background
from retain.server.life import life
from retain.streams import chat, conversations, notes
from retain.watch import health, metrics, operations, requests, status
from retain.web import signin, site

if find_spec("mcp"):  # an extra of its own: other libraries want an older one
    from retain.mcp import mount
else:
    mount = None  # type: ignore[assignment]

ABOUT = """Memory for AI agents.

The tenant comes from the key; the user and the agent from the headers `X-Retain-User` and `X-Retain-Agent`, or from the
parameters `user` and `agent`. Lists are pages: `limit` and `after` in, `data` and `next` out. Failures are problems
(RFC 9457) that name the field and say what to do."""


def create_app(memory: Memory) -> FastAPI:
    """An app over a memory that is open; whoever opened it closes it."""
    app = FastAPI(
        title="retain",
        version=version(),
        description=ABOUT,
        openapi_url=None,  # ours need a key, and load nothing from elsewhere
        lifespan=life,
        telemetry={
            "tracing": False,
            "metrics": False,
            "logs": False,
        },  # ours say more, and no addresses with content in them
    )
    app.state.memory = memory
    app.state.door = door = Door(memory)
    app.state.metrics = metrics.Metrics(memory)
    problem.install(app)
    openapi.install(app)
    routes.add(app, door)
    turns.add(app, door)
    uploads.add(app, door)
    notes.add(app, door)
    docs.add(app, door)
    keys.add(app, door)
    admin.add(app, door)
    chat.add(app, door)
    conversations.add(app, door)
    wires.add(app, door)
    if mount:
        mount.add(app, door)
    signin.add(app, door)
    site.add(app)
    health.add(app)
    metrics.add(app, door)
    status.add(app, door)
    index.install(app)
    background.install(app)
    operations.install(app)
    guard.install(app)  # what is installed after the routes stands around all of them
    requests.install(app)  # the last, so that nothing is unseen
    return app

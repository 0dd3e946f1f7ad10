"""The app: one memory, every way to it over HTTP, and what an operator needs to see."""

from __future__ import annotations

from fastapi import FastAPI

from retain.faces.command import version
from retain.memory import Memory
from retain.server import background, guard, problem, routes, web
from retain.server.door import Door
from retain.server.life import life

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
        openapi_url="/openapi.json",
        docs_url="/docs",
        lifespan=life,
    )
    app.state.memory = memory
    app.state.door = door = Door(memory)
    problem.install(app)
    routes.add(app, door)
    web.add(app)
    background.install(app)
    guard.install(app)  # the last: what is installed so stands around all the rest
    return app

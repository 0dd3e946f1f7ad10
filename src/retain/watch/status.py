"""`/api/status`: what is here and how far the vectors are behind, for admins; of all tenants for who runs the server."""

from __future__ import annotations

import warnings

from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

from retain.faces.status import Status, status
from retain.gate.door import Door
from retain.gate.operator import is_operator
from retain.rest.answers import answer
from retain.rest.routes import problems
from retain.rest.shapes import shape

with warnings.catch_warnings():  # a field named `schema` hides a method that was deprecated years ago
    warnings.simplefilter("ignore", UserWarning)
    SHAPE = shape(Status)
ABOUT = "What is here, and how far the vectors are behind: of the tenant, or of the whole database for who runs the server."


def add(app: FastAPI, door: Door) -> None:
    """The route."""

    @app.get(
        "/api/status",
        name="status",
        operation_id="status",
        tags=["operations"],
        summary="What is here, and how far the vectors are behind.",
        description=ABOUT,
        response_model=SHAPE,
        responses=problems(401, 403, 421, 429, 503),
    )
    async def here(request: Request) -> Response:
        principal = await door.admin(request, "see what is about the whole tenant")
        tenant = None if is_operator(door, principal) else principal.tenant
        return answer(await run_in_threadpool(status, door.memory, tenant))

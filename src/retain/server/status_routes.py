"""`/api/status`: what is here and what is due, for admins; of all tenants for who runs the server.

A page asks for it every few seconds. Counting may take one part of twenty of the time: the longer it takes in a large
database, the longer its answer is given again.
"""

from __future__ import annotations

import threading
import time
import warnings
from dataclasses import replace

from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

from retain.api.responses import answer
from retain.api.schemas import shape
from retain.api.status import Status, status
from retain.base import clock
from retain.memory import Memory
from retain.server.authenticator import Authenticator
from retain.server.operator import is_operator
from retain.server.routes import problems

with (
    warnings.catch_warnings()
):  # a field named `schema` hides a method that was deprecated years ago
    warnings.simplefilter("ignore", UserWarning)
    SHAPE = shape(Status)
ABOUT = """What is here, how far the vectors are behind, what work is due, and since when the server runs: of the tenant,
or of the whole database for who runs the server. In a large database the counts may be some seconds old."""
_SHARE = 19
_LONGEST_SECONDS = 300.0


class Counted:
    """What was counted last for each tenant, and until when that is good enough."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._locks: dict[str | None, threading.Lock] = {}
        self._found: dict[str | None, tuple[float, Status]] = {}

    def status(self, tenant: str | None) -> Status:
        """How things are, or were a moment ago; whoever asks meanwhile waits for who counts the same tenant."""
        with self._locks.setdefault(tenant, threading.Lock()):
            until, found = self._found.get(tenant, (0.0, None))
            started = time.monotonic()
            if found is None or started >= until:
                found = status(self._memory, tenant)
                ended = time.monotonic()
                self._found[tenant] = (
                    ended + min(_SHARE * (ended - started), _LONGEST_SECONDS),
                    found,
                )
            return found


def add(app: FastAPI, authenticator: Authenticator) -> None:
    """The route."""
    counted, started_at = Counted(authenticator.memory), clock.to_datetime(clock.now())

    @app.get(
        "/api/status",
        name="status",
        operation_id="status",
        tags=["operations"],
        summary="What is here, and what is due.",
        description=ABOUT,
        response_model=SHAPE,
        responses=problems(401, 403, 421, 429, 503),
    )
    async def here(request: Request) -> Response:
        principal = await authenticator.admin(request, "see what is about the whole tenant")
        tenant = None if is_operator(authenticator, principal) else principal.tenant
        found = await run_in_threadpool(counted.status, tenant)
        if tenant is None:  # when the server began and last worked is about all tenants
            worked_at = clock.to_datetime_or_none(app.state.metrics.worked_at)
            found = replace(found, started_at=started_at, worked_at=worked_at)
        return answer(found)

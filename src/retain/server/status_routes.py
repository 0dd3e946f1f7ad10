"""`/api/status`: stored records and pending work, for admins; of all tenants for the operator.

The web app polls it every few seconds. Counting may use at most 5 % of the time: the longer it
takes in a large database, the longer the result is cached.
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
from retain.server.operator import is_operator
from retain.server.request_authenticator import RequestAuthenticator
from retain.server.routes import problems

# A field named `schema` hides a deprecated method.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)
    SHAPE = shape(Status)
ABOUT = """What is here, how far the vectors are behind, what work is due, and since when the server runs: of the tenant,
or of the whole database for who runs the server. In a large database the counts may be some seconds old."""
_SHARE = 19
_MAX_CACHE_SECONDS = 300.0


class Counted:
    """Cache of the status per tenant, with the time until which it is valid."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._locks: dict[str | None, threading.Lock] = {}
        self._found: dict[str | None, tuple[float, Status]] = {}

    def status(self, tenant: str | None) -> Status:
        """Return the status, at most some seconds old. Concurrent calls for a tenant count once."""
        with self._locks.setdefault(tenant, threading.Lock()):
            until, cached = self._found.get(tenant, (0.0, None))
            started = time.monotonic()
            if cached is None or started >= until:
                cached = status(self._memory, tenant)
                ended = time.monotonic()
                self._found[tenant] = (
                    ended + min(_SHARE * (ended - started), _MAX_CACHE_SECONDS),
                    cached,
                )
            return cached


def add(app: FastAPI, authenticator: RequestAuthenticator) -> None:
    """Add the route to an app."""
    counted = Counted(authenticator.memory)
    started_at = clock.to_datetime(clock.now())

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
        principal = await authenticator.authorize_admin(
            request, "see what is about the whole tenant"
        )
        tenant = None if is_operator(authenticator, principal) else principal.tenant
        result = await run_in_threadpool(counted.status, tenant)
        if tenant is None:  # these times concern all tenants
            worked_at = clock.to_datetime_or_none(app.state.metrics.worked_at)
            result = replace(result, started_at=started_at, worked_at=worked_at)
        return answer(result)

"""`/api/status`: stored records and pending work, for admins; of all tenants for the operator.

The web app polls it every few seconds. Counting may use at most 5 % of the time: the longer it
takes in a large database, the longer the result is cached.
"""

from __future__ import annotations

import threading
import time
import warnings
from dataclasses import replace

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from retain.api.responses import answer
from retain.api.schemas import shape
from retain.api.status import Status, status
from retain.base import clock
from retain.memory import Memory
from retain.server.api_route import ApiRoute
from retain.server.request_authenticator import RequestAuthenticator

# A field named `schema` hides a deprecated method.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)
    SHAPE = shape(Status)
_SHARE = 19
_MAX_CACHE_SECONDS = 300.0


class CachedStatus:
    """Cache of the status per tenant, with the time until which it is valid."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._locks: dict[str | None, threading.Lock] = {}
        self._cache: dict[str | None, tuple[float, Status]] = {}

    def status(self, tenant: str | None) -> Status:
        """Return the status, at most some seconds old. Concurrent calls for a tenant count once."""
        with self._locks.setdefault(tenant, threading.Lock()):
            until, cached = self._cache.get(tenant, (0.0, None))
            started = time.monotonic()
            if cached is None or started >= until:
                cached = status(self._memory, tenant)
                ended = time.monotonic()
                self._cache[tenant] = (
                    ended + min(_SHARE * (ended - started), _MAX_CACHE_SECONDS),
                    cached,
                )
            return cached


def add(app: Starlette, authenticator: RequestAuthenticator) -> None:
    """Add the route to an app."""
    counts = CachedStatus(authenticator.memory)
    started_at = clock.to_datetime(clock.now())

    async def respond(request: Request) -> Response:
        """Return the numbers of stored records, pending jobs and missing vectors.

        They are those of the tenant; the operator of the server gets those of the whole database,
        and since when the server runs. In a large database the counts may be some seconds old.
        """
        principal = await authenticator.authorize_admin(request, "see the status of the tenant")
        tenant = None if authenticator.is_operator(principal) else principal.tenant
        result = await run_in_threadpool(counts.status, tenant)
        if tenant is None:  # these times concern all tenants
            worked_at = clock.to_datetime_or_none(app.state.metrics.worked_at)
            result = replace(result, started_at=started_at, worked_at=worked_at)
        return answer(result)

    app.state.routes.append(
        ApiRoute(
            authenticator=authenticator,
            method="GET",
            path="/api/status",
            name="status",
            tag="operations",
            handler=respond,
            permission="admin",
            result=SHAPE,
        )
    )

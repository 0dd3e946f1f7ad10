"""The handler of `/api/status`: it caches the verb's result, and adds the times of this process.

The web app polls it every few seconds. Counting may use at most 5 % of the time: the longer it
takes in a large database, the longer the result is cached.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from memorist.admin.stored_responses import StoredResponse
from memorist.base import clock
from memorist.base.verbs import Endpoint
from memorist.jobs.status import SystemStatus
from memorist.memory import Memory, Scope
from memorist.server.http.authentication import RequestAuthenticator
from memorist.server.http.verb_handler import Call, VerbHandler

_SHARE = 19
_MAX_CACHE_SECONDS = 300.0


class CachedStatus:
    """Cache of the status per tenant, with the time until which it is valid."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._locks: dict[str, threading.Lock] = {}
        self._cache: dict[str, tuple[float, SystemStatus]] = {}

    def status(self, tenant: str) -> SystemStatus:
        """Return the status, at most some seconds old. Concurrent calls for a tenant count once."""
        with self._locks.setdefault(tenant, threading.Lock()):
            until, cached = self._cache.get(tenant, (0.0, None))
            started = time.monotonic()
            if cached is None or started >= until:
                cached = self._memory.scope(tenant=tenant).admin.status.get()
                ended = time.monotonic()
                self._cache[tenant] = (
                    ended + min(_SHARE * (ended - started), _MAX_CACHE_SECONDS),
                    cached,
                )
            return cached


class StatusHandler(VerbHandler):
    """Responds with the cached status. The operator also sees since when the server runs."""

    def __init__(
        self, authenticator: RequestAuthenticator, endpoint: Endpoint, method: Callable[..., Any]
    ) -> None:
        super().__init__(authenticator, endpoint, method)
        self._cached = CachedStatus(authenticator.memory)
        self._started_at = clock.to_datetime(clock.now())

    def call_verb(self, call: Call, verb: Callable[[Scope], Any] | None = None) -> StoredResponse:
        """Return the status of the caller's tenant."""
        result = self._cached.status(call.principal.tenant)
        if self.authenticator.is_operator(call.principal):  # these times concern all tenants
            worked_at = clock.to_datetime_or_none(call.request.app.state.metrics.worked_at)
            result = replace(result, started_at=self._started_at, worked_at=worked_at)
        return self.render(result)

"""`/healthz` and `/readyz`: liveness and readiness, for supervisors and load balancers.

Both need no key and answer only yes or no. The reason is in the log and in `/api/status`, which
needs a key.
"""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from memorist.api import problem
from memorist.base import limits
from memorist.base.error_text import reason
from memorist.base.errors import StorageError
from memorist.memory import Memory
from memorist.storage.database import EVERY_TENANT

READY_SECONDS = 3.0
"""Time limit of the check: longer than a request waits for the database, so that the check can log
the reason."""
KEEP_SECONDS = 1.0
"""Results are cached this long: frequent requests must not load the database."""
_ALIVE = Response(
    '{"status":"ok"}', media_type="application/json", headers={"Cache-Control": "no-store"}
)
_AWAY = "The database cannot be reached."
_log = logging.getLogger("memorist.health")


class Health:
    """Checks that the database can be reached and has the schema of this version."""

    def __init__(self, memory: Memory) -> None:
        self.readiness_mark: Path | None = None
        """A file that all workers share: it exists once one of them was asked for `/readyz`."""
        self._was_checked = False
        self._memory = memory
        self._newer_schema = 0
        self._check: asyncio.Task[str] | None = None
        self._problem = ""
        self._good_until = 0.0
        self._logged_problem = self._logged_reason = ""

    @property
    def readiness_was_checked(self) -> bool:
        """True once this process or another worker was asked for `/readyz`."""
        mark = self.readiness_mark
        return self._was_checked or (mark is not None and mark.exists())

    def note_check(self) -> None:
        """Remember that something, such as a proxy, has requested `/readyz`."""
        if not self._was_checked and self.readiness_mark is not None:
            self.readiness_mark.touch()
        self._was_checked = True

    async def trouble(self) -> str:
        """Return the problem, or an empty text. Concurrent calls share one check."""
        if time.monotonic() < self._good_until:
            return self._problem
        if self._check is None or self._check.done():
            self._check = asyncio.create_task(asyncio.to_thread(self._find_problem))
        try:
            self._problem = await asyncio.wait_for(asyncio.shield(self._check), READY_SECONDS)
        except TimeoutError:
            self._problem = "The database does not answer in time."
        self._good_until = time.monotonic() + KEEP_SECONDS
        if self._problem != self._logged_problem:
            self._logged_problem = self._problem
            _log.warning("%s", self._problem or "The database can be used again.")
        return self._problem

    def _find_problem(self) -> str:
        try:
            self._memory.database.read(EVERY_TENANT, lambda tx: tx.now)
            schema = self._memory.database.version()
            required_schema = self._memory.migrations[-1].number
        except StorageError as error:
            self._log_reason(f"{type(error).__name__}: {reason(error) or 'it does not say why'}")
            return _AWAY
        except Exception as error:  # whatever it is, the server is not ready
            _log.error("database check failed: %s", type(error).__name__, exc_info=error)
            return _AWAY
        self._logged_reason = ""
        if schema < required_schema:
            return "The database does not have the schema of this version: migrate it."
        if schema > required_schema and schema != self._newer_schema:
            # During an upgrade, servers of both versions run: see docs/guides/scaling.md.
            self._newer_schema = schema
            _log.warning(
                "A newer version of memorist has migrated the database to schema %d; this version "
                "has %d. This server keeps running but will not restart until it is upgraded.",
                schema,
                required_schema,
            )
        return ""

    def _log_reason(self, reason: str) -> None:
        """Log the reason once, also if the check has timed out for its callers."""
        if reason != self._logged_reason:
            self._logged_reason = reason
            _log.warning("the database cannot be used: %s", reason)


async def _healthz(request: Request) -> Response:
    return _ALIVE


async def _readyz(request: Request) -> Response:
    state = request.app.state
    health: Health = state.health
    health.note_check()
    if state.guard.is_draining or state.stopping.is_set():
        trouble = "The server is stopping."
    elif state.guard.running() > limits.MAX_IN_FLIGHT:  # this request counts, too
        trouble = "The server is at capacity."
    else:
        trouble = await health.trouble()
    if not trouble:
        return _ALIVE
    return problem.response(
        503, trouble, problem.request_id(request), type="not-ready", headers={"Retry-After": "1"}
    )


ROUTES = [Route("/healthz", _healthz, methods=["GET"]), Route("/readyz", _readyz, methods=["GET"])]
"""They are not part of the API and need no key."""

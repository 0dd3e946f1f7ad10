"""Outermost middleware: measure each request for the metrics, the log and the trace."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from retain.server import logs, traces
from retain.server.guarded_request import GuardedRequest
from retain.server.metrics import Metrics

QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
"""Routes that machines poll every few seconds. They are logged at level DEBUG."""
UNKNOWN = "none"
"""The logged route of a request that matches none. Its path is content and is not logged."""
CLOSED = 499
"""The status of a request whose client disconnected before the response."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Watch:
    """The outermost layer of the app."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and record its response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        trace = traces.Request(method, scope["headers"]) if traces.on else None
        error: BaseException | None = None
        is_counted = scope["path"] not in QUIET  # a scrape must not count itself
        started = time.perf_counter()
        if is_counted:
            self._metrics.request_started()
        try:
            await self._app(scope, receive, send)
        except BaseException as raised:  # a cancelled request is logged too; raised again
            error = raised
            raise
        finally:
            seconds = time.perf_counter() - started
            guarded: GuardedRequest = state["guarded"]
            status = guarded.status
            is_gone = isinstance(error, asyncio.CancelledError) or (error is None and not status)
            status = status or (CLOSED if is_gone else 500)
            route = str(getattr(scope.get("route"), "path", UNKNOWN))
            if is_counted:
                self._metrics.request_ended()
            self._metrics.request(method, route, status, seconds)
            if trace:
                trace.end(method, route, status, str(state.get("request_id", "")), error)
            failure = None if is_gone else error
            self._tell(
                method,
                route,
                status,
                seconds,
                guarded.sent_bytes,
                state,
                failure,
                trace.trace_id if trace else None,
            )

    def _tell(
        self,
        method: str,
        route: str,
        status: int,
        seconds: float,
        sent: int,
        state: dict[str, Any],
        error: BaseException | None,
        trace_id: str | None,
    ) -> None:
        level = logging.INFO
        if error is not None or status == 500:
            level = logging.ERROR
        elif status > 500:
            level = logging.WARNING
        elif route in QUIET:
            level = logging.DEBUG
        principal = state.get("principal")
        fields = {
            "request_id": state.get("request_id"),
            "method": method,
            "route": route,
            "status": status,
            "ms": round(seconds * 1000, 2),
            "bytes": sent,
            "tenant": getattr(principal, "tenant", None),
            "principal": getattr(principal, "name", None),
            "trace_id": trace_id,
        }
        logs.request(level, fields, error)


def install(app: Starlette) -> None:
    """Add the middleware outside of all others, so that it also sees their responses."""
    traces.look()
    build = app.build_middleware_stack
    app.build_middleware_stack = lambda: Watch(build(), app.state.metrics)  # type: ignore[method-assign]

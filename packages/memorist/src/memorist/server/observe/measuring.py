"""Measure requests, and the operations that clients call by REST, MCP, chat or vendor APIs.

A request gets metrics, a line in the log and a span; an operation gets metrics and a span.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar, cast

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as RequestScope

from memorist.api.endpoints import ENDPOINTS, SCOPE_ENDPOINTS
from memorist.api.responses import MessageRows
from memorist.base.errors import MemoristError
from memorist.base.logging import FIELDS
from memorist.base.verbs import declared_verb, find_verb
from memorist.content.message import Message
from memorist.kinds.interactions import Interactions, Usage
from memorist.kinds.kind import Observer, Owner, Services
from memorist.kinds.page import Page
from memorist.kinds.tool import Tool, ToolOutput
from memorist.kinds.turns import Turn
from memorist.memory import Memory, Scope
from memorist.models.recording import ModelCall
from memorist.server.http.guarded_request import GuardedRequest
from memorist.server.observe import logs, traces
from memorist.server.observe.metrics import Metrics

P = ParamSpec("P")
T = TypeVar("T")
MAX_NAME_LENGTH = 100
MAX_PLAUSIBLE_COUNT = 1 << 40
_ADD_CALL = declared_verb(Interactions.add).operation
_SAVE_TURN = declared_verb(Scope.save_turn).operation

QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
"""Routes that machines poll every few seconds. They are logged at level DEBUG."""
UNKNOWN = "none"
"""The logged route of a request that matches none. Its path is content and is not logged."""
CLOSED = 499
"""The status of a request whose client disconnected before the response."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

_log = logging.getLogger("memorist.observe")
_request_log = logging.getLogger(logs.REQUEST_LOGGER)


class RequestLog:
    """Middleware that measures, logs and traces each request."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: RequestScope, receive: Receive, send: Send) -> None:
        """Pass a request on, and record its response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        trace = traces.Request(method, scope["headers"]) if traces.on else None
        error: BaseException | None = None
        is_counted = scope["path"] not in QUIET  # a scrape must not count itself
        started = time.perf_counter()
        if is_counted:
            self._metrics.requests_in_flight.inc()
        try:
            await self._app(scope, receive, send)
        except BaseException as raised:  # a cancelled request is logged too; raised again
            error = raised
            raise
        finally:
            if is_counted:
                self._metrics.requests_in_flight.dec()
            self._record(scope, method, time.perf_counter() - started, error, trace)

    def _record(
        self,
        scope: RequestScope,
        method: str,
        seconds: float,
        error: BaseException | None,
        trace: traces.Request | None,
    ) -> None:
        state = scope["state"]
        guarded: GuardedRequest = state["guarded"]
        is_gone = isinstance(error, asyncio.CancelledError) or not (error or guarded.status)
        status = guarded.status or (CLOSED if is_gone else 500)
        route = str(getattr(scope.get("route"), "path", UNKNOWN))
        request_id = state.get("request_id")
        self._metrics.requests(method, route, status).inc()
        self._metrics.request_seconds(route).observe(seconds)
        if trace:
            trace.end(method, route, status, str(request_id or ""), error)
        failure = None if is_gone else error
        level = logging.INFO
        if failure is not None or status == 500:
            level = logging.ERROR
        elif status > 500:
            level = logging.WARNING
        elif route in QUIET:
            level = logging.DEBUG
        principal = state.get("principal")
        fields = {
            "request_id": request_id,
            "method": method,
            "route": route,
            "status": status,
            "ms": round(seconds * 1000, 2),
            "bytes": guarded.sent_bytes,
            "tenant": getattr(principal, "tenant", None),
            "principal": getattr(principal, "name", None),
            "trace_id": trace.trace_id if trace else None,
        }
        if _request_log.isEnabledFor(level):
            _request_log.handle(_request_record(level, fields, failure))


def _request_record(
    level: int, fields: Mapping[str, Any], error: BaseException | None
) -> logging.LogRecord:
    """Return the log record of a request, which needs no search for the calling line."""
    exc_info = None if error is None else (type(error), error, error.__traceback__)
    return _request_log.makeRecord(
        logs.REQUEST_LOGGER, level, __file__, 0, "request", (), exc_info, extra={FIELDS: fields}
    )


async def client_disconnected(request: Request, error: Exception) -> Response:
    """Return a response that nobody reads: an exception handler for Starlette."""
    return Response(status_code=CLOSED)


class MeasuringObserver(Observer):
    """Counts and traces operations, tool calls and model calls."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        endpoints = (*SCOPE_ENDPOINTS, *ENDPOINTS)
        self._adds = {endpoint.operation for endpoint in endpoints if endpoint.creates}

    def call(
        self,
        operation: str,
        owner: Owner,
        verb: Callable[P, T],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        """Call a verb; count its outcome and time, and trace it."""
        started = time.perf_counter()
        outcome = "failed"
        result: Any = None
        try:
            if traces.on:
                with _span(operation, owner) as span:
                    result = verb(*arguments, **named)
                    span.set_attributes(_describe(result))
            else:
                result = verb(*arguments, **named)
            outcome = "ok"
        except MemoristError as error:
            outcome = "refused" if error.status < 500 else "failed"
            raise
        finally:
            seconds = time.perf_counter() - started
            try:
                self._count(operation, outcome, seconds, result, arguments, named)
            except Exception as error:  # The operation is done; its caller must not see it fail.
                _log.error("The operation %s was not counted", operation, exc_info=error)
        return cast(T, result)

    def _count(
        self,
        operation: str,
        outcome: str,
        seconds: float,
        result: Any,
        arguments: Sequence[Any],
        named: Mapping[str, Any],
    ) -> None:
        self._metrics.operations(operation, outcome).inc()
        self._metrics.operation_seconds(operation).observe(seconds)
        if outcome == "ok" and operation in self._adds:
            self._metrics.messages_appended.inc(_count_messages(result))
            usage = _reported_usage(operation, arguments, named)
            if usage is not None:
                self._count_model_call(usage)

    def call_tool(
        self, tool: Tool, owner: Owner, arguments: Mapping[str, Any] | str | None
    ) -> ToolOutput:
        """Call a tool; count its outcome, and trace it. Raise StorageError if the database fails."""
        attributes = {
            traces.OPERATION: "execute_tool",
            traces.TOOL: tool.name,
            traces.STORE: owner.tenant,
        }
        span = traces.span(f"execute_tool {tool.name}", attributes) if traces.on else nullcontext()
        outcome = "failed"
        try:
            with span:
                output = tool.attempt(arguments)
            outcome = "refused" if "error" in output else "ok"
            return output
        finally:
            self._metrics.tool_calls.labels(tool.name, outcome).inc()

    def model_call(self, route: str, call: ModelCall) -> None:
        """Count a model call that memorist itself made."""
        usage = Usage(call.model, route, call.latency_ms, error=call.error)
        if call.answer:
            usage = replace(
                usage,
                tokens_in=call.answer.tokens_in,
                tokens_out=call.answer.tokens_out,
                cost=call.answer.cost,
            )
        self._count_model_call(usage)

    def _count_model_call(self, usage: Usage) -> None:
        counts = (usage.latency_ms, usage.tokens_in, usage.tokens_out, usage.cost)
        if not all(count is None or 0 <= count < MAX_PLAUSIBLE_COUNT for count in counts):
            return
        usage = replace(
            usage, model=usage.model[:MAX_NAME_LENGTH], route=usage.route[:MAX_NAME_LENGTH]
        )
        self._metrics.model_call(usage)
        if traces.on:
            traces.model_call(usage)


def _span(operation: str, owner: Owner) -> AbstractContextManager[Any]:
    declared = find_verb(operation)
    kind = operation.rpartition(".")[0]
    convention = declared.trace if declared else None
    attributes = {"memorist.operation": operation, traces.STORE: owner.tenant}
    if convention:
        attributes[traces.OPERATION] = convention
    name = f"{convention} {kind}".rstrip() if convention else f"memorist {operation}"
    return traces.span(name, attributes)


def _describe(result: Any) -> dict[str, str | int]:
    """Return what a span says about a result: an id, or a count."""
    items = result.rows if isinstance(result, MessageRows) else result
    if isinstance(items, list | Page):
        return {traces.COUNT: len(items)}
    id = getattr(result, "id", None) or getattr(result, "key", None)
    return {traces.RECORD: id, traces.COUNT: 1} if isinstance(id, str) else {}


def _count_messages(result: Any) -> int:
    """Return how many messages are in the result of a verb that adds something."""
    if isinstance(result, Turn):
        return result.last_seq - result.first_seq + 1
    added = result if isinstance(result, list) else [result]
    return len(added) if added and isinstance(added[0], Message) else 0


def _reported_usage(
    operation: str, arguments: Sequence[Any], named: Mapping[str, Any]
) -> Usage | None:
    if operation == _ADD_CALL:
        positional = dict(zip(("route", "model"), arguments, strict=False))
        fields = {
            name: value for name, value in named.items() if name in Usage.__dataclass_fields__
        }
        return Usage(**{**positional, **fields})
    usage = named.get("usage") if operation == _SAVE_TURN else None
    return Usage(**usage) if isinstance(usage, Mapping) else usage


def observe(memory: Memory, metrics: Metrics) -> None:
    """Measure the operations on a memory, and the model calls of memorist itself."""
    traces.look()
    observer = MeasuringObserver(metrics)
    record_call = memory.services.record

    def record(
        services: Services, owner: Owner, route: str, call: ModelCall, session: str | None = None
    ) -> None:
        observer.model_call(route, call)
        record_call(services, owner, route, call, session)

    memory.services = replace(memory.services, record=record, observer=observer)

"""Metrics and traces of the operations that clients call by REST, MCP, chat or vendor APIs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar, cast

from starlette.applications import Starlette

from retain.api.endpoints import ENDPOINTS, SCOPE_ENDPOINTS
from retain.api.responses import MessageRows
from retain.base.errors import RetainError
from retain.kinds.interactions import Usage
from retain.kinds.kind import Observer, Owner, Services
from retain.kinds.page import Page
from retain.kinds.tool import Answer, Tool
from retain.kinds.turns import Turn
from retain.memory import Memory
from retain.models.recording import ModelCall
from retain.server import traces
from retain.server.metrics import Metrics

P = ParamSpec("P")
T = TypeVar("T")
MAX_NAME_LENGTH = 100
MAX_PLAUSIBLE_COUNT = 1 << 40
APPENDING_OPERATIONS = ("messages.append", "messages.extend", "save_turn")
REPORTING_OPERATIONS = ("interactions.add", "save_turn")
"""Operations that report the use of a model."""

WRITING_OPERATIONS = frozenset(
    endpoint.operation for endpoint in (*ENDPOINTS, *SCOPE_ENDPOINTS) if endpoint.needs != "read"
)

_log = logging.getLogger("retain.observe")


class MeasuringObserver(Observer):
    """Counts and traces operations, tool calls and model calls."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

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
        except RetainError as error:
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
        appended = _appended_messages(operation, result)
        self._metrics.operation(operation, outcome, seconds, appended)
        if outcome == "ok" and operation in REPORTING_OPERATIONS:
            usage = _reported_usage(operation, arguments, named)
            if usage is not None:
                self._count_model_call(usage)

    def call_tool(
        self, tool: Tool, owner: Owner, arguments: Mapping[str, Any] | str | None
    ) -> Answer:
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
                answer = tool.attempt(arguments)
            outcome = "refused" if "error" in answer else "ok"
            return answer
        finally:
            self._metrics.tool(tool.name, outcome)

    def model_call(self, route: str, call: ModelCall) -> None:
        """Count a model call that retain itself made."""
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
        counts = (usage.latency_ms, usage.tokens_in, usage.tokens_out)
        if not all(count is None or _is_plausible(count) for count in counts):
            return
        name = str(usage.model)[:MAX_NAME_LENGTH]
        self._metrics.model(
            name,
            None if usage.latency_ms is None else usage.latency_ms / 1000,
            usage.tokens_in,
            usage.tokens_out,
            usage.cost if _is_plausible(usage.cost) else None,
            failed=bool(usage.error),
        )
        if traces.on:
            traces.model_call(name, str(usage.route)[:MAX_NAME_LENGTH], *counts, str(usage.error))


def _span(operation: str, owner: Owner) -> AbstractContextManager[Any]:
    kind, _, verb = operation.rpartition(".")
    convention = traces.operation(kind, verb, writes=operation in WRITING_OPERATIONS)
    attributes = {"retain.operation": operation, traces.STORE: owner.tenant}
    if convention:
        attributes[traces.OPERATION] = convention
    name = f"{convention} {kind}".rstrip() if convention else f"retain {operation}"
    return traces.span(name, attributes)


def _describe(result: Any) -> dict[str, str | int]:
    """Return what a span says about a result: an id, or a count."""
    items = result.rows if isinstance(result, MessageRows) else getattr(result, "hits", result)
    if isinstance(items, list | Page):
        return {traces.COUNT: len(items)}
    id = getattr(result, "id", None) or getattr(result, "key", None)
    return {traces.RECORD: id, traces.COUNT: 1} if isinstance(id, str) else {}


def _appended_messages(operation: str, result: Any) -> int:
    if result is None or operation not in APPENDING_OPERATIONS:
        return 0
    if isinstance(result, Turn):
        return result.last_seq - result.first_seq + 1
    return len(result) if isinstance(result, list) else 1


def _reported_usage(
    operation: str, arguments: Sequence[Any], named: Mapping[str, Any]
) -> Usage | None:
    if operation == "interactions.add":
        positional = dict(zip(("route", "model"), arguments, strict=False))
        fields = {
            name: value for name, value in named.items() if name in Usage.__dataclass_fields__
        }
        return Usage(**{**positional, **fields})
    usage = named.get("usage") if operation == "save_turn" else None
    return Usage(**usage) if isinstance(usage, Mapping) else usage


def _is_plausible(count: Any) -> bool:
    return type(count) in (int, float) and 0 <= count < MAX_PLAUSIBLE_COUNT


def install(app: Starlette) -> None:
    """Measure the operations on an app's memory, and the model calls of retain itself."""
    memory: Memory = app.state.memory
    observer = MeasuringObserver(app.state.metrics)
    memory_record = memory.services.record

    def record(
        services: Services, owner: Owner, route: str, call: ModelCall, session: str | None = None
    ) -> None:
        observer.model_call(route, call)
        memory_record(services, owner, route, call, session)

    memory.services = replace(memory.services, record=record, observer=observer)

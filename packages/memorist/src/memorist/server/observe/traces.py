"""OpenTelemetry traces: a span for each request, memory operation, tool and model call.

Uses only the API, which does nothing unless an SDK is installed. Attributes follow the GenAI
conventions where they exist. They have names, ids and counts; no content, query or error message.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from opentelemetry import context, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from memorist.kinds.interactions import Usage

OPERATION = "gen_ai.operation.name"
STORE = "gen_ai.memory.store.id"
RECORD = "gen_ai.memory.record.id"
COUNT = "gen_ai.memory.record.count"
TOOL = "gen_ai.tool.name"
MODEL = "gen_ai.request.model"
TOKENS_IN = "gen_ai.usage.input_tokens"
TOKENS_OUT = "gen_ai.usage.output_tokens"
ERROR = "error.type"
on = False
"""True if an SDK collects traces."""
_TRACER = trace.get_tracer("memorist")
_PARENTS = TraceContextTextMapPropagator()


def look() -> None:
    """Check once, at the start of the server, whether an SDK collects traces."""
    global on  # noqa: PLW0603 - read at each request; the check itself is slow
    on = not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


class Request:
    """The span of one request, from its first byte to its last."""

    __slots__ = ("_span", "_token")

    def __init__(self, method: str, headers: list[tuple[bytes, bytes]]) -> None:
        carrier = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in headers
            if name in (b"traceparent", b"tracestate")
        }
        parent = _PARENTS.extract(carrier) if carrier else None
        self._span = _TRACER.start_span(
            method, parent, SpanKind.SERVER, {"http.request.method": method}
        )
        self._token = context.attach(trace.set_span_in_context(self._span, parent))

    @property
    def trace_id(self) -> str:
        """The trace id, for the log."""
        return trace.format_trace_id(self._span.get_span_context().trace_id)

    def end(
        self, method: str, route: str, status: int, request_id: str, error: BaseException | None
    ) -> None:
        """End the span of the request."""
        context.detach(self._token)
        self._span.update_name(f"{method} {route}")
        self._span.set_attributes(
            {
                "http.route": route,
                "http.response.status_code": status,
                "memorist.request.id": request_id,
            }
        )
        if status >= 500:
            failed(self._span, type(error).__name__ if error else str(status))
        self._span.end()


def failed(span: Span, kind: str) -> None:
    """Mark a span as failed, with only the type of the error: its message may quote content."""
    span.set_attribute(ERROR, kind)
    span.set_status(Status(StatusCode.ERROR))


@contextmanager
def span(name: str, attributes: Mapping[str, Any]) -> Iterator[Span]:
    """Run the block in a span. An error is recorded by its type only."""
    started = _TRACER.start_span(name, attributes=attributes)
    token = context.attach(trace.set_span_in_context(started))
    try:
        yield started
    except BaseException as error:  # a cancelled span failed too; raised again
        failed(started, type(error).__name__)
        raise
    finally:
        context.detach(token)
        started.end()


def model_call(usage: Usage) -> None:
    """Record a finished model call as a span that ends now."""
    operation = "embeddings" if usage.route == "embed" else "chat"
    attributes: dict[str, str | int] = {
        OPERATION: operation,
        MODEL: usage.model,
        "memorist.route": usage.route,
    }
    if usage.tokens_in is not None:
        attributes[TOKENS_IN] = usage.tokens_in
    if usage.tokens_out is not None:
        attributes[TOKENS_OUT] = usage.tokens_out
    call_span = _TRACER.start_span(
        f"{operation} {usage.model}",
        kind=SpanKind.CLIENT,
        attributes=attributes,
        start_time=time.time_ns() - round((usage.latency_ms or 0) * 1e6),
    )
    if usage.error:
        failed(call_span, usage.error.partition(":")[0][:50] or "error")
    call_span.end()

"""Prometheus metrics: what the server does, counted where it happens, and what the database has, measured now and then.

Every name is a line of METRICS or FIGURES; docs/operations.md has them all, and a test keeps it so. With several processes
the counts are summed over them, through files that they share (`share`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    exposition,
    multiprocess,
    values,
)
from starlette.concurrency import run_in_threadpool

from retain.memory import Memory
from retain.server.door import Door
from retain.server.figures import Figures
from retain.server.operator import operator
from retain.work.loop import Worked

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that names the folder of the files that processes share; the library reads it."""
MOST_NAMES = 100
"""So many models have figures of their own; a caller can invent names, and the others are counted together."""
OTHERS = "other"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_LONG = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320)
METRICS: dict[str, tuple[Any, str, tuple[str, ...]]] = {
    "retain_requests": (Counter, "Requests that were answered.", ("method", "route", "status")),
    "retain_request_seconds": (Histogram, "How long requests took, to their last byte.", ("route",)),
    "retain_requests_in_flight": (Gauge, "Requests that are being worked on.", ()),
    "retain_operations": (Counter, "Verbs that were called, by any way.", ("operation", "outcome")),
    "retain_operation_seconds": (Histogram, "How long verbs took.", ("operation",)),
    "retain_messages_appended": (Counter, "Messages that were added.", ()),
    "retain_secrets_found": (Counter, "Keys, tokens and passwords in what was written.", ()),
    "retain_tool_calls": (Counter, "Tools that a model called, in a chat or over MCP.", ("tool", "outcome")),
    "retain_model_calls": (Counter, "Calls of models that are on record.", ("model", "outcome")),
    "retain_model_seconds": (Histogram, "How long models took.", ("model",)),
    "retain_model_tokens": (Counter, "Tokens that models read and wrote.", ("model", "direction")),
    "retain_model_cost_dollars": (Counter, "What models cost, where the price is known.", ("model",)),
    "retain_work_rounds": (Counter, "Rounds of later work inside the server.", ("outcome",)),
    "retain_work_seconds": (Counter, "How long the later work took in all.", ()),
    "retain_work_done": (Counter, "What the later work did.", ("job",)),
    "retain_work_failed": (Counter, "What failed in the later work.", ("job",)),
    "retain_work_left": (Gauge, "What was due and left for later in the last round.", ("job",)),
}


class Metrics:
    """The counts of one process, and with it the figures of its memory."""

    def __init__(self, memory: Memory) -> None:
        self.shared = bool(os.environ.get(FOLDER))
        if self.shared and not values.ValueClass._multiprocess:
            values.ValueClass = values.MultiProcessValue()  # type: ignore[no-untyped-call]
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        self._figures = Figures(memory)
        made = {name: self._made(name) for name in METRICS}
        self._requests, self._request_seconds = made["retain_requests"], made["retain_request_seconds"]
        self._in_flight = made["retain_requests_in_flight"]
        self._operations, self._operation_seconds = made["retain_operations"], made["retain_operation_seconds"]
        self._appended, self._secrets = made["retain_messages_appended"], made["retain_secrets_found"]
        self._tools = made["retain_tool_calls"]
        self._calls, self._model_seconds = made["retain_model_calls"], made["retain_model_seconds"]
        self._tokens, self._cost = made["retain_model_tokens"], made["retain_model_cost_dollars"]
        self._work = {name.removeprefix("retain_work_"): one for name, one in made.items() if "_work_" in name}
        self._children: dict[tuple[str, ...], Any] = {}
        self._models: set[str] = set()
        self._registry.register(self._figures)
        if not self.shared:  # of several processes, each would tell of itself as if it were all
            ProcessCollector(registry=self._registry)
            PlatformCollector(registry=self._registry)

    def _made(self, name: str) -> Any:
        kind, about, labels = METRICS[name]
        more: dict[str, Any] = {}
        if kind is Histogram:
            more = {"buckets": _LONG if "model" in name else _SECONDS}
        elif kind is Gauge:
            more = {"multiprocess_mode": "livesum"}
        return kind(name, about, labels, registry=self._registry, **more)

    def _child(self, metric: Any, *labels: str) -> Any:
        """A metric with its labels, found faster than the library does."""
        key = (metric._name, *labels)
        found = self._children.get(key)
        if found is None:
            found = self._children[key] = metric.labels(*labels)
        return found

    def began(self) -> None:
        """A request has come in."""
        self._in_flight.inc()

    def ended(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._in_flight.dec()
        self._child(self._requests, method, route, str(status)).inc()
        self._child(self._request_seconds, route).observe(seconds)

    def operation(self, name: str, outcome: str, seconds: float, appended: int = 0, secrets: int = 0) -> None:
        """A verb was called."""
        self._child(self._operations, name, outcome).inc()
        self._child(self._operation_seconds, name).observe(seconds)
        if appended:
            self._appended.inc(appended)
        if secrets:
            self._secrets.inc(secrets)

    def tool(self, name: str, outcome: str) -> None:
        """A model called a tool."""
        self._child(self._tools, name, outcome).inc()

    def model(
        self, name: str, milliseconds: float, tokens_in: int, tokens_out: int, cost: float | None, *, failed: bool
    ) -> None:
        """A call of a model is on record."""
        if name not in self._models:
            if len(self._models) >= MOST_NAMES:
                name = OTHERS
            self._models.add(name)
        self._child(self._calls, name, "failed" if failed else "ok").inc()
        self._child(self._model_seconds, name).observe(milliseconds / 1000)
        self._child(self._tokens, name, "in").inc(tokens_in)
        self._child(self._tokens, name, "out").inc(tokens_out)
        if cost:
            self._child(self._cost, name).inc(cost)

    def worked(self, worked: Worked | None, seconds: float) -> None:
        """A round of later work is over; without a result it failed."""
        self._work["rounds"].labels("failed" if worked is None else "ok").inc()
        self._work["seconds"].inc(seconds)
        for job, done in (worked.jobs if worked else {}).items():
            self._work["done"].labels(job).inc(done.done)
            self._work["failed"].labels(job).inc(done.failed)
            self._work["left"].labels(job).set(done.left)

    def written(self, accept: str = "") -> tuple[bytes, str]:
        """Everything, as a scraper reads it, and what form that is."""
        registry = self._registry
        self._figures.refresh()
        if self.shared:
            registry = CollectorRegistry()
            multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
            registry.register(self._figures)
        encode, media = exposition.choose_encoder(accept)
        return encode(registry), media


@contextmanager
def share() -> Iterator[None]:
    """Have the processes that are started inside sum their counts; for the process that starts them."""
    before = os.environ.get(FOLDER)
    folder = tempfile.mkdtemp(prefix="retain-metrics-")
    os.environ[FOLDER] = folder
    try:
        yield
    finally:
        os.environ.pop(FOLDER) if before is None else os.environ.update({FOLDER: before})
        shutil.rmtree(folder, ignore_errors=True)


def gone(pid: int) -> None:
    """A process that shared its counts has ended: what it was doing, it does no more."""
    if os.environ.get(FOLDER):
        multiprocess.mark_process_dead(pid)  # type: ignore[no-untyped-call]


def add(app: FastAPI, door: Door) -> None:
    """The route that a scraper asks."""
    metrics: Metrics = app.state.metrics

    @app.get("/metrics", name="metrics", tags=["operations"], include_in_schema=False)
    async def scrape(request: Request) -> Response:
        await operator(door, request)
        body, media = await run_in_threadpool(metrics.written, request.headers.get("accept", ""))
        return Response(body, headers={"Content-Type": media, "Cache-Control": "no-store"})

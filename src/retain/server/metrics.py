"""Prometheus metrics: what the server does, counted where it happens, and what the database has, measured now and then.

Every name is a line of METRICS or of FIGURES; docs/guides/operations.md has them all, and a test keeps it so. With several
processes the counts are summed over them.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import accumulate
from pathlib import Path
from typing import Literal

from fastapi import FastAPI, Request, Response
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, exposition
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from starlette.concurrency import run_in_threadpool

from retain.base import clock, masking
from retain.base.errors import StorageError, Unauthorized
from retain.jobs.runner import Worked
from retain.memory import Memory
from retain.server import life, logs, metric_store
from retain.server.authenticator import Authenticator
from retain.server.database_metrics import Figures
from retain.server.metric_store import Counts, Tally
from retain.server.operator import operator

MOST_NAMES = 100
"""So many models have figures of their own; a caller can invent names, and the others are counted together."""
OTHERS = "other"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_LONG = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0)
METRICS: dict[str, tuple[Literal["counter", "gauge", "histogram"], str, tuple[str, ...]]] = {
    "retain_requests_total": (
        "counter",
        "Requests that were answered.",
        ("method", "route", "status"),
    ),
    "retain_request_seconds": (
        "histogram",
        "How long requests took, to their last byte.",
        ("route",),
    ),
    "retain_requests_in_flight": ("gauge", "Requests that are being worked on.", ()),
    "retain_operations_total": (
        "counter",
        "Verbs that were called, by any way.",
        ("operation", "outcome"),
    ),
    "retain_operation_seconds": ("histogram", "How long verbs took.", ("operation",)),
    "retain_messages_appended_total": ("counter", "Messages that were added.", ()),
    "retain_secrets_found_total": (
        "counter",
        "Keys, tokens and passwords in what was written.",
        ("kind",),
    ),
    "retain_tool_calls_total": (
        "counter",
        "Tools that a model called, in a chat or over MCP.",
        ("tool", "outcome"),
    ),
    "retain_model_calls_total": (
        "counter",
        "Calls of models that are on record.",
        ("model", "outcome"),
    ),
    "retain_model_seconds": ("histogram", "How long models took.", ("model",)),
    "retain_model_tokens_total": (
        "counter",
        "Tokens that models read and wrote.",
        ("model", "direction"),
    ),
    "retain_model_cost_dollars_total": (
        "counter",
        "What models cost, where the price is known.",
        ("model",),
    ),
    "retain_log_lines_dropped_total": (
        "counter",
        "Lines of the log that were not written: nobody reads it.",
        (),
    ),
    "retain_work_rounds_total": (
        "counter",
        "Rounds of later work inside the server.",
        ("outcome",),
    ),
    "retain_work_seconds_total": ("counter", "How long the later work took in all.", ()),
    "retain_work_done_total": ("counter", "What the later work did.", ("job",)),
    "retain_work_failed_total": ("counter", "What failed in the later work.", ("job",)),
    "retain_work_left": ("gauge", "What was due, and left for later, in the last round.", ("job",)),
}
_BOUNDS = {
    name: _LONG if "model" in name else _SECONDS
    for name, one in METRICS.items()
    if one[0] == "histogram"
}
_PREFIX = "retain-metrics-"
_STALE_SECONDS = 3600.0
_MOST_SCRAPERS = 100
_GOOD_SECONDS = 3600.0
_shared: list[Path] = []


class Metrics(Collector):
    """The counts of a server, and with them the figures of its memory."""

    def __init__(self, memory: Memory) -> None:
        self.in_flight = 0
        self.worked_at: int | None = None
        """When this process last did what was due, in microseconds."""
        self.tally = Tally(
            _BOUNDS,
            _elsewhere,
            _shared[-1] if _shared else None,
            self._measured,
            ("retain_work_left",),
        )
        self._models: set[str] = set()
        self._figures = Figures(memory)
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._registry.register(self._figures)
        if (
            self.tally.folder is None
        ):  # of several processes, each would tell of itself as if it were all
            ProcessCollector(registry=self._registry)
            PlatformCollector(registry=self._registry)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request was answered."""
        labels = (method, route, str(status))
        self.tally.timed(
            "retain_request_seconds", (route,), seconds, "retain_requests_total", labels
        )

    def operation(self, name: str, outcome: str, seconds: float, appended: int = 0) -> None:
        """A verb was called."""
        self.tally.timed(
            "retain_operation_seconds", (name,), seconds, "retain_operations_total", (name, outcome)
        )
        if appended:
            self.tally.count("retain_messages_appended_total", (), appended)

    def tool(self, name: str, outcome: str) -> None:
        """A model called a tool."""
        self.tally.count("retain_tool_calls_total", (name, outcome))

    def model(
        self,
        name: str,
        seconds: float,
        tokens_in: int,
        tokens_out: int,
        cost: float | None,
        *,
        failed: bool,
    ) -> None:
        """A call of a model is on record."""
        if name not in self._models:
            if len(self._models) >= MOST_NAMES:
                name = OTHERS
            self._models.add(name)
        labels = (name, "failed" if failed else "ok")
        self.tally.timed(
            "retain_model_seconds", (name,), seconds, "retain_model_calls_total", labels
        )
        self.tally.count("retain_model_tokens_total", (name, "in"), tokens_in)
        self.tally.count("retain_model_tokens_total", (name, "out"), tokens_out)
        if cost:
            self.tally.count("retain_model_cost_dollars_total", (name,), cost)

    def worked(self, worked: Worked | None, seconds: float) -> None:
        """A round of later work is over; without a result it failed."""
        self.worked_at = clock.now() if worked else self.worked_at
        self.tally.count("retain_work_rounds_total", ("failed" if worked is None else "ok",))
        self.tally.count("retain_work_seconds_total", (), seconds)
        for job, done in (worked.jobs if worked else {}).items():
            self.tally.count("retain_work_done_total", (job,), done.done)
            self.tally.count("retain_work_failed_total", (job,), done.failed)
            self.tally.set("retain_work_left", (job,), done.left)

    def describe(self) -> list[Metric]:
        """Nothing: nobody else is in this registry whose names could be the same."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Everything that was counted."""
        counts, gauges, times = self.tally.total()
        for name, (kind, about, labels) in METRICS.items():
            if kind == "histogram":
                yield _histogram(name, about, labels, times.get(name, {}))
                continue
            family = (CounterMetricFamily if kind == "counter" else GaugeMetricFamily)(
                name, about, labels=labels
            )
            found = (counts if kind == "counter" else gauges).get(name, {} if labels else {(): 0.0})
            for values, value in found.items():
                family.add_metric(values, value)
            yield family

    def _measured(self) -> dict[str, float]:
        return {"retain_requests_in_flight": self.in_flight}

    def written(self, accept: str = "") -> tuple[bytes, str]:
        """Everything, as a scraper reads it, and what form that is."""
        self._figures.refresh()
        encode, media = exposition.choose_encoder(accept)
        return encode(self._registry), media


def _histogram(
    name: str, about: str, labels: tuple[str, ...], rows: dict[tuple[str, ...], list[float]]
) -> Metric:
    family = HistogramMetricFamily(name, about, labels=labels)
    bounds = [*map(str, _BOUNDS[name]), "+Inf"]
    for values, (total, *under) in rows.items():
        family.add_metric(values, list(zip(bounds, accumulate(under), strict=True)), total)
    return family


def _elsewhere() -> Counts:
    """What is counted where it happens, below the server."""
    return {
        "retain_secrets_found_total": {
            (kind,): float(found) for kind, found in masking.counts().items()
        },
        "retain_log_lines_dropped_total": {(): float(logs.dropped())},
    }


@contextmanager
def share() -> Iterator[None]:
    """Have the processes that are forked inside sum their counts; for the process that forks them."""
    _sweep(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    _shared.append(folder)
    try:
        yield
    finally:
        _shared.remove(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(place: Path) -> None:
    """Remove what servers left that were killed; one that lives writes every second."""
    for folder in place.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            found = folder.lstat()
            if found.st_uid == os.getuid() and found.st_mtime < time.time() - _STALE_SECONDS:
                shutil.rmtree(folder)


def gone(pid: int) -> None:
    """A process that shared its counts has ended."""
    if _shared:
        metric_store.gone(_shared[-1], pid)


class Scrapers:
    """Operators that scrape: who was let in a while ago still is while the database cannot say, when it matters most."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator
        self._good: dict[bytes, float] = {}

    async def admit(self, request: Request) -> None:
        """Go on only for an operator, or one of the last hour where nobody can be asked."""
        headers = [
            value
            for name, value in request.scope["headers"]
            if name in (b"authorization", b"x-api-key")
        ]
        mark = hashlib.sha256(b"\n".join(headers)).digest()
        try:
            await operator(self._authenticator, request)
        except StorageError:
            if not headers or self._good.get(mark, 0.0) < time.monotonic():
                raise
        except Unauthorized:
            self._good.pop(mark, None)
            raise
        else:
            if len(self._good) >= _MOST_SCRAPERS:
                self._good.clear()
            self._good[mark] = time.monotonic() + _GOOD_SECONDS


def add(app: FastAPI, authenticator: Authenticator) -> None:
    """The route that a scraper asks."""
    metrics: Metrics = app.state.metrics
    scrapers = Scrapers(authenticator)

    @app.api_route("/metrics", methods=["GET", "HEAD"], name="metrics", include_in_schema=False)
    async def scrape(request: Request) -> Response:
        await scrapers.admit(request)
        body, media = await run_in_threadpool(metrics.written, request.headers.get("accept", ""))
        return Response(body, headers={"Content-Type": media, "Cache-Control": "no-store"})

    @asynccontextmanager
    async def sharing() -> AsyncIterator[None]:
        metrics.tally.start()
        try:
            yield
        finally:
            await asyncio.to_thread(metrics.tally.stop)

    if metrics.tally.folder is not None:
        life.during(app, sharing)

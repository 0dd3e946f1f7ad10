"""Prometheus metrics of the server.

METRICS and `database_metrics.FIGURES` have every name; docs/guides/operations.md describes them,
and a test compares both. Several worker processes share their values through prometheus-client's
multiprocess mode.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

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
)
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from memorist.base import clock, masking
from memorist.base.errors import StorageError, Unauthorized
from memorist.jobs.job import JobResults
from memorist.memory import Memory
from memorist.server.http.authentication import RequestAuthenticator
from memorist.server.observe import logs
from memorist.server.observe.database_metrics import Figures

MAX_MODEL_NAMES = 100
"""Models with a label of their own. Callers choose the names; further models are counted as
OTHER_MODELS."""
OTHER_MODELS = "other"

REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
MODEL_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320)

METRICS: dict[str, tuple[type[Counter | Gauge | Histogram], str, tuple[str, ...]]] = {
    "memorist_requests_total": (Counter, "HTTP requests.", ("method", "route", "status")),
    "memorist_request_seconds": (Histogram, "Duration of requests, to the last byte.", ("route",)),
    "memorist_requests_in_flight": (Gauge, "Requests in progress.", ()),
    "memorist_operations_total": (
        Counter,
        "Operations called by REST, MCP, chat or a vendor's protocol.",
        ("operation", "outcome"),
    ),
    "memorist_operation_seconds": (Histogram, "Duration of operations.", ("operation",)),
    "memorist_messages_appended_total": (Counter, "Messages added.", ()),
    "memorist_secrets_found_total": (
        Counter,
        "Keys, tokens and passwords found in stored content.",
        ("kind",),
    ),
    "memorist_tool_calls_total": (
        Counter,
        "Tool calls of models, in chat or over MCP.",
        ("tool", "outcome"),
    ),
    "memorist_model_calls_total": (Counter, "Recorded model calls.", ("model", "outcome")),
    "memorist_model_seconds": (Histogram, "Duration of model calls.", ("model",)),
    "memorist_model_tokens_total": (Counter, "Tokens read and written.", ("model", "direction")),
    "memorist_model_cost_dollars_total": (
        Counter,
        "Cost of model calls, where the price is known.",
        ("model",),
    ),
    "memorist_log_lines_dropped_total": (Counter, "Log lines dropped.", ()),
    "memorist_work_rounds_total": (Counter, "Rounds of background jobs.", ("outcome",)),
    "memorist_work_seconds_total": (Counter, "Duration of background jobs.", ()),
    "memorist_work_done_total": (Counter, "Work done by background jobs.", ("job",)),
    "memorist_work_failed_total": (Counter, "Work that failed in background jobs.", ("job",)),
    "memorist_work_left": (Gauge, "Work left over by the last round.", ("job",)),
}
GAUGE_MODES = {"memorist_requests_in_flight": "livesum", "memorist_work_left": "livemax"}
"""Mode that combines the gauges of several processes: every process sees the same work."""

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
FOLDER_PREFIX = "memorist-metrics-"
STALE_FOLDER_SECONDS = 3600.0
MAX_REMEMBERED_SCRAPERS = 100
REMEMBER_SCRAPER_SECONDS = 3600.0

disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """The metrics of one app."""

    def __init__(self, memory: Memory) -> None:
        self.worked_at: int | None = None
        """When this process last finished a round of background jobs, in microseconds."""
        self._registry = CollectorRegistry()
        self._figures = Figures(memory)
        folder = os.environ.get(FOLDER_VARIABLE)
        if folder:
            self._metrics = _create_metrics(None)
            multiprocess.MultiProcessCollector(self._registry, folder)  # type: ignore[no-untyped-call]
        else:
            self._metrics = _create_metrics(self._registry)
            ProcessCollector(registry=self._registry)
            PlatformCollector(registry=self._registry)
        self._registry.register(self._figures)
        self._labelled: dict[tuple[str, ...], Any] = {}
        """Metrics by name and labels. The library's own lookup is slower."""
        self._model_names: set[str] = set()
        self._secrets_counted: dict[str, int] = {}
        self._drops_counted = 0

    def request_started(self) -> None:
        """Count a request as in progress."""
        self._metrics["memorist_requests_in_flight"].inc()

    def request_ended(self) -> None:
        """Count a request as no longer in progress."""
        self._metrics["memorist_requests_in_flight"].dec()

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._count("memorist_requests_total", method, route, str(status))
        self._observe("memorist_request_seconds", seconds, route)

    def operation(self, name: str, outcome: str, seconds: float, appended: int = 0) -> None:
        """Count an operation, and the messages that it appended."""
        self._count("memorist_operations_total", name, outcome)
        self._observe("memorist_operation_seconds", seconds, name)
        if appended:
            self._count("memorist_messages_appended_total", amount=appended)

    def tool(self, name: str, outcome: str) -> None:
        """Count a tool call."""
        self._count("memorist_tool_calls_total", name, outcome)

    def model(
        self,
        name: str,
        seconds: float | None,
        tokens_in: int | None,
        tokens_out: int | None,
        cost: float | None,
        *,
        failed: bool,
    ) -> None:
        """Count a model call; leave out values that are not known."""
        if name not in self._model_names:
            if len(self._model_names) >= MAX_MODEL_NAMES:
                name = OTHER_MODELS
            self._model_names.add(name)
        self._count("memorist_model_calls_total", name, "failed" if failed else "ok")
        if seconds is not None:
            self._observe("memorist_model_seconds", seconds, name)
        self._count("memorist_model_tokens_total", name, "in", amount=tokens_in or 0)
        self._count("memorist_model_tokens_total", name, "out", amount=tokens_out or 0)
        if cost:
            self._count("memorist_model_cost_dollars_total", name, amount=cost)

    def worked(self, worked: JobResults | None, seconds: float) -> None:
        """Count a round of background jobs; None means that it failed."""
        self._count("memorist_work_rounds_total", "failed" if worked is None else "ok")
        self._count("memorist_work_seconds_total", amount=seconds)
        if worked is None:
            return
        self.worked_at = clock.now()
        for job, done in worked.jobs.items():
            self._count("memorist_work_done_total", job, amount=done.done)
            self._count("memorist_work_failed_total", job, amount=done.failed)
            self._metric("memorist_work_left", job).set(done.left)

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """Return all metrics in the format that the scraper accepts, and its media type."""
        self._count_secrets_and_drops()
        self._figures.refresh()
        encode, media = exposition.choose_encoder(accept)
        return encode(self._registry), media

    def _count(self, name: str, *labels: str, amount: float = 1) -> None:
        self._metric(name, *labels).inc(amount)

    def _observe(self, name: str, seconds: float, label: str) -> None:
        self._metric(name, label).observe(seconds)

    def _metric(self, *name_and_labels: str) -> Any:
        metric = self._labelled.get(name_and_labels)
        if metric is None:
            name, *labels = name_and_labels
            metric = self._metrics[name]
            if labels:
                metric = metric.labels(*labels)
            self._labelled[name_and_labels] = metric
        return metric

    def _count_secrets_and_drops(self) -> None:
        """Add what was counted below the server since the last call."""
        for kind, total in masking.counts().items():
            added = total - self._secrets_counted.get(kind, 0)
            if added > 0:
                self._secrets_counted[kind] = total
                self._count("memorist_secrets_found_total", kind, amount=added)
        added = logs.dropped() - self._drops_counted
        if added > 0:
            self._drops_counted += added
            self._count("memorist_log_lines_dropped_total", amount=added)


def _create_metrics(registry: CollectorRegistry | None) -> dict[str, Any]:
    metrics: dict[str, Any] = {}
    for name, (metric, description, labels) in METRICS.items():
        options: dict[str, Any] = {}
        if metric is Histogram:
            options["buckets"] = MODEL_BUCKETS if "model" in name else REQUEST_BUCKETS
        if metric is Gauge:
            options["multiprocess_mode"] = GAUGE_MODES[name]
        metrics[name] = metric(name, description, labels, registry=registry, **options)
    return metrics


@contextmanager
def shared() -> Iterator[Path]:
    """Combine the metrics of the worker processes that are started inside; yield their folder."""
    _remove_stale_folders(Path(tempfile.gettempdir()))
    folder = tempfile.mkdtemp(prefix=FOLDER_PREFIX)
    os.environ[FOLDER_VARIABLE] = folder
    try:
        yield Path(folder)
    finally:
        del os.environ[FOLDER_VARIABLE]
        shutil.rmtree(folder, ignore_errors=True)


def _remove_stale_folders(parent: Path) -> None:
    """Remove the folders of servers that were killed."""
    for folder in parent.glob(f"{FOLDER_PREFIX}*"):
        with suppress(OSError):
            status = folder.lstat()
            is_stale = status.st_mtime < time.time() - STALE_FOLDER_SECONDS
            if is_stale and status.st_uid == os.getuid():
                shutil.rmtree(folder)


def worker_exited(pid: int) -> None:
    """Forget the gauges of a worker process; its counters stay in the sums."""
    if os.environ.get(FOLDER_VARIABLE):
        multiprocess.mark_process_dead(pid)  # type: ignore[no-untyped-call]


class ScraperAuthenticator:
    """Admits operators and remembers them for an hour, to scrape while the database is down."""

    def __init__(self, authenticator: RequestAuthenticator) -> None:
        self._authenticator = authenticator
        self._admitted_until: dict[bytes, float] = {}

    async def authenticate(self, request: Request) -> None:
        """Raise an error unless the request is an operator's, or was within the last hour."""
        headers = [
            value
            for name, value in request.scope["headers"]
            if name in (b"authorization", b"x-api-key")
        ]
        digest = hashlib.sha256(b"\n".join(headers)).digest()
        try:
            await self._authenticator.authorize_operator(request)
        except StorageError:
            if not headers or self._admitted_until.get(digest, 0.0) < time.monotonic():
                raise
        except Unauthorized:
            self._admitted_until.pop(digest, None)
            raise
        else:
            if len(self._admitted_until) >= MAX_REMEMBERED_SCRAPERS:
                self._admitted_until.clear()
            self._admitted_until[digest] = time.monotonic() + REMEMBER_SCRAPER_SECONDS


def routes(authenticator: RequestAuthenticator, metrics: Metrics) -> list[Route]:
    """Return the route that Prometheus scrapes."""
    scrapers = ScraperAuthenticator(authenticator)

    async def scrape(request: Request) -> Response:
        await scrapers.authenticate(request)
        body, media = await run_in_threadpool(metrics.render, request.headers.get("accept", ""))
        return Response(body, headers={"Content-Type": media, "Cache-Control": "no-store"})

    return [Route("/metrics", scrape, methods=["GET"])]

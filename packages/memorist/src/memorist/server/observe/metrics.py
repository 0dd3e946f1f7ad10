"""Prometheus metrics of the server.

docs/guides/operations.md describes all of them, and a test compares it with what is scraped. Several
worker processes share their values through prometheus-client's multiprocess mode.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections import Counter as Counts
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path

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
from memorist.kinds.interactions import Usage
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
        registry = None if folder else self._registry
        if folder:
            multiprocess.MultiProcessCollector(self._registry, folder)  # type: ignore[no-untyped-call]
        else:
            ProcessCollector(registry=self._registry)
            PlatformCollector(registry=self._registry)
        self._registry.register(self._figures)
        counter = partial(Counter, registry=registry)
        gauge = partial(Gauge, registry=registry)
        histogram = partial(Histogram, registry=registry)
        self.requests = cache(
            counter(
                "memorist_requests_total", "HTTP requests.", ("method", "route", "status")
            ).labels
        )
        self.request_seconds = cache(
            histogram(
                "memorist_request_seconds",
                "Duration of requests, to the last byte.",
                ("route",),
                buckets=REQUEST_BUCKETS,
            ).labels
        )
        self.requests_in_flight = gauge(
            "memorist_requests_in_flight", "Requests in progress.", multiprocess_mode="livesum"
        )
        self.operations = cache(
            counter(
                "memorist_operations_total",
                "Operations called by REST, MCP, chat or a vendor's protocol.",
                ("operation", "outcome"),
            ).labels
        )
        self.operation_seconds = cache(
            histogram(
                "memorist_operation_seconds",
                "Duration of operations.",
                ("operation",),
                buckets=REQUEST_BUCKETS,
            ).labels
        )
        self.messages_appended = counter("memorist_messages_appended_total", "Messages added.")
        self.tool_calls = counter(
            "memorist_tool_calls_total",
            "Tool calls of models, in chat or over MCP.",
            ("tool", "outcome"),
        )
        self._secrets_found = counter(
            "memorist_secrets_found_total",
            "Keys, tokens and passwords found in stored content.",
            ("kind",),
        )
        self._model_calls = counter(
            "memorist_model_calls_total", "Recorded model calls.", ("model", "outcome")
        )
        self._model_seconds = histogram(
            "memorist_model_seconds", "Duration of model calls.", ("model",), buckets=MODEL_BUCKETS
        )
        self._model_tokens = counter(
            "memorist_model_tokens_total", "Tokens read and written.", ("model", "direction")
        )
        self._model_cost = counter(
            "memorist_model_cost_dollars_total",
            "Cost of model calls, where the price is known.",
            ("model",),
        )
        self._log_lines_dropped = counter("memorist_log_lines_dropped_total", "Log lines dropped.")
        self._work_rounds = counter(
            "memorist_work_rounds_total", "Rounds of background jobs.", ("outcome",)
        )
        self._work_seconds = counter("memorist_work_seconds_total", "Duration of background jobs.")
        self._work_done = counter(
            "memorist_work_done_total", "Work done by background jobs.", ("job",)
        )
        self._work_failed = counter(
            "memorist_work_failed_total", "Work that failed in background jobs.", ("job",)
        )
        self._work_left = gauge(  # every process sees the same work
            "memorist_work_left",
            "Work left over by the last round.",
            ("job",),
            multiprocess_mode="livemax",
        )
        self._model_names: set[str] = set()
        self._secrets_counted: Counts[str] = Counts()
        self._drops_counted = 0

    def model_call(self, usage: Usage) -> None:
        """Count a model call; leave out values that are not known."""
        name = usage.model
        if name not in self._model_names:
            if len(self._model_names) >= MAX_MODEL_NAMES:
                name = OTHER_MODELS
            self._model_names.add(name)
        self._model_calls.labels(name, "failed" if usage.error else "ok").inc()
        if usage.latency_ms is not None:
            self._model_seconds.labels(name).observe(usage.latency_ms / 1000)
        self._model_tokens.labels(name, "in").inc(usage.tokens_in or 0)
        self._model_tokens.labels(name, "out").inc(usage.tokens_out or 0)
        if usage.cost:
            self._model_cost.labels(name).inc(usage.cost)

    def worked(self, worked: JobResults | None, seconds: float) -> None:
        """Count a round of background jobs; None means that it failed."""
        self._work_rounds.labels("failed" if worked is None else "ok").inc()
        self._work_seconds.inc(seconds)
        if worked is None:
            return
        self.worked_at = clock.now()
        for job, done in worked.jobs.items():
            self._work_done.labels(job).inc(done.done)
            self._work_failed.labels(job).inc(done.failed)
            self._work_left.labels(job).set(done.left)

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """Return all metrics in the format that the scraper accepts, and its media type."""
        # What was counted below the server since the last call.
        secrets = Counts(masking.counts())
        for kind, added in (secrets - self._secrets_counted).items():
            self._secrets_found.labels(kind).inc(added)
        self._secrets_counted = secrets
        drops = logs.dropped()
        self._log_lines_dropped.inc(max(0, drops - self._drops_counted))
        self._drops_counted = drops
        self._figures.refresh()
        encode, media = exposition.choose_encoder(accept)
        return encode(self._registry), media


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

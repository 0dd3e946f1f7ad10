"""Metrics of the database, counted in a background thread at most once a minute."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from memorist.admin import stored_responses
from memorist.base.errors import MemoristError
from memorist.base.version import VERSION
from memorist.jobs.embed import lag
from memorist.memory import Memory
from memorist.storage.tables import Table
from memorist.storage.transfer.verify import count

REFRESH_SECONDS = 60.0
FIRST_SECONDS = 2.0
"""The first scrape waits this long for the first counts."""
_PAUSE_FACTOR = 50  # the next count starts no earlier than 50 times the last one's duration
_EXTRA_TABLES = (
    Table("audit", order="number"),
    *stored_responses.TABLES,
)  # besides those of the kinds
FIGURES = {
    "memorist_rows": (
        "Number of rows of each table, over all tenants; large ones are estimated.",
        ("table",),
    ),
    "memorist_tenants": ("Number of tenants with stored data.", ()),
    "memorist_embedding_pending": ("Number of texts without a vector.", ()),
    "memorist_embedding_lag_seconds": ("Age in seconds of the oldest text without a vector.", ()),
    "memorist_figures_age_seconds": ("Age in seconds of the counts above.", ()),
    "memorist_database": (
        "Sizes in bytes, connections, and reads on a replica, reported by the database.",
        ("figure",),
    ),
    "memorist_info": ("Version of memorist and of the database schema.", ("version", "schema")),
}


class Figures(Collector):
    """Collector of the database metrics: returns the last counts, and refreshes old ones."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._lock = threading.Lock()
        self._counting: threading.Thread | None = None
        self._counts: dict[str, list[tuple[tuple[str, ...], float]]] = {}
        self._counted_at = self._due_at = 0.0

    def describe(self) -> list[GaugeMetricFamily]:
        """Return nothing: the metrics depend on the database, which is read at the first scrape."""
        return []

    def refresh(self) -> None:
        """Start a new count if it is due; wait a little for the first one."""
        with self._lock:
            if time.monotonic() >= self._due_at and not (
                self._counting and self._counting.is_alive()
            ):
                self._counting = threading.Thread(
                    target=self._count, name="memorist-figures", daemon=True
                )
                self._counting.start()
            counting = self._counting
        if not self._counted_at and counting:
            counting.join(FIRST_SECONDS)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield every known metric."""
        figures = dict(self._counts)
        if self._counted_at:
            figures["memorist_figures_age_seconds"] = [((), time.monotonic() - self._counted_at)]
        figures["memorist_database"] = [
            ((name,), value) for name, value in self._memory.database.figures().items()
        ]
        for name, samples in figures.items():
            about, labels = FIGURES[name]
            family = GaugeMetricFamily(name, about, labels=labels)
            for values, value in samples:
                family.add_metric(values, value)
            yield family

    def _rows(self) -> dict[str, int]:
        return self._memory.counts() | count(self._memory.database, _EXTRA_TABLES)

    def _count(self) -> None:
        started = time.monotonic()
        try:
            tenants = self._memory.tenants()
            figures: dict[str, list[tuple[tuple[str, ...], float]]] = {
                "memorist_rows": [((table,), float(rows)) for table, rows in self._rows().items()],
                "memorist_tenants": [((), float(len(tenants)))],
                "memorist_info": [((VERSION, str(self._memory.database.version())), 1.0)],
            }
            try:
                lags = [lag(self._memory.services, tenant) for tenant in tenants]
                figures["memorist_embedding_pending"] = [
                    ((), float(sum(entry.pending for entry in lags)))
                ]
                figures["memorist_embedding_lag_seconds"] = [
                    ((), max((entry.seconds for entry in lags), default=0.0))
                ]
            except MemoristError:
                pass  # the embedder cannot be used: no value is better than a wrong one
            self._counts = figures
            self._counted_at = time.monotonic()
        except MemoristError:  # the database is not available: keep the last counts and their age
            pass
        finally:
            now = time.monotonic()
            self._due_at = now + max(REFRESH_SECONDS, _PAUSE_FACTOR * (now - started))

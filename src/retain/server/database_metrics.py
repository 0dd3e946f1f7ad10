"""Figures of the database for a scraper: what costs something is counted at most once a minute, and not by its request."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from retain.auth import idempotency
from retain.base.errors import RetainError
from retain.base.version import version
from retain.jobs.embed import lag
from retain.memory import Memory
from retain.storage.tables import Table
from retain.storage.verify import count

REFRESH_SECONDS = 60.0
FIRST_SECONDS = 2.0
"""So long the first scraper waits for the first counts."""
_SHARE = 50  # counting may take one part of so many of the time
_MORE = (Table("audit", order="number"), *idempotency.TABLES)  # besides those of the kinds
FIGURES = {
    "retain_rows": ("Rows of each table, over all tenants.", ("table",)),
    "retain_tenants": ("Tenants that have written something.", ()),
    "retain_embedding_pending": ("Texts that have no vector yet.", ()),
    "retain_embedding_lag_seconds": ("How long the first of them has waited.", ()),
    "retain_figures_age_seconds": ("How old the figures above are.", ()),
    "retain_database": (
        "What the engine tells of itself: sizes in bytes, connections.",
        ("figure",),
    ),
    "retain_info": ("Which version this is, and its database's schema.", ("version", "schema")),
}


class Figures(Collector):
    """What a memory has; a scraper gets what was counted last, and has it counted again where that is old."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._lock = threading.Lock()
        self._counting: threading.Thread | None = None
        self._found: dict[str, list[tuple[tuple[str, ...], float]]] = {}
        self._counted_at = self._due_at = 0.0

    def describe(self) -> list[GaugeMetricFamily]:
        """Nothing: what there is depends on the database, which is not asked before somebody scrapes."""
        return []

    def refresh(self) -> None:
        """Have everything counted again, if it is time; the first time, wait a little for it."""
        with self._lock:
            if time.monotonic() >= self._due_at and not (
                self._counting and self._counting.is_alive()
            ):
                self._counting = threading.Thread(
                    target=self._count, name="retain-figures", daemon=True
                )
                self._counting.start()
            counting = self._counting
        if not self._counted_at and counting:
            counting.join(FIRST_SECONDS)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Each figure that is known."""
        found = dict(self._found)
        if self._counted_at:
            found["retain_figures_age_seconds"] = [((), time.monotonic() - self._counted_at)]
        found["retain_database"] = [
            ((name,), value) for name, value in self._memory.database.figures().items()
        ]
        for name, samples in found.items():
            about, labels = FIGURES[name]
            family = GaugeMetricFamily(name, about, labels=labels)
            for values, value in samples:
                family.add_metric(values, value)
            yield family

    def _rows(self) -> dict[str, int]:
        return self._memory.counts() | count(self._memory.database, _MORE)

    def _count(self) -> None:
        started = time.monotonic()
        try:
            tenants = self._memory.tenants()
            found: dict[str, list[tuple[tuple[str, ...], float]]] = {
                "retain_rows": [((table,), float(rows)) for table, rows in self._rows().items()],
                "retain_tenants": [((), float(len(tenants)))],
                "retain_info": [
                    ((version().removeprefix("retain "), str(self._memory.database.version())), 1.0)
                ],
            }
            try:
                lags = [lag(self._memory.services, tenant) for tenant in tenants]
                found["retain_embedding_pending"] = [((), float(sum(one.pending for one in lags)))]
                found["retain_embedding_lag_seconds"] = [
                    ((), max((one.seconds for one in lags), default=0.0))
                ]
            except (
                RetainError
            ):  # an embedder that cannot be used: no figure is better than a wrong one
                pass
            self._found = found
            self._counted_at = time.monotonic()
        except RetainError:  # the database is away; what was counted last is shown with its age
            pass
        finally:
            now = time.monotonic()
            self._due_at = now + max(REFRESH_SECONDS, _SHARE * (now - started))

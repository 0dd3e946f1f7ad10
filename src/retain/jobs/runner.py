"""Everything that is due, done once or again and again; each kind of later work is a line in `jobs`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from retain.auth import idempotency
from retain.base import clock
from retain.base.errors import NotFound
from retain.jobs import consolidate, embed, reindex, summarize
from retain.jobs.job import Done, Job, Progress
from retain.kinds.kind import Services
from retain.storage import leases

_SLACK = (
    5 * clock.MINUTE
)  # a session's last activity is known to a minute, and a transaction may take a while to commit
_SWEEP_SECONDS = 3600.0  # a sweep is a write, and a round may come every few seconds


def jobs() -> tuple[Job, ...]:
    """Each kind of later work, in order, for one worker."""
    return (
        Job("index", reindex.run),
        Job("vectors", embed.Vectors().run),
        Job("summaries", summarize.run),
        Job("consolidations", consolidate.run),
    )


@dataclass(frozen=True)
class Worked:
    """What came of each job."""

    jobs: dict[str, Done]

    @property
    def done(self) -> int:
        """How much was done in all."""
        return sum(one.done for one in self.jobs.values())

    @property
    def failed(self) -> int:
        """How much failed in all."""
        return sum(one.failed for one in self.jobs.values())

    @property
    def errors(self) -> list[str]:
        """What went wrong, and where."""
        return [error for one in self.jobs.values() for error in one.errors]


class Worker:
    """Does what is due, and remembers since when: a round after the first looks only at what was active meanwhile."""

    def __init__(self, services: Services, own: Sequence[Job] | None = None) -> None:
        self._services = services
        self._jobs = jobs() if own is None else own
        self._since: dict[tuple[str, str], int] = {}
        self._swept: dict[str, float] = {}

    def run(self, tenants: Sequence[str] | None = None, progress: Progress | None = None) -> Worked:
        """Everything that is due in some tenants, or in every one."""
        known = self._services.database.tenants()
        for tenant in tenants or []:
            if tenant not in known:
                raise NotFound(what="tenant", id=tenant)
        done = {job.name: Done() for job in self._jobs}
        for tenant in known if tenants is None else tenants:
            if time.monotonic() >= self._swept.get(tenant, 0.0):
                leases.sweep(self._services.database, tenant)
                idempotency.sweep_all(self._services.database, tenant)
                self._swept[tenant] = time.monotonic() + _SWEEP_SECONDS
            for job in self._jobs:
                done[job.name] += self._one(job, tenant, progress)
        return Worked(done)

    def _one(self, job: Job, tenant: str, progress: Progress | None) -> Done:
        started = self._services.database.read(tenant, lambda tx: tx.now)
        done = job.run(self._services, tenant, self._since.get((job.name, tenant), 0), progress)
        if (
            not done.failed and not done.left
        ):  # else the next round must find again what this one could not do
            self._since[job.name, tenant] = started - _SLACK
        return done

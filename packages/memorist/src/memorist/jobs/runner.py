"""Run the background jobs that are due, once or again and again."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from memorist.base.error_text import error_text
from memorist.base.errors import MemoristError, ReadOnly, Unreachable
from memorist.jobs import consolidate, deliver_webhooks, embed, learn, reindex, retention, summarize
from memorist.jobs.job import Job, JobResult, JobResults, Progress, Stopped
from memorist.kinds.kind import Services

DELIVERY_THREADS = 16
"""The number of tenants whose events are sent to webhooks at the same time."""
FIRST_PAUSE_SECONDS = 5.0
"""After an unexpected error of a job; doubled with each further one, up to `MAX_PAUSE_SECONDS`."""
MAX_PAUSE_SECONDS = 300.0
log = logging.getLogger("memorist.work")


WEBHOOKS = Job("webhooks", deliver_webhooks.run)


def all_jobs() -> tuple[Job, ...]:
    """Return the jobs of one runner, in order."""
    return (
        Job("index", reindex.run),
        Job("vectors", embed.EmbedJob().run),
        Job("summaries", summarize.run),
        Job("facts", learn.run),
        Job("consolidations", consolidate.run),
        Job("retention", retention.RetentionJob().run),
        WEBHOOKS,
    )


class JobRunner:
    """Runs the jobs that are due.

    threads: the number of tenants whose jobs run at the same time
    """

    def __init__(
        self, services: Services, jobs: Sequence[Job] | None = None, *, threads: int = 1
    ) -> None:
        self._services = services
        self._jobs = all_jobs() if jobs is None else jobs
        self._threads = threads
        self._failures: dict[tuple[str, str], tuple[int, float]] = {}
        """The number of unexpected errors of a job and tenant, and the time of its next run."""

    @classmethod
    def without_webhooks(cls, services: Services) -> JobRunner:
        """Return a runner of all jobs except webhooks, which wait for slow receivers."""
        return cls(services, [job for job in all_jobs() if job is not WEBHOOKS])

    @classmethod
    def of_webhooks(cls, services: Services) -> JobRunner:
        """Return a runner of webhooks only, for a thread of its own."""
        return cls(services, [WEBHOOKS], threads=DELIVERY_THREADS)

    def run(
        self, tenants: Sequence[str] | None = None, progress: Progress | None = None
    ) -> JobResults:
        """Run every job for some tenants, or for all; skip tenants that do not exist.

        When running all tenants, start at a random one, so that parallel runners find due work
        sooner.
        """
        known = self._services.database.tenants()
        if tenants is not None:
            known = [tenant for tenant in tenants if tenant in known]
        elif known:
            start = random.randrange(len(known))
            known = known[start:] + known[:start]
        results = {job.name: JobResult() for job in self._jobs}
        for tenant_results in self._run_tenants(known, progress):
            for job, result in zip(self._jobs, tenant_results, strict=True):
                results[job.name] += result
        return JobResults(results)

    def _run_tenants(
        self, tenants: Sequence[str], progress: Progress | None
    ) -> list[list[JobResult]]:
        if self._threads == 1:
            return [self._run_tenant(tenant, progress) for tenant in tenants]
        with ThreadPoolExecutor(self._threads, "memorist-jobs") as pool:
            return list(pool.map(lambda tenant: self._run_tenant(tenant, progress), tenants))

    def _run_tenant(self, tenant: str, progress: Progress | None) -> list[JobResult]:
        return [self._run_job(job, tenant, progress) for job in self._jobs]

    def _run_job(self, job: Job, tenant: str, progress: Progress | None) -> JobResult:
        """Run a job of a tenant. If it fails, it pauses; other jobs and tenants do not."""
        key = (job.name, tenant)
        failures, next_run = self._failures.get(key, (0, 0.0))
        if time.monotonic() < next_run:
            return JobResult(left=1)
        try:
            result = job.run(self._services, tenant, progress)
        except (Stopped, Unreachable, ReadOnly):  # these end the whole run
            raise
        except Exception as error:
            pause = min(FIRST_PAUSE_SECONDS * 2**failures, MAX_PAUSE_SECONDS)
            self._failures[key] = (min(failures + 1, 10), time.monotonic() + pause)
            if isinstance(error, MemoristError):
                log.warning(
                    "The job %s of tenant %s failed: %s", job.name, tenant, error_text(error)
                )
            else:
                log.error("The job %s of tenant %s failed", job.name, tenant, exc_info=error)
            reason = str(error) or type(error).__name__
            return JobResult(failed=1, errors=(f"{job.name} of tenant {tenant}: {reason}",))
        self._failures.pop(key, None)
        return result

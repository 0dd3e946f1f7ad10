"""Background jobs inside the server: a thread that runs due jobs after writes and periodically.

A write wakes the thread for its tenant, so vectors follow within a second or two. Periodic rounds
over all tenants find the writes of other processes. The longer such a round takes, the longer the
pause after it, so that requests come first. Webhooks have their own thread without such pauses: it
mostly waits for receivers.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from memorist.base import limits
from memorist.jobs.job import JobResults, Stopped
from memorist.jobs.runner import JobRunner
from memorist.memory import Memory
from memorist.storage.writer import Change, Writer

GATHER_SECONDS = 0.5
"""After a write, wait this long to process further writes with it."""
MAX_REST_SECONDS = 300.0
PAUSE_FACTOR = 19
"""Rounds over all tenants use at most one twentieth of the time."""
JOBS_THREAD = "memorist-work"
_JOIN_SECONDS = 2.0
_WARN_SECONDS = 60.0
log = logging.getLogger("memorist.work")

OnRound = Callable[[JobResults | None, float], None]
"""Called with the results of a round, None if it failed, and its duration."""


class Background:
    """The thread that runs jobs.

    on_round:     called with the results of each round, None if it failed
    runner:       runs the jobs (default: all)
    pause_factor: the pause after a round over all tenants, in multiples of its duration
    """

    def __init__(
        self,
        memory: Memory,
        on_round: OnRound = lambda worked, seconds: None,
        runner: JobRunner | None = None,
        pause_factor: int = PAUSE_FACTOR,
    ) -> None:
        self._memory = memory
        self._on_round = on_round
        self._worker = runner or JobRunner(memory.services)
        self._pause_factor = pause_factor
        self._touched: set[str] = set()
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._failures = 0
        self._warn_at = 0.0

    def start(self) -> None:
        """Start the thread; the first round is over all tenants."""
        self._stopping.clear()
        self._thread = threading.Thread(target=self._loop, name=JOBS_THREAD, daemon=True)
        self._thread.start()

    def wake(self, tenant: str) -> None:
        """Wake the thread after a write of a tenant. Cheap, and callable from any thread."""
        if tenant not in self._touched:
            self._touched.add(tenant)
        if not self._woken.is_set():
            self._woken.set()

    def stop(self) -> None:
        """End the running round at its next step; do not wait long for a model call."""
        self._stopping.set()
        self._woken.set()
        if self._thread:
            self._thread.join(_JOIN_SECONDS)

    def _loop(self) -> None:
        everything_at = 0.0
        while not self._stopping.is_set():
            started = time.monotonic()
            if started >= everything_at:
                self._touched.clear()
                took = self._round(None)
                everything_at = started + took + self._rest(took)
            elif self._touched:
                self._round(self._taken())
            self._wait(everything_at)

    def _rest(self, took: float) -> float:
        """Return the pause after a round over all tenants: longer after a long one or failures."""
        rest = max(limits.JOB_INTERVAL_SECONDS, self._pause_factor * took)
        rest *= 1 << min(self._failures, 8)
        return min(rest, max(MAX_REST_SECONDS, limits.JOB_INTERVAL_SECONDS)) * random.uniform(
            0.9, 1.0
        )

    def _wait(self, until: float) -> None:
        """Wait for a write, and a moment longer for others, or until the next round is due."""
        woken = self._woken.wait(max(0.0, until - time.monotonic()))
        self._woken.clear()
        if woken and not self._stopping.is_set():
            pause = GATHER_SECONDS if not self._failures else self._rest(0.0)
            self._stopping.wait(min(pause, max(0.0, until - time.monotonic())))

    def _taken(self) -> list[str]:
        taken, self._touched = self._touched, set()
        return sorted(taken)

    def _round(self, tenants: list[str] | None) -> float:
        """Run one round and return its duration. Errors do not end the thread."""
        started = time.monotonic()
        worked: JobResults | None = None
        try:
            worked = self._worker.run(tenants, self._check)
        except Stopped:
            return 0.0
        except Exception as error:  # the next round tries again
            if self._stopping.is_set():
                return 0.0
            log.error("Background jobs failed: %s", type(error).__name__, exc_info=error)
            for tenant in tenants or []:
                self.wake(tenant)
        took = time.monotonic() - started
        self._failures = self._failures + 1 if worked is None else 0
        # Each job has its own backoff.
        if worked and worked.failed and time.monotonic() > self._warn_at:
            self._warn_at = time.monotonic() + _WARN_SECONDS
            jobs = ", ".join(
                f"{job.failed} of {name}" for name, job in worked.jobs.items() if job.failed
            )
            log.warning("Some background jobs failed (%s); `memorist jobs` shows why", jobs)
        with suppress(Exception):  # the callback only counts; the jobs go on without it
            self._on_round(worked, took)
        return took

    def _check(self, done: int, total: int) -> None:
        if self._stopping.is_set():
            raise Stopped


def job_threads(memory: Memory, on_round: OnRound) -> list[Background]:
    """Return the threads of the jobs, and let writes of the memory's clients wake them.

    Webhooks have their own thread, so that slow ones do not delay other jobs. The jobs have another
    writer, so that they do not wake themselves.
    """
    services = memory.services
    threads = [Background(memory, on_round, JobRunner.without_webhooks(services))]
    if memory.settings.events != "off":
        deliveries = JobRunner.of_webhooks(services)
        threads.append(Background(memory, on_round, deliveries, pause_factor=0))

    def wake(change: Change) -> None:
        for thread in threads:
            thread.wake(change.tenant)

    writer = Writer(services.database, [wake], records_events=services.writer.records_events)
    memory.services = replace(services, writer=writer)
    return threads


@asynccontextmanager
async def running(threads: Sequence[Background]) -> AsyncIterator[None]:
    """Run the threads inside of this block."""
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        await asyncio.gather(*[asyncio.to_thread(thread.stop) for thread in threads])

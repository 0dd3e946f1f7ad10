"""The cost of jobs and status pages does not grow with the database: SQLite's steps are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import apsw
import pytest

from bench import growth
from memorist import Memory
from memorist.base.settings import Settings
from memorist.jobs.backlog import count_backlog
from memorist.jobs.embed import lag
from memorist.jobs.runner import JobRunner, all_jobs
from memorist.storage.sqlite import engine
from memorist.storage.transfer import verify

SIZES = (400, 4000)
MAX_RATIO = 1.5


class Steps:
    """Counts the steps of all SQLite connections that are opened."""

    def __init__(self) -> None:
        self.count = 0

    def watch(self, connection: apsw.Connection) -> None:
        connection.set_progress_handler(self._step, 1, id="steps")

    def _step(self) -> bool:
        self.count += 1
        return False

    def of(self, call: Callable[[], object]) -> int:
        """Return the steps of a call, after a first one."""
        call()
        before = self.count
        call()
        return self.count - before


@pytest.fixture
def steps() -> Iterator[Steps]:
    counter = Steps()
    apsw.connection_hooks.append(counter.watch)
    yield counter
    apsw.connection_hooks.remove(counter.watch)


def calls(memory: Memory) -> dict[str, Callable[[], object]]:
    """Return what must not become more expensive."""
    me = memory.scope(tenant=growth.TENANT, user="user 0", agent="scout")
    everybody = memory.scope(tenant=growth.TENANT)
    jobs = {f"job {job.name}": partial(growth.run_job, memory, job) for job in all_jobs()}
    return {
        **jobs,
        "all jobs": lambda: JobRunner(memory.services).run([growth.TENANT]),
        "counts": memory.counts,
        "status": memory.status.get,
        "lag": lambda: lag(memory.services, growth.TENANT),
        "backlog": lambda: count_backlog(memory.services, growth.TENANT),
        "sessions.list": lambda: me.sessions.list(limit=3),
        "sessions.list of the tenant": lambda: everybody.sessions.list(limit=3),
        "entries.list": lambda: me.entries.list(limit=3),
        "entries.list of the tenant": lambda: everybody.entries.list(limit=3),
        "interactions.list": lambda: me.interactions.list(limit=3),
        "refs.list": lambda: me.refs.list(limit=3),
        "window": lambda: me.messages.window(growth.session_id(0), last=5),
        "open": lambda: Memory.open(memory.settings.database, settings=memory.settings).close(),
    }


def test_nothing_due_costs_the_same_in_a_larger_database(
    tmp_path: Path, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "MAX_COUNTED", 3)
    monkeypatch.setattr(engine, "SAMPLED_ROWS", (2, 3))
    settings = Settings(
        database=f"sqlite:///{tmp_path}/growth.db",
        embedder="static",
        summary_enabled=True,
        summary_model="extractive",
        consolidate="propose",
        retention_days=365,
    )
    results: list[dict[str, int]] = []
    with Memory.open(settings=settings) as memory:
        size = 0
        for target in SIZES:
            growth.fill(
                memory, lambda count: [f"Plan {n} it is." for n in range(count)], size, target
            )
            size = target
            memory.run_jobs()
            results.append({name: steps.of(call) for name, call in calls(memory).items()})
    small, large = results
    grown = {
        name: (small[name], large[name]) for name in small if large[name] > MAX_RATIO * small[name]
    }
    assert grown == {}
    assert min(small.values()) > 0

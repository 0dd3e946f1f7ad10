"""The runner of all jobs."""

from __future__ import annotations

from retain import Memory
from retain.jobs.job import Job, JobResult, Progress
from retain.jobs.runner import JobRunner
from retain.kinds.kind import Services
from tests.conftest import one_engine


@one_engine
def test_each_run_starts_at_another_tenant_and_visits_all(memory: Memory) -> None:
    """Of several processes, one is then soon at the tenant that has work."""
    names = [f"tenant {number}" for number in range(5)]
    for tenant in names:
        memory.scope(tenant=tenant).state.set("k", 1, area="tenant")
    visited: list[str] = []

    def visit(services: Services, tenant: str, progress: Progress | None) -> JobResult:
        visited.append(tenant)
        return JobResult(done=1)

    runner = JobRunner(memory.services, [Job("visit", visit)])
    first = set()
    for _ in range(30):
        visited.clear()
        assert runner.run().jobs["visit"].done == 5
        assert sorted(visited) == names
        first.add(visited[0])
    assert len(first) > 1
    visited.clear()
    runner.run(["tenant 3", "tenant 1"])
    assert visited == ["tenant 3", "tenant 1"]

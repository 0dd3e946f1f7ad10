"""The runner of all jobs."""

from __future__ import annotations

import pytest

from memorist import Memory
from memorist.base.errors import Busy, Unreachable
from memorist.jobs import runner as module
from memorist.jobs.job import Job, JobResult, Progress, Stopped
from memorist.jobs.runner import JobRunner
from memorist.kinds.kind import Services
from testkit.databases import one_engine


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


@one_engine
@pytest.mark.parametrize("error", [Busy(problem="held"), ZeroDivisionError("a defect")])
def test_a_failing_job_stops_no_other(
    memory: Memory,
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It pauses, and runs again later. The log has the traceback of a defect."""
    for tenant in ("a", "b"):
        memory.scope(tenant=tenant).state.set("k", 1, area="tenant")
    fails = True

    def fail(services: Services, tenant: str, progress: Progress | None) -> JobResult:
        if fails and tenant == "a":
            raise error
        return JobResult(done=1)

    def succeed(services: Services, tenant: str, progress: Progress | None) -> JobResult:
        return JobResult(done=1)

    runner = JobRunner(memory.services, [Job("first", fail), Job("second", succeed)])
    results = runner.run()
    assert results.jobs["first"].done == 1
    assert results.jobs["second"].done == 2
    assert results.failed == 1
    assert "first of tenant a" in results.errors[0]
    assert str(error) in results.errors[0]
    assert ("Traceback" in caplog.text) == isinstance(error, ZeroDivisionError)
    assert runner.run().jobs["first"] == JobResult(done=1, left=1), "a pauses"
    monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 0.0)
    fresh = JobRunner(memory.services, [Job("first", fail)])
    assert fresh.run().failed == 1
    fails = False
    assert fresh.run().jobs["first"] == JobResult(done=2)


@one_engine
@pytest.mark.parametrize("error", [Unreachable(problem="gone"), Stopped()])
def test_an_unreachable_database_and_a_stop_end_the_run(memory: Memory, error: Exception) -> None:
    memory.scope(tenant="a").state.set("k", 1, area="tenant")

    def fail(services: Services, tenant: str, progress: Progress | None) -> JobResult:
        raise error

    with pytest.raises(type(error)):
        JobRunner(memory.services, [Job("first", fail)]).run()

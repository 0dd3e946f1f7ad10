"""Background jobs inside the server: wake-ups after writes, failures, pauses and stopping."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from memorist import Memory
from memorist.base import limits
from memorist.base.errors import Unreachable
from memorist.jobs.embed import lag
from memorist.jobs.job import JobResult, JobResults
from memorist.server.http.app import create_app
from memorist.server.process import background as module
from memorist.server.process.background import Background
from testkit.apps import Calling
from testkit.databases import one_engine
from testkit.limited import Limited


def wait_until(true: Callable[[], Any], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


class Rounds:
    """A worker that only records what it is asked to do."""

    def __init__(self) -> None:
        self.requests: list[list[str] | None] = []
        self.fail = 0
        self.hang: threading.Event | None = None

    def run(
        self, tenants: list[str] | None = None, progress: Callable[[int, int], None] | None = None
    ) -> JobResults:
        self.requests.append(tenants)
        while self.hang and progress:
            progress(0, 1)
            self.hang.wait(0.01)
        if self.fail:
            self.fail -= 1
            raise Unreachable(problem="a test")
        return JobResults({"vectors": JobResult(done=1)})


@pytest.fixture
def rounds() -> Rounds:
    return Rounds()


@pytest.fixture
def working(
    open_memory: Callable[..., Memory], rounds: Rounds, limited: Limited
) -> Iterator[Background]:
    limited(JOB_INTERVAL_SECONDS=30.0)
    created = Background(open_memory())
    created._worker = rounds  # type: ignore[assignment]
    yield created
    created.stop()


@one_engine
def test_vectors_are_computed_after_a_write(
    open_memory: Callable[..., Memory], calling: Calling
) -> None:
    """P12: within seconds by default, without `memorist jobs`."""
    memory = open_memory()
    client = calling(over=create_app(memory))
    headers = {"X-Memorist-User": "ada", "X-Memorist-Agent": "scout"}
    client.post("/api/sessions", json={"id": "trip"}, headers=headers)
    client.post(
        "/api/messages/trip",
        json={"role": "user", "content": "My sister lives in Graz."},
        headers=headers,
    )
    wait_until(lambda: lag(memory.services, "acme").pending == 0)
    payload = client.post(
        "/api/search", json={"query": "where does my sister live"}, headers=headers
    ).json()
    assert payload["data"]
    assert payload["legs"]["vectors"].startswith("ran")


@one_engine
def test_background_jobs_can_be_left_to_another_process(
    open_memory: Callable[..., Memory], calling: Calling
) -> None:
    app = create_app(open_memory(), jobs=False)
    calling(over=app).get("/healthz")
    assert all(background._thread is None for background in app.state.background)


@one_engine
def test_a_write_wakes_the_worker_for_its_tenant_only(
    working: Background, rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GATHER_SECONDS", 0.05)
    working.start()
    wait_until(lambda: rounds.requests == [None])
    for tenant in ("b", "a", "b"):
        working.wake(tenant)
    wait_until(lambda: rounds.requests[1:] == [["a", "b"]])
    time.sleep(0.1)
    assert len(rounds.requests) == 2  # no work without a reason


@one_engine
def test_failures_are_reported_and_survived(
    working: Background,
    rounds: Rounds,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    results: list[JobResults | None] = []
    monkeypatch.setattr(module, "GATHER_SECONDS", 0.01)
    working._on_round = lambda worked, seconds: results.append(worked)
    rounds.fail = 1
    working.start()
    wait_until(lambda: results == [None])
    assert "Background jobs failed: Unreachable" in caplog.text
    rest = working._rest(0.0)
    assert rest > 50  # twice the usual pause
    working._failures = 0
    working.wake("a")
    wait_until(lambda: len(results) == 2)
    assert results[1] is not None
    assert working._failures == 0


@one_engine
def test_the_tenants_of_a_failed_round_are_tried_again(
    working: Background, rounds: Rounds, monkeypatch: pytest.MonkeyPatch, limited: Limited
) -> None:
    """After a pause, before the next round over all tenants."""
    monkeypatch.setattr(module, "GATHER_SECONDS", 0.01)
    working.start()
    wait_until(lambda: rounds.requests == [None])
    working.wake("a")
    wait_until(lambda: rounds.requests[1:] == [["a"]])
    limited(JOB_INTERVAL_SECONDS=0.01)  # of the pause; the next round over all is in 30 s
    rounds.fail = 1
    working.wake("b")
    wait_until(lambda: rounds.requests[2:] == [["b"], ["b"]])


@one_engine
def test_the_pause_grows_with_the_duration_of_a_round(working: Background) -> None:
    """Requests come first."""
    assert 27 <= working._rest(0.1) <= 30
    assert working._rest(10.0) >= 0.9 * 190
    working._failures = 20
    assert working._rest(100.0) <= module.MAX_REST_SECONDS


@one_engine
def test_the_pause_of_deliveries_does_not_grow(open_memory: Callable[..., Memory]) -> None:
    """A delivery only waits for a receiver, and retries are due after five seconds."""
    app = create_app(open_memory(events="on"), jobs=False)
    jobs, deliveries = app.state.background
    assert jobs._rest(10.0) > 100
    assert deliveries._rest(20.0) <= limits.JOB_INTERVAL_SECONDS


@one_engine
def test_stop_interrupts_a_running_round(working: Background, rounds: Rounds) -> None:
    rounds.hang = threading.Event()
    working.start()
    wait_until(lambda: rounds.requests)
    working.stop()
    assert working._thread is not None
    assert not working._thread.is_alive()


def test_a_removed_tenant_does_not_stop_the_others(open_memory: Callable[..., Memory]) -> None:
    memory = open_memory(embedder="static")
    me = memory.scope(tenant="acme", user="ada", agent="scout")
    me.sessions.add("s")
    me.messages.append("s", "user", "hello")
    results: list[JobResults | None] = []
    created = Background(memory, lambda worked, seconds: results.append(worked))
    created._round(["acme", "removed"])
    assert results[0] is not None
    assert results[0].jobs["vectors"].done == 1


def test_two_processes_do_no_work_twice(open_memory: Callable[..., Memory]) -> None:
    """Leases: what one process embeds, the other skips."""
    memory = open_memory()
    me = memory.scope(tenant="acme", user="ada", agent="scout")
    me.sessions.add("s")
    me.messages.extend("s", [{"role": "user", "content": f"Fact {n}."} for n in range(30)])
    done: list[int] = []
    pair = [
        Background(
            open_memory(),
            lambda worked, seconds: done.append(worked.jobs["vectors"].done if worked else -1),
        )
        for _ in "ab"
    ]
    threads = [threading.Thread(target=item._round, args=(["acme"],)) for item in pair]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if sum(done) < 30:  # each job ran in one process while the other held its lease
        pair[0]._round(["acme"])
    assert sum(done) == 30

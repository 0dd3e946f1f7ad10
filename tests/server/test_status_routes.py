"""What is here and what is due, counted no more often than it costs."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from retain import Memory
from retain.api import status as counting
from retain.server import status_routes


def test_what_takes_long_to_count_is_not_counted_again_at_once(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T2: of each tenant by itself; a large database is not kept busy by a page that asks every few seconds."""
    times = iter(range(0, 1000, 2))
    monkeypatch.setattr(
        status_routes, "time", SimpleNamespace(monotonic=lambda: float(next(times)))
    )
    counted = status_routes.Counted(memory)
    me = memory.scope(tenant="acme", user="ada", agent="scout")
    me.sessions.add()
    assert counted.status("acme").rows["sessions"] == 1  # from 0 to 2, and so good until 40
    me.sessions.add()
    assert counted.status("acme").rows["sessions"] == 1
    assert counted.status("other").rows["sessions"] == 0
    seen = [counted.status("acme").rows["sessions"] for _ in range(30)]
    assert seen == sorted(seen)
    assert seen[-1] == 2


def test_nobody_waits_for_another_tenant_to_be_counted(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T2, P11: however long that takes."""
    began, go_on = threading.Event(), threading.Event()

    def slowly(memory: Memory, tenant: str | None) -> counting.Status:
        if tenant == "large":
            began.set()
            assert go_on.wait(30)
        return counting.status(memory, tenant)

    monkeypatch.setattr(status_routes, "status", slowly)
    counted = status_routes.Counted(memory)
    with ThreadPoolExecutor(1) as pool:
        large = pool.submit(counted.status, "large")
        assert began.wait(30)
        assert counted.status("acme").rows["sessions"] == 0
        go_on.set()
        assert large.result().rows["sessions"] == 0

"""The status of a tenant, and how often its rows are cached_status."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from memorist import Memory
from memorist.server.routes import status_handler
from memorist.storage.database import Transaction, Work
from testkit.faults import with_faults


def test_slow_counts_are_cached(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Per tenant; a page that polls every few seconds does not keep a large database busy."""
    times = iter(range(0, 1000, 2))
    monkeypatch.setattr(
        status_handler, "time", SimpleNamespace(monotonic=lambda: float(next(times)))
    )
    cached_status = status_handler.CachedStatus(memory)
    me = memory.scope(tenant="acme", user="ada", agent="scout")
    me.sessions.add()
    assert cached_status.status("acme").rows["sessions"] == 1  # took 2 s, so it is cached until 40
    me.sessions.add()
    assert cached_status.status("acme").rows["sessions"] == 1
    assert cached_status.status("other").rows["sessions"] == 0
    seen = [cached_status.status("acme").rows["sessions"] for _ in range(30)]
    assert seen == sorted(seen)
    assert seen[-1] == 2


def test_counting_one_tenant_does_not_block_another(memory: Memory) -> None:
    """However long it takes."""
    started = threading.Event()
    go_on = threading.Event()

    def hold_large_tenant(tx: Transaction, work: Work[Any]) -> Any:
        if tx.tenant == "large":
            started.set()
            assert go_on.wait(30)
        return work(tx)

    memory, faults = with_faults(memory)
    faults.wrap(hold_large_tenant)
    cached_status = status_handler.CachedStatus(memory)
    with ThreadPoolExecutor(1) as pool:
        large = pool.submit(cached_status.status, "large")
        assert started.wait(30)
        assert cached_status.status("acme").rows["sessions"] == 0
        go_on.set()
        assert large.result().rows["sessions"] == 0

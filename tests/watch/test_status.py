"""What is here and what is due, counted no more often than it costs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from retain import Memory
from retain.watch import status


def test_what_takes_long_to_count_is_not_counted_again_at_once(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """T2: of each tenant by itself; a large database is not kept busy by a page that asks every few seconds."""
    times = iter(range(0, 1000, 2))
    monkeypatch.setattr(status, "time", SimpleNamespace(monotonic=lambda: float(next(times))))
    counted = status.Counted(memory)
    me = memory.scope("acme", "ada", "scout")
    me.sessions.add()
    assert counted.status("acme").rows["sessions"] == 1  # from 0 to 2, and so good until 40
    me.sessions.add()
    assert counted.status("acme").rows["sessions"] == 1
    assert counted.status("other").rows["sessions"] == 0
    seen = [counted.status("acme").rows["sessions"] for _ in range(30)]
    assert seen == sorted(seen)
    assert seen[-1] == 2

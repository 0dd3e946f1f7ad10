"""A budget is spent by work, and by nothing else."""

from __future__ import annotations

import time

import pytest

from retain.text.time_limit import TimeLimit, TimeLimitExceeded


def test_waiting_is_no_work() -> None:
    """P16: a machine that is busy with something else takes nothing of it."""
    time_limit = TimeLimit(0.05)
    time.sleep(0.1)
    assert not time_limit.is_exceeded()
    time_limit.check()


def test_work_spends_it_for_good() -> None:
    time_limit = TimeLimit(0.02)
    until = time.thread_time() + 0.03
    while time.thread_time() < until:
        pass
    assert time_limit.is_exceeded()
    assert time_limit.was_exceeded
    with pytest.raises(TimeLimitExceeded):
        time_limit.check()

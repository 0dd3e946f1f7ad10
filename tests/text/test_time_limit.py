"""A time limit counts CPU time only."""

from __future__ import annotations

import time

import pytest

from retain.text.time_limit import TimeLimit, TimeLimitExceeded


def test_waiting_does_not_count() -> None:
    """P16: a busy machine does not use it up."""
    time_limit = TimeLimit(0.05)
    time.sleep(0.1)
    assert not time_limit.is_exceeded()
    time_limit.check()


def test_work_exhausts_the_limit() -> None:
    time_limit = TimeLimit(0.02)
    until = time.thread_time() + 0.03
    while time.thread_time() < until:
        pass
    assert time_limit.is_exceeded()
    assert time_limit.was_exceeded
    with pytest.raises(TimeLimitExceeded):
        time_limit.check()

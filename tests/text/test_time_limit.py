"""A time limit counts CPU time and, with a larger limit, wall-clock time."""

from __future__ import annotations

import time

import pytest

from memorist.text.time_limit import TimeLimit, TimeLimitExceeded


def test_waiting_is_no_processor_time() -> None:
    """P16: a busy machine does not use it up."""
    time_limit = TimeLimit(0.05, 60)
    time.sleep(0.1)
    assert not time_limit.is_exceeded()
    time_limit.check()


def test_waiting_exhausts_the_wall_clock() -> None:
    """P16: on a busy machine, little processor time can take minutes."""
    time_limit = TimeLimit(60, 0.01)
    time.sleep(0.02)
    assert time_limit.is_exceeded()
    with pytest.raises(TimeLimitExceeded):
        time_limit.check()


def test_work_exhausts_the_limit() -> None:
    time_limit = TimeLimit(0.02, 60)
    until = time.thread_time() + 0.03
    while time.thread_time() < until:
        pass
    assert time_limit.is_exceeded()
    assert time_limit.was_exceeded
    with pytest.raises(TimeLimitExceeded):
        time_limit.check()

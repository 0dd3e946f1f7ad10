"""A budget is spent by work, and by nothing else."""

from __future__ import annotations

import time

import pytest

from retain.text.budget import Budget, Spent


def test_waiting_is_no_work() -> None:
    """P16: a machine that is busy with something else takes nothing of it."""
    budget = Budget(0.05)
    time.sleep(0.1)
    assert not budget.over()
    budget.check()


def test_work_spends_it_for_good() -> None:
    budget = Budget(0.02)
    until = time.thread_time() + 0.03
    while time.thread_time() < until:
        pass
    assert budget.over()
    assert budget.is_spent
    with pytest.raises(Spent):
        budget.check()

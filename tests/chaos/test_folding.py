"""Concurrent folding of one session: every turn once; killed processes leave nothing and block
nobody forever.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from memorist import Memory, NewMessage
from memorist.base import clock
from memorist.testing import ScriptedModel
from testkit.models import ANSWER, with_model
from tests.chaos.folding import Job, is_up, notes, start
from tests.chaos.writer import SESSION, scope_of, wait_for

Open = Callable[..., Memory]
MESSAGES = 400
KEPT = 12


@pytest.mark.slow
@pytest.mark.slow_on_postgres
def test_processes_never_fold_the_same_turns_twice(
    open_memory: Open, url: str, tmp_path: Path
) -> None:
    """Three fold while a fourth appends; every range went to one model, once, and is
    covered once.
    """
    memory = open_memory(summary_enabled=True)
    me = scope_of(memory)
    me.sessions.add(SESSION)
    logs = [tmp_path / f"log {n}" for n in range(3)]
    upto = MESSAGES - KEPT - 41
    others = [
        start(Job(url, str(log), f"p{n}", upto=upto, pause=0.01)) for n, log in enumerate(logs)
    ]
    try:
        wait_for(lambda: all(is_up(log) for log in logs), "the processes")
        for n in range(1, MESSAGES + 1):
            me.messages.append(SESSION, "user" if n % 2 else "assistant", f"This is m{n}m.")
            time.sleep(0.002)
        assert [process.wait(120) for process in others] == [0, 0, 0]
    finally:
        for process in others:
            process.kill()
    folds = me.summaries.list(SESSION).items[::-1]
    covered = [f"{fold.covers_from}-{fold.covers_to}" for fold in folds]
    requests = [line for log in logs for line in notes(log)]
    assert sorted(requests) == sorted(covered), (
        "no model was asked for nothing, or for what another was asked"
    )
    assert [fold.number for fold in folds] == list(range(1, len(folds) + 1))
    assert [fold.covers_from for fold in folds] == [1, *[fold.covers_to + 1 for fold in folds[:-1]]]
    assert len(folds) >= 5
    assert [message.seq for message in me.messages.list(SESSION, limit=1000)] == list(
        range(1, MESSAGES + 1)
    )
    assert [finding for finding in memory.verify() if not finding.ok] == []


@pytest.mark.slow_on_postgres
@pytest.mark.parametrize("moment", ["thinking", "committing"])
def test_a_process_killed_while_folding_leaves_one_summary_at_most(
    open_memory: Open, url: str, tmp_path: Path, moment: str
) -> None:
    """Killed before its commit, nothing happened; after its lease expired, another folds."""
    memory = open_memory(summary_enabled=True)
    me = scope_of(memory)
    me.sessions.add(SESSION)
    me.messages.extend(SESSION, [NewMessage("user", f"This is m{n}m.") for n in range(1, 42)])
    killed = start(Job(url, str(tmp_path / "log"), "killed", die=moment))
    assert killed.wait(60) == -signal.SIGKILL
    assert notes(tmp_path / "log") == ["1-29"]
    assert ("ran " in (tmp_path / "log").read_text()) == (moment == "committing")
    assert (me.sessions.get(SESSION).summary, me.sessions.get(SESSION).summarized_count) == ("", 0)
    model = ScriptedModel(ANSWER)
    assert scope_of(with_model(memory, model)).summaries.fold(SESSION).number == 0
    assert model.requests == [], "the dead one has the lease"
    later = open_memory(clock=lambda: clock.now() + 10 * clock.MINUTE, summary_enabled=True)
    assert scope_of(with_model(later, model)).summaries.fold(SESSION).text == ANSWER
    assert [summary.covers_to for summary in me.summaries.list(SESSION)] == [29]
    assert [finding for finding in memory.verify() if not finding.ok] == []

"""Processes that learn at the same time, and killed ones: nothing is doubled, nothing is left."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memorist import Memory, Scope
from memorist.base import clock
from memorist.testing import ScriptedModel
from testkit.models import with_model
from tests.chaos.learning import Job, Mode, reply, start
from tests.chaos.writer import SESSION, scope_of, wait_for

Open = Callable[..., Memory]
THINGS = [f"{first}{second}" for first in ("tea", "jam", "nut") for second in ("pie", "cup", "box")]


def say(me: Scope, thing: str) -> None:
    """Append a turn, an hour ago."""
    moment = datetime.now(UTC) - timedelta(hours=1)
    me.messages.append(SESSION, "user", f"I like {thing}.", created_at=moment)


def learned(me: Scope) -> dict[str, list[int]]:
    """Return the statements, each with its messages and one event."""
    facts = me.facts.list(include_replaced=True, limit=500).items
    for fact in facts:
        assert [change.action for change in me.facts.history(fact.id)] == ["added"]
    statements = [fact.statement for fact in facts]
    assert len(set(statements)) == len(statements), "nothing is doubled"
    return {fact.statement: [message.seq for message in fact.evidence] for fact in facts}


@pytest.mark.slow_on_postgres
@pytest.mark.parametrize("moment", ["thinking", "committing"])
def test_a_process_killed_while_learning_leaves_nothing(
    open_memory: Open, url: str, tmp_path: Path, moment: str
) -> None:
    """The next one reads the same turns, once."""
    memory = open_memory(facts="model")
    me = scope_of(memory)
    me.sessions.add(SESSION)
    for thing in THINGS[:3]:
        say(me, thing)
    killed = start(Job(url, str(tmp_path / "log"), die=moment))
    assert killed.wait(60) == -signal.SIGKILL
    log = (tmp_path / "log").read_text()
    assert log.count("asked ") == 3
    assert ("ran " in log) == (moment == "committing")
    assert learned(me) == {}
    model = ScriptedModel(reply)
    with_model(memory, model).run_jobs()
    assert model.requests == [], "the dead one has the lease"
    later = open_memory(clock=lambda: clock.now() + 10 * clock.MINUTE, facts="model")
    with_model(later, model).run_jobs()
    expected = {f"The user likes {thing}.": [n] for n, thing in enumerate(THINGS[:3], 1)}
    assert learned(me) == expected
    assert [finding for finding in memory.verify() if not finding.ok] == []


@pytest.mark.slow
@pytest.mark.slow_on_postgres
@pytest.mark.parametrize("mode", ["explicit", "model"])
def test_processes_never_learn_the_same_turns_twice(
    open_memory: Open, url: str, tmp_path: Path, mode: Mode
) -> None:
    memory = open_memory(facts=mode)
    me = scope_of(memory)
    me.sessions.add(SESSION)
    logs = [tmp_path / f"log {n}" for n in range(2)]
    others = [start(Job(url, str(log), mode, seconds=3.0, pause=0.01)) for log in logs]
    try:
        wait_for(lambda: all(log.exists() for log in logs), "the processes")
        for thing in THINGS:
            say(me, thing)
            time.sleep(0.05)
        assert [process.wait(60) for process in others] == [0, 0]
    finally:
        for process in others:
            process.kill()
    with_model(memory, ScriptedModel(reply)).run_jobs()
    assert learned(me) == {f"The user likes {thing}.": [n] for n, thing in enumerate(THINGS, 1)}
    if mode == "model":
        lines = [line for log in logs for line in log.read_text().splitlines()]
        asked = [line.split()[2] for line in lines if line.startswith("asked ")]
        assert len(asked) == len(set(asked)), "no model was asked for what another was asked"
    assert [finding for finding in memory.verify() if not finding.ok] == []

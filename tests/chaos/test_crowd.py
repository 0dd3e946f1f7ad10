"""Concurrency on one session: threads of one process, and processes on one file."""

from __future__ import annotations

from pathlib import Path

import pytest

from memorist import Memory
from testkit import sizes
from testkit.databases import SETTINGS
from tests.chaos.crowd import Crowd
from tests.chaos.history import History, from_log, messages_of
from tests.chaos.writer import SESSION, Job, scope_of, start


@pytest.mark.parametrize("run", range(sizes.CROWD_RUNS))
def test_64_threads_on_one_session_have_a_consistent_history(memory: Memory, run: int) -> None:
    """Gap-free and in order, while four readers only ever see a prefix."""
    me = scope_of(memory)
    me.sessions.add(SESSION)
    history = History()
    with Crowd(me, history, writers=64, readers=4, writes=sizes.CROWD_WRITES) as crowd:
        crowd.finish()
    assert len(history.of("ok")) == 64 * sizes.CROWD_WRITES
    assert history.errors == []
    assert len(history.reads) > 4
    assert history.problems(messages_of(me, SESSION)) == []


def test_8_processes_on_one_file_lose_no_write(tmp_path: Path) -> None:
    """Every write is stored, in one order, and none was rejected as busy."""
    url, log, go = f"sqlite:///{tmp_path}/agent.db", tmp_path / "log", tmp_path / "go"
    jobs = [
        Job(url, str(log), f"p{n}", threads=2, writes=sizes.PROCESS_WRITES // 2, go=str(go))
        for n in range(8)
    ]
    writers = [start(job) for job in jobs]
    go.touch()
    assert [writer.wait(240) for writer in writers] == [0] * 8
    assert log.read_text().count("\ninfo ") == 0, "a writer got an error"
    history = from_log(log)
    assert len(history.of("ok")) == 8 * (sizes.PROCESS_WRITES // 2) * 2
    with Memory.open(url, settings=SETTINGS) as memory:
        assert history.problems(messages_of(scope_of(memory), SESSION)) == []
        assert [finding for finding in memory.verify() if not finding.ok] == []

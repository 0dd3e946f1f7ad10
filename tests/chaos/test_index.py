"""Killed while documents are indexed, merged and embedded: every acknowledged text is found."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from memorist import Memory
from memorist.jobs import index_owners
from testkit import sizes
from testkit.databases import SETTINGS
from testkit.memories import problems
from tests.chaos.history import from_log, messages_of
from tests.chaos.writer import SESSION, TENANT, Job, scope_of, start, wait_for
from tests.search.indexing import finds, marks, segments

_END_LEASES = "update leases set expires_at = :now where tenant = :tenant"
CHECKED_TEXTS = 40


def rounds(log: Path) -> int:
    """Return how often the jobs have run."""
    return log.read_bytes().count(b"\nround ") if log.exists() else 0


@pytest.mark.slow_on_postgres
def test_kill_9_during_indexing_hides_no_acknowledged_text(url: str, tmp_path: Path) -> None:
    """Each is found by its own word at once, by a process that has never searched before."""
    log = tmp_path / "log"
    dice = random.Random(1)
    for kill in range(sizes.KILLS):
        before = rounds(log)
        writer = start(Job(url, str(log), f"k{kill}", threads=2, indexes=True))
        wait_for(lambda before=before: rounds(log) > before, "the first round")  # type: ignore[misc]
        time.sleep(dice.uniform(0, 2 * sizes.KILLED_WRITER_SECONDS))
        writer.kill()
        assert writer.wait() == -signal.SIGKILL, "the writer ended before it was killed"
        history = from_log(log)
        with Memory.open(url, settings=SETTINGS) as memory:
            me = scope_of(memory)
            assert history.problems(messages_of(me, SESSION)) == []
            written = history.of("ok")
            others = dice.sample(written, min(CHECKED_TEXTS, len(written)))
            assert [word for word in {*written[-9:], *others} if not finds(me, word)] == []
            assert problems(memory) == []
            memory.database.write(TENANT, lambda tx: tx.run(_END_LEASES))
    with Memory.open(url, settings=SETTINGS) as memory:
        assert segments(memory), "nothing was indexed: this proves nothing"
        index_owners.run(memory.services, TENANT)
        assert marks(memory) == (0, 0, 0)
        memory.run_jobs()
        assert problems(memory) == []
        some = dice.sample(written, min(5 * CHECKED_TEXTS, len(written)))
        assert [word for word in some if not finds(scope_of(memory), word)] == []

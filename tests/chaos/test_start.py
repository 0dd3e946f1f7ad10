"""Many processes starting at once, on an empty database or during a migration."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memorist import Memory
from memorist.storage import migrate
from memorist.storage.database import Transaction
from testkit import sizes
from testkit.databases import SETTINGS, new_database
from tests.chaos.crowd import Crowd
from tests.chaos.history import History, from_log, messages_of
from tests.chaos.writer import SESSION, TENANT, Job, scope_of, start

EXTRA = """-- up
alter table messages add column mood {text};
create index messages_by_mood on messages (tenant, mood);
create table moods (tenant {key} not null references tenants (tenant), name {key} not null, primary key (tenant, name));
-- down
drop table moods;
drop index messages_by_mood;
alter table messages drop column mood;
"""


@pytest.fixture
def empty_url(engine: str, tmp_path: Path) -> Iterator[str]:
    """A database without tables."""
    if engine == "sqlite":
        yield f"sqlite:///{tmp_path}/agent.db"
    else:
        yield from new_database(engine, "template1")


@pytest.mark.slow_on_postgres
@pytest.mark.parametrize("round_", range(sizes.STARTS))
def test_processes_start_at_once_on_an_empty_database(
    empty_url: str, tmp_path: Path, round_: int
) -> None:
    """Each finds every table and writes; none sees a partial schema."""
    log, go = tmp_path / "log", tmp_path / "go"
    jobs = [
        Job(empty_url, str(log), f"p{n}", threads=1, writes=3, go=str(go))
        for n in range(sizes.STARTERS)
    ]
    writers = [start(job) for job in jobs]
    time.sleep(0.5)  # most of them have started and wait for the signal
    go.touch()
    assert [writer.wait(120) for writer in writers] == [0] * sizes.STARTERS
    history = from_log(log)
    assert len(history.of("ok")) == 3 * sizes.STARTERS
    with Memory.open(empty_url, settings=SETTINGS) as memory:
        assert history.problems(messages_of(scope_of(memory), SESSION)) == []
        assert memory.database.version() == memory.migrations[-1].number
        assert [finding for finding in memory.verify() if not finding.ok] == []


def test_a_migration_with_an_open_transaction_and_16_waiters_neither_hangs_nor_fails(
    open_memory: Callable[..., Memory],
) -> None:
    """A reader holds the tables while 16 processes migrate; appends continue, and it happens
    once.
    """
    memory = open_memory()
    me, history = scope_of(memory), History()
    me.sessions.add(SESSION)
    number = memory.migrations[-1].number + 1
    known = [*memory.migrations, migrate.read(number, "moods", EXTRA)]
    inside, leave = threading.Event(), threading.Event()
    applied: list[str] = []
    gate = threading.Lock()

    def hold(tx: Transaction) -> int:
        rows = tx.all("select seq from messages where tenant = :tenant")
        inside.set()
        assert leave.wait(60)
        return len(rows)

    def bring_up(starter: Memory) -> None:
        done = [migration.name for migration in migrate.up(starter.database, known)]
        with gate:
            applied.extend(done)

    holder = threading.Thread(target=memory.database.read, args=(TENANT, hold), daemon=True)
    holder.start()
    assert inside.wait(60)
    starters = [open_memory(postgres_pool=2) for _ in range(16)]
    threads = [
        threading.Thread(target=bring_up, args=(starter,), daemon=True) for starter in starters
    ]
    with Crowd(me, history, writers=4, readers=1) as crowd:
        for thread in threads:
            thread.start()
        crowd.wait_for(20)
        time.sleep(0.5)  # longer than the migration waits for a lock
        leave.set()
        for thread in (holder, *threads):
            thread.join(100)
            assert not thread.is_alive(), "a starter hangs"
        crowd.wait_for(20)
    assert applied == ["moods"]
    assert history.errors == []
    assert history.problems(messages_of(me, SESSION)) == []
    assert [starter.database.version() for starter in starters] == [number] * 16
    memory.migrations = known  # the migrations that the starters know
    assert [finding for finding in memory.verify() if not finding.ok] == []
    migrate.down(memory.database, known, to=number - 1)
    assert memory.database.version() == number - 1

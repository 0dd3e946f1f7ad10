"""A user with very many sessions: what lists, resume, search and context read stays bounded."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from memorist import Memory, Scope
from memorist.base import clock
from testkit.databases import one_engine
from testkit.faults import with_faults
from testkit.recording import WorkCounter
from testkit.rows import raw

FEW = 300
BATCH = 1000
OLDER = f"""update sessions set touched_at = touched_at - {clock.MINUTE} * cast(substr(id, 3) as integer)
            where cast(substr(id, 3) as integer) >= {FEW}"""
Read = Callable[[Scope], Any]
READS: dict[str, Read] = {
    "list": lambda me: me.sessions.list(limit=20),
    "next page": lambda me: me.sessions.list(limit=20, after=me.sessions.list(limit=20).next),
    "resume": lambda me: me.sessions.resume("s/7"),
    "resume an unknown one": lambda me: me.sessions.resume("never there"),
    "active": lambda me: me.sessions.active(),
    "get": lambda me: me.sessions.get("s/7"),
    "window": lambda me: me.messages.window("s/7", last=5),
    "search": lambda me: me.search("train", limit=5),
    "context": lambda me: me.context("s/7", "Where does the train go?", budget=2000),
}


def add_sessions(me: Scope, count: range) -> None:
    """Add sessions; each hundredth of the first ones has a message."""

    def add(scope: Scope, numbers: range) -> None:
        for n in numbers:
            scope.sessions.add(f"s/{n}", label=f"Trip {n}")
            if n < FEW and n % 100 == 7:
                scope.messages.append(f"s/{n}", "user", f"The train {n} goes to Lisbon.")

    for start in range(count.start, count.stop, BATCH):
        numbers = range(start, min(start + BATCH, count.stop))
        me.transaction(partial(add, numbers=numbers))


@one_engine
@pytest.mark.parametrize("many", [6_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_the_number_of_sessions_does_not_matter(memory: Memory, url: str, many: int) -> None:
    """Each call reads at most twice as much as with 300 sessions, the newest, of one minute."""
    memory, faults = with_faults(memory)
    me = memory.scope(tenant="acme", user="ada", agent="scout")
    counter = WorkCounter()
    work: dict[str, list[int]] = {}
    for count in (range(FEW), range(FEW, many)):
        faults.heal()
        add_sessions(me, count)
        with raw(url) as database:
            database.all(OLDER)
        faults.wrap(counter)
        for name, read in READS.items():
            read(me)
            work.setdefault(name, []).append(counter.last)
    assert len(me.sessions.list(limit=100).items) == 100
    assert {name: steps for name, steps in work.items() if steps[1] > 2 * steps[0] + 500} == {}

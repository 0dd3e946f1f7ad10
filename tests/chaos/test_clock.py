"""Clock jumps (F6): order never depends on the clock, and expired data stays expired."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memorist import Memory
from memorist.base.clock import DAY, SECOND, to_datetime
from memorist.base.errors import NotFound
from tests.chaos.crowd import Crowd
from tests.chaos.history import History, messages_of
from tests.chaos.writer import ROOT, SESSION, scope_of

NOON = 1_790_000_000 * SECOND
YEAR_2038 = 2_147_483_647 * SECOND + 999_999
YEAR_9999 = int(datetime(9999, 12, 31, 23, 59, 0, tzinfo=UTC).timestamp()) * SECOND


class Clock:
    """A clock that the test sets."""

    def __init__(self, now: int) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


def test_order_survives_clock_jumps(open_memory: Callable[..., Memory]) -> None:
    """Back a day under load, then frozen, then forward: the history is consistent."""
    clock = Clock(NOON)
    memory = open_memory(clock=clock)
    me, history = scope_of(memory), History()
    me.sessions.add(SESSION)
    with Crowd(me, history, writers=6, readers=2) as crowd:
        for jump in (-DAY, 0, 400 * DAY, -2 * DAY, YEAR_2038 - NOON):
            crowd.wait_for(20)
            clock.now += jump
        crowd.wait_for(20)
    assert history.errors == []
    assert history.problems(messages_of(me, SESSION)) == []
    times = [message.created_at for message in me.messages.window(SESSION)]
    assert times != sorted(times), "the clock was meant to run backwards"
    assert [message.seq for message in me.messages.window(SESSION, last=10)] == list(
        range(len(times) - 9, len(times) + 1)
    )
    assert [finding for finding in memory.verify() if not finding.ok] == []


@pytest.mark.parametrize(
    "now", [YEAR_2038, YEAR_2038 + 1, YEAR_9999], ids=["2038", "2038 and a microsecond", "9999"]
)
def test_extreme_years_work(open_memory: Callable[..., Memory], now: int) -> None:
    clock = Clock(now)
    memory = open_memory(clock=clock)
    me = scope_of(memory)
    session = me.sessions.resume()
    message = me.messages.append(session.id, "user", "hello", key="k")
    assert message.created_at == to_datetime(now)
    assert me.messages.append(session.id, "user", "hello", key="k") == message
    item = me.state.set("k", 1, ttl=10)
    assert item.expires_at == to_datetime(now + 10 * SECOND)
    assert me.messages.window(session.id, minutes=5) == [message]
    assert [element.id for element in me.sessions.list()] == [session.id]
    clock.now += 10 * SECOND
    with pytest.raises(NotFound):
        me.state.get("k")
    assert [finding for finding in memory.verify() if not finding.ok] == []


def test_a_key_expires_to_the_microsecond_and_stays_purged(
    open_memory: Callable[..., Memory],
) -> None:
    """P10: expired keys are in no read; once purged, no clock brings them back."""
    clock = Clock(NOON)
    memory = open_memory(clock=clock)
    me = scope_of(memory)
    me.state.set("k", 1, ttl=60)
    clock.now = NOON + 60 * SECOND - 1
    assert me.state.get("k").value == 1
    clock.now += 1
    with pytest.raises(NotFound):
        me.state.get("k")
    assert me.state.list().items == []
    assert memory.purge().state == 1
    clock.now = NOON - DAY
    with pytest.raises(NotFound):
        me.state.get("k")
    assert me.state.set("k", 2, if_version=0).version == 1


ASK = """
import json, os, sys, time
from memorist import Memory, Settings
from memorist.base.errors import NotFound
memory = Memory.open(sys.argv[1], settings=Settings(postgres_pool=2))
me = memory.scope(tenant="acme", user="ada", agent="scout")
said = {"year": time.gmtime().tm_year}
try:
    said["k"] = me.state.get("k").value
except NotFound:
    said["k"] = None
said["seq"] = me.messages.append("s", "user", "from another year").seq
said["window"] = [message.text for message in me.messages.window("s")]
print(json.dumps(said))
"""


def ask_in(moment: str, url: str) -> dict[str, object]:
    """Return what a process with another system time reads."""
    library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    env = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "FAKETIME": moment,
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", ASK, url],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.slow
def test_a_machine_with_a_wrong_clock(memory: Memory, url: str, engine: str) -> None:
    """A client clock off by years: messages keep their order; with a server, whose clock counts,
    expiry is unaffected.
    """
    if shutil.which("faketime") is None and not os.environ.get("CI"):
        pytest.skip("faketime is not installed: run the tests with `make test`")
    me = scope_of(memory)
    me.sessions.add(SESSION)
    me.messages.append(SESSION, "user", "first")
    me.state.set("k", 1, ttl=0.001)
    time.sleep(0.01)
    past = ask_in("2001-01-01 00:00:00", url)
    me.messages.append(SESSION, "user", "third")
    future = ask_in("2039-01-01 00:00:00", url)
    assert (past["year"], future["year"]) == (2001, 2039)
    assert future["window"] == ["first", "from another year", "third", "from another year"]
    assert (past["seq"], future["seq"]) == (2, 4)
    if engine != "sqlite":  # there the machine's clock is the database's
        assert past["k"] is None
        me.state.set("k", 2, ttl=3600)
        assert ask_in("2039-01-01 00:00:00", url)["k"] == 2
    else:
        assert future["k"] is None

"""P1 with `synchronous_commit = off`: a crash of the server takes the latest writes, nothing else.

What docs/internals/reliability.md promises for this setting: the writes of the last moments before a
crash of PostgreSQL may be gone, always the latest ones, and `verify` says that commits do not wait.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from memorist import Memory
from testkit.databases import SETTINGS
from testkit.servers import PostgresServer

WAL_WRITER_SECONDS = 2.0
"""More than three rounds of the WAL writer, which PostgreSQL promises to need at most."""


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    server = PostgresServer("modern", synchronous_commit="off")
    yield server
    server.close()


def test_a_crash_loses_only_the_latest_writes(server: PostgresServer) -> None:
    url = server.create("relaxed")
    with Memory.open(url, settings=SETTINGS, wait_seconds=30.0) as memory:
        me = memory.scope(user="ada", agent="scout")
        me.sessions.add("s")
        old = [me.messages.append("s", "user", f"old {n}", key=f"old {n}").text for n in range(50)]
        time.sleep(WAL_WRITER_SECONDS)
        new = [me.messages.append("s", "user", f"new {n}", key=f"new {n}").text for n in range(50)]
        server.stop("immediate")
        server.start()
        messages = list(me.messages.list("s", limit=200))
        assert [message.text for message in messages] == (old + new)[: len(messages)]
        assert len(messages) >= len(old), "a write of seconds ago is lost"
        assert [message.seq for message in messages] == [*range(1, len(messages) + 1)]

        repeated = [
            me.messages.append("s", "user", text, key=text).seq for text in (*old[:5], *new)
        ]
        assert repeated == [1, 2, 3, 4, 5, *range(51, 101)], "a retry completes what is missing"
        wrong = [finding.problem for finding in memory.verify() if not finding.ok]
        assert wrong == ["synchronous_commit is off"]


def test_a_killed_client_loses_nothing(server: PostgresServer) -> None:
    """The server itself goes on, so that it writes what it has acknowledged."""
    url = server.create("client")
    program = f"""
from memorist import Memory
me = Memory.open({url!r}).scope(user="ada", agent="scout")
me.sessions.add("s")
while True:
    print(me.messages.append("s", "user", "x").seq, flush=True)
"""
    client = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert client.stdout
    acknowledged = [int(client.stdout.readline()) for _ in range(20)]
    client.kill()
    acknowledged += map(int, client.stdout.read().split())
    client.wait()
    with Memory.open(url, settings=SETTINGS) as memory:
        me = memory.scope(user="ada", agent="scout")
        stored = [message.seq for message in me.messages.list("s", limit=500)]
    assert stored[: len(acknowledged)] == acknowledged

"""PostgreSQL taken away during load (F3): connections cut, the server crashed, its main process killed.

The clients are threads of this process on one Memory, which must go on working afterwards as if nothing had happened. Three
of four write with keys: they may have to try again, and never learn less than "yes". The others write without: for them
alone the answer may be "nobody knows" (InDoubt), and any other error means that nothing was written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import psycopg
import pytest

from memorist import Memory
from testkit import sizes
from testkit.databases import SETTINGS
from testkit.servers import PostgresServer
from tests.chaos.crowd import Crowd
from tests.chaos.history import History, messages_of
from tests.chaos.writer import SESSION, scope_of


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A separate server, to be broken."""
    server = PostgresServer("modern")
    yield server
    server.close()


@pytest.fixture
def crashing(server: PostgresServer, request: pytest.FixtureRequest) -> Iterator[Memory]:
    """An empty database on it."""
    name = f"crash_{abs(hash(request.node.name))}"
    url = server.create(name)
    with Memory.open(url, settings=SETTINGS, wait_seconds=30.0) as memory:
        scope_of(memory).sessions.add(SESSION)
        yield memory


def terminate(server: PostgresServer) -> None:
    """Terminate every other connection."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where pid <> pg_backend_pid() and backend_type = 'client backend'"
        )


def crash(server: PostgresServer) -> None:
    """Stop it immediately, like a crash, and start it again."""
    server.stop("immediate")
    server.start()


def kill(server: PostgresServer) -> None:
    """Kill -9 the main process; a new one cannot start until its children are gone."""
    server.kill()
    deadline = time.monotonic() + 60
    while True:
        try:
            return server.start()
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


@pytest.mark.parametrize(
    ("blow", "times"),
    [
        (terminate, sizes.SERVER_TERMINATIONS),
        pytest.param(crash, sizes.SERVER_CRASHES, marks=pytest.mark.slow),
        (kill, sizes.SERVER_CRASHES),
    ],
    ids=["connections cut", "immediate shutdown", "kill -9"],
)
def test_server_crashes_under_load_lose_nothing(
    server: PostgresServer, crashing: Memory, blow: Callable[[PostgresServer], None], times: int
) -> None:
    """Every acknowledged message once and in order, and the same Memory continues."""
    me, history = scope_of(crashing), History()
    with Crowd(me, history, writers=12, readers=2, keyed=lambda writer: writer % 4 != 0) as crowd:
        for _ in range(times):
            crowd.wait_for(60)
            blow(server)
        crowd.wait_for(60)
    assert len(history.of("ok")) >= 60 * (times + 1)
    assert history.problems(messages_of(me, SESSION)) == []
    assert [finding for finding in crashing.verify() if not finding.ok] == []
    assert me.messages.append(SESSION, "user", "and on").seq == len(messages_of(me, SESSION))

"""Promotion of a replica under load: no acknowledged write is lost, and clients find the new primary.

The primary waits for the replica before it acknowledges a commit (`synchronous_standby_names`), so the
replica has every acknowledged write when the primary is gone. Clients have the addresses of both.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import psycopg
import pytest

from memorist import Memory
from memorist.base.errors import InDoubt, ReadOnly, Unreachable
from memorist.storage.postgres import server as postgres_server
from testkit.databases import SETTINGS, memory_folder
from testkit.servers import Kind, PostgresServer, debian_binaries
from tests.chaos.crowd import Crowd
from tests.chaos.history import History, messages_of
from tests.chaos.writer import SESSION, scope_of

pytestmark = pytest.mark.slow
DATABASE = "moving"
PATIENCE = 60.0


class Installation:
    """A primary with a database, and a replica that every commit waits for."""

    def __init__(self) -> None:
        self.kind: Kind = "debian" if debian_binaries() else "modern"
        self.servers: list[PostgresServer] = []
        self.primary = self._add(PostgresServer(self.kind, memory_folder()))
        url = self.primary.create(DATABASE)
        Memory.open(url, settings=SETTINGS).close()
        self.standby = self.add_replica()
        self.primary.execute("alter system set synchronous_standby_names = 'replica'")
        self.primary.execute("select pg_reload_conf()")

    def add_replica(self, **config: str) -> PostgresServer:
        """Start a replica of the primary."""
        return self._add(PostgresServer(self.kind, memory_folder(), self.primary.url, **config))

    def _add(self, server: PostgresServer) -> PostgresServer:
        self.servers.append(server)
        return server

    @property
    def url(self) -> str:
        """The address with both servers, of which clients use the one that they can write to."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in (self.primary.port, self.standby.port))
        return f"postgresql://postgres@{hosts}/{DATABASE}"

    def close(self) -> None:
        """Stop all servers."""
        for server in self.servers:
            server.close()


@pytest.fixture
def installation() -> Iterator[Installation]:
    with closing(Installation()) as installation:
        yield installation


def kill(server: PostgresServer) -> None:
    """Kill the main process; the others end by themselves."""
    server.kill()


def shut_down(server: PostgresServer) -> None:
    """Stop the server in order: it sends the replica its last log."""
    server.stop("fast")


@pytest.mark.parametrize("end", [kill, shut_down])
def test_a_promotion_under_load_loses_no_acknowledged_write(
    installation: Installation, end: Callable[[PostgresServer], None]
) -> None:
    """The replica that is promoted was read before; afterwards it is the primary."""
    standby = installation.standby
    settings = replace(SETTINGS, read_database=standby.url_of(DATABASE))
    with Memory.open(installation.url, settings=settings, wait_seconds=PATIENCE) as memory:
        primary_port, standby_port = installation.primary.port, standby.port
        address = f"127.0.0.1:{primary_port},127.0.0.1:{standby_port}/{DATABASE}"
        assert memory.database.name == f"postgresql://{address}"
        assert f" on 127.0.0.1:{primary_port}" in memory.database.engine()
        me, history = scope_of(memory), History()
        me.sessions.add(SESSION)
        with Crowd(me, history, writers=8, keyed=lambda writer: writer % 4 != 0) as crowd:
            crowd.wait_for(100)
            end(installation.primary)
            standby.promote()
            crowd.wait_for(100)
        assert history.problems(messages_of(me, SESSION)) == []
        assert len(me.messages.list(SESSION, limit=100)) == 100
        assert f" on 127.0.0.1:{standby_port}" in memory.database.engine()
        replica = memory.database.check_replica()
        assert replica is not None
        assert "not a replica (it may have been promoted)" in replica.problem
        assert [finding for finding in memory.verify() if not finding.ok] == []


def test_another_replica_is_read_only_after_it_follows_the_new_primary(
    installation: Installation,
) -> None:
    """It has the log of the old primary, which may be longer than that of the new one."""
    third = installation.add_replica(wal_retrieve_retry_interval="'100ms'")
    settings = replace(SETTINGS, read_database=third.url_of(DATABASE))
    with Memory.open(installation.url, settings=settings, wait_seconds=PATIENCE) as memory:
        me = scope_of(memory)
        me.sessions.add(SESSION)
        me.messages.append(SESSION, "user", "before")

        def problem() -> str:
            finding = memory.database.check_replica()
            assert finding is not None
            return finding.problem

        wait_until(lambda: problem() == "")
        # More log that the standby does not get, and the third server does.
        installation.standby.execute("alter system set primary_conninfo = ''")
        installation.standby.execute("select pg_reload_conf()")
        installation.primary.execute("alter system reset synchronous_standby_names")
        installation.primary.execute("select pg_reload_conf()")
        installation.primary.execute("create table lost as select generate_series(1, 50000) number")
        installation.primary.execute("checkpoint")
        wait_until(lambda: problem() == "")
        kill(installation.primary)
        installation.standby.promote()
        me.messages.append(SESSION, "user", "after")
        assert len(me.messages.list(SESSION)) == 2
        assert "it is on timeline 1 and the primary on 2" in problem()
        me.messages.append(SESSION, "user", "later")
        assert len(me.messages.list(SESSION)) == 3


def test_a_replica_that_follows_the_new_primary_is_read_again(installation: Installation) -> None:
    third = installation.add_replica(wal_retrieve_retry_interval="'100ms'")
    settings = replace(SETTINGS, read_database=third.url_of(DATABASE))
    with Memory.open(installation.url, settings=settings, wait_seconds=PATIENCE) as memory:
        me = scope_of(memory)
        me.sessions.add(SESSION)
        kill(installation.primary)
        installation.standby.promote()
        third.execute(
            f"alter system set primary_conninfo = 'host=127.0.0.1 port={installation.standby.port} user=postgres'"
        )
        third.execute("select pg_reload_conf()")
        me.messages.append(SESSION, "user", "after")

        def is_read() -> bool:
            installation.standby.execute("checkpoint")
            third.execute("checkpoint")  # a restart point
            finding = memory.database.check_replica()
            return finding is not None and finding.ok

        wait_until(is_read)
        before = memory.database.figures()["replica_reads"]
        assert len(me.messages.list(SESSION)) == 1
        assert memory.database.figures()["replica_reads"] == before + 1


def test_a_write_waits_for_the_promotion_of_its_server(installation: Installation) -> None:
    """An address such as a proxy's may lead to a server that is promoted a moment later."""
    url = installation.standby.url_of(DATABASE)
    with (
        Memory.open(url, settings=SETTINGS, wait_seconds=0.5, migrate_up=False) as memory,
        pytest.raises(ReadOnly, match="role in replication"),
    ):
        scope_of(memory).sessions.add(SESSION)
    with Memory.open(url, settings=SETTINGS, wait_seconds=PATIENCE, migrate_up=False) as memory:
        kill(installation.primary)
        promotion = threading.Timer(1.0, installation.standby.promote)
        promotion.start()
        scope_of(memory).sessions.add(SESSION)
        promotion.join()
        assert [session.id for session in scope_of(memory).sessions.list()] == [SESSION]


def test_a_commit_that_no_replica_confirms_is_in_doubt(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_server, "ANSWER_SECONDS", 1.0)
    with Memory.open(installation.url, settings=SETTINGS, wait_seconds=2.0) as memory:
        me = scope_of(memory)
        me.sessions.add(SESSION)
        me.sessions.add("other")
        installation.standby.stop("immediate")
        with pytest.raises(InDoubt, match="did not answer within 1 seconds"):
            me.messages.append(SESSION, "user", "unknown")
        with pytest.raises(InDoubt):
            me.messages.append("other", "user", "with a key", key="k")
        with pytest.raises(Unreachable):  # the first append still holds the session
            me.messages.append(SESSION, "user", "refused")
        installation.standby.start()
        assert me.messages.append("other", "user", "with a key", key="k").seq == 1
        assert [message.text for message in me.messages.window("other")] == ["with a key"]
        assert [message.text for message in me.messages.window(SESSION)] == ["unknown"]


def wait_until(is_done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            if is_done():
                return
        except psycopg.OperationalError:
            pass
        assert time.monotonic() < deadline
        time.sleep(0.1)

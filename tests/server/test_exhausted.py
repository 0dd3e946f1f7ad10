"""More clients than database connections: bounded response times, no leaks, quick recovery."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace

import psycopg

from memorist import Memory
from memorist.server.http.thread_pool import DATABASE_THREADS
from testkit import sizes
from testkit.databases import SETTINGS
from testkit.keys import create_key
from testkit.limited import Limited
from testkit.running import running

CLIENTS = 200
ABORTED = 2000 if sizes.FULL else 300
WAIT_SECONDS = 1.0


async def ask(address: tuple[str, int], key: str, *, wait: bool = True) -> int:
    """Append to a session over a new connection; return the status. Without `wait`, disconnect at
    once.
    """
    reader, writer = await asyncio.open_connection(*address)
    body = b'{"role":"user","content":"hello"}'
    head = f"POST /api/messages/s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n"
    writer.write(
        f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    await writer.drain()
    status = int((await reader.readline()).split()[1]) if wait else 0
    writer.close()
    return status


def test_a_crowd_at_a_small_pool_is_rejected_with_retry_after(
    postgres_url: str, limited: Limited
) -> None:
    """A blocked pool of 4, 200 clients that wait and more that disconnect; then the block ends."""
    limited(MAX_IN_FLIGHT=500)
    settings = replace(SETTINGS, postgres_pool=4)
    with (
        Memory.open(postgres_url, settings=settings, wait_seconds=WAIT_SECONDS) as memory,
        psycopg.connect(postgres_url) as other,
    ):
        memory.scope(tenant="acme", user="ada", agent="scout").sessions.add("s")
        _, key = create_key(memory, "acme", "a test", ["read", "write"])
        threads = threading.active_count()
        with running(memory, jobs=False) as (server, address):
            assert asyncio.run(ask(address, key)) == 201
            other.execute("select 1 from memorist.sessions for update")

            async def crowd() -> list[int]:
                waiting = [asyncio.create_task(ask(address, key)) for _ in range(CLIENTS)]
                await asyncio.gather(*[ask(address, key, wait=False) for _ in range(ABORTED)])
                while (
                    sum(task.done() for task in waiting) < CLIENTS - 4
                ):  # these respond while the pool is blocked
                    await asyncio.sleep(0.02)
                other.rollback()
                return await asyncio.gather(*waiting)

            result = asyncio.run(crowd())
            assert len(result) == CLIENTS
            assert set(result) <= {201, 503}
            assert result.count(503) >= CLIENTS - 4
            assert asyncio.run(ask(address, key)) == 201
            guard = server._app.state.guard
            deadline = time.monotonic() + 10
            while guard.in_flight and time.monotonic() < deadline:
                time.sleep(0.02)
            assert guard.in_flight == 0
            sql = """select state, count(*) from pg_stat_activity
                     where datname = current_database() and pid <> pg_backend_pid() group by state"""
            states: dict[str, int] = dict(other.execute(sql).fetchall())
            assert set(states) <= {"idle"}, states
            assert sum(states.values()) <= 4
            figures = memory.database.figures()
            assert (figures["pool_size"], figures["pool_used"], figures["pool_waiting"]) == (
                4,
                0,
                0,
            )
            assert threading.active_count() <= threads + DATABASE_THREADS + 8, (
                "those that wait for the database, and a few of the libraries'"
            )
            held = memory.database.read(
                "acme", lambda tx: tx.all("select what from leases where tenant = :tenant")
            )
            assert held == []

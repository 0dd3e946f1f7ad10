"""Searches with a read replica against the primary alone, by threads of one process.

Both servers and the client share the cores of this machine, so the rate cannot grow if these are all in
use. The CPU time of the busier server for a search limits the rate when each server has its own
machine.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import cycle
from typing import NamedTuple

import psutil
import psycopg

from bench.harness import RATIO_COLUMNS, Plan, Table, Target, duration, rate, versus
from bench.search import Texts, fill
from memorist import Memory, Settings
from testkit.servers import PostgresServer

THREADS = 16
ROWS = 20_000


class Round(NamedTuple):
    """One round: searches per second, and seconds of processor time per search."""

    per_second: float
    primary: float
    replica: float
    client: float

    @property
    def busier_server(self) -> float:
        """The time of the server that has more to do."""
        return max(self.primary, self.replica)


def run(plan: Plan) -> Iterator[Table]:
    """Yield the rates and the processor times, with and without a replica."""
    url = plan.postgres("replicated")
    settings = Settings(embedder="static")
    plan.progress(f"filling up to {ROWS:,} rows")
    with Memory.open(url, settings=settings) as memory:
        fill(memory, Texts(), 0, ROWS)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("vacuum analyze")  # otherwise it happens during one of the rounds
    replica = PostgresServer("modern", replica_of=url)
    read_database = replica.url_of("replicated")
    memories = {
        "alone": Memory.open(url, settings=settings),
        "with": Memory.open(url, settings=Settings(embedder="static", read_database=read_database)),
    }
    pids = (plan.server_pid(), replica.pid())
    rounds: dict[str, list[Round]] = {name: [] for name in memories}
    try:
        for memory in memories.values():
            search_for(0.5, memory, pids)  # reads the vectors, prepares the statements
        for turn in range(plan.amount(12, 3)):
            for name in sorted(memories, reverse=turn % 2 == 1):
                rounds[name].append(search_for(plan.amount(4, 2), memories[name], pids))
        figures = memories["with"].database.figures()
    finally:
        for memory in memories.values():
            memory.close()
        replica.close()
    yield table(rounds["with"], rounds["alone"], figures)


def search_for(seconds: float, memory: Memory, pids: tuple[int, int]) -> Round:
    """Search in threads for some seconds."""
    questions = Texts(9).questions(200)
    counts = [0] * THREADS
    before = [processor_seconds(pid) for pid in pids]
    client_before = time.process_time()
    started = time.monotonic()

    def search(thread: int) -> None:
        me = memory.scope(tenant="acme", user=f"user {thread % 10}", agent="scout")
        for question in cycle(questions[thread:] + questions[:thread]):
            if time.monotonic() > started + seconds:
                return
            me.search(question)
            counts[thread] += 1

    threads = [threading.Thread(target=search, args=(thread,)) for thread in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed = time.monotonic() - started
    client = time.process_time() - client_before
    searches = sum(counts)
    servers = [processor_seconds(pid) - old for pid, old in zip(pids, before, strict=True)]
    return Round(searches / elapsed, *[cpu / searches for cpu in (*servers, client)])


def processor_seconds(pid: int) -> float:
    """Return the processor time of a server and its processes, also of those that have ended."""
    server = psutil.Process(pid)
    total = sum(server.cpu_times()[:4])
    for process in server.children():
        total += sum(process.cpu_times()[:2])
    return total


def table(ours: list[Round], alone: list[Round], figures: dict[str, float]) -> Table:
    """Return the comparison; `figures` are those of the database with a replica."""
    rows = [
        versus(
            "searches",
            [item.per_second for item in ours],
            [item.per_second for item in alone],
            Target(at_least=1.6),
            show=rate,
        ),
        versus(
            "a search, CPU of the busier server",
            [item.busier_server for item in ours],
            [item.busier_server for item in alone],
            Target(at_least=1.6),
            inverted=True,
        ),
        *[
            versus(
                f"a search, CPU of {name}",
                [getattr(item, field) for item in ours],
                [getattr(item, field) for item in alone],
                inverted=True,
            )
            for name, field in (("the primary", "primary"), ("this process", "client"))
        ],
    ]
    cpu = duration(sum(item.replica for item in ours) / len(ours))
    return Table(
        "Read replica",
        f"{THREADS} threads of one process, {ROWS:,} messages; a primary and a replica against the primary alone. "
        f"With servers of their own, the CPU time of the busier one bounds the rate. The replica used {cpu} for a "
        f"search; {figures['replica_reads']:,.0f} reads ran on it, and {figures['replica_fallbacks']:,.0f} on the "
        "primary because it was behind.",
        RATIO_COLUMNS,
        rows,
    )

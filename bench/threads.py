"""64 concurrent writers: group commit against one connection per thread, equally durable."""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from bench import direct
from bench.append import fill_log
from bench.harness import (
    AGENT,
    SESSION,
    TENANT,
    TEXT,
    USER,
    Plan,
    Table,
    Target,
    duration,
    rate,
    versus,
)
from memorist import AsyncMemory, Memory, Scope, Settings

WRITERS = 64
SESSIONS = [f"session {n}" for n in range(WRITERS)]
COLUMNS = (
    "what",
    "memorist",
    "one connection each",
    "ratio",
    "quartiles",
    "target",
    "",
    "slowest 1 %",
    "served",
    "errors",
)
Append = Callable[[], object]
Opened = tuple[Append, Callable[[], None]]
"""A thread's functions to append and to close."""


@dataclass(frozen=True)
class Outcome:
    """The result of one round."""

    per_second: float
    latencies: list[float]
    errors: int
    served: int


def run(plan: Plan) -> Iterator[Table]:
    """Yield the tables: this disk, with 1 ms and 5 ms added to each fsync, PostgreSQL."""
    yield sqlite(plan, "SQLite, this disk", Target(at_least=3))
    if not plan.quick:
        with slow_fsync(0.001):
            yield sqlite(plan, "SQLite, 1 ms added to each fsync")
    with slow_fsync(0.005):
        yield sqlite(plan, "SQLite, 5 ms added to each fsync", Target(at_least=8))
    yield postgres(plan)


def sqlite(plan: Plan, title: str, target: Target | None = None) -> Table:
    """Measure threads and asyncio tasks against one connection per thread."""
    share = plan.amount(20, 5)
    folder = plan.new_folder()
    me = memory_for_writers(plan, f"sqlite:///{folder}/memorist.db")
    tasks = memory_for_writers(plan, f"sqlite:///{folder}/tasks.db")
    each = memory_for_writers(plan, f"sqlite:///{folder}/each.db")
    # All files stay open: closing the last connection would delete the write-ahead log.
    for scope, name in ((me, "memorist"), (tasks, "tasks"), (each, "each")):
        fill_log(scope, folder / f"{name}.db")
    outcomes = take_turns(
        plan,
        {
            "threads": lambda seconds: threads(seconds, lambda n: ours(me, SESSIONS[n])),
            "share": lambda seconds: threads(seconds, lambda n: ours(me, SESSIONS[n]), share),
            "each's share": lambda seconds: threads(
                seconds, lambda n: own_connection(folder / "each.db", SESSIONS[n]), share
            ),
            "same": lambda seconds: threads(seconds, lambda n: ours(me, SESSION)),
            "tasks": lambda seconds: asyncio.run(asynchronous(seconds, plan.memory_of(tasks))),
            "each": lambda seconds: threads(
                seconds, lambda n: own_connection(folder / "each.db", SESSIONS[n])
            ),
        },
    )
    return table(
        f"{WRITERS} writers, {title}",
        "`synchronous = full` and a busy timeout of 30 s on both sides. The other side has a connection "
        "in each of 64 threads; an append begins, finds the next number, inserts and commits. Each writer "
        "has its own session, except in one row.",
        [
            row("64 threads, for a fixed time", outcomes["threads"], outcomes["each"], target),
            row(
                f"64 threads, until each has written {share}",
                outcomes["share"],
                outcomes["each's share"],
                target,
            ),
            row("64 threads, all in one session", outcomes["same"], outcomes["each"]),
            row("64 asyncio tasks", outcomes["tasks"], outcomes["each"]),
        ],
    )


def postgres(plan: Plan) -> Table:
    """Compare the pool with one connection per thread."""
    urls = [plan.postgres(f"threads_{name}") for name in ("memorist", "each")]
    me = memory_for_writers(plan, urls[0])
    plan.memory_of(memory_for_writers(plan, urls[1])).close()
    outcomes = take_turns(
        plan,
        {
            "threads": lambda seconds: threads(seconds, lambda n: ours(me, SESSIONS[n])),
            "each": lambda seconds: threads(seconds, lambda n: own_postgres(urls[1], SESSIONS[n])),
        },
    )
    return table(
        f"{WRITERS} writers, PostgreSQL",
        f"`synchronous_commit = on`; memorist with its pool of {Settings().postgres_pool} connections, against "
        "a psycopg connection in each of 64 threads; an append locks the session, finds the next number, "
        "inserts and commits. The server runs on the same cores.",
        [row("64 threads", outcomes["threads"], outcomes["each"])],
    )


def memory_for_writers(plan: Plan, url: str) -> Scope:
    """Return a memory with a session per writer."""
    me = plan.open(url)
    for session in SESSIONS:
        me.sessions.add(session)
    return me


def take_turns(
    plan: Plan, contenders: dict[str, Callable[[float], Outcome]]
) -> dict[str, list[Outcome]]:
    """Run rounds of one or two seconds, after a short warm-up."""
    outcomes: dict[str, list[Outcome]] = {name: [] for name in contenders}
    for name, write_for in contenders.items():
        if "share" not in name:
            write_for(0.1)
    names = list(contenders)
    for turn in range(plan.amount(5, 2)):
        start = turn % len(names)
        for name in names[start:] + names[:start]:
            outcomes[name].append(contenders[name](plan.amount(20, 5) / 10))
    return outcomes


def threads(seconds: float, open_writer: Callable[[int], Opened], share: int = 0) -> Outcome:
    """Append in 64 threads for some seconds and count the writes acknowledged in that time.

    share: if set, run until each thread has written this many messages
    """
    done: list[list[float]] = [[] for _ in range(WRITERS)]
    latencies: list[list[float]] = [[] for _ in range(WRITERS)]
    errors = [0] * WRITERS
    ready = threading.Barrier(WRITERS + 1)
    end = 0.0

    def write_until_done(n: int) -> None:
        append, close = open_writer(n)
        ready.wait()  # every thread has its connection; the main thread sets the end
        ready.wait()
        while (started := time.monotonic()) < end or len(done[n]) < share:
            try:
                append()
            except Exception:  # counted; the other side is expected to fail at times
                errors[n] += 1
            else:
                done[n].append(time.monotonic())
                latencies[n].append(done[n][-1] - started)
        close()

    writers = [threading.Thread(target=write_until_done, args=(n,)) for n in range(WRITERS)]
    for thread in writers:
        thread.start()
    ready.wait()
    start = time.monotonic()
    end = start if share else start + seconds
    ready.wait()
    for thread in writers:
        thread.join()
    if share:
        seconds, end = time.monotonic() - start, float("inf")
    in_time = sum(moment < end for moments in done for moment in moments)
    served = sum(any(moment < end for moment in moments) for moments in done)
    return Outcome(
        in_time / seconds,
        [latency for series in latencies for latency in series],
        sum(errors),
        served,
    )


async def asynchronous(seconds: float, memory: Memory) -> Outcome:
    """Append in 64 tasks on one event loop."""
    me = AsyncMemory(memory).scope(tenant=TENANT, user=USER, agent=AGENT)
    latencies: list[float] = []
    served: set[str] = set()
    in_time = errors = 0
    end = time.monotonic() + seconds

    async def write_until_done(session: str) -> None:
        nonlocal in_time, errors
        while (started := time.monotonic()) < end:
            try:
                await me.messages.append(session, "user", TEXT)
            except Exception:  # counted
                errors += 1
            else:
                latencies.append(time.monotonic() - started)
                if time.monotonic() < end:
                    in_time += 1
                    served.add(session)

    await asyncio.gather(*(write_until_done(session) for session in SESSIONS))
    return Outcome(in_time / seconds, latencies, errors, len(served))


def ours(me: Scope, session: str) -> Opened:
    """Append with the memory that all threads share."""
    return lambda: me.messages.append(session, "user", TEXT), lambda: None


def own_connection(path: Path, session: str) -> Opened:
    """Open one connection per thread."""
    connection = direct.connect(path)
    return direct.correct(connection, session), connection.close


def own_postgres(url: str, session: str) -> Opened:
    """Open one connection per thread."""
    connection = direct.connect_postgres(url)
    return direct.correct_postgres(connection, session), connection.close


def row(
    what: str, ours: list[Outcome], theirs: list[Outcome], target: Target | None = None
) -> list[str]:
    """Return a row: rates and their ratio, the 99th percentile and the errors of both sides."""
    rates = [[outcome.per_second for outcome in side] for side in (ours, theirs)]
    slow = [
        statistics.quantiles([latency for outcome in side for latency in outcome.latencies], n=100)[
            -1
        ]
        for side in (ours, theirs)
    ]
    errors = [sum(outcome.errors for outcome in side) for side in (ours, theirs)]
    return [
        *versus(what, rates[0], rates[1], target, show=rate),
        f"{duration(slow[0])} / {duration(slow[1])}",
        " / ".join(
            f"{statistics.mean(outcome.served for outcome in side):.0f}" for side in (ours, theirs)
        ),
        f"{errors[0]} / {errors[1]}",
    ]


def table(title: str, about: str, rows: list[list[str]]) -> Table:
    """Return a table of rates."""
    about += (
        " Served: how many of the 64 writers stored at least one message in time. The last three columns "
        "show memorist / the other side."
    )
    return Table(title, about, COLUMNS, rows)


@contextmanager
def slow_fsync(seconds: float) -> Iterator[None]:
    """Delay every sync of SQLite files, for both sides."""

    class SlowFile(apsw.VFSFile):
        def __init__(self, inherit: str, name: Any, flags: list[int]) -> None:
            super().__init__(inherit, name, flags)

        def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
            time.sleep(seconds)
            super().xSync(flags)

    class SlowFiles(apsw.VFS):
        def __init__(self) -> None:
            self.base = apsw.vfs_names()[0]
            super().__init__("slow fsync", self.base, makedefault=True)

        def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
            return SlowFile(self.base, name, flags)

        def xSleep(self, microseconds: int) -> int:  # noqa: N802 - SQLite's name
            time.sleep(microseconds / 1e6)  # the inherited method would hold the GIL
            return microseconds

    files = SlowFiles()
    try:
        yield
    finally:
        with suppress(apsw.Error):
            files.unregister()

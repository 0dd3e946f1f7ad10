"""Latency of appends during a purge of many old messages, in this process or in another one."""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from bench.harness import SESSION, TEXT, Plan, Table, duration
from memorist import Memory, NewMessage, Scope, Settings
from memorist.base import clock

WRITERS = 4
MEAN_PAUSE_SECONDS = 0.002
MAX_BASELINE_SECONDS = 60.0
Outcome = tuple[list[float], int]
"""The latency of each append in seconds, and the number of failures."""
OLD_SESSION = "an old session"
COLUMNS = (
    "",
    "median",
    "ratio",
    "slowest 5 %",
    "ratio",
    "slowest 1 %",
    "ratio",
    "slowest",
    "appends",
    "errors",
)
PURGE_SCRIPT = "import sys; from memorist import Memory; Memory.open(sys.argv[1]).purge(days=30)"


def run(plan: Plan) -> Iterator[Table]:
    """Yield a table per engine."""
    folder = plan.new_folder()
    yield measure_engine(
        plan, "SQLite", [f"sqlite:///{folder}/here.db", f"sqlite:///{folder}/elsewhere.db"]
    )
    yield measure_engine(
        plan, "PostgreSQL", [plan.postgres("purge_here"), plan.postgres("purge_elsewhere")]
    )


def measure_engine(plan: Plan, engine: str, urls: list[str]) -> Table:
    """Measure writers during a purge, then without one for the same time, but at most a minute."""
    rows = plan.amount(200_000, 20_000)
    lines: list[list[str]] = []
    durations = []
    for place, url in zip(("this process", "another process"), urls, strict=True):
        add_old_messages(url, rows, plan)
        me = plan.open(url)
        memory = plan.memory_of(me)
        purge = (
            partial(memory.purge, days=30)
            if place == "this process"
            else partial(purge_in_other_process, url)
        )
        started = time.monotonic()
        during = write_while(me, purge)
        seconds = time.monotonic() - started
        alone = write_while(me, partial(time.sleep, min(seconds, MAX_BASELINE_SECONDS)))
        lines += [line("no purge", alone, alone), line(f"a purge in {place}", during, alone)]
        durations.append(f"{seconds:.1f} s in {place}")
    return Table(
        f"Writers during a purge, {engine}",
        f"{WRITERS} threads append with pauses of {MEAN_PAUSE_SECONDS * 1000:g} ms on average while "
        f"{rows:,} messages are removed, and then without a purge for the same time, at most "
        f"{MAX_BASELINE_SECONDS:g} s. The purges took "
        f"{' and '.join(durations)}.",
        COLUMNS,
        lines,
    )


def line(what: str, outcome: Outcome, base: Outcome) -> list[str]:
    """Return a row: quantiles of the latencies, and their ratios to those without a purge."""
    latencies, errors = outcome
    cells = [what]
    for percent in (50, 95, 99):
        mine, alone = quantile(latencies, percent), quantile(base[0], percent)
        cells += [duration(mine), "" if outcome is base else f"{mine / alone:.2f}"]
    return [*cells, duration(max(latencies)), f"{len(latencies):,}", str(errors)]


def quantile(values: list[float], percent: int) -> float:
    """Return a percentile."""
    return statistics.quantiles(values, n=100)[percent - 1]


def add_old_messages(url: str, rows: int, plan: Plan) -> None:
    """Add messages that are a hundred days old."""
    plan.progress(f"writing {rows:,} old messages")
    past = clock.now() - 100 * clock.DAY
    with Memory.open(url, settings=Settings(), clock=lambda: past) as memory:
        me = memory.scope(tenant="acme", user="old", agent="scout")
        for n in range(20):
            me.sessions.add(f"{OLD_SESSION} {n}")
        for start in range(0, rows, 1000):
            me.messages.extend(
                f"{OLD_SESSION} {start // 1000 % 20}",
                [NewMessage("user", TEXT)] * min(1000, rows - start),
            )


def purge_in_other_process(url: str) -> None:
    """Purge from another process, as an operator does."""
    subprocess.run([sys.executable, "-c", PURGE_SCRIPT, url], check=True, cwd=Path(__file__).parent)


def write_while(me: Scope, work: Callable[[], object]) -> Outcome:
    """Append in several threads while `work` runs; return latencies and failures."""
    done = threading.Event()
    latencies: list[float] = []
    errors = 0

    def append_until_done() -> None:
        nonlocal errors
        while not done.is_set():
            started = time.perf_counter()
            try:
                me.messages.append(SESSION, "user", TEXT)
            except Exception:  # counted
                errors += 1
            else:
                latencies.append(time.perf_counter() - started)
            time.sleep(random.uniform(0, 2 * MEAN_PAUSE_SECONDS))

    writers = [threading.Thread(target=append_until_done) for _ in range(WRITERS)]
    for writer in writers:
        writer.start()
    try:
        work()
    finally:
        done.set()
        for writer in writers:
            writer.join()
    return latencies, errors

"""Shared parts of the benchmarks: races, medians with quartiles, and tables of ratios.

The compared calls take turns in many short rounds on the same disk, so that a busy moment of the
machine affects all of them. Each round gives one ratio; the tables show the median and the quartiles
of these ratios. The benchmarks assert nothing.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from memorist import Memory, Scope, Settings
from memorist.base.clock import Clock
from testkit.servers import PostgresServer

TENANT = "acme"
USER = "ada"
AGENT = "scout"
SESSION = "b7e2c0de-0000-4000-8000-000000000001"
TEXT = (
    "The train to Bern leaves at seven past nine; I would like a seat by the window, and a table if there is one. "
    * 2
)
Series = list[float]


def scope_of(memory: Memory) -> Scope:
    """Return the scope that the benchmarks use."""
    return memory.scope(tenant=TENANT, user=USER, agent=AGENT)


@dataclass
class Plan:
    """The size of a run, its folder and its databases."""

    quick: bool
    folder: Path
    progress: Callable[[str], None]
    largest: int | None = None
    """The largest database of the growth benchmark."""
    _server: PostgresServer | None = None
    _addresses: list[str] = field(default_factory=list)
    _opened: list[Memory] = field(default_factory=list)

    def amount(self, full: int, quick: int) -> int:
        """Return the count for a full run or for a quick one."""
        return quick if self.quick else full

    def new_folder(self) -> Path:
        """Return a new folder."""
        return Path(tempfile.mkdtemp(dir=self.folder))

    def open(self, url: str, clock: Clock | None = None, settings: Settings | None = None) -> Scope:
        """Open a memory, add a session and return the scope. `close` closes the memory."""
        memory = Memory.open(url, settings=settings or Settings(), clock=clock)
        self._opened.append(memory)
        me = scope_of(memory)
        me.sessions.add(SESSION)
        return me

    def memory_of(self, me: Scope) -> Memory:
        """Return the memory of a scope."""
        return next(memory for memory in self._opened if memory.database is me.messages._database)

    def postgres(self, name: str) -> str:
        """Create a PostgreSQL database and return its address. The first call starts the server."""
        if self._server is None:
            self.progress("starting PostgreSQL")
            self._server = PostgresServer("modern")
        self._addresses.append(self._server.create(name))
        return self._addresses[-1]

    def analyze(self) -> None:
        """Update the statistics of all PostgreSQL databases, as autovacuum does within a minute.

        Otherwise prepared statements keep the plans that they had for empty tables.
        """
        for address in self._addresses:
            with psycopg.connect(address, autocommit=True) as connection:
                connection.execute("analyze")

    def server_pid(self) -> int:
        """Return the process id of the PostgreSQL server."""
        assert self._server is not None
        return self._server.pid()

    def close(self) -> None:
        """Close all memories and the server."""
        for memory in self._opened:
            memory.close()
        self._opened.clear()
        if self._server:
            self._server.close()
            self._addresses.clear()
            self._server = None


def race(
    rounds: int,
    calls: int,
    contenders: Mapping[str, Callable[[], object]],
    timer: Callable[[], float] = time.perf_counter,
) -> dict[str, Series]:
    """Return the seconds per call of each contender, for each round. They take turns to run first.

    timer: `time.process_time` measures CPU time, which other programs hardly change
    """
    names = list(contenders)
    timings: dict[str, Series] = {name: [] for name in names}
    for turn in range(rounds):
        start = turn % len(names)
        for name in names[start:] + names[:start]:
            call = contenders[name]
            started = timer()
            for _ in range(calls):
                call()
            timings[name].append((timer() - started) / calls)
    return timings


@dataclass(frozen=True)
class Target:
    """The target of a ratio."""

    at_most: float | None = None
    at_least: float | None = None

    def __str__(self) -> str:
        return (
            f"at most {self.at_most:g}"
            if self.at_most is not None
            else f"at least {self.at_least:g}"
        )

    def verdict(self, ratio: float) -> str:
        """Return `met` or `not met`."""
        met = ratio <= self.at_most if self.at_most is not None else ratio >= (self.at_least or 0)
        return "met" if met else "not met"


class Ahead(Target):
    """A target: memorist is faster than the alternative."""

    def __init__(self) -> None:
        super().__init__(at_least=1)

    def verdict(self, ratio: float) -> str:
        """Return `ahead` or `behind`."""
        return "ahead" if ratio >= 1 else "behind"


@dataclass(frozen=True)
class Table:
    """A result: a title, an explanation, and rows of text."""

    title: str
    about: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """Return the table in Markdown."""
        lines = [self.columns, ["---"] * len(self.columns), *self.rows]
        return (
            f"**{self.title}.** {self.about}\n\n"
            + "\n".join("| " + " | ".join(line) + " |" for line in lines)
            + "\n"
        )


RATIO_COLUMNS = ("what", "memorist", "compared with", "ratio", "quartiles", "target", "")


def versus(
    what: str,
    ours: Series,
    theirs: Series,
    target: Target | None = None,
    *,
    show: Callable[[float], str] | None = None,
    inverted: bool = False,
) -> list[str]:
    """Return a row of RATIO_COLUMNS: our time over theirs, or with `inverted` theirs over ours."""
    show = show or duration
    ratios = [b / a if inverted else a / b for a, b in zip(ours, theirs, strict=True)]
    median = statistics.median(ratios)
    low, _, high = (
        statistics.quantiles(ratios, n=4) if len(ratios) > 1 else (median, median, median)
    )
    return [
        what,
        show(statistics.median(ours)),
        show(statistics.median(theirs)),
        f"{median:.2f}",
        f"{low:.2f}–{high:.2f}",
        str(target or ""),
        target.verdict(median) if target else "",
    ]


def duration(seconds: float) -> str:
    """Format seconds."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.2f} ms" if seconds < 0.1 else f"{seconds * 1e3:,.0f} ms"


def rate(per_second: float) -> str:
    """Format a rate."""
    return f"{per_second:,.0f}/s"


def fsync_seconds(folder: Path, times: int = 200) -> Series:
    """Return the seconds that each of several page writes takes to sync."""
    timings = []
    with (folder / "fsync").open("wb", buffering=0) as file:
        file.write(bytes(1 << 20))
        os.fsync(file.fileno())
        for turn in range(times):
            file.seek(turn % 256 * 4096)
            file.write(os.urandom(4096))
            started = time.perf_counter()
            os.fdatasync(file.fileno())
            timings.append(time.perf_counter() - started)
    return timings


@contextmanager
def planned(quick: bool, folder: Path | None, progress: Callable[[str], None]) -> Iterator[Plan]:
    """Yield a plan with a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="memorist-bench-", dir=folder) as path:
        plan = Plan(quick, Path(path), progress)
        try:
            yield plan
        finally:
            plan.close()

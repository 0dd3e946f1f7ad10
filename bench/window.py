"""Reads of windows in short and long sessions, compared with a bare select."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import psycopg

from bench import direct
from bench.harness import (
    RATIO_COLUMNS,
    SESSION,
    TENANT,
    TEXT,
    Plan,
    Table,
    Target,
    duration,
    race,
    versus,
)
from memorist import NewMessage, Scope
from memorist.base import clock

SMALL = 100
MAX_SEQ = 2**53


class ManualClock:
    """A clock that a benchmark sets, so that the last 20 messages are newer than the others."""

    def __init__(self) -> None:
        self.time = clock.now()

    def __call__(self) -> int:
        """Return the time."""
        return self.time


def run(plan: Plan) -> Iterator[Table]:
    """Yield the speed and the size on SQLite, then on PostgreSQL."""
    yield from sqlite(plan)
    yield from postgres(plan)


def sqlite(plan: Plan) -> Iterator[Table]:
    """Measure a short and a long session in two files, so that their B-trees differ in depth."""
    large = plan.amount(1_000_000, 200_000)
    folder = plan.new_folder()
    manual_clock = ManualClock()
    short = plan.open(f"sqlite:///{folder}/short.db", manual_clock)
    long = plan.open(f"sqlite:///{folder}/long.db", manual_clock)
    with (
        closing(direct.connect(folder / "short.db")) as bare,
        closing(direct.connect(folder / "long.db")) as sizes,
    ):

        def size() -> int:
            return int(str(sizes.pragma("page_count"))) * int(str(sizes.pragma("page_size")))

        growth = grow(plan, long, large - 20, size)
        fill(short, SMALL - 20)
        manual_clock.time += 30 * clock.MINUTE
        for me in (short, long):
            fill(me, 20)
        timings = race(
            plan.amount(2000, 100),
            20,
            {
                **windows(short, long),
                "bare": lambda: bare.execute(
                    direct.WINDOW, (TENANT, SESSION, MAX_SEQ, 1, 20)
                ).fetchall(),
            },
        )
    yield comparison_table("SQLite", "apsw", timings, large, Target(at_most=2.5))
    yield growth


def postgres(plan: Plan) -> Iterator[Table]:
    """Measure the same in two databases of one server."""
    large = plan.amount(200_000, 20_000)
    urls = [plan.postgres(name) for name in ("window_short", "window_long")]
    manual_clock = ManualClock()
    short, long = (plan.open(url, manual_clock) for url in urls)
    with (
        psycopg.connect(urls[0], autocommit=True, options="-c search_path=memorist") as bare,
        psycopg.connect(urls[1], autocommit=True) as sizes,
    ):

        def size() -> int:
            sql = "select pg_total_relation_size('memorist.messages')"
            row = sizes.execute(sql).fetchone()
            return int(row[0]) if row else 0

        growth = grow(plan, long, large - 20, size)
        fill(short, SMALL - 20)
        manual_clock.time += 30 * clock.MINUTE
        for me in (short, long):
            fill(me, 20)
        sizes.execute("vacuum analyze")
        sql = direct.WINDOW.replace("?", "%s")
        contenders = {
            **windows(short, long),
            "bare": lambda: bare.execute(sql, (TENANT, SESSION, MAX_SEQ, 1, 20)).fetchall(),
        }
        race(5, 10, contenders)
        timings = race(plan.amount(400, 40), 10, contenders)
    yield comparison_table("PostgreSQL", "psycopg", timings, large, None)
    yield growth


def windows(short: Scope, long: Scope) -> dict[str, Callable[[], object]]:
    """Return calls that read each kind of window, by name."""
    tokens = 20 * long.messages.get(SESSION, 1).tokens
    return {
        "short": lambda: short.messages.window(SESSION, last=20),
        "long": lambda: long.messages.window(SESSION, last=20),
        "short turns": lambda: short.messages.window(SESSION, last=20, turns_only=True),
        "long turns": lambda: long.messages.window(SESSION, last=20, turns_only=True),
        "short tokens": lambda: short.messages.window(SESSION, tokens=tokens),
        "long tokens": lambda: long.messages.window(SESSION, tokens=tokens),
        "short minutes": lambda: short.messages.window(SESSION, minutes=15),
        "long minutes": lambda: long.messages.window(SESSION, minutes=15),
    }


def comparison_table(
    engine: str, driver: str, timings: dict[str, list[float]], large: int, records: Target | None
) -> Table:
    """Return the table of an engine."""
    same = Target(at_most=1.3)
    rows = [
        versus(
            f"last 20 as records, against the bare select on {driver}",
            timings["short"],
            timings["bare"],
            records,
        )
    ]
    kinds = {
        "": "last 20",
        " turns": "last 20 turns",
        " tokens": "20 messages by tokens",
        " minutes": "20 messages by minutes",
    }
    for name, what in kinds.items():
        rows.append(
            versus(
                f"{what}: {large:,} messages against {SMALL}",
                timings[f"long{name}"],
                timings[f"short{name}"],
                same,
            )
        )
    return Table(
        f"A window of 20, {engine}",
        "The bare select is one statement outside any transaction; a window also checks that the session "
        "belongs to the caller.",
        RATIO_COLUMNS,
        rows,
    )


def grow(plan: Plan, me: Scope, total: int, size: Callable[[], int]) -> Table:
    """Fill a session and record the bytes per message."""
    plan.progress(f"writing {total:,} messages")
    empty = size()
    rows = []
    count = 0
    for stop in [stop for stop in (1_000, 10_000, 100_000) if stop < total - 1000] + [total]:
        seconds = race(1, 1, {"fill": lambda stop=stop, count=count: fill(me, stop - count)})[  # type: ignore[misc]
            "fill"
        ][0]
        each = seconds / (stop - count)
        count = stop
        rows.append([f"{count:,}", f"{(size() - empty) / count:.0f}", duration(each)])
    engine = (
        "PostgreSQL" if plan.memory_of(me).settings.database.startswith("postgresql") else "SQLite"
    )
    return Table(
        f"Bytes per message, {engine}",
        f"A growing session. Each message has {len(TEXT)} characters; 1,000 are written at a time.",
        ("messages", "bytes each", "time each"),
        rows,
    )


def fill(me: Scope, count: int) -> None:
    """Append messages in batches."""
    while count > 0:
        size = min(count, 1000)
        me.messages.extend(SESSION, [NewMessage("user", TEXT)] * size)
        count -= size

"""Compare an adapter with the library call that it makes and with the framework's own store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.harness import Ahead, Plan, Series, Target, race, versus

Call = Callable[[], Any]
MAX_OVERHEAD = Target(at_most=1.3)
AHEAD = Ahead()
HISTORIES = (20, 1000)


@dataclass(frozen=True)
class Other:
    """A framework's own store: its name, its operation, and whether its writes are durable."""

    name: str
    call: Call
    durable: str = ""


@dataclass(frozen=True)
class Case:
    """One operation to compare.

    library: the library call that the adapter makes, including reading its result; None if the
             call happens in another process
    objects: converts between stored data and the framework's own objects, which any store must do
    calls:   the number of calls per round
    awaited: True if the calls return coroutines
    hops:    how many calls the adapter runs in a worker thread for one operation
    """

    what: str
    adapter: Call
    library: Call | None
    others: tuple[Other, ...] = ()
    objects: Call | None = None
    calls: int = 5
    awaited: bool = False
    hops: int = 1


@dataclass
class Rows:
    """The rows of both tables: overhead over the library, comparison with other stores."""

    overhead_rows: list[list[str]] = field(default_factory=list)
    comparison_rows: list[list[str]] = field(default_factory=list)

    def add(self, plan: Plan, case: Case) -> None:
        """Run a race and add its rows."""
        counts_before = len(self.overhead_rows), len(self.comparison_rows)
        contenders: dict[str, Call] = {"adapter": case.adapter}
        library = case.library
        objects = case.objects
        if library is not None:
            contenders["library"] = library
        if library is not None and objects is not None:
            contenders["objects"] = lambda: (library(), objects())
        contenders |= {other.name: other.call for other in case.others}
        plan.analyze()
        timings = _race(plan, case, contenders)
        ours = timings["adapter"]
        if library is not None:
            self.overhead_rows.append(versus(case.what, ours, timings["library"], MAX_OVERHEAD))
        if objects is not None:
            self.overhead_rows.append(
                versus("— and the framework's objects", ours, timings["objects"], MAX_OVERHEAD)
            )
        for other in case.others:
            row = versus(
                f"{case.what}: {other.name}", ours, timings[other.name], AHEAD, inverted=True
            )
            self.comparison_rows.append([*row, other.durable])
        done = self.overhead_rows[counts_before[0] :] + self.comparison_rows[counts_before[1] :]
        plan.progress(f"  {case.what}: {', '.join([row[3] for row in done])}")


def _race(plan: Plan, case: Case, contenders: Mapping[str, Call]) -> dict[str, Series]:
    """Return the seconds per call. Coroutines share an event loop; library calls run in a thread."""
    if not case.awaited:
        race(2, case.calls, contenders)
        return race(plan.amount(40, 15), case.calls, contenders)

    async def repeated(call: Callable[[], Awaitable[object]]) -> None:
        for _ in range(case.calls):
            await call()

    def awaited(name: str, call: Call) -> Call:
        target = (
            (lambda: _call_in_thread(case.hops, call)) if name in ("library", "objects") else call
        )
        return lambda: RUNNER.run(repeated(target))

    ready = {name: awaited(name, call) for name, call in contenders.items()}
    race(2, 1, ready)
    timings = race(plan.amount(40, 15), 1, ready)
    return {name: [seconds / case.calls for seconds in series] for name, series in timings.items()}


async def _call_in_thread(times: int, call: Call) -> None:
    for _ in range(times - 1):
        await asyncio.to_thread(int)
    await asyncio.to_thread(call)


RUNNER = asyncio.Runner()

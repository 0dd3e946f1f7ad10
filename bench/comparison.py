"""A race of an adapter, the library call that it makes, and the framework's own store."""

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
    """A framework's own store: its name, its operation, and whether that is durable."""

    name: str
    call: Call
    waits: str = ""


@dataclass(frozen=True)
class Case:
    """One operation to compare.

    `library` is the call that the adapter makes, with what it gives read; None where that is in another process. `objects`
    makes the framework's own objects of what is stored, or the other way: who wants them pays for them with any store.
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
    """The rows of the two tables."""

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
                f"{case.what}: {other.name}", ours, timings[other.name], AHEAD, turned=True
            )
            self.comparison_rows.append([*row, other.waits])
        done = self.overhead_rows[counts_before[0] :] + self.comparison_rows[counts_before[1] :]
        plan.progress(f"  {case.what}: {', '.join([row[3] for row in done])}")


def _race(plan: Plan, case: Case, contenders: Mapping[str, Call]) -> dict[str, Series]:
    """Return the seconds per call. Coroutines share one event loop; the library runs in a thread."""
    if not case.awaited:
        race(2, case.calls, contenders)
        return race(plan.amount(40, 15), case.calls, contenders)

    async def repeated(call: Callable[[], Awaitable[object]]) -> None:
        for _ in range(case.calls):
            await call()

    def awaited(name: str, call: Call) -> Call:
        target = (lambda: _hopping(case.hops, call)) if name in ("library", "objects") else call
        return lambda: RUNNER.run(repeated(target))

    ready = {name: awaited(name, call) for name, call in contenders.items()}
    race(2, 1, ready)
    timings = race(plan.amount(40, 15), 1, ready)
    return {name: [seconds / case.calls for seconds in series] for name, series in timings.items()}


async def _hopping(times: int, call: Call) -> None:
    for _ in range(times - 1):
        await asyncio.to_thread(int)
    await asyncio.to_thread(call)


RUNNER = asyncio.Runner()

"""Counting what happens, in well under a microsecond; and the sum over several processes, through a folder that they share.

Each process writes what it has counted into a file of its own, every second; who is asked adds the others' files to its own
counts. A process that is gone leaves its counts behind, so that sums never fall, but not what it was doing.
"""

from __future__ import annotations

import json
import os
import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

Labels = tuple[str, ...]
Counts = dict[str, dict[Labels, float]]
Times = dict[str, dict[Labels, list[float]]]
"""Of each metric and its labels: the sum, then how many values fell under each bound, and above the last."""
WRITE_SECONDS = 1.0
_GONE = ".gone"


class Tally:
    """Counts, gauges and times, by name and labels."""

    def __init__(
        self, bounds: Mapping[str, Sequence[float]], elsewhere: Callable[[], Counts], folder: Path | None = None
    ) -> None:
        self.bounds = bounds
        self._elsewhere = elsewhere
        self.folder = folder
        self._lock = threading.Lock()
        self._counts: Counts = defaultdict(dict)
        self._gauges: Counts = defaultdict(dict)
        self._times: Times = defaultdict(dict)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def count(self, name: str, labels: Labels = (), amount: float = 1.0) -> None:
        """So many more."""
        with self._lock:
            held = self._counts[name]
            held[labels] = held.get(labels, 0.0) + amount

    def timed(self, name: str, labels: Labels, seconds: float, counted: str, more: Labels) -> None:
        """Something took so long, and is counted under another name too: together, because it happens so often."""
        with self._lock:
            held = self._counts[counted]
            held[more] = held.get(more, 0.0) + 1.0
            row = self._times[name].get(labels)
            if row is None:
                row = self._times[name][labels] = [0.0] * (len(self.bounds[name]) + 2)
            row[0] += seconds
            row[bisect_left(self.bounds[name], seconds) + 1] += 1.0

    def set(self, name: str, labels: Labels, value: float) -> None:
        """It is so much now."""
        with self._lock:
            self._gauges[name][labels] = value

    def total(self) -> tuple[Counts, Counts, Times]:
        """The counts, gauges and times of this process, and of those that share its folder."""
        counts, gauges, times = self._copy()
        for path in [] if self.folder is None else sorted(self.folder.glob("*.json*")):
            if path.name == f"{os.getpid()}.json":
                continue
            with suppress(OSError, ValueError):  # one that is just being replaced
                _add(counts, gauges, times, json.loads(path.read_text()), alive=path.suffix != _GONE)
        return counts, gauges, times

    def start(self) -> None:
        """Write into the folder every second, from a thread."""
        self._stopping.clear()
        self._thread = threading.Thread(target=self._write_on, name="retain-metrics", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write for the last time."""
        self._stopping.set()
        if self._thread:
            self._thread.join(WRITE_SECONDS)

    def _write_on(self) -> None:
        ended = False
        while not ended:
            ended = self._stopping.wait(WRITE_SECONDS)
            with suppress(OSError):
                self.write()

    def write(self) -> None:
        """Put what is counted where the others find it."""
        assert self.folder is not None
        parts: tuple[dict[str, dict[Labels, Any]], ...] = self._copy()
        named = zip(("counts", "gauges", "times"), parts, strict=True)
        listed = {part: {name: list(held.items()) for name, held in found.items()} for part, found in named}
        path = self.folder / f"{os.getpid()}.json"
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(listed))
        partial.replace(path)

    def _copy(self) -> tuple[Counts, Counts, Times]:
        with self._lock:
            counts = {name: dict(held) for name, held in self._counts.items()}
            gauges = {name: dict(held) for name, held in self._gauges.items()}
            times = {name: {labels: list(row) for labels, row in held.items()} for name, held in self._times.items()}
        return counts | self._elsewhere(), gauges, times


def gone(folder: Path, pid: int) -> None:
    """A process has ended: what it counted stays."""
    with suppress(OSError):
        (folder / f"{pid}.json").rename(folder / f"{pid}.json{_GONE}")


def _add(counts: Counts, gauges: Counts, times: Times, other: Mapping[str, Any], *, alive: bool) -> None:
    for name, rows in other["counts"].items():
        held = counts.setdefault(name, {})
        for labels, value in rows:
            held[tuple(labels)] = held.get(tuple(labels), 0.0) + value
    for name, rows in other["gauges"].items() if alive else ():
        held = gauges.setdefault(name, {})
        for labels, value in rows:
            held[tuple(labels)] = held.get(tuple(labels), 0.0) + value
    for name, rows in other["times"].items():
        timed = times.setdefault(name, {})
        for labels, row in rows:
            before = timed.get(tuple(labels), [0.0] * len(row))
            timed[tuple(labels)] = [one + more for one, more in zip(before, row, strict=True)]

"""Counting what happens, in well under a microsecond; and the sum over several processes, through a folder that they share.

Each process writes what it has counted into a file of its own, every second; who is asked adds the others' files to its own
counts. A process that is gone leaves its counts behind, in one file for all of those, so that sums never fall; but not what
it was doing.
"""

from __future__ import annotations

import json
import os
import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

Labels = tuple[str, ...]
Counts = dict[str, dict[Labels, float]]
Times = dict[str, dict[Labels, list[float]]]
"""Of each metric and its labels: the sum, then how many values fell under each bound, and above the last."""
WRITE_SECONDS = 1.0
_GONE = "gone.json"
_TRIES = 5


class Tally:
    """Counts, gauges and times, by name and labels."""

    def __init__(
        self,
        bounds: Mapping[str, Sequence[float]],
        elsewhere: Callable[[], Counts],
        folder: Path | None = None,
        measured: Callable[[], Mapping[str, float]] = dict,
        largest: Collection[str] = (),
    ) -> None:
        self.bounds = bounds
        self._elsewhere = elsewhere
        self._measured = measured
        self._largest = largest
        """Gauges of which the largest is told, where others are summed: each process sees the same."""
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
        for found in [] if self.folder is None else _others(self.folder):
            _add(counts, times, found)
            self._add_gauges(gauges, found["gauges"])
        return counts, gauges, times

    def _add_gauges(self, gauges: Counts, other: Mapping[str, Any]) -> None:
        for name, rows in other.items():
            held = gauges.setdefault(name, {})
            for labels, value in rows:
                before = held.get(tuple(labels), 0.0)
                held[tuple(labels)] = (
                    max(before, value) if name in self._largest else before + value
                )

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
        _write(self.folder / f"{os.getpid()}.json", *self._copy())

    def _copy(self) -> tuple[Counts, Counts, Times]:
        with self._lock:
            counts = {name: dict(held) for name, held in self._counts.items()}
            gauges = {name: dict(held) for name, held in self._gauges.items()}
            times = {
                name: {labels: list(row) for labels, row in held.items()}
                for name, held in self._times.items()
            }
        gauges |= {name: {(): value} for name, value in self._measured().items()}
        return counts | self._elsewhere(), gauges, times


def gone(folder: Path, pid: int) -> None:
    """A process has ended: what it counted stays, with that of others before; at no moment is it missing, or there twice."""
    counts: Counts = {}
    times: Times = {}
    left = folder / f"{pid}.json"
    for path in (folder / _GONE, left):
        _add(counts, times, _read(path))
    with suppress(OSError):
        _write(folder / _GONE, counts, {}, times, pid)
        left.unlink(missing_ok=True)
        _write(folder / _GONE, counts, {}, times)


def _others(folder: Path) -> list[Mapping[str, Any]]:
    """What the other processes wrote, those that ended too; read again if one ended meanwhile."""
    found: list[Mapping[str, Any]] = []
    for _ in range(_TRIES):
        ended = _read(folder / _GONE)
        mine = (_GONE, f"{os.getpid()}.json", f"{ended['pid']}.json")
        found = [ended, *(_read(path) for path in folder.glob("*.json") if path.name not in mine)]
        if _read(folder / _GONE) == ended:
            break
    return found


def _read(path: Path) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = json.loads(path.read_text())
        return found
    except (OSError, ValueError):
        return {"counts": {}, "gauges": {}, "times": {}, "pid": 0}


def _write(path: Path, counts: Counts, gauges: Counts, times: Times, pid: int = 0) -> None:
    parts: dict[str, Mapping[str, Mapping[Labels, Any]]] = {
        "counts": counts,
        "gauges": gauges,
        "times": times,
    }
    listed = {
        part: {name: list(held.items()) for name, held in found.items()}
        for part, found in parts.items()
    }
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps({**listed, "pid": pid}))
    partial.replace(path)


def _add(counts: Counts, times: Times, other: Mapping[str, Any]) -> None:
    for name, rows in other["counts"].items():
        held = counts.setdefault(name, {})
        for labels, value in rows:
            held[tuple(labels)] = held.get(tuple(labels), 0.0) + value
    for name, rows in other["times"].items():
        timed = times.setdefault(name, {})
        for labels, row in rows:
            before = timed.get(tuple(labels), [0.0] * len(row))
            timed[tuple(labels)] = [one + more for one, more in zip(before, row, strict=True)]

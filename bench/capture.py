"""Capture of a large output: speed compared with a plain file write, and peak memory."""

from __future__ import annotations

import io
import itertools
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.harness import RATIO_COLUMNS, Plan, Table, Target, race, rate, versus
from memorist import Scope
from memorist.kinds.refs import NewReference

PIECE_BYTES = 1 << 20
MAX_PEAK_MIB = 16
"""The target for memory: two buffers of 8 MiB."""
MEASURE_PEAK = """
import io, re, sys
from memorist import Memory, Settings

def peak_bytes():
    with open("/proc/self/status") as status:  # resource.getrusage would include the parent process
        return int(re.search(r"VmHWM:\\s*(\\d+) kB", status.read())[1]) * 1024

with Memory.open("sqlite:///" + sys.argv[1], settings=Settings()) as memory:
    prepare = memory.scope(tenant="acme", user="ada", agent="scout").refs.prepare
    with open(sys.argv[2], "rb") as file:
        prepare.keep(prepare(io.BytesIO(file.read(400_000)), source="warm up"))
        before = peak_bytes()
        prepare.keep(prepare(file, source="make everything", status="Success"))
    print(peak_bytes() - before)
"""


class Output(io.RawIOBase):
    """A large output, read like a pipe. The first line is unique, so that no output is a duplicate."""

    numbers = itertools.count()

    def __init__(self, path: Path) -> None:
        self.first = f"output {next(self.numbers)}\n".encode()
        self.file = path.open("rb", buffering=0)

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        if self.first:
            first, self.first = self.first, b""
            return first
        return self.file.read(size)

    def close(self) -> None:
        """Close the file."""
        self.file.close()
        super().close()


def run(plan: Plan) -> Iterator[Table]:
    """Measure a log of 50 MB and random bytes."""
    size = plan.amount(50_000_000, 20_000_000)
    folder = plan.new_folder()
    me = plan.open(f"sqlite:///{folder}/capture.db")
    rows, peaks = [], []
    for name, content in (("a log", log(size)), ("random bytes", os.urandom(size))):
        source = folder / f"{name}.source"
        source.write_bytes(content)
        plan.progress(f"capturing {name}")
        contenders: dict[str, Callable[[], object]] = {
            "capture": lambda source=source: capture(me, source),  # type: ignore[misc]
            "write": lambda source=source: write(source, folder / "written"),  # type: ignore[misc]
        }
        race(1, 1, contenders)
        timings = race(plan.amount(15, 5), 1, contenders)
        speeds = {
            name: [size / seconds / 1e6 for seconds in series] for name, series in timings.items()
        }
        what = f"{name} of {size / 1e6:.0f} MB"
        rows.append(
            versus(
                f"{what}, MB", speeds["capture"], speeds["write"], Target(at_least=0.5), show=rate
            )
        )
        peaks.append(
            peak(what, [memory(folder, source, number) for number in range(plan.amount(5, 2))])
        )
    yield Table(
        "Capture of a large output, SQLite",
        "Read pieces of 1 MiB and store a durable reference with its description, hash, lines and "
        "tokens; compared with writing the same pieces to a file with fsync.",
        RATIO_COLUMNS,
        rows,
    )
    yield Table(
        "Memory for a large output",
        "Growth of the peak memory of a new process during the capture, after a small one.",
        ("what", "peak", "target", ""),
        peaks,
    )


def log(size: int) -> bytes:
    """Return a build log without repeated lines."""
    line = "2026-11-15 05:41:{:02}.{:06} INFO  [worker-{}] compiled src/module_{}/file_{}.c in {} ms, 0 warnings\n"
    lines = (line.format(n % 60, n, n % 8, n % 97, n, n % 1013) for n in itertools.count())
    out = io.BytesIO()
    while out.tell() < size:
        out.write(next(lines).encode())
    return out.getvalue()[:size]


def capture(me: Scope, source: Path) -> None:
    """Capture the output as `memorist run` does."""
    with Output(source) as output:
        new = NewReference(output, source="make everything", status="Success")  # type: ignore[arg-type]
        me.refs.prepare.keep(me.refs.prepare(new))


def write(source: Path, target: Path) -> None:
    """Write the same bytes to a file and sync it."""
    with Output(source) as output, target.open("wb", buffering=0) as file:
        while piece := output.read(PIECE_BYTES):
            file.write(piece)
        os.fsync(file.fileno())
    target.unlink()


def memory(folder: Path, source: Path, number: int) -> int:
    """Return by how many bytes the peak memory of a process grows while it captures."""
    database = folder / f"memory {source.stem} {number}.db"
    done = subprocess.run(
        [sys.executable, "-c", MEASURE_PEAK, str(database), str(source)],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


def peak(what: str, growths: list[int]) -> list[str]:
    """Return a row of the memory table."""
    median = statistics.median(growths) / 2**20
    target = Target(at_most=MAX_PEAK_MIB)
    return [what, f"{median:.1f} MiB", f"{target} MiB", target.verdict(median)]

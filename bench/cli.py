"""Startup time and imported modules of `import memorist` and `memorist --help`, compared with bare Python."""

from __future__ import annotations

import importlib.util
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator

from bench.harness import Plan, Table, duration, race

COMMANDS = {
    "python -c pass": "pass",
    "import memorist": "import memorist",
    "from memorist import Memory, AsyncMemory": "from memorist import Memory, AsyncMemory",
}
HELP = "import sys; sys.argv = ['memorist', '--help']; from memorist.cli.main import main; main()"
HEAVY = "pydantic fastapi uvicorn mcp psycopg numpy openai httpx typer rich yaml apsw asyncio"
COUNT = """
import sys
code, heavy = sys.argv[1:]
try:
    exec(code)
except SystemExit:
    pass
print(len(sys.modules), *(name for name in heavy.split() if name in sys.modules), file=sys.stderr)
"""


def run(plan: Plan) -> Iterator[Table]:
    """Start new processes in turns and measure them."""
    commands = dict(COMMANDS)
    if importlib.util.find_spec("memorist.cli.main"):
        commands["memorist --help"] = HELP
    timings = race(plan.amount(40, 8), 1, {name: start(code) for name, code in commands.items()})
    base = statistics.median(timings["python -c pass"])
    rows = []
    for name, code in commands.items():
        modules, *heavy = count(code)
        median = statistics.median(timings[name])
        low, _, high = statistics.quantiles(timings[name], n=4)
        rows.append(
            [
                name,
                duration(median),
                f"{duration(low)}–{duration(high)}",
                duration(median - base),
                modules,
                " ".join(heavy),
            ]
        )
    return iter(
        [
            Table(
                "Startup",
                "A new process each time, with files in the page cache.",
                (
                    "what",
                    "time",
                    "quartiles",
                    "more than Python",
                    "modules",
                    "heavy modules among them",
                ),
                rows,
            )
        ]
    )


def start(code: str) -> Callable[[], object]:
    """Return a function that runs code in a new Python process."""
    return lambda: subprocess.run(
        [sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL
    )


def count(code: str) -> list[str]:
    """Return the number of modules that the code imports, and the heavy ones among them."""
    command = [sys.executable, "-c", COUNT, code, HEAVY]
    return subprocess.run(command, check=True, capture_output=True, text=True).stderr.split()

"""`python -m bench`: run the benchmarks, print their tables, and optionally write them to a document."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import re
import statistics
import sys
import time
from pathlib import Path

import apsw
from rich.console import Console
from rich.table import Table as Drawn

from bench.harness import Plan, Table, duration, fsync_seconds, planned
from retain.storage.files import filesystem_of

BENCHMARKS = (
    "append",
    "window",
    "threads",
    "alternatives",
    "adapters",
    "purge",
    "cli",
    "tokens",
    "context",
    "capture",
    "search",
    "http",
)
MODULES = {"http": "http_requests"}  # a module `http` would hide the standard library's


def main() -> int:
    """Run the chosen benchmarks."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Run the benchmarks and print ratios."
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a short run of about a minute, with less exact figures",
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=BENCHMARKS,
        help="run only this benchmark; may be repeated",
    )
    parser.add_argument(
        "--markdown",
        type=Path,
        metavar="FILE",
        help="also write the tables between the markers of FILE",
    )
    parser.add_argument(
        "--folder", type=Path, help="the folder for the databases, on the disk to measure"
    )
    chosen = parser.parse_args()
    out = Console(width=None if sys.stdout.isatty() else 160)
    err = Console(stderr=True)
    started = time.monotonic()

    def progress(message: str) -> None:
        err.print(f"[dim]{time.monotonic() - started:6.1f} s  {message}[/dim]", highlight=False)

    sections: dict[str, str] = {}
    with planned(chosen.quick, chosen.folder, progress) as plan:
        about = machine(plan)
        out.print(about, highlight=False)
        for name in chosen.only or BENCHMARKS:
            progress(name)
            tables = []
            for table in importlib.import_module(f"bench.{MODULES.get(name, name)}").run(plan):
                draw(out, table)
                tables.append(table.markdown())
            sections[name] = "\n".join(tables)
        sections["machine"] = f"{about} and {os.getloadavg()[0]:.1f} at the end.\n"
    if chosen.markdown:
        write(chosen.markdown, sections)
        progress(f"wrote {chosen.markdown}")
    return 0


def machine(plan: Plan) -> str:
    """Return a description of the machine."""
    cost = fsync_seconds(plan.folder)
    return (
        f"{time.strftime('%Y-%m-%d')}, {'quick' if plan.quick else 'full'} run: {os.cpu_count()} cores, "
        f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}, "
        f"SQLite {apsw.sqlite_lib_version()}, "
        f"{filesystem_of(plan.folder)}, an fdatasync of one page takes {duration(statistics.median(cost))} "
        f"(95 %: {duration(statistics.quantiles(cost, n=20)[-1])}); load {os.getloadavg()[0]:.1f} at the start"
    )


def draw(out: Console, table: Table) -> None:
    """Print a table on the terminal."""
    drawn = Drawn(
        title=table.title, caption=table.about, title_justify="left", caption_justify="left"
    )
    for place, column in enumerate(table.columns):
        drawn.add_column(column, justify="left" if place == 0 else "right")
    for row in table.rows:
        colour = {"met": "green", "ahead": "green", "not met": "red", "behind": "red"}
        drawn.add_row(*(f"[{colour[cell]}]{cell}[/]" if cell in colour else cell for cell in row))
    out.print(drawn)


def write(file: Path, sections: dict[str, str]) -> None:
    """Replace the text between the markers `<!-- bench: NAME -->` and `<!-- end: NAME -->`."""
    text = file.read_text(encoding="utf-8")
    for name, body in sections.items():
        begin, end = f"<!-- bench: {name} -->", f"<!-- end: {name} -->"
        text = re.sub(
            f"{re.escape(begin)}.*?{re.escape(end)}",
            lambda _, whole=f"{begin}\n{body}{end}": whole,  # type: ignore[misc]
            text,
            flags=re.DOTALL,
        )
    file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

"""`python -m bench`: run the benchmarks and print their tables, or write them to a document."""

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
from rich.table import Table as RichTable

from bench.harness import Plan, Table, duration, fsync_seconds, planned
from memorist.storage.files import filesystem_of

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
    "facts",
    "capture",
    "search",
    "replica",
    "growth",
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
        help="run for about a minute; the figures are less exact",
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
        help="also write the tables to FILE, between its `<!-- bench: NAME -->` markers",
    )
    parser.add_argument(
        "--folder", type=Path, help="create the databases in this folder, on the disk to measure"
    )
    parser.add_argument(
        "--largest",
        type=int,
        metavar="MESSAGES",
        help="the largest database of the growth benchmark, up to 1000000",
    )
    options = parser.parse_args()
    out = Console(width=None if sys.stdout.isatty() else 160)
    err = Console(stderr=True)
    started = time.monotonic()

    def progress(message: str) -> None:
        err.print(f"[dim]{time.monotonic() - started:6.1f} s  {message}[/dim]", highlight=False)

    sections: dict[str, str] = {}
    with planned(options.quick, options.folder, progress) as plan:
        plan.largest = options.largest
        description = describe_machine(plan)
        out.print(description, highlight=False)
        for name in options.only or BENCHMARKS:
            progress(name)
            tables = []
            for table in importlib.import_module(f"bench.{MODULES.get(name, name)}").run(plan):
                draw(out, table)
                tables.append(table.markdown())
            sections[name] = "\n".join(tables)
        sections["machine"] = f"{description} and {os.getloadavg()[0]:.1f} at the end.\n"
    if options.markdown:
        write(options.markdown, sections)
        progress(f"wrote {options.markdown}")
    return 0


def describe_machine(plan: Plan) -> str:
    """Return a description of the machine."""
    sync_times = fsync_seconds(plan.folder)
    return (
        f"{time.strftime('%Y-%m-%d')}, {'quick' if plan.quick else 'full'} run: {os.cpu_count()} cores, "
        f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}, "
        f"SQLite {apsw.sqlite_lib_version()}, "
        f"{filesystem_of(plan.folder)}, an fdatasync of one page takes {duration(statistics.median(sync_times))} "
        f"(95 %: {duration(statistics.quantiles(sync_times, n=20)[-1])}); load {os.getloadavg()[0]:.1f} at the start"
    )


def draw(out: Console, table: Table) -> None:
    """Print a table on the terminal."""
    rich_table = RichTable(
        title=table.title, caption=table.about, title_justify="left", caption_justify="left"
    )
    for index, column in enumerate(table.columns):
        rich_table.add_column(column, justify="left" if index == 0 else "right")
    colours = {"met": "green", "ahead": "green", "not met": "red", "behind": "red"}
    for row in table.rows:
        cells = (f"[{colours[cell]}]{cell}[/]" if cell in colours else cell for cell in row)
        rich_table.add_row(*cells)
    out.print(rich_table)


def write(file: Path, sections: dict[str, str]) -> None:
    """Replace the text between the markers `<!-- bench: NAME -->` and `<!-- end: NAME -->`."""
    text = file.read_text(encoding="utf-8")
    for name, body in sections.items():
        begin = f"<!-- bench: {name} -->"
        end = f"<!-- end: {name} -->"
        text = re.sub(
            f"{re.escape(begin)}.*?{re.escape(end)}",
            lambda _, section=f"{begin}\n{body}{end}": section,  # type: ignore[misc]
            text,
            flags=re.DOTALL,
        )
    file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

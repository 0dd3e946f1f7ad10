"""Check memorist against the five memory designs that it is based on, item by item.

python scripts/audit_designs.py                          on a new SQLite file
python scripts/audit_designs.py --database URL           on another, empty database
python scripts/audit_designs.py --oracle URL             also on an Oracle server (default: not checked)
python scripts/audit_designs.py --only journal           one design, or one item by its id
python scripts/audit_designs.py --json                   print JSON

Every item calls memorist: the library, the server, the MCP server or the command line. The exit
status is 1 if an item fails, unless it is a known gap.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import sys
import tempfile
import textwrap
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))  # for the package testkit

from design_audit import conversations, imported_tables, journal, references, short_term, summaries
from design_audit.audit import STATUSES, Audit, Item

Group = Callable[[Audit], None]


@dataclass(frozen=True)
class Design:
    """A design, the prefix of the ids of its items, and the functions that check them."""

    title: str
    prefix: str
    groups: tuple[Group, ...]


DESIGNS = {
    "short-term": Design(
        "Persistent sessions, notes, LangChain",
        "stm",
        (*short_term.GROUPS, imported_tables.langchain_tables),
    ),
    "journal": Design(
        "Journal and core memory of agents",
        "jrn",
        (*journal.GROUPS, imported_tables.journal_tables),
    ),
    "references": Design(
        "References in the prompt, contents in a store",
        "ref",
        (*references.GROUPS, imported_tables.reference_tables),
    ),
    "summaries": Design(
        "Rolling summaries of long sessions",
        "sum",
        (*summaries.GROUPS, imported_tables.session_tables),
    ),
    "conversations": Design(
        "Conversations, state, telemetry",
        "sql",
        (*conversations.GROUPS, imported_tables.conversation_tables),
    ),
}


def main() -> int:
    """Run the audit and print it."""
    parser = argparse.ArgumentParser(
        description="Check memorist against the five memory designs that it is based on."
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--only", metavar="NAME", help="a design, a group, or the id of an item")
    parser.add_argument("--database", metavar="URL", help="an empty database (default: a new file)")
    parser.add_argument("--oracle", metavar="URL", help="an Oracle server for the items about it")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)  # checks cause failures on purpose
    warnings.simplefilter("ignore")

    results = run(arguments.only or "", arguments.database, arguments.oracle or "")
    if not any(results.values()):
        parser.error(
            f"--only: there is no {arguments.only!r}; the designs are {', '.join(DESIGNS)}"
        )
    items = [item for design_items in results.values() for item in design_items]
    if arguments.json:
        print(json.dumps(as_json(results), indent=2, ensure_ascii=False))
    else:
        for design, design_items in results.items():
            if design_items:
                print_table(f"{design}: {DESIGNS[design].title}", design_items)
        if len([design_items for design_items in results.values() if design_items]) > 1:
            print(total(items))
    return 1 if any(item.is_failure for item in items) else 0


def run(only: str, database: str | None, oracle: str = "") -> dict[str, list[Item]]:
    """Return the items of each design."""
    results: dict[str, list[Item]] = {}
    with tempfile.TemporaryDirectory(prefix="memorist-audit-") as folder:
        audit = Audit(database or f"sqlite:///{folder}/audit.db", Path(folder), oracle)
        for name, design in DESIGNS.items():
            audit.items = []
            for group in design.groups:
                # The items of a group are known only after it has run.
                if only in ("", name, group.__name__) or only.startswith(f"{design.prefix}-"):
                    audit.run(group, design.prefix)
            results[name] = [
                item for item in audit.items if only in ("", name, item.group, item.id)
            ]
    return results


def as_json(results: dict[str, list[Item]]) -> dict[str, object]:
    """Return the items by design, and the totals."""
    items = [item for design_items in results.values() for item in design_items]
    counts: Counter[str] = Counter(item.status for item in items)
    totals: dict[str, int] = {"items": len(items)}
    totals |= {status: counts[status] for status in STATUSES}
    return {
        "designs": {
            design: [item.as_json() for item in design_items]
            for design, design_items in results.items()
        },
        "totals": totals,
        "failures": [item.id for item in items if item.is_failure],
    }


def print_table(title: str, items: list[Item]) -> None:
    """Print the items of one design."""
    width = min(shutil.get_terminal_size((120, 24)).columns, 160)
    print(f"{title}\n{'-' * len(title)}")
    for item in items:
        print(f"{item.id:<8} {item.status:<11} {item.promise}")
        gap = f" (known: {item.known_gap})" if item.known_gap and item.status != "works" else ""
        for line in textwrap.wrap(f"{item.evidence}{gap}", max(width - 21, 40)):
            print(f"{'':<20} {line}")
    print(f"{total(items)}\n")


def total(items: list[Item]) -> str:
    """Return the number of items of each status."""
    counts = Counter(item.status for item in items)
    parts = ", ".join(f"{counts[status]} {status}" for status in STATUSES)
    return f"{len(items)} items: {parts}"


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # a thread may still be loading a native library, which aborts a usual exit

"""Output for people: tables, progress bars and plain text."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from datetime import datetime
from typing import Any, Literal

from memorist.admin.api_keys import NewKey
from memorist.admin.webhooks import NewWebhook
from memorist.api.rendering import as_json
from memorist.content.message import Message
from memorist.kinds.items import Match, PlacedItem
from memorist.kinds.notes import Note
from memorist.kinds.page import Page
from memorist.kinds.state import Item
from memorist.text.view import View

FIRST_KEY = (
    "This is the first key of this database: from now on, every request to its server needs a key, "
    "even from this machine."
)
NO_ADMIN_KEY = """
WARNING: It has no admin permission, and there is no other key. Over HTTP, nobody can manage keys or
read the audit log. To create a key that can, run:
  memorist keys add NAME --permissions read,write,delete,admin"""
MAX_CELL_CHARACTERS = 100
UNLIMITED_WIDTH = 1 << 20

_CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_MEASUREMENTS = ("latency_ms", "p50", "p95", "p99")
_COLUMNS = {
    "Message": "seq role author created_at text",
    "Session": "id user agent label count updated_at",
    "Agent": "name model tools active version prompt",
    "NoteVersion": "version operation source created_at text",
    "Fact": "id subject topic status valid_from valid_to statement",
    "FactChange": "at action source fact statement",
    "Entry": "id agent kind created_at expired review content",
    "Consolidation": "id agent status created_at model content",
    "Summary": "number covers_from covers_to tokens model created_at text",
    "Ref": "key type is_active tokens created_at summary",
    "Item": "area key value version expires_at",
    "PlacedItem": "place key value version expires_at",
    "Match": "score place key value",
    "tuple": "place",
    "Document": "id title path media chunks user updated_at",
    "Passage": "seq title page text",
    "ApiKey": "id name permissions user agent expires_at last_used_at revoked_at",
    "Turn": "id first_seq last_seq interaction created_at",
    "AuditRecord": "number at who what subject secrets request_id",
    "Interaction": "created_at route model latency_ms tokens_in tokens_out cost error",
}
"""The columns of a table of records, by their type; for others, all fields."""


def show(value: Any, *, json_wanted: bool) -> None:
    """Print the result of a verb."""
    if json_wanted:
        print(json.dumps(as_json(value), ensure_ascii=False))
    elif value is None:
        print("Done.")
    elif isinstance(value, str | int):
        print(plain(str(value)).removesuffix("\n"))
    elif isinstance(value, bytes):
        sys.stdout.buffer.write(value)
    elif isinstance(value, View):
        print(plain(value.text).removesuffix("\n"))
        more = f"; {value.more.removesuffix('.')}" if value.more else ""
        print(f"({value.what}{more})", file=sys.stderr)
    elif isinstance(value, Page):
        _show_records(value.items)
        if value.next:
            print(f"There is more: --after {value.next}")
    elif isinstance(value, list | tuple):
        _show_records(value)
    else:
        _show_fields(value if isinstance(value, dict) else as_json(value))


def show_raw(value: Any) -> None:
    """Print the bare content or secret to standard output, and its details to standard error."""
    if isinstance(value, Note):
        note = f"version {value.version}" if value.version else "no notes yet"
        text = plain(value.text) if sys.stdout.isatty() else value.text
        print(text, end="" if text.endswith("\n") or not text else "\n")
    elif isinstance(value, Item | PlacedItem):
        note = f"version {value.version}"
        if value.expires_at:
            note += f", until {_cell(value.expires_at)}"
        print(plain(value.raw))
    elif isinstance(value, NewKey):
        note = plain(_key_details(value))
        print(value.key)
    elif isinstance(value, NewWebhook):
        note = f"webhook {value.id}; its secret is not shown again"
        print(value.secret)
    else:
        raise TypeError(f"a {type(value).__name__} has no raw form")
    print(f"({note})", file=sys.stderr)


def show_warning(value: Any) -> None:
    """Print a warning about a result to standard error, if there is one."""
    if isinstance(value, NewKey) and value.is_first:
        warning = "" if "admin" in value.permissions else NO_ADMIN_KEY
        print(FIRST_KEY + warning, file=sys.stderr)


def _key_details(key: NewKey) -> str:
    details = f"key {key.id}: {', '.join(key.permissions)}"
    if key.user is not None:
        details += f", for the user {key.user}"
    if key.agent is not None:
        details += f", for the agent {key.agent}"
    if key.expires_at:
        details += f" until {key.expires_at:%Y-%m-%d}"
    return f"{details}; it is not shown again"


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table as wide as the terminal; into a pipe or a file, as wide as its content."""
    from rich import box  # slow to import
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    has_head = any(head)
    table = Table(
        box=box.SIMPLE_HEAD if has_head else None,
        show_edge=False,
        show_header=has_head,
        pad_edge=False,
        padding=(0, 1 if has_head else 2, 0, 0),
        header_style="",
    )
    for name in head:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(plain(cell), overflow="fold") for cell in row))
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else UNLIMITED_WIDTH
    console = Console(file=sys.stdout, width=width, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        print(line.rstrip(" "))


def wrap(text: str, width: int) -> list[str]:
    """Break text into lines of at most `width` columns of a terminal."""
    from rich.console import Console  # slow to import
    from rich.text import Text

    lines = Text(text, overflow="fold").wrap(Console(width=width), max(width, 2))
    return [line.plain.rstrip(" ") for line in lines]


def display_width(text: str) -> int:
    """Return how many columns of a terminal a line takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def styled(text: str, style: Literal["bold", "dim"]) -> str:
    """Return text in bold or dim for a terminal, and unchanged for a file or a pipe."""
    has_colours = os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")
    if not (text and has_colours and sys.stdout.isatty()):
        return text
    return f"\x1b[{1 if style == 'bold' else 2}m{text}\x1b[0m"


def plain(text: str) -> str:
    """Return text without characters that move the cursor, set colours or reverse the direction."""
    return _CONTROL_CHARACTERS.sub("�", text.replace("\r\n", "\n"))


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on standard error if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)


def _show_fields(record: dict[str, Any]) -> None:
    """Print one record, a field per line; a field with several counts has one line per count."""
    rows: list[tuple[str, str]] = []
    for name, value in record.items():
        if isinstance(value, dict) and value and all(type(n) is int for n in value.values()):
            rows.append((name, ""))
            rows += [(f"  {inner}", str(count)) for inner, count in value.items()]
        else:
            rows.append((name, _cell(value, shorten=False)))
    print_table(("", ""), rows)


def _show_records(records: Sequence[Any]) -> None:
    """Print records as a table."""
    if not records:
        print("No results.")
        return
    names = _COLUMNS.get(type(records[0]).__name__, "").split()
    if not names:
        names = [field.name for field in fields(records[0])]
    if "split" in names and not any(record.split for record in records):
        names.remove("split")
    rows = [[_cell(_column(record, name)) for name in names] for record in records]
    print_table(names, rows)


def _column(record: Any, name: str) -> Any:
    if name == "text" and isinstance(record, Message):
        return record.text or record.content  # a tool call has no text
    if isinstance(record, tuple) and not hasattr(record, name):
        return getattr(record.item, name) if isinstance(record, Match) else record
    value = getattr(record, name)
    return None if name in _MEASUREMENTS and value == 0 else value  # 0 means not measured


def _cell(value: Any, *, shorten: bool = True) -> str:
    if value is None or value == "":
        return "–"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z")
    if isinstance(value, float):
        return f"{value:.6g}"
    text = value if isinstance(value, str) else json.dumps(as_json(value), ensure_ascii=False)
    if shorten and len(text) > MAX_CELL_CHARACTERS:
        return text[:MAX_CELL_CHARACTERS].replace("\n", " ") + " …"
    return text

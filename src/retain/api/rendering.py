"""Records for programs, as JSON, and for people, as tables; and how far long work has come."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any

from retain.api.table import lines
from retain.kinds.items.items import Match, PlacedItem
from retain.kinds.kind import Page
from retain.kinds.notes import Note
from retain.kinds.state import Item
from retain.messages.message import Message
from retain.text.view import View

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_COLUMNS = {
    "Message": ("seq", "role", "author", "created_at", "text"),
    "Session": ("id", "user", "agent", "label", "count", "updated_at"),
    "Agent": ("name", "model", "tools", "version", "prompt"),
    "NoteVersion": ("version", "operation", "source", "created_at", "text"),
    "Entry": ("id", "agent", "kind", "created_at", "expired", "review", "content"),
    "Consolidation": ("id", "agent", "status", "created_at", "model", "content"),
    "Summary": ("number", "covers_from", "covers_to", "tokens", "model", "created_at", "text"),
    "Ref": ("key", "type", "is_active", "tokens", "created_at", "summary"),
    "Item": ("area", "key", "value", "version", "expires_at"),
    "PlacedItem": ("place", "key", "value", "version", "expires_at"),
    "Match": ("score", "place", "key", "value"),
    "tuple": ("place",),
    "Document": ("id", "title", "path", "media", "chunks", "user", "updated_at"),
    "Passage": ("seq", "title", "page", "text"),
    "Key": (
        "id",
        "name",
        "permissions",
        "user",
        "agent",
        "expires_at",
        "last_used_at",
        "revoked_at",
    ),
    "Turn": ("id", "first_seq", "last_seq", "interaction", "created_at"),
    "Deed": ("number", "at", "who", "what", "subject", "secrets", "request_id"),
    "Interaction": (
        "created_at",
        "route",
        "model",
        "latency_ms",
        "tokens_in",
        "tokens_out",
        "cost",
        "error",
    ),
}
_SHORT = 100
_MEASURED = ("latency_ms", "p50", "p95", "p99")


def as_json(value: Any) -> Any:
    """A record, a page or a list of records, as JSON; content and values appear as what they are, not as text in text."""
    if isinstance(value, Page):
        return {"data": as_json(value.items), "next": value.next}
    if isinstance(value, Match):
        return {"item": as_json(value.item), "score": value.score}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        shown = {
            field.name: as_json(getattr(value, field.name))
            for field in fields(value)
            if field.name != "raw"
        }
        if isinstance(value, Message):
            shown["content"] = value.content
        if isinstance(value, Item | PlacedItem):
            shown["value"] = value.value
        return shown
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, dict):
        return {name: as_json(item) for name, item in value.items()}
    return value


def show(value: Any, *, json_wanted: bool) -> None:
    """Print what a verb returned."""
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
        print(
            f"({value.what}{'; ' if value.more else ''}{value.more.removesuffix('.')})",
            file=sys.stderr,
        )
    elif isinstance(value, Page):
        _table(value.items)
        if value.next:
            print(f"There is more: --after {value.next}")
    elif isinstance(value, list | tuple):
        _table(value)
    else:
        rows: list[tuple[str, str]] = []
        for name, item in (value if isinstance(value, dict) else as_json(value)).items():
            if (
                isinstance(item, dict)
                and item
                and all(type(count) is int for count in item.values())
            ):
                rows += [(name, ""), *[(f"  {what}", str(count)) for what, count in item.items()]]
            else:
                rows.append((name, _cell(item, whole=True)))
        table(("", ""), rows)


def show_itself(value: Any) -> None:
    """Print what a person asked to read, and what is known of it on standard error, so that it can go into a file."""
    if isinstance(value, Note):
        told = f"version {value.version}" if value.version else "there are no notes yet"
        text = plain(value.text) if sys.stdout.isatty() else value.text
        print(text, end="" if text.endswith("\n") or not text else "\n")
    elif isinstance(value, Item | PlacedItem):
        told = f"version {value.version}" + (
            f", until {_cell(value.expires_at)}" if value.expires_at else ""
        )
        print(plain(value.raw))
    else:
        raise TypeError(f"a {type(value).__name__} cannot be shown as itself")
    print(f"({told})", file=sys.stderr)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under a head, as wide as the terminal, or whole where there is none."""
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    rule = "─" if (sys.stdout.encoding or "").lower().startswith("utf") else "-"
    for line in lines(head, [[plain(cell) for cell in row] for row in rows], room, rule):
        print(line)


def plain(text: str) -> str:
    """Text without what would move the cursor, change colours or turn the line around."""
    return _CONTROL.sub("�", text.replace("\r\n", "\n"))


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error while somebody watches; nothing otherwise."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)


def _table(records: Sequence[Any]) -> None:
    if not records:
        print("Nothing here yet.")
        return
    names = _COLUMNS.get(type(records[0]).__name__) or tuple(
        field.name for field in fields(records[0])
    )
    names = tuple(
        name for name in names if name != "split" or any(record.split for record in records)
    )
    table(names, [[_cell(_column(record, name)) for name in names] for record in records])


def _column(record: Any, name: str) -> Any:
    if name == "text" and isinstance(record, Message):
        return record.text or record.content  # a tool call is not an empty message
    if isinstance(record, tuple) and not hasattr(
        record, name
    ):  # a place is its names, a match has an item
        return getattr(record.item, name) if isinstance(record, Match) else record
    value = getattr(record, name)
    return None if name in _MEASURED and value == 0 else value  # nobody measured it


def _cell(value: Any, *, whole: bool = False) -> str:
    if value is None or value == "":
        return "–"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z")
    if isinstance(value, float):
        return f"{value:.6g}"
    text = value if isinstance(value, str) else json.dumps(as_json(value), ensure_ascii=False)
    if whole or len(text) <= _SHORT:
        return text
    return text[:_SHORT].replace("\n", " ") + " …"

"""A table for people that loses nothing, whatever the width of their terminal.

Where there is room, each record is a line. Where there is less, long texts are wrapped, then moments are shortened, then
ids go over two lines; and where even that leaves too little for the text, each record becomes a block of its own. Into a
pipe or a file everything is written whole, without blanks at the ends of lines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_GAP = "  "
_WIDE = 24
"""A column that is wider than this may be wrapped."""
_LEAST = 20
"""A wrapped column is not narrower than this."""
_MOMENT = re.compile(r"\d{4}-(\d\d-\d\d)[ T](\d\d:\d\d):\d\d(?:\.\d+)?Z")
_ID = re.compile(r"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-)([0-9a-f]{4}-[0-9a-f]{12})")

Rows = list[list[str]]


def lines(
    head: Sequence[str], rows: Sequence[Sequence[str]], room: int | None, rule: str = "─"
) -> list[str]:
    """The lines of a table that is at most `room` columns wide; None is any width. `rule` is drawn under the head."""
    whole = [list(row) for row in rows]
    if room is None:
        return _drawn(head, whole, _natural(head, whole), rule)
    whole = [[cell.expandtabs(4) for cell in row] for row in whole]
    for narrower in (whole, _shortened(whole), _folded(_shortened(whole))):
        widths = _fitting(_natural(head, narrower), _rigid(narrower), room)
        if widths:
            return _drawn(head, narrower, widths, rule)
    return _blocks(head, whole, room)


def wrapped(text: str, room: int) -> list[str]:
    """Text in lines of at most `room` columns, broken after a blank where there is one; no letter is lost."""
    found = []
    for line in text.split("\n"):
        rest = line
        while width(rest) > room and len(rest) > 1:
            most = _beginning(rest, room)
            blank = rest.rfind(" ", 0, most + 1)
            at = blank + 1 if blank > 0 else most
            found.append(rest[:at].rstrip(" "))
            rest = rest[at:]
        found.append(rest.rstrip(" "))
    return found


def width(text: str) -> int:
    """How many columns of a terminal a line takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # here, because only letters beyond ASCII need it

    return cell_len(text)


def _beginning(text: str, room: int) -> int:
    """How many letters fit; at least one, or nothing would ever end."""
    taken = 0
    for place, letter in enumerate(text):
        taken += width(letter)
        if taken > room:
            return max(place, 1)
    return len(text)


def _natural(head: Sequence[str], rows: Rows) -> list[int]:
    columns = [
        [title, *(line for row in rows for line in row[place].split("\n"))]
        for place, title in enumerate(head)
    ]
    return [max(width(line) for line in column) for column in columns]


def _rigid(rows: Rows) -> list[bool]:
    """Which columns are never wrapped: those of moments and ids."""
    return [
        all(_MOMENT.fullmatch(c) or _ID.fullmatch(c) or c in ("", "–") for c in column)
        for column in zip(*rows, strict=True)
    ]


def _fitting(natural: list[int], rigid: list[bool], room: int) -> list[int] | None:
    """Widths that fit into the room: what wraps shares what the others leave; None where that is too little."""
    room -= len(_GAP) * (len(natural) - 1)
    if sum(natural) <= room:
        return natural
    wide = [
        place for place, size in enumerate(natural) if size > _WIDE and not (rigid and rigid[place])
    ]
    left = room - sum(size for place, size in enumerate(natural) if place not in wide)
    if not wide or left < _LEAST * len(wide):
        return None
    widths = list(natural)
    for done, place in enumerate(sorted(wide, key=lambda place: natural[place])):
        widths[place] = min(natural[place], left // (len(wide) - done))
        left -= widths[place]
    return widths


def _shortened(rows: Rows) -> Rows:
    """Moments without their year and their seconds."""
    return [
        [_MOMENT.sub(r"\1 \2", cell) if _MOMENT.fullmatch(cell) else cell for cell in row]
        for row in rows
    ]


def _folded(rows: Rows) -> Rows:
    """Ids over two lines."""
    return [
        [_ID.sub("\\1\n\\2", cell) if _ID.fullmatch(cell) else cell for cell in row] for row in rows
    ]


def _drawn(head: Sequence[str], rows: Rows, widths: Sequence[int], rule: str) -> list[str]:
    found = []
    if any(head):
        found = [_joined(head, widths), rule * (sum(widths) + len(_GAP) * (len(widths) - 1))]
    for row in rows:
        cells = [
            wrapped(cell, max(size, 1)) if cell else [""]
            for cell, size in zip(row, widths, strict=True)
        ]
        for place in range(max(map(len, cells), default=0)):
            found.append(
                _joined([cell[place] if place < len(cell) else "" for cell in cells], widths)
            )
    return found


def _blocks(head: Sequence[str], rows: Rows, room: int) -> list[str]:
    """Each record as lines of a name and a value; the value below its name where it does not fit beside it."""
    found: list[str] = []
    for row in rows:
        if found and any(head):
            found.append("")
        pairs = zip(head, row, strict=True) if any(head) else [(row[0], "\n".join(row[1:]))]
        for name, value in pairs:
            beside = f"{name}{_GAP}{value}".strip(" ")
            if "\n" not in value and width(beside) <= room:
                found.append(beside)
            else:
                found += [
                    name,
                    *(f" {line}".rstrip(" ") for line in wrapped(value, max(room - 1, 1))),
                ]
    return found


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell + " " * (size - width(cell)) for cell, size in zip(cells, widths, strict=True)]
    return _GAP.join(padded).rstrip(" ")

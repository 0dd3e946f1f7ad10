"""Words for messages that people read."""

from __future__ import annotations

from datetime import datetime

_MONTHS = (
    "January February March April May June July August September October November December".split()  # noqa: SIM905
)


def counted(count: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun: "1 line", "2,000 lines"."""
    return f"{count:,} {singular}" if count == 1 else f"{count:,} {plural or singular + 's'}"


def date_in_words(moment: datetime) -> str:
    """Return a date as people write it, in any locale: "9 November 2026"."""
    return f"{moment.day} {_MONTHS[moment.month - 1]} {moment.year}"

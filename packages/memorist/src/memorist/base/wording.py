"""Words for messages that people read."""

from __future__ import annotations


def counted(count: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun: "1 line", "2,000 lines"."""
    return f"{count:,} {singular}" if count == 1 else f"{count:,} {plural or singular + 's'}"

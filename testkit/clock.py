"""A clock that a test moves by hand."""

from __future__ import annotations

from memorist.base import clock

START = 1_760_000_000_000_000  # 2025-10-09 08:53:20 UTC


class Now:
    """A clock that a test moves by hand."""

    def __init__(self) -> None:
        self.micros = START

    def __call__(self) -> int:
        return self.micros

    def pass_days(self, days: float) -> None:
        self.micros += round(days * clock.DAY)

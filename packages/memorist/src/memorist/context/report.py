"""The report about a context ("Why"): its pieces, the omitted pieces, reasons and token counts.

A report contains no texts of memories. It is stored with the turn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple


class ReportItem(NamedTuple):
    """One piece of a context, or one that was left out."""

    layer: str
    source: str  # its kind and id, such as "messages 12"
    tokens: int
    reason: str


@dataclass(frozen=True)
class Report:
    """The description of one context, without its text."""

    budget: int
    tokens: int
    items: list[ReportItem] = field(default_factory=list)
    left_out: list[ReportItem] = field(default_factory=list)
    shares: dict[str, int] = field(default_factory=dict)

    def by_layer(self) -> dict[str, int]:
        """Return the tokens of each layer, in the order in which the layers appear."""
        totals: dict[str, int] = {}
        for item in self.items:
            totals[item.layer] = totals.get(item.layer, 0) + item.tokens
        return totals

    def scaled(self, budget: int, factor: float) -> Report:
        """Return the report in the tokens of a model that needs `factor` times the estimate."""
        if factor == 1.0:
            return replace(self, budget=budget)
        return Report(
            budget,
            min(math.ceil(self.tokens * factor), budget),
            _scale(self.items, factor),
            _scale(self.left_out, factor),
            {name: round(share * factor) for name, share in self.shares.items()},
        )

    def as_json(self) -> dict[str, Any]:
        """Return the stored form, in which an item is a list of its four values."""
        return {
            "budget": self.budget,
            "tokens": self.tokens,
            "shares": self.shares,
            "items": [list(item) for item in self.items],
            "left_out": [list(item) for item in self.left_out],
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Report:
        """Return a report from its stored form."""
        return cls(
            stored["budget"],
            stored["tokens"],
            [ReportItem(*item) for item in stored["items"]],
            [ReportItem(*item) for item in stored["left_out"]],
            dict(stored["shares"]),
        )


def _scale(items: Sequence[ReportItem], factor: float) -> list[ReportItem]:
    return [item._replace(tokens=round(item.tokens * factor)) for item in items]

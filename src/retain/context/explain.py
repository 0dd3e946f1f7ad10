"""What went into a context, from which layer, why, and at what cost; and what was left out. Kept without any text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple


class Item(NamedTuple):
    """One thing in a context, or left out of it: `source` is its kind and its id."""

    layer: str
    source: str
    tokens: int
    reason: str


@dataclass(frozen=True)
class Report:
    """Everything about one context but its text."""

    budget: int
    tokens: int
    items: list[Item] = field(default_factory=list)
    left_out: list[Item] = field(default_factory=list)
    shares: dict[str, int] = field(default_factory=dict)

    def by_layer(self) -> dict[str, int]:
        """The tokens of each layer, in the order in which the layers appear."""
        found: dict[str, int] = {}
        for item in self.items:
            found[item.layer] = found.get(item.layer, 0) + item.tokens
        return found

    def scaled(self, budget: int, factor: float) -> Report:
        """The same in the tokens of a model that has more of them than the estimate."""
        if factor == 1.0:
            return replace(self, budget=budget)
        items, out = (
            [item._replace(tokens=round(item.tokens * factor)) for item in one]
            for one in (self.items, self.left_out)
        )
        shares = {name: round(share * factor) for name, share in self.shares.items()}
        return Report(budget, min(math.ceil(self.tokens * factor), budget), items, out, shares)

    def as_json(self) -> dict[str, Any]:
        """As it is stored: an item is a list of its four values."""
        rows = {
            name: [list(item) for item in getattr(self, name)] for name in ("items", "left_out")
        }
        return {"budget": self.budget, "tokens": self.tokens, "shares": self.shares, **rows}

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> Report:
        """As it was stored."""
        items, left_out = ([Item(*item) for item in stored[name]] for name in ("items", "left_out"))
        return cls(stored["budget"], stored["tokens"], items, left_out, dict(stored["shares"]))

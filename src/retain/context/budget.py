"""Share a token budget between the layers of a context.

Each layer first gets its floor. The rest is shared by weight; tokens that one layer does not need go
to the others. The shares never add up to more than the budget, and no layer gets less from a larger
budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LEVEL_STEPS = 1000
"""Shares are computed in thousandths of a token and rounded down at the end."""


@dataclass(frozen=True)
class Layer:
    """A part of the context that competes for the budget."""

    name: str
    floor: float  # guaranteed fraction of the budget
    weight: int  # weight in sharing the tokens that remain after the floors


LAYERS = (
    Layer("private", 0.10, 2),
    Layer("notes", 0.10, 2),
    Layer("summary", 0.15, 2),
    Layer("facts", 0.05, 2),
    Layer("references", 0.05, 1),
    Layer("window", 0.30, 8),
    Layer("state", 0.0, 1),
    Layer("whiteboard", 0.0, 1),
    Layer("recall", 0.0, 3),
)
"""The layers that share the tokens that remain after the system prompt and the new message."""


def share(budget: int, wants: Sequence[int], layers: Sequence[Layer] = LAYERS) -> list[int]:
    """Return the tokens of each layer: at most as many as it wants."""
    budget = max(budget, 0)
    # Round only at the end. If the floors were rounded first, several of them would grow by one token
    # at the same budget, and layers without a floor would get less from a larger budget.
    available = budget * LEVEL_STEPS
    limits = [want * LEVEL_STEPS for want in wants]
    floors = [int(layer.floor * budget * LEVEL_STEPS) for layer in layers]

    def shares_at(level: int) -> list[int]:
        return [
            min(limit, floor + layer.weight * level)
            for layer, limit, floor in zip(layers, limits, floors, strict=True)
        ]

    # Binary search for the highest common level whose shares fit into the budget.
    low = 0
    high = max([0, *limits]) + 1
    while high - low > 1:
        level = (low + high) // 2
        if sum(shares_at(level)) <= available:
            low = level
        else:
            high = level
    return [fractions // LEVEL_STEPS for fractions in shares_at(low)]

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
    Layer("private", 0.10, 2),  # entries: journal and core
    Layer("notes", 0.10, 2),  # notes
    Layer("summary", 0.15, 2),  # summaries
    Layer("facts", 0.05, 2),  # facts
    Layer("references", 0.05, 1),  # refs
    Layer("window", 0.30, 8),  # messages
    Layer("state", 0.0, 1),  # state
    Layer("whiteboard", 0.0, 1),  # entries: whiteboard
    Layer("recall", 0.0, 3),  # search results of every kind
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

    # Each layer gets its floor and its weight times a common level, up to what it wants. Raise the
    # level until the budget is spent: from one layer that has all it wants to the next.
    open_layers = [
        (limit - floor, layer.weight)
        for layer, limit, floor in zip(layers, limits, floors, strict=True)
        if limit > floor
    ]
    open_layers.sort(key=lambda layer: layer[0] / layer[1])
    available -= sum(map(min, limits, floors))
    weights = sum(weight for _, weight in open_layers)
    level = max([0, *limits])
    for missing, weight in open_layers:
        if available * weight < missing * weights:
            level = available // weights
            break
        available -= missing
        weights -= weight
    return [
        min(limit, floor + layer.weight * level) // LEVEL_STEPS
        for layer, limit, floor in zip(layers, limits, floors, strict=True)
    ]

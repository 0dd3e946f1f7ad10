"""Sharing a token budget between the layers of a context: floors first, the rest by weight, and what one layer does not
need goes to the others.

Pure arithmetic. It never gives out more than there is, keeps every floor that can be kept, and a larger budget gives no
layer less than a smaller one did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_STEP = 1000


@dataclass(frozen=True)
class Layer:
    """A part of the context: the share of the budget that is its own, and its weight in sharing the rest."""

    name: str
    floor: float
    weight: int


LAYERS = (
    Layer("private", 0.10, 2),
    Layer("notes", 0.10, 2),
    Layer("summary", 0.15, 2),
    Layer("references", 0.05, 1),
    Layer("window", 0.30, 8),
    Layer("state", 0.0, 1),
    Layer("whiteboard", 0.0, 1),
    Layer("recall", 0.0, 3),
)
"""The layers that share what the system prompt and the new message leave."""


def share(budget: int, wants: Sequence[int], layers: Sequence[Layer] = LAYERS) -> list[int]:
    """How many tokens each layer gets, of what it wants."""
    floors, left = [], max(budget, 0)
    for layer, want in zip(layers, wants, strict=True):
        floors.append(min(want, int(layer.floor * max(budget, 0)), left))
        left -= floors[-1]

    def given(level: int) -> list[int]:
        raised = zip(layers, wants, floors, strict=True)
        return [min(want, floor + layer.weight * level // _STEP) for layer, want, floor in raised]

    low, high = 0, max([0, *wants]) * _STEP + 1
    while high - low > 1:  # the highest level to which all can be raised together
        level = (low + high) // 2
        low, high = (level, high) if sum(given(level)) <= budget else (low, level)
    return given(low)

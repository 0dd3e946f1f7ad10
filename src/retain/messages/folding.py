"""Fold points: where the summarized part of a conversation may end without splitting tool calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from retain.messages import pairing

_FRAME = 8  # tokens of a message in a transcript besides its text


@dataclass(frozen=True)
class Turn:
    """The fields of a message that determine fold points."""

    seq: int
    role: str
    tokens: int
    content: dict[str, Any]


@dataclass(frozen=True)
class FoldPoint:
    """A possible end of a fold: its last message, and the tokens since the previous fold point."""

    seq: int
    tokens: int


def fold_points(turns: Sequence[Turn], keep: int, patience: int) -> list[FoldPoint]:
    """Return the fold points that leave at least `keep` turns, or come as near as pairs allow.

    The last message is never folded: an agent may be in the middle of a turn.
    """
    free = pairing.safe_cuts(turns)
    for place in _open(turns):
        if len(turns) - place <= patience:  # its result may still arrive
            free[place + 1 :] = [False] * (len(free) - place - 1)
    places = [place for place in range(1, len(turns)) if free[place]]
    goal = len(turns) - keep
    near = [place for place in places if place <= goal] or places[:1]
    if near and near[-1] != goal:  # the end has to move anyway: prefer to end before a user message
        asking = [
            place for place in near if near[-1] - place <= keep // 2 and turns[place].role == "user"
        ]
        near = near[: near.index(asking[-1]) + 1] if asking else near
    points = []
    start = 0
    for place in near:
        points.append(
            FoldPoint(
                turns[place - 1].seq, sum(turn.tokens + _FRAME for turn in turns[start:place])
            )
        )
        start = place
    return points


def _open(turns: Sequence[Turn]) -> list[int]:
    """Return the places of calls without a result; a call with an id needs a result with it."""
    waiting: dict[str, int] = {}
    nameless: list[str] = []
    for place, turn in enumerate(turns):
        for result in pairing.tool_results(turn.role, turn.content):
            waiting.pop(result.id or (nameless.pop(0) if nameless else ""), None)
        if turn.role == "assistant" and (calls := pairing.tool_calls(turn.content)):
            nameless = [f"{place} {n}" for n, call in enumerate(calls) if not call.id]
            waiting.update(
                dict.fromkeys([*nameless, *[call.id for call in calls if call.id]], place)
            )
        elif turn.role != "tool":
            nameless = []
    return sorted(set(waiting.values()))

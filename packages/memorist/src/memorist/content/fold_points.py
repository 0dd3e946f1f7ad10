"""Fold points: where the summarized part of a conversation may end without splitting tool calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memorist.content import pairing

_FRAME = 8  # tokens of a message in a transcript besides its text


@dataclass(frozen=True)
class FoldMessage:
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


def fold_points(turns: Sequence[FoldMessage], keep: int, patience: int) -> list[FoldPoint]:
    """Return the fold points that leave at least `keep` turns, as far as tool calls allow.

    The last message is never folded: an agent may be in the middle of a turn.
    """
    can_end = pairing.safe_cuts(turns)
    for call in _calls_without_result(turns):
        if len(turns) - call <= patience:  # the result may still arrive
            can_end[call + 1 :] = [False] * (len(can_end) - call - 1)
    ends = [end for end in range(1, len(turns)) if can_end[end]]
    goal = len(turns) - keep
    chosen = [end for end in ends if end <= goal] or ends[:1]
    if chosen and chosen[-1] != goal:
        # The fold cannot end at the goal: prefer an end before a user message nearby.
        nearby = [end for end in chosen if chosen[-1] - end <= keep // 2]
        before_user = [end for end in nearby if turns[end].role == "user"]
        if before_user:
            chosen = chosen[: chosen.index(before_user[-1]) + 1]
    points = []
    start = 0
    for end in chosen:
        tokens = sum(turn.tokens + _FRAME for turn in turns[start:end])
        points.append(FoldPoint(turns[end - 1].seq, tokens))
        start = end
    return points


def _calls_without_result(turns: Sequence[FoldMessage]) -> list[int]:
    """Return the indexes of turns whose tool calls have no result yet.

    A call with an id needs a result with the same id.
    """
    waiting: dict[str, int] = {}  # call id → index of its turn
    calls_without_id: list[str] = []
    for index, turn in enumerate(turns):
        for result in pairing.tool_results(turn.role, turn.content):
            id = result.id or (calls_without_id.pop(0) if calls_without_id else "")
            waiting.pop(id, None)
        calls = pairing.tool_calls(turn.content) if turn.role == "assistant" else []
        if calls:
            calls_without_id = [f"{index} {n}" for n, call in enumerate(calls) if not call.id]
            ids = [call.id for call in calls if call.id]
            waiting |= dict.fromkeys([*calls_without_id, *ids], index)
        elif turn.role != "tool":
            calls_without_id = []
    return sorted(set(waiting.values()))

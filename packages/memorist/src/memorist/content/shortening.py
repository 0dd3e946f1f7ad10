"""Shorten long messages for a prompt to their beginning, their end and a placeholder."""

from __future__ import annotations

import json
from typing import Any

from memorist.base import limits, tokens

TOKENS_PER_CALL = 12
MIN_CALL_TOKENS = 24


def largest_in_window(room: int) -> int:
    """Return the maximum number of tokens of one earlier message in a window of `room` tokens.

    It is a power of two, so that a slightly different `room` does not change every prompt.
    """
    quarter = 1 << max((room // 4).bit_length() - 1, 0)
    return min(max(quarter, limits.SHORT_TOKENS), max(room // 2, 1))


def prompt_tokens(role: str, size: int, has_calls: bool, room: int) -> int:
    """Estimate the tokens in a prompt of a message that is not the newest."""
    if size > limits.REF_TOKENS and (role == "user" or has_calls):
        size = limits.SHORT_TOKENS
    if size <= limits.SHORT_TOKENS and 2 * size <= room:
        return size  # most messages, which fit in any case
    return min(size, largest_in_window(room))


def leave_out_middle(text: str, room: int, what: str, mark: str = "") -> str:
    """Return the beginning and the end of a text, with a notice in place of the middle.

    what: the name of the text, such as "message 12"
    mark: the placeholder that opens the whole text; omitted if there is little room
    """
    if tokens.estimate(text) <= room:
        return text
    gap = f" … (the middle of {what} is left out) … "
    if mark:
        marked = f" … (the middle of {what} is left out: {mark}) … "
        if 2 * tokens.estimate(marked) <= room:
            gap = marked
    half = (room - tokens.estimate(gap)) // 2
    if half <= 0:
        return ""
    return tokens.cut(text, half) + gap + tokens.cut(text, half, end=True)


def shorten_arguments(arguments: Any, room: int, mark: str) -> Any:
    """Return the arguments of a tool call with long texts shortened and other values unchanged.

    mark: the placeholder that opens the whole arguments; "" if there is none
    """
    size = argument_tokens(arguments)
    if size <= max(room, MIN_CALL_TOKENS):
        return arguments
    values = arguments
    if isinstance(arguments, str):
        try:
            values = json.loads(arguments)
        except (ValueError, RecursionError):
            values = None
    if isinstance(values, dict):
        long_names = [
            name
            for name, value in values.items()
            if isinstance(value, str) and tokens.estimate(value) > room // (2 * len(values))
        ]
        rest = {name: value for name, value in values.items() if name not in long_names}
        share = (room - argument_tokens(rest)) // max(len(long_names), 1)
        short = {
            name: leave_out_middle(value, share, name, mark) if name in long_names else value
            for name, value in values.items()
        }
        if argument_tokens(short) <= room + MIN_CALL_TOKENS:
            return short
    left_out = {"left_out": f"{size:,} tokens of arguments"}
    with_mark = {**left_out, "reference": mark}
    if mark and argument_tokens(with_mark) <= room:
        return with_mark
    return left_out


def argument_tokens(arguments: Any) -> int:
    """Return the tokens of the arguments of a tool call."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return tokens.estimate(text)

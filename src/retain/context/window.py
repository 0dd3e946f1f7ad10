"""The recent turns of a context: which messages fit, where they begin, and each as it is said to a model.

Where they begin matters for a provider's prompt cache: a window that slides by one message each turn is a new prompt each
turn. So it begins where the numbers of the messages pass a multiple of a power of two, the largest of which there is one
in the half of the window that can be given up; and stays there until that no longer fits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from retain.base import tokens
from retain.context.render import Said
from retain.messages import placeholder
from retain.messages.content import TOKENS_PER_IMAGE, TOKENS_PER_MESSAGE, images, spoken_text
from retain.messages.message import Message
from retain.messages.pairing import (
    Call,
    Result,
    is_plain_text,
    match_results,
    safe_cuts,
    tool_calls,
    tool_results,
)

NO_RESULT = "(No result was stored for this call.)"
_SMALLEST = 24


class Line(NamedTuple):
    """What is said for one stored message, and its cost."""

    seq: int
    said: list[Said]
    tokens: int


@dataclass(frozen=True)
class Voices:
    """Who speaks in a conversation: this agent and its user; in a group every other voice is named."""

    me: str
    user: str
    group: bool = False


def begin(messages: Sequence[Message], room: int) -> int:
    """The place of the message with which a window of so many tokens begins; their number, if none fits."""
    costs = [0] * (len(messages) + 1)
    for place in range(len(messages) - 1, -1, -1):
        costs[place] = costs[place + 1] + messages[place].tokens
    free = safe_cuts(messages)
    fitting = [place for place in range(len(messages)) if free[place] and costs[place] <= room]
    if not fitting or fitting[0] == 0:
        return fitting[0] if fitting else len(messages)
    spoken = [place for place in fitting if messages[place].role == "user"] or fitting
    least = (
        costs[spoken[0]] // 2
    )  # at most half of what fits is given up, for a beginning that lasts
    lasting = [place for place in spoken if costs[place] >= least]
    seqs = [messages[place].seq for place in lasting]
    passed = [
        (one ^ two).bit_length()
        for one, two in zip([messages[lasting[0] - 1].seq, *seqs], seqs, strict=False)
    ]
    step = (seqs[-1] - seqs[0] + 1).bit_length()
    return next(
        (place for place, bits in zip(lasting, passed, strict=True) if bits >= step), lasting[0]
    )


def window(
    messages: Sequence[Message], room: int, known: Mapping[str, str], voices: Voices
) -> list[Line]:
    """The recent turns within so many tokens; of a turn that is too long, what was asked and how it ends."""
    least = room
    for _ in range(4):
        found = _window(messages, least, known, voices)
        cost = sum(line.tokens for line in found)
        if cost <= room:
            return found
        least -= (
            cost - room
        )  # a call without its result was given one, or is longer in this shape than as it is stored
    return []


def _window(
    messages: Sequence[Message], room: int, known: Mapping[str, str], voices: Voices
) -> list[Line]:
    start = begin(messages, room)
    if start == 0 or (start < len(messages) and messages[start].role == "user"):
        return lines(messages[start:], known, voices)
    asked = max(
        (place for place in range(min(start, len(messages))) if messages[place].role == "user"),
        default=None,
    )
    question = [] if asked is None else lines([messages[asked]], known, voices)
    question = [shorten(line, room // 3) for line in question]
    rest = room - sum(line.tokens for line in question)
    later = list(messages[0 if asked is None else asked + 1 :])
    start = begin(later, rest)
    if start < len(later) or not later:
        return question + lines(later[start:], known, voices)
    free = safe_cuts(later)
    end = lines(later[max(place for place in range(len(later)) if free[place]) :], known, voices)
    most = rest
    for place, line in enumerate(
        sorted(end, key=lambda line: line.tokens)
    ):  # the short ones whole, the long ones alike
        share = most // (len(end) - place)
        if line.tokens > share:
            end = [shorten(other, share) if other.tokens > share else other for other in end]
            break
        most -= line.tokens
    return question + end


def lines(messages: Sequence[Message], known: Mapping[str, str], voices: Voices) -> list[Line]:
    """Each message as it is said: right after each call its result, and nothing that passes for a placeholder but is none.

    A result whose call is not here is not said.
    """
    found: list[Line] = []
    pairs = match_results(messages)
    for place, message in enumerate(messages):
        role, text = message.role, message.text
        if not voices.group and role in ("user", "assistant") and is_plain_text(message):
            safe = placeholder.verify(text, known)
            cost = message.tokens if safe is text else TOKENS_PER_MESSAGE + tokens.estimate(safe)
            found.append(Line(message.seq, [Said(role, safe)], cost))
            continue
        content = message.content
        mine = not voices.group or role != "assistant" or message.author in (None, voices.me)
        said = _said(message, placeholder.verify(spoken_text(content), known), voices, mine)
        made = _named(message.seq, tool_calls(content)) if role == "assistant" and mine else []
        if made or said.text or said.images:
            said = said._replace(calls=made)
            found.append(Line(message.seq, [said], size(said)))
        for number, call in enumerate(made):
            where = pairs.get((place, number))
            answer = messages[where[0]] if where else message
            output = (
                tool_results(answer.role, answer.content)[where[1]].output if where else NO_RESULT
            )
            result = Said(
                "tool", placeholder.verify(_text(output), known), result=Result(call.id, None)
            )
            found.append(Line(answer.seq, [result], size(result)))
    return found


def shorten(line: Line, room: int) -> Line:
    """A line that is too long for its place: the middle of its texts is left out, and so are arguments that are too long."""
    if line.tokens <= room:
        return line
    each = max(room // max(len(line.said), 1) - TOKENS_PER_MESSAGE, 0)
    said = []
    for part in line.said:
        made = [_shorter_call(call, each // (2 * len(part.calls))) for call in part.calls]
        left = each - (size(part._replace(text="", calls=made)) - TOKENS_PER_MESSAGE)
        said.append(part._replace(text=_shorter(part.text, left, line.seq), calls=made))
    return Line(line.seq, said, sum(size(part) for part in said))


def size(said: Said) -> int:
    """What a message costs."""
    called = sum(_cost(call) for call in said.calls)
    return (
        TOKENS_PER_MESSAGE
        + tokens.estimate(said.text)
        + called
        + TOKENS_PER_IMAGE * len(said.images)
    )


def _said(message: Message, text: str, voices: Voices, mine: bool) -> Said:
    """A message's own words; in a group every voice but the agent's own is named, and cannot be played by another."""
    if message.role == "tool":
        return Said("tool", "")
    name = None
    if voices.group and message.role == "user":
        name = message.author or voices.user
    elif not mine:
        name = message.author
    role = message.role if mine else "user"
    return Said(role, labelled(name, text) if name and text else text, images(message.content))


def labelled(name: str, text: str) -> str:
    """Text with its speaker's name; further lines are indented, so that none of them begins with a name."""
    return f"{name}: " + "\n  ".join(text.splitlines())


def _named(seq: int, made: Sequence[Call]) -> list[Call]:
    """Calls, each with an id of its own."""
    found: list[Call] = []
    for number, call in enumerate(made):
        taken = {other.id for other in found}
        id = call.id if call.id and call.id not in taken else f"call_{seq}_{number}"
        found.append(Call(id, call.name, call.arguments))
    return found


def _cost(call: Call) -> int:
    arguments = (
        call.arguments
        if isinstance(call.arguments, str)
        else json.dumps(call.arguments, ensure_ascii=False)
    )
    return tokens.estimate(call.name) + tokens.estimate(arguments) + 12


def _shorter_call(call: Call, room: int) -> Call:
    cost = _cost(call)
    return (
        call
        if cost <= max(room, _SMALLEST)
        else Call(call.id, call.name, {"left_out": f"{cost:,} tokens of arguments"})
    )


def _shorter(text: str, room: int, seq: int) -> str:
    if tokens.estimate(text) <= room:
        return text
    left_out = f" … (the middle of message {seq} is left out) … "
    half = (room - tokens.estimate(left_out)) // 2
    return tokens.cut(text, half) + left_out + tokens.cut(text, half, end=True) if half > 0 else ""


def _text(output: Any) -> str:
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)

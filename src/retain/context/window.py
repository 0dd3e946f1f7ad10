"""The recent messages of a context: which of them fit, and how each is shown to a model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from retain.base import tokens
from retain.context.render import PromptMessage
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
MIN_CALL_TOKENS = 24
TOKENS_PER_CALL = 12
MAX_ATTEMPTS = 4


class Line(NamedTuple):
    """One stored message, or one tool result, as it is shown to a model, and its tokens."""

    seq: int
    message: PromptMessage
    tokens: int


@dataclass(frozen=True)
class Speakers:
    """The agent and the user of a conversation; in a group every other speaker is named."""

    agent: str
    user: str
    group: bool = False


def window_start(messages: Sequence[Message], budget: int) -> int:
    """Return the index at which a window of at most `budget` tokens starts.

    A window that slides by one message per turn changes the whole prompt and defeats the provider's
    prompt cache. So the start moves in large steps: it may give up half of the budget to land on a
    message whose number is a multiple of a large power of two, and then stays there for many turns.

    Returns `len(messages)` if not even the last message fits.
    """
    token_sums = suffix_sums(message.tokens for message in messages)
    candidates = [
        index
        for index, can_start in enumerate(safe_cuts(messages)[: len(messages)])
        if can_start and token_sums[index] <= budget
    ]
    if not candidates:
        return len(messages)
    if candidates[0] == 0:
        return 0  # everything fits

    # Prefer to start with a user message.
    user_starts = [index for index in candidates if messages[index].role == "user"]
    candidates = user_starts or candidates

    # Keep at least half of what would fit.
    minimum = token_sums[candidates[0]] // 2
    candidates = [index for index in candidates if token_sums[index] >= minimum]
    return most_aligned(candidates, [message.seq for message in messages])


def suffix_sums(values: Iterable[int]) -> list[int]:
    """Return for each position the sum of the values from there to the end."""
    sums = []
    total = 0
    for value in reversed(list(values)):
        total += value
        sums.append(total)
    return sums[::-1]


def most_aligned(candidates: Sequence[int], seqs: Sequence[int]) -> int:
    """Return the first candidate whose number passes a multiple of a power of two.

    The power of two is the largest that is not larger than the span of the candidates' numbers.
    `candidates` are indexes into `seqs`, and none of them is 0.
    """
    span = seqs[candidates[-1]] - seqs[candidates[0]] + 1
    previous = seqs[candidates[0] - 1]
    for index in candidates:
        # The highest bit in which two numbers differ tells which power of two lies between them.
        if (previous ^ seqs[index]).bit_length() >= span.bit_length():
            return index
        previous = seqs[index]
    return candidates[0]


def window(
    messages: Sequence[Message], budget: int, known: Mapping[str, str], speakers: Speakers
) -> list[Line]:
    """Return the recent messages within a budget.

    Of a last turn that is too long on its own, the question and the end are kept, shortened.
    `known` has the references that exist: key → placeholder.
    """
    room = budget
    for _ in range(MAX_ATTEMPTS):
        shown = _window(messages, room, known, speakers)
        excess = sum(line.tokens for line in shown) - budget
        if excess <= 0:
            return shown
        # A call without a result was given one, or is longer when shown than it is stored.
        room -= excess
    return []


def _window(
    messages: Sequence[Message], room: int, known: Mapping[str, str], speakers: Speakers
) -> list[Line]:
    start = window_start(messages, room)
    if start == 0 or (start < len(messages) and messages[start].role == "user"):
        return lines(messages[start:], known, speakers)

    # The turn that is cut: its question first, then as much of its end as fits.
    question_index = max(
        (index for index in range(min(start, len(messages))) if messages[index].role == "user"),
        default=-1,
    )
    question: list[Line] = []
    if question_index >= 0:
        question = lines([messages[question_index]], known, speakers)
        question = [shorten(line, room // 3) for line in question]
    room -= sum(line.tokens for line in question)
    rest = list(messages[question_index + 1 :])
    start = window_start(rest, room)
    if start < len(rest) or not rest:
        return question + lines(rest[start:], known, speakers)

    # Not even the last message fits whole.
    can_start = safe_cuts(rest)
    last_start = max(index for index in range(len(rest)) if can_start[index])
    return question + _shorten_to_fit(lines(rest[last_start:], known, speakers), room)


def _shorten_to_fit(shown: list[Line], room: int) -> list[Line]:
    """Keep short lines whole and give the long ones equal shares of the rest."""
    by_size = sorted(shown, key=lambda line: line.tokens)
    for index, line in enumerate(by_size):
        share = room // (len(by_size) - index)
        if line.tokens > share:
            return [shorten(other, share) for other in shown]
        room -= line.tokens
    return shown


def lines(messages: Sequence[Message], known: Mapping[str, str], speakers: Speakers) -> list[Line]:
    """Return messages as a model is shown them, each tool call followed by its results.

    A result without its call is left out, and text that imitates a placeholder of a reference that
    is not `known` is made harmless.
    """
    shown: list[Line] = []
    pairs = match_results(messages)
    for index, message in enumerate(messages):
        if not speakers.group and message.role in ("user", "assistant") and is_plain_text(message):
            shown.append(_plain_line(message, known))
            continue
        content = message.content
        is_own = (
            not speakers.group
            or message.role != "assistant"
            or message.author in (None, speakers.agent)
        )
        text = placeholder.verify(spoken_text(content), known)
        prompt_message = _prompt_message(message, text, speakers, is_own)
        own_calls: list[Call] = []
        if message.role == "assistant" and is_own:
            own_calls = _with_unique_ids(message.seq, tool_calls(content))
        if own_calls or prompt_message.text or prompt_message.images:
            prompt_message = prompt_message._replace(calls=own_calls)
            shown.append(Line(message.seq, prompt_message, size(prompt_message)))
        for number, call in enumerate(own_calls):
            answer = message
            output: Any = NO_RESULT
            if pair := pairs.get((index, number)):
                answer = messages[pair[0]]
                output = tool_results(answer.role, answer.content)[pair[1]].output
            text = placeholder.verify(_output_text(output), known)
            result = PromptMessage("tool", text, result=Result(call.id, None))
            shown.append(Line(answer.seq, result, size(result)))
    return shown


def _plain_line(message: Message, known: Mapping[str, str]) -> Line:
    text = message.text
    safe = placeholder.verify(text, known)
    cost = message.tokens if safe is text else TOKENS_PER_MESSAGE + tokens.estimate(safe)
    return Line(message.seq, PromptMessage(message.role, safe), cost)


def shorten(line: Line, room: int) -> Line:
    """Shorten a line to fit: leave out the middle of its text, and arguments that are too long."""
    if line.tokens <= room:
        return line
    message = line.message
    room = max(room - TOKENS_PER_MESSAGE, 0)
    short_calls = [_shorten_call(call, room // (2 * len(message.calls))) for call in message.calls]
    frame = size(message._replace(text="", calls=short_calls)) - TOKENS_PER_MESSAGE
    text = _leave_out_middle(message.text, room - frame, line.seq)
    message = message._replace(text=text, calls=short_calls)
    return Line(line.seq, message, size(message))


def size(message: PromptMessage) -> int:
    """Return the tokens of a message."""
    return (
        TOKENS_PER_MESSAGE
        + tokens.estimate(message.text)
        + sum(_call_tokens(call) for call in message.calls)
        + TOKENS_PER_IMAGE * len(message.images)
    )


def _prompt_message(message: Message, text: str, speakers: Speakers, is_own: bool) -> PromptMessage:
    """Return the text of a message; in a group with the name of its speaker, if not the agent."""
    if message.role == "tool":
        return PromptMessage("tool", "")
    name = None
    if speakers.group and message.role == "user":
        name = message.author or speakers.user
    elif not is_own:
        name = message.author
    if name and text:
        text = with_speaker(name, text)
    role = message.role if is_own else "user"
    return PromptMessage(role, text, images(message.content))


def with_speaker(name: str, text: str) -> str:
    """Return text after its speaker's name; further lines are indented, so none has a name."""
    return f"{name}: " + "\n  ".join(text.splitlines())


def _with_unique_ids(seq: int, made: Sequence[Call]) -> list[Call]:
    unique: list[Call] = []
    for number, call in enumerate(made):
        taken = {other.id for other in unique}
        id = call.id if call.id and call.id not in taken else f"call_{seq}_{number}"
        unique.append(Call(id, call.name, call.arguments))
    return unique


def _call_tokens(call: Call) -> int:
    arguments = _output_text(call.arguments)
    return tokens.estimate(call.name) + tokens.estimate(arguments) + TOKENS_PER_CALL


def _shorten_call(call: Call, room: int) -> Call:
    cost = _call_tokens(call)
    if cost <= max(room, MIN_CALL_TOKENS):
        return call
    return Call(call.id, call.name, {"left_out": f"{cost:,} tokens of arguments"})


def _leave_out_middle(text: str, room: int, seq: int) -> str:
    if tokens.estimate(text) <= room:
        return text
    mark = f" … (the middle of message {seq} is left out) … "
    half = (room - tokens.estimate(mark)) // 2
    if half <= 0:
        return ""
    return tokens.cut(text, half) + mark + tokens.cut(text, half, end=True)


def _output_text(output: Any) -> str:
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)

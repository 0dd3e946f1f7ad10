"""The recent messages of a context: which of them fit, and how each is shown to a model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

from memorist.base import limits, tokens
from memorist.content import placeholder
from memorist.content.message import Message
from memorist.content.message_content import (
    TOKENS_PER_IMAGE,
    TOKENS_PER_MESSAGE,
    images,
    spoken_text,
)
from memorist.content.pairing import (
    ToolCall,
    ToolResult,
    is_plain_text,
    match_results,
    safe_cuts,
    tool_calls,
    tool_results,
)
from memorist.content.shortening import (
    MIN_CALL_TOKENS,
    TOKENS_PER_CALL,
    argument_tokens,
    largest_in_window,
    leave_out_middle,
    shorten_arguments,
)
from memorist.context.render import PromptMessage, fence
from memorist.kinds import trust

NO_RESULT = "(No result was stored for this call.)"


class WindowLine(NamedTuple):
    """One stored message or tool result in the form that a model reads, and its tokens."""

    seq: int
    message: PromptMessage
    tokens: int
    mark: str = ""  # the placeholder with which the model can open a long message in full


@dataclass(frozen=True)
class Speakers:
    """The agent and the user of a conversation; in a group every other speaker is named."""

    agent: str
    user: str
    group: bool = False


def window_start(
    messages: Sequence[Message],
    budget: int,
    sizes: Sequence[int] | None = None,
    *,
    is_complete: bool = True,
) -> int:
    """Return the index at which a window of at most `budget` tokens starts.

    A window that slides by one message per turn changes the whole prompt and defeats the provider's
    prompt cache. So the start moves in large steps: it may give up half of the budget to land on a
    message whose number is a multiple of a large power of two, and then stays there for many turns.

    sizes:       the tokens of the messages as shown (default: as stored)
    is_complete: False if older messages were not read; then the start moves in steps, too, although
                 all of `messages` may fit

    Returns `len(messages)` if not even the last message fits.
    """
    token_sums = suffix_sums(sizes or [message.tokens for message in messages])
    candidates = [
        index
        for index, can_start in enumerate(safe_cuts(messages)[: len(messages)])
        if can_start and token_sums[index] <= budget
    ]
    if not candidates:
        return len(messages)
    if candidates[0] == 0 and is_complete:
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
    `candidates` are indexes into `seqs`.
    """
    first = candidates[0]
    span = seqs[candidates[-1]] - seqs[first] + 1
    previous = seqs[first - 1] if first else seqs[0] - 1
    for index in candidates:
        # The highest bit in which two numbers differ is the power of two that lies between them.
        if (previous ^ seqs[index]).bit_length() >= span.bit_length():
            return index
        previous = seqs[index]
    return candidates[0]


def window(
    messages: Sequence[Message],
    budget: int,
    known: Mapping[str, str],
    speakers: Speakers,
    *,
    ends_with_question: bool = True,
    is_complete: bool = True,
) -> list[WindowLine]:
    """Return the recent messages within a budget.

    One long message does not push out the others: it is shortened to its beginning, its end and a
    placeholder. The newest user message is shown in full if it fits. If the last turn alone is too
    long, its question and its end are shown, both shortened.

    known:              the references that exist: key → placeholder
    ends_with_question: False if a newer user message follows the window
    is_complete:        False if there are older messages that were not read
    """
    shown = lines(messages, known, speakers)
    user_seqs = {message.seq for message in messages if message.role == "user"}
    newest = _newest_question(user_seqs, shown) if ends_with_question else 0
    limited = []
    for line in shown:
        if line.tokens > limits.SHORT_TOKENS and line.seq != newest:
            line = _limited(line, budget, line.seq in user_seqs)  # noqa: PLW2901
        if line.tokens > budget and newest and newest == messages[-1].seq:
            line = shorten(line, 3 * budget // 4)  # noqa: PLW2901
        limited.append(line)
    return _fit(messages, limited, budget, is_complete)


def _newest_question(user_seqs: Set[int], shown: Sequence[WindowLine]) -> int:
    """Return the number of the newest message with text of the user; 0 if there is none."""
    questions = [
        line.seq for line in shown if line.seq in user_seqs and line.message.result is None
    ]
    return questions[-1] if questions else 0


def _limited(line: WindowLine, budget: int, is_from_user: bool) -> WindowLine:
    """Shorten a line that is too long for an earlier message.

    A long message of a user is shortened further if the model can open it by a placeholder. In a
    group, messages of other agents have the role "user" in the prompt, but are not from a user.
    """
    image_tokens = TOKENS_PER_IMAGE * len(line.message.images)
    text_tokens = line.tokens - image_tokens
    if text_tokens <= limits.SHORT_TOKENS:
        return line
    limit = largest_in_window(budget)
    is_user_text = is_from_user and line.message.role == "user"
    if text_tokens > limits.REF_TOKENS and is_user_text and line.mark:
        limit = min(limit, limits.SHORT_TOKENS)
    return shorten(line, limit + image_tokens)


def _fit(
    messages: Sequence[Message], shown: Sequence[WindowLine], budget: int, is_complete: bool
) -> list[WindowLine]:
    """Return the last lines that fit."""
    sizes_by_seq = dict.fromkeys((message.seq for message in messages), 0)
    for line in shown:
        sizes_by_seq[line.seq] += line.tokens
    sizes = list(sizes_by_seq.values())

    def lines_from(start: int) -> list[WindowLine]:
        if start >= len(messages):
            return []
        return [line for line in shown if line.seq >= messages[start].seq]

    start = window_start(messages, budget, sizes, is_complete=is_complete)
    if start == 0 or (start < len(messages) and messages[start].role == "user"):
        return lines_from(start)

    # The turn that is cut: its question first, then as much of its end as fits.
    question_index = max(
        (index for index in range(min(start, len(messages))) if messages[index].role == "user"),
        default=-1,
    )
    question: list[WindowLine] = []
    if question_index >= 0:
        seq = messages[question_index].seq
        question = [shorten(line, budget // 3) for line in shown if line.seq == seq]
    room = budget - sum(line.tokens for line in question)
    first = question_index + 1
    rest = messages[first:]
    start = window_start(rest, room, sizes[first:])
    if start < len(rest) or not rest:
        return question + lines_from(first + start)

    # Not even the last message fits whole.
    can_start = safe_cuts(rest)
    last_start = max(index for index in range(len(rest)) if can_start[index])
    return question + _shorten_to_fit(lines_from(first + last_start), room)


def _shorten_to_fit(shown: list[WindowLine], room: int) -> list[WindowLine]:
    """Keep short lines unchanged and give the long lines equal shares of the rest."""
    by_size = sorted(shown, key=lambda line: line.tokens)
    for index, line in enumerate(by_size):
        share = room // (len(by_size) - index)
        if line.tokens > share:
            return [shorten(other, share) for other in shown]
        room -= line.tokens
    return shown


def lines(
    messages: Sequence[Message], known: Mapping[str, str], speakers: Speakers
) -> list[WindowLine]:
    """Return messages in the form that a model reads, each tool call followed by its results.

    A result without its call is left out, and text that imitates a placeholder of a reference that
    is not `known` is made harmless.
    """
    shown: list[WindowLine] = []
    pairs: Mapping[tuple[int, int], tuple[int, int]] | None = None  # found at the first call
    for index, message in enumerate(messages):
        if not speakers.group and message.role in ("user", "assistant"):
            text = message.plain_text
            if text is None and is_plain_text(message):
                text = message.text
            if text is not None:
                shown.append(_plain_line(message, text, known))
                continue
        content = message.content
        is_own = (
            not speakers.group
            or message.role != "assistant"
            or message.author in (None, speakers.agent)
        )
        text = placeholder.verify(spoken_text(content), known)
        prompt_message = _prompt_message(message, text, speakers, is_own)
        calls: list[ToolCall] = []
        results: list[WindowLine] = []
        if message.role == "assistant" and is_own:
            calls = _with_unique_ids(message.seq, tool_calls(content))
        if calls and pairs is None:
            pairs = match_results(messages)
        for number, call in enumerate(calls):
            answer = message
            output: Any = NO_RESULT
            if pairs and (pair := pairs.get((index, number))):
                answer = messages[pair[0]]
                output = tool_results(answer.role, answer.content)[pair[1]].output
            text = placeholder.verify(_output_text(output), known)
            results.append(
                _line(answer, PromptMessage("tool", text, result=ToolResult(call.id, None)))
            )
            if call_tokens(call) > limits.REF_TOKENS:
                mark = known.get(stored_key(call.name, output)) or _mark(message)
                if mark:
                    calls[number] = shorten_call(call, limits.SHORT_TOKENS, mark)
        if calls or prompt_message.text or prompt_message.images:
            shown.append(_line(message, prompt_message._replace(calls=calls)))
        shown += results
    return shown


def stored_key(tool: str, output: Any) -> str:
    """Return the key under which a call of `store_memory` stored its content, or ""."""
    if tool != "store_memory":
        return ""
    if isinstance(output, str):
        try:
            output = json.loads(output)
        except (ValueError, RecursionError):
            return ""
    key = output.get("memory_key") if isinstance(output, Mapping) else None
    return key if isinstance(key, str) else ""


def _line(message: Message, prompt_message: PromptMessage) -> WindowLine:
    cost = size(prompt_message)
    mark = _mark(message) if cost > limits.SHORT_TOKENS else ""
    return WindowLine(message.seq, prompt_message, cost, mark)


def _mark(message: Message) -> str:
    return placeholder.render_message(message.session, message.seq, message.tokens)


def _plain_line(message: Message, text: str, known: Mapping[str, str]) -> WindowLine:
    safe = placeholder.verify(text, known)
    cost = message.tokens if safe is text else TOKENS_PER_MESSAGE + tokens.estimate(safe)
    mark = _mark(message) if cost > limits.SHORT_TOKENS else ""
    return WindowLine(message.seq, PromptMessage(message.role, safe), cost, mark)


def shorten(line: WindowLine, room: int) -> WindowLine:
    """Shorten a line to fit: leave out the middle of its text, and arguments that are too long."""
    if line.tokens <= room:
        return line
    message = line.message
    room = max(room - TOKENS_PER_MESSAGE, 0)
    call_room = room // (2 * max(len(message.calls), 1))
    short_calls = [shorten_call(call, call_room, line.mark) for call in message.calls]
    frame = size(message._replace(text="", calls=short_calls)) - TOKENS_PER_MESSAGE
    text = leave_out_middle(message.text, room - frame, f"message {line.seq}", line.mark)
    message = message._replace(text=text, calls=short_calls)
    return WindowLine(line.seq, message, size(message), line.mark)


def size(message: PromptMessage) -> int:
    """Return the tokens of a message."""
    return (
        TOKENS_PER_MESSAGE
        + tokens.estimate(message.text)
        + sum(call_tokens(call) for call in message.calls)
        + TOKENS_PER_IMAGE * len(message.images)
    )


def _prompt_message(message: Message, text: str, speakers: Speakers, is_own: bool) -> PromptMessage:
    """Return a message for the prompt; in a group, the names of other speakers are added."""
    if message.role == "tool":
        return PromptMessage("tool", "")
    name = None
    if speakers.group and message.role == "user":
        name = message.author or speakers.user
    elif not is_own:
        name = message.author
    if name and text:
        text = with_speaker(name, text)
    if text and message.role == "system" and message.author in trust.NOT_PEOPLE:
        text = fence(text)
    role = message.role if is_own else "user"
    return PromptMessage(role, text, images(message.content))


def with_speaker(name: str, text: str) -> str:
    """Put a speaker's name before a text; indent further lines, so that none looks like a name."""
    return f"{name}: " + "\n  ".join(text.splitlines())


def _with_unique_ids(seq: int, calls: Sequence[ToolCall]) -> list[ToolCall]:
    unique: list[ToolCall] = []
    for number, call in enumerate(calls):
        used_ids = {other.id for other in unique}
        id = call.id if call.id and call.id not in used_ids else f"call_{seq}_{number}"
        unique.append(ToolCall(id, call.name, call.arguments))
    return unique


def call_tokens(call: ToolCall) -> int:
    """Return the tokens of a tool call."""
    return tokens.estimate(call.name) + argument_tokens(call.arguments) + TOKENS_PER_CALL


def shorten_call(call: ToolCall, room: int, mark: str) -> ToolCall:
    """Shorten the arguments of a tool call; `mark` is the placeholder for the full arguments."""
    if call_tokens(call) <= max(room, MIN_CALL_TOKENS):
        return call
    arguments = shorten_arguments(call.arguments, room - TOKENS_PER_CALL, mark)
    return ToolCall(call.id, call.name, arguments)


def _output_text(output: Any) -> str:
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)

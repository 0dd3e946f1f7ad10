"""The recent turns of a context: which messages fit, where they begin, and each as it is said to a model.

Where they begin matters for a provider's prompt cache: a window that slides by one message each turn is a new prompt each
turn. So it begins where the numbers of the messages pass a multiple of a power of two, the largest of which there is one
in the half of the window that can be given up; and stays there until that no longer fits.
"""

from __future__ import annotations

import json
from collections.abc import Container, Sequence
from typing import NamedTuple

from retain import placeholder, tokens
from retain.context.render import Said, images
from retain.talk.content import TOKENS_PER_MESSAGE
from retain.talk.message import Message
from retain.talk.pairing import Call, Result, calls, cuts, plain, results

NO_RESULT = "(No result was stored for this call.)"


class Line(NamedTuple):
    """What is said for one stored message, and its cost."""

    seq: int
    said: list[Said]
    tokens: int


def begin(messages: Sequence[Message], room: int) -> int:
    """The place of the message with which a window of so many tokens begins; their number, if none fits."""
    costs = [0] * (len(messages) + 1)
    for place in range(len(messages) - 1, -1, -1):
        costs[place] = costs[place + 1] + messages[place].tokens
    free = cuts(messages)
    fitting = [place for place in range(len(messages)) if free[place] and costs[place] <= room]
    if not fitting or fitting[0] == 0:
        return fitting[0] if fitting else len(messages)
    spoken = [place for place in fitting if messages[place].role == "user"] or fitting
    least = costs[spoken[0]] // 2  # at most half of what fits is given up, for a beginning that lasts
    lasting = [place for place in spoken if costs[place] >= least]
    seqs = [messages[place].seq for place in lasting]
    passed = [(one ^ two).bit_length() for one, two in zip([messages[lasting[0] - 1].seq, *seqs], seqs, strict=False)]
    step = (seqs[-1] - seqs[0] + 1).bit_length()
    return next((place for place, bits in zip(lasting, passed, strict=True) if bits >= step), lasting[0])


def lines(messages: Sequence[Message], known: Container[str], agent: str | None, group: bool) -> list[Line]:
    """Each message as it is said: calls have ids and results, and nothing passes for a placeholder that is none."""
    found: list[Line] = []
    waiting: dict[str, Call] = {}
    for message in messages:
        if not waiting and not group and message.role in ("user", "assistant") and plain(message):
            text = message.text
            safe = placeholder.neutral(text, known)
            cost = message.tokens if safe is text else TOKENS_PER_MESSAGE + tokens.estimate(safe)
            found.append(Line(message.seq, [Said(message.role, safe)], cost))
            continue
        said = _said(message, waiting, known, agent if group else None)
        if waiting and message.role != "tool" and not any(part.result for part in said):
            found.append(_unanswered(message.seq - 1, waiting))
        for part in said:
            waiting.update({call.id: call for call in part.calls})
            if part.result is not None:
                waiting.pop(part.result.id, None)
        if said:
            found.append(Line(message.seq, said, sum(size(part) for part in said)))
    if waiting:
        found.append(_unanswered(messages[-1].seq, waiting))
    return found


def shorten(line: Line, room: int) -> Line:
    """A line that is too long for its place, with the middle of its texts left out."""
    each = max(room // max(len(line.said), 1) - TOKENS_PER_MESSAGE - 12, 0)
    said = [Said(part.role, _shorter(part.text, each, line.seq), part.images, part.calls, part.result) for part in line.said]
    return Line(line.seq, said, sum(size(part) for part in said))


def size(said: Said) -> int:
    """What a message costs."""
    called = sum(tokens.estimate(call.name) + tokens.estimate(json.dumps(call.arguments)) + 8 for call in said.calls)
    return TOKENS_PER_MESSAGE + tokens.estimate(said.text) + called + 800 * len(said.images)


def _shorter(text: str, room: int, seq: int) -> str:
    if tokens.estimate(text) <= room:
        return text
    left_out = f" … (the middle of message {seq} is left out) … "
    half = max((room - tokens.estimate(left_out)) // 2, 0)
    return tokens.cut(text, half) + left_out + tokens.cut(text, half, end=True)


def _said(message: Message, waiting: dict[str, Call], known: Container[str], me: str | None) -> list[Said]:
    """What one message says, in the neutral form."""
    content = message.content
    text = placeholder.neutral(message.text or _parts_text(content), known)
    if message.role == "assistant" and me is not None and message.author not in (None, me):
        return [Said("user", f"{message.author}: {text}")] if text else []  # another agent's words are not my own
    answered = results(message.role, content)
    if answered:
        said = [Said("tool", placeholder.neutral(_text(result.output), known), result=result) for result in answered]
        return [part for part in _paired(said, waiting) if part is not None]
    if message.role == "tool":
        return []
    asked = calls(content) if message.role == "assistant" else []
    made = [Call(call.id or f"call_{message.seq}_{n}", call.name, call.arguments) for n, call in enumerate(asked)]
    return [Said(message.role, text, images(content), made)]


def _paired(said: Sequence[Said], waiting: dict[str, Call]) -> list[Said | None]:
    """Results with the id of the call that they answer; one that answers none is not said."""
    open_ids = list(waiting)
    found: list[Said | None] = []
    for part in said:
        assert part.result is not None
        id = part.result.id or (open_ids[0] if open_ids else "")
        if id in open_ids:
            open_ids.remove(id)
            found.append(Said("tool", part.text, result=Result(id, None)))
    return found


def _unanswered(seq: int, waiting: dict[str, Call]) -> Line:
    said = [Said("tool", NO_RESULT, result=Result(id, None)) for id in waiting]
    waiting.clear()
    return Line(seq, said, sum(size(part) for part in said))


def _parts_text(content: dict[str, object]) -> str:
    parts = content.get("parts")
    texts = [part.get("text") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return "\n".join(text for text in texts if isinstance(text, str))


def _text(output: object) -> str:
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)

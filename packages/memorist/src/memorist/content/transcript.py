"""Transcripts: a conversation as text, for summaries.

Every line of a message is indented, so that no message can imitate another one or a heading.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memorist.base import tokens as counting
from memorist.content import pairing
from memorist.content.message import Message

MAX_PIECES = 8
_MAX_PART_CHARACTERS = 400  # of a part of an unknown kind
_MAX_NAME_CHARACTERS = 80  # of an author, or of a kind of media
_MIN_OUTPUT_TOKENS = 40  # of each tool output, even if there are many
_MEDIA = re.compile(r"image|audio|video|file|document|media|blob")


def render(messages: Sequence[Message], max_output_tokens: int | None = None) -> str:
    """Render numbered messages; shorten tool outputs over `max_output_tokens`."""
    names: dict[str, str] = {}
    for message in messages:
        names |= {call.id: call.name for call in pairing.tool_calls(message.content) if call.id}
    return "\n".join(_message(message, names, max_output_tokens) for message in messages)


def split(messages: Sequence[Message], room: int) -> list[str]:
    """Return the transcript in as few texts as possible, each of at most `room` tokens.

    Long tool outputs are shortened first. If the text would need more than
    `MAX_PIECES`, its middle is left out, so that any conversation can be summarized.
    """
    transcript = render(messages)
    if counting.estimate(transcript) <= room:
        return [transcript]
    outputs = sum(len(pairing.tool_results(message.role, message.content)) for message in messages)
    if outputs:
        transcript = render(messages, max(_MIN_OUTPUT_TOKENS, room // (2 * outputs)))
    if counting.estimate(transcript) > room * MAX_PIECES:
        transcript = shorten(transcript, room * (MAX_PIECES - 1))
    pieces: list[str] = []
    while transcript:
        piece = counting.cut(transcript, room, not_empty=True)
        line = piece.rfind("\n", len(piece) // 2) + 1 if len(piece) < len(transcript) else 0
        if line and counting.estimate(transcript[line:]) <= room * (MAX_PIECES - 1 - len(pieces)):
            piece = piece[:line]
        pieces.append(piece)
        transcript = transcript[len(piece) :]
    return pieces


def shorten(text: str, tokens: int) -> str:
    """Return the beginning and the end of a text that has more than `tokens`."""
    if counting.estimate(text) <= tokens:
        return text
    head = counting.cut(text, tokens * 2 // 3)
    tail = counting.cut(text, tokens // 3, end=True)
    return f"{head} […{len(text) - len(head) - len(tail)} characters left out…] {tail}"


def visible_text(content: Mapping[str, Any]) -> str:
    """Return the text of a message and of its parts."""
    parts = content.get("parts")
    texts = [content.get("text")]
    if isinstance(parts, list):
        texts += [part.get("text") for part in parts if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def output_text(result: pairing.ToolResult) -> str:
    """Return the output of a tool as text."""
    return result.output if isinstance(result.output, str) else _json(result.output)


def _message(message: Message, names: Mapping[str, str], max_output_tokens: int | None) -> str:
    speaker = f"{message.role} ({_one_line(message.author)})" if message.author else message.role
    body = "\n".join(_lines(message, names, max_output_tokens)) or "(nothing)"
    return f"[{message.seq}] {speaker}:\n" + "\n".join(f"    {line}" for line in body.splitlines())


def _lines(
    message: Message, names: Mapping[str, str], max_output_tokens: int | None
) -> Iterator[str]:
    """Yield the text, tool calls, results and parts of a message."""
    results = pairing.tool_results(message.role, message.content)
    spoken = message.content.get("text")
    if message.role != "tool" and isinstance(spoken, str) and spoken:
        yield spoken
    for call in pairing.tool_calls(message.content):
        arguments = call.arguments if isinstance(call.arguments, str) else _json(call.arguments)
        yield f"calls the tool {call.name} with {arguments}"
    for result in results:
        text = output_text(result)
        if max_output_tokens is not None:
            text = shorten(text, max_output_tokens)
        tool = f" of {names[result.id]}" if result.id in names else ""
        yield f"result{tool}: {text}"
    parts = message.content.get("parts")
    for part in parts if isinstance(parts, list) else ():
        yield from _part(part)
    attached = message.content.get("attachments")
    if isinstance(attached, list) and attached:
        yield f"({len(attached)} attachments)"


def _part(part: Any) -> Iterator[str]:
    """Yield a part that is neither a call nor a result."""
    kind = part.get("type") if isinstance(part, dict) else None
    if pairing.is_call(part) or pairing.is_result(part):
        return
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        yield part["text"]
    elif isinstance(kind, str) and _MEDIA.search(kind):
        yield f"({_one_line(kind)})"
    else:
        text = part if isinstance(part, str) else _json(part)
        yield _shorten_end(text, _MAX_PART_CHARACTERS)


def _one_line(text: str) -> str:
    return _shorten_end(" ".join(text.split()), _MAX_NAME_CHARACTERS)


def _shorten_end(text: str, limit: int) -> str:
    """Shorten a text to `limit` characters."""
    return text if len(text) <= limit else text[: counting.boundary(text, limit) or limit] + "…"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)

"""Events of Google's Agent Development Kit as messages of ours, and back to the last field. Nothing here needs the kit.

What a prompt, a search or a page shows of an event is where every message of ours has it: `text`, or `parts` with what
is said, the tools that are called and what they answered. The event as the kit writes it is under `original`, but for
the words that stand there already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from retain.messages import pairing
from retain.messages.formats.exact import exact_copy, read_exact_copy
from retain.messages.message import Message, NewMessage

_USER = "user"
_ORIGINAL = "original"


def to_message(event: Mapping[str, Any]) -> NewMessage:
    """An event as the kit writes it for others, by its aliases, as a message to be appended."""
    content = event.get("content") or {}
    given = content.get("parts") or []
    kept: dict[str, Any] = {}
    same = exact_copy(event)
    if len(given) == 1 and given[0].keys() == {"text"}:
        kept["text"] = given[0]["text"]
        event = {
            **event,
            "content": {name: value for name, value in content.items() if name != "parts"},
        }
    elif parts := [part for one in given for part in _shown(one)]:
        kept["parts"] = parts
    used = event.get("usageMetadata") or {}
    author = event.get("author") or None
    return NewMessage(
        _role(event),
        {**kept, _ORIGINAL: {**event, **same}},
        author=None if author == _USER else author,
        tokens_in=used.get("promptTokenCount"),
        tokens_out=used.get("candidatesTokenCount"),
        created_at=_moment(event.get("timestamp")),
    )


def from_message(message: Message, content: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A message as the kit reads it; one that did not come from it, as the nearest that it has.

    `content` is what it says, for who reads JSON faster. What is stored says no other role than it was stored with.
    """
    kept = message.content if content is None else content
    original = kept.get(_ORIGINAL)
    if not isinstance(original, dict) or not _is_event(original) or _role(original) != message.role:
        return convert_foreign(message)
    if (same := read_exact_copy(original)) and _is_event(same) and _role(same) == message.role:
        return same
    said = original.get("content")
    if isinstance(said, dict) and "parts" not in said and isinstance(kept.get("text"), str):
        return {**original, "content": {**said, "parts": [{"text": kept["text"]}]}}
    return original


def _shown(part: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What is said, called and answered in a part; what a model only thinks is nobody's words."""
    call, answer = part.get("functionCall"), part.get("functionResponse")
    if isinstance(part.get("text"), str) and not part.get("thought"):
        yield {"type": "text", "text": part["text"]}
    if call:
        named = {
            "id": call.get("id") or "",
            "name": call.get("name") or "",
            "input": call.get("args") or {},
        }
        yield {"type": "tool_use", **named}
    if answer:
        yield {
            "type": "tool_result",
            "tool_use_id": answer.get("id") or "",
            "content": answer.get("response") or {},
        }
    if (data := part.get("inlineData") or part.get("fileData")) and isinstance(data, dict):
        name = data.get("displayName") or data.get("fileUri") or ""
        yield {"type": "file", "media_type": data.get("mimeType") or "", "name": name}


def _role(event: Mapping[str, Any]) -> str:
    """Who speaks: what tools answered is a tool's, whoever brings it."""
    content = event.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    if isinstance(parts, list) and any(
        isinstance(part, dict) and part.get("functionResponse") for part in parts
    ):
        return "tool"
    return _USER if event.get("author") == _USER else "assistant"


def _is_event(original: Mapping[str, Any]) -> bool:
    named = all(isinstance(original.get(name), str) for name in ("id", "invocationId"))
    return named and isinstance(original.get("timestamp"), int | float)


def is_foreign(id: str, session: str) -> bool:
    """Whether an event of that id is what somebody else said in the session."""
    said, _, seq = id.rpartition(" ")
    return said == session and seq.isdecimal()


def convert_foreign(message: Message) -> dict[str, Any]:
    """What somebody else said in the session: its words, its tool calls and their results."""
    parts: list[dict[str, Any]] = (
        [{"text": message.text}] if message.text and message.role != "tool" else []
    )
    parts += [
        {
            "functionCall": {
                "id": call.id,
                "name": call.name,
                "args": call.arguments if isinstance(call.arguments, dict) else {},
            }
        }
        for call in pairing.tool_calls(message.content)
    ]
    parts += [
        {
            "functionResponse": {
                "id": found.id,
                "name": found.id or "tool",
                "response": {"result": found.output},
            }
        }
        for found in pairing.tool_results(message.role, message.content)
    ]
    speaks = message.role == "assistant"
    return {
        "id": f"{message.session} {message.seq}",
        "invocationId": f"{message.session} {message.seq}",
        "author": message.author or ("model" if speaks else _USER),
        "content": {"role": "model" if speaks else _USER, "parts": parts},
        "timestamp": message.created_at.timestamp(),
    }


def _moment(timestamp: Any) -> datetime | None:
    """When it was, as far as that is a moment of ours."""
    if not isinstance(timestamp, int | float) or not 0 < timestamp < datetime.now(UTC).timestamp():
        return None
    return datetime.fromtimestamp(timestamp, UTC)

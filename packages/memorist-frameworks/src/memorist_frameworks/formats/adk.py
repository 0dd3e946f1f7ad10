"""Events of Google's Agent Development Kit as messages, and back without loss.

Text, tool calls and results are stored in `text` or `parts`, as in every message. The original
event is stored under `original`, without a text that is already there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from memorist.content import pairing
from memorist.content.formats.exact import exact_copy, read_exact_copy
from memorist.content.message import Message, NewMessage

_USER = "user"
_ORIGINAL = "original"


def to_message(event: Mapping[str, Any]) -> NewMessage:
    """Convert an event, as the kit serializes it by alias, to a new message."""
    content = event.get("content") or {}
    original_parts = content.get("parts") or []
    stored: dict[str, Any] = {}
    copy = exact_copy(event)
    if len(original_parts) == 1 and original_parts[0].keys() == {"text"}:
        stored["text"] = original_parts[0]["text"]
        event = {
            **event,
            "content": {name: value for name, value in content.items() if name != "parts"},
        }
    else:
        parts: list[dict[str, Any]] = []
        for original in original_parts:
            parts += _shown(original)
        if parts:
            stored["parts"] = parts
    usage = event.get("usageMetadata") or {}
    author = event.get("author") or None
    return NewMessage(
        _role(event),
        {**stored, _ORIGINAL: {**event, **copy}},
        author=None if author == _USER else author,
        tokens_in=usage.get("promptTokenCount"),
        tokens_out=usage.get("candidatesTokenCount"),
        created_at=_moment(event.get("timestamp")),
    )


def from_message(message: Message, content: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Convert a message to an event; a message from elsewhere becomes the nearest equivalent.

    `content` is its parsed content, if the caller has it. The stored role always wins.
    """
    stored = message.content if content is None else content
    original = stored.get(_ORIGINAL)
    if not isinstance(original, dict) or not _is_event(original) or _role(original) != message.role:
        return convert_foreign(message)
    exact = read_exact_copy(original)
    if exact and _is_event(exact) and _role(exact) == message.role:
        return exact
    original_content = original.get("content")
    if (
        isinstance(original_content, dict)
        and "parts" not in original_content
        and isinstance(stored.get("text"), str)
    ):
        return {**original, "content": {**original_content, "parts": [{"text": stored["text"]}]}}
    return original


def _shown(part: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield text, tool calls and results of a part, without the model's thoughts."""
    call = part.get("functionCall")
    answer = part.get("functionResponse")
    if isinstance(part.get("text"), str) and not part.get("thought"):
        yield {"type": "text", "text": part["text"]}
    if call:
        yield {
            "type": "tool_use",
            "id": call.get("id") or "",
            "name": call.get("name") or "",
            "input": call.get("args") or {},
        }
    if answer:
        yield {
            "type": "tool_result",
            "tool_use_id": answer.get("id") or "",
            "content": answer.get("response") or {},
        }
    data = part.get("inlineData") or part.get("fileData")
    if data and isinstance(data, dict):
        name = data.get("displayName") or data.get("fileUri") or ""
        yield {"type": "file", "media_type": data.get("mimeType") or "", "name": name}


def _role(event: Mapping[str, Any]) -> str:
    """Return the role of an event: `tool` if it has tool results."""
    content = event.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    if isinstance(parts, list) and any(
        isinstance(part, dict) and part.get("functionResponse") for part in parts
    ):
        return "tool"
    return _USER if event.get("author") == _USER else "assistant"


def _is_event(original: Mapping[str, Any]) -> bool:
    has_ids = all(isinstance(original.get(name), str) for name in ("id", "invocationId"))
    return has_ids and isinstance(original.get("timestamp"), int | float)


def is_foreign(id: str, session: str) -> bool:
    """Return whether an event id belongs to a message that did not come from the kit."""
    prefix, _, seq = id.rpartition(" ")
    return prefix == session and seq.isdecimal()


def convert_foreign(message: Message) -> dict[str, Any]:
    """Convert a message from elsewhere: text, tool calls and results."""
    parts: list[dict[str, Any]] = []
    if message.text and message.role != "tool":
        parts.append({"text": message.text})
    for call in pairing.tool_calls(message.content):
        arguments = call.arguments if isinstance(call.arguments, dict) else {}
        parts.append({"functionCall": {"id": call.id, "name": call.name, "args": arguments}})
    for result in pairing.tool_results(message.role, message.content):
        response = {
            "id": result.id,
            "name": result.id or "tool",
            "response": {"result": result.output},
        }
        parts.append({"functionResponse": response})
    role = "model" if message.role == "assistant" else _USER
    return {
        "id": f"{message.session} {message.seq}",
        "invocationId": f"{message.session} {message.seq}",
        "author": message.author or role,
        "content": {"role": role, "parts": parts},
        "timestamp": message.created_at.timestamp(),
    }


def _moment(timestamp: Any) -> datetime | None:
    """Return a timestamp as a datetime; None if it is implausible."""
    if not isinstance(timestamp, int | float) or not 0 < timestamp < datetime.now(UTC).timestamp():
        return None
    return datetime.fromtimestamp(timestamp, UTC)

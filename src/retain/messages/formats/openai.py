"""OpenAI's items as our messages, and back to the last field: for its Agents SDK, its Conversations, and its session files.

An item is one message. What a prompt, a search or a page shows of it is where every message of ours has it: `text` and
`parts`; a tool call, its result or a piece of reasoning is a part as it is. What is left over is under `openai`.
Nothing here needs OpenAI's libraries.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from retain.base.errors import Invalid
from retain.messages import pairing
from retain.messages.formats.exact import exact_copy, read_exact_copy
from retain.messages.message import Message, NewMessage

_ROLES = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
}
_ANSWERS = ("_output", "_response", "_result")
_TEXT = '{"text":"'
_WHOLE = "item"
"""Value of `openai` if the only part is the item."""
_SAYS = {
    "input_text",
    "output_text",
    "input_image",
    "input_file",
    "input_audio",
    "refusal",
    "reasoning_text",
    "summary_text",
}


def to_message(item: Any, field: str = "items") -> NewMessage:
    """Convert an item to a new message."""
    if not isinstance(item, Mapping):
        raise Invalid(field=field, problem=f"are objects, and {type(item).__name__} is none")
    role, said, same = _role(item), item.get("content"), exact_copy(item)
    if not _is_message(item):
        return NewMessage(role, {"parts": [dict(item)], "openai": same or _WHOLE})
    rest = {
        name: value
        for name, value in item.items()
        if name != "content" and (name, value) != ("role", role)
    }
    content: dict[str, Any] = {"text": said} if isinstance(said, str) else {"parts": said}
    return NewMessage(
        role,
        {**content, "openai": same or rest}
        if same or rest or _ambiguous(role, content)
        else content,
    )


def from_message(message: Message) -> list[dict[str, Any]]:
    """Convert a message to its item; one from elsewhere to the nearest items.

    The stored role always wins.
    """
    raw, role = message.raw, message.role
    if (
        raw.startswith(_TEXT)
        and "\\" not in raw
        and raw.find('"', len(_TEXT)) == len(raw) - 2
        and role != "tool"
    ):
        return [
            {"role": role, "content": raw[len(_TEXT) : -2]}
        ]  # most are nothing but text, and need no reading
    content = json.loads(raw)
    kept, size = content.get("openai"), len(content)
    said = content.get("text") if "text" in content else content.get("parts")
    if (same := read_exact_copy(kept)) and _role(same) == role:
        return [same]
    if (
        isinstance(kept, dict)
        and size == 2
        and isinstance(said, str if "text" in content else list)
    ):
        found = {"role": role, **kept, "content": said}
        if _role(found) == role and found.get("type", "message") == "message":
            return [found]
    elif (
        kept == _WHOLE
        and size == 2
        and isinstance(said, list)
        and len(said) == 1
        and isinstance(said[0], dict)
    ):
        if _role(said[0]) == role and not _is_message(said[0]):
            return [said[0]]
    elif size == 1 and not _ambiguous(role, content):
        return [{"role": role, "content": said}]
    return _translated(message)


def _ambiguous(role: str, content: Mapping[str, Any]) -> bool:
    """Return whether the content could also come from another provider."""
    return role == "tool" or not isinstance(content.get("text"), str)


def _is_message(item: Mapping[str, Any]) -> bool:
    """Return whether an item is a message, and not a tool call or another action."""
    said = item.get("content")
    is_content = isinstance(said, str) or (
        isinstance(said, list) and all(isinstance(part, dict) for part in said)
    )
    return (
        item.get("type", "message") == "message"
        and isinstance(item.get("role"), str)
        and is_content
    )


def _role(item: Mapping[str, Any]) -> str:
    role, kind = item.get("role"), item.get("type")
    if isinstance(role, str):
        return _ROLES.get(role, "user")
    return "tool" if isinstance(kind, str) and kind.endswith(_ANSWERS) else "assistant"


def _translated(message: Message) -> list[dict[str, Any]]:
    """Convert a message from elsewhere to items: text, tool calls and results."""
    content = message.content
    answers = pairing.tool_results(message.role, content)
    answer = (
        message.text if message.role == "tool" and len(answers) == 1 else ""
    )  # where it is in parts of any other kind
    items: list[dict[str, Any]] = [
        {"type": "function_call_output", "call_id": one.id, "output": _text(one.output or answer)}
        for one in answers
    ]
    calls = pairing.tool_calls(content)
    parts = content.get("parts")
    listed = parts if isinstance(parts, list) else []
    theirs = listed and all(isinstance(part, dict) and part.get("type") in _SAYS for part in listed)
    if message.role != "tool" and (theirs or message.text or not (answers or calls)):
        items.append({"role": message.role, "content": listed if theirs else message.text})
    named = [
        {"call_id": one.id, "name": one.name, "arguments": _text(one.arguments)} for one in calls
    ]
    return [*items, *({"type": "function_call", **one} for one in named)]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

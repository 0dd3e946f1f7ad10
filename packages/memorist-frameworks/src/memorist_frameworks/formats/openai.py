"""OpenAI's items as memorist's messages, and back without loss.

Used for the Agents SDK, Conversations and session files. An item is one message. Text and parts are
stored as in every message; a tool call, its result or a piece of reasoning is a part, unchanged.
The other fields are stored under `openai`. This module does not import OpenAI's libraries.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from memorist.base.errors import Invalid
from memorist.content import pairing
from memorist.content.formats.exact import exact_copy, is_exact, read_exact_copy
from memorist.content.message import Message, NewMessage

_ROLES = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
}
_ANSWERS = ("_output", "_response", "_result")
_COMPLETE_ITEM = "item"
"""Value of `openai` if the only part is the item."""
_TEXT_TYPES = {
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
        raise Invalid(field=field, problem=f"must be objects, not {type(item).__name__}")
    role = _role(item)
    item_content = item.get("content")
    if (
        len(item) == 2
        and item.get("role") == role != "tool"
        and isinstance(item_content, str)
        and is_exact(item_content)
    ):
        return NewMessage(role, item_content)  # most items are only text
    copy = exact_copy(item)
    if not _is_message(item):
        return NewMessage(role, {"parts": [dict(item)], "openai": copy or _COMPLETE_ITEM})
    rest = {
        name: value
        for name, value in item.items()
        if name != "content" and (name, value) != ("role", role)
    }
    name = "text" if isinstance(item_content, str) else "parts"
    content: dict[str, Any] = {name: item_content}
    if copy or rest or _ambiguous(role, content):
        content["openai"] = copy or rest
    return NewMessage(role, content)


def from_message(message: Message) -> list[dict[str, Any]]:
    """Convert a message to its item, or to the nearest equivalent items.

    The stored role always wins.
    """
    role = message.role
    plain = message.plain_text
    if plain is not None and role != "tool":
        return [{"role": role, "content": plain}]
    content = json.loads(message.raw)
    extras = content.get("openai")
    size = len(content)
    body = content.get("text") if "text" in content else content.get("parts")
    exact = read_exact_copy(extras)
    if exact and _role(exact) == role:
        return [exact]
    if (
        isinstance(extras, dict)
        and size == 2
        and isinstance(body, str if "text" in content else list)
    ):
        item = {"role": role, **extras, "content": body}
        if _role(item) == role and item.get("type", "message") == "message":
            return [item]
    elif (
        extras == _COMPLETE_ITEM
        and size == 2
        and isinstance(body, list)
        and len(body) == 1
        and isinstance(body[0], dict)
    ):
        if _role(body[0]) == role and not _is_message(body[0]):
            return [body[0]]
    elif size == 1 and not _ambiguous(role, content):
        return [{"role": role, "content": body}]
    return _translated(message)


def _ambiguous(role: str, content: Mapping[str, Any]) -> bool:
    """Return whether the content could also come from another provider."""
    return role == "tool" or not isinstance(content.get("text"), str)


def _is_message(item: Mapping[str, Any]) -> bool:
    """Return whether an item is a message, and not a tool call or another action."""
    content = item.get("content")
    is_content = isinstance(content, str) or (
        isinstance(content, list) and all(isinstance(part, dict) for part in content)
    )
    return (
        item.get("type", "message") == "message"
        and isinstance(item.get("role"), str)
        and is_content
    )


def _role(item: Mapping[str, Any]) -> str:
    role = item.get("role")
    kind = item.get("type")
    if isinstance(role, str):
        return _ROLES.get(role, "user")
    return "tool" if isinstance(kind, str) and kind.endswith(_ANSWERS) else "assistant"


def _translated(message: Message) -> list[dict[str, Any]]:
    """Convert a message from elsewhere to items: text, tool calls and results."""
    content = message.content
    results = pairing.tool_results(message.role, content)
    # The text is the output if the result is in parts of another kind.
    text_output = message.text if message.role == "tool" and len(results) == 1 else ""
    items: list[dict[str, Any]] = []
    for result in results:
        output = _text(result.output or text_output)
        items.append({"type": "function_call_output", "call_id": result.id, "output": output})
    calls = pairing.tool_calls(content)
    parts = content.get("parts")
    parts = parts if isinstance(parts, list) else []
    are_openai_parts = bool(parts) and all(
        isinstance(part, dict) and part.get("type") in _TEXT_TYPES for part in parts
    )
    has_text = are_openai_parts or message.text or not (results or calls)
    if message.role != "tool" and has_text:
        items.append({"role": message.role, "content": parts if are_openai_parts else message.text})
    for call in calls:
        items.append(
            {
                "type": "function_call",
                "call_id": call.id,
                "name": call.name,
                "arguments": _text(call.arguments),
            }
        )
    return items


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

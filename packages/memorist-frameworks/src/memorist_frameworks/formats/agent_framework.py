"""Messages of Microsoft Agent Framework as memorist's messages, and back without loss.

The framework serializes a message as `{"role": …, "contents": [{"type": …}]}`. Text, images, tool
calls and results are stored as in every message, the rest under `agent_framework`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from memorist.content import pairing
from memorist.content.formats.exact import exact_copy
from memorist.content.message import ROLES, Message, NewMessage

MARK = "agent_framework"
_SHOWN = {
    "text": {"text": "text"},
    "function_call": {"call_id": "call_id", "name": "name", "arguments": "arguments"},
    "function_result": {"call_id": "call_id", "result": "result"},
    "data": {"uri": "url"},
    "uri": {"uri": "url"},
}
"""The content types that become parts of a message: their fields, and the names in memorist."""
_TYPES = {"function_result": "tool_result", "data": "image", "uri": "image"}
_MAX_NAME_CHARACTERS = 100


def to_message(message: Mapping[str, Any]) -> NewMessage:
    """Convert a message of the framework to a new message."""
    role = _role(message)
    shown: list[dict[str, Any]] = []
    rest = {name: value for name, value in message.items() if name != "type" and value != {}}
    if rest.get("role") == role:
        del rest["role"]
    rest["contents"] = [_rest(item, shown) for item in message.get("contents", ())]
    is_only_text = len(shown) == 1 and shown[0].keys() == {"type", "text"}
    content = {"text": shown[0]["text"]} if is_only_text else {"parts": shown}
    name = message.get("author_name")
    is_valid_name = (
        isinstance(name, str)
        and name.isprintable()
        and 0 < len(name.strip()) <= len(name) <= _MAX_NAME_CHARACTERS
    )
    return NewMessage(
        role, {**content, MARK: {**rest, **exact_copy(message)}}, name if is_valid_name else None
    )


def from_message(message: Message) -> dict[str, Any]:
    """Convert a message to the framework's format, or to the nearest equivalent."""
    content = message.content
    rest = content.get(MARK)
    if not isinstance(rest, dict) or not isinstance(rest.get("contents"), list):
        return convert_foreign(message)
    shown = iter([{"text": content["text"]}] if "text" in content else content.get("parts", []))
    try:
        if "exact" in rest:
            original = json.loads(rest["exact"])
        else:
            contents = [_content(item, shown) for item in rest["contents"]]
            original = {"role": message.role, **rest, "contents": contents}
        if _role(original) == message.role:
            return {"type": "message", **original}
        return convert_foreign(message)
    except (AttributeError, KeyError, StopIteration, TypeError, ValueError):
        # The content was not written by `to_message`.
        return convert_foreign(message)


def _role(message: Mapping[str, Any]) -> str:
    """Return the role of a message; unknown roles become `user`."""
    role = message.get("role")
    return role if isinstance(role, str) and role in ROLES else "user"


def _rest(content: Mapping[str, Any], shown: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the rest of a content; add its visible part to `shown`."""
    kind = content["type"]
    rest = {
        name: value
        for name, value in content.items()
        if (name, value) != ("additional_properties", {})
    }
    if _is_shown(content):
        fields = {ours: rest.pop(theirs) for theirs, ours in _SHOWN[kind].items() if theirs in rest}
        shown.append({"type": _TYPES.get(kind, kind), **fields})
    return rest


def _is_shown(content: Mapping[str, Any]) -> bool:
    """Return whether a content has a visible part."""
    kind = content["type"]
    if kind in ("data", "uri"):
        return str(content.get("media_type", "")).startswith("image/")
    # An informational call was made and answered elsewhere.
    return kind in _SHOWN and not content.get("informational_only")


def _content(rest: dict[str, Any], shown: Iterator[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the original content."""
    if not _is_shown(rest):
        return rest
    part = next(shown)
    names = _SHOWN[rest["type"]]
    fields = {theirs: part[ours] for theirs, ours in names.items() if ours in part}
    return {**rest, **fields}


def convert_foreign(message: Message) -> dict[str, Any]:
    """Convert a message from elsewhere: text, tool calls and results."""
    contents: list[dict[str, Any]] = []
    if message.role != "tool" and message.text:
        contents.append({"type": "text", "text": message.text})
    for call in pairing.tool_calls(message.content) if message.role == "assistant" else ():
        contents.append(
            {
                "type": "function_call",
                "call_id": call.id,
                "name": call.name,
                "arguments": call.arguments,
            }
        )
    for result in pairing.tool_results(message.role, message.content):
        contents.append({"type": "function_result", "call_id": result.id, "result": result.output})
    return {"type": "message", "role": message.role, "contents": contents}

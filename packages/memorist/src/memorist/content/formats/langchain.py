"""Messages of LangChain as memorist's messages, and back without loss.

LangChain serializes a message as `{"type": "ai", "data": {…}}`. Text, parts and tool calls are
stored as in every message, the rest under `langchain`, without default values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from memorist.base.errors import Invalid
from memorist.content import pairing
from memorist.content.formats.exact import exact_copy, is_exact, read_exact_copy
from memorist.content.message import Message, NewMessage

_CHUNK = "MessageChunk"
_ROLES = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "function": "tool",
    "tool": "tool",
}
_TYPES = {"user": "human", "assistant": "ai", "system": "system", "tool": "tool"}
_KNOWN = {
    *_ROLES,
    "chat",
    *(f"{name}{_CHUNK}" for name in ("AI", "Human", "System", "Function", "Tool", "Chat")),
}
_DEFAULTS: dict[str, Mapping[str, Any]] = {
    "": {"additional_kwargs": {}, "response_metadata": {}, "name": None, "id": None},
    "ai": {"tool_calls": [], "invalid_tool_calls": [], "usage_metadata": None},
    "tool": {"artifact": None, "status": "success"},
}
_PLAIN = ("human", "ai", "system")
_SHOWN = ("tool_calls", "tool_call_id", "name")


def to_message(message: Mapping[str, Any], field: str = "messages") -> NewMessage:
    """Convert a message of LangChain to a new message."""
    kind = message.get("type")
    data = message.get("data")
    if kind not in _KNOWN or not isinstance(kind, str) or not isinstance(data, Mapping):
        raise Invalid(
            field=field,
            problem=f"has a message of type {str(kind)[:50]!r}, which cannot be stored in a history",
        )
    role = _role(kind, data)
    rest = {name: value for name, value in data.items() if not _is_default(kind, name, value)}
    original_content = rest.pop("content", "")
    is_text = not rest and kind in _PLAIN and isinstance(original_content, str)
    if is_text and is_exact(original_content):
        return NewMessage(role, original_content)
    exact = exact_copy(data)
    content = _content(role, original_content)
    if isinstance(original_content, list) and content.get("parts") != original_content:
        rest["content"] = original_content
    content |= {name: rest.pop(name) for name in _SHOWN if rest.get(name)}
    original: dict[str, Any] = {"type": kind}
    if exact:
        original |= exact
    elif rest:
        original["data"] = rest
    content["langchain"] = original
    usage = data.get("usage_metadata")
    usage = usage if isinstance(usage, Mapping) else {}
    return NewMessage(
        role,
        content,
        tokens_in=_token_count(usage.get("input_tokens")),
        tokens_out=_token_count(usage.get("output_tokens")),
    )


def _token_count(count: Any) -> int | None:
    return count if type(count) is int and 0 <= count < 2**53 else None


def from_message(message: Message) -> dict[str, Any]:
    """Convert a message to LangChain's format, or to the nearest equivalent.

    The stored role always wins.
    """
    plain = message.plain_text
    if plain is not None and message.role != "tool":
        return {"type": _TYPES[message.role], "data": {"content": plain}}
    content = message.content
    original = content.get("langchain")
    if not isinstance(original, dict):
        return convert_foreign(message)
    kind = original.get("type")
    exact = read_exact_copy(original)
    rest = exact or original.get("data", {})
    if (
        kind not in _KNOWN
        or not isinstance(kind, str)
        or not isinstance(rest, dict)
        or _role(kind, rest) != message.role
    ):
        return convert_foreign(message)
    if exact:
        return {"type": kind, "data": exact}
    data = {"content": content["parts"] if "parts" in content else content.get("text", "")}
    data |= {name: content[name] for name in _SHOWN if name in content}
    return {"type": kind, "data": data | rest}


def convert_foreign(message: Message) -> dict[str, Any]:
    """Convert a message from elsewhere: text, parts and tool calls."""
    content = message.content
    if content.keys() == {"text"} and message.role != "tool":
        return {"type": _TYPES[message.role], "data": {"content": message.text}}
    data: dict[str, Any] = {
        "content": content["parts"] if isinstance(content.get("parts"), list) else message.text
    }
    if message.role == "assistant":
        data["tool_calls"] = [
            {
                "name": call.name,
                "args": _arguments(call.arguments),
                "id": call.id,
                "type": "tool_call",
            }
            for call in pairing.tool_calls(content)
        ]
    if message.role == "tool":
        answers = pairing.tool_results("tool", content)
        data |= {"content": _text(answers[0].output), "tool_call_id": answers[0].id}
    return {"type": _TYPES[message.role], "data": data}


def _content(role: str, content: Any) -> dict[str, Any]:
    if not isinstance(content, list):
        return {"text": content}
    parts = [{"type": "text", "text": part} if isinstance(part, str) else part for part in content]
    if role != "tool":
        return {"parts": parts}
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    return {"text": "\n".join(text for text in texts if isinstance(text, str))}


def _role(kind: str, data: Mapping[str, Any]) -> str:
    """Return the role of a message; unknown roles of chat messages become `user`."""
    plain = _plain(kind)
    if plain != "chat":
        return _ROLES[plain]
    role = str(data.get("role", "")).lower()
    return role if role in _TYPES else _ROLES.get(role, "user")


def _plain(kind: str) -> str:
    return kind.removesuffix(_CHUNK).lower()


def _is_default(kind: str, name: str, value: Any) -> bool:
    """Return whether a field has LangChain's default value."""
    if name == "type":
        return bool(value == kind)
    for defaults in (_DEFAULTS[""], _DEFAULTS.get(_plain(kind), {})):
        if name in defaults:
            return type(value) is type(defaults[name]) and bool(value == defaults[name])
    return False


def _arguments(arguments: Any) -> dict[str, Any]:
    try:
        value = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        value = arguments
    return value if isinstance(value, dict) else {"arguments": value}


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False) if value else ""

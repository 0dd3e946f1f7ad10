"""Messages of LangChain as memorist's messages; memorist-frameworks writes them back without loss.

LangChain serializes a message as `{"type": "ai", "data": {…}}`. Text, parts and tool calls are
stored as in every message, the rest under `langchain`, without default values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memorist.base.errors import Invalid
from memorist.content.formats.exact import exact_copy, is_exact
from memorist.content.message import ROLES, NewMessage

_CHUNK = "MessageChunk"
_ROLES = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "function": "tool",
    "tool": "tool",
}
MESSAGE_TYPES = {
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
SHOWN_FIELDS = ("tool_calls", "tool_call_id", "name")


def to_message(message: Mapping[str, Any], field: str = "messages") -> NewMessage:
    """Convert a message of LangChain to a new message."""
    kind = message.get("type")
    data = message.get("data")
    if kind not in MESSAGE_TYPES or not isinstance(kind, str) or not isinstance(data, Mapping):
        raise Invalid(
            field=field,
            problem=f"has a message of type {str(kind)[:50]!r}, which cannot be stored in a history",
        )
    role = role_of(kind, data)
    rest = {name: value for name, value in data.items() if not _is_default(kind, name, value)}
    original_content = rest.pop("content", "")
    is_text = not rest and kind in _PLAIN and isinstance(original_content, str)
    if is_text and is_exact(original_content):
        return NewMessage(role, original_content)
    exact = exact_copy(data)
    content = _content(role, original_content)
    if isinstance(original_content, list) and content.get("parts") != original_content:
        rest["content"] = original_content
    content |= {name: rest.pop(name) for name in SHOWN_FIELDS if rest.get(name)}
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


def _content(role: str, content: Any) -> dict[str, Any]:
    if not isinstance(content, list):
        return {"text": content}
    parts = [{"type": "text", "text": part} if isinstance(part, str) else part for part in content]
    if role != "tool":
        return {"parts": parts}
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    return {"text": "\n".join(text for text in texts if isinstance(text, str))}


def role_of(kind: str, data: Mapping[str, Any]) -> str:
    """Return the role of a message; unknown roles of chat messages become `user`."""
    plain = _plain(kind)
    if plain != "chat":
        return _ROLES[plain]
    role = str(data.get("role", "")).lower()
    return role if role in ROLES else _ROLES.get(role, "user")


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

"""What a message says: text, or a JSON object with text, parts and attachments; its cost, and whether it calls tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from retain import canonical, tokens
from retain.canonical import JsonText
from retain.errors import Invalid

Content = str | Mapping[str, Any] | JsonText
"""Text, or a JSON object such as {"text": …, "parts": […], "attachments": […]}."""

TOKENS_PER_MESSAGE = 4
_CALLS = {"tool_call", "tool_calls", "tool_use", "tool-call", "function_call"}


def read(content: Content, field: str, limit: int) -> tuple[str, int, bool]:
    """Content as JSON text of at most `limit` bytes, its estimated tokens, and whether it calls tools."""
    if isinstance(content, str) and not isinstance(content, JsonText):
        written = canonical.text(content, field, limit)
        raw = canonical.within(f'{{"text":{canonical.quote(written)}}}', field, limit)
        return raw, tokens.estimate(written) + TOKENS_PER_MESSAGE, False
    raw = canonical.dump(content, field, limit)
    value = json.loads(raw)
    if not isinstance(value, dict):
        raise Invalid(field=field, problem="must be text or a JSON object")
    counted = value["text"] if value.keys() == {"text"} and isinstance(value["text"], str) else raw
    return raw, tokens.estimate(counted) + TOKENS_PER_MESSAGE, calls_tools(value)


def calls_tools(content: Mapping[str, Any]) -> bool:
    """Whether a message asks for tools to be run, in any of the shapes that are common for it."""
    parts = content.get("parts")
    kinds = [part.get("type") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return any(isinstance(kind, str) and kind in _CALLS for kind in kinds) or any(content.get(name) for name in _CALLS)

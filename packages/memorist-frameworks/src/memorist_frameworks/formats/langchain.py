"""Messages of memorist in LangChain's format, the inverse of `memorist.content.formats.langchain`."""

from __future__ import annotations

import json
from typing import Any

from memorist.content import pairing
from memorist.content.formats.exact import read_exact_copy
from memorist.content.formats.langchain import MESSAGE_TYPES, SHOWN_FIELDS, role_of, to_message
from memorist.content.message import Message

__all__ = ["convert_foreign", "from_message", "to_message"]
_TYPES = {"user": "human", "assistant": "ai", "system": "system", "tool": "tool"}


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
        kind not in MESSAGE_TYPES
        or not isinstance(kind, str)
        or not isinstance(rest, dict)
        or role_of(kind, rest) != message.role
    ):
        return convert_foreign(message)
    if exact:
        return {"type": kind, "data": exact}
    data = {"content": content["parts"] if "parts" in content else content.get("text", "")}
    data |= {name: content[name] for name in SHOWN_FIELDS if name in content}
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

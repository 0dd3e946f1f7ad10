"""Messages of Pydantic AI as memorist's messages, and back without loss.

Pydantic AI serializes a message as `{"kind": …, "parts": [{"part_kind": …}]}`. Text, images, tool
calls and results are stored as in every message. The rest, with reasoning and system prompts, is
stored under `pydantic_ai`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from memorist.content.formats.exact import exact_copy
from memorist.content.message import Message, NewMessage

MARK = "pydantic_ai"
ENTRY = "entry"
"""Key of data about the message's entry in its conversation."""
_SHOWN = {
    "user-prompt": ("content",),
    "text": ("content",),
    "speech": ("transcript",),
    "file": ("content",),
    "tool-call": ("tool_name", "tool_call_id", "args"),
    "tool-return": ("tool_name", "tool_call_id", "content"),
}
"""The part kinds that become parts of a message, and their fields."""
_TEXT_KINDS = ("user-prompt", "text", "speech")


def to_message(message: Mapping[str, Any], entry: Mapping[str, Any] | None = None) -> NewMessage:
    """Convert a message of Pydantic AI to a new message, with data about its entry."""
    shown: list[dict[str, Any]] = []
    rest = {name: value for name, value in message.items() if value is not None}
    rest["parts"] = [_rest(part, shown) for part in message["parts"]]
    usage = rest.get("usage") or {}
    if usage:
        rest["usage"] = {name: value for name, value in usage.items() if value}
    is_only_text = len(shown) == 1 and shown[0].keys() == {"type", "text"}
    content = {"text": shown[0]["text"]} if is_only_text else {"parts": shown}
    original = {**rest, **exact_copy(message)}
    if entry is not None:
        original[ENTRY] = dict(entry)
    return NewMessage(
        _role(message),
        {**content, MARK: original},
        tokens_in=usage.get("input_tokens") or None,
        tokens_out=usage.get("output_tokens") or None,
    )


def from_message(
    message: Message, content: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """Convert a message to Pydantic AI's format.

    Returns None if it came from elsewhere, or if its role differs. `content` is its parsed content,
    if the caller has it.
    """
    content = message.content if content is None else content
    rest = content.get(MARK)
    if not isinstance(rest, dict) or not isinstance(rest.get("parts"), list):
        return None
    shown = iter([{"text": content["text"]}] if "text" in content else content.get("parts", []))
    try:
        if "exact" in rest:
            original: dict[str, Any] = json.loads(rest["exact"])
        else:
            original = {name: value for name, value in rest.items() if name != ENTRY}
            original["parts"] = [_part(part, shown) for part in rest["parts"]]
        return original if _role(original) == message.role else None
    except (AttributeError, KeyError, StopIteration, TypeError, ValueError):
        # The content was not written by `to_message`.
        return None


def entry(content: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the data about a message's entry from its content."""
    rest = content.get(MARK)
    data = rest.get(ENTRY) if isinstance(rest, dict) else None
    return data if isinstance(data, dict) else None


def _role(message: Mapping[str, Any]) -> str:
    if message.get("kind") == "response":
        return "assistant"
    kinds = {part.get("part_kind") for part in message["parts"]}
    if kinds.intersection(_TEXT_KINDS):
        return "user"
    return "tool" if kinds & {"tool-return", "retry-prompt"} else "system"


def _rest(part: Mapping[str, Any], shown: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the rest of a part; add its visible part to `shown`."""
    kind = part["part_kind"]
    required = ("content", *_SHOWN.get(kind, ()))
    rest = {name: value for name, value in part.items() if value is not None or name in required}
    text = rest.get("transcript" if kind == "speech" else "content")
    if kind == "user-prompt" and isinstance(text, list):
        return {**rest, "content": [_inside(item, shown) for item in text]}
    if kind not in _SHOWN or (kind in _TEXT_KINDS and not isinstance(text, str)):
        return rest
    fields = {name: rest.pop(name) for name in _SHOWN[kind] if name in rest}
    if kind in _TEXT_KINDS:
        shown.append({"type": "text", "text": text})
    elif kind == "file":
        shown.append({"type": _file_type(fields["content"]), "source": fields["content"]})
    else:
        shown.append({"type": kind, **fields})
    return rest


def _inside(item: Any, shown: list[dict[str, Any]]) -> Any:
    """Return the rest of an item of a user prompt; add its visible part to `shown`."""
    if isinstance(item, str):
        shown.append({"type": "text", "text": item})
        return None
    if isinstance(item.get("content"), str):
        shown.append({"type": "text", "text": item["content"]})
        return {name: value for name, value in item.items() if name != "content"}
    if "media_type" not in item:
        return item
    shown.append({"type": _file_type(item), **item})
    return None


def _file_type(part: Mapping[str, Any]) -> str:
    if str(part.get("media_type", "")).startswith("image/"):
        return "image"
    return str(part.get("kind", "file"))


def _part(rest: Mapping[str, Any], shown: Iterator[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the original part."""
    kind = rest.get("part_kind", "")
    if isinstance(rest.get("content"), list) and kind == "user-prompt":
        return {**rest, "content": [_item(item, shown) for item in rest["content"]]}
    if kind not in _SHOWN or any(name in rest for name in _SHOWN[kind]):
        return dict(rest)
    fields = {name: value for name, value in next(shown).items() if name != "type"}
    if kind in _TEXT_KINDS or kind == "file":
        fields = {_SHOWN[kind][0]: fields["source" if kind == "file" else "text"]}
    return {**rest, **fields}


def _item(rest: Any, shown: Iterator[Mapping[str, Any]]) -> Any:
    if rest is None:
        fields = {name: value for name, value in next(shown).items() if name != "type"}
        return fields["text"] if fields.keys() == {"text"} else fields
    if str(rest.get("kind")).endswith("-content"):
        return {**rest, "content": next(shown)["text"]}
    return rest

"""Pydantic AI's messages as ours, and back to the last field.

Pydantic AI writes a message as `{"kind": …, "parts": [{"part_kind": …}]}`. Its parts stay parts; each gets a `type`, and
what is said in words is its `text`, so that a prompt, a search or a page shows text, images, calls and results. Thoughts
and system prompts are kept, and are nobody's words. The rest is under `pydantic_ai`. Nothing here needs Pydantic AI.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from retain.talk.message import Message, NewMessage

MARK = "pydantic_ai"
_WORDS = {"user-prompt": "content", "text": "content", "speech": "transcript"}
"""The parts that are said in words, and the field that has them."""
_NUL = "\\u0000"


def packed(message: Mapping[str, Any], **marks: Any) -> NewMessage:
    """A message as Pydantic AI writes it, as one to be appended; `marks` are kept beside it."""
    parts = [made for part in message["parts"] for made in _parts(part)]
    rest = {name: value for name, value in message.items() if name != "parts" and value is not None}
    usage = rest.get("usage") or {}
    if usage:
        rest["usage"] = {name: value for name, value in usage.items() if value}
    counts = [usage.get(name) or None for name in ("input_tokens", "output_tokens")]
    return NewMessage(
        _role(message),
        {"parts": parts, MARK: {**rest, **exact(message)}, **marks},
        tokens_in=counts[0],
        tokens_out=counts[1],
    )


def unpacked(message: Message) -> dict[str, Any] | None:
    """A message as Pydantic AI reads it; None for one that it did not write, or that says another role than it has."""
    rest, parts = message.content.get(MARK), message.content.get("parts")
    if not isinstance(rest, dict) or not isinstance(parts, list):
        return None
    if "exact" in rest:
        made: dict[str, Any] = json.loads(rest["exact"])
    else:
        made = {**rest, "parts": list(_whole(iter(parts)))}
    return made if _role(made) == message.role else None


def exact(value: Any) -> dict[str, str]:
    """What has to be kept as the text of its JSON, because no database keeps NUL."""
    written = json.dumps(value)
    return {"exact": written} if _NUL in written else {}


def _role(message: Mapping[str, Any]) -> str:
    if message.get("kind") == "response":
        return "assistant"
    kinds = {part.get("part_kind") for part in message["parts"]}
    if kinds & _WORDS.keys():
        return "user"
    return "tool" if kinds & {"tool-return", "retry-prompt"} else "system"


def _parts(part: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One part of theirs, as one of ours, or as one and those that were in it."""
    kind = part["part_kind"]
    kept = {name: value for name, value in part.items() if value is not None or name == "content"}
    said = kept.get(_WORDS.get(kind, ""))
    if isinstance(said, str):
        del kept[_WORDS[kind]]
        yield {"type": "text", "text": said, **kept}
    elif kind == "user-prompt" and isinstance(said, list):
        yield {"type": "prompt", **kept, "content": len(said)}
        yield from map(_item, said)
    elif kind == "file":
        shown = kept.pop("content")
        yield {"type": _file(shown), "source": shown, **kept}
    elif kind == "retry-prompt" and kept.get("tool_name"):
        yield {"type": "tool-return", **kept}
    else:
        yield {"type": kind, **kept}


def _item(item: Any) -> dict[str, Any]:
    """What a user's prompt has in it: text, or a file by its address or whole."""
    if isinstance(item, str):
        return {"type": "text", "text": item}
    kept = {name: value for name, value in item.items() if value is not None or name == "value"}
    if isinstance(kept.get("content"), str):
        return {"type": "text", "text": kept.pop("content"), **kept}
    return {"type": _file(kept), **kept}


def _file(shown: Mapping[str, Any]) -> str:
    return "image" if str(shown.get("media_type", "")).startswith("image/") else str(shown.get("kind", "file"))


def _whole(parts: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Our parts as theirs again."""
    for part in parts:
        made = {name: value for name, value in part.items() if name != "type"}
        kind = made.get("part_kind", "")
        if part["type"] == "prompt":
            made["content"] = [_inner(next(parts)) for _ in range(made["content"])]
        elif kind == "file":
            made["content"] = made.pop("source")
        elif kind in _WORDS and "text" in made:
            made[_WORDS[kind]] = made.pop("text")
        yield made


def _inner(part: Mapping[str, Any]) -> Any:
    made = {name: value for name, value in part.items() if name != "type"}
    if "kind" not in made:
        return made["text"]
    if "text" in made:
        made["content"] = made.pop("text")
    return made

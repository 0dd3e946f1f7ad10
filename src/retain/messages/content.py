"""Content of a message: text, or a JSON object with text, parts and attachments."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from retain.base import canonical, tokens
from retain.base.canonical import JsonText
from retain.base.errors import Invalid
from retain.base.masking import OFF, Policy
from retain.messages import pairing

Content = str | Mapping[str, Any] | JsonText
"""Text, or a JSON object such as {"text": …, "parts": […], "attachments": […]}."""

WITHOUT_MODEL = "without_model"
"""Marks a stored answer as a notice of retain that no model wrote; notices are not memories."""
NO_MODEL_NOTICE = (
    "No model is set (`model` and `base_url` in the settings), so this was written without one."
)
TOKENS_PER_MESSAGE = 4
TOKENS_PER_IMAGE = 800
VENDOR_FIELDS = ("original", "langchain", "openai", "pydantic_ai", "agent_framework")
"""Fields of imports and frameworks for lossless export: in no prompt, and without tokens."""
_IMAGES = ("image", "image_url", "input_image")
_CAPTIONS = ("caption", "description", "alt", "alt_text", "title", "name")
_DATA = re.compile(r"[A-Za-z0-9+/=_-]{200,}")  # encoded data, which nobody searches for
_MAX_CALL_CHARACTERS = 300


def parse_content(
    content: Content, field: str, limit: int, policy: Policy = OFF
) -> tuple[str, int, bool, Mapping[str, Any]]:
    """Return content as JSON text, its tokens, whether it calls tools, and its parsed value."""
    if isinstance(content, str) and not isinstance(content, JsonText):
        written = canonical.text(content, field, limit, policy)
        raw = canonical.within(f'{{"text":{canonical.quote(written)}}}', field, limit)
        return raw, tokens.estimate(written) + TOKENS_PER_MESSAGE, False, {"text": written}
    raw = canonical.dump(content, field, limit, policy)
    value = json.loads(raw)
    if not isinstance(value, dict):
        raise Invalid(field=field, problem="must be text or a JSON object")
    return raw, _cost(value, raw), bool(pairing.tool_calls(value)), value


def spoken_text(content: Mapping[str, Any]) -> str:
    """Return the text, text parts that it does not repeat, and the names of attachments."""
    text = content.get("text")
    texts = [text] if isinstance(text, str) and text else []
    for part in _listed(content, "parts"):
        part_text = (
            part.get("text") if not pairing.is_result(part) and not pairing.is_call(part) else None
        )
        if (
            isinstance(part_text, str)
            and part_text
            and not any(part_text in earlier for earlier in texts)
        ):
            texts.append(part_text)
    for part in _listed(content, "attachments"):
        if part.get("type") not in _IMAGES:
            texts.append(f"(an attachment: {part.get('name') or part.get('type') or 'unnamed'})")
    return "\n".join(texts)


def is_notice(content: Mapping[str, Any]) -> bool:
    """Return whether a message is a notice of retain: never searched, recalled or summarized."""
    return content.get(WITHOUT_MODEL) is True


def searchable_text(role: str, content: Mapping[str, Any]) -> str:
    """Return the searchable text of a message: text, captions, tool calls and their results.

    Binary data is left out, and a notice of retain has none.
    """
    if is_notice(content):
        return ""
    if content.keys() == {"text"} and isinstance(content["text"], str):
        return content["text"] if content["text"].strip() else ""
    texts = [spoken_text(content)]
    shown = [part for name in ("parts", "attachments") for part in _listed(content, name)]
    texts += [part[name] for part in shown for name in _CAPTIONS if isinstance(part.get(name), str)]
    texts += [
        f"{call.name} {_text(call.arguments)}"[:_MAX_CALL_CHARACTERS]
        for call in pairing.tool_calls(content)
    ]
    texts += [_text(result.output) for result in pairing.tool_results(role, content)]
    distinct: list[str] = []
    for text in texts:
        if text.strip() and not any(text in earlier for earlier in distinct):
            distinct.append(text)
    return _DATA.sub("…", "\n".join(distinct))


def whole_text(role: str, content: Mapping[str, Any]) -> str:
    """Return all text of a message: what it says, its tool calls and their results, in full."""
    texts = [spoken_text(content)]
    texts += [f"{call.name} {_text(call.arguments)}" for call in pairing.tool_calls(content)]
    texts += [_text(result.output) for result in pairing.tool_results(role, content)]
    return "\n\n".join(dict.fromkeys(text for text in texts if text.strip()))


def _text(value: Any) -> str:
    return (
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) if value else ""
    )


def images(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the images of content: `{"url": …}`, or `{"data": base64, "media_type": …}`."""
    parts = [part for name in ("parts", "attachments") for part in _listed(content, name)]
    return [image for part in parts if part.get("type") in _IMAGES for image in _image(part)]


def _cost(value: Mapping[str, Any], raw: str) -> int:
    """Count the tokens of content: text, the JSON of anything else, a fixed number per image."""
    if any(name in value for name in VENDOR_FIELDS):
        value = {name: item for name, item in value.items() if name not in VENDOR_FIELDS}
        raw = json.dumps(value, ensure_ascii=False)
    if value.keys() == {"text"} and isinstance(value["text"], str):
        return tokens.estimate(value["text"]) + TOKENS_PER_MESSAGE
    shown = images(value)
    if shown:
        without_images = {
            name: [
                part
                for part in item
                if not (isinstance(part, dict) and part.get("type") in _IMAGES)
            ]
            if name in ("parts", "attachments") and isinstance(item, list)
            else item
            for name, item in value.items()
        }
        raw = json.dumps(without_images, ensure_ascii=False)
    return tokens.estimate(raw) + TOKENS_PER_MESSAGE + TOKENS_PER_IMAGE * len(shown)


def _listed(content: Mapping[str, Any], name: str) -> Iterator[Mapping[str, Any]]:
    listed = content.get(name)
    yield from (
        (part for part in listed if isinstance(part, dict)) if isinstance(listed, list) else ()
    )


def _image(part: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    inner = part.get("image_url", part.get("source", part))
    inner = {"url": inner} if isinstance(inner, str) else inner
    if isinstance(inner, dict) and isinstance(inner.get("url"), str):
        return [{"url": inner["url"]}]
    if isinstance(inner, dict) and isinstance(inner.get("data"), str):
        return [{"data": inner["data"], "media_type": str(inner.get("media_type", "image/png"))}]
    return []

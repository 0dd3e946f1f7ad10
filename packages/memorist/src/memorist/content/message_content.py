"""Content of a message: text, or a JSON object with text, parts and attachments."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from memorist.base import canonical, limits, tokens
from memorist.base.canonical import JsonText
from memorist.base.errors import Invalid
from memorist.base.masking import OFF, Policy
from memorist.content import pairing

Content = str | Mapping[str, Any] | JsonText
"""Text, or a JSON object such as {"text": …, "parts": […], "attachments": […]}."""

WITHOUT_MODEL = "without_model"
"""Marks a stored answer that memorist wrote without a model: a notice, which is not a memory."""
NO_MODEL_NOTICE = (
    "No model is set (`model` and `base_url` in the settings), so this was written without one."
)
TOKENS_PER_MESSAGE = 4
TOKENS_PER_IMAGE = 800
VENDOR_FIELDS = ("original", "langchain", "openai", "pydantic_ai", "agent_framework")
"""Fields of imports and frameworks for lossless export. They are not part of prompts or counts."""
_IMAGES = ("image", "image_url", "input_image")
_CAPTIONS = ("caption", "description", "alt", "alt_text", "title", "name")
_DATA = re.compile(r"[A-Za-z0-9+/=_-]{200,}")  # encoded data, which is not searchable
_MAX_CALL_CHARACTERS = 300


def parse_content(
    content: Content, field: str, limit: int, policy: Policy = OFF
) -> tuple[str, int, bool, Mapping[str, Any]]:
    """Return content as JSON text, its tokens, whether it calls tools, and its parsed value."""
    if isinstance(content, str) and not isinstance(content, JsonText):
        text = canonical.text(content, field, limit, policy)
        raw = canonical.within(f'{{"text":{canonical.quote(text)}}}', field, limit)
        return raw, tokens.estimate(text) + TOKENS_PER_MESSAGE, False, {"text": text}
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
        if pairing.is_result(part) or pairing.is_call(part):
            continue
        part_text = part.get("text")
        if not isinstance(part_text, str) or not part_text:
            continue
        if not any(part_text in earlier for earlier in texts):
            texts.append(part_text)
    for part in _listed(content, "attachments"):
        if part.get("type") not in _IMAGES:
            texts.append(f"(an attachment: {part.get('name') or part.get('type') or 'unnamed'})")
    return "\n".join(texts)


def is_notice(content: Mapping[str, Any]) -> bool:
    """Return whether a message is a notice of memorist: never searched, recalled or summarized."""
    return content.get(WITHOUT_MODEL) is True


def searchable_text(role: str, content: Mapping[str, Any]) -> str:
    """Return the searchable text of a message: text, captions, tool calls and their results.

    Binary data is left out. A notice of memorist has no searchable text.
    """
    if is_notice(content):
        return ""
    if content.keys() == {"text"} and isinstance(content["text"], str):
        return content["text"] if content["text"].strip() else ""
    texts = [spoken_text(content)]
    for part in (*_listed(content, "parts"), *_listed(content, "attachments")):
        texts += [part[name] for name in _CAPTIONS if isinstance(part.get(name), str)]
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
    """Return all text of a message: its own text, its tool calls and their results, in full."""
    texts = [spoken_text(content)]
    texts += [f"{call.name} {_text(call.arguments)}" for call in pairing.tool_calls(content)]
    texts += [_text(result.output) for result in pairing.tool_results(role, content)]
    return "\n\n".join(dict.fromkeys(text for text in texts if text.strip()))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False) if value else ""


def images(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the images of content: `{"url": …}`, or `{"data": base64, "media_type": …}`."""
    result: list[Mapping[str, Any]] = []
    for part in (*_listed(content, "parts"), *_listed(content, "attachments")):
        if part.get("type") in _IMAGES:
            result += _image(part)
    return result


def _cost(value: Mapping[str, Any], raw: str) -> int:
    """Count the tokens of content: text, or JSON, and a fixed number for each image."""
    if any(name in value for name in VENDOR_FIELDS):
        value = {name: item for name, item in value.items() if name not in VENDOR_FIELDS}
        raw = json.dumps(value, ensure_ascii=False)
    if value.keys() == {"text"} and isinstance(value["text"], str):
        return tokens.estimate(value["text"]) + TOKENS_PER_MESSAGE
    image_count = len(images(value))
    if image_count:
        without_images = dict(value)
        for name in ("parts", "attachments"):
            if isinstance(value.get(name), list):
                without_images[name] = [part for part in value[name] if not _is_image(part)]
        raw = json.dumps(without_images, ensure_ascii=False)
    return tokens.estimate(raw) + TOKENS_PER_MESSAGE + TOKENS_PER_IMAGE * image_count


def _is_image(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in _IMAGES


def _listed(content: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Return the objects in a list of the content."""
    items = content.get(name)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _image(part: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    inner = part.get("image_url", part.get("source", part))
    inner = {"url": inner} if isinstance(inner, str) else inner
    if isinstance(inner, dict) and isinstance(inner.get("url"), str):
        return [{"url": inner["url"]}]
    if isinstance(inner, dict) and isinstance(inner.get("data"), str):
        return [{"data": inner["data"], "media_type": str(inner.get("media_type", "image/png"))}]
    return []


def is_long_text(size: int, raw: str) -> bool:
    """Return whether a content has more text than `REF_TOKENS`; images do not count.

    size: the tokens of the whole content, with its images
    raw:  the content as JSON text
    """
    if size <= limits.REF_TOKENS:
        return False
    if '"parts"' not in raw and '"attachments"' not in raw:
        return True
    return tokens.estimate(spoken_text(json.loads(raw))) > limits.REF_TOKENS

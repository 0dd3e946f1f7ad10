"""Chat models: they take messages in OpenAI's format and tools, and return text and tool calls.

Replies are not trusted: names, ids and arguments of tool calls are cleaned.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from memorist.base import canonical
from memorist.base.errors import Invalid
from memorist.content.pairing import ToolCall

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

OnText = Callable[[str], None]
MAX_CALLS = 32
"""Maximum tool calls in one reply."""
MAX_NAME_CHARACTERS = 64
_DATA = "data:"


@dataclass(frozen=True)
class ModelReply:
    """The reply of a chat model; `cut` is True if it reached the token limit."""

    text: str
    calls: Sequence[ToolCall]
    model: str
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None
    latency_ms: float = 0.0
    cut: bool = False


@runtime_checkable
class ChatModel(Protocol):
    """A model that can hold a conversation and call tools."""

    name: str

    def converse(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        max_tokens: int,
        on_text: OnText | None = None,
        use_tools: bool = True,
        seconds: float | None = None,
    ) -> ModelReply:
        """Return the next reply, or raise ModelError.

        on_text:   called with pieces of text as they arrive, possibly in another thread
        use_tools: False forbids tool calls, even if earlier messages contain some
        """
        ...


def to_pydantic_ai(messages: Sequence[Mapping[str, Any]]) -> list[ModelMessage]:
    """Convert messages in OpenAI's format to those of pydantic-ai."""
    from pydantic_ai.messages import ModelRequest, ModelResponse

    converted: list[ModelMessage] = []
    names: dict[str, str] = {}
    for message in messages:
        if message["role"] == "assistant":
            parts = list(_response_parts(message, names))
            if converted and isinstance(converted[-1], ModelResponse):
                converted[-1] = ModelResponse(parts=[*converted[-1].parts, *parts])
            elif parts:
                converted.append(ModelResponse(parts=parts))
            continue
        part = _request_part(message, names)
        if converted and isinstance(converted[-1], ModelRequest):
            converted[-1] = ModelRequest(parts=[*converted[-1].parts, part])
        else:
            converted.append(ModelRequest(parts=[part]))
    return converted


def _response_parts(message: Mapping[str, Any], names: dict[str, str]) -> Iterator[Any]:
    from pydantic_ai.messages import TextPart, ToolCallPart

    if message.get("content"):
        yield TextPart(_text(message["content"]))
    for call in message.get("tool_calls") or ():
        function = call["function"]
        names[call["id"]] = function["name"]
        yield ToolCallPart(function["name"], _arguments(function["arguments"]), call["id"])


def _request_part(message: Mapping[str, Any], names: Mapping[str, str]) -> Any:
    from pydantic_ai.messages import BinaryContent, SystemPromptPart, ToolReturnPart, UserPromptPart

    role = message["role"]
    body = message["content"]
    if role == "system":
        return SystemPromptPart(_text(body))
    if role == "tool":
        id = message["tool_call_id"]
        return ToolReturnPart(names.get(id, "unknown"), _text(body), id)
    if isinstance(body, str):
        return UserPromptPart(body)
    content: list[str | BinaryContent] = []
    for part in body:
        if part.get("type") != "image_url":
            content.append(str(part.get("text", "")))
            continue
        url = str(part["image_url"]["url"])
        image = _image(url)
        if image is None:
            # Never fetch an address: it may be one that only this machine can reach (SSRF).
            content.append(f"(an image at {url[:200]})")
        else:
            data, media_type = image
            content.append(BinaryContent(data, media_type=media_type))
    return UserPromptPart(content)


def _image(url: str) -> tuple[bytes, str] | None:
    head, _, data = url.partition(",")
    if not head.startswith(_DATA) or not head.endswith(";base64"):
        return None
    try:
        return base64.b64decode(data, validate=True), head.removeprefix(_DATA).partition(";")[0]
    except (ValueError, binascii.Error):
        return None


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content)
    return json.dumps(content)


def _arguments(arguments: Any) -> dict[str, Any]:
    """Return arguments as an object: all providers reject a history with other arguments.

    Invalid or too deeply nested JSON stays text.
    """
    try:
        source = canonical.JsonText(arguments or "{}") if isinstance(arguments, str) else arguments
        value = json.loads(canonical.dump(source, "arguments", 1 << 40))
    except (Invalid, RecursionError):
        value = arguments if isinstance(arguments, str) else repr(type(arguments))
    return value if isinstance(value, dict) else {"arguments": value}


def join_surrogates(text: str) -> str:
    """Join surrogate pairs: a service may send the two halves of a character separately."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def parse_calls(parts: Sequence[Any], limit: int) -> list[ToolCall]:
    """Return the tool calls of a pydantic-ai response, with unique ids and cleaned arguments."""
    calls: list[ToolCall] = []
    for number, part in enumerate(parts[:MAX_CALLS]):
        id = _cleaned(part.tool_call_id or "")[:MAX_NAME_CHARACTERS].strip() or f"call-{number}"
        if any(other.id == id for other in calls):
            id = f"{id[: MAX_NAME_CHARACTERS - 4]}-{number}"
        name = _cleaned(part.tool_name)[:MAX_NAME_CHARACTERS].strip() or "unnamed"
        try:
            arguments = part.args
            if not isinstance(arguments, str):
                arguments = json.dumps(arguments or {}, ensure_ascii=False)
        except (ValueError, TypeError, RecursionError):
            arguments = "arguments that are not valid JSON"
        calls.append(ToolCall(id, name, _cleaned(arguments)[:limit]))
    return calls


def _cleaned(text: Any) -> str:
    return canonical.text(join_surrogates(str(text)), "text", 1 << 40)

"""A conversation with a model: messages in OpenAI's shape and tools go in, text and tool calls come out.

What comes out is believed as little as any answer: names, ids and arguments of calls are what a service says they are.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from retain.base import canonical
from retain.base.errors import Invalid
from retain.messages.pairing import Call

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

OnText = Callable[[str], None]
MAX_CALLS = 32
"""Calls in one reply; a model that asks for more at once has lost its way."""
MAX_NAME_CHARACTERS = 64
_DATA = "data:"


@dataclass(frozen=True)
class Reply:
    """What a model said: text, tools that it asks for, and what it took; `cut` if it wanted to go on."""

    text: str
    calls: Sequence[Call]
    model: str
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None
    latency_ms: float = 0.0
    cut: bool = False


@runtime_checkable
class ChatModel(Protocol):
    """A model that can hold a conversation."""

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
    ) -> Reply:
        """Say what comes next, or raise a ModelError.

        With `on_text`, text is told as it comes; it may be called in another thread. Without `use_tools`, no tool may be
        asked for any more, though the conversation has some in it.
        """
        ...


def to_pydantic_ai(messages: Sequence[Mapping[str, Any]]) -> list[ModelMessage]:
    """Messages in OpenAI's shape, as pydantic-ai has them."""
    from pydantic_ai.messages import ModelRequest, ModelResponse

    made: list[ModelMessage] = []
    names: dict[str, str] = {}
    for message in messages:
        if message["role"] == "assistant":
            parts = list(_answered(message, names))
            if made and isinstance(made[-1], ModelResponse):
                made[-1] = ModelResponse(parts=[*made[-1].parts, *parts])
            elif parts:
                made.append(ModelResponse(parts=parts))
            continue
        asked = _asked(message, names)
        if made and isinstance(made[-1], ModelRequest):
            made[-1] = ModelRequest(parts=[*made[-1].parts, asked])
        else:
            made.append(ModelRequest(parts=[asked]))
    return made


def _answered(message: Mapping[str, Any], names: dict[str, str]) -> Iterator[Any]:
    from pydantic_ai.messages import TextPart, ToolCallPart

    if message.get("content"):
        yield TextPart(_text(message["content"]))
    for call in message.get("tool_calls") or ():
        function = call["function"]
        names[call["id"]] = function["name"]
        yield ToolCallPart(function["name"], _arguments(function["arguments"]), call["id"])


def _asked(message: Mapping[str, Any], names: Mapping[str, str]) -> Any:
    from pydantic_ai.messages import BinaryContent, SystemPromptPart, ToolReturnPart, UserPromptPart

    role, said = message["role"], message["content"]
    if role == "system":
        return SystemPromptPart(_text(said))
    if role == "tool":
        id = message["tool_call_id"]
        return ToolReturnPart(names.get(id, "unknown"), _text(said), id)
    if isinstance(said, str):
        return UserPromptPart(said)
    content: list[str | BinaryContent] = []
    for part in said:
        if part.get("type") != "image_url":
            content.append(str(part.get("text", "")))
            continue
        url = str(part["image_url"]["url"])
        found = _image(url)
        # An address is not followed, neither here nor by a library: it may be one that only this machine can reach.
        content.append(
            f"(an image at {url[:200]})"
            if found is None
            else BinaryContent(found[0], media_type=found[1])
        )
    return UserPromptPart(content)


def _image(url: str) -> tuple[bytes, str] | None:
    head, _, data = url.partition(",")
    if not head.startswith(_DATA) or not head.endswith(";base64"):
        return None
    try:
        return base64.b64decode(data, validate=True), head.removeprefix(_DATA).partition(";")[0]
    except (ValueError, binascii.Error):
        return None


def _text(said: Any) -> str:
    if isinstance(said, str):
        return said
    return (
        "\n".join(str(part.get("text", "")) for part in said)
        if isinstance(said, list)
        else json.dumps(said)
    )


def _arguments(given: Any) -> dict[str, Any]:
    """Arguments as an object, whatever a model had written: every provider refuses a history with anything else.

    What no JSON can say, or is nested deeper than a library can write, stays the text that it was.
    """
    try:
        written = canonical.JsonText(given or "{}") if isinstance(given, str) else given
        found = json.loads(canonical.dump(written, "arguments", 1 << 40))
    except (Invalid, RecursionError):
        found = given if isinstance(given, str) else repr(type(given))
    return found if isinstance(found, dict) else {"arguments": found}


def join_surrogates(text: str) -> str:
    """Text whose surrogates are whole again: a service may send the two halves of a character one after the other."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def parse_calls(found: Sequence[Any], most: int) -> list[Call]:
    """The calls of a pydantic-ai response: each with an id of its own, and arguments that are JSON text or say why not."""
    made: list[Call] = []
    for number, part in enumerate(found[:MAX_CALLS]):
        id = _cleaned(part.tool_call_id or "")[:MAX_NAME_CHARACTERS].strip() or f"call-{number}"
        if any(other.id == id for other in made):
            id = f"{id[: MAX_NAME_CHARACTERS - 4]}-{number}"
        name = _cleaned(part.tool_name)[:MAX_NAME_CHARACTERS].strip() or "unnamed"
        try:
            given = (
                part.args
                if isinstance(part.args, str)
                else json.dumps(part.args or {}, ensure_ascii=False)
            )
        except (ValueError, TypeError, RecursionError):
            given = "arguments that cannot be written"
        made.append(Call(id, name, _cleaned(given)[:most]))
    return made


def _cleaned(text: Any) -> str:
    return canonical.text(join_surrogates(str(text)), "text", 1 << 40)

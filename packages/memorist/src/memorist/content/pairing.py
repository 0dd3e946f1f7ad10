"""Pairing of tool calls and results, in the common formats.

Providers reject a result without its call, and a call without its result. Code that drops,
summarizes or renders messages uses this module to keep pairs together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

_BUILT_IN = {
    "custom_tool_call",
    "computer_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
}
"""OpenAI's calls that are not functions; each result type is named after its call."""
_CALLS = {"tool_call", "tool_calls", "tool-call", "tool_use", "function_call", *_BUILT_IN}
_RESULTS = {"tool_result", "tool-result", "tool_return", "tool-return", "function_call_output"}
_RESULTS |= {f"{name}_output" for name in _BUILT_IN}
_THOUGHTS = {"reasoning", "thinking", "redacted_thinking"}
_IDS = ("tool_call_id", "tool_use_id", "call_id", "id")
_ARGUMENTS = ("arguments", "input", "args", "action", "operation")
_OUTPUTS = ("text", "content", "output", "result")
_TEXT = '{"text":"'


@dataclass(frozen=True)
class ToolCall:
    """A tool call; `arguments` are an object or JSON text, as the model sent them."""

    id: str
    name: str
    arguments: Any


@dataclass(frozen=True)
class ToolResult:
    """A tool result; `id` is '' if the message does not name the call."""

    id: str
    output: Any


class HasContent(Protocol):
    """The fields of a message that pairing needs."""

    @property
    def role(self) -> str:
        """Role of the speaker."""
        ...

    @property
    def content(self) -> dict[str, Any]:
        """Content as a JSON object."""
        ...


def tool_calls(content: Mapping[str, Any]) -> list[ToolCall]:
    """Return the tool calls of a message."""
    if content.keys() == {"text"}:
        return []
    calls = _parts(content, _CALLS)
    listed = content.get("tool_calls")
    if isinstance(listed, list):
        calls += [call for call in listed if isinstance(call, dict)]
    for name in _CALLS:
        single = content.get(name)
        if isinstance(single, dict):
            calls.append(single)
    return [_call(call) for call in calls]


def tool_results(role: str, content: Mapping[str, Any]) -> list[ToolResult]:
    """Return the tool results of a message: of its parts, or of a message with the role `tool`."""
    results = [
        ToolResult(_first(part, _IDS) or "", _output(part)) for part in _parts(content, _RESULTS)
    ]
    if not results and role == "tool":
        return [ToolResult(_first(content, _IDS) or "", _output(content))]
    return results


def is_plain_text(message: HasContent) -> bool:
    """Return whether a message is only text; checks the JSON text without parsing it."""
    raw = getattr(message, "raw", None)
    if raw is None:
        return message.content.keys() <= {"text"}
    if raw.find('"', len(_TEXT)) == len(raw) - 2 and raw.startswith(_TEXT):
        return True  # most messages: only a text, without quotation marks
    return not (
        '"parts"' in raw or '"tool' in raw or '"function_call"' in raw or '"attachments"' in raw
    )


def is_call(part: Any) -> bool:
    """Return whether a part is a tool call."""
    return _is_part(part, _CALLS)


def is_result(part: Any) -> bool:
    """Return whether a part is a tool result."""
    return _is_part(part, _RESULTS)


def is_reasoning(part: Any) -> bool:
    """Return whether a part is a model's reasoning."""
    return _is_part(part, _THOUGHTS)


def shrink_outputs(
    role: str, content: Mapping[str, Any], smaller: Callable[[Any, str], Any]
) -> dict[str, Any]:
    """Return content whose tool outputs are replaced by `smaller(output, call id)`."""
    if _parts(content, _RESULTS):
        parts = [
            _shrink_part(part, smaller) if _is_part(part, _RESULTS) else part
            for part in content["parts"]
        ]
        return {**content, "parts": parts}
    if role == "tool":
        return _shrink_part(content, smaller)
    return dict(content)


def match_results(messages: Sequence[HasContent]) -> dict[tuple[int, int], tuple[int, int]]:
    """Match calls with results: (message, index) of a call → (message, index) of its result.

    A result with a call id belongs to that call. A result without an id belongs to the first call
    without a result in the last message with calls.
    """
    matches: dict[tuple[int, int], tuple[int, int]] = {}
    calls_by_id: dict[str, tuple[int, int]] = {}
    latest: list[tuple[int, int]] = []
    for index, message in enumerate(messages):
        if message.role != "tool" and is_plain_text(message):
            latest = []
            continue
        for number, result in enumerate(tool_results(message.role, message.content)):
            if result.id:
                match = calls_by_id.pop(result.id, None)
            else:
                match = next((call for call in latest if call not in matches), None)
            if match is not None and match not in matches:
                matches[match] = (index, number)
        calls = tool_calls(message.content) if message.role == "assistant" else []
        if calls:
            latest = [(index, number) for number in range(len(calls))]
            for number, call in enumerate(calls):
                if call.id:
                    calls_by_id[call.id] = (index, number)
        elif message.role != "tool":
            latest = []
    return matches


def safe_cuts(messages: Sequence[HasContent]) -> list[bool]:
    """Return for each index, including the end, whether the conversation may be cut before it.

    A cut must not separate a call from its result.
    """
    can_cut = [True] * (len(messages) + 1)
    calls_by_id: dict[str, int] = {}
    latest = None
    for index, message in enumerate(messages):
        if message.role != "tool" and is_plain_text(message):
            latest = None
            continue
        for result in tool_results(message.role, message.content):
            call_index = calls_by_id.get(result.id) if result.id else latest
            if call_index is not None:
                for between in range(call_index + 1, index + 1):
                    can_cut[between] = False
        calls = tool_calls(message.content) if message.role == "assistant" else []
        if calls:
            latest = index
            calls_by_id |= {call.id: index for call in calls if call.id}
        elif message.role != "tool":
            latest = None
    return can_cut


def _parts(content: Mapping[str, Any], kinds: set[str]) -> list[Mapping[str, Any]]:
    parts = content.get("parts")
    return [part for part in parts if _is_part(part, kinds)] if isinstance(parts, list) else []


def _is_part(part: Any, kinds: set[str]) -> bool:
    return isinstance(part, dict) and isinstance(part.get("type"), str) and part["type"] in kinds


def _shrink_part(part: Mapping[str, Any], smaller: Callable[[Any, str], Any]) -> dict[str, Any]:
    id = _first(part, _IDS) or ""
    return {
        name: smaller(_text_of(value), id) if name in _OUTPUTS and value else value
        for name, value in part.items()
    }


def _call(call: Mapping[str, Any]) -> ToolCall:
    function = call.get("function")
    fields = function if isinstance(function, dict) else call
    name = _first(fields, ("name", "tool_name", "tool"))
    if not name:
        name = call["type"] if _is_part(call, _BUILT_IN) else "unknown"
    arguments: Any = next((fields[key] for key in _ARGUMENTS if fields.get(key) is not None), {})
    return ToolCall(_first(call, _IDS) or "", name, arguments)


def _output(part: Mapping[str, Any]) -> Any:
    return _text_of(next((part[key] for key in _OUTPUTS if part.get(key)), ""))


def _text_of(output: Any) -> Any:
    """Return the text of an output that consists of text blocks; other outputs unchanged."""
    if not isinstance(output, list) or not output:
        return output
    if not all(_is_part(block, {"text", "output_text"}) for block in output):
        return output
    texts = [block.get("text") for block in output]
    return "\n".join(texts) if all(isinstance(text, str) for text in texts) else output


def _first(value: Mapping[str, Any], names: Sequence[str]) -> str | None:
    return next(
        (value[name] for name in names if isinstance(value.get(name), str) and value[name]), None
    )

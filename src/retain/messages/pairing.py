"""Pairing of tool calls and results, in the common formats.

Providers reject a result without its call, and a call without its result. Code that drops,
summarizes or renders messages uses this module to keep pairs together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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


@dataclass(frozen=True)
class Call:
    """A tool call; `arguments` are an object or JSON text, as the model gave them."""

    id: str
    name: str
    arguments: Any


@dataclass(frozen=True)
class Result:
    """A tool result; `id` is '' if the message does not name the call."""

    id: str
    output: Any


class Spoken(Protocol):
    """The part of a message that pairing needs."""

    @property
    def role(self) -> str:
        """Role of the speaker."""
        ...

    @property
    def content(self) -> dict[str, Any]:
        """Content as a JSON object."""
        ...


def tool_calls(content: Mapping[str, Any]) -> list[Call]:
    """Return the tool calls of a message."""
    if content.keys() == {"text"}:
        return []
    calls = [*_parts(content, _CALLS)]
    listed = content.get("tool_calls")
    calls += [call for call in listed if isinstance(call, dict)] if isinstance(listed, list) else []
    for name in _CALLS:
        single = content.get(name)
        calls += [single] if isinstance(single, dict) else []
    return [_call(call) for call in calls]


def tool_results(role: str, content: Mapping[str, Any]) -> list[Result]:
    """Return the tool results of a message: of role `tool`, or with parts that are results."""
    results = [
        Result(_first(part, _IDS) or "", _output(part)) for part in _parts(content, _RESULTS)
    ]
    if not results and role == "tool":
        return [Result(_first(content, _IDS) or "", _output(content))]
    return results


def is_plain_text(message: Spoken) -> bool:
    """Return whether a message is only text; checks the JSON text without parsing it."""
    raw = getattr(message, "raw", None)
    if raw is None:
        return message.content.keys() <= {"text"}
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
    shrunk = dict(content)
    parts = content.get("parts")
    if any(True for _ in _parts(content, _RESULTS)):
        assert isinstance(parts, list)
        shrunk["parts"] = [
            _smaller(part, smaller) if _is_part(part, _RESULTS) else part for part in parts
        ]
    elif role == "tool":
        return _smaller(content, smaller)
    return shrunk


def match_results(messages: Sequence[Spoken]) -> dict[tuple[int, int], tuple[int, int]]:
    """Match calls with results: (message, index) of a call → (message, index) of its result.

    A result with a call id answers that call. One without answers the first open call of the last
    message with calls.
    """
    matches: dict[tuple[int, int], tuple[int, int]] = {}
    named: dict[str, tuple[int, int]] = {}
    latest: list[tuple[int, int]] = []
    for place, message in enumerate(messages):
        if message.role != "tool" and is_plain_text(message):
            latest = []
            continue
        for number, result in enumerate(tool_results(message.role, message.content)):
            call = (
                named.pop(result.id, None)
                if result.id
                else next((c for c in latest if c not in matches), None)
            )
            if call is not None and call not in matches:
                matches[call] = (place, number)
        calls = tool_calls(message.content) if message.role == "assistant" else []
        if calls:
            latest = [(place, number) for number in range(len(calls))]
            named.update({call.id: (place, number) for number, call in enumerate(calls) if call.id})
        elif message.role != "tool":
            latest = []
    return matches


def safe_cuts(messages: Sequence[Spoken]) -> list[bool]:
    """Return for each index, including the end, whether the conversation may be cut before it.

    A cut must not separate a call from its result.
    """
    free = [True] * (len(messages) + 1)
    places: dict[str, int] = {}
    latest = None
    for place, message in enumerate(messages):
        if message.role != "tool" and is_plain_text(message):
            latest = None
            continue
        for result in tool_results(message.role, message.content):
            origin = places.get(result.id, latest if not result.id else None)
            if origin is not None:
                for between in range(origin + 1, place + 1):
                    free[between] = False
        calls = tool_calls(message.content) if message.role == "assistant" else []
        if calls:
            latest = place
            places.update({call.id: place for call in calls if call.id})
        elif message.role != "tool":
            latest = None
    return free


def _parts(content: Mapping[str, Any], kinds: set[str]) -> Iterator[Mapping[str, Any]]:
    parts = content.get("parts")
    yield from (part for part in parts if _is_part(part, kinds)) if isinstance(parts, list) else ()


def _is_part(part: Any, kinds: set[str]) -> bool:
    return isinstance(part, dict) and isinstance(part.get("type"), str) and part["type"] in kinds


def _smaller(part: Mapping[str, Any], smaller: Callable[[Any, str], Any]) -> dict[str, Any]:
    id = _first(part, _IDS) or ""
    return {
        name: smaller(_text_of(value), id) if name in _OUTPUTS and value else value
        for name, value in part.items()
    }


def _call(call: Mapping[str, Any]) -> Call:
    function = call.get("function")
    named = function if isinstance(function, dict) else call
    name = _first(named, ("name", "tool_name", "tool")) or (
        call["type"] if _is_part(call, _BUILT_IN) else "unknown"
    )
    arguments: Any = next((named[key] for key in _ARGUMENTS if named.get(key) is not None), {})
    return Call(_first(call, _IDS) or "", name, arguments)


def _output(part: Mapping[str, Any]) -> Any:
    return _text_of(next((part[key] for key in _OUTPUTS if part.get(key)), ""))


def _text_of(output: Any) -> Any:
    """Return the text of an output that consists of text blocks; any other unchanged."""
    blocks = (
        isinstance(output, list)
        and output
        and all(_is_part(block, {"text", "output_text"}) for block in output)
    )
    texts = [block.get("text") for block in output] if blocks else []
    return "\n".join(texts) if texts and all(isinstance(text, str) for text in texts) else output


def _first(value: Mapping[str, Any], names: Sequence[str]) -> str | None:
    return next(
        (value[name] for name in names if isinstance(value.get(name), str) and value[name]), None
    )

"""The tools of one turn: the calls of a model, their results, and the token limit for both."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from memorist.base import canonical, limits, masking, tokens
from memorist.base.error_text import error_text
from memorist.base.errors import MemoristError
from memorist.chat.caller import Caller
from memorist.content import placeholder
from memorist.content.pairing import ToolCall
from memorist.context.window import call_tokens, shorten_call, stored_key
from memorist.kinds.agents import NO_TOOLS
from memorist.kinds.extra_tools import ExtraTool
from memorist.kinds.tool import Tool, ToolOutput
from memorist.kinds.trust import FOREIGN
from memorist.memory import Scope

_log = logging.getLogger("memorist.chat")

MAX_CALLS_AT_ONCE = 16
MAX_CALLS_PER_TURN = 256
"""Tool calls of one turn. A turn is saved in one write, which must not become too large."""
_BOUNDED = {"retrieve_memory", "search_memory"}
"""Tools that limit the size of their results, so that no result becomes a reference."""
_SHORT_CHARACTERS = 200
_ALWAYS_SHOWN_TOKENS = 200
"""Results up to this size are shown even if no tokens are left: they may contain the key of stored
content."""
_TOO_MANY_CALLS = (
    f"Not run: at most {MAX_CALLS_AT_ONCE} tools at once. Repeat the calls that you still need."
)
_ARGUMENTS_TOO_LONG = "Not run: the arguments are too long ({size} bytes; at most {limit} in one reply). Send less, or in parts."
_NO_ROOM = "There is no more room for tool results in this turn. Answer with what you have."


@dataclass(frozen=True)
class ToolOutcome:
    """The result of a tool call as the model reads it; `ok` if the call succeeded."""

    call: ToolCall
    ok: bool
    text: str

    def message(self) -> dict[str, Any]:
        """Return the message of the conversation."""
        return {
            "role": "tool",
            "tool_call_id": self.call.id,
            "name": self.call.name,
            "content": self.text,
        }

    def event_data(self) -> dict[str, Any]:
        """Return the data of the event."""
        return {
            "id": self.call.id,
            "name": self.call.name,
            "ok": self.ok,
            "short": self.text[:_SHORT_CHARACTERS],
        }


class Tools:
    """The tools of an agent that the caller may use.

    If `names` contains no memory tool, the agent has all memory tools; with `NO_TOOLS` it has none.
    `extra_tools` are other tools, such as those of MCP servers; an agent with extra tools can
    always open the references to their large results.

    Calls and results of one turn share `room` tokens, so that a prompt cannot grow without limit.
    Once a model has read content that came from a tool, it may repeat that content in what it
    saves. From then on it writes with the source "tool", which is less trusted.
    """

    def __init__(
        self,
        scope: Scope,
        session: str,
        names: Sequence[str],
        room: int,
        caller: Caller | None = None,
        extra_tools: Sequence[ExtraTool] = (),
    ) -> None:
        self._session = session
        self._extra_tools = {tool.name: tool for tool in extra_tools}
        self._memory_tools = {tool.name for tool in scope.tools()}
        chosen = self._memory_tools.intersection(names)
        has_choice = bool(chosen) or NO_TOOLS in names
        if has_choice and extra_tools:
            chosen.add("retrieve_memory")
        self._names = chosen if has_choice else self._memory_tools
        self._caller = caller
        self._tool_scope = Scope(scope.services, replace(scope.owner, source="tool"))
        """The same memory with the source "tool", for content that no person or agent wrote."""
        self._use_scope(scope)
        self._tokens_left = room
        self._calls = 0
        self.changes = 0  # calls that changed the memory
        self._max_argument_bytes = limits.MAX_MESSAGE_BYTES // 4
        self.definitions = [
            tool.openai() for tool in (*self._tools.values(), *self._extra_tools.values())
        ]

    def _use_scope(self, scope: Scope) -> None:
        """Switch to the tools of a scope."""
        permissions = None if self._caller is None else self._caller.principal.permissions
        tools = (
            (tool if permissions is None else tool.limited(permissions))
            for tool in scope.tools(session=self._session)
        )
        self._scope = scope
        self._tools = {tool.name: tool for tool in tools if tool and tool.name in self._names}

    @property
    def is_exhausted(self) -> bool:
        """True if the turn may call no more tools."""
        return self._tokens_left <= 0 or self._calls >= MAX_CALLS_PER_TURN

    def limit_arguments(self, calls: Sequence[ToolCall]) -> list[ToolCall]:
        """Return the calls of one reply; arguments that are too long are replaced by their size."""
        bytes_left = self._max_argument_bytes
        limited = []
        for call in calls:
            size = len(canonical.quote(str(call.arguments)).encode("utf-8", "replace"))
            if size <= bytes_left:
                bytes_left -= size
                limited.append(call)
            else:
                limited.append(replace(call, arguments=TooLong(size)))
        return limited

    def run(self, calls: Sequence[ToolCall]) -> Iterator[ToolOutcome]:
        """Run the calls one after the other; an error becomes a result that the model can read."""
        for index, call in enumerate(calls):
            self._calls += 1
            if isinstance(call.arguments, TooLong):
                size = call.arguments.size
                problem = _ARGUMENTS_TOO_LONG.format(size=size, limit=self._max_argument_bytes)
                result = _error_result(call, problem)
            elif self.is_exhausted:
                result = _error_result(call, f"Not run. {_NO_ROOM}")
            elif index >= MAX_CALLS_AT_ONCE:
                result = _error_result(call, _TOO_MANY_CALLS)
            else:
                result = self._run(call)
                result_tokens = tokens.estimate(result.text)
                spent = result_tokens + call_tokens(prompt_call(result))
                if spent > self._tokens_left and result_tokens > _ALWAYS_SHOWN_TOKENS:
                    result = replace(
                        result, text=_to_text({"done": result.ok, "not_shown": _NO_ROOM})
                    )
                self._tokens_left -= spent
            yield result

    def _run(self, call: ToolCall) -> ToolOutcome:
        extra_tool = self._extra_tools.get(call.name)
        if extra_tool is not None:
            return self._run_extra(extra_tool, call)
        tool = self._tools.get(call.name)
        if tool is None:
            names = ", ".join((*self._tools, *self._extra_tools))
            available = f"available: {names}" if names else "none is available"
            return _error_result(call, f"Unknown tool {call.name!r}; {available}.")
        try:
            output = self._call_memory_tool(tool, call.arguments)
            text = _to_text(output)
            if tool.name in _BOUNDED:
                self._distrust(output)
            else:
                text = self._tool_scope.refs.capture(text, source=tool.name, session=self._session)
        except MemoristError as error:
            return _error_result(call, error_text(error))
        except Exception as error:  # a broken tool must not fail the turn
            _log.exception("Tool %s failed.", tool.name)
            return _error_result(
                call, f"{tool.name} failed ({type(error).__name__}). Answer without this tool."
            )
        ok = "error" not in output
        arguments = _parse_arguments(call.arguments)
        if ok and isinstance(arguments, Mapping) and tool.effect_of(arguments) != "read":
            self.changes += 1
        return ToolOutcome(call, ok, text)

    def _run_extra(self, tool: ExtraTool, call: ToolCall) -> ToolOutcome:
        """Run an extra tool. Its result is untrusted; a large result becomes a reference."""
        arguments = _parse_arguments(call.arguments)
        result = self._scope.services.observer.call_tool(tool, self._scope.owner, arguments)
        self._use_scope(self._tool_scope)
        if "error" in result:
            policy = self._scope.services.settings.output_masking
            problem = masking.mask_personal(result["error"], policy)
            return _error_result(call, placeholder.verify(problem, {}))
        if tool.effect != "read":
            self.changes += 1
        try:
            output = _plain_text(result["result"])
            text = self._tool_scope.refs.capture(output, source=tool.name, session=self._session)
        except MemoristError as error:
            problem = f"{tool.name} ran, but its result was lost: {error_text(error)}"
            return _error_result(call, problem)
        except Exception as error:  # a result that is not JSON, such as a list that contains itself
            _log.exception("The result of the tool %s cannot be shown.", tool.name)
            problem = f"{tool.name} ran, but its result cannot be shown"
            return _error_result(call, f"{problem} ({type(error).__name__}).")
        shown = placeholder.verify(output, {}) if text == output else text
        policy = self._scope.services.settings.output_masking
        return ToolOutcome(call, True, masking.mask_personal(shown, policy))

    def check_earlier_results(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Lower the trust if the model reads untrusted tool results of earlier turns again."""
        for message in messages:
            for call in message.get("tool_calls") or ():
                if call["function"]["name"] not in self._memory_tools:
                    self._use_scope(self._tool_scope)
            if message.get("role") != "tool":
                continue
            result = _parse_arguments(message.get("content"))
            if isinstance(result, Mapping):
                with suppress(MemoristError):  # the reference is unknown, or was removed since
                    self._distrust(result)

    def _distrust(self, output: Mapping[str, Any]) -> None:
        """Switch to the source "tool" if a result has content that no person or agent wrote."""
        results = output.get("results")
        sources = []
        if isinstance(results, list):
            sources = [result.get("source") for result in results if isinstance(result, Mapping)]
        if "content" in output and isinstance(key := output.get("memory_key"), str):
            sources.append(self._tool_scope.refs.info(key).source)
        if any(source in FOREIGN for source in sources):
            self._use_scope(self._tool_scope)

    def _call_memory_tool(self, tool: Tool, arguments: Any) -> ToolOutput:
        """Call a tool with the permissions of the caller, and audit each change."""
        parsed = _parse_arguments(arguments)
        if self._caller is not None and isinstance(parsed, Mapping):
            effect = tool.effect_of(parsed)
            action = tool.action_of(parsed)
            self._caller.principal.require_for(
                effect, action.partition("_")[0], parsed, self._scope.owner.user
            )
            if effect != "read":
                scope = self._caller.acting(self._scope, action)
                (tool,) = scope.tools([tool.name], session=self._session)
        return self._scope.services.observer.call_tool(tool, self._scope.owner, parsed)


def prompt_call(result: ToolOutcome) -> ToolCall:
    """Return the call of a result for later rounds, with a placeholder for stored content."""
    call = result.call
    output = _parse_arguments(result.text)
    if not stored_key(call.name, output) or call_tokens(call) <= limits.REF_TOKENS:
        return call
    shortened = shorten_call(call, limits.SHORT_TOKENS, output.get("placeholder", ""))
    return replace(shortened, arguments=_to_text(shortened.arguments))


class TooLong(str):
    """Valid JSON that replaces arguments that are too long to be stored."""

    size: int

    def __new__(cls, size: int) -> TooLong:
        """Create the replacement for arguments of `size` bytes."""
        replacement = super().__new__(cls, _to_text({"left_out_bytes": size}))
        replacement.size = size
        return replacement


def _parse_arguments(arguments: Any) -> Any:
    """Parse arguments as a JSON object. Return anything else unchanged: the tool rejects it."""
    if not isinstance(arguments, str):
        return arguments
    try:
        parsed = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return arguments
    return parsed if isinstance(parsed, Mapping) else arguments


def _error_result(call: ToolCall, problem: str) -> ToolOutcome:
    return ToolOutcome(call, False, _to_text({"error": problem}))


def _plain_text(result: Any) -> str:
    """Return the result of a function as text: a string as it is, anything else as JSON."""
    if not isinstance(result, str):
        from pydantic_core import to_jsonable_python

        result = _to_text(to_jsonable_python(result, bytes_mode="base64", fallback=str))
    return canonical.text(result, "result", 1 << 40) or "(no output)"


def _to_text(output: Any) -> str:
    return canonical.text(json.dumps(output, ensure_ascii=False, default=str), "output", 1 << 40)

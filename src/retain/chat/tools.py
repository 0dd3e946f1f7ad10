"""The tools of one turn: the calls of a model, their results, and the token limit for both."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from retain.base import canonical, limits, tokens
from retain.base.errors import RetainError
from retain.chat.caller import Caller
from retain.kinds.search_scope import FOREIGN_SOURCES
from retain.kinds.tool import Answer, Tool
from retain.memory import Scope
from retain.messages.pairing import Call

_log = logging.getLogger("retain.chat")

MOST_AT_ONCE = 16
MOST_IN_A_TURN = 256
"""Tool calls stored with a turn. It is saved in one piece and must not be rejected as too long."""
_BOUNDED = {"retrieve_memory", "search_memory"}
"""Tools that limit their result themselves. It is not replaced by a reference."""
_SHORT = 200
_LATE = f"Not run: at most {MOST_AT_ONCE} tools at once. Ask again for what you still need."
_LONG = "Not run: the arguments are too long ({size} bytes; at most {most} in one reply). Send less, or in parts."
_ROOM = "There is no more room for what tools answer in this turn. Answer with what you have."


@dataclass(frozen=True)
class Result:
    """The result of a tool call as the model reads it; `ok` if the call succeeded."""

    call: Call
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

    def told(self) -> dict[str, Any]:
        """Return the data of the event."""
        return {
            "id": self.call.id,
            "name": self.call.name,
            "ok": self.ok,
            "short": self.text[:_SHORT],
        }


class Tools:
    """The tools of an agent: those it is set up with (default: all) that the caller may use.

    Calls and results of one turn share `room` tokens, so that a prompt cannot grow without limit.
    Once a model has read content that came from a tool, what it saves may repeat that content. From
    then on it writes with the source "tool", which is trusted less.
    """

    def __init__(
        self, scope: Scope, session: str, names: Sequence[str], room: int, by: Caller | None = None
    ) -> None:
        self._session = session
        self._names = names
        self._by = by
        self._below = Scope(scope.services, replace(scope.owner, source="tool"))
        """The same memory with the source "tool", for content that no person or agent wrote."""
        self._equip(scope)
        self._left = room
        self._calls = 0
        self._most_bytes = limits.MAX_MESSAGE_BYTES // 4
        self.offered = [tool.openai() for tool in self._tools.values()]

    def _equip(self, scope: Scope) -> None:
        """Switch to the tools of a scope."""
        may = None if self._by is None else self._by.principal.permissions
        tools = ((tool if may is None else tool.limited(may)) for tool in scope.tools())
        self._scope = scope
        self._tools = {
            tool.name: tool
            for tool in tools
            if tool and (not self._names or tool.name in self._names)
        }

    @property
    def over(self) -> bool:
        """True if the turn may call no more tools."""
        return self._left <= 0 or self._calls >= MOST_IN_A_TURN

    def fitting(self, calls: Sequence[Call]) -> list[Call]:
        """Return the calls of one reply; the size replaces arguments that are too long."""
        left = self._most_bytes
        fitted = []
        for call in calls:
            size = len(canonical.quote(str(call.arguments)).encode("utf-8", "replace"))
            left -= size
            fitted.append(call if left >= 0 else replace(call, arguments=TooLong(size)))
            left += 0 if left >= 0 else size
        return fitted

    def run(self, calls: Sequence[Call]) -> Iterator[Result]:
        """Run the calls one after the other; an error becomes a result that the model can read."""
        for place, call in enumerate(calls):
            self._calls += 1
            if isinstance(call.arguments, TooLong):
                result = _refused(
                    call, _LONG.format(size=call.arguments.size, most=self._most_bytes)
                )
            elif place >= MOST_AT_ONCE or self.over:
                result = _refused(call, f"Not run. {_ROOM}" if self.over else _LATE)
            else:
                result = self._run(call)
                spent = tokens.estimate(result.text) + tokens.estimate(str(call.arguments))
                if spent > self._left:
                    result = replace(result, text=_written({"done": result.ok, "not_shown": _ROOM}))
                self._left -= spent
            yield result

    def _run(self, call: Call) -> Result:
        tool = self._tools.get(call.name)
        if tool is None:
            has = f"there are {', '.join(self._tools)}" if self._tools else "there are none"
            return _refused(call, f"There is no tool {call.name!r} here; {has}.")
        try:
            answer = self._answer(tool, call.arguments)
            text = _written(answer)
            if tool.name in _BOUNDED:
                self._distrust(answer)
            else:
                text = self._below.refs.capture(text, source=tool.name, session=self._session)
        except RetainError as error:
            return _refused(call, str(error))
        except Exception as error:  # a broken tool must not fail the turn
            _log.exception("the tool %s failed", tool.name)
            return _refused(call, f"{tool.name} failed ({type(error).__name__}); do without it.")
        return Result(call, "error" not in answer, text)

    def told(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Check the tool results of earlier turns, which the model reads again."""
        for message in messages:
            result = _read(message.get("content")) if message.get("role") == "tool" else None
            if isinstance(result, Mapping):
                with suppress(RetainError):  # not one of our references, or removed since
                    self._distrust(result)

    def _distrust(self, answer: Mapping[str, Any]) -> None:
        """Switch to the source "tool" if a result has content that no person or agent wrote."""
        results = answer.get("results")
        sources = (
            [result.get("source") for result in results if isinstance(result, Mapping)]
            if isinstance(results, list)
            else []
        )
        if "content" in answer and isinstance(key := answer.get("memory_key"), str):
            sources.append(self._below.refs.info(key).source)
        if not FOREIGN_SOURCES.isdisjoint(sources):
            self._equip(self._below)

    def _answer(self, tool: Tool, arguments: Any) -> Answer:
        """Call a tool with the permissions of the caller, and audit each change."""
        parsed = _read(arguments)
        if self._by is not None and isinstance(parsed, Mapping):
            effect = tool.does(parsed)
            deed = tool.deed(parsed)
            self._by.principal.require_for(
                effect, deed.partition("_")[0], parsed, self._scope.owner.user
            )
            if effect != "read":
                (tool,) = self._by.acting(self._scope, deed).tools([tool.name])
        return self._scope.services.observer.call_tool(tool, self._scope.owner, parsed)


class TooLong(str):
    """Valid JSON that replaces arguments that are too long to be stored."""

    size: int

    def __new__(cls, size: int) -> TooLong:
        """Create the replacement for arguments of `size` bytes."""
        replacement = super().__new__(cls, _written({"left_out_bytes": size}))
        replacement.size = size
        return replacement


def _read(arguments: Any) -> Any:
    """Parse arguments as a JSON object. Return anything else unchanged: the tool rejects it."""
    if not isinstance(arguments, str):
        return arguments
    try:
        parsed = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return arguments
    return parsed if isinstance(parsed, Mapping) else arguments


def _refused(call: Call, problem: str) -> Result:
    return Result(call, False, _written({"error": problem}))


def _written(answer: Any) -> str:
    return canonical.text(json.dumps(answer, ensure_ascii=False, default=str), "answer", 1 << 40)

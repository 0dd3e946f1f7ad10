"""The tools of one turn: what a model may ask for, what it is answered, and how much of that there is room for."""

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
"""So many calls are kept with a turn: it is saved at once, and must not be refused for its length."""
_BOUNDED = {"retrieve_memory", "search_memory"}
"""What answers with as much as fits anyway; a reference to what was just opened would help nobody."""
_SHORT = 200
_LATE = f"Not run: at most {MOST_AT_ONCE} tools at once. Ask again for what you still need."
_LONG = "Not run: the arguments are too long ({size} bytes; at most {most} in one reply). Send less, or in parts."
_ROOM = "There is no more room for what tools answer in this turn. Answer with what you have."


@dataclass(frozen=True)
class Result:
    """What a tool answered, as the model is told; `ok` if it did what it was asked to."""

    call: Call
    ok: bool
    text: str

    def message(self) -> dict[str, Any]:
        """As a message of the conversation."""
        return {
            "role": "tool",
            "tool_call_id": self.call.id,
            "name": self.call.name,
            "content": self.text,
        }

    def told(self) -> dict[str, Any]:
        """As an event has it."""
        return {
            "id": self.call.id,
            "name": self.call.name,
            "ok": self.ok,
            "short": self.text[:_SHORT],
        }


class Tools:
    """The tools that an agent has: those that it is set up with, all of memory's by default, and that the asker may use.

    What they answer in one turn has `room` tokens, so that a prompt cannot grow without end. Once a model has opened or
    found what a tool brought, whatever it saves may be that tool's words, and is trusted no more than they are.
    """

    def __init__(
        self, scope: Scope, session: str, names: Sequence[str], room: int, by: Caller | None = None
    ) -> None:
        self._session, self._names, self._by = session, names, by
        self._below = Scope(scope.services, replace(scope.owner, source="tool"))
        """The same memory, for what nobody answers for."""
        self._equip(scope)
        self._left, self._calls = room, 0
        self._most_bytes = limits.MAX_MESSAGE_BYTES // 4
        self.offered = [tool.openai() for tool in self._tools.values()]

    def _equip(self, scope: Scope) -> None:
        """Use the tools of a scope from now on."""
        may = None if self._by is None else self._by.principal.permissions
        found = ((tool if may is None else tool.limited(may)) for tool in scope.tools())
        self._scope = scope
        self._tools = {
            tool.name: tool
            for tool in found
            if tool and (not self._names or tool.name in self._names)
        }

    @property
    def over(self) -> bool:
        """Whether this turn has used its tools enough."""
        return self._left <= 0 or self._calls >= MOST_IN_A_TURN

    def fitting(self, calls: Sequence[Call]) -> list[Call]:
        """The calls of one reply as they can be kept: where arguments are too long, their size is in place of them."""
        left, kept = self._most_bytes, []
        for call in calls:
            size = len(canonical.quote(str(call.arguments)).encode("utf-8", "replace"))
            left -= size
            kept.append(call if left >= 0 else replace(call, arguments=TooLong(size)))
            left += 0 if left >= 0 else size
        return kept

    def run(self, calls: Sequence[Call]) -> Iterator[Result]:
        """Do what a model asks for, one after the other; whatever goes wrong is an answer that it can read."""
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
        except Exception as error:  # a tool that breaks must not take the turn with it
            _log.exception("the tool %s failed", tool.name)
            return _refused(call, f"{tool.name} failed ({type(error).__name__}); do without it.")
        return Result(call, "error" not in answer, text)

    def told(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Look at what a model is told of earlier turns: what these opened or found it reads again."""
        for message in messages:
            found = _read(message.get("content")) if message.get("role") == "tool" else None
            if isinstance(found, Mapping):
                with suppress(RetainError):  # no reference of ours, or it is gone
                    self._distrust(found)

    def _distrust(self, answer: Mapping[str, Any]) -> None:
        """Write as a tool from now on, if what was opened or found is no person's and no agent's own words."""
        found = answer.get("results")
        sources = (
            [result.get("source") for result in found if isinstance(result, Mapping)]
            if isinstance(found, list)
            else []
        )
        if "content" in answer and isinstance(key := answer.get("memory_key"), str):
            sources.append(self._below.refs.info(key).source)
        if not FOREIGN_SOURCES.isdisjoint(sources):
            self._equip(self._below)

    def _answer(self, tool: Tool, arguments: Any) -> Answer:
        """What a tool answers to the asker, who may do only so much, and whose deeds are on record one by one."""
        given = _read(arguments)
        if self._by is not None and isinstance(given, Mapping):
            effect, deed = tool.does(given), tool.deed(given)
            self._by.principal.require_for(
                effect, deed.partition("_")[0], given, self._scope.owner.user
            )
            if effect != "read":
                (tool,) = self._by.acting(self._scope, deed).tools([tool.name])
        return self._scope.services.observer.call_tool(tool, self._scope.owner, given)


class TooLong(str):
    """What stands in a call for arguments that are too long to be kept: valid JSON that says so."""

    size: int

    def __new__(cls, size: int) -> TooLong:
        """In place of so many bytes."""
        made = super().__new__(cls, _written({"left_out_bytes": size}))
        made.size = size
        return made


def _read(arguments: Any) -> Any:
    """Arguments as an object, or as they are where they are none, for the tool to say so."""
    if not isinstance(arguments, str):
        return arguments
    try:
        found = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return arguments
    return found if isinstance(found, Mapping) else arguments


def _refused(call: Call, problem: str) -> Result:
    return Result(call, False, _written({"error": problem}))


def _written(answer: Any) -> str:
    return canonical.text(json.dumps(answer, ensure_ascii=False, default=str), "answer", 1 << 40)

"""The tools of one turn: what a model may ask for, what it is answered, and what of that is too big for a prompt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from retain.errors import RetainError
from retain.memory import Scope
from retain.talk.pairing import Call

MOST_AT_ONCE = 16
_BOUNDED = {"retrieve_memory", "search_memory"}
"""What answers with as much as fits anyway; a reference to what was just opened would help nobody."""
_SHORT = 200


@dataclass(frozen=True)
class Result:
    """What a tool answered, as the model is told; `ok` if it did what it was asked to."""

    call: Call
    ok: bool
    text: str

    def message(self) -> dict[str, Any]:
        """As a message of the conversation."""
        return {"role": "tool", "tool_call_id": self.call.id, "name": self.call.name, "content": self.text}

    def told(self) -> dict[str, Any]:
        """As an event has it."""
        return {"id": self.call.id, "name": self.call.name, "ok": self.ok, "short": self.text[:_SHORT]}


class Tools:
    """The tools that an agent has: those that it is set up with, all of memory's by default."""

    def __init__(self, scope: Scope, session: str, names: Sequence[str]) -> None:
        self._tools = {tool.name: tool for tool in scope.tools() if not names or tool.name in names}
        self._refs = Scope(scope._home, replace(scope.who, source="tool")).refs
        self._session = session
        self.offered = [tool.openai() for tool in self._tools.values()]

    def run(self, calls: Sequence[Call]) -> list[Result]:
        """Do what a model asks for, one after the other; whatever goes wrong is an answer that it can read."""
        results = [self._run(call) for call in calls[:MOST_AT_ONCE]]
        late = f"Not run: at most {MOST_AT_ONCE} tools at once. Ask again for what you still need."
        return results + [Result(call, False, _written({"error": late})) for call in calls[MOST_AT_ONCE:]]

    def _run(self, call: Call) -> Result:
        tool = self._tools.get(call.name)
        if tool is None:
            has = f"there are {', '.join(self._tools)}" if self._tools else "there are none"
            return Result(call, False, _written({"error": f"There is no tool {call.name!r} here; {has}."}))
        try:
            answer = tool.call(call.arguments)
            text = _written(answer)
            if tool.name not in _BOUNDED:
                text = self._refs.capture(text, source=tool.name, session=self._session)
        except RetainError as error:
            return Result(call, False, _written({"error": str(error)}))
        except Exception as error:  # a tool that breaks must not take the turn with it
            return Result(call, False, _written({"error": f"{tool.name} failed ({type(error).__name__}); do without it."}))
        return Result(call, "error" not in answer, text)


def _written(answer: Any) -> str:
    return json.dumps(answer, ensure_ascii=False, default=str)

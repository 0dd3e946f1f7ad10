"""What happens in one turn of a chat, as it happens, and what came of it: the same for a terminal, a stream and a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

What = Literal["start", "text", "tool_call", "tool_result", "message", "error", "done"]


@dataclass(frozen=True)
class Event:
    """Something that happened in a turn.

    `start` (key, session, asked_seq); `text` (delta, round), `tool_call` (id, name, arguments) and `tool_result` (id, name,
    ok, short) as they come; `message` (all of an Answer) once the turn is saved, or `error` (error, message, status, and
    whether the message is kept); at the end `done`, once. Each but `done`, and an error that is nobody's, says which
    agent's it is.
    """

    what: What
    agent: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """As it is sent."""
        return {
            "event": self.what,
            **({} if self.agent is None else {"agent": self.agent}),
            **self.data,
        }


Emit = Callable[[Event], None]
"""Who is told, one event after the other, though not always in the thread that runs the turn; it must not raise."""


@dataclass(frozen=True)
class Answer:
    """What an agent answered: the saved turn and its final text; tokens and cost are of all calls of the model.

    `again` if the turn had been saved before and its key came back. `without_model` if no model wrote it. `cut` if the model
    wanted to go on. In a group, `error` is why an agent did not answer; then there is no turn.
    """

    session: str
    agent: str
    key: str
    turn: str = ""
    text: str = ""
    model: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None
    latency_ms: float = 0.0
    tools: Sequence[str] = ()
    first_seq: int = 0
    last_seq: int = 0
    asked_seq: int = 0
    again: bool = False
    without_model: bool = False
    cut: bool = False
    error: str = ""

    def as_json(self) -> dict[str, Any]:
        """As it is sent."""
        return {**vars(self), "tools": list(self.tools)}


def failed(error: Exception, agent: str | None = None, *, kept: bool) -> Event:
    """The event that says why there is no answer, and whether the message was kept."""
    message = getattr(error, "public", str(error))
    told = {
        "error": type(error).__name__,
        "message": message,
        "status": getattr(error, "status", 500),
        "kept": kept,
    }
    return Event("error", agent, told)

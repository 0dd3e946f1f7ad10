"""Events and answers of a chat turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from memorist.base.errors import MemoristError

What = Literal["start", "text", "tool_call", "tool_result", "message", "error", "done"]


@dataclass(frozen=True)
class ChatEvent:
    """One step of a turn.

    start:       key, session, asked_seq
    text:        delta, round
    tool_call:   id, name, arguments
    tool_result: id, name, ok, short
    message:     all fields of an Answer, once the turn is saved
    error:       error, message, status, kept (whether the user's message is stored)
    done:        the end of the turn; sent exactly once

    Every event names its agent, except `done` and errors that concern no single agent.
    """

    what: What
    agent: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


Emit = Callable[[ChatEvent], None]
"""Receives the events in order, not always in the thread that runs the turn. It must not raise."""


@dataclass(frozen=True)
class Answer:
    """An agent's answer: the saved turn and its final text.

    Tokens and cost are totals of all model calls.

    again:         the turn had been saved by an earlier request with the same key
    without_model: no model is configured
    cut:           the model reached its limit of tokens
    error:         in a group, why the agent did not answer; then there is no turn
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
        """Return the JSON form."""
        return {**vars(self), "tools": list(self.tools)}


def failure_event(error: Exception, agent: str | None = None, *, message_stored: bool) -> ChatEvent:
    """Return the error event of an exception; `message_stored`: the user's message is stored."""
    message = "Internal error in memorist; see the server log."
    status = 500
    if isinstance(error, MemoristError):
        message = error.public
        status = error.status
    data = {
        "error": type(error).__name__,
        "message": message,
        "status": status,
        "kept": message_stored,
    }
    return ChatEvent("error", agent, data)

"""A group conversation: several agents answer one message in turn.

Each agent has its own memory and sees the answers of the agents before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from retain.base import canonical
from retain.base.error_text import error_text
from retain.base.errors import Invalid, RetainError, TooLarge
from retain.chat.caller import Caller
from retain.chat.events import Answer, Emit, Event, failure_event
from retain.chat.images import Image
from retain.chat.turn import answer, begin, turn_functions
from retain.jobs.summarize import fold_after_turn
from retain.memory import Memory, Scope
from retain.messages.content import Content

MAX_AGENTS = 16


def run(
    memory: Memory,
    scope: Scope,
    session: str,
    message: Content,
    agents: Sequence[str],
    *,
    key: str | None = None,
    images: Sequence[Image] = (),
    emit: Emit = lambda event: None,
    caller: Caller | None = None,
    fold: bool = True,
    tools: Sequence[Callable[..., Any]] = (),
) -> list[Answer]:
    """Let agents answer one message in this order.

    If an agent fails, its Answer has the error and the others continue. If all fail, the first
    error is raised. A retry with the same `key` runs only the agents that have not answered.
    `tools` are Python functions that all agents may call.
    """
    answers: list[Answer] = []
    errors: list[RetainError] = []
    try:
        members = names(agents)
        functions = turn_functions(scope, tools)
        with begin(
            memory, scope, session, message, key, images, caller, functions, members
        ) as open_turn:
            for agent in members:
                others = [name for name in members if name != agent]
                try:
                    answers.append(answer(memory, open_turn, agent, others, emit))
                except RetainError as error:
                    errors.append(error)
                    emit(failure_event(error, agent, message_stored=True))
                    answers.append(
                        Answer(
                            open_turn.session.id,
                            agent,
                            open_turn.key,
                            asked_seq=open_turn.seq,
                            error=error_text(error),
                        )
                    )
        if len(errors) == len(members):
            raise errors[0]
        if fold:
            fold_after_turn(scope.services, open_turn.scope.owner, open_turn.session.id)
    except RetainError as error:
        if error not in errors:
            emit(failure_event(error, message_stored=bool(answers)))
        raise
    finally:
        emit(Event("done"))
    return answers


def names(agents: Sequence[str]) -> list[str]:
    """Check and return the names of the agents of a group."""
    if isinstance(agents, str) or not isinstance(agents, Sequence) or not agents:
        raise Invalid(field="agents", problem="must be a non-empty list of names")
    if len(agents) > MAX_AGENTS:
        raise TooLarge(field="agents", size=len(agents), unit="agents", limit=MAX_AGENTS)
    checked = [canonical.key(name, "agents") for name in agents]
    if len(set(checked)) < len(checked):
        raise Invalid(field="agents", problem="contains the same agent more than once")
    return checked

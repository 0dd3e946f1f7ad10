"""A group conversation: several agents answer one message in turn.

Each agent has its own memory and sees the answers of the agents before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memorist.base import canonical
from memorist.base.error_text import error_text
from memorist.base.errors import Invalid, MemoristError, TooLarge
from memorist.chat.caller import Caller
from memorist.chat.events import Answer, ChatEvent, Emit, failure_event
from memorist.chat.turn import TurnInput, answer_as, begin_turn
from memorist.jobs.summarize import fold_after_turn
from memorist.memory import Scope

MAX_AGENTS = 16


def run_group(
    scope: Scope,
    session: str,
    turn_input: TurnInput,
    *,
    emit: Emit = lambda event: None,
    caller: Caller | None = None,
    fold: bool = True,
) -> list[Answer]:
    """Let the agents of a turn answer its message in their order.

    If an agent fails, its Answer has the error and the others continue. If all fail, the first
    error is raised. A retry with the same key runs only the agents that have not answered.
    """
    answers: list[Answer] = []
    errors: list[MemoristError] = []
    try:
        members = check_members(turn_input.agents)
        with begin_turn(scope, session, replace(turn_input, agents=members), caller) as open_turn:
            for agent in members:
                others = [name for name in members if name != agent]
                try:
                    answers.append(answer_as(open_turn, agent, others, emit))
                except MemoristError as error:
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
    except MemoristError as error:
        if error not in errors:
            emit(failure_event(error, message_stored=bool(answers)))
        raise
    finally:
        emit(ChatEvent("done"))
    return answers


def check_members(agents: Sequence[str]) -> list[str]:
    """Check and return the names of the agents of a group."""
    if isinstance(agents, str) or not isinstance(agents, Sequence) or not agents:
        raise Invalid(field="agents", problem="must be a non-empty list of names")
    if len(agents) > MAX_AGENTS:
        raise TooLarge(field="agents", size=len(agents), unit="agents", limit=MAX_AGENTS)
    checked = [canonical.key(name, "agents") for name in agents]
    if len(set(checked)) < len(checked):
        raise Invalid(field="agents", problem="contains the same agent more than once")
    return checked

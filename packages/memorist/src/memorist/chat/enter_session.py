"""The session of a turn and the agent that answers, for the server and the terminal."""

from __future__ import annotations

import shlex
import uuid
from dataclasses import replace

from memorist.base import canonical
from memorist.base.errors import AlreadyExists, Conflict, Invalid, NotFound
from memorist.base.settings import Settings
from memorist.base.verbs import declared_verb
from memorist.chat.caller import Caller
from memorist.kinds.agents import Agent
from memorist.kinds.sessions import Session, Sessions
from memorist.memory import Scope

AGENT = "assistant"
"""The agent that answers by default."""
USER = "default"
"""The user on a local machine by default."""


def enter(
    scope: Scope, id: str | None = None, *, agent: str = AGENT, caller: Caller | None = None
) -> tuple[Scope, Session]:
    """Return the session of a turn and the scope of its agent; make it the active session.

    The session is the one with `id`; without `id`, the active session or else a new one. If no
    session has `id`, and it is a UUID, a new session gets this id.
    If the scope has no agent, the session's agent answers, or `agent` in a new session.
    """
    if id is None:
        agent_scope = of_agent(scope, scope.owner.agent or agent)
        try:
            return agent_scope, agent_scope.sessions.active()
        except NotFound:
            require_agent(agent_scope)
            return agent_scope, _acting(
                agent_scope, caller, declared_verb(Sessions.add).name
            ).sessions.resume()
    canonical.key(id, "session_id")
    try:
        session = scope.sessions.get(id)
    except NotFound:
        return _add_session(of_agent(scope, scope.owner.agent or agent), id, caller)
    if scope.owner.agent not in (None, session.agent):
        raise Invalid(
            field="agent_id",
            problem=f"must be empty or the session's agent {session.agent!r}, not {scope.owner.agent!r}",
        )
    agent_scope = of_agent(scope, session.agent)
    if agent_scope.owner.user is None:
        agent_scope = Scope(agent_scope.services, replace(agent_scope.owner, user=session.user))
    try:
        active = agent_scope.sessions.active().id
    except NotFound:
        active = ""
    if active != id:
        session = _acting(
            agent_scope, caller, declared_verb(Sessions.activate).name
        ).sessions.activate(id)
    return agent_scope, session


def _acting(scope: Scope, caller: Caller | None, action: str) -> Scope:
    return scope if caller is None else caller.acting(scope, action)


def _add_session(scope: Scope, id: str, caller: Caller | None) -> tuple[Scope, Session]:
    """Create a session with the client's id. It must be a UUID: other ids may be typing errors."""
    try:
        uuid.UUID(id)
    except ValueError:
        raise NotFound(what="session", id=id) from None
    require_agent(scope)
    try:
        return scope, _acting(scope, caller, declared_verb(Sessions.add).name).sessions.add(id)
    except AlreadyExists:  # Another request just created it, or it is another user's (NotFound).
        return scope, scope.sessions.get(id)


def require_agent(scope: Scope) -> None:
    """Raise NotFound if the agent is not configured, Conflict if it is inactive."""
    name = scope.owner.agent or ""
    if find_active_agent(scope, name) is None and name != AGENT:
        hint = f"Create it with `{_command(scope, 'add', name)}` or POST /api/agents."
        raise NotFound(what="agent", id=name, hint=hint)


def _command(scope: Scope, verb: str, agent: str) -> str:
    """Return the command for an agent of the scope's tenant."""
    words = ["memorist", "agents", verb, agent]
    if scope.owner.tenant != Settings.tenant:
        words += ["--tenant", scope.owner.tenant]
    return shlex.join(words)


def find_active_agent(scope: Scope, name: str) -> Agent | None:
    """Return an agent, or None if it is not configured. Raise Conflict if it is inactive."""
    try:
        agent = scope.agents.get(name)
    except NotFound:
        return None
    if not agent.active:
        problem = (
            f"The agent {name!r} is inactive and does not answer; "
            f"activate it with `{_command(scope, 'edit', name)} --active`"
        )
        raise Conflict(problem=problem)
    return agent


def of_agent(scope: Scope, agent: str) -> Scope:
    """Return the scope of another agent of the same user."""
    if scope.owner.agent == agent:
        return scope
    return Scope(scope.services, replace(scope.owner, agent=agent))

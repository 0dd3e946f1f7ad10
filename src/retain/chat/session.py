"""Which session a turn belongs to, and which agent answers in it: the same for the server and for the terminal."""

from __future__ import annotations

import uuid
from dataclasses import replace

from retain.base.errors import AlreadyExists, Invalid, NotFound
from retain.chat.asker import Caller
from retain.kinds.sessions import Session
from retain.memory import Scope

AGENT = "assistant"
"""Who answers where nobody else is named."""
USER = "default"
"""Who speaks on a machine of their own, where nobody else is named."""


def enter(
    scope: Scope, id: str | None = None, *, agent: str = AGENT, by: Caller | None = None
) -> tuple[Scope, Session]:
    """The session to go on with and the scope of its agent: the one that is named, else the active one, else a new one.

    Where the scope names no agent, it is the session's, and a new session is with `agent`.
    A UUID that is nobody's yet is the client's own, and becomes a session (C4); it is the active one from then on (C5).
    What is done for somebody with a credential is on record.
    """
    if id is None:
        mine = of_agent(scope, scope.owner.agent or agent)
        try:
            return mine, mine.sessions.active()
        except NotFound:
            require(mine)
            return mine, _acting(mine, by, "sessions_add").sessions.resume()
    try:
        session = scope.sessions.get(id)
    except NotFound:
        return _brought(of_agent(scope, scope.owner.agent or agent), id, by)
    if scope.owner.agent not in (None, session.agent):
        problem = f"{scope.owner.agent!r} is not who this session is with, which is {session.agent!r}: name that one or none"
        raise Invalid(field="agent_id", problem=problem)
    mine = of_agent(scope, session.agent)
    if mine.owner.user is None:
        mine = Scope(mine.services, replace(mine.owner, user=session.user))
    try:
        active = mine.sessions.active().id
    except NotFound:
        active = ""
    return mine, session if active == id else _acting(
        mine, by, "sessions_activate"
    ).sessions.activate(id)


def _acting(scope: Scope, by: Caller | None, what: str) -> Scope:
    return scope if by is None else by.acting(scope, what)


def _brought(scope: Scope, id: str, by: Caller | None) -> tuple[Scope, Session]:
    """A new session with the id that the client made; only a UUID is surely no mistake."""
    try:
        uuid.UUID(id)
    except ValueError:
        raise NotFound(what="session", id=id) from None
    require(scope)
    try:
        return scope, _acting(scope, by, "sessions_add").sessions.add(id)
    except (
        AlreadyExists
    ):  # another request made it just now, or it is somebody else's, which is as if it were not
        return scope, scope.sessions.get(id)


def require(scope: Scope) -> None:
    """A name that nobody set up, and that this user never spoke with, is a slip."""
    name = scope.owner.agent or ""
    if name == AGENT:
        return
    try:
        scope.agents.get(name)
    except NotFound:
        hint = f"`retain agents add {name}` makes it, or POST /api/agents."
        raise NotFound(what="agent", id=name, hint=hint) from None


def of_agent(scope: Scope, agent: str) -> Scope:
    """The same memory as an agent has it."""
    return (
        scope
        if scope.owner.agent == agent
        else Scope(scope.services, replace(scope.owner, agent=agent))
    )

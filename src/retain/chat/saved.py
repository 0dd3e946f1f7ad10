"""A turn that runs elsewhere, or ran: whether it is still running, and what came of it."""

from __future__ import annotations

from dataclasses import replace

from retain.base.errors import NotFound
from retain.chat.event import Answer
from retain.chat.turn import Begun, key_of, saved, told
from retain.memory import Scope
from retain.storage import leases


def asked(scope: Scope, session: str, key: str) -> int:
    """The number of the message that the turn with a key answers. A key that nobody used is not found."""
    step = key_of(key, "asked")
    seq = scope.services.database.read(
        scope.owner.tenant, lambda tx: scope.messages.of_key(tx, session, step)
    )
    if seq is None:
        raise NotFound(what="turn", id=key)
    return seq


def find(scope: Scope, session: str, key: str, agent: str | None = None) -> Answer | None:
    """What an agent answered in the turn with a key; None where it has not yet. A key that nobody used is not found."""
    found = scope.sessions.get(session)
    agent = agent or scope.owner.agent or found.agent
    scope = Scope(scope.services, replace(scope.owner, user=found.user, agent=agent))
    seq = asked(scope, session, key)
    turn = saved(scope, session, key_of(key, f"said {agent}"))
    begun = Begun(scope, found, key, message="", seq=seq, images=(), again=True, overtaken=False)
    return None if turn is None else told(scope, begun, agent, turn, None)


def running(scope: Scope, session: str) -> bool:
    """Whether some process runs a turn of a session now."""
    return leases.taken(scope.services.database, scope.owner.tenant, f"chat {session}")

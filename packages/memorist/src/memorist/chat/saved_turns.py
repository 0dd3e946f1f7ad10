"""Turns of other processes and past turns: their state and their answers."""

from __future__ import annotations

from dataclasses import replace

from memorist.base.errors import NotFound
from memorist.chat.events import Answer
from memorist.chat.turn import OpenTurn, answer_key, build_answer, derive_key, find_saved_turn
from memorist.memory import Scope
from memorist.storage import leases


def message_number(scope: Scope, session: str, key: str) -> int:
    """Return the number of the message that a turn answers. Raise NotFound for an unused key."""
    step = derive_key(key, "asked")
    seq = scope.services.database.read(
        scope.owner.tenant, lambda tx: scope.messages.of_key(tx, session, step)
    )
    if seq is None:
        raise NotFound(what="turn", id=key)
    return seq


def find_answer(scope: Scope, session: str, key: str, agent: str | None = None) -> Answer | None:
    """Return an agent's answer in a turn, or None if it has not answered yet.

    Raise NotFound for an unused key.
    """
    stored = scope.sessions.get(session)
    agent = agent or scope.owner.agent or stored.agent
    scope = Scope(scope.services, replace(scope.owner, user=stored.user, agent=agent))
    seq = message_number(scope, session, key)
    turn = find_saved_turn(scope, session, answer_key(key, agent))
    open_turn = OpenTurn(
        scope, stored, key, message="", seq=seq, images=(), again=True, overtaken=False
    )
    return None if turn is None else build_answer(scope, open_turn, agent, turn, None)


def is_running(scope: Scope, session: str) -> bool:
    """Return whether any process runs a turn of a session."""
    return leases.taken(scope.services.database, scope.owner.tenant, f"chat {session}")

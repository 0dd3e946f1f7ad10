"""Whom `retain chat` talks with: an agent on the database here, or one behind a server; both tell the same events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from retain.base import ids
from retain.chat import turn, wire
from retain.chat.event import Event
from retain.chat.session import enter
from retain.client import Client
from retain.kinds.kind import Owner
from retain.kinds.sessions import Session
from retain.memory import Memory, Scope

Heard = Callable[[str, Mapping[str, Any]], None]
"""Who is told what happens: the name of an event, and its data."""


class Here:
    """An agent on the database here."""

    stopped = "Stopped. What you said is kept, the answer is not."

    def __init__(self, memory: Memory, scope: Scope, id: str | None) -> None:
        self._memory = memory
        self.scope, self.session = enter(scope, id)

    def go(self, id: str) -> None:
        """Go on in another session."""
        self.scope, self.session = enter(self.scope, self.scope.sessions.get(id).id)

    def new(self) -> None:
        """Start a new session."""
        self.session = self.scope.sessions.add()

    def say(self, text: str, heard: Heard) -> Mapping[str, Any]:
        """Say something, and tell what happens until there is an answer."""
        session, key = self.session.id, ids.uuid7()

        def emit(event: Event) -> None:
            heard(event.what, wire.told(event, session, key))

        return wire.reply(turn.run(self._memory, self.scope, session, text, key=key, emit=emit))


class There:
    """An agent behind a server."""

    stopped = "Stopped listening. The server finishes the answer and keeps it."

    def __init__(self, client: Client, user: str | None, agent: str | None, id: str | None) -> None:
        self._client = client
        body = {
            name: value
            for name, value in (("session_id", id), ("user", user), ("agent_id", agent))
            if value
        }
        found = client.send("POST", "/api/chat/sessions", Owner(""), {}, body).json()
        self.scope = client.scope(user=found["user"], agent=found["agent"])
        self.session: Session = self.scope.sessions.get(found["id"])

    def go(self, id: str) -> None:
        """Go on in another session."""
        self.session = self.scope.sessions.activate(id)

    def new(self) -> None:
        """Start a new session."""
        self.session = self.scope.sessions.add()

    def say(self, text: str, heard: Heard) -> Mapping[str, Any]:
        """Say something, and tell what happens until there is an answer; a stream that breaks off is taken up again."""
        one = self.session
        return self._client.chat(text, session=one.id, user=one.user, agent=one.agent, heard=heard)

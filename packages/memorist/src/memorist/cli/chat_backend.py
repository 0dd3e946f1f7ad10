"""The two backends of `memorist chat`, a local database and a server, with the same events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from memorist.base import ids
from memorist.chat import serialization, turn, warm_up
from memorist.chat.enter_session import enter
from memorist.chat.events import ChatEvent
from memorist.client import Client
from memorist.kinds.kind import Owner
from memorist.kinds.sessions import Session
from memorist.memory import Memory, Scope

OnEvent = Callable[[str, Mapping[str, Any]], None]
"""A callback for events: their name and data."""


class LocalBackend:
    """Chat with an agent on the local database."""

    stopped = "Stopped. Your message is saved, the answer is not."

    def __init__(self, memory: Memory, scope: Scope, id: str | None) -> None:
        self._memory = memory
        self.scope, self.session = enter(scope, id)

    def warming_up(self) -> AbstractContextManager[object]:
        """Load the model's libraries while the user types."""
        return warm_up.warming_up(self._memory)

    def switch(self, id: str) -> None:
        """Continue another session."""
        self.scope, self.session = enter(self.scope, self.scope.sessions.get(id).id)

    def start_new(self) -> None:
        """Start a new session."""
        self.session = self.scope.sessions.add()

    def send(self, text: str, on_event: OnEvent) -> Mapping[str, Any]:
        """Send a message and return the reply; report events on the way."""
        session = self.session.id
        key = ids.uuid7()

        def emit(event: ChatEvent) -> None:
            on_event(event.what, serialization.event_data(event, session, key))

        return serialization.reply_data(
            turn.run_turn(self.scope, session, turn.TurnInput(text, key=key), emit=emit)
        )


class RemoteBackend:
    """Chat with an agent on a server."""

    stopped = "Stopped. The server completes the answer and saves it."

    def __init__(self, client: Client, user: str | None, agent: str | None, id: str | None) -> None:
        self._client = client
        names = {"session_id": id, "user": user, "agent_id": agent}
        body = {name: value for name, value in names.items() if value}
        opened = client.send("POST", "/api/chat/sessions", Owner(""), {}, body).json()
        self.scope = client.scope(user=opened["user"], agent=opened["agent"])
        self.session: Session = self.scope.sessions.get(opened["id"])

    def warming_up(self) -> AbstractContextManager[object]:
        """Load nothing: the server has the model."""
        return nullcontext()

    def switch(self, id: str) -> None:
        """Continue another session."""
        self.session = self.scope.sessions.activate(id)

    def start_new(self) -> None:
        """Start a new session."""
        self.session = self.scope.sessions.add()

    def send(self, text: str, on_event: OnEvent) -> Mapping[str, Any]:
        """Send a message and return the reply; a stream that breaks off is resumed."""
        session = self.session
        return self._client.chat(
            text, session=session.id, user=session.user, agent=session.agent, on_event=on_event
        )

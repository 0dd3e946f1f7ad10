"""Conversations as a chat shows them: the list, one session, its messages, its label (A5, S6)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, ParamSpec, TypeVar

from fastapi import FastAPI, Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from retain.api.problem import request_id
from retain.api.responses import answer
from retain.api.schemas import shape
from retain.auth.principal import Permission
from retain.base import clock
from retain.base.errors import Invalid
from retain.chat.caller import Caller
from retain.chat.session import enter
from retain.kinds.kind import Page
from retain.kinds.sessions import Session
from retain.memory import Scope
from retain.messages.content import spoken_text
from retain.messages.message import Message
from retain.server.chat_routes import STATUSES, admitted, documented
from retain.server.chat_schemas import (
    ChatSession,
    ChatSessionPage,
    EnterRequest,
    Label,
    MessagesRequest,
    SessionsRequest,
    Whose,
    shown,
)
from retain.server.request_authenticator import RequestAuthenticator
from retain.server.routes import problems
from retain.storage.database import Transaction

_ID = Annotated[str, Path(description="The session's id.")]
_TITLE = 80
_WINDOW = {"last", "minutes", "tokens", "before", "turns_only"}


def add(app: FastAPI, authenticator: RequestAuthenticator) -> None:
    """Add the routes of conversations to an app."""
    conversations = Conversations(authenticator)
    routes: tuple[tuple[str, str, Any, Any, Permission], ...] = (
        ("GET", "/api/chat/sessions", conversations.sessions, ChatSessionPage, "read"),
        ("POST", "/api/chat/sessions", conversations.enter, ChatSession, "write"),
        (
            "GET",
            "/api/chat/sessions/{id:path}/messages",
            conversations.messages,
            shape(Page[Message]),
            "read",
        ),
        ("GET", "/api/chat/sessions/{id:path}", conversations.session, ChatSession, "read"),
        ("PATCH", "/api/chat/sessions/{id:path}", conversations.label, ChatSession, "write"),
    )
    for method, path, does, model, needs in routes:
        how = documented(f"chat_{does.__name__}", does, needs)
        app.add_api_route(
            path, does, methods=[method], response_model=model, responses=problems(*STATUSES), **how
        )


P = ParamSpec("P")
T = TypeVar("T")


class Conversations:
    """The handlers of the routes."""

    def __init__(self, authenticator: RequestAuthenticator) -> None:
        self._authenticator = authenticator

    async def sessions(
        self, request: Request, said: Annotated[SessionsRequest, Query()]
    ) -> Response:
        """List the conversations of a user, most recently used first."""
        _, scope = await admitted(self._authenticator, request, "read", said.user, said.agent)
        filters = said.model_dump(include={"search", "spoken", "limit", "after"})
        page = await _observed("sessions.list", scope, scope.sessions.list, **filters)
        return answer(Page(await run_in_threadpool(_titled, scope, [*page]), page.next))

    async def enter(self, request: Request, said: EnterRequest) -> Response:
        """Activate and return a session: the named one, else the active one, else a new one."""
        principal, scope = await admitted(
            self._authenticator, request, "write", said.user, said.agent_id
        )
        by = Caller(principal, request_id(request))
        scope, session = await run_in_threadpool(enter, scope, said.session_id, caller=by)
        return await _one(scope, session)

    async def session(self, request: Request, id: _ID, said: Annotated[Whose, Query()]) -> Response:
        """Return one conversation."""
        _, scope = await admitted(self._authenticator, request, "read", said.user, said.agent)
        return await _one(scope, await _observed("sessions.get", scope, scope.sessions.get, id))

    async def label(
        self, request: Request, id: _ID, named: Label, said: Annotated[Whose, Query()]
    ) -> Response:
        """Change the label of a conversation."""
        principal, scope = await admitted(
            self._authenticator, request, "write", said.user, said.agent
        )
        scope = Caller(principal, request_id(request)).acting(scope, "sessions_edit")
        session = await _observed(
            "sessions.edit", scope, scope.sessions.edit, id, label=named.label
        )
        return await _one(scope, session)

    async def messages(
        self, request: Request, id: _ID, said: Annotated[MessagesRequest, Query()]
    ) -> Response:
        """List the messages of a conversation, oldest first: page by page, or the newest ones."""
        _, scope = await admitted(self._authenticator, request, "read", said.user, said.agent)
        parameters = said.model_dump(exclude_unset=True, exclude={"user", "agent"})
        if not parameters.keys() & _WINDOW:
            return answer(
                await _observed("messages.list", scope, scope.messages.list, id, **parameters)
            )
        if parameters.keys() - _WINDOW:
            raise Invalid(
                field="limit",
                problem="and `after` go with none of last, minutes, tokens, before and turns_only",
            )
        messages = await _observed(
            "messages.window", scope, scope.messages.window, id, **parameters
        )
        return answer(Page(messages))


async def _observed(
    operation: str, scope: Scope, verb: Callable[P, T], *arguments: P.args, **named: P.kwargs
) -> T:
    """Call a verb in a thread; count and trace it."""
    call = partial(scope.services.observer.call, operation, scope.owner, verb)
    return await run_in_threadpool(call, *arguments, **named)


async def _one(scope: Scope, session: Session) -> Response:
    return answer((await run_in_threadpool(_titled, scope, [session]))[0])


def _titled(scope: Scope, sessions: Sequence[Session]) -> list[dict[str, Any]]:
    """Return the JSON of sessions with a title: the label, else the first words of the user."""
    unnamed = [session.id for session in sessions if not session.label]

    def work(tx: Transaction) -> tuple[dict[str, str], dict[str, int]]:
        first_messages = scope.sessions.beginnings(tx, unnamed) if unnamed else {}
        ids = [session.id for session in sessions]
        return first_messages, scope.sessions.last_message_times(tx, ids)

    first_messages, times = scope.services.database.read(scope.owner.tenant, work)
    return [
        shown(
            session,
            session.label or _title(first_messages.get(session.id, "{}")),
            clock.to_datetime_or_none(times.get(session.id)),
        )
        for session in sessions
    ]


def _title(content: str) -> str:
    text = " ".join(spoken_text(json.loads(content)).split())
    return text if len(text) <= _TITLE else f"{text[: _TITLE - 1].rstrip()}…"

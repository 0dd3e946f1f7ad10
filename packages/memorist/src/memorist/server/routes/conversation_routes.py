"""Conversations as a chat shows them: the list, one session, its messages, its label."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ParamSpec, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from memorist.api.problem import request_id
from memorist.api.responses import json_response
from memorist.api.route import ApiRoute
from memorist.api.schemas import shape
from memorist.base import canonical, clock
from memorist.base.errors import Invalid
from memorist.base.verbs import declared_verb
from memorist.chat.caller import Caller
from memorist.chat.enter_session import enter
from memorist.content.message import Message
from memorist.content.message_content import spoken_text
from memorist.kinds.page import Page
from memorist.kinds.sessions import Session
from memorist.memory import Scope
from memorist.server.http.authentication import RequestAuthenticator
from memorist.server.routes.chat_routes import chat_route, chat_scope
from memorist.server.routes.chat_schemas import (
    ChatSession,
    ChatSessionPage,
    EnterRequest,
    Label,
    MessagesRequest,
    OwnerRequest,
    SessionsRequest,
    session_json,
)
from memorist.storage.database import Transaction

MAX_TITLE_LENGTH = 80
_WINDOW = {"last", "minutes", "tokens", "before", "turns_only"}


def routes(authenticator: RequestAuthenticator) -> list[ApiRoute]:
    """Return the routes."""
    conversations = Conversations(authenticator)
    session_path = "/api/chat/sessions/{id:path}"
    route = partial(chat_route, authenticator)
    one_session = partial(
        route, path=session_path, result=ChatSession, path_help={"id": "The id of the session."}
    )
    return [
        route(
            method="GET",
            path="/api/chat/sessions",
            name="chat_sessions",
            handler=conversations.sessions,
            permission="read",
            query=SessionsRequest,
            result=ChatSessionPage,
        ),
        route(
            method="POST",
            path="/api/chat/sessions",
            name="chat_enter",
            handler=conversations.enter,
            permission="write",
            body=EnterRequest,
            result=ChatSession,
        ),
        route(
            method="GET",
            path=f"{session_path}/messages",
            name="chat_messages",
            handler=conversations.messages,
            permission="read",
            query=MessagesRequest,
            result=shape(Page[Message]),
            path_help={"id": "The id of the session."},
        ),
        one_session(
            method="GET",
            name="chat_session",
            handler=conversations.session,
            permission="read",
            query=OwnerRequest,
        ),
        one_session(
            method="PATCH",
            name="chat_label",
            handler=conversations.label,
            permission="write",
            query=OwnerRequest,
            body=Label,
        ),
    ]


P = ParamSpec("P")
T = TypeVar("T")


class Conversations:
    """The handlers of the routes."""

    def __init__(self, authenticator: RequestAuthenticator) -> None:
        self._authenticator = authenticator

    async def sessions(self, request: Request, query: SessionsRequest) -> Response:
        """List the conversations of a user, most recently used first."""
        _, scope = chat_scope(self._authenticator, request, query.user, query.agent)
        filters = query.model_dump(include={"search", "spoken", "limit", "after"})
        page = await _observed(scope, scope.sessions.list, **filters)
        return json_response(Page(await run_in_threadpool(_describe, scope, [*page]), page.next))

    async def enter(self, request: Request, body: EnterRequest) -> Response:
        """Activate and return a session: the named one, else the active one, else a new one."""
        if body.agent_id is not None:
            canonical.key(body.agent_id, "agent_id")
        principal, scope = chat_scope(self._authenticator, request, body.user, body.agent_id)
        caller = Caller(principal, request_id(request))
        scope, session = await run_in_threadpool(enter, scope, body.session_id, caller=caller)
        return await _respond(scope, session)

    async def session(self, request: Request, id: str, query: OwnerRequest) -> Response:
        """Return one conversation."""
        _, scope = chat_scope(self._authenticator, request, query.user, query.agent)
        return await _respond(scope, await _observed(scope, scope.sessions.get, id))

    async def label(self, request: Request, id: str, body: Label, query: OwnerRequest) -> Response:
        """Change the label of a conversation."""
        principal, scope = chat_scope(self._authenticator, request, query.user, query.agent)
        scope = Caller(principal, request_id(request)).acting(
            scope, declared_verb(scope.sessions.edit).name
        )
        session = await _observed(scope, scope.sessions.edit, id, label=body.label)
        return await _respond(scope, session)

    async def messages(self, request: Request, id: str, query: MessagesRequest) -> Response:
        """List the messages of a conversation, oldest first: page by page, or the newest ones."""
        _, scope = chat_scope(self._authenticator, request, query.user, query.agent)
        window = query.model_dump(include=_WINDOW, exclude_defaults=True)
        if not window:
            page = query.model_dump(include={"limit", "after"})
            return json_response(await _observed(scope, scope.messages.list, id, **page))
        if query.after is not None:
            problem = "cannot be combined with last, minutes, tokens, before or turns_only"
            raise Invalid(field="after", problem=problem)
        if "limit" in query.model_fields_set:
            window["last"] = min(query.limit, window.get("last", query.limit))
        messages = await _observed(scope, scope.messages.window, id, **window)
        return json_response(Page(messages))


async def _observed(scope: Scope, verb: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Call a verb in a thread; count and trace it."""
    call = partial(scope.services.observer.call, declared_verb(verb).operation, scope.owner, verb)
    return await run_in_threadpool(call, *arguments, **named)


async def _respond(scope: Scope, session: Session) -> Response:
    return json_response((await run_in_threadpool(_describe, scope, [session]))[0])


def _describe(scope: Scope, sessions: Sequence[Session]) -> list[dict[str, Any]]:
    """Return the JSON of sessions with a title: the label, else the first words of the user."""
    unnamed = [session.id for session in sessions if not session.label]

    def work(tx: Transaction) -> tuple[dict[str, str], dict[str, int]]:
        first_messages = scope.sessions.beginnings(tx, unnamed) if unnamed else {}
        ids = [session.id for session in sessions]
        return first_messages, scope.sessions.last_message_times(tx, ids)

    first_messages, times = scope.services.database.read(scope.owner.tenant, work)
    return [
        session_json(
            session,
            session.label or _title(first_messages.get(session.id, "{}")),
            clock.to_datetime_or_none(times.get(session.id)),
        )
        for session in sessions
    ]


def _title(content: str) -> str:
    text = " ".join(spoken_text(json.loads(content)).split())
    return text if len(text) <= MAX_TITLE_LENGTH else f"{text[: MAX_TITLE_LENGTH - 1].rstrip()}…"

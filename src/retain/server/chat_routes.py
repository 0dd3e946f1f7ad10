"""Chat over HTTP: one turn of an agent, as one response or as a resumable stream of events.

`chat.turn` runs the turn, in its own thread, and saves it even if the client disconnects. This
module authenticates the caller, finds the session, starts the turn and sends its events.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import time
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from retain.api import problem
from retain.api.responses import answer
from retain.auth.principal import Permission, Principal
from retain.base import canonical, ids, limits
from retain.base.errors import AlreadyExists, Conflict, Invalid, NotFound, Overloaded, RetainError
from retain.chat import group, saved_turns, serialization, turn
from retain.chat.caller import Caller
from retain.chat.events import Answer, Event
from retain.chat.session import AGENT, USER, enter, of_agent, require_agent
from retain.kinds.sessions import Session
from retain.memory import Scope
from retain.server import lifespan
from retain.server.api_route import ApiRoute
from retain.server.chat_schemas import (
    ChatRequest,
    EventsRequest,
    Replies,
    Reply,
    RunRequest,
    TurnRequest,
    TurnState,
    VisionRequest,
)
from retain.server.request_authenticator import RequestAuthenticator
from retain.server.running_turns import RunningTurns, Say
from retain.server.sse import (
    EVENT_STREAM_MEDIA_TYPE,
    HEARTBEAT,
    HEARTBEAT_SECONDS,
    EventStream,
    encode_event,
)

OWNER_HEADERS = {
    "X-Retain-User": "The user whose memory is used.",
    "X-Retain-Agent": "The agent whose memory is used.",
}
_ONCE = "idempotency-key"
_LOOK_SECONDS = 0.25
_LOOKS = 4  # a session is free for a moment between two of its turns
_FINISHING = 0.6  # share of the stop time for running turns; the rest is for their last events


def add(app: Starlette, authenticator: RequestAuthenticator) -> None:
    """Add the chat routes to an app; `app.state.runs` holds the running turns."""
    app.state.runs = runs = RunningTurns(limits.MAX_RUNNING_TURNS)
    lifespan.register(
        app, lambda: runs.during(app.state.stopping, limits.STOP_SECONDS * _FINISHING)
    )
    chat = Chat(authenticator, runs)
    turn = partial(
        chat_route,
        authenticator,
        method="POST",
        permission="write",
        media_type=EVENT_STREAM_MEDIA_TYPE,
        response_help="The answer, or the events of the turn.",
        headers={**OWNER_HEADERS, "Idempotency-Key": "The key of the turn."},
    )
    key_help = {"key": "The key of the turn."}
    app.state.routes += [
        turn(
            path="/api/chat",
            name="chat",
            handler=chat.say,
            body=ChatRequest,
            result=Reply | Replies,
        ),
        turn(path="/agent/run", name="agent_run", handler=chat.run, body=RunRequest, result=Reply),
        turn(
            path="/agent/vision",
            name="agent_vision",
            handler=chat.see,
            body=VisionRequest,
            result=Reply,
        ),
        chat_route(
            authenticator,
            method="GET",
            path="/api/chat/turns/{key:path}/events",
            name="chat_events",
            handler=chat.events,
            permission="read",
            query=EventsRequest,
            media_type=EVENT_STREAM_MEDIA_TYPE,
            response_help="The events of the turn.",
            path_help=key_help,
            headers={**OWNER_HEADERS, "Last-Event-ID": "The id of the last event received."},
        ),
        chat_route(
            authenticator,
            method="GET",
            path="/api/chat/turns/{key:path}",
            name="chat_turn",
            handler=chat.state,
            permission="read",
            query=EventsRequest,
            result=TurnState,
            path_help=key_help,
        ),
    ]


def chat_route(authenticator: RequestAuthenticator, **options: Any) -> ApiRoute:
    """Return a route of the chat."""
    options.setdefault("headers", OWNER_HEADERS)
    return ApiRoute(
        authenticator=authenticator, tag="chat", error_statuses=(409, 502, 507), **options
    )


async def admitted(
    authenticator: RequestAuthenticator,
    request: Request,
    permission: Permission,
    user: str | None,
    agent: str | None,
) -> tuple[Principal, Scope]:
    """Authenticate a request; return its principal and scope.

    A local request without a key needs no user: the configured or default user is used.
    """
    principal = await authenticator.authorize(request, permission)
    scope = authenticator.scope(request, principal, user, agent)
    if scope.owner.user is None and principal.name == "local":
        scope = authenticator.scope(
            request, principal, authenticator.memory.settings.user or USER, agent
        )
    return principal, scope


class Chat:
    """The handlers of the chat routes."""

    def __init__(self, authenticator: RequestAuthenticator, runs: RunningTurns) -> None:
        self._authenticator = authenticator
        self._runs = runs

    async def say(self, request: Request, body: ChatRequest) -> Response:
        """Send a message to one or several agents; get one response or events.

        If no agent is set up yet, the named one is created; `notice` then says so.
        """
        if body.agents and body.agent_id is not None:
            raise Invalid(
                field="agent_id", problem="cannot be combined with `agents`: send one of them"
            )
        return await self._turn(
            request, body, body.message, body.agent_id, body.agents, creates_agent=True
        )

    async def run(self, request: Request, body: RunRequest) -> Response:
        """Run an agent with a session's memory."""
        return await self._turn(request, body, body.text(), body.agent)

    async def see(self, request: Request, body: VisionRequest) -> Response:
        """Run an agent with images, which are stored as references."""
        return await self._turn(request, body, body.text(), body.agent)

    async def events(
        self,
        request: Request,
        key: str,
        query: EventsRequest,
    ) -> Response:
        """Resume the events of a turn after the last one received.

        For a turn that runs in another process, wait for its answer.
        """
        principal, scope = await admitted(
            self._authenticator, request, "read", query.user, query.agent
        )
        canonical.key(key, "key")
        session = await run_in_threadpool(_going_on, scope, query.session_id)
        last_event_id = request.headers.get("last-event-id", "")
        after = int(last_event_id) if last_event_id.isdecimal() and len(last_event_id) < 10 else 0
        run = self._runs.get((principal.tenant, session.user, session.id, key))
        still = partial(self._authenticator.is_authorized, request, "read")
        if run is not None and not run.ended:
            return EventStream(run.events(after), still)
        agents = query.agents or [scope.owner.agent or session.agent]
        other = _Elsewhere(scope, session.id, key)
        # Raises NotFound if there is no such turn.
        running, saved_answer = await run_in_threadpool(other.look, agents[0])
        retried_elsewhere = run is not None and run.failed and (saved_answer or running)
        if run is not None and not retried_elsewhere:
            return EventStream(run.events(after), still)
        seconds = limits.CHAT_SECONDS
        return EventStream(other.events(agents, after, request.app.state.stopping, seconds), still)

    async def state(
        self,
        request: Request,
        key: str,
        query: EventsRequest,
    ) -> Response:
        """Return the state of a turn: its message, who has answered, and if it is running."""
        principal, scope = await admitted(
            self._authenticator, request, "read", query.user, query.agent
        )
        canonical.key(key, "key")
        session = await run_in_threadpool(_going_on, scope, query.session_id)
        run = self._runs.get((principal.tenant, session.user, session.id, key))
        here = run is not None and not run.ended
        agents = query.agents or [scope.owner.agent or session.agent]
        return answer(await run_in_threadpool(_became, scope, session.id, key, agents, here))

    async def _turn(
        self,
        request: Request,
        body: TurnRequest,
        message: str,
        agent: str | None,
        agents: Sequence[str] = (),
        *,
        creates_agent: bool = False,
    ) -> Response:
        principal, scope = await admitted(self._authenticator, request, "write", body.user, agent)
        principal.require("read")  # an answer quotes what is remembered
        for name in agents:
            principal.owner_of(None, name)
        key = _key(request, body.key)
        by = Caller(principal, problem.request_id(request))
        ready = partial(_ready, scope, message, body, agents, key, by)
        notice = ""
        try:
            scope, session, digest = await run_in_threadpool(ready)
        except NotFound as error:
            if error.what != "agent" or agents or not creates_agent:
                raise
            if not await run_in_threadpool(_add_first_agent, scope, by):
                raise
            notice = f"Created the agent {scope.owner.agent!r}: no agent existed yet."
            scope, session, digest = await run_in_threadpool(ready)

        def work(say: Say) -> dict[str, Any]:
            return self._work(scope, session.id, message, key, body.images, agents, by, say, notice)

        run = self._runs.start((principal.tenant, session.user, session.id, key), digest, work)
        if body.stream or EVENT_STREAM_MEDIA_TYPE in request.headers.get("accept", ""):
            return EventStream(
                run.events(), partial(self._authenticator.is_authorized, request, "read")
            )
        try:
            result = await run.result()
        except RetainError as error:
            return _refusal(error, request, session.id, key, run.message_stored)
        return Response(
            json.dumps(result, ensure_ascii=False).encode("utf-8", "replace"),
            media_type="application/json",
        )

    def _work(
        self,
        scope: Scope,
        session: str,
        message: str,
        key: str,
        shown: Sequence[str],
        agents: Sequence[str],
        by: Caller,
        say: Say,
        notice: str,
    ) -> dict[str, Any]:
        """Run one turn, in its own thread, and return the JSON of its answer."""

        def emit(event: Event) -> None:
            if event.what != "done":  # sent with the result, see RunningTurn.end
                say(event.what, serialization.event_data(event, session, key, agents, notice))

        memory = self._authenticator.memory
        if not agents:
            answer = turn.run(
                memory,
                scope,
                session,
                message,
                key=key,
                images=shown,
                emit=emit,
                caller=by,
                fold=False,
            )
            return serialization.reply_data(answer, notice)
        answers = group.run(
            memory,
            scope,
            session,
            message,
            agents,
            key=key,
            images=shown,
            emit=emit,
            caller=by,
            fold=False,
        )
        return {
            "session_id": session,
            "key": key,
            "replies": [serialization.reply_data(answer) for answer in answers],
        }


def _key(request: Request, body: str | None) -> str:
    """Return the turn's key: the body's or the header's, or a new one."""
    header = request.headers.get(_ONCE)
    if body is not None and header is not None and body != header:
        raise Invalid(
            field="key", problem="is not the same as the header Idempotency-Key: send one of them"
        )
    key = body if body is not None else header
    return ids.uuid7() if key is None else canonical.key(key, "key")


def _ready(
    scope: Scope, message: str, body: TurnRequest, agents: Sequence[str], key: str, by: Caller
) -> tuple[Scope, Session, bytes]:
    """Return the scope and session of a turn, and the digest of the request.

    Rejects an invalid request before a stream starts and before a session is created.
    """
    turn.check(scope.services.settings, message, body.images)
    for agent in group.names(agents) if agents else ():
        if agent == scope.owner.agent:
            continue
        try:
            require_agent(of_agent(scope, agent))
        except Conflict:
            first = of_agent(scope, scope.owner.agent or agents[0])
            if not _has_answered(first, body.session_id, key, agent):
                raise
    parts = [message, scope.owner.agent, body.images, list(agents)]
    digest = hashlib.sha256(json.dumps(parts).encode()).digest()
    return *enter(scope, body.session_id, agent=agents[0] if agents else AGENT, caller=by), digest


def _has_answered(scope: Scope, session_id: str | None, key: str, agent: str) -> bool:
    """Return whether the request repeats a turn in which the agent has answered."""
    try:
        session = _going_on(scope, session_id)
    except NotFound:
        return False
    return turn.has_answered(scope, session.id, key, agent)


def _add_first_agent(scope: Scope, by: Caller) -> bool:
    """Create the scope's agent if its tenant has none and the caller may; return whether it did."""
    principal = by.principal
    is_bound = principal.user is not None or principal.agent is not None
    if is_bound or scope.owner.agent is None or list(scope.agents.list(limit=1)):
        return False
    with contextlib.suppress(AlreadyExists):  # another request just created it
        by.acting(scope, "agents_add").agents.add(scope.owner.agent)
    return True


def _going_on(scope: Scope, id: str | None) -> Session:
    """Return the session of an earlier turn: the named one, else the active one."""
    if id is not None:
        return scope.sessions.get(id)
    return of_agent(scope, scope.owner.agent or AGENT).sessions.active()


def _became(
    scope: Scope, session: str, key: str, agents: Sequence[str], here: bool
) -> dict[str, Any]:
    # Check this first: a turn that ends in between is then found saved.
    running = here or saved_turns.is_running(scope, session)
    state: dict[str, Any] = {"session_id": session, "key": key, "running": running}
    try:
        seq = saved_turns.message_number(scope, session, key)
    except NotFound:
        if not running:
            raise
        return state | {"asked_seq": None, "answered": []}
    return state | {
        "asked_seq": seq,
        "answered": [
            agent for agent in agents if saved_turns.find_answer(scope, session, key, agent)
        ],
    }


def _refusal(
    error: RetainError, request: Request, session: str, key: str, message_stored: bool
) -> Response:
    """Return the error response of a turn; for a server error, with how to retry."""
    response = problem.of_error(error, problem.request_id(request))
    if error.status < 500:
        return response
    body = json.loads(bytes(response.body))
    body |= {
        "detail": f"{body['detail']} {serialization.retry_hint(key, message_stored)}",
        "key": key,
        "session_id": session,
    }
    headers = {"Retry-After": response.headers.get("retry-after", str(problem.RETRY_SECONDS))}
    return Response(json.dumps(body, ensure_ascii=False), error.status, headers, problem.MEDIA)


class _Elsewhere:
    """A turn that runs in another process, or waits there for its session."""

    def __init__(self, scope: Scope, session: str, key: str) -> None:
        self._scope = scope
        self._session = session
        self._key = key
        self._begun = False
        self._idle = 0

    def look(self, agent: str, patience: int = 0) -> tuple[bool, Answer | None]:
        """Return whether the turn may be running, and the agent's saved answer.

        Raises NotFound if the key is unknown and the session was idle for more than `patience`
        looks.
        """
        # Check this first: a turn that ends in between is then found saved.
        running = saved_turns.is_running(self._scope, self._session)
        try:
            saved_answer = saved_turns.find_answer(self._scope, self._session, self._key, agent)
        except NotFound:
            self._idle = 0 if running else self._idle + 1
            if self._idle > patience:
                raise
            return True, None
        self._begun = True
        return running, saved_answer

    async def events(
        self, agents: Sequence[str], after: int, stopping: asyncio.Event, seconds: float
    ) -> AsyncGenerator[bytes, None]:
        """Yield each answer as soon as it is saved, then the end; give up after `seconds`."""
        end = time.monotonic() + seconds
        beat = time.monotonic() + HEARTBEAT_SECONDS
        try:
            for agent in agents:
                running, saved_answer = await run_in_threadpool(self.look, agent, _LOOKS)
                while saved_answer is None and running:
                    if stopping.is_set() or time.monotonic() >= end:
                        raise _late(
                            "it is being stopped"
                            if stopping.is_set()
                            else "the turn still runs in another process"
                        )
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_LOOK_SECONDS):
                            await stopping.wait()
                    if time.monotonic() >= beat:
                        beat = time.monotonic() + HEARTBEAT_SECONDS
                        yield HEARTBEAT
                    running, saved_answer = await run_in_threadpool(self.look, agent, _LOOKS)
                if saved_answer is None:
                    raise _late("the turn was interrupted and is no longer running")
                after += 1
                yield encode_event(after, "message", serialization.reply_data(saved_answer))
        except RetainError as error:
            after += 1
            yield encode_event(
                after,
                "error",
                serialization.failure_data(
                    error, self._session, self._key, message_stored=self._begun
                ),
            )
        yield encode_event(after + 1, "done", {})


def _late(why: str) -> Overloaded:
    return Overloaded(problem=why, seconds=problem.RETRY_SECONDS)

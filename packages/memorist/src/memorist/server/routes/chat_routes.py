"""Chat over HTTP: one turn of an agent, as one response or as a resumable stream of events.

`chat.turn` runs the turn, in its own thread, and saves it even if the client disconnects. This
module finds the session, starts the turn and sends its events.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from memorist.admin.principal import Principal
from memorist.api import problem
from memorist.api.responses import json_response
from memorist.api.route import ApiRoute
from memorist.base import canonical, ids
from memorist.base.errors import (
    AlreadyExists,
    Conflict,
    Invalid,
    MemoristError,
    NotFound,
    Overloaded,
)
from memorist.base.verbs import declared_verb
from memorist.chat import group, saved_turns, serialization, turn
from memorist.chat.caller import Caller
from memorist.chat.enter_session import AGENT, USER, enter, of_agent, require_agent
from memorist.chat.events import Answer, ChatEvent
from memorist.kinds.sessions import Session
from memorist.memory import Scope
from memorist.server.http.authentication import RequestAuthenticator
from memorist.server.http.routing import api_route
from memorist.server.http.sse import (
    EVENT_STREAM_MEDIA_TYPE,
    HEARTBEAT,
    HEARTBEAT_SECONDS,
    EventStream,
    encode_event,
    wait_or_stop,
)
from memorist.server.http.verb_handler import OWNER_HEADERS
from memorist.server.routes.chat_schemas import (
    ChatRequest,
    EventsRequest,
    Replies,
    Reply,
    RunRequest,
    TurnRequest,
    TurnState,
    VisionRequest,
)
from memorist.server.routes.running_turns import Emit, RunningTurns

POLL_SECONDS = 0.25
MAX_IDLE_POLLS = 4
"""A session is free for a moment between two of its turns."""


def routes(authenticator: RequestAuthenticator, runs: RunningTurns) -> list[ApiRoute]:
    """Return the routes."""
    chat = Chat(authenticator, runs)
    turn_route = partial(
        chat_route,
        authenticator,
        method="POST",
        permission="write",
        media_type=EVENT_STREAM_MEDIA_TYPE,
        response_help="The answer, or the events of the turn.",
        headers={**OWNER_HEADERS, "Idempotency-Key": "The key of the turn."},
    )
    key_route = partial(
        chat_route,
        authenticator,
        method="GET",
        permission="read",
        query=EventsRequest,
        path_help={"key": "The key of the turn."},
    )
    return [
        turn_route(
            path="/api/chat",
            name="chat",
            handler=chat.send_message,
            body=ChatRequest,
            result=Reply | Replies,
        ),
        turn_route(
            path="/agent/run",
            name="agent_run",
            handler=chat.run_agent,
            body=RunRequest,
            result=Reply,
        ),
        turn_route(
            path="/agent/vision",
            name="agent_vision",
            handler=chat.run_agent_with_images,
            body=VisionRequest,
            result=Reply,
        ),
        key_route(
            path="/api/chat/turns/{key:path}/events",
            name="chat_events",
            handler=chat.events,
            media_type=EVENT_STREAM_MEDIA_TYPE,
            response_help="The events of the turn.",
            headers={**OWNER_HEADERS, "Last-Event-ID": "The id of the last event received."},
        ),
        key_route(
            path="/api/chat/turns/{key:path}",
            name="chat_turn",
            handler=chat.state,
            result=TurnState,
        ),
    ]


def chat_route(authenticator: RequestAuthenticator, **options: Any) -> ApiRoute:
    """Return a route of the chat."""
    options.setdefault("headers", OWNER_HEADERS)
    return api_route(
        authenticator=authenticator, tag="chat", error_statuses=(409, 502, 507), **options
    )


def chat_scope(
    authenticator: RequestAuthenticator, request: Request, user: str | None, agent: str | None
) -> tuple[Principal, Scope]:
    """Return the principal and the scope of an authenticated request.

    A local request without a key needs no user: the configured or default user is used.
    """
    principal: Principal = request.state.principal
    scope = authenticator.scope(request, principal, user, agent)
    if scope.owner.user is None and principal.name == "local":
        default_user = authenticator.memory.settings.user or USER
        scope = authenticator.scope(request, principal, default_user, agent)
    return principal, scope


@dataclass(frozen=True)
class PreparedTurn:
    """A valid request for a turn."""

    scope: Scope
    session: Session
    message: str
    images: Sequence[str]
    agents: Sequence[str]
    """The agents of a group conversation; empty for one agent."""
    key: str
    caller: Caller
    notice: str = ""
    """What else the request caused, such as a new agent."""

    @property
    def digest(self) -> bytes:
        """A hash of the request: a repeated key needs the same one."""
        parts = [self.message, self.scope.owner.agent, self.images, list(self.agents)]
        return hashlib.sha256(json.dumps(parts).encode()).digest()

    def run(self, emit: Emit) -> dict[str, Any]:
        """Run the turn, in its own thread, and return the JSON of its answer."""
        session = self.session.id

        def emit_event(event: ChatEvent) -> None:
            if event.what != "done":  # sent with the result, see RunningTurn.end
                data = serialization.event_data(event, session, self.key, self.agents, self.notice)
                emit(event.what, data)

        turn_input = turn.TurnInput(
            self.message, key=self.key, images=self.images, agents=self.agents
        )
        options: dict[str, Any] = {"emit": emit_event, "caller": self.caller, "fold": False}
        if not self.agents:
            reply = turn.run_turn(self.scope, session, turn_input, **options)
            return serialization.reply_data(reply, self.notice)
        replies = group.run_group(self.scope, session, turn_input, **options)
        return {
            "session_id": session,
            "key": self.key,
            "replies": [serialization.reply_data(reply) for reply in replies],
        }


class Chat:
    """The handlers of the chat routes."""

    def __init__(self, authenticator: RequestAuthenticator, runs: RunningTurns) -> None:
        self._authenticator = authenticator
        self._runs = runs

    async def send_message(self, request: Request, body: ChatRequest) -> Response:
        """Send a message to one or several agents; get one response or events.

        If no agent is set up yet, the named one is created; `notice` then says so.
        """
        if body.agents and body.agent_id is not None:
            raise Invalid(
                field="agent_id", problem="cannot be combined with `agents`: send one of them"
            )
        if body.agent_id is not None:
            canonical.key(body.agent_id, "agent_id")
        return await self._respond(request, body, body.message, body.agent_id, body.agents)

    async def run_agent(self, request: Request, body: RunRequest) -> Response:
        """Run an agent with a session's memory."""
        return await self._respond(request, body, body.text(), body.agent)

    async def run_agent_with_images(self, request: Request, body: VisionRequest) -> Response:
        """Run an agent with images, which are stored as references."""
        return await self._respond(request, body, body.text(), body.agent)

    async def events(self, request: Request, key: str, query: EventsRequest) -> Response:
        """Resume the events of a turn after the last one received.

        For a turn that runs in another process, wait for its answer.
        """
        principal, scope = chat_scope(self._authenticator, request, query.user, query.agent)
        canonical.key(key, "key")
        session = await run_in_threadpool(_session, scope, query.session_id)
        last_event_id = request.headers.get("last-event-id", "")
        after = int(last_event_id) if last_event_id.isdecimal() and len(last_event_id) < 10 else 0
        run = self._runs.get((principal.tenant, session.user, session.id, key))
        is_allowed = partial(self._authenticator.is_authorized, request, "read")
        if run is not None and not run.ended:
            return EventStream(run.events(after), is_allowed)
        agents = query.agents or [scope.owner.agent or session.agent]
        remote = RemoteTurn(scope, session.id, key)
        # Raises NotFound if there is no such turn.
        running, saved_answer = await run_in_threadpool(remote.poll, agents[0])
        retried_elsewhere = run is not None and run.failed and (saved_answer or running)
        if run is not None and not retried_elsewhere:
            return EventStream(run.events(after), is_allowed)
        return EventStream(remote.events(agents, after, request.app.state.stopping), is_allowed)

    async def state(self, request: Request, key: str, query: EventsRequest) -> Response:
        """Return the state of a turn: its message, who has answered, and if it is running."""
        principal, scope = chat_scope(self._authenticator, request, query.user, query.agent)
        canonical.key(key, "key")
        session = await run_in_threadpool(_session, scope, query.session_id)
        run = self._runs.get((principal.tenant, session.user, session.id, key))
        runs_here = run is not None and not run.ended
        agents = query.agents or [scope.owner.agent or session.agent]
        return json_response(
            await run_in_threadpool(_turn_state, scope, session.id, key, agents, runs_here)
        )

    async def _respond(
        self,
        request: Request,
        body: TurnRequest,
        message: str,
        agent: str | None,
        agents: Sequence[str] = (),
    ) -> Response:
        """Start a turn; return its answer or its events."""
        principal, scope = chat_scope(self._authenticator, request, body.user, agent)
        principal.require("read")  # an answer quotes what is remembered
        for name in agents:
            principal.owner_of(None, name)
        caller = Caller(principal, problem.request_id(request))
        prepared = await run_in_threadpool(
            _prepare, scope, body, message, agents, _key(request, body.key), caller
        )
        key = prepared.key
        session = prepared.session
        run = self._runs.start(
            (principal.tenant, session.user, session.id, key),
            prepared.digest,
            prepared.run,
        )
        if body.stream or EVENT_STREAM_MEDIA_TYPE in request.headers.get("accept", ""):
            is_allowed = partial(self._authenticator.is_authorized, request, "read")
            return EventStream(run.events(), is_allowed)
        try:
            result = await run.result()
        except MemoristError as error:
            return _error_response(error, request, session.id, key, run.message_stored)
        return Response(
            json.dumps(result, ensure_ascii=False).encode("utf-8", "replace"),
            media_type="application/json",
        )


def _key(request: Request, body: str | None) -> str:
    """Return the turn's key: the body's or the header's, or a new one."""
    header = request.headers.get("idempotency-key")
    if body is not None and header is not None and body != header:
        raise Invalid(
            field="key", problem="is not the same as the header Idempotency-Key: send one of them"
        )
    key = body if body is not None else header
    return ids.uuid7() if key is None else canonical.key(key, "key")


def _prepare(
    scope: Scope,
    body: TurnRequest,
    message: str,
    agents: Sequence[str],
    key: str,
    caller: Caller,
) -> PreparedTurn:
    """Check a request and enter its session; where no agent exists yet, create the chat's agent.

    Rejects an invalid request before a stream starts and before a session is created.
    """
    turn.check_message(scope.services.settings, message, body.images)
    for agent in group.check_members(agents) if agents else ():
        if agent == scope.owner.agent:
            continue
        try:
            require_agent(of_agent(scope, agent))
        except Conflict:
            first = of_agent(scope, scope.owner.agent or agents[0])
            if not _has_answered(first, body.session_id, key, agent):
                raise
    enter_session = partial(
        enter, scope, body.session_id, agent=agents[0] if agents else AGENT, caller=caller
    )
    notice = ""
    try:
        scope, session = enter_session()
    except NotFound as error:
        creates_agent = isinstance(body, ChatRequest) and not agents and error.what == "agent"
        if not creates_agent or not _add_first_agent(scope, caller):
            raise
        notice = f"Created the agent {scope.owner.agent!r}: no agent existed yet."
        scope, session = enter_session()
    return PreparedTurn(
        scope=scope,
        session=session,
        message=message,
        images=body.images,
        agents=agents,
        key=key,
        caller=caller,
        notice=notice,
    )


def _has_answered(scope: Scope, session_id: str | None, key: str, agent: str) -> bool:
    """Return whether the request repeats a turn in which the agent has answered."""
    try:
        session = _session(scope, session_id)
    except NotFound:
        return False
    return turn.has_answered(scope, session.id, key, agent)


def _add_first_agent(scope: Scope, caller: Caller) -> bool:
    """Create the scope's agent if its tenant has none and the caller may; return whether it did."""
    principal = caller.principal
    is_bound = principal.user is not None or principal.agent is not None
    if is_bound or scope.owner.agent is None or list(scope.agents.list(limit=1)):
        return False
    with contextlib.suppress(AlreadyExists):  # another request just created it
        action = declared_verb(scope.agents.add).name
        caller.acting(scope, action).agents.add(scope.owner.agent)
    return True


def _session(scope: Scope, id: str | None) -> Session:
    """Return the session of an earlier turn: the named one, else the active one."""
    if id is not None:
        return scope.sessions.get(canonical.key(id, "session_id"))
    return of_agent(scope, scope.owner.agent or AGENT).sessions.active()


def _turn_state(
    scope: Scope, session: str, key: str, agents: Sequence[str], runs_here: bool
) -> dict[str, Any]:
    # Check this first: a turn that ends in between is then found saved.
    running = runs_here or saved_turns.is_running(scope, session)
    state: dict[str, Any] = {"session_id": session, "key": key, "running": running}
    try:
        seq = saved_turns.message_number(scope, session, key)
    except NotFound:
        if not running:
            raise
        return state | {"asked_seq": None, "answered": []}
    answered = [agent for agent in agents if saved_turns.find_answer(scope, session, key, agent)]
    return state | {"asked_seq": seq, "answered": answered}


def _error_response(
    error: MemoristError, request: Request, session: str, key: str, message_stored: bool
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


class RemoteTurn:
    """A turn that runs in another process, or waits there for its session."""

    def __init__(self, scope: Scope, session: str, key: str) -> None:
        self._scope = scope
        self._session = session
        self._key = key
        self._message_stored = False
        self._idle_polls = 0

    def poll(self, agent: str, max_idle_polls: int = 0) -> tuple[bool, Answer | None]:
        """Return whether the turn may be running, and the agent's saved answer.

        Raises NotFound if the key is unknown and the session was idle for more than
        `max_idle_polls` polls.
        """
        # Check this first: a turn that ends in between is then found saved.
        running = saved_turns.is_running(self._scope, self._session)
        try:
            saved_answer = saved_turns.find_answer(self._scope, self._session, self._key, agent)
        except NotFound:
            self._idle_polls = 0 if running else self._idle_polls + 1
            if self._idle_polls > max_idle_polls:
                raise
            return True, None
        self._message_stored = True
        return running, saved_answer

    async def events(
        self, agents: Sequence[str], after: int, stopping: asyncio.Event
    ) -> AsyncGenerator[bytes, None]:
        """Yield each answer as soon as it is saved, then the end; give up after a turn's time."""
        end = time.monotonic() + turn.turn_seconds(self._scope.services.settings)
        beat = time.monotonic() + HEARTBEAT_SECONDS
        try:
            for agent in agents:
                poll = partial(self.poll, agent, MAX_IDLE_POLLS)
                running, saved_answer = await run_in_threadpool(poll)
                while saved_answer is None and running:
                    if stopping.is_set():
                        raise _retry_later("it is being stopped")
                    if time.monotonic() >= end:
                        raise _retry_later("the turn still runs in another process")
                    await wait_or_stop(stopping, POLL_SECONDS)
                    if time.monotonic() >= beat:
                        beat = time.monotonic() + HEARTBEAT_SECONDS
                        yield HEARTBEAT
                    running, saved_answer = await run_in_threadpool(poll)
                if saved_answer is None:
                    raise _retry_later("the turn was interrupted and is no longer running")
                after += 1
                yield encode_event(after, "message", serialization.reply_data(saved_answer))
        except MemoristError as error:
            after += 1
            failure = serialization.failure_data(
                error, self._session, self._key, message_stored=self._message_stored
            )
            yield encode_event(after, "error", failure)
        yield encode_event(after + 1, "done", {})


def _retry_later(reason: str) -> Overloaded:
    return Overloaded(problem=reason, seconds=problem.RETRY_SECONDS)

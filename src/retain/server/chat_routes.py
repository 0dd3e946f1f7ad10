"""Chat over HTTP: one turn of an agent, whole or as a stream of events that can be taken up again where it broke off.

The turn itself is `chat.turn`'s. It runs in a thread of its own and is saved whether or not anybody still listens; this file
finds out who asks, what for, and in which session, and shows what happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import FastAPI, Header, Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from retain.api import problem
from retain.api.responses import answer
from retain.auth.principal import Permission, Principal
from retain.base import canonical, ids, limits
from retain.base.errors import Invalid, NotFound, Overloaded, RetainError
from retain.chat import group, saved_turns, serialization, turn
from retain.chat.caller import Caller
from retain.chat.events import Answer, Event
from retain.chat.session import AGENT, USER, enter, of_agent, require_agent
from retain.kinds.sessions import Session
from retain.memory import Scope
from retain.server import life
from retain.server.authenticator import Authenticator
from retain.server.chat_schemas import (
    Asked,
    ChatRequest,
    EventsRequest,
    Replies,
    Reply,
    RunRequest,
    TurnState,
    VisionRequest,
)
from retain.server.routes import problems
from retain.server.running_turns import RunningTurns, Say
from retain.server.sse import (
    EVENT_STREAM_MEDIA_TYPE,
    HEARTBEAT,
    HEARTBEAT_SECONDS,
    EventStream,
    encode_event,
)

STATUSES = (400, 401, 403, 404, 408, 409, 413, 415, 421, 422, 429, 500, 502, 503, 507)
_STREAMED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The answer, or the events of the turn",
        "content": {EVENT_STREAM_MEDIA_TYPE: {"schema": {"type": "string"}}},
    }
}
_ONCE = "idempotency-key"
_LOOK_SECONDS = 0.25
_LOOKS = 4  # between two turns of a session nobody has it for a moment
_FINISHING = 0.6  # of the time to stop is for turns, the rest for saying that it is over


def add(app: FastAPI, authenticator: Authenticator) -> None:
    """Give an app the routes of a chat; `app.state.runs` are the turns that run."""
    app.state.runs = runs = RunningTurns(limits.MAX_RUNNING_TURNS)
    life.during(app, lambda: runs.during(app.state.stopping, limits.STOP_SECONDS * _FINISHING))
    chat = Chat(authenticator, runs)
    streamed = {**_STREAMED, **problems(*STATUSES)}
    for path, does, model in (
        ("/api/chat", chat.say, Reply | Replies),
        ("/agent/run", chat.run, Reply),
        ("/agent/vision", chat.see, Reply),
    ):
        name = path.removeprefix("/api").strip("/").replace("/", "_")
        how = documented(name, does, "write", **{"Idempotency-Key": "The turn's key."})
        app.add_api_route(
            path, does, methods=["POST"], response_model=model, responses=streamed, **how
        )
    how = documented("chat_events", chat.events, "read")
    app.add_api_route(
        "/api/chat/turns/{key:path}/events",
        chat.events,
        response_class=Response,
        responses=streamed,
        **how,
    )
    how = documented("chat_turn", chat.state, "read")
    app.add_api_route(
        "/api/chat/turns/{key:path}",
        chat.state,
        response_model=TurnState,
        responses=problems(*STATUSES),
        **how,
    )


def documented(
    name: str, does: Callable[..., Any], needs: Permission, **more: str
) -> dict[str, Any]:
    """How a route of a chat is described."""
    headers = {
        "X-Retain-User": "Whose memory is meant.",
        "X-Retain-Agent": "Which agent's memory is meant.",
        **more,
    }
    said = [
        {
            "name": header,
            "in": "header",
            "required": False,
            "description": about,
            "schema": {"type": "string"},
        }
        for header, about in headers.items()
    ]
    extra = {"parameters": said, "x-retain-permission": needs}
    return {
        "name": name,
        "operation_id": name,
        "tags": ["chat"],
        "summary": (does.__doc__ or "").split("\n")[0],
        "openapi_extra": extra,
    }


async def admitted(
    authenticator: Authenticator,
    request: Request,
    permission: Permission,
    user: str | None,
    agent: str | None,
) -> tuple[Principal, Scope]:
    """Who asks, and whose memory is meant; whoever sits at this machine need not say who they are."""
    principal = await authenticator.authorize(request, permission)
    if request.method == "POST" and request.query_params:
        raise Invalid(
            field=next(iter(request.query_params)),
            problem="is not known in the address here; say it in the body",
        )
    scope = authenticator.scope(request, principal, user, agent)
    if scope.owner.user is None and principal.name == "local":
        scope = authenticator.scope(
            request, principal, authenticator.memory.settings.user or USER, agent
        )
    return principal, scope


class Chat:
    """What the routes do."""

    def __init__(self, authenticator: Authenticator, runs: RunningTurns) -> None:
        self._authenticator = authenticator
        self._runs = runs

    async def say(self, request: Request, said: ChatRequest) -> Response:
        """Say something to an agent, or to several: one turn with memory, whole or as events (A1, A6)."""
        if said.agents and said.agent_id is not None:
            raise Invalid(
                field="agent_id", problem="cannot go with `agents`: name one, or the group"
            )
        return await self._turn(request, said, said.message, said.agent_id, said.agents)

    async def run(self, request: Request, said: RunRequest) -> Response:
        """Run an agent with a session's memory (A4)."""
        return await self._turn(request, said, said.text(), said.agent)

    async def see(self, request: Request, said: VisionRequest) -> Response:
        """Run an agent with images, which are kept as references (A4)."""
        return await self._turn(request, said, said.text(), said.agent)

    async def events(
        self,
        request: Request,
        key: Annotated[str, Path(description="The turn's key.")],
        said: Annotated[EventsRequest, Query()],
        last_event_id: Annotated[str, Header(description="The last event that was seen.")] = "",
    ) -> Response:
        """Take up the events of a turn after the last one that was seen; in another process, wait for its answer."""
        principal, scope = await admitted(
            self._authenticator, request, "read", said.user, said.agent
        )
        canonical.key(key, "key")
        session = await run_in_threadpool(_going_on, scope, said.session_id)
        after = int(last_event_id) if last_event_id.isdecimal() and len(last_event_id) < 10 else 0
        run = self._runs.get((principal.tenant, session.user, session.id, key))
        still = partial(self._authenticator.still, request, "read")
        if run is not None and not run.ended:
            return EventStream(run.events(after), still)
        agents = said.agents or [scope.owner.agent or session.agent]
        other = _Elsewhere(scope, session.id, key)
        running, found = await run_in_threadpool(
            other.look, agents[0]
        )  # or there is no such turn, or no longer
        if run is not None and not (
            run.failed and (found or running)
        ):  # else it was tried again in another process
            return EventStream(run.events(after), still)
        seconds = limits.CHAT_SECONDS
        return EventStream(other.events(agents, after, request.app.state.stopping, seconds), still)

    async def state(
        self,
        request: Request,
        key: Annotated[str, Path(description="The turn's key.")],
        said: Annotated[EventsRequest, Query()],
    ) -> Response:
        """What has become of a turn: whether its message is kept, who has answered, and whether anybody is at it."""
        principal, scope = await admitted(
            self._authenticator, request, "read", said.user, said.agent
        )
        canonical.key(key, "key")
        session = await run_in_threadpool(_going_on, scope, said.session_id)
        run = self._runs.get((principal.tenant, session.user, session.id, key))
        here = run is not None and not run.ended
        agents = said.agents or [scope.owner.agent or session.agent]
        return answer(await run_in_threadpool(_became, scope, session.id, key, agents, here))

    async def _turn(
        self,
        request: Request,
        said: Asked,
        message: str,
        agent: str | None,
        agents: Sequence[str] = (),
    ) -> Response:
        principal, scope = await admitted(self._authenticator, request, "write", said.user, agent)
        principal.require("read")  # an answer tells what is remembered
        for one in agents:
            principal.owner_of(None, one)
        key, by = _key(request, said.key), Caller(principal, problem.request_id(request))
        scope, session, digest = await run_in_threadpool(_ready, scope, message, said, agents, by)

        def work(say: Say) -> dict[str, Any]:
            return self._work(scope, session.id, message, key, said.images, agents, by, say)

        run = self._runs.start((principal.tenant, session.user, session.id, key), digest, work)
        if said.stream or EVENT_STREAM_MEDIA_TYPE in request.headers.get("accept", ""):
            return EventStream(run.events(), partial(self._authenticator.still, request, "read"))
        try:
            found = await run.result()
        except RetainError as error:
            return _refusal(error, request, session.id, key, run.kept)
        return Response(
            json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"),
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
    ) -> dict[str, Any]:
        """One turn, in its own thread."""

        def emit(event: Event) -> None:
            if event.what != "done":  # which is said when the result is there, too
                say(event.what, serialization.event_data(event, session, key, agents))

        memory = self._authenticator.memory
        if not agents:
            return serialization.reply_data(
                turn.run(memory, scope, session, message, key=key, images=shown, emit=emit, by=by)
            )
        answers = group.run(
            memory, scope, session, message, agents, key=key, images=shown, emit=emit, by=by
        )
        return {
            "session_id": session,
            "key": key,
            "replies": [serialization.reply_data(answer) for answer in answers],
        }


def _key(request: Request, said: str | None) -> str:
    """The turn's key: the body's or the header's, or a new one."""
    header = request.headers.get(_ONCE)
    if said is not None and header is not None and said != header:
        raise Invalid(
            field="key", problem="is not the same as the header Idempotency-Key: send one of them"
        )
    found = said if said is not None else header
    return ids.uuid7() if found is None else canonical.key(found, "key")


def _ready(
    scope: Scope, message: str, said: Asked, agents: Sequence[str], by: Caller
) -> tuple[Scope, Session, bytes]:
    """The session of a turn, and what tells it from another with its key.

    What is wrong with the request is found before a stream begins, and before a session is made for it.
    """
    turn.check(scope.services.settings, message, said.images)
    for agent in group.names(agents) if agents else ():
        if agent != scope.owner.agent:
            require_agent(of_agent(scope, agent))
    asked = [message, scope.owner.agent, said.images, list(agents)]
    digest = hashlib.sha256(json.dumps(asked).encode()).digest()
    return *enter(scope, said.session_id, agent=agents[0] if agents else AGENT, by=by), digest


def _going_on(scope: Scope, id: str | None) -> Session:
    """The session of a turn that was asked for before: the one that is named, else the active one."""
    if id is not None:
        return scope.sessions.get(id)
    return of_agent(scope, scope.owner.agent or AGENT).sessions.active()


def _became(
    scope: Scope, session: str, key: str, agents: Sequence[str], here: bool
) -> dict[str, Any]:
    running = here or saved_turns.is_running(
        scope, session
    )  # asked first: what ends in between is found saved
    found: dict[str, Any] = {"session_id": session, "key": key, "running": running}
    try:
        seq = saved_turns.message_number(scope, session, key)
    except NotFound:
        if not running:
            raise
        return found | {"asked_seq": None, "answered": []}
    return found | {
        "asked_seq": seq,
        "answered": [
            agent for agent in agents if saved_turns.find_answer(scope, session, key, agent)
        ],
    }


def _refusal(error: RetainError, request: Request, session: str, key: str, kept: bool) -> Response:
    """Why there is no answer, and how to get one."""
    response = problem.of_error(error, problem.request_id(request))
    if error.status < 500:
        return response
    body = json.loads(bytes(response.body))
    body |= {
        "detail": f"{body['detail']} {serialization.retry_hint(key, kept)}",
        "key": key,
        "session_id": session,
    }
    headers = {"Retry-After": response.headers.get("retry-after", str(problem.RETRY_SECONDS))}
    return Response(json.dumps(body, ensure_ascii=False), error.status, headers, problem.MEDIA)


class _Elsewhere:
    """A turn that runs in another process, or is in line there behind the one that has its session."""

    def __init__(self, scope: Scope, session: str, key: str) -> None:
        self._scope, self._session, self._key = scope, session, key
        self._begun = False
        self._idle = 0

    def look(self, agent: str, patience: int = 0) -> tuple[bool, Answer | None]:
        """Whether somebody may be at it, and what an agent answered; NotFound where nobody has the session or the key."""
        running = saved_turns.is_running(
            self._scope, self._session
        )  # asked first: what ends in between is found saved
        try:
            found = saved_turns.find_answer(self._scope, self._session, self._key, agent)
        except NotFound:
            self._idle = 0 if running else self._idle + 1
            if self._idle > patience:
                raise
            return True, None
        self._begun = True
        return running, found

    async def events(
        self, agents: Sequence[str], after: int, stopping: asyncio.Event, seconds: float
    ) -> AsyncGenerator[bytes, None]:
        """The answers, each as soon as it is saved; then, or where there is none in so many seconds, the end."""
        end, beat = time.monotonic() + seconds, time.monotonic() + HEARTBEAT_SECONDS
        try:
            for agent in agents:
                running, found = await run_in_threadpool(self.look, agent, _LOOKS)
                while found is None and running:
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
                    running, found = await run_in_threadpool(self.look, agent, _LOOKS)
                if found is None:
                    raise _late("the turn was cut off, and nobody is at it")
                after += 1
                yield encode_event(after, "message", serialization.reply_data(found))
        except RetainError as error:
            after += 1
            yield encode_event(
                after,
                "error",
                serialization.failure_data(error, self._session, self._key, kept=self._begun),
            )
        yield encode_event(after + 1, "done", {})


def _late(why: str) -> Overloaded:
    return Overloaded(problem=why, seconds=problem.RETRY_SECONDS)

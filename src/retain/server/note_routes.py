"""Changes of notes: wait for a change without blocking a thread, or stream change events."""

from __future__ import annotations

import time
from functools import partial

from pydantic import Field, create_model
from starlette.applications import Starlette
from starlette.responses import Response

from retain.api.endpoints import Endpoint
from retain.api.responses import rendered, response
from retain.api.schemas import LENIENT, owner_fields
from retain.base import canonical
from retain.kinds.notes import MAX_WAIT_SECONDS, Notes, NoteVersion
from retain.server.handler import Call, Handler
from retain.server.request_authenticator import RequestAuthenticator
from retain.server.routes import add_endpoint
from retain.server.sse import (
    EVENT_STREAM_MEDIA_TYPE,
    EVENTS_PER_READ,
    MAX_POLL_SECONDS,
    MIN_POLL_SECONDS,
    POLL_GROWTH,
    EventStream,
    last_event_id,
    poll_events,
    wait_or_stop,
)
from retain.server.thread_pool import in_thread

STREAM = Endpoint(
    "notes",
    "stream",
    "GET /notes/stream",
    "curl -N 'http://127.0.0.1:7700/api/notes/stream?user=ada&agent=scout'",
)
EVENT = "change"


def add(app: Starlette, authenticator: RequestAuthenticator) -> None:
    """Add the routes for changes of notes to an app."""
    handler: Handler = app.state.handlers["notes_changes"]
    handler.respond = partial(_changes, app, authenticator, handler)
    request_model = create_model(
        "NotesStreamRequest",
        __config__=LENIENT,
        after=(
            int,
            Field(
                0,
                ge=0,
                description="Only changes after this version. The header Last-Event-ID takes precedence.",
            ),
        ),
        **owner_fields(),
    )
    stream = add_endpoint(
        app,
        authenticator,
        STREAM,
        request_model,
        method=Notes.changes,
        media_type=EVENT_STREAM_MEDIA_TYPE,
    )
    stream.respond = partial(_stream, app, authenticator)


async def _changes(
    app: Starlette, authenticator: RequestAuthenticator, handler: Handler, call: Call
) -> Response:
    """Return the changes after a version; if there are none, wait up to `wait` seconds for one."""
    wait = canonical.amount(call.arguments.get("wait", 0.0), "wait")
    if not 0 < wait <= MAX_WAIT_SECONDS:
        return await handler.respond_with_result(call)
    look = partial(call.scope.notes.changes, **{**call.arguments, "wait": 0.0})
    deadline = time.monotonic() + wait
    pause = MIN_POLL_SECONDS
    while not (changes := await in_thread(look)):
        left = deadline - time.monotonic()
        if left <= 0 or app.state.stopping.is_set() or await call.request.is_disconnected():
            break
        await wait_or_stop(app, min(pause, left))
        pause = min(pause * POLL_GROWTH, MAX_POLL_SECONDS)
    # Authorize again: the key may have been revoked while waiting.
    await authenticator.authorize(call.request, STREAM.needs)
    return response(rendered(changes))


async def _stream(app: Starlette, authenticator: RequestAuthenticator, call: Call) -> Response:
    """Stream every change as an event whose id is the version, until the client disconnects."""
    after = last_event_id(call.request)
    if after is None:
        after = call.arguments.get("after", 0)

    def read(after: int) -> list[NoteVersion]:
        return call.scope.notes.changes(after=after, limit=EVENTS_PER_READ)

    # The first read rejects an invalid request before the stream starts.
    first = await in_thread(read, after)
    return EventStream(
        poll_events(app, first, read, lambda change: (change.version, EVENT), after),
        partial(authenticator.is_authorized, call.request, STREAM.needs),
    )

"""Changes of notes: wait for a change without blocking a thread, or stream change events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any

from pydantic import Field, create_model
from starlette.applications import Starlette
from starlette.responses import Response

from retain.api.endpoints import Endpoint
from retain.api.rendering import as_json
from retain.api.responses import rendered, response
from retain.api.schemas import LENIENT, owner_fields
from retain.base import canonical
from retain.base.errors import Invalid, RetainError
from retain.kinds.notes import MAX_WAIT_SECONDS, Notes, NoteVersion
from retain.server.handler import Call, Handler
from retain.server.request_authenticator import RequestAuthenticator
from retain.server.routes import add_endpoint
from retain.server.sse import (
    EVENT_STREAM_MEDIA_TYPE,
    HEARTBEAT,
    HEARTBEAT_SECONDS,
    EventStream,
    encode_event,
)
from retain.server.thread_pool import in_thread

STREAM = Endpoint(
    "notes",
    "stream",
    "GET /notes/stream",
    "curl -N 'http://127.0.0.1:7700/api/notes/stream?user=ada&agent=scout'",
)
LAST_EVENT = "last-event-id"
EVENT = "change"
MIN_POLL_SECONDS = 0.1
MAX_POLL_SECONDS = 1.0
"""Seconds between two polls: MIN_POLL_SECONDS after a change, then growing up to MAX_POLL_SECONDS."""
_SLOWER = 1.5


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
        pause = min(pause * _SLOWER, MAX_POLL_SECONDS)
    # Authorize again: the key may have been revoked while waiting.
    await authenticator.authorize(call.request, STREAM.needs)
    return response(rendered(changes))


async def _stream(app: Starlette, authenticator: RequestAuthenticator, call: Call) -> Response:
    """Stream every change as an event whose id is the version, until the client disconnects."""
    after = call.arguments.get("after", 0)
    if (last := call.request.headers.get(LAST_EVENT)) is not None:
        if not (last.isascii() and last.isdigit() and len(last) < 16):
            raise Invalid(
                field="Last-Event-ID", problem="must be the id of an event of this stream"
            )
        after = int(last)
    look = call.scope.notes.changes
    # The first read rejects an invalid request before the stream starts.
    first = await in_thread(look, after=after)
    return EventStream(
        _events(app, look, after, first),
        partial(authenticator.is_authorized, call.request, STREAM.needs),
    )


async def _events(
    app: Starlette, look: Callable[..., list[NoteVersion]], after: int, changes: list[NoteVersion]
) -> AsyncGenerator[bytes, None]:
    beat = time.monotonic()
    pause = MIN_POLL_SECONDS
    yield b"retry: 1000\n\n"
    while not app.state.stopping.is_set():
        for change in changes:
            yield encode_event(change.version, EVENT, as_json(change))
            after = change.version
        moment = time.monotonic()
        if changes:
            beat = moment
            pause = MIN_POLL_SECONDS
        elif moment - beat >= HEARTBEAT_SECONDS:
            beat = moment
            yield HEARTBEAT
        await wait_or_stop(app, pause)
        pause = min(pause * _SLOWER, MAX_POLL_SECONDS)
        try:
            changes = await in_thread(look, after=after)
        except RetainError:
            return  # the client reconnects and gets the error, if it persists


async def wait_or_stop(app: Starlette, seconds: float) -> Any:
    """Wait, but not longer than the server runs."""
    try:
        async with asyncio.timeout(seconds):
            await app.state.stopping.wait()
    except TimeoutError:
        return

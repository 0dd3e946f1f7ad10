"""Changes of notes: wait for a change without blocking a thread, or stream change events."""

from __future__ import annotations

import time
from functools import partial

from pydantic import BaseModel, Field, create_model
from starlette.responses import Response

from memorist.api.endpoints import Endpoint
from memorist.api.responses import rendered, response
from memorist.api.schemas import LENIENT, owner_fields
from memorist.base import canonical
from memorist.kinds.notes import MAX_WAIT_SECONDS, NoteVersion
from memorist.server.http.sse import (
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
from memorist.server.http.verb_handler import Call, VerbHandler

STREAM = Endpoint(
    "GET /notes/stream",
    "read",
    "curl -N 'http://127.0.0.1:7700/api/notes/stream?user=ada&agent=scout'",
    kind="notes",
    verb="stream",
)
EVENT = "change"


class ChangesHandler(VerbHandler):
    """Waits for a change without blocking a thread."""

    async def respond(self, call: Call) -> Response:
        """Return the changes after a version; if there are none, wait up to `wait` seconds."""
        wait = canonical.amount(call.arguments.get("wait", 0.0), "wait")
        if not 0 < wait <= MAX_WAIT_SECONDS:
            return await super().respond(call)
        state = call.request.app.state
        read = partial(call.scope.notes.changes, **{**call.arguments, "wait": 0.0})
        deadline = time.monotonic() + wait
        pause = MIN_POLL_SECONDS
        while not (changes := await self.in_thread(read)):
            left = deadline - time.monotonic()
            if left <= 0 or state.stopping.is_set() or await call.request.is_disconnected():
                break
            await wait_or_stop(state.stopping, min(pause, left))
            pause = min(pause * POLL_GROWTH, MAX_POLL_SECONDS)
        # Authorize again: the key may have been revoked while waiting.
        await self.authenticator.authorize(call.request, self.endpoint.needs)
        return response(rendered(changes))


class StreamHandler(VerbHandler):
    """Streams every change as an event whose id is the version, until the client disconnects."""

    media_type = EVENT_STREAM_MEDIA_TYPE

    def build_request_model(self) -> type[BaseModel]:
        """Return the position at which the stream starts, and the owner."""
        text = "Only changes after this version. The header Last-Event-ID takes precedence."
        return create_model(
            "NotesStreamRequest",
            __config__=LENIENT,
            after=(int, Field(0, ge=0, description=text)),
            **owner_fields(),
        )

    async def respond(self, call: Call) -> Response:
        """Return the stream."""
        after = last_event_id(call.request)
        if after is None:
            after = call.arguments.get("after", 0)

        def read(after: int) -> list[NoteVersion]:
            return call.scope.notes.changes(after=after, limit=EVENTS_PER_READ)

        # The first read rejects an invalid request before the stream starts.
        first = await self.in_thread(read, after)
        stopping = call.request.app.state.stopping
        return EventStream(
            poll_events(stopping, first, read, lambda change: (change.version, EVENT), after),
            partial(self.authenticator.is_authorized, call.request, self.endpoint.needs),
        )

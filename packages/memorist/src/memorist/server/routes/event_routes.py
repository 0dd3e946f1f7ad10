"""`/api/events`: the stream of a tenant's events.

The route is written by hand because its response is a stream that does not end.
"""

from __future__ import annotations

from functools import partial

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from memorist.api.route import ApiRoute
from memorist.api.schemas import LENIENT
from memorist.base.errors import Conflict
from memorist.server.http.authentication import RequestAuthenticator
from memorist.server.http.routing import api_route
from memorist.server.http.sse import (
    EVENT_STREAM_MEDIA_TYPE,
    EVENTS_PER_READ,
    EventStream,
    last_event_id,
    poll_events,
)
from memorist.server.http.thread_pool import in_thread
from memorist.storage.event_log import Event


class EventStreamRequest(BaseModel):
    """The position at which a stream of events starts."""

    model_config = LENIENT
    after: int | None = Field(
        None,
        ge=0,
        description="The number of the last event that you have. 0: from the oldest event. Default: only new "
        "events. The header Last-Event-ID takes precedence.",
    )


def routes(authenticator: RequestAuthenticator) -> list[ApiRoute]:
    """Return the route."""
    memory = authenticator.memory

    async def stream(request: Request, query: EventStreamRequest) -> Response:
        """Stream what is added, changed, learned, removed and erased in the tenant.

        Each event has its number as id. After a lost connection, send the last one as Last-Event-ID
        or `after` to continue without a gap. Events are stored for 7 days.
        """
        principal = await authenticator.authorize(request, "read")
        principal.require_whole_tenant("read the events of the tenant")
        if memory.settings.events == "off":
            raise Conflict(problem="events are off; start the server with the setting `events: on`")
        after = last_event_id(request)
        if after is None:
            after = query.after
        if after is None:
            after = await in_thread(memory.last_event, tenant=principal.tenant)

        def read(after: int) -> list[Event]:
            return memory.events(after=after, limit=EVENTS_PER_READ, tenant=principal.tenant)

        # The first read rejects an invalid request before the stream starts.
        first = await in_thread(read, after)
        stopping = request.app.state.stopping
        return EventStream(
            poll_events(stopping, first, read, lambda event: (event.number, event.type), after),
            partial(authenticator.is_authorized, request, "read"),
        )

    return [
        api_route(
            authenticator=authenticator,
            method="GET",
            path="/api/events",
            name="events",
            tag="events",
            handler=stream,
            permission="read",
            query=EventStreamRequest,
            media_type=EVENT_STREAM_MEDIA_TYPE,
            response_help="The events, as they happen.",
            headers={"Last-Event-ID": "The id of the last event that was received."},
            error_statuses=(409, 410),
        )
    ]

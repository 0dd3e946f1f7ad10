"""Events: the stream of a tenant's events, and the webhooks that an admin manages.

The secret of a webhook is in one response, which is not stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import BaseModel, Field
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from retain.api import problem
from retain.api.responses import answer
from retain.api.schemas import LENIENT, STRICT, Text, shape
from retain.auth.audited_writer import Action, acting_as
from retain.auth.principal import Principal
from retain.auth.webhooks import EVENT_KINDS, DeadLetter, TestResult, Webhook, Webhooks
from retain.base.errors import Conflict
from retain.kinds.page import Page
from retain.server.api_route import ApiRoute
from retain.server.key_routes import PageRequest
from retain.server.request_authenticator import RequestAuthenticator
from retain.server.sse import (
    EVENT_STREAM_MEDIA_TYPE,
    EVENTS_PER_READ,
    EventStream,
    last_event_id,
    poll_events,
)
from retain.server.thread_pool import in_thread
from retain.storage.outbox import Event

KINDS_SCHEMA: dict[str, Any] = {"type": "array", "items": {"enum": [*EVENT_KINDS]}}
KINDS_HELP = "Only events of these kinds, such as messages or facts. Default: all."


class EventsRequest(BaseModel):
    """The position at which a stream of events starts."""

    model_config = LENIENT
    after: int | None = Field(
        None,
        ge=0,
        description="The number of the last event that you have. 0: from the oldest event. Default: only new "
        "events. The header Last-Event-ID takes precedence.",
    )


@dataclass(frozen=True)
class NewWebhook(Webhook):
    """A new webhook; `secret` is shown only once."""

    secret: str


@dataclass(frozen=True)
class Replayed:
    """The number of events that are sent again."""

    events: int


class WebhookRequest(BaseModel):
    """The webhook to add."""

    model_config = STRICT
    url: Text = Field(
        description="The address that receives the events.", examples=["https://example.org/hooks"]
    )
    kinds: list[Text] = Field(
        [], description=KINDS_HELP, examples=[["facts"]], json_schema_extra=KINDS_SCHEMA
    )


class WebhookEdit(BaseModel):
    """The changes of a webhook."""

    model_config = STRICT
    url: Text | None = Field(None, description="The new address.")
    kinds: list[Text] | None = Field(
        None, description=KINDS_HELP, json_schema_extra={"anyOf": [KINDS_SCHEMA, {"type": "null"}]}
    )
    paused: bool | None = Field(None, description="True: send no events for now.")


def add(app: Starlette, authenticator: RequestAuthenticator) -> None:
    """Add the routes to an app."""
    handlers = _Handlers(app, authenticator)
    route = partial(ApiRoute, authenticator=authenticator, tag="events")
    admin_route = partial(route, permission="admin")
    path_help = {"id": "The id of the webhook."}
    app.state.routes += [
        route(
            method="GET",
            path="/api/events",
            name="events",
            handler=handlers.events,
            permission="read",
            query=EventsRequest,
            media_type=EVENT_STREAM_MEDIA_TYPE,
            response_help="The events, as they happen.",
            headers={"Last-Event-ID": "The id of the last event that was received."},
            error_statuses=(409, 410),
        ),
        admin_route(
            method="GET",
            path="/api/webhooks",
            name="webhooks_list",
            handler=handlers.list,
            result=shape(list[Webhook]),
        ),
        admin_route(
            method="POST",
            path="/api/webhooks",
            name="webhooks_add",
            handler=handlers.add,
            body=WebhookRequest,
            result=shape(NewWebhook),
            status=201,
            error_statuses=(409, 507),
        ),
        admin_route(
            method="GET",
            path="/api/webhooks/{id}",
            name="webhooks_get",
            handler=handlers.get,
            result=shape(Webhook),
            path_help=path_help,
        ),
        admin_route(
            method="PATCH",
            path="/api/webhooks/{id}",
            name="webhooks_edit",
            handler=handlers.edit,
            body=WebhookEdit,
            result=shape(Webhook),
            error_statuses=(409, 507),
            path_help=path_help,
        ),
        admin_route(
            method="DELETE",
            path="/api/webhooks/{id}",
            name="webhooks_remove",
            handler=handlers.remove,
            status=204,
            path_help=path_help,
        ),
        admin_route(
            method="GET",
            path="/api/webhooks/{id}/dead-letters",
            name="webhooks_dead_letters",
            handler=handlers.dead_letters,
            query=PageRequest,
            result=shape(Page[DeadLetter]),
            path_help=path_help,
        ),
        admin_route(
            method="POST",
            path="/api/webhooks/{id}/replay",
            name="webhooks_replay",
            handler=handlers.replay,
            result=shape(Replayed),
            path_help=path_help,
        ),
        admin_route(
            method="POST",
            path="/api/webhooks/{id}/test",
            name="webhooks_test",
            handler=handlers.test,
            result=shape(TestResult),
            path_help=path_help,
        ),
    ]


class _Handlers:
    def __init__(self, app: Starlette, authenticator: RequestAuthenticator) -> None:
        self._app = app
        self._authenticator = authenticator
        self._memory = authenticator.memory

    async def events(self, request: Request, query: EventsRequest) -> Response:
        """Stream what is added, changed, learned, removed and erased in the tenant.

        Each event has its number as id. After a lost connection, send the last one as Last-Event-ID
        or `after` to continue without a gap. Events are stored for 7 days.
        """
        principal = await self._authenticator.authorize(request, "read")
        principal.require_whole_tenant("read the events of the tenant")
        self._require_events()
        after = last_event_id(request)
        if after is None:
            after = query.after
        if after is None:
            after = await in_thread(self._memory.last_event, tenant=principal.tenant)
        read = partial(self._read, principal.tenant)
        # The first read rejects an invalid request before the stream starts.
        first = await in_thread(read, after)
        return EventStream(
            poll_events(self._app, first, read, lambda event: (event.number, event.type), after),
            partial(self._authenticator.is_authorized, request, "read"),
        )

    def _require_events(self) -> None:
        if self._memory.settings.events == "off":
            raise Conflict(problem="events are off; start the server with the setting `events: on`")

    def _read(self, tenant: str, after: int) -> list[Event]:
        return self._memory.events(after=after, limit=EVENTS_PER_READ, tenant=tenant)

    async def list(self, request: Request) -> Response:
        """List the webhooks of the tenant, oldest first, without their secrets."""
        principal = await self._admin(request)
        return answer(await run_in_threadpool(self._webhooks().list, principal.tenant))

    async def add(self, request: Request, body: WebhookRequest) -> Response:
        """Add a webhook, which gets every event from now on. Only this response has its secret."""
        principal = await self._admin(request)
        self._require_events()
        webhooks = self._webhooks(request, principal, "webhooks_add")
        webhook, secret = await run_in_threadpool(
            webhooks.add, principal.tenant, body.url, body.kinds
        )
        return answer(NewWebhook(**vars(webhook), secret=secret), 201)

    async def get(self, request: Request, id: str) -> Response:
        """Return a webhook: where it points, how far it is, and whether it fails."""
        principal = await self._admin(request)
        return answer(await run_in_threadpool(self._webhooks().get, principal.tenant, id))

    async def edit(self, request: Request, id: str, body: WebhookEdit) -> Response:
        """Change the address or the kinds of a webhook, or pause it."""
        principal = await self._admin(request)
        webhooks = self._webhooks(request, principal, "webhooks_edit")
        edit = partial(webhooks.edit, principal.tenant, id, **body.model_dump())
        return answer(await run_in_threadpool(edit))

    async def remove(self, request: Request, id: str) -> Response:
        """Remove a webhook and the events that it did not accept."""
        principal = await self._admin(request)
        webhooks = self._webhooks(request, principal, "webhooks_remove")
        await run_in_threadpool(webhooks.remove, principal.tenant, id)
        return Response(status_code=204)

    async def dead_letters(self, request: Request, id: str, query: PageRequest) -> Response:
        """List the events that a webhook did not accept, oldest first, and why."""
        principal = await self._admin(request)
        letters = partial(
            self._webhooks().dead_letters,
            principal.tenant,
            id,
            limit=query.limit,
            after=query.after,
        )
        return answer(await run_in_threadpool(letters))

    async def replay(self, request: Request, id: str) -> Response:
        """Send the events again that a webhook did not accept."""
        principal = await self._admin(request)
        webhooks = self._webhooks(request, principal, "webhooks_replay")
        return answer(Replayed(await run_in_threadpool(webhooks.replay, principal.tenant, id)))

    async def test(self, request: Request, id: str) -> Response:
        """Send a test event to a webhook now, and return its answer."""
        principal = await self._admin(request)
        return answer(await run_in_threadpool(self._webhooks().test, principal.tenant, id))

    async def _admin(self, request: Request) -> Principal:
        """Return the principal. Raise Forbidden unless it may manage the tenant's webhooks."""
        return await self._authenticator.authorize_admin(request, "manage webhooks")

    def _webhooks(
        self, request: Request | None = None, principal: Principal | None = None, action: str = ""
    ) -> Webhooks:
        """Return the webhooks; with an action, their next change is audited."""
        services = self._memory.services
        if request is not None and principal is not None:
            services = acting_as(
                services, principal, Action(action, request_id=problem.request_id(request))
            )
        return Webhooks(
            services.database,
            services.writer,
            allow_private=services.settings.events == "private",
        )

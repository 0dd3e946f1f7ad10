"""Key routes: an admin creates, lists and revokes the keys of a tenant; `/api/me` names the caller.

A new key has no more permissions than the key or token that creates it, and is not valid for longer. A key
bound to a user or an agent is rejected. The text of a new key is in one response, which is not
stored: a retry creates another key.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import partial

from pydantic import BaseModel, Field
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from retain.api import problem
from retain.api.responses import answer
from retain.api.schemas import LENIENT, STRICT, Moment, Name, Text, shape
from retain.api.value_limits import parameter_limits
from retain.auth.api_keys import Key, Keys, parse_permissions
from retain.auth.audited_writer import Action, acting_as
from retain.auth.principal import PERMISSIONS, Permission, Principal
from retain.base import clock
from retain.base.errors import Forbidden
from retain.kinds.page import Page
from retain.server.api_route import ApiRoute
from retain.server.request_authenticator import RequestAuthenticator


@dataclass(frozen=True)
class Me:
    """The caller: the tenant, permissions, user and agent of its credential."""

    tenant: str
    permissions: list[Permission]
    user: str | None
    agent: str | None
    name: str


@dataclass(frozen=True)
class NewKey(Key):
    """A new key; `key` is its text, which is shown only once."""

    key: str


class KeyRequest(BaseModel):
    """The key to create."""

    model_config = STRICT
    name: Name = Field(description="A name that says what the key is for.", examples=["ci"])
    permissions: list[Text] = Field(
        description="Any of read, write, delete and admin.",
        examples=[["read", "write"]],
        json_schema_extra={"minItems": 1, "items": {"enum": [*sorted(PERMISSIONS)]}},
    )
    user: Name | None = Field(
        None,
        description="The only user that the key may act for. Default: every user of the tenant.",
    )
    agent: Name | None = Field(
        None, description="The only agent that the key may act for. Default: every agent."
    )
    expires_at: Moment | None = Field(
        None,
        description="Time of expiry, with a time zone. Default: that of the credential that creates the key.",
    )


class PageRequest(BaseModel):
    """The page of a list."""

    model_config = LENIENT
    limit: int = Field(
        100,
        description="The maximum number of records to return.",
        json_schema_extra=parameter_limits("", "", "limit"),
    )
    after: Text | None = Field(None, description="The cursor `next` of the previous page.")


def add(app: Starlette, authenticator: RequestAuthenticator) -> None:
    """Add the routes to an app."""
    handlers = _Handlers(authenticator)
    route = partial(ApiRoute, authenticator=authenticator, tag="access")
    app.state.routes += [
        route(
            method="GET",
            path="/api/keys",
            name="keys_list",
            handler=handlers.list,
            permission="admin",
            query=PageRequest,
            result=shape(Page[Key]),
        ),
        route(
            method="POST",
            path="/api/keys",
            name="keys_create",
            handler=handlers.create,
            permission="admin",
            body=KeyRequest,
            result=shape(NewKey),
            status=201,
        ),
        route(
            method="DELETE",
            path="/api/keys/{id}",
            name="keys_revoke",
            handler=handlers.revoke,
            permission="admin",
            result=shape(Key),
            path_help={"id": "The id of the key."},
        ),
        route(method="GET", path="/api/me", name="me", handler=handlers.me, result=shape(Me)),
    ]


class _Handlers:
    def __init__(self, authenticator: RequestAuthenticator) -> None:
        self._authenticator = authenticator

    async def me(self, request: Request) -> Response:
        """Return the caller: tenant, permissions, and the user or agent the key is bound to."""
        principal = await self._authenticator.authenticate_request(request)
        permissions = parse_permissions(principal.permissions) if principal.permissions else []
        return answer(
            Me(principal.tenant, permissions, principal.user, principal.agent, principal.name)
        )

    async def list(self, request: Request, query: PageRequest) -> Response:
        """List the keys of the tenant, oldest first, including expired and revoked ones."""
        principal = await self._admin(request)
        return answer(
            await run_in_threadpool(
                self._authenticator.keys.list,
                principal.tenant,
                limit=query.limit,
                after=query.after,
            )
        )

    async def create(self, request: Request, body: KeyRequest) -> Response:
        """Create a key for the caller's tenant, with at most the caller's permissions.

        Only this response has its text.
        """
        principal = await self._admin(request)
        allowed = parse_permissions(body.permissions)
        for permission in allowed:
            if permission not in principal.permissions:
                raise Forbidden(
                    problem=f"your key lacks the permission {permission}, so it cannot grant it"
                )
        tenant = principal.tenant
        bound = {"user": body.user, "agent": body.agent}
        until = _end(principal, body.expires_at)

        def make() -> tuple[Key, str]:
            keys = self._audited_keys(request, principal, "keys_create")
            return keys.create(tenant, body.name, allowed, **bound, expires_at=until)

        key, text = await run_in_threadpool(make)
        self._authenticator.forget()
        return answer(NewKey(**vars(key), key=text), 201)

    async def revoke(self, request: Request, id: str) -> Response:
        """Revoke a key: in this process at once, in other processes within seconds."""
        principal = await self._admin(request)
        keys = self._audited_keys(request, principal, "keys_revoke")
        key = await run_in_threadpool(keys.revoke, principal.tenant, id)
        self._authenticator.forget()
        return answer(key)

    async def _admin(self, request: Request) -> Principal:
        """Return the principal. Raise Forbidden unless it may manage the tenant's keys."""
        return await self._authenticator.authorize_admin(request, "manage keys")

    def _audited_keys(self, request: Request, principal: Principal, action: str) -> Keys:
        """Return the keys, whose next change is audited."""
        services = acting_as(
            self._authenticator.memory.services,
            principal,
            Action(action, request_id=problem.request_id(request)),
        )
        return Keys(services.database, services.writer)


def _end(maker: Principal, wanted: datetime | None) -> datetime | None:
    """Return the expiry of a new key: no later than that of the credential that creates it."""
    if maker.until is None:
        return wanted
    last = clock.to_datetime(maker.until)
    if wanted is not None and wanted > last:
        raise Forbidden(
            problem=f"your credential expires at {last.isoformat()}, and a key that it creates cannot be valid for longer"
        )
    return wanted or last

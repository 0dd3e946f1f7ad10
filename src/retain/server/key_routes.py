"""Key routes: an admin creates, lists and revokes the keys of a tenant; `/api/me` names the caller.

A new key has no more permissions than the key that creates it, and is not valid for longer. A key
bound to a user or an agent is rejected. The text of a new key is in one response, which is not
stored: a retry creates another key.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from retain.api import problem
from retain.api.responses import answer
from retain.api.schemas import LENIENT, STRICT, Moment, Text, shape
from retain.auth.api_keys import Key, Keys, parse_permissions
from retain.auth.audit import Action, acting_as
from retain.auth.principal import Permission, Principal
from retain.base import clock
from retain.base.errors import Forbidden
from retain.kinds.kind import Page
from retain.server.request_authenticator import RequestAuthenticator
from retain.server.routes import problems

_STATUSES = (400, 401, 403, 404, 408, 413, 415, 421, 422, 429, 500, 503, 507)


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
    name: Text = Field(description="What it is for, for people.", examples=["ci"])
    permissions: list[Text] = Field(
        description="Some of read, write, delete and admin.", examples=[["read", "write"]]
    )
    user: Text | None = Field(
        None, description="The one user it is for; without, every user of the tenant."
    )
    agent: Text | None = Field(None, description="The one agent it is for; without, every agent.")
    expires_at: Moment | None = Field(
        None,
        description="When it ends, with a time zone; without, when the key it is made with does.",
    )


class KeysRequest(BaseModel):
    """The page of keys to list."""

    model_config = LENIENT
    limit: int = Field(100, description="The most records to return.")
    after: Text | None = Field(
        None, description="Go on after this cursor, from the end of the page before."
    )


def add(app: FastAPI, authenticator: RequestAuthenticator) -> None:
    """Add the routes to an app."""
    routes = _Routes(authenticator)
    for method, path, does, result, status in (
        ("GET", "/api/keys", routes.list, Page[Key], 200),
        ("POST", "/api/keys", routes.create, NewKey, 201),
        ("DELETE", "/api/keys/{id}", routes.revoke, Key, 200),
    ):
        name = f"keys_{does.__name__}"
        how: dict[str, Any] = {
            "name": name,
            "operation_id": name,
            "openapi_extra": {"x-retain-permission": "admin"},
        }
        app.add_api_route(
            path,
            does,
            methods=[method],
            tags=["access"],
            status_code=status,
            response_model=shape(result),
            responses=problems(*_STATUSES),
            **how,
        )
    about: dict[str, Any] = {
        "tags": ["access"],
        "response_model": shape(Me),
        "responses": problems(*_STATUSES),
    }
    app.add_api_route("/api/me", routes.me, methods=["GET"], name="me", operation_id="me", **about)


class _Routes:
    def __init__(self, authenticator: RequestAuthenticator) -> None:
        self._authenticator = authenticator

    async def me(self, request: Request) -> Response:
        """Return the caller: tenant, permissions, and the user or agent the key is bound to."""
        principal = await self._authenticator.authenticate_request(request)
        permissions = parse_permissions(principal.permissions) if principal.permissions else []
        return answer(
            Me(principal.tenant, permissions, principal.user, principal.agent, principal.name)
        )

    async def list(self, request: Request, said: Annotated[KeysRequest, Query()]) -> Response:
        """List the keys of the tenant, oldest first, including expired and revoked ones."""
        principal = await self._admin(request)
        return answer(
            await run_in_threadpool(
                self._authenticator.keys.list, principal.tenant, limit=said.limit, after=said.after
            )
        )

    async def create(self, request: Request, said: KeyRequest) -> Response:
        """Create a key for the caller's tenant, with at most the caller's permissions.

        Only this response has its text.
        """
        principal = await self._admin(request)
        allowed = parse_permissions(said.permissions)
        for permission in allowed:
            if permission not in principal.permissions:
                raise Forbidden(
                    problem=f"a key cannot be made by one that may not {permission} itself"
                )
        tenant = principal.tenant
        bound = {"user": said.user, "agent": said.agent}
        until = _end(principal, said.expires_at)

        def make() -> tuple[Key, str]:
            keys = self._audited_keys(request, principal, "keys_create")
            return keys.create(tenant, said.name, allowed, **bound, expires_at=until)

        key, text = await run_in_threadpool(make)
        self._authenticator.forget()
        return answer(NewKey(**vars(key), key=text), 201)

    async def revoke(
        self, request: Request, id: Annotated[str, Path(description="The key's id.")]
    ) -> Response:
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
    """Return the expiry of a new key: no later than that of the key that creates it."""
    if maker.until is None:
        return wanted
    last = clock.to_datetime(maker.until)
    if wanted is not None and wanted > last:
        raise Forbidden(
            problem=f"a key cannot be made by one that ends before it, at {last.isoformat()}"
        )
    return wanted or last

"""LangGraph's store: its client works with our URL and one of our keys.

from langgraph_sdk import get_client

client = get_client(url="http://127.0.0.1:7700", api_key=KEY, headers={"X-Retain-User": "ada"})
await client.store.put_item(["memories"], "name", {"text": "The user is called Ada."})
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from retain.api import namespaces, problem
from retain.api.namespaces import checked
from retain.api.responses import Written, encoded
from retain.api.schemas import STRICT
from retain.auth.audited_writer import Action, acting_as
from retain.auth.principal import Permission, Principal
from retain.base import canonical, limits
from retain.base.errors import Forbidden, Invalid
from retain.kinds.items import Drop, PlacedItem, Put
from retain.memory import Scope
from retain.search.service_embedder import ServiceEmbedder
from retain.server.parsing import parse_json, read_body, read_query
from retain.server.request_authenticator import RequestAuthenticator
from retain.server.thread_pool import in_thread, model_threads
from retain.server.vendors.protocol import add_route

Body = TypeVar("Body", bound=BaseModel)
Labels = list[str]
_Count = Annotated[int, Field(ge=0)]


class _ItemKey(BaseModel):
    model_config = STRICT
    namespace: Labels
    key: str


class _PutBody(_ItemKey):
    value: dict[str, Any]
    index: Literal[False] | list[str] | None = None
    ttl: float | None = None


class _SearchBody(BaseModel):
    model_config = STRICT
    namespace_prefix: Labels = []
    filter: dict[str, Any] | None = None
    limit: _Count = 10
    offset: _Count = 0
    query: str | None = None
    refresh_ttl: bool | None = None


class _NamespacesBody(BaseModel):
    model_config = STRICT
    prefix: Labels | None = None
    suffix: Labels | None = None
    max_depth: Annotated[int, Field(ge=1)] | None = None
    limit: _Count = 100
    offset: _Count = 0


def add(app: Starlette, authenticator: RequestAuthenticator) -> None:
    """Add the routes."""
    store = _StoreRoutes(authenticator)
    add_route(app, "PUT", "/store/items", "write", store.put)
    add_route(app, "GET", "/store/items", "read", store.get)
    add_route(app, "DELETE", "/store/items", "delete", store.delete)
    add_route(app, "POST", "/store/items/search", "read", store.search)
    add_route(app, "POST", "/store/namespaces", "read", store.namespaces)


class _StoreRoutes:
    """The handlers of the routes."""

    def __init__(self, authenticator: RequestAuthenticator) -> None:
        self._authenticator = authenticator
        calls_service = isinstance(authenticator.memory.services.embedder, ServiceEmbedder)
        self._search_thread = (
            model_threads(max(1, limits.MAX_IN_FLIGHT // 2)) if calls_service else in_thread
        )

    async def put(self, request: Request) -> Response:
        """Store an item."""
        principal, body = await self._parse(request, "write", _PutBody)
        labels = checked(body.namespace, "namespace", new=True)
        fields = [] if body.index is False else body.index
        change = namespaces.change(labels, body.key, body.value, body.ttl, fields)
        await self._write(request, principal, "write", "items_put", change)
        return Response(status_code=204)

    async def delete(self, request: Request) -> Response:
        """Remove an item; a missing one is not an error."""
        principal, body = await self._parse(request, "delete", _ItemKey)
        labels = checked(body.namespace, "namespace")
        change = namespaces.change(labels, body.key, None, None, None)
        await self._write(request, principal, "delete", "items_remove", change)
        return Response(status_code=204)

    async def get(self, request: Request) -> Response:
        """Return an item, or null."""
        principal = await self._authenticator.authorize(request, "read", vendor=True)
        query = dict(read_query(request))
        labels = query.pop("namespace", "").split(".")
        key = query.pop("key", "")
        refresh_text = query.pop("refresh_ttl", "").lower()
        for name in query:
            raise Invalid(field=name, problem="is unknown; check its name")
        if not key:
            raise Invalid(field="key", problem="is required")
        if refresh_text not in ("", "true", "1", "false", "0"):
            raise Invalid(field="refresh_ttl", problem="must be true or false")
        scope = self._authenticator.scope(request, principal, None, None)
        refresh = refresh_text not in ("false", "0") and _may_refresh(principal, scope)
        addresses = [(checked(labels, "namespace"), key)]
        (item,) = await in_thread(namespaces.read, scope, addresses, refresh=refresh)
        return _json_response(None if item is None else _render_item(item))

    async def search(self, request: Request) -> Response:
        """Return the items below a namespace."""
        principal, body = await self._parse(request, "read", _SearchBody)
        scope = self._authenticator.scope(request, principal, None, None)
        hits = await self._search_thread(
            namespaces.search,
            scope,
            checked(body.namespace_prefix, "namespace_prefix"),
            query=body.query,
            where=body.filter,
            limit=body.limit,
            offset=body.offset,
            refresh=body.refresh_ttl is not False and _may_refresh(principal, scope),
        )
        items = [{**_render_item(item), "score": score} for item, score in hits]
        return _json_response({"items": items})

    async def namespaces(self, request: Request) -> Response:
        """Return the namespaces that contain items."""
        principal, body = await self._parse(request, "read", _NamespacesBody)
        prefix = checked(body.prefix or (), "prefix")
        suffix = checked(body.suffix or (), "suffix")
        scope = self._authenticator.scope(request, principal, None, None)
        labels = await in_thread(
            namespaces.namespaces,
            scope,
            [prefix],
            [suffix],
            depth=body.max_depth,
            limit=body.limit,
            offset=body.offset,
        )
        return _json_response({"namespaces": labels})

    async def _parse(
        self, request: Request, permission: Permission, model: type[Body]
    ) -> tuple[Principal, Body]:
        """Authorize and parse a request. Authorization comes first: it must not leak details."""
        principal = await self._authenticator.authorize(request, permission, vendor=True)
        raw_body = await read_body(request, dict(request.scope["headers"]))
        body = model.model_validate(parse_json(raw_body))
        canonical.check_integer(getattr(body, "limit", 0), "limit", 0, limits.MAX_PAGE)
        return principal, body

    async def _write(
        self,
        request: Request,
        principal: Principal,
        permission: Permission,
        name: str,
        change: Put | Drop,
    ) -> None:
        """Write a change and its audit row."""
        scope = self._authenticator.scope(request, principal, None, None)
        principal.require_for(permission, "items", {}, scope.owner.user)
        labels = namespaces.namespace(tuple(change.place))
        subject = f"item {'.'.join(labels)} {namespaces.readable_name(change.key)}"
        action = Action(name, request_id=problem.request_id(request), subject=subject)
        audited = Scope(acting_as(scope.services, principal, action), scope.owner)
        await in_thread(audited.items.write, [change])


def _may_refresh(principal: Principal, scope: Scope) -> bool:
    """Return True if a read may extend the expiry; without it, the caller still reads."""
    try:
        principal.require_for("read", "items", {"refresh": True}, scope.owner.user)
    except Forbidden:
        return False
    return True


def _render_item(item: PlacedItem) -> dict[str, Any]:
    record = namespaces.record(item)
    return {
        **record,
        "created_at": record["created_at"].isoformat(),
        "updated_at": record["updated_at"].isoformat(),
    }


def _json_response(value: Any) -> Response:
    return Written(encoded(json.dumps(value, ensure_ascii=False, separators=(",", ":"))), 200)

"""LangGraph's store over HTTP: its own client works with nothing but its `url` changed, with one of our keys as its key.

from langgraph_sdk import get_client

client = get_client(url="http://127.0.0.1:7700", api_key=KEY, headers={"X-Retain-User": "ada"})
await client.store.put_item(["memories"], "name", {"text": "The user is called Ada."})
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, TypeVar

from fastapi import FastAPI
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from retain.api import namespaces, problem
from retain.api.namespaces import checked
from retain.api.responses import Written, encoded
from retain.api.schemas import STRICT
from retain.auth.audit import Action, acting_as
from retain.auth.principal import Permission, Principal
from retain.base import canonical, limits
from retain.base.errors import Forbidden, Invalid
from retain.kinds.items import Drop, PlacedItem, Put
from retain.memory import Scope
from retain.server.authenticator import Authenticator
from retain.server.parsing import parse_json, read_body, read_query
from retain.server.thread_pool import in_thread, model_threads
from retain.server.vendors import route

Said = TypeVar("Said", bound=BaseModel)
Labels = list[str]
_Count = Annotated[int, Field(ge=0)]


class _Key(BaseModel):
    model_config = STRICT
    namespace: Labels
    key: str


class _Put(_Key):
    value: dict[str, Any]
    index: Literal[False] | list[str] | None = None
    ttl: float | None = None


class _Search(BaseModel):
    model_config = STRICT
    namespace_prefix: Labels = []
    filter: dict[str, Any] | None = None
    limit: _Count = 10
    offset: _Count = 0
    query: str | None = None
    refresh_ttl: bool | None = None


class _Namespaces(BaseModel):
    model_config = STRICT
    prefix: Labels | None = None
    suffix: Labels | None = None
    max_depth: Annotated[int, Field(ge=1)] | None = None
    limit: _Count = 100
    offset: _Count = 0


def add(app: FastAPI, authenticator: Authenticator) -> None:
    """The five routes."""
    store = _Store(authenticator)
    route.add(app, "PUT", "/store/items", "write", store.put)
    route.add(app, "GET", "/store/items", "read", store.get)
    route.add(app, "DELETE", "/store/items", "delete", store.delete)
    route.add(app, "POST", "/store/items/search", "read", store.search)
    route.add(app, "POST", "/store/namespaces", "read", store.namespaces)


class _Store:
    """What the routes do."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator
        settings = authenticator.memory.settings
        slow = settings.embedder == "service"  # a search waits for it
        self._search_thread = (
            model_threads(max(1, limits.MAX_IN_FLIGHT // 2)) if slow else in_thread
        )

    async def put(self, request: Request) -> Response:
        """Keep an item."""
        principal, said = await self._asked(request, "write", _Put)
        labels = checked(said.namespace, "namespace", new=True)
        fields = said.index if said.index is not False else []
        change = namespaces.change(labels, said.key, said.value, said.ttl, fields)
        await self._written(request, principal, "write", "items_put", change)
        return Response(status_code=204)

    async def delete(self, request: Request) -> Response:
        """Remove an item, if it is there."""
        principal, said = await self._asked(request, "delete", _Key)
        labels = checked(said.namespace, "namespace")
        change = namespaces.change(labels, said.key, None, None, None)
        await self._written(request, principal, "delete", "items_remove", change)
        return Response(status_code=204)

    async def get(self, request: Request) -> Response:
        """An item, or null."""
        principal = await self._authenticator.authorize(request, "read", vendor=True)
        said = dict(read_query(request))
        labels, key = said.pop("namespace", "").split("."), said.pop("key", "")
        refresh = {"true": True, "1": True, "false": False, "0": False, "": True}.get(
            said.pop("refresh_ttl", "").lower()
        )
        for name in said:
            raise Invalid(field=name, problem="is not known here; check its name")
        if not key or refresh is None:
            raise Invalid(
                field="key" if not key else "refresh_ttl",
                problem="is needed" if not key else "is true or false",
            )
        scope = self._authenticator.scope(request, principal, None, None)
        wanted = [(checked(labels, "namespace"), key)]
        (item,) = await in_thread(
            namespaces.read, scope, wanted, refresh=refresh and _may_refresh(principal, scope)
        )
        return _answer(None if item is None else _told(item))

    async def search(self, request: Request) -> Response:
        """Items below a namespace."""
        principal, said = await self._asked(request, "read", _Search)
        scope = self._authenticator.scope(request, principal, None, None)
        found = await self._search_thread(
            namespaces.search,
            scope,
            checked(said.namespace_prefix, "namespace_prefix"),
            query=said.query,
            where=said.filter,
            limit=said.limit,
            offset=said.offset,
            refresh=said.refresh_ttl is not False and _may_refresh(principal, scope),
        )
        return _answer({"items": [{**_told(item), "score": score} for item, score in found]})

    async def namespaces(self, request: Request) -> Response:
        """Where there are items."""
        principal, said = await self._asked(request, "read", _Namespaces)
        prefix, suffix = checked(said.prefix or (), "prefix"), checked(said.suffix or (), "suffix")
        scope = self._authenticator.scope(request, principal, None, None)
        found = await in_thread(
            namespaces.namespaces,
            scope,
            [prefix],
            [suffix],
            depth=said.max_depth,
            limit=said.limit,
            offset=said.offset,
        )
        return _answer({"namespaces": found})

    async def _asked(
        self, request: Request, needs: Permission, shape: type[Said]
    ) -> tuple[Principal, Said]:
        """Who asks, and for what; nobody learns what is wrong with a request before it is known who sent it."""
        principal = await self._authenticator.authorize(request, needs, vendor=True)
        body = await read_body(request, dict(request.scope["headers"]))
        said = shape.model_validate(parse_json(body))
        canonical.whole(getattr(said, "limit", 0), "limit", 0, limits.MAX_PAGE)
        return principal, said

    async def _written(
        self,
        request: Request,
        principal: Principal,
        needs: Permission,
        what: str,
        change: Put | Drop,
    ) -> None:
        """Do something that is on record."""
        scope = self._authenticator.scope(request, principal, None, None)
        principal.require_for(needs, "items", {}, scope.owner.user)
        labels, key = namespaces.namespace(tuple(change.place)), namespaces.told(change.key)
        act = Action(
            what, request_id=problem.request_id(request), subject=f"item {'.'.join(labels)} {key}"
        )
        mine = Scope(acting_as(scope.services, principal, act), scope.owner)
        await in_thread(mine.items.write, [change])


def _may_refresh(principal: Principal, scope: Scope) -> bool:
    """Whether what is read may live longer for that; who may not reads it all the same."""
    try:
        principal.require_for("read", "items", {"refresh": True}, scope.owner.user)
    except Forbidden:
        return False
    return True


def _told(item: PlacedItem) -> dict[str, Any]:
    found = namespaces.record(item)
    return {
        **found,
        "created_at": found["created_at"].isoformat(),
        "updated_at": found["updated_at"].isoformat(),
    }


def _answer(found: Any) -> Response:
    return Written(encoded(json.dumps(found, ensure_ascii=False, separators=(",", ":"))), 200)

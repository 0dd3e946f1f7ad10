"""LangGraph's store: its client works with our URL and one of our keys.

from langgraph_sdk import get_client

client = get_client(url="http://127.0.0.1:7700", api_key=KEY, headers={"X-Memorist-User": "ada"})
await client.store.put_item(["memories"], "name", {"text": "The user is called Ada."})
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from memorist.base import canonical, limits
from memorist.base.errors import Forbidden, Invalid
from memorist.kinds.items import Drop, PlacedItem, Put
from memorist_frameworks import namespaces
from memorist_frameworks.namespaces import checked
from memorist_frameworks.routes.route_set import RouteCall, RouteOperation, RouteSet

STRICT = ConfigDict(extra="forbid", strict=True)
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


def _put_change(body: Mapping[str, Any]) -> Put | Drop:
    labels = checked(body["namespace"], "namespace", new=True)
    fields = [] if body["index"] is False else body["index"]
    return namespaces.change(labels, body["key"], body["value"], body["ttl"], fields)


def _drop_change(body: Mapping[str, Any]) -> Put | Drop:
    labels = checked(body["namespace"], "namespace")
    return namespaces.change(labels, body["key"], None, None, None)


def _subject(change: Put | Drop) -> str:
    labels = namespaces.namespace(tuple(change.place))
    return f"{'.'.join(labels)} {namespaces.readable_name(change.key)}"


def _put(call: RouteCall) -> None:
    """Store an item."""
    call.scope.items.write([_put_change(call.body)])


def _delete(call: RouteCall) -> None:
    """Remove an item; a missing one is not an error."""
    call.scope.items.write([_drop_change(call.body)])


def _get(call: RouteCall) -> dict[str, Any] | None:
    """Return an item, or null."""
    labels = call.query.get("namespace", "").split(".")
    key = call.query.get("key", "")
    refresh_text = call.query.get("refresh_ttl", "").lower()
    if not key:
        raise Invalid(field="key", problem="is required")
    if refresh_text not in ("", "true", "1", "false", "0"):
        raise Invalid(field="refresh_ttl", problem="must be true or false")
    refresh = refresh_text not in ("false", "0") and _may_refresh(call)
    addresses = [(checked(labels, "namespace"), key)]
    (item,) = namespaces.read(call.scope, addresses, refresh=refresh)
    return None if item is None else _render_item(item)


def _search(call: RouteCall) -> dict[str, Any]:
    """Return the items below a namespace."""
    body = call.body
    canonical.check_integer(body["limit"], "limit", 0, limits.MAX_PAGE)
    hits = namespaces.search(
        call.scope,
        checked(body["namespace_prefix"], "namespace_prefix"),
        query=body["query"],
        where=body["filter"],
        limit=body["limit"],
        offset=body["offset"],
    )
    if body["refresh_ttl"] is not False and _may_refresh(call):
        namespaces.refresh(call.scope, hits)
    return {"items": [{**_render_item(item), "score": score} for item, score in hits]}


def _namespaces(call: RouteCall) -> dict[str, Any]:
    """Return the namespaces that contain items."""
    body = call.body
    canonical.check_integer(body["limit"], "limit", 0, limits.MAX_PAGE)
    labels = namespaces.namespaces(
        call.scope,
        [checked(body["prefix"] or (), "prefix")],
        [checked(body["suffix"] or (), "suffix")],
        depth=body["max_depth"],
        limit=body["limit"],
        offset=body["offset"],
    )
    return {"namespaces": labels}


def _may_refresh(call: RouteCall) -> bool:
    """Return True if a read may extend the expiry; without it, the caller still reads."""
    try:
        call.principal.require_for("read", "items", {"refresh": True}, call.scope.owner.user)
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


ROUTES = RouteSet(
    kind="items",
    subject="item",
    operations=(
        RouteOperation(
            "PUT",
            "/store/items",
            "write",
            "items_put",
            _put,
            body=_PutBody,
            status=204,
            subject=lambda body: _subject(_put_change(body)),
        ),
        RouteOperation(
            "GET",
            "/store/items",
            "read",
            "items_get",
            _get,
            query=frozenset({"namespace", "key", "refresh_ttl"}),
        ),
        RouteOperation(
            "DELETE",
            "/store/items",
            "delete",
            "items_remove",
            _delete,
            body=_ItemKey,
            status=204,
            subject=lambda body: _subject(_drop_change(body)),
        ),
        RouteOperation(
            "POST",
            "/store/items/search",
            "read",
            "items_search",
            _search,
            body=_SearchBody,
            searches=True,
        ),
        RouteOperation(
            "POST",
            "/store/namespaces",
            "read",
            "items_namespaces",
            _namespaces,
            body=_NamespacesBody,
        ),
    ),
)

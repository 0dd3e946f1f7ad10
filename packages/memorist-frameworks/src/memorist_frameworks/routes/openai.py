"""OpenAI Conversations: its client works with our base URL and one of our keys.

from openai import OpenAI

client = OpenAI(
base_url="http://127.0.0.1:7700/v1", api_key=KEY, default_headers={"X-Memorist-User": "ada"}
)
conversation = client.conversations.create(items=[{"role": "user", "content": "I am Ada."}])
client.conversations.items.list(conversation.id)
"""

from __future__ import annotations

from memorist.base.errors import Invalid
from memorist_frameworks.routes.openai_conversations import (
    MAX_PAGE_ITEMS,
    Conversations,
    Json,
    render_conversation,
)
from memorist_frameworks.routes.route_set import RouteCall, RouteFailure, RouteOperation, RouteSet

ALL = "/v1/conversations"
ONE = f"{ALL}/{{id}}"
ITEMS = f"{ONE}/items"
ITEM = f"{ITEMS}/{{item}}"
_INCLUDE = frozenset({"include", "include[]"})
"""Requests parts that OpenAI's server omits by default; ours omits none."""
_PAGE = frozenset({"after", "limit", "order"}) | _INCLUDE
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}


def _list_items(call: RouteCall) -> Json:
    limit = call.query.get("limit", "20")
    order = call.query.get("order", "desc")
    is_number = limit.isascii() and limit.isdigit() and len(limit) <= 3
    if not is_number or not 1 <= int(limit) <= MAX_PAGE_ITEMS:
        raise Invalid(
            field="limit", problem=f"must be from 1 to {MAX_PAGE_ITEMS}, not {limit[:20]!r}"
        )
    if order not in ("asc", "desc"):
        raise Invalid(field="order", problem=f"must be asc or desc, not {order[:20]!r}")
    after = call.query.get("after")
    return Conversations(call.scope).list(call.path["id"], after, int(limit), order)


_OPERATIONS = (
    RouteOperation(
        "POST",
        ALL,
        "write",
        "sessions_add",
        lambda call: Conversations(call.scope).create(
            call.body.get("items"), call.body.get("metadata")
        ),
        body=frozenset({"items", "metadata"}),
        render_created=render_conversation,
    ),
    RouteOperation(
        "GET",
        ONE,
        "read",
        "sessions_get",
        lambda call: Conversations(call.scope).retrieve(call.path["id"]),
    ),
    RouteOperation(
        "POST",
        ONE,
        "write",
        "sessions_edit",
        lambda call: Conversations(call.scope).update(call.path["id"], call.body.get("metadata")),
        body=frozenset({"metadata"}),
    ),
    RouteOperation(
        "DELETE",
        ONE,
        "delete",
        "sessions_remove",
        lambda call: Conversations(call.scope).delete(call.path["id"]),
    ),
    RouteOperation(
        "POST",
        ITEMS,
        "write",
        "messages_extend",
        lambda call: Conversations(call.scope).add(
            call.path["id"], call.body.get("items"), call.idempotency_key
        ),
        _INCLUDE,
        frozenset({"items"}),
    ),
    RouteOperation("GET", ITEMS, "read", "messages_list", _list_items, _PAGE),
    RouteOperation(
        "GET",
        ITEM,
        "read",
        "messages_get",
        lambda call: Conversations(call.scope).item(call.path["id"], call.path["item"]),
        _INCLUDE,
    ),
    RouteOperation(
        "DELETE",
        ITEM,
        "delete",
        "messages_remove",
        lambda call: Conversations(call.scope).remove(call.path["id"], call.path["item"]),
    ),
)


def _render_failure(failure: RouteFailure) -> Json:
    status = failure.status
    default = "server_error" if status >= 500 else "invalid_request_error"
    return {
        "error": {
            "message": failure.message,
            "type": _TYPES.get(status, default),
            "param": failure.details.get("field"),
            "code": _CODES.get(status),
        }
    }


ROUTES = RouteSet(
    kind="sessions",
    subject="session",
    operations=_OPERATIONS,
    render_failure=_render_failure,
    request_id_header=b"x-request-id",
    list_parameters=_INCLUDE,
)

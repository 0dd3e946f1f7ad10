"""OpenAI's Conversations over HTTP: its own client works with nothing but its `base_url` changed, and one of our keys.

from openai import OpenAI

client = OpenAI(base_url="http://127.0.0.1:7700/v1", api_key=KEY, default_headers={"X-Retain-User": "ada"})
conversation = client.conversations.create(items=[{"role": "user", "content": "I am called Ada."}])
client.conversations.items.list(conversation.id)
"""

from __future__ import annotations

from fastapi import FastAPI

from retain.base.errors import Invalid
from retain.server.authenticator import Authenticator
from retain.server.vendors.conversations import MOST_IN_A_PAGE, Conversations, conversation
from retain.server.vendors.operation import Asked, Failure, Json, Operation, Protocol

ALL = "/v1/conversations"
ONE = f"{ALL}/{{id}}"
ITEMS = f"{ONE}/items"
ITEM = f"{ITEMS}/{{item}}"
_INCLUDE = frozenset({"include", "include[]"})
"""Asks for parts that their server leaves out otherwise; ours leaves out nothing."""
_PAGE = frozenset({"after", "limit", "order"}) | _INCLUDE
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}


def _page(asked: Asked) -> Json:
    limit, order = asked.query.get("limit", "20"), asked.query.get("order", "desc")
    if (
        not limit.isascii()
        or not limit.isdigit()
        or len(limit) > 3
        or not 1 <= int(limit) <= MOST_IN_A_PAGE
    ):
        raise Invalid(
            field="limit", problem=f"must be from 1 to {MOST_IN_A_PAGE}, not {limit[:20]!r}"
        )
    if order not in ("asc", "desc"):
        raise Invalid(field="order", problem=f"must be asc or desc, not {order[:20]!r}")
    return Conversations(asked.scope).list(
        asked.path["id"], asked.query.get("after"), int(limit), order
    )


_OPERATIONS = (
    Operation(
        "POST",
        ALL,
        "write",
        "sessions_add",
        lambda a: Conversations(a.scope).create(a.body.get("items"), a.body.get("metadata")),
        body=frozenset({"items", "metadata"}),
        once=conversation,
    ),
    Operation(
        "GET", ONE, "read", "sessions_get", lambda a: Conversations(a.scope).retrieve(a.path["id"])
    ),
    Operation(
        "POST",
        ONE,
        "write",
        "sessions_edit",
        lambda a: Conversations(a.scope).update(a.path["id"], a.body.get("metadata")),
        body=frozenset({"metadata"}),
    ),
    Operation(
        "DELETE",
        ONE,
        "delete",
        "sessions_remove",
        lambda a: Conversations(a.scope).delete(a.path["id"]),
    ),
    Operation(
        "POST",
        ITEMS,
        "write",
        "messages_extend",
        lambda a: Conversations(a.scope).add(a.path["id"], a.body.get("items"), a.key),
        _INCLUDE,
        frozenset({"items"}),
    ),
    Operation("GET", ITEMS, "read", "messages_list", _page, _PAGE),
    Operation(
        "GET",
        ITEM,
        "read",
        "messages_get",
        lambda a: Conversations(a.scope).item(a.path["id"], a.path["item"]),
        _INCLUDE,
    ),
    Operation(
        "DELETE",
        ITEM,
        "delete",
        "messages_remove",
        lambda a: Conversations(a.scope).remove(a.path["id"], a.path["item"]),
    ),
)


def _told(failure: Failure) -> Json:
    status = failure.status
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    told = {
        "message": failure.message,
        "type": kind,
        "param": failure.details.get("field"),
        "code": _CODES.get(status),
    }
    return {"error": told}


_PROTOCOL = Protocol("sessions", "session", b"x-request-id", _told, lists=_INCLUDE)


def add(app: FastAPI, authenticator: Authenticator) -> None:
    """The eight routes."""
    _PROTOCOL.add(app, authenticator, _OPERATIONS)

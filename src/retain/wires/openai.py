"""OpenAI's Conversations over HTTP: its own client works with nothing but its `base_url` changed, and one of our keys.

from openai import OpenAI

client = OpenAI(base_url="http://127.0.0.1:7700/v1", api_key=KEY, default_headers={"X-Retain-User": "ada"})
conversation = client.conversations.create(items=[{"role": "user", "content": "I am called Ada."}])
client.conversations.items.list(conversation.id)
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from retain.access.attended import Act, attended
from retain.access.principal import Permission
from retain.errors import Invalid, RetainError
from retain.gate import problem
from retain.gate.door import Door
from retain.memory import Scope
from retain.rest.answers import Written, encoded
from retain.rest.operation import ONCE, parameters, parsed, read
from retain.rest.threads import in_thread
from retain.wires import route
from retain.wires.conversations import MOST_IN_A_PAGE, Answer, Conversations, Place

ALL = "/v1/conversations"
ONE = f"{ALL}/{{id}}"
ITEMS = f"{ONE}/items"
ITEM = f"{ITEMS}/{{item}}"
_INCLUDE = frozenset({"include", "include[]"})
"""Asks for parts that their server leaves out otherwise; ours leaves out nothing."""
_PAGE = frozenset({"after", "limit", "order"}) | _INCLUDE
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}


@dataclass(frozen=True)
class _Asked:
    """A request that was understood."""

    talks: Conversations
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Mapping[str, Any]
    key: str | None


@dataclass(frozen=True)
class _Operation:
    """One of their operations: what it needs, what it is called on record, what it does, and which names it knows."""

    method: str
    path: str
    needs: Permission
    name: str
    does: Callable[[_Asked], Answer]
    query: frozenset[str] = frozenset()
    body: frozenset[str] = frozenset()


def _page(asked: _Asked) -> Answer:
    limit, order = asked.query.get("limit", "20"), asked.query.get("order", "desc")
    if not limit.isascii() or not limit.isdigit() or len(limit) > 3 or not 1 <= int(limit) <= MOST_IN_A_PAGE:
        raise Invalid(field="limit", problem=f"must be from 1 to {MOST_IN_A_PAGE}, not {limit[:20]!r}")
    if order not in ("asc", "desc"):
        raise Invalid(field="order", problem=f"must be asc or desc, not {order[:20]!r}")
    return asked.talks.list(asked.path["id"], asked.query.get("after"), int(limit), order)


_OPERATIONS = (
    _Operation(
        "POST",
        ALL,
        "write",
        "sessions_add",
        lambda a: a.talks.create(a.body.get("items"), a.body.get("metadata")),
        body=frozenset({"items", "metadata"}),
    ),
    _Operation("GET", ONE, "read", "sessions_get", lambda a: a.talks.retrieve(a.path["id"])),
    _Operation(
        "POST",
        ONE,
        "write",
        "sessions_edit",
        lambda a: a.talks.update(a.path["id"], a.body.get("metadata")),
        body=frozenset({"metadata"}),
    ),
    _Operation("DELETE", ONE, "delete", "sessions_remove", lambda a: a.talks.delete(a.path["id"])),
    _Operation(
        "POST",
        ITEMS,
        "write",
        "messages_extend",
        lambda a: a.talks.add(a.path["id"], a.body.get("items"), a.key),
        _INCLUDE,
        frozenset({"items"}),
    ),
    _Operation("GET", ITEMS, "read", "messages_list", _page, _PAGE),
    _Operation("GET", ITEM, "read", "messages_get", lambda a: a.talks.item(a.path["id"], a.path["item"]), _INCLUDE),
    _Operation("DELETE", ITEM, "delete", "messages_remove", lambda a: a.talks.remove(a.path["id"], a.path["item"])),
)


def add(app: FastAPI, door: Door) -> None:
    """The eight routes."""
    known: dict[tuple[str, str, str], Place] = {}
    for operation in _OPERATIONS:
        route.add(app, operation.method, operation.path, operation.needs, _answer(door, operation, known))


def _answer(
    door: Door, operation: _Operation, known: dict[tuple[str, str, str], Place]
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        headers = [(b"x-request-id", problem.request_id(request).encode())]
        try:
            found = await in_thread(operation.does, await _asked(door, operation, known, request))
        except problem.EXPECTED as error:
            return _failed(error, request, headers)
        return Written(encoded(json.dumps(found, ensure_ascii=False, separators=(",", ":"))), 200, headers)

    return answer


async def _asked(door: Door, operation: _Operation, known: dict[tuple[str, str, str], Place], request: Request) -> _Asked:
    """Who asks, and for what; nobody learns what is wrong with a request before it is known who sent it."""
    principal = await door.admit(request, operation.needs)
    scope = door.scope(request, principal, None, None)
    headers: dict[bytes, bytes] = dict(request.scope["headers"])
    query = parameters(request, _INCLUDE)
    body = parsed(await read(request, headers)) if request.method == "POST" else {}
    for said, names in ((query, operation.query), (body, operation.body)):
        if unknown := next((name for name in said if name not in names), None):
            raise Invalid(field=unknown, problem="is not known here; check its name")
    path: dict[str, str] = request.scope["path_params"]
    if operation.needs != "read":
        subject = " ".join(["session", *path.values()])
        act = Act(operation.name, request_id=problem.request_id(request), subject=subject)
        scope = Scope(attended(scope._home, scope.who, principal, act), scope.who)
    key = headers[ONCE].decode("latin-1") if ONCE in headers else None
    return _Asked(Conversations(scope, known), path, query, body, key)


def _failed(error: Exception, request: Request, headers: list[tuple[bytes, bytes]]) -> Response:
    """A failure in their shape. A conflict is told not to be tried again: their client would, and nothing would change."""
    status, message, field = 400, str(error), None
    if isinstance(error, RetainError):
        status = 400 if error.status == 422 else error.status
        message, field = problem.told(error, problem.request_id(request)), error.details.get("field")
    elif isinstance(error, HTTPException):
        status, message = error.status_code, str(error.detail)
    if status == 409:
        headers.append((b"x-should-retry", b"false"))
    if status in (429, 503):
        headers.append((b"retry-after", str(problem.RETRY_SECONDS).encode()))
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    told = {"message": message, "type": kind, "param": field, "code": _CODES.get(status)}
    return Written(encoded(json.dumps({"error": told}, ensure_ascii=False)), status, headers)

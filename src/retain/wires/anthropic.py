"""Anthropic's memory stores over HTTP: its own client works with nothing but its `base_url` changed, and one of our keys.

from anthropic import Anthropic

client = Anthropic(base_url="http://127.0.0.1:7700", api_key=KEY, default_headers={"X-Retain-User": "ada"})
store = client.beta.memory_stores.create(name="Notes")
client.beta.memory_stores.memories.create(store.id, path="/name.md", content="The user is called Ada.")
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
from retain.rest.operation import parameters, parsed, read
from retain.rest.threads import in_thread
from retain.wires import route
from retain.wires.memory_stores import Stores

STORES = "/v1/memory_stores"
STORE = f"{STORES}/{{store}}"
MEMORIES, VERSIONS = f"{STORE}/memories", f"{STORE}/memory_versions"
_VIEW = frozenset({"view"})
_PAGES = frozenset({"limit", "page"})
_MADE = frozenset({"created_at[gte]", "created_at[lte]"})
_AUTHORS = frozenset({"api_key_id", "service_account_id", "session_id"})
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


@dataclass(frozen=True)
class _Asked:
    """A request that was understood."""

    stores: Stores
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Mapping[str, Any]


@dataclass(frozen=True)
class _Operation:
    """One of their operations: what it needs, what it is called on record, which names it knows, and what it does."""

    method: str
    path: str
    needs: Permission
    name: str
    does: Callable[[_Asked], dict[str, Any]]
    query: frozenset[str] = frozenset()
    body: frozenset[str] = frozenset()


def _at(asked: _Asked) -> tuple[str, str]:
    return asked.path["store"], asked.path["id"]


_DESCRIBED = frozenset({"name", "description", "metadata"})
_OPERATIONS = (
    _Operation("POST", STORES, "write", "create", lambda a: a.stores.create(a.body), body=_DESCRIBED),
    _Operation(
        "GET", STORES, "read", "list", lambda a: a.stores.list(a.query), _PAGES | _MADE | frozenset({"include_archived"})
    ),
    _Operation("GET", STORE, "read", "retrieve", lambda a: a.stores.retrieve(a.path["store"])),
    _Operation("POST", STORE, "write", "update", lambda a: a.stores.update(a.path["store"], a.body), body=_DESCRIBED),
    _Operation("DELETE", STORE, "delete", "delete", lambda a: a.stores.delete(a.path["store"])),
    _Operation("POST", f"{STORE}/archive", "write", "archive", lambda a: a.stores.archive(a.path["store"])),
    _Operation(
        "POST",
        MEMORIES,
        "write",
        "create_memory",
        lambda a: a.stores.create_memory(a.path["store"], a.body, a.query),
        _VIEW,
        frozenset({"content", "path"}),
    ),
    _Operation(
        "GET",
        MEMORIES,
        "read",
        "list_memories",
        lambda a: a.stores.list_memories(a.path["store"], a.query),
        _VIEW | _PAGES | frozenset({"depth", "path_prefix"}),
    ),
    _Operation(
        "GET",
        f"{MEMORIES}/{{id}}",
        "read",
        "retrieve_memory",
        lambda a: a.stores.retrieve_memory(*_at(a), a.query),
        _VIEW,
    ),
    _Operation(
        "POST",
        f"{MEMORIES}/{{id}}",
        "write",
        "update_memory",
        lambda a: a.stores.update_memory(*_at(a), a.body, a.query),
        _VIEW,
        frozenset({"content", "path", "precondition"}),
    ),
    _Operation(
        "DELETE",
        f"{MEMORIES}/{{id}}",
        "delete",
        "delete_memory",
        lambda a: a.stores.delete_memory(*_at(a), a.query),
        frozenset({"expected_content_sha256"}),
    ),
    _Operation(
        "GET",
        VERSIONS,
        "read",
        "list_versions",
        lambda a: a.stores.list_versions(a.path["store"], a.query),
        _VIEW | _PAGES | _MADE | _AUTHORS | frozenset({"memory_id", "operation"}),
    ),
    _Operation(
        "GET",
        f"{VERSIONS}/{{id}}",
        "read",
        "retrieve_version",
        lambda a: a.stores.retrieve_version(*_at(a), a.query),
        _VIEW,
    ),
    _Operation("POST", f"{VERSIONS}/{{id}}/redact", "delete", "redact_version", lambda a: a.stores.redact_version(*_at(a))),
)


def add(app: FastAPI, door: Door) -> None:
    """The fourteen routes."""
    for operation in _OPERATIONS:
        route.add(app, operation.method, operation.path, operation.needs, _answer(door, operation))


def _answer(door: Door, operation: _Operation) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        headers = [(b"request-id", problem.request_id(request).encode())]
        try:
            found = await in_thread(operation.does, await _asked(door, operation, request))
        except problem.EXPECTED as error:
            return _failed(error, request, headers)
        return Written(encoded(json.dumps(found, ensure_ascii=False, separators=(",", ":"))), 200, headers)

    return answer


async def _asked(door: Door, operation: _Operation, request: Request) -> _Asked:
    """Who asks, and for what; nobody learns what is wrong with a request before it is known who sent it."""
    principal = await door.admit(request, operation.needs)
    scope = door.scope(request, principal, None, None)
    query = {name: value for name, value in parameters(request).items() if name != "beta"}
    body = parsed(await read(request, dict(request.scope["headers"]))) if request.method == "POST" else {}
    for said, known in ((query, operation.query), (body, operation.body)):
        if unknown := next((name for name in said if name not in known), None):
            raise Invalid(field=unknown, problem="is not known here; check its name")
    path: dict[str, str] = request.scope["path_params"]
    if operation.needs != "read":
        if scope.who.user is None:
            principal.require_all("change what the whole tenant shares")
        subject = " ".join(["memory_stores", *path.values()])
        act = Act(f"memory_stores_{operation.name}", request_id=problem.request_id(request), subject=subject)
        scope = Scope(attended(scope._home, scope.who, principal, act), scope.who)
    return _Asked(Stores(scope, principal.name), path, query, body)


def _failed(error: Exception, request: Request, headers: list[tuple[bytes, bytes]]) -> Response:
    """A failure in their shape. A conflict is told not to be tried again: their client would, and nothing would change."""
    status, message, details = 400, str(error), {}
    if isinstance(error, RetainError):
        status = 400 if isinstance(error, Invalid) else error.status
        message, details = problem.told(error, problem.request_id(request)), error.details
    elif isinstance(error, HTTPException):
        status, message = error.status_code, str(error.detail)
    kind = details.get("type") or _TYPES.get(status, "overloaded_error" if status == 503 else "api_error")
    if status == 409:
        headers.append((b"x-should-retry", b"false"))
    if status in (429, 503):
        headers.append((b"retry-after", str(problem.RETRY_SECONDS).encode()))
    told = {"type": kind, "message": message, **details.get("told", {})}
    body = {"type": "error", "error": told, "request_id": problem.request_id(request)}
    return Written(encoded(json.dumps(body, ensure_ascii=False)), status, headers)

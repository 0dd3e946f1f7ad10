"""Anthropic's memory stores over HTTP: its own client works with nothing but its `base_url` changed, and one of our keys.

from anthropic import Anthropic

client = Anthropic(base_url="http://127.0.0.1:7700", api_key=KEY, default_headers={"X-Retain-User": "ada"})
store = client.beta.memory_stores.create(name="Notes")
client.beta.memory_stores.memories.create(store.id, path="/name.md", content="The user is called Ada.")
"""

from __future__ import annotations

from fastapi import FastAPI

from retain.server.authenticator import Authenticator
from retain.server.vendors.memory_shapes import Json
from retain.server.vendors.memory_stores import Stores
from retain.server.vendors.operation import Asked, Failure, Operation, Protocol

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


def _at(asked: Asked) -> tuple[str, str]:
    return asked.path["store"], asked.path["id"]


def _stores(asked: Asked) -> Stores:
    return Stores(asked.scope, asked.principal.name)


def _update_memory(asked: Asked) -> Json:
    if asked.query.get("view") == "full":  # it tells the content, which need not be what was sent
        asked.principal.require("read")
    return _stores(asked).update_memory(*_at(asked), asked.body, asked.query)


_DESCRIBED = frozenset({"name", "description", "metadata"})
_OPERATIONS = (
    Operation(
        "POST",
        STORES,
        "write",
        "memory_stores_create",
        lambda a: _stores(a).create(a.body),
        body=_DESCRIBED,
    ),
    Operation(
        "GET",
        STORES,
        "read",
        "memory_stores_list",
        lambda a: _stores(a).list(a.query),
        _PAGES | _MADE | frozenset({"include_archived"}),
    ),
    Operation(
        "GET",
        STORE,
        "read",
        "memory_stores_retrieve",
        lambda a: _stores(a).retrieve(a.path["store"]),
    ),
    Operation(
        "POST",
        STORE,
        "write",
        "memory_stores_update",
        lambda a: _stores(a).update(a.path["store"], a.body),
        body=_DESCRIBED,
    ),
    Operation(
        "DELETE",
        STORE,
        "delete",
        "memory_stores_delete",
        lambda a: _stores(a).delete(a.path["store"]),
    ),
    Operation(
        "POST",
        f"{STORE}/archive",
        "write",
        "memory_stores_archive",
        lambda a: _stores(a).archive(a.path["store"]),
    ),
    Operation(
        "POST",
        MEMORIES,
        "write",
        "memory_stores_create_memory",
        lambda a: _stores(a).create_memory(a.path["store"], a.body, a.query),
        _VIEW,
        frozenset({"content", "path"}),
    ),
    Operation(
        "GET",
        MEMORIES,
        "read",
        "memory_stores_list_memories",
        lambda a: _stores(a).list_memories(a.path["store"], a.query),
        _VIEW | _PAGES | frozenset({"depth", "path_prefix"}),
    ),
    Operation(
        "GET",
        f"{MEMORIES}/{{id}}",
        "read",
        "memory_stores_retrieve_memory",
        lambda a: _stores(a).retrieve_memory(*_at(a), a.query),
        _VIEW,
    ),
    Operation(
        "POST",
        f"{MEMORIES}/{{id}}",
        "write",
        "memory_stores_update_memory",
        _update_memory,
        _VIEW,
        frozenset({"content", "path", "precondition"}),
    ),
    Operation(
        "DELETE",
        f"{MEMORIES}/{{id}}",
        "delete",
        "memory_stores_delete_memory",
        lambda a: _stores(a).delete_memory(*_at(a), a.query),
        frozenset({"expected_content_sha256"}),
    ),
    Operation(
        "GET",
        VERSIONS,
        "read",
        "memory_stores_list_versions",
        lambda a: _stores(a).list_versions(a.path["store"], a.query),
        _VIEW | _PAGES | _MADE | _AUTHORS | frozenset({"memory_id", "operation"}),
    ),
    Operation(
        "GET",
        f"{VERSIONS}/{{id}}",
        "read",
        "memory_stores_retrieve_version",
        lambda a: _stores(a).retrieve_version(*_at(a), a.query),
        _VIEW,
    ),
    Operation(
        "POST",
        f"{VERSIONS}/{{id}}/redact",
        "delete",
        "memory_stores_redact_version",
        lambda a: _stores(a).redact_version(*_at(a)),
    ),
)


def _told(failure: Failure) -> Json:
    status, details = failure.status, failure.details
    kind = details.get("type") or _TYPES.get(
        status, "overloaded_error" if status == 503 else "api_error"
    )
    told = {"type": kind, "message": failure.message, **details.get("told", {})}
    return {"type": "error", "error": told, "request_id": failure.request_id}


_PROTOCOL = Protocol(
    "items",
    "memory_stores",
    b"request-id",
    _told,
    ignored=frozenset({"beta"}),
    fields=(("after", "page"), ("place", "path"), ("key", "path")),
)


def add(app: FastAPI, authenticator: Authenticator) -> None:
    """The fourteen routes."""
    _PROTOCOL.add(app, authenticator, _OPERATIONS)

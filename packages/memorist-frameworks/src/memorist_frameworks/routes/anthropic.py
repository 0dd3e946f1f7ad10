"""Anthropic's memory stores: its client works with our base URL and one of our keys.

from anthropic import Anthropic

client = Anthropic(
base_url="http://127.0.0.1:7700", api_key=KEY, default_headers={"X-Memorist-User": "ada"}
)
store = client.beta.memory_stores.create(name="Notes")
client.beta.memory_stores.memories.create(store.id, path="/name.md", content="I am Ada.")
"""

from __future__ import annotations

from memorist_frameworks.routes.anthropic_formats import Json
from memorist_frameworks.routes.anthropic_stores import Stores
from memorist_frameworks.routes.route_set import RouteCall, RouteFailure, RouteOperation, RouteSet

STORES = "/v1/memory_stores"
STORE = f"{STORES}/{{store}}"
MEMORIES = f"{STORE}/memories"
VERSIONS = f"{STORE}/memory_versions"
_VIEW = frozenset({"view"})
_PAGING = frozenset({"limit", "page"})
_CREATED = frozenset({"created_at[gte]", "created_at[lte]"})
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


def _ids(call: RouteCall) -> tuple[str, str]:
    return call.path["store"], call.path["id"]


def _stores(call: RouteCall) -> Stores:
    return Stores(call.scope, call.principal.name)


def _update_memory(call: RouteCall) -> Json:
    if call.query.get("view") == "full":  # the answer may contain more than the caller sent
        call.principal.require("read")
    return _stores(call).update_memory(*_ids(call), call.body, call.query)


_DESCRIBED = frozenset({"name", "description", "metadata"})
_OPERATIONS = (
    RouteOperation(
        "POST",
        STORES,
        "write",
        "memory_stores_create",
        lambda call: _stores(call).create(call.body),
        body=_DESCRIBED,
    ),
    RouteOperation(
        "GET",
        STORES,
        "read",
        "memory_stores_list",
        lambda call: _stores(call).list(call.query),
        _PAGING | _CREATED | frozenset({"include_archived"}),
    ),
    RouteOperation(
        "GET",
        STORE,
        "read",
        "memory_stores_retrieve",
        lambda call: _stores(call).retrieve(call.path["store"]),
    ),
    RouteOperation(
        "POST",
        STORE,
        "write",
        "memory_stores_update",
        lambda call: _stores(call).update(call.path["store"], call.body),
        body=_DESCRIBED,
    ),
    RouteOperation(
        "DELETE",
        STORE,
        "delete",
        "memory_stores_delete",
        lambda call: _stores(call).delete(call.path["store"]),
    ),
    RouteOperation(
        "POST",
        f"{STORE}/archive",
        "write",
        "memory_stores_archive",
        lambda call: _stores(call).archive(call.path["store"]),
    ),
    RouteOperation(
        "POST",
        MEMORIES,
        "write",
        "memory_stores_create_memory",
        lambda call: _stores(call).create_memory(call.path["store"], call.body, call.query),
        _VIEW,
        frozenset({"content", "path"}),
    ),
    RouteOperation(
        "GET",
        MEMORIES,
        "read",
        "memory_stores_list_memories",
        lambda call: _stores(call).list_memories(call.path["store"], call.query),
        _VIEW | _PAGING | frozenset({"depth", "path_prefix"}),
    ),
    RouteOperation(
        "GET",
        f"{MEMORIES}/{{id}}",
        "read",
        "memory_stores_retrieve_memory",
        lambda call: _stores(call).retrieve_memory(*_ids(call), call.query),
        _VIEW,
    ),
    RouteOperation(
        "POST",
        f"{MEMORIES}/{{id}}",
        "write",
        "memory_stores_update_memory",
        _update_memory,
        _VIEW,
        frozenset({"content", "path", "precondition"}),
    ),
    RouteOperation(
        "DELETE",
        f"{MEMORIES}/{{id}}",
        "delete",
        "memory_stores_delete_memory",
        lambda call: _stores(call).delete_memory(*_ids(call), call.query),
        frozenset({"expected_content_sha256"}),
    ),
    RouteOperation(
        "GET",
        VERSIONS,
        "read",
        "memory_stores_list_versions",
        lambda call: _stores(call).list_versions(call.path["store"], call.query),
        _VIEW | _PAGING | _CREATED | _AUTHORS | frozenset({"memory_id", "operation"}),
    ),
    RouteOperation(
        "GET",
        f"{VERSIONS}/{{id}}",
        "read",
        "memory_stores_retrieve_version",
        lambda call: _stores(call).retrieve_version(*_ids(call), call.query),
        _VIEW,
    ),
    RouteOperation(
        "POST",
        f"{VERSIONS}/{{id}}/redact",
        "delete",
        "memory_stores_redact_version",
        lambda call: _stores(call).redact_version(*_ids(call)),
    ),
)


def _render_failure(failure: RouteFailure) -> Json:
    details = failure.details
    default = "overloaded_error" if failure.status == 503 else "api_error"
    error = {
        "type": details.get("type") or _TYPES.get(failure.status, default),
        "message": failure.message,
        **details.get("fields", {}),
    }
    return {"type": "error", "error": error, "request_id": failure.request_id}


ROUTES = RouteSet(
    kind="items",
    subject="memory_stores",
    operations=_OPERATIONS,
    render_failure=_render_failure,
    request_id_header=b"request-id",
    ignored_parameters=frozenset({"beta"}),
    field_names={"after": "page", "place": "path", "key": "path"},
)

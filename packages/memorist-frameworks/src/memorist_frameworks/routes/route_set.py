"""A set of routes: the operations of one vendor's protocol, and the shape of its errors.

Authentication, parsing, threads, audit and idempotency are the same for all sets, and are done here
with the parts of the server. The vendor's own contract describes the routes, not the OpenAPI document.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from memorist.admin.audited_writer import AuditedAction, acting_as, respond_once
from memorist.admin.principal import Permission, Principal
from memorist.admin.stored_responses import IdempotentRequest, StoredResponse
from memorist.api import problem
from memorist.api.responses import Written, encoded
from memorist.api.route import ApiRoute
from memorist.base import limits
from memorist.base.error_text import error_text
from memorist.base.errors import Invalid, MemoristError
from memorist.kinds.kind import Services
from memorist.memory import Scope
from memorist.search.service_embedder import ServiceEmbedder
from memorist.server.http.authentication import RequestAuthenticator
from memorist.server.http.routing import parse_json, path_arguments, read_body, read_query
from memorist.server.http.thread_pool import in_thread, model_threads
from memorist.server.http.verb_handler import IDEMPOTENCY_KEY

Json = dict[str, Any]


@dataclass(frozen=True)
class RouteCall:
    """A parsed and authorized request."""

    scope: Scope  # changes in it are audited
    principal: Principal
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Mapping[str, Any]
    idempotency_key: str | None
    action: AuditedAction


@dataclass(frozen=True)
class RouteOperation:
    """One operation of a protocol."""

    method: str
    path: str
    permission: Permission
    name: str  # in the audit log
    run: Callable[[RouteCall], Any]  # returns the JSON of the response
    query: frozenset[str] = frozenset()  # known parameters
    body: frozenset[str] | type[BaseModel] = frozenset()  # known fields, or a model of them
    status: int = 200  # 204: the response has no body
    searches: bool = False  # embeds a query, maybe by calling a service
    # Returns what changes, for the audit log; by default the names in the path.
    subject: Callable[[Mapping[str, Any]], str] | None = None
    # Renders the created record; the operation then honours idempotency keys.
    render_created: Callable[[Any], Json] | None = None


@dataclass(frozen=True)
class RouteFailure:
    """A failed request, before the protocol renders it."""

    status: int
    message: str
    details: Mapping[str, Any]
    request_id: str


@dataclass(frozen=True, kw_only=True)
class RouteSet:
    """The operations of a protocol, and what they have in common."""

    kind: str  # the kind whose permissions apply
    subject: str  # in the audit log
    operations: tuple[RouteOperation, ...]
    # Renders the body of an error response; without it, errors are `application/problem+json`.
    render_failure: Callable[[RouteFailure], Json] | None = None
    request_id_header: bytes | None = None
    list_parameters: frozenset[str] = frozenset()  # may be given more than once
    ignored_parameters: frozenset[str] = frozenset()
    field_names: Mapping[str, str] = field(default_factory=dict)  # our names to the protocol's

    def routes(self, authenticator: RequestAuthenticator) -> list[ApiRoute]:
        """Return the routes of the operations."""
        return [
            ApiRoute(
                method=operation.method,
                path=operation.path,
                permission=operation.permission,
                handle=OperationHandler(authenticator, self, operation).handle,
            )
            for operation in self.operations
        ]


class OperationHandler:
    """Handles the requests of one operation."""

    def __init__(
        self, authenticator: RequestAuthenticator, route_set: RouteSet, operation: RouteOperation
    ) -> None:
        self._authenticator = authenticator
        self._set = route_set
        self._operation = operation
        self._in_thread = in_thread
        embedder = authenticator.memory.services.embedder
        if operation.searches and isinstance(embedder, ServiceEmbedder):
            self._in_thread = model_threads(max(1, limits.MAX_IN_FLIGHT // 2))

    async def handle(self, request: Request) -> Response:
        """Respond to one request."""
        header = self._set.request_id_header
        headers = [(header, problem.request_id(request).encode())] if header else []
        try:
            call = await self._parse(request)
            body = await self._in_thread(_run, self._operation, call)
        except problem.EXPECTED as error:
            if self._set.render_failure is None:
                raise
            return self._error_response(error, request, headers, self._set.render_failure)
        if self._operation.status == 204:
            return Response(status_code=204)
        return Written(encoded(body), self._operation.status, headers)

    async def _parse(self, request: Request) -> RouteCall:
        """Authorize and parse a request. Authorization comes first: it must not leak details."""
        operation = self._operation
        principal = await self._authenticator.authorize(
            request, self._operation.permission, vendor=True
        )
        scope = self._authenticator.scope(request, principal, None, None)
        owner = scope.owner
        principal.require_for(self._operation.permission, self._set.kind, {}, owner.user)
        headers: dict[bytes, bytes] = dict(request.scope["headers"])
        query = {
            name: value
            for name, value in read_query(request, self._set.list_parameters).items()
            if name not in self._set.ignored_parameters
        }
        has_body = bool(operation.body) or request.method == "POST"
        raw_body = await read_body(request, headers) if has_body else b""
        body = parse_json(raw_body)
        _reject_unknown(query, operation.query)
        if isinstance(operation.body, frozenset):
            _reject_unknown(body, operation.body)
        else:
            body = dict(operation.body.model_validate(body))
        path: dict[str, str] = path_arguments(request)
        key = headers[IDEMPOTENCY_KEY].decode("latin-1") if IDEMPOTENCY_KEY in headers else None
        subject = operation.subject(body) if operation.subject else " ".join(path.values())
        action = AuditedAction(
            operation.name,
            request_id=problem.request_id(request),
            subject=f"{self._set.subject} {subject}".rstrip(),
        )
        if operation.render_created and key is not None:
            idempotency = IdempotentRequest.of(
                principal.name,
                operation.name,
                key,
                request.scope["path"],
                raw_body,
                owner.user or "",
                owner.agent or "",
                user=owner.user,
            )
            action = replace(action, idempotency=idempotency)
        elif self._operation.permission != "read":
            scope = Scope(acting_as(scope.services, principal, action), owner)
        return RouteCall(scope, principal, path, query, body, key, action)

    def _error_response(
        self,
        error: Exception,
        request: Request,
        headers: list[tuple[bytes, bytes]],
        render: Callable[[RouteFailure], Json],
    ) -> Response:
        """Render an error in the protocol's form."""
        id = problem.request_id(request)
        failure = RouteFailure(400, str(error), {}, id)
        if isinstance(error, MemoristError):
            name = self._set.field_names.get(error.details.get("field", ""))
            if name is not None:
                error = type(error)(**error.details | {"field": name})
            status = 400 if isinstance(error, Invalid) or error.status == 422 else error.status
            failure = RouteFailure(status, error_text(error, id), error.details, id)
        elif isinstance(error, HTTPException):
            failure = RouteFailure(error.status_code, str(error.detail), {}, id)
        if failure.status == 409:  # the vendor's client would retry, to no effect
            headers.append((b"x-should-retry", b"false"))
        if failure.status in (429, 503):
            headers.append((b"retry-after", str(problem.RETRY_SECONDS).encode()))
        body = json.dumps(render(failure), ensure_ascii=False)
        return Written(encoded(body), failure.status, headers)


def _reject_unknown(values: Mapping[str, Any], known: frozenset[str]) -> None:
    for name in values:
        if name not in known:
            raise Invalid(field=name, problem="is unknown; check its name")


def _run(operation: RouteOperation, call: RouteCall) -> str:
    """Return the response body, or the stored one of an earlier request with the same key."""
    services = call.scope.services
    owner = call.scope.owner

    def respond(result: Any) -> StoredResponse:
        rendered = operation.render_created(result) if operation.render_created else result
        return StoredResponse(200, json.dumps(rendered, ensure_ascii=False, separators=(",", ":")))

    def perform(call: RouteCall) -> Any:
        return services.observer.call(operation.name, owner, operation.run, call)

    if call.action.idempotency is None:
        return respond(perform(call)).body

    def perform_with(services: Services) -> Any:
        return perform(replace(call, scope=Scope(services, owner)))

    return respond_once(services, call.principal, call.action, perform_with, respond).body

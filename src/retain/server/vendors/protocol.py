"""Operations of vendor protocols: authentication, parsing, audit, idempotency and errors.

A protocol declares its names and the shape of its errors; everything else is the same for all.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from retain.api import problem
from retain.api.responses import Written, encoded
from retain.auth.audited_writer import Action, acting_as, respond_once
from retain.auth.idempotency import IdempotentRequest, StoredResponse
from retain.auth.principal import Permission, Principal
from retain.base.error_text import error_text
from retain.base.errors import Invalid, RetainError
from retain.kinds.kind import Services
from retain.memory import Scope
from retain.server.handler import IDEMPOTENCY_KEY, path_arguments
from retain.server.parsing import parse_json, read_body, read_query
from retain.server.request_authenticator import RequestAuthenticator
from retain.server.thread_pool import in_thread

Json = dict[str, Any]
Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Call:
    """A parsed and authorized request."""

    scope: Scope  # changes in it are audited
    principal: Principal
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Mapping[str, Any]
    idempotency_key: str | None
    action: Action


@dataclass(frozen=True)
class VendorRoute:
    """A route of a vendor protocol; its handler authenticates and renders errors itself."""

    method: str
    path: str
    permission: Permission
    handler: Handler

    async def handle(self, request: Request) -> Response:
        """Respond to one request."""
        return await self.handler(request)


@dataclass(frozen=True)
class Operation:
    """One operation of a protocol."""

    method: str
    path: str
    permission: Permission
    name: str  # in the audit log
    run: Callable[[Call], Any]
    query: frozenset[str] = frozenset()  # known parameters
    body: frozenset[str] = frozenset()  # known fields
    # Renders the created record; the operation then honours idempotency keys.
    render_created: Callable[[Any], Json] | None = None


@dataclass(frozen=True)
class Failure:
    """A failed request, before the protocol renders it."""

    status: int
    message: str
    details: Mapping[str, Any]
    request_id: str


@dataclass(frozen=True)
class Protocol:
    """The common properties of a protocol's operations."""

    kind: str  # the kind whose permissions apply
    subject: str  # in the audit log
    request_id_header: bytes
    render_failure: Callable[[Failure], Json]
    list_parameters: frozenset[str] = frozenset()  # may be given more than once
    ignored_parameters: frozenset[str] = frozenset()
    field_names: Mapping[str, str] = field(default_factory=dict)  # our names to the protocol's

    def add(
        self, app: Starlette, authenticator: RequestAuthenticator, operations: Sequence[Operation]
    ) -> None:
        """Add a route for each operation."""
        for operation in operations:
            handler = self._handler(authenticator, operation)
            add_route(app, operation.method, operation.path, operation.permission, handler)

    def _handler(self, authenticator: RequestAuthenticator, operation: Operation) -> Handler:
        async def handle(request: Request) -> Response:
            headers = [(self.request_id_header, problem.request_id(request).encode())]
            try:
                call = await self._parse(authenticator, operation, request)
                response = await in_thread(_run, operation, call)
            except problem.EXPECTED as error:
                return self._error_response(error, request, headers)
            return Written(encoded(response), 200, headers)

        return handle

    async def _parse(
        self, authenticator: RequestAuthenticator, operation: Operation, request: Request
    ) -> Call:
        """Authorize and parse a request. Authorization comes first: it must not leak details."""
        principal = await authenticator.authorize(request, operation.permission, vendor=True)
        scope = authenticator.scope(request, principal, None, None)
        owner = scope.owner
        principal.require_for(operation.permission, self.kind, {}, owner.user)
        headers: dict[bytes, bytes] = dict(request.scope["headers"])
        query = {
            name: value
            for name, value in read_query(request, self.list_parameters).items()
            if name not in self.ignored_parameters
        }
        raw_body = await read_body(request, headers) if request.method == "POST" else b""
        body = parse_json(raw_body)
        _reject_unknown(query, operation.query)
        _reject_unknown(body, operation.body)
        path: dict[str, str] = path_arguments(request)
        key = headers[IDEMPOTENCY_KEY].decode("latin-1") if IDEMPOTENCY_KEY in headers else None
        action = Action(
            operation.name,
            request_id=problem.request_id(request),
            subject=" ".join([self.subject, *path.values()]),
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
        elif operation.permission != "read":
            scope = Scope(acting_as(scope.services, principal, action), owner)
        return Call(scope, principal, path, query, body, key, action)

    def _error_response(
        self, error: Exception, request: Request, headers: list[tuple[bytes, bytes]]
    ) -> Response:
        """Render an error in the protocol's form."""
        id = problem.request_id(request)
        failure = Failure(400, str(error), {}, id)
        if isinstance(error, RetainError):
            name = self.field_names.get(error.details.get("field", ""))
            if name is not None:
                error = type(error)(**error.details | {"field": name})
            status = 400 if isinstance(error, Invalid) or error.status == 422 else error.status
            failure = Failure(status, error_text(error, id), error.details, id)
        elif isinstance(error, HTTPException):
            failure = Failure(error.status_code, str(error.detail), {}, id)
        if failure.status == 409:  # the vendor's client would retry, to no effect
            headers.append((b"x-should-retry", b"false"))
        if failure.status in (429, 503):
            headers.append((b"retry-after", str(problem.RETRY_SECONDS).encode()))
        body = json.dumps(self.render_failure(failure), ensure_ascii=False)
        return Written(encoded(body), failure.status, headers)


def add_route(
    app: Starlette, method: str, path: str, permission: Permission, handler: Handler
) -> None:
    """Add a route that is not in our OpenAPI document: the vendor's contract describes it."""
    app.state.routes.append(VendorRoute(method, path, permission, handler))


def _reject_unknown(values: Mapping[str, Any], known: frozenset[str]) -> None:
    for name in values:
        if name not in known:
            raise Invalid(field=name, problem="is unknown; check its name")


def _run(operation: Operation, call: Call) -> str:
    """Return the response body, or the stored one of an earlier request with the same key."""
    services = call.scope.services
    owner = call.scope.owner

    def respond(result: Any) -> StoredResponse:
        rendered = operation.render_created(result) if operation.render_created else result
        return StoredResponse(200, json.dumps(rendered, ensure_ascii=False, separators=(",", ":")))

    def perform(call: Call) -> Any:
        return services.observer.call(operation.name, owner, operation.run, call)

    if call.action.idempotency is None:
        return respond(perform(call)).body

    def perform_with(services: Services) -> Any:
        return perform(replace(call, scope=Scope(services, owner)))

    return respond_once(services, call.principal, call.action, perform_with, respond).body

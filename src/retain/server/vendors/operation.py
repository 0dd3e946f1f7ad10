"""An operation of somebody else's protocol: who asks, what is known, what is put on record, and how it fails.

A protocol says what it calls things, and the shape of its failures; the rest is the same for all of them.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from retain.api import problem
from retain.api.responses import Written, encoded
from retain.auth.audit import Action, acting_as, respond_once
from retain.auth.idempotency import IdempotentRequest, StoredResponse
from retain.auth.principal import Permission, Principal
from retain.base.errors import Invalid, RetainError
from retain.kinds.kind import Services
from retain.memory import Scope
from retain.server.authenticator import Authenticator
from retain.server.handler import IDEMPOTENCY_KEY
from retain.server.parsing import parse_json, read_body, read_query
from retain.server.thread_pool import in_thread
from retain.server.vendors import route

Json = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """A request that was understood; what is done in its scope is on record, where it changes something."""

    scope: Scope
    principal: Principal
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Mapping[str, Any]
    key: str | None
    """The key under which a request has its effect once."""
    act: Action


@dataclass(frozen=True)
class Operation:
    """One operation: what it needs, what it is called on record, what it does, and which names it knows."""

    method: str
    path: str
    needs: Permission
    name: str
    does: Callable[[Asked], Any]
    query: frozenset[str] = frozenset()
    body: frozenset[str] = frozenset()
    once: Callable[[Any], Json] | None = None
    """How the record is told that it makes, where a request with a key is answered once."""


@dataclass(frozen=True)
class Failure:
    """Why nothing was done."""

    status: int
    message: str
    details: Mapping[str, Any]
    request_id: str


@dataclass(frozen=True)
class Protocol:
    """What the operations of a protocol have in common."""

    kind: str
    """Which kind of ours it is about, for who may change it."""
    subject: str
    id_header: bytes
    told: Callable[[Failure], Json]
    """A failure in their shape."""
    lists: frozenset[str] = frozenset()
    """What a query may say more than once."""
    ignored: frozenset[str] = frozenset()
    fields: Sequence[tuple[str, str]] = ()
    """What they call what we call otherwise."""

    def add(
        self, app: FastAPI, authenticator: Authenticator, operations: Sequence[Operation]
    ) -> None:
        """The routes."""
        for one in operations:
            route.add(app, one.method, one.path, one.needs, self._answer(authenticator, one))

    def _answer(
        self, authenticator: Authenticator, operation: Operation
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            headers = [(self.id_header, problem.request_id(request).encode())]
            try:
                told = await in_thread(
                    _done, operation, await self._asked(authenticator, operation, request)
                )
            except problem.EXPECTED as error:
                return self._failed(error, request, headers)
            return Written(encoded(told), 200, headers)

        return answer

    async def _asked(
        self, authenticator: Authenticator, operation: Operation, request: Request
    ) -> Asked:
        """Who asks, and for what; nobody learns what is wrong with a request before it is known who sent it."""
        principal = await authenticator.authorize(request, operation.needs, vendor=True)
        scope = authenticator.scope(request, principal, None, None)
        owner = scope.owner
        principal.require_for(operation.needs, self.kind, {}, owner.user)
        headers: dict[bytes, bytes] = dict(request.scope["headers"])
        query = {
            name: value
            for name, value in read_query(request, self.lists).items()
            if name not in self.ignored
        }
        sent = await read_body(request, headers) if request.method == "POST" else b""
        body = parse_json(sent)
        for said, known in ((query, operation.query), (body, operation.body)):
            if unknown := next((name for name in said if name not in known), None):
                raise Invalid(field=unknown, problem="is not known here; check its name")
        path: dict[str, str] = request.scope["path_params"]
        key = headers[IDEMPOTENCY_KEY].decode("latin-1") if IDEMPOTENCY_KEY in headers else None
        act = Action(
            operation.name,
            request_id=problem.request_id(request),
            subject=" ".join([self.subject, *path.values()]),
        )
        if operation.once and key is not None:
            address: str = request.scope["path"]
            whose = (owner.user or "", owner.agent or "")
            act = replace(
                act,
                idempotency=IdempotentRequest.of(
                    principal.name, operation.name, key, address, sent, *whose, user=owner.user
                ),
            )
        elif operation.needs != "read":
            scope = Scope(acting_as(scope.services, principal, act), owner)
        return Asked(scope, principal, path, query, body, key, act)

    def _failed(
        self, error: Exception, request: Request, headers: list[tuple[bytes, bytes]]
    ) -> Response:
        """A failure in their shape. A conflict is told not to be tried again: their client would, and it changes nothing."""
        id = problem.request_id(request)
        failure = Failure(400, str(error), {}, id)
        if isinstance(error, RetainError):
            if (name := dict(self.fields).get(error.details.get("field", ""))) is not None:
                error = type(error)(**error.details | {"field": name})
            status = 400 if isinstance(error, Invalid) or error.status == 422 else error.status
            failure = Failure(status, problem.told(error, id), error.details, id)
        elif isinstance(error, HTTPException):
            failure = Failure(error.status_code, str(error.detail), {}, id)
        if failure.status == 409:
            headers.append((b"x-should-retry", b"false"))
        if failure.status in (429, 503):
            headers.append((b"retry-after", str(problem.RETRY_SECONDS).encode()))
        return Written(
            encoded(json.dumps(self.told(failure), ensure_ascii=False)), failure.status, headers
        )


def _done(operation: Operation, asked: Asked) -> str:
    """What an operation answers, or answered before to the same request with the same key."""
    tells = operation.once or (lambda found: found)

    def told(found: Any) -> StoredResponse:
        return StoredResponse(
            200, json.dumps(tells(found), ensure_ascii=False, separators=(",", ":"))
        )

    services = asked.scope.services
    owner = asked.scope.owner

    def perform(asked: Asked) -> Any:
        return services.observer.call(operation.name, owner, operation.does, asked)

    if asked.act.idempotency is None:
        return told(perform(asked)).body

    def perform_with(services: Services) -> Any:
        return perform(replace(asked, scope=Scope(services, owner)))

    return respond_once(services, asked.principal, asked.act, perform_with, told).body

"""The handler of one verb over HTTP: authenticate, parse, call the verb, render.

Authentication comes first: a caller without permission learns nothing about the request's errors.
The request is validated by a pydantic model made from the verb's signature (api/schemas.py). The
verb runs in a thread pool, with an audit row and an idempotent response where they are due.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from memorist.admin.audited_writer import AuditedAction, is_audited, respond_once
from memorist.admin.principal import Principal
from memorist.admin.stored_responses import IdempotentRequest, StoredResponse
from memorist.api import problem
from memorist.api.invoke import invoke
from memorist.api.parameter_help import parameter_help
from memorist.api.responses import rendered, response
from memorist.api.route import OCTETS, ApiRoute, path_parameters
from memorist.api.schemas import (
    OwnerParameters,
    build_request_model,
    messages,
    parameter_rules,
    shape,
    takes_idempotency_key,
    type_hints,
)
from memorist.base import limits
from memorist.base.errors import Invalid, WrongVersion
from memorist.base.verbs import Endpoint
from memorist.kinds.kind import Services
from memorist.memory import Scope
from memorist.search.service_embedder import ServiceEmbedder
from memorist.server.http.authentication import RequestAuthenticator
from memorist.server.http.routing import (
    is_json,
    list_parameters,
    parse_json,
    path_arguments,
    read_body,
    read_query,
)
from memorist.server.http.thread_pool import in_thread, model_threads

IDEMPOTENCY_KEY = b"idempotency-key"
IF_MATCH = b"if-match"
IF_NONE_MATCH = b"if-none-match"
OWNER_HEADERS = {
    "X-Memorist-User": "The user whose memory is used.",
    "X-Memorist-Agent": "The agent whose memory is used.",
}
_ETAG = re.compile(r'(?:W/)?"(\d{1,15})"')


@dataclass
class Call:
    """A parsed and authenticated request."""

    request: Request
    principal: Principal
    scope: Scope
    arguments: dict[str, Any]
    """The keyword arguments of the verb."""
    headers: Mapping[bytes, bytes]
    body: bytes = b""
    """The JSON body; for an upload, its media type and hash."""
    conditional: bool = False
    """True if If-Match or If-None-Match named the expected version."""


class VerbHandler:
    """Handles the requests of one verb.

    A subclass handles a verb whose requests or responses differ from its signature, such as one that
    streams or accepts uploads.
    """

    result: Any = None
    """The type of the response; by default that of the verb."""
    media_type = ""
    """The media type of a response that is not JSON."""

    def __init__(
        self, authenticator: RequestAuthenticator, endpoint: Endpoint, method: Callable[..., Any]
    ) -> None:
        settings = authenticator.memory.settings
        parameters = inspect.signature(method).parameters
        self.authenticator = authenticator
        self.endpoint = endpoint
        self.method = method
        self.request_model = self.build_request_model()
        self.upload_model = self.build_upload_model()
        self.result_type = self.result or type_hints(method).get("return")
        if self.result_type is bytes:
            self.media_type = OCTETS
        self.status = success_status(endpoint, self.result_type)
        self.in_thread = in_thread
        if endpoint.is_slow or may_call_model(endpoint, authenticator.memory.services):
            self.in_thread = model_threads(max(1, limits.MAX_IN_FLIGHT // 2))
        self._validate = self.request_model.model_validate
        self._lists = list_parameters(self.request_model) if endpoint.in_query else frozenset()
        self._has_key = takes_idempotency_key(method)
        self._stores_response = endpoint.stores_response and not self._has_key
        self._has_version = "if_version" in parameters
        self._has_messages = "messages" in parameters
        self._audited = endpoint.effect != "read" and is_audited(settings, endpoint.name)

    def build_request_model(self) -> type[BaseModel]:
        """Return the model of the query or body."""
        in_path = tuple(path_parameters(self.endpoint.route))
        return build_request_model(
            self.endpoint, self.method, in_path, in_query=self.endpoint.in_query
        )

    def build_upload_model(self) -> type[BaseModel] | None:
        """Return the model of the query of an upload; None if only JSON is accepted."""
        return None

    def route(self) -> ApiRoute:
        """Return the route of the verb."""
        endpoint = self.endpoint
        documentation = inspect.getdoc(self.method) or ""
        if endpoint.example:
            documentation += f"\n\nOn the command line: `{endpoint.example}`"
        path_names = path_parameters(endpoint.route)
        headers = {} if endpoint.is_admin else dict(OWNER_HEADERS)
        errors = [409, 507]
        if endpoint.calls_model in ("main", "describer"):
            errors.append(502)
        if self._has_version:
            headers["If-Match"] = "Change the record only if it is at this version (an ETag)."
            errors.append(412)
        if endpoint.stores_response:
            headers["Idempotency-Key"] = "A retry with the same key has no further effect."
        fields = getattr(self.result_type, "__dataclass_fields__", ())
        has_result = not self.media_type and self.result_type is not type(None)
        return ApiRoute(
            method=endpoint.method,
            path=endpoint.route,
            handle=self.handle,
            permission=endpoint.needs,
            name=endpoint.name,
            tag=endpoint.kind or "memory",
            description=documentation,
            query=self.request_model if endpoint.in_query else OwnerParameters,
            body=None if endpoint.in_query else self.request_model,
            upload=self.upload_model,
            result=shape(self.result_type) if has_result else None,
            media_type=self.media_type,
            status=self.status,
            path_help={name: parameter_help(endpoint.kind, name) for name in path_names},
            path_rules={name: parameter_rules(self.method, name) for name in path_names},
            headers=headers,
            is_versioned=endpoint.method == "GET" and "version" in fields,
            error_statuses=tuple(errors),
        )

    async def handle(self, request: Request) -> Response:
        """Authenticate and parse a request, then respond to it."""
        endpoint = self.endpoint
        principal = await self.authenticator.authorize(request, endpoint.needs)
        principal.require_verb(endpoint)
        headers: dict[bytes, bytes] = dict(request.scope["headers"])
        query = read_query(request, self._lists)
        body = b""
        respond = self.respond
        user: str | None
        agent: str | None
        if endpoint.in_query:
            arguments = _arguments(self._validate(query))
            user = arguments.pop("user", None)
            agent = arguments.pop("agent", None)
        elif self.upload_model is not None and not is_json(headers):
            respond = self.respond_to_upload
            arguments = _arguments(self.upload_model.model_validate(query))
            user = arguments.pop("user", None)
            agent = arguments.pop("agent", None)
        else:
            user = agent = None
            if query:
                owner: Any = OwnerParameters.model_validate(query)
                user = owner.user
                agent = owner.agent
            body = await read_body(request, headers)
            arguments = _arguments(self._validate(parse_json(body)))
        arguments.update(path_arguments(request))
        scope = self.authenticator.scope(request, principal, user, agent)
        principal.require_for(endpoint.needs, endpoint.kind, arguments, scope.owner.user)
        call = Call(request, principal, scope, arguments, headers, body)
        self._apply_headers(call)
        try:
            return await respond(call)
        except WrongVersion as error:
            if call.conditional:
                error.status = 412
            raise

    async def respond(self, call: Call) -> Response:
        """Call the verb in a thread and return its result as JSON."""
        stored = await self.in_thread(self.call_verb, call)
        known_etags = None
        if self.endpoint.method == "GET":
            known_etags = call.headers.get(IF_NONE_MATCH, b"").decode("latin-1")
        return response(stored, known_etags)

    async def respond_to_upload(self, call: Call) -> Response:
        """Respond to a request whose body is not JSON but the content itself."""
        raise NotImplementedError

    def call_verb(self, call: Call, verb: Callable[[Scope], Any] | None = None) -> StoredResponse:
        """Call the verb, with an audit row and a stored response where they are due.

        A repeated request with the same Idempotency-Key returns the stored response.
        """
        endpoint = self.endpoint
        owner = call.scope.owner

        def run(scope: Scope) -> Any:
            if verb is None:
                return invoke(endpoint, scope, call.arguments, call.principal)
            return scope.services.observer.call(endpoint.operation, owner, verb, scope)

        idempotent = None
        if self._stores_response and IDEMPOTENCY_KEY in call.headers:
            idempotent = self._idempotent_request(call)
        if idempotent is None and not self._audited:
            return self.render(run(call.scope))
        return respond_once(
            call.scope.services,
            call.principal,
            AuditedAction(endpoint.name, problem.request_id(call.request), idempotency=idempotent),
            lambda services: run(Scope(services, owner)),
            self.render,
        )

    def render(self, result: Any) -> StoredResponse:
        """Render the result of the verb."""
        return rendered(result, self.status)

    def _idempotent_request(self, call: Call) -> IdempotentRequest:
        """Identify the request: a repeated key needs the same path, query, body and owner."""
        scope = call.request.scope
        owner = call.scope.owner
        parts = [
            scope.get("raw_path") or scope["path"],
            scope["query_string"],
            call.body,
            owner.user or "",
            owner.agent or "",
        ]
        if call.conditional:
            parts.append(str(call.arguments["if_version"]))
        key = call.headers[IDEMPOTENCY_KEY].decode("latin-1")
        name = call.principal.name
        return IdempotentRequest.of(name, self.endpoint.name, key, *parts, user=owner.user)

    def _apply_headers(self, call: Call) -> None:
        """Turn Idempotency-Key, If-Match and If-None-Match into arguments of the verb."""
        headers = call.headers
        arguments = call.arguments
        if self._has_messages and "messages" in arguments:
            arguments["messages"] = messages(arguments["messages"])
        key = headers.get(IDEMPOTENCY_KEY)
        if self._has_key and key and arguments.get("key") is None:
            arguments["key"] = key.decode("latin-1")
        if self.endpoint.method == "GET":
            return
        if IF_MATCH in headers:
            arguments["if_version"] = self._version(headers[IF_MATCH].decode("latin-1"))
            call.conditional = True
        elif self._has_version and headers.get(IF_NONE_MATCH, b"").strip() == b"*":
            arguments["if_version"] = 0
            call.conditional = True

    def _version(self, etag: str) -> int:
        if not self._has_version:
            raise Invalid(field="If-Match", problem="is not supported by this endpoint")
        match = _ETAG.fullmatch(etag.strip())
        if match is None:
            reason = f'must be an ETag from a response, such as "3", not {etag!r}'
            raise Invalid(field="If-Match", problem=reason)
        return int(match[1])


def _arguments(parsed: BaseModel) -> dict[str, Any]:
    """Return the fields that a request has."""
    return {name: getattr(parsed, name) for name in parsed.model_fields_set}


def success_status(endpoint: Endpoint, result_type: Any) -> int:
    """Return the status of a successful response: 204 without a result, 201 for a new record."""
    if result_type is type(None):
        return 204
    return 201 if endpoint.method == "POST" and endpoint.creates else 200


def may_call_model(endpoint: Endpoint, services: Services) -> bool:
    """Return whether a verb may call a model, and so take seconds or minutes."""
    if endpoint.calls_model == "describer":
        return services.models.describer is not None
    if endpoint.calls_model == "embedder":
        return isinstance(services.embedder, ServiceEmbedder)
    return endpoint.calls_model == "main"

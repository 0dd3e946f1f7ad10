"""The handler of one endpoint of the table: authenticate, parse, call the verb, render.

Authentication comes first: a caller without permission learns nothing about the request's errors.
The request is validated by a pydantic model made from the verb's signature (api/schemas.py). The
verb runs in a thread pool, with an audit row and an idempotent response where they are due.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_origin
from urllib.parse import unquote

from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from retain.api import problem
from retain.api.endpoints import Endpoint
from retain.api.invoke import invoke
from retain.api.responses import rendered, response
from retain.api.schemas import OwnerParameters, messages
from retain.auth.audited_writer import Action, is_audited, respond_once
from retain.auth.idempotency import IdempotentRequest, StoredResponse
from retain.auth.principal import Principal
from retain.base import limits
from retain.base.errors import Invalid, WrongVersion
from retain.kinds.kind import Services
from retain.memory import Scope
from retain.search.service_embedder import ServiceEmbedder
from retain.server.parsing import is_json, parse_json, read_body, read_query
from retain.server.request_authenticator import RequestAuthenticator
from retain.server.thread_pool import in_thread, model_threads

IDEMPOTENCY_KEY = b"idempotency-key"
IF_MATCH = b"if-match"
IF_NONE_MATCH = b"if-none-match"
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


Respond = Callable[[Call], Awaitable[Response]]


class Handler:
    """Handles the requests to one endpoint.

    `respond` may be replaced where an endpoint does more than call its verb (uploads, streams).
    """

    def __init__(
        self,
        authenticator: RequestAuthenticator,
        endpoint: Endpoint,
        method: Callable[..., Any],
        request_model: type[BaseModel],
        result_type: Any,
        *,
        media_type: str = "",
    ) -> None:
        settings = authenticator.memory.settings
        parameters = inspect.signature(method).parameters
        self.authenticator = authenticator
        self.endpoint = endpoint
        self.method = method
        self.request_model = request_model
        self.upload_model: type[BaseModel] | None = None
        """The query parameters of a request whose body is not JSON but the content itself."""
        self.result_type = result_type
        self.media_type = media_type
        """The media type of a response that is not JSON."""
        self.status = success_status(endpoint, result_type)
        self.respond: Respond = self.respond_with_result
        self.in_thread = in_thread
        if may_call_model(endpoint, authenticator.memory.services):
            self.in_thread = model_threads(max(1, limits.MAX_IN_FLIGHT // 2))
        self._respond_to_upload: Respond | None = None
        self._validate = request_model.model_validate
        self._lists = list_parameters(request_model) if endpoint.in_query else frozenset()
        self._has_key = "key" in parameters and (
            "expected_last_seq" in parameters or endpoint.verb == "save_turn"
        )
        self._stores_response = endpoint.needs != "read" and not self._has_key
        self._has_version = "if_version" in parameters
        self._has_messages = "messages" in parameters
        self._audited = endpoint.needs != "read" and is_audited(settings, endpoint.name)

    def accept_uploads(self, upload_model: type[BaseModel], respond: Respond) -> None:
        """Accept bodies that are not JSON, too; their parameters are in the query."""
        self.upload_model = upload_model
        self._respond_to_upload = respond

    async def handle(self, request: Request) -> Response:
        """Authenticate and parse a request, then respond to it."""
        endpoint = self.endpoint
        principal = await self.authenticator.authorize(request, endpoint.needs)
        if endpoint.returns_removed:
            principal.require("read")
        headers: dict[bytes, bytes] = dict(request.scope["headers"])
        query = read_query(request, self._lists)
        body = b""
        respond = self.respond
        if endpoint.in_query:
            parsed = self._validate(query)
            arguments = {name: getattr(parsed, name) for name in parsed.model_fields_set}
            user = arguments.pop("user", None)
            agent = arguments.pop("agent", None)
        elif self._respond_to_upload and self.upload_model and not is_json(headers):
            respond = self._respond_to_upload
            parsed = self.upload_model.model_validate(query)
            arguments = {name: getattr(parsed, name) for name in parsed.model_fields_set}
            user = arguments.pop("user", None)
            agent = arguments.pop("agent", None)
        else:
            user = agent = None
            if query:
                owner: Any = OwnerParameters.model_validate(query)
                user = owner.user
                agent = owner.agent
            body = await read_body(request, headers)
            parsed = self._validate(parse_json(body))
            arguments = {name: getattr(parsed, name) for name in parsed.model_fields_set}
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

    async def respond_with_result(self, call: Call) -> Response:
        """Call the verb in a thread and return its result as JSON."""
        stored = await self.in_thread(self.call_verb, call)
        known_etags = None
        if self.endpoint.method == "GET":
            known_etags = call.headers.get(IF_NONE_MATCH, b"").decode("latin-1")
        return response(stored, known_etags)

    def call_verb(self, call: Call, verb: Callable[[Scope], Any] | None = None) -> StoredResponse:
        """Call the verb, with an audit row and a stored response where they are due.

        A repeated request with the same Idempotency-Key returns the stored response.
        """
        endpoint = self.endpoint
        owner = call.scope.owner

        def run(scope: Scope) -> Any:
            if verb is None:
                return invoke(endpoint, scope, call.arguments)
            return scope.services.observer.call(endpoint.operation, owner, verb, scope)

        idempotent = None
        if self._stores_response and IDEMPOTENCY_KEY in call.headers:
            idempotent = self._idempotent_request(call)
        if idempotent is None and not self._audited:
            return self.render(run(call.scope))
        return respond_once(
            call.scope.services,
            call.principal,
            Action(endpoint.name, problem.request_id(call.request), idempotency=idempotent),
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


def path_arguments(request: Request) -> dict[str, Any]:
    """Return the parameters of the path; routes match the path as it was sent, percent-encoded."""
    arguments: dict[str, Any] = {}
    for name, value in request.scope["path_params"].items():
        if isinstance(value, str) and "%" in value:
            try:
                value = unquote(value, errors="strict")  # noqa: PLW2901
            except UnicodeDecodeError:
                raise HTTPException(400, "The path is not UTF-8 text.") from None
        arguments[name] = value
    return arguments


def success_status(endpoint: Endpoint, result_type: Any) -> int:
    """Return the status of a successful response: 204 without a result, 201 for a new record."""
    if result_type is type(None):
        return 204
    return 201 if endpoint.method == "POST" and endpoint.creates else 200


def may_call_model(endpoint: Endpoint, services: Services) -> bool:
    """Return whether a verb may call a model, and so take seconds or minutes."""
    if endpoint.kind == "refs" and endpoint.verb in ("add", "capture"):
        return services.models.describer is not None
    if endpoint.verb in ("search", "context"):
        return isinstance(services.embedder, ServiceEmbedder)
    return endpoint.name in ("summaries_fold", "consolidations_propose")


def list_parameters(model: type[BaseModel]) -> frozenset[str]:
    """Return the names of the query parameters that may be repeated."""

    def is_list(hint: Any) -> bool:
        return get_origin(hint) is list or any(is_list(part) for part in get_args(hint))

    return frozenset(name for name, info in model.model_fields.items() if is_list(info.annotation))

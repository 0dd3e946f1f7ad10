"""One operation over HTTP: who asks, what for, whose memory it is about; then it is done, on record, and answered.

The framework documents a route from its signature. What a request says is read here, once and by our own rules, because the
framework's way takes longer than a durable write: deep nesting, NaN and bad UTF-8 are the caller's mistakes, a name that is
not known is an error, and nobody learns what is wrong with a request before it is known who sent it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_origin
from urllib.parse import parse_qsl

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Send
from starlette.types import Scope as Asgi

from retain.api import problem
from retain.api.endpoints import Endpoint
from retain.api.invoke import invoke
from retain.api.responses import rendered, response
from retain.api.schemas import Whose, messages
from retain.auth.audit import Action, is_audited, respond_once
from retain.auth.idempotency import IdempotentRequest, StoredResponse
from retain.auth.principal import Principal
from retain.base import canonical, limits
from retain.base.errors import Invalid, WrongVersion
from retain.base.settings import Settings
from retain.memory import Scope
from retain.server.authenticator import Authenticator
from retain.server.threads import in_thread, patient

ONCE, IF_MATCH, IF_NONE_MATCH = b"idempotency-key", b"if-match", b"if-none-match"
JSON = b"application/json"
_ETAG = re.compile(r'(?:W/)?"(\d{1,15})"')
_MOST_PARAMETERS = 100
_whose = Whose.__pydantic_validator__.validate_python
_NOTHING: Mapping[str, Any] = {}


@dataclass
class Call:
    """A request that was understood: who asks, whose memory is meant, and what the verb is given."""

    request: Request
    principal: Principal
    scope: Scope
    named: dict[str, Any]
    headers: Mapping[bytes, bytes]
    """As they were sent; looked up a few times for each request, which the framework's take long for."""
    body: bytes = b""
    """As it was sent; of a content that is taken as it is, the type and the hash."""
    conditional: bool = False
    """Whether a header said which version is meant."""


Do = Callable[[Call], Awaitable[Response]]


class Operation:
    """One way over HTTP, with everything worked out beforehand that is the same for every request."""

    def __init__(
        self,
        authenticator: Authenticator,
        endpoint: Endpoint,
        method: Callable[..., Any],
        said: type[BaseModel],
        status: int,
    ) -> None:
        self.authenticator, self.endpoint, self.method, self.status = (
            authenticator,
            endpoint,
            method,
            status,
        )
        self.in_query = endpoint.method in ("GET", "DELETE")
        self.do: Do = self.run
        self._needs = endpoint.needs
        self._said = said.__pydantic_validator__.validate_python
        self._lists = lists_of(said) if self.in_query else frozenset()
        known = inspect.signature(method).parameters
        self._keyed = "key" in known and (
            "expected_last_seq" in known or endpoint.verb == "save_turn"
        )
        self._once = endpoint.needs != "read" and not self._keyed
        self._versioned = "if_version" in known
        self._messages = "messages" in known
        settings = authenticator.memory.settings
        self._audited = endpoint.needs != "read" and is_audited(settings, endpoint.name)
        self.in_thread = (
            patient(max(1, limits.MAX_IN_FLIGHT // 2)) if waits(endpoint, settings) else in_thread
        )
        self._as_it_is: tuple[Callable[[Any], Any], Do] | None = None

    def take_as_it_is(self, said: type[BaseModel], do: Do) -> None:
        """Take bodies that are no JSON, too: all else that the request says is in its query then."""
        self._as_it_is = said.__pydantic_validator__.validate_python, do

    async def __call__(self, scope: Asgi, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        try:
            answer = await self.answer(request)
        except problem.EXPECTED as error:
            answer = problem.of(error, request)
        except ClientDisconnect:
            return  # nobody waits for an answer
        await answer(scope, receive, send)

    async def answer(self, request: Request) -> Response:
        """Understand a request, and do what it asks for."""
        principal = await self.authenticator.authorize(request, self._needs)
        if self.endpoint.tells:
            principal.require("read")
        query, body, do = parameters(request, self._lists), b"", self.do
        headers: dict[bytes, bytes] = dict(request.scope["headers"])
        whose: Any = None
        if self.in_query:
            said = self._said(query)
        elif self._as_it_is and not is_json(headers):
            validate, do = self._as_it_is
            said = validate(query)
        else:
            whose = _whose(query) if query else Whose
            body = await read(request, headers)
            said = self._said(parsed(body))
        named = {name: getattr(said, name) for name in said.model_fields_set}
        if whose is None:
            user, agent = named.pop("user", None), named.pop("agent", None)
        else:
            user, agent = (whose.user, whose.agent) if query else (None, None)
        named.update(request.scope["path_params"])
        meant = self.authenticator.scope(request, principal, user, agent)
        principal.require_for(self._needs, self.endpoint.kind, named, meant.owner.user)
        call = Call(request, principal, meant, named, headers, body)
        self._heed(call)
        try:
            return await do(call)
        except WrongVersion as error:
            if call.conditional:
                error.status = 412
            raise

    async def run(self, call: Call) -> Response:
        """Do the verb, in a thread, and answer with what it returns."""
        answer = await self.in_thread(self.done, call)
        return response(
            answer,
            call.headers.get(IF_NONE_MATCH, b"").decode("latin-1")
            if self.endpoint.method == "GET"
            else None,
        )

    def done(self, call: Call, verb: Callable[[Scope], Any] | None = None) -> StoredResponse:
        """Call the verb, audited and once per idempotency key where that applies; return its response."""
        endpoint = self.endpoint
        owner = call.scope.owner

        def invoked(scope: Scope) -> Any:
            if verb is None:
                return invoke(endpoint, scope, call.named)
            return scope.services.observer.call(endpoint.operation, owner, verb, scope)

        once = self._of(call) if self._once and ONCE in call.headers else None
        if once is None and not self._audited:
            return self.rendered(invoked(call.scope))
        return respond_once(
            call.scope.services,
            call.principal,
            Action(endpoint.name, problem.request_id(call.request), idempotency=once),
            lambda services: invoked(Scope(services, owner)),
            self.rendered,
        )

    def rendered(self, found: Any) -> StoredResponse:
        """What a verb returned, as it goes over the wire."""
        return rendered(found, self.status)

    def _of(self, call: Call) -> IdempotentRequest:
        """The request as one that is answered once: the same key means the same request, of the same memory."""
        scope, owner = call.request.scope, call.scope.owner
        asked = [
            scope.get("raw_path") or scope["path"],
            scope["query_string"],
            call.body,
            owner.user or "",
            owner.agent or "",
        ]
        if call.conditional:
            asked.append(str(call.named["if_version"]))
        return IdempotentRequest.of(
            call.principal.name,
            self.endpoint.name,
            call.headers[ONCE].decode("latin-1"),
            *asked,
            user=owner.user,
        )

    def _heed(self, call: Call) -> None:
        """Take what the headers say of versions and retries for the verb's own parameters."""
        headers, named = call.headers, call.named
        if self._messages and "messages" in named:
            named["messages"] = messages(named["messages"])
        if self._keyed and (once := headers.get(ONCE)) and named.get("key") is None:
            named["key"] = once.decode("latin-1")
        if self.endpoint.method == "GET":
            return
        if IF_MATCH in headers:
            match = headers[IF_MATCH].decode("latin-1")
            found = _ETAG.fullmatch(match.strip())
            if not self._versioned or not found:
                means = (
                    'must be an ETag as it was sent, such as "3"'
                    if self._versioned
                    else "means nothing here"
                )
                raise Invalid(
                    field="If-Match",
                    problem=f"{means}, not {match!r}" if self._versioned else means,
                )
            named["if_version"], call.conditional = int(found[1]), True
        elif self._versioned and headers.get(IF_NONE_MATCH, b"").strip() == b"*":
            named["if_version"], call.conditional = 0, True


class OperationRoute(APIRoute):
    """A route that the framework documents, and an operation answers."""

    def matches(self, scope: Asgi) -> Any:
        """Whether a request is for this route; a number that is none is not."""
        try:
            return super().matches(scope)
        except ValueError:  # more digits than Python reads
            raise HTTPException(404) from None


def waits(endpoint: Endpoint, settings: Settings) -> bool:
    """Whether a verb may call a model, which takes as long as that takes."""
    if endpoint.kind == "refs" and endpoint.verb in ("add", "capture"):
        return settings.ref_describe == "model"
    if endpoint.verb in ("search", "context"):
        return settings.embedder == "service"
    return endpoint.name in ("summaries_fold", "consolidations_propose")


def lists_of(said: type[BaseModel]) -> frozenset[str]:
    """The parameters that may be said more than once."""

    def is_list(hint: Any) -> bool:
        return get_origin(hint) is list or any(is_list(part) for part in get_args(hint))

    return frozenset(name for name, info in said.model_fields.items() if is_list(info.annotation))


def parameters(request: Request, lists: frozenset[str] = frozenset()) -> Mapping[str, Any]:
    """The query of a request: each name once, or again and again where there may be several."""
    query: bytes = request.scope["query_string"]
    if not query:
        return _NOTHING
    try:
        pairs = parse_qsl(
            query.decode("latin-1"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_PARAMETERS,
        )
    except UnicodeDecodeError:
        raise Invalid(field="query", problem="is not UTF-8 text") from None
    except ValueError:
        raise Invalid(
            field="query", problem=f"has more than {_MOST_PARAMETERS} parameters"
        ) from None
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in lists:
            found.setdefault(name, []).append(value)
        elif name in found:
            raise Invalid(field=name, problem="is said twice")
        else:
            found[name] = value
    return found


async def read(request: Request, headers: Mapping[bytes, bytes]) -> bytes:
    """The body of a request, if it is JSON; what is not is refused before it is read."""
    if not is_json(headers):
        raise HTTPException(
            415, f"the body is to be JSON, sent with the header `Content-Type: {JSON.decode()}`"
        )
    pieces: list[bytes] = []
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        pieces.append(message.get("body", b""))
        if not message.get("more_body"):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def parsed(body: bytes) -> Any:
    """A body as JSON; none at all says nothing."""
    if not body:
        return _NOTHING
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise HTTPException(400, "the body is not UTF-8 text") from None
    try:
        found = canonical.parse(text, "body")
    except Invalid as error:
        raise HTTPException(400, str(error)) from None
    if not isinstance(found, dict):
        raise Invalid(field="body", problem="must be a JSON object")
    return found


def is_json(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a request brings JSON, or no body at all."""
    media = headers.get(b"content-type")
    if media is None:
        return headers.get(b"content-length", b"0") == b"0" and b"transfer-encoding" not in headers
    return media == JSON or media.partition(b";")[0].strip().lower() == JSON

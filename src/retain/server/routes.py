"""Every verb of every kind as a route, built from the table of ways and the verbs' own signatures."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from copy import copy
from typing import Annotated, Any, get_type_hints

from fastapi import Body, FastAPI, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from retain.api.endpoints import ENDPOINTS, SCOPE_ENDPOINTS, Endpoint, parameter_help
from retain.api.examples import EXAMPLES
from retain.api.problem import MEDIA
from retain.api.responses import answer
from retain.api.schemas import Whose, asked, method_of, shape
from retain.base.errors import Invalid
from retain.kinds import KINDS
from retain.server.authenticator import Authenticator
from retain.server.handler import Operation, OperationRoute, parameters, parsed, read
from retain.server.route_index import Index

__all__ = ["BY_HAND", "Route", "add", "add_endpoint", "answer", "in_path", "problems"]

BY_HAND = ("context", "save_turn")
"""Ways whose requests are not the verb's own parameters."""
OCTETS = "application/octet-stream"
_KINDS: dict[str, type] = {kind.name: kind for kind in KINDS}
_IN_PATH = re.compile(r"\{(\w+):?(\w*)\}")
_PATH_TYPES = {"path": str, "int": int, "": str}
_MADE = ("add", "append", "extend", "capture", "add_many", "save_turn")
_STATUSES = (400, 401, 403, 404, 408, 409, 413, 415, 421, 422, 429, 500, 503, 507)
_WITH_MODELS = ("summaries_fold", "consolidations_propose", "refs_capture", "refs_add")
_DESCRIPTIONS = {
    304: "It is still the version that If-None-Match says.",
    400: "The request cannot be read.",
    401: "A key is needed.",
    403: "The key does not allow this.",
    404: "There is nothing by that name that the key may see.",
    408: "The request took too long to arrive.",
    409: "Right request, wrong moment.",
    412: "It is not at the version that the header says.",
    413: "Too large.",
    415: "The body is in a format that is not taken here.",
    421: "The server does not go by that name.",
    422: "The request breaks a rule; `field` says where.",
    429: "Too many requests; Retry-After says when to try again.",
    500: "A mistake in retain, or in what it runs on.",
    502: "The model failed.",
    503: "Not now; Retry-After says when to try again.",
    507: "The disk is nearly full.",
}


def add(app: FastAPI, authenticator: Authenticator) -> None:
    """Give an app every way; the routes that say more come first, or the ones that take anything would hide them."""
    app.router.route_class = Route
    app.router.redirect_slashes = False
    app.state.index = index = Index()
    app.router.routes.append(index)
    app.state.operations = {}
    for endpoint in sorted((*ENDPOINTS, *SCOPE_ENDPOINTS), key=_vagueness):
        if endpoint.verb not in BY_HAND:
            add_endpoint(app, authenticator, endpoint)


def add_endpoint(
    app: FastAPI,
    authenticator: Authenticator,
    endpoint: Endpoint,
    said: type[BaseModel] | None = None,
    result: Any = None,
    *,
    method: Callable[..., Any] | None = None,
    events: str = "",
) -> Operation:
    """One way as a route; its operation, for who does it in another manner than calling the verb.

    `events` is the format of an answer that is a stream.
    """
    method = method or method_of(endpoint, _KINDS)
    result = result or get_type_hints(method).get("return")
    said = said or asked(
        endpoint, method, tuple(in_path(endpoint)), in_query=endpoint.method in ("GET", "DELETE")
    )
    app.state.operations[endpoint.name] = operation = Operation(
        authenticator, endpoint, method, said, _status(endpoint, result)
    )
    route = copy(_route(endpoint, method, said, result, events))
    route.app, route.openapi_extra = operation, dict(route.openapi_extra or {})
    app.router.routes.append(route)
    app.state.index.add(route)
    return operation


@functools.lru_cache(
    256
)  # what is documented is the same in every app, and takes most of the time that making one takes
def _route(
    endpoint: Endpoint, method: Callable[..., Any], said: type[BaseModel], result: Any, events: str
) -> APIRoute:
    """A way as the framework documents it."""
    raw = events or (OCTETS if result is bytes else "")
    status = _status(endpoint, result)
    return OperationRoute(
        endpoint.route,
        _endpoint(endpoint, said),
        methods=[endpoint.method],
        name=endpoint.name,
        operation_id=endpoint.name,
        tags=[endpoint.kind or "memory"],
        summary=(inspect.getdoc(method) or "").split("\n")[0],
        description=f"{inspect.getdoc(method)}\n\nOn the command line: `{endpoint.example}`",
        status_code=status,
        response_model=None if raw or result is type(None) else shape(result),
        response_description="It is done." if status == 204 else "What was asked for.",
        response_class=Response if raw else JSONResponse,
        responses=_responses(endpoint, method, result, raw),
        openapi_extra=_extra(endpoint, method),
    )


def in_path(endpoint: Endpoint) -> dict[str, type]:
    """What the address of a way names."""
    return {name: _PATH_TYPES[kind] for name, kind in _IN_PATH.findall(endpoint.route)}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """How a route may fail, for its documentation."""
    content = {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"description": _DESCRIPTIONS.get(status, "A problem"), "content": content}
        for status in statuses
    }


class Route(APIRoute):
    """A route of another kind than a verb's: who asks comes first, and what is said is read by the rules of all else."""

    def get_route_handler(self) -> Callable[[Request], Any]:
        """The handler, given requests of somebody who may, whose body was read."""
        handle = super().get_route_handler()
        needs = (self.openapi_extra or {}).get("x-retain-permission")
        takes_body, takes_query = self.body_field is not None, bool(self.dependant.query_params)
        strict = "access" in self.tags
        closed = strict or "web" in self.tags

        async def handler(request: Request) -> Response:
            if needs:  # before the body: nobody learns what is wrong with a request before it is known who sent it
                await request.app.state.authenticator.authorize(request, needs)
            elif strict:
                await request.app.state.authenticator.authenticate(request)
            if closed and (query := parameters(request)) and not takes_query:
                raise Invalid(field=next(iter(query)), problem="is not known here; check its name")
            made = _Read(request.scope, request.receive)
            if takes_body:
                try:
                    body = made._body = await read(request, dict(request.scope["headers"]))
                except ClientDisconnect:
                    raise HTTPException(
                        400, "the body did not arrive"
                    ) from None  # and nobody waits for an answer
                made.said = parsed(body)
            found: Response = await handle(made)
            return found

        return handler


class _Read(Request):
    said: Any = None

    async def json(self) -> Any:
        return self.said


def _vagueness(endpoint: Endpoint) -> tuple[int, int]:
    """How much a route would match: its last part, and how many parameters it has; the longer first."""
    last = endpoint.route.rpartition("/")[2]
    return (2 if ":path" in last else 1 if "{" in last else 0), -endpoint.route.count("/")


def _endpoint(endpoint: Endpoint, said: type[BaseModel]) -> Callable[..., Any]:
    """A function with the signature that the framework documents; the operation is what answers."""

    async def documented(**given: Any) -> None:
        raise AssertionError("the operation answers")

    made = [("request", Request)]
    for name, kind in in_path(endpoint).items():
        example = EXAMPLES.get(f"{endpoint.kind}.{name}", EXAMPLES.get(name))
        made.append(
            (
                name,
                Annotated[
                    kind, Path(description=parameter_help(endpoint.kind, name), examples=[example])
                ],
            )  # type: ignore[arg-type]
        )
    in_query = endpoint.method in ("GET", "DELETE")
    made.append(("said", Annotated[said, Query() if in_query else Body()]))  # type: ignore[arg-type]
    if not in_query:
        made.append(("whose", Annotated[Whose, Query()]))  # type: ignore[arg-type]
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=hint)
        for name, hint in made
    ]
    documented.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    documented.__name__ = endpoint.name
    return documented


def _status(endpoint: Endpoint, result: Any) -> int:
    if result is type(None):
        return 204
    return 201 if endpoint.method == "POST" and endpoint.verb in _MADE else 200


def _responses(
    endpoint: Endpoint, method: Callable[..., Any], result: Any, raw: str
) -> dict[int | str, dict[str, Any]]:
    found = problems(*_STATUSES, *((502,) if endpoint.name in _WITH_MODELS else ()))
    if "if_version" in inspect.signature(method).parameters:
        found |= problems(412)
    if endpoint.method == "GET" and "version" in getattr(result, "__dataclass_fields__", ()):
        found[304] = {"description": _DESCRIPTIONS[304]}
    if raw:
        found[200] = {"content": {raw: {"schema": {"type": "string", "format": "binary"}}}}
    return found


def _extra(endpoint: Endpoint, method: Callable[..., Any]) -> dict[str, Any]:
    """What of a route the framework does not see: the headers that every request may have."""
    known = inspect.signature(method).parameters
    headers = {
        "X-Retain-User": "Whose memory is meant.",
        "X-Retain-Agent": "Which agent's memory is meant.",
        **({"If-Match": "Only if it is at this version."} if "if_version" in known else {}),
        **(
            {"Idempotency-Key": "A retry with the same key changes nothing."}
            if endpoint.needs != "read"
            else {}
        ),
    }
    said = [
        {
            "name": name,
            "in": "header",
            "required": False,
            "description": about,
            "schema": {"type": "string"},
        }
        for name, about in headers.items()
    ]
    return {"parameters": said, "x-retain-permission": endpoint.needs}

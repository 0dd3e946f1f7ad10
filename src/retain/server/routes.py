"""Every endpoint of the table as a route.

A request goes from `EndpointRouter` straight to the `Handler` of its endpoint (handler.py), which
calls the verb. Routes that are not in the table (chat, keys, sign-in) are of the class `ApiRoute`
(api_route.py), those of vendor protocols of the class `VendorRoute`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Protocol, get_type_hints

from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from retain.api import problem
from retain.api.endpoints import ENDPOINTS, SCOPE_ENDPOINTS, Endpoint
from retain.api.problem import MEDIA
from retain.api.schemas import build_request_model, method_of
from retain.kinds import KINDS
from retain.server.handler import Handler
from retain.server.request_authenticator import RequestAuthenticator

BY_HAND = ("context", "save_turn")
"""Verbs whose requests differ from their signatures; turn_routes.py adds them."""
MAX_DIGITS = 19
OCTETS = "application/octet-stream"
DESCRIPTIONS = {
    304: "Not modified: it is still at the version of If-None-Match.",
    400: "The request cannot be parsed.",
    401: "The key is missing or not valid.",
    403: "The key does not permit this.",
    404: "Not found, or not visible to this key.",
    405: "The path does not support this method.",
    408: "The request took too long to arrive.",
    409: "The request conflicts with the current state.",
    412: "The record is not at the version of If-Match.",
    413: "The request is too large.",
    415: "The media type of the body is not supported.",
    421: "The host name is not one of this server's.",
    422: "The request is not valid; `field` names the parameter.",
    429: "Too many requests; Retry-After says when to retry.",
    431: "The headers are too large.",
    500: "Unexpected error.",
    502: "The model failed.",
    503: "The server is overloaded or stopping; Retry-After says when to retry.",
    507: "The disk is almost full.",
}
_KINDS: dict[str, type] = {kind.name: kind for kind in KINDS}
_PARAMETER = re.compile(r"\{(\w+):?(\w*)\}")
_PATH_TYPES = {"path": str, "int": int, "": str}


def add(app: Starlette, authenticator: RequestAuthenticator) -> None:
    """Add every endpoint of the table to an app."""
    app.router.redirect_slashes = False
    app.state.handlers = {}
    app.state.routes = []
    for endpoint in (*ENDPOINTS, *SCOPE_ENDPOINTS):
        if endpoint.verb not in BY_HAND:
            add_endpoint(app, authenticator, endpoint)


def add_endpoint(
    app: Starlette,
    authenticator: RequestAuthenticator,
    endpoint: Endpoint,
    request_model: type[BaseModel] | None = None,
    result_type: Any = None,
    *,
    method: Callable[..., Any] | None = None,
    media_type: str = "",
) -> Handler:
    """Add one endpoint to an app and return its handler.

    Request model, result type and method default to those of the verb. `media_type` is that of a
    response that is not JSON.
    """
    method = method or method_of(endpoint, _KINDS)
    result_type = result_type or get_type_hints(method).get("return")
    in_path = tuple(path_parameters(endpoint))
    model = request_model or build_request_model(
        endpoint, method, in_path, in_query=endpoint.in_query
    )
    if result_type is bytes:
        media_type = OCTETS
    handler = Handler(authenticator, endpoint, method, model, result_type, media_type=media_type)
    app.state.handlers[endpoint.name] = handler
    return handler


def install(app: Starlette) -> None:
    """Route the requests to the endpoints that were added, before the app's own middleware."""
    app.state.endpoint_routes = routes = endpoint_routes(
        app.state.handlers.values(), app.state.routes
    )
    build = app.build_middleware_stack
    app.build_middleware_stack = lambda: EndpointRouter(build(), routes)  # type: ignore[method-assign]


def path_parameters(endpoint: Endpoint) -> dict[str, type]:
    """Return the names and types of the parameters in the path of an endpoint."""
    return {name: _PATH_TYPES[kind] for name, kind in _PARAMETER.findall(endpoint.route)}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI responses for these error statuses."""
    content = {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"description": DESCRIPTIONS.get(status, "An error."), "content": content}
        for status in statuses
    }


class NumberConvertor(Convertor[int]):
    """A number in a path; nothing has a number of more than 19 digits."""

    regex = "[0-9]+"

    def convert(self, value: str) -> int:
        """Parse the number."""
        if len(value) > MAX_DIGITS:
            raise HTTPException(404)
        return int(value)

    def to_string(self, value: int) -> str:
        """Format the number."""
        return str(value)


register_url_convertor("number", NumberConvertor())


class RequestHandler(Protocol):
    """A handler of requests: of an endpoint, or of a route beside the table."""

    async def handle(self, request: Request) -> Response:
        """Respond to one request."""


class MethodRoute(RequestHandler, Protocol):
    """A route for one method of one path that is not in the endpoint table."""

    @property
    def method(self) -> str:
        """The HTTP method."""

    @property
    def path(self) -> str:
        """The path, with parameters in braces."""


class EndpointRoute(Route):
    """The route of one path, with its handlers by HTTP method."""

    def __init__(self, path: str) -> None:
        super().__init__(path.replace(":int}", ":number}"), _not_found)
        self.path = path
        self.by_method: dict[str, RequestHandler] = {}

    def handler(self, method: str) -> RequestHandler:
        """Return the handler of a method, or raise the error 405."""
        handler = self.by_method.get(method)
        if handler is None:
            raise HTTPException(405, headers={"Allow": ", ".join(sorted(self.by_method))})
        return handler


def endpoint_routes(
    handlers: Iterable[Handler], others: Iterable[MethodRoute]
) -> list[EndpointRoute]:
    """Return one route for each path, specific paths before those that match more."""
    by_path: dict[str, EndpointRoute] = {}
    for handler in handlers:
        endpoint = handler.endpoint
        route = by_path.setdefault(endpoint.route, EndpointRoute(endpoint.route))
        route.by_method[endpoint.method] = handler
    for other in others:
        route = by_path.setdefault(other.path, EndpointRoute(other.path))
        route.by_method[other.method] = other
    return [by_path[path] for path in sorted(by_path, key=generality)]


class EndpointRouter:
    """Middleware that routes requests to the endpoints of the table, and all others to the app.

    A request is compared only with the routes that share the first part of its path
    (`/api/messages/…`). The patterns are Starlette's. They match the path as it was sent: a slash
    inside a name, sent as `%2F`, does not separate parts of the path. The app's
    middleware and Starlette's router would add seven calls to each request.
    """

    def __init__(self, app: ASGIApp, routes: Iterable[EndpointRoute]) -> None:
        self._app = app
        self._routes: dict[str, list[EndpointRoute]] = {}
        for route in routes:
            self._routes.setdefault(_prefix(route.path), []).append(route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Route one request."""
        routes = self._routes.get(_prefix(scope.get("path", "")))
        if routes is None or scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        raw_path: bytes | None = scope.get("raw_path")
        if raw_path is not None:
            scope["path"] = raw_path.decode("latin-1")
        request = Request(scope, receive)
        try:
            handler = self._find(routes, scope)
            response = await handler.handle(request)
        except problem.EXPECTED as error:
            response = problem.of(error, request)
        except ClientDisconnect:
            return  # nobody waits for a response
        except Exception:  # a defect: answered with 500 and raised again for the log
            await problem.unexpected(request)(scope, receive, send)
            raise
        await response(scope, receive, send)

    def _find(self, routes: Iterable[EndpointRoute], scope: Scope) -> RequestHandler:
        """Return the handler of a request, and store its route and parameters in the scope."""
        for route in routes:
            match = route.path_regex.match(scope["path"])
            if match is None:
                continue
            parameters: dict[str, Any] = match.groupdict()
            for name, convertor in route.param_convertors.items():
                parameters[name] = convertor.convert(parameters[name])
            scope["route"] = route
            scope["path_params"] = parameters
            return route.handler(scope["method"])
        raise HTTPException(404)


async def _not_found(request: Request) -> Response:
    raise HTTPException(404)


def _prefix(path: str) -> str:
    """Return the first two names of a path, such as `/api/messages`."""
    return "/".join(path.split("/", 3)[:3])


def generality(path: str) -> tuple[int, int]:
    """Sort specific paths before general ones, by their last part and by their length."""
    last = path.rpartition("/")[2]
    if ":path" in last:
        rank = 2
    elif "{" in last:
        rank = 1
    else:
        rank = 0
    return rank, -path.count("/")

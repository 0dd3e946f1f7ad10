"""Starlette routes of the API's requests."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from memorist.api.route import ApiRoute
from memorist.base.errors import Invalid
from memorist.server.http.authentication import RequestAuthenticator
from memorist.server.http.parsing import (
    list_parameters,
    parse_json,
    path_arguments,
    read_body,
    read_query,
)

MAX_DIGITS = 19
FREQUENT = ("/api/messages", "/api/search", "/api/context")


def api_route(
    *,
    authenticator: RequestAuthenticator,
    handler: Callable[..., Awaitable[Response]],
    is_public: bool = False,
    **description: Any,
) -> ApiRoute:
    """Return a route whose requests are authenticated and parsed before the handler gets them.

    handler:     called with the request, the parameters of the path by name, and `query` and
                 `body` if the route has models for them; its docstring describes the operation
    is_public:   a request needs no credential
    description: the other fields of ApiRoute
    """
    permission = description.get("permission")
    query_model = description.get("query")
    body_model = description.get("body")
    lists = list_parameters(query_model) if query_model else frozenset()

    async def handle(request: Request) -> Response:
        if permission is not None:
            await authenticator.authorize(request, permission)
        elif not is_public:
            await authenticator.authenticate_request(request)
        arguments = path_arguments(request)
        parameters = read_query(request, lists)
        if query_model is not None:
            arguments["query"] = query_model.model_validate(parameters)
        else:
            for name in parameters:
                raise Invalid(field=name, problem="is not a known parameter of the URL")
        if body_model is not None:
            data = await read_body(request, dict(request.scope["headers"]))
            arguments["body"] = body_model.model_validate(parse_json(data))
        return await handler(request, **arguments)

    return ApiRoute(handle=handle, description=inspect.getdoc(handler) or "", **description)


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


def starlette_routes(routes: Iterable[ApiRoute]) -> list[Route]:
    """Return one route for each path; those of one resource stay together, specific ones first.

    Starlette compares a request with each path in turn, which takes 60 µs for the last one. So the
    most frequent requests come first.
    """
    by_path: dict[str, dict[str, ApiRoute]] = {}
    resources = {name: number for number, name in enumerate(FREQUENT)}
    for route in routes:
        by_path.setdefault(route.path, {})[route.method] = route
        resources.setdefault(_resource(route.path), len(resources))
    paths = sorted(by_path, key=lambda path: (resources[_resource(path)], *_generality(path)))
    return [Route(path.replace(":int}", ":number}"), Methods(by_path[path])) for path in paths]


class Methods:
    """The endpoint of one path: an ASGI app that responds by method."""

    def __init__(self, routes: Mapping[str, ApiRoute]) -> None:
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to one request. Starlette turns errors into responses."""
        route = self._routes.get(scope["method"])
        if route is None:
            raise HTTPException(405, headers={"Allow": ", ".join(sorted(self._routes))})
        response = await route.handle(Request(scope, receive))
        await response(scope, receive, send)


def _resource(path: str) -> str:
    """Return the first two names of a path, such as `/api/messages`."""
    return "/".join(path.split("/", 3)[:3])


def _generality(path: str) -> tuple[int, int]:
    """Sort specific paths before general ones, by their last part and by their length."""
    last = path.rpartition("/")[2]
    if ":path" in last:
        rank = 2
    elif "{" in last:
        rank = 1
    else:
        rank = 0
    return rank, -path.count("/")

"""Starlette routes of the API, and the parsing of their requests.

Path, query and JSON body are read by the same rules for every route. Deep nesting, NaN, invalid UTF-8
and repeated parameters are errors of the caller (400 or 422).
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, get_args, get_origin
from urllib.parse import parse_qsl, unquote

from pydantic import BaseModel
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from memorist.api.route import ApiRoute
from memorist.base import canonical
from memorist.base.errors import Invalid
from memorist.server.http.authentication import RequestAuthenticator

JSON = b"application/json"
MAX_PARAMETERS = 100
_EMPTY: Mapping[str, Any] = {}
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


def read_query(request: Request, lists: frozenset[str] = frozenset()) -> Mapping[str, Any]:
    """Return the query parameters of a request; those in `lists` may be repeated."""
    query: bytes = request.scope["query_string"]
    if not query:
        return _EMPTY
    try:
        pairs = parse_qsl(
            query.decode("latin-1"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MAX_PARAMETERS,
        )
    except UnicodeDecodeError:
        raise Invalid(field="query", problem="is not UTF-8 text") from None
    except ValueError:
        raise Invalid(field="query", problem=f"has more than {MAX_PARAMETERS} parameters") from None
    parameters: dict[str, Any] = {}
    for name, value in pairs:
        if name in lists:
            parameters.setdefault(name, []).append(value)
        elif name in parameters:
            raise Invalid(field=name, problem="was given more than once")
        else:
            parameters[name] = value
    return parameters


async def read_body(request: Request, headers: Mapping[bytes, bytes]) -> bytes:
    """Return the body of a request; reject a body that is not JSON before reading it."""
    if not is_json(headers):
        raise HTTPException(
            415, f"The body must be JSON, sent with the header `Content-Type: {JSON.decode()}`."
        )
    chunks: list[bytes] = []
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunks.append(message.get("body", b""))
        if not message.get("more_body"):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def parse_json(body: bytes) -> Any:
    """Return a body as a JSON object; an empty body is an empty object."""
    if not body:
        return _EMPTY
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise HTTPException(400, "The body is not UTF-8 text.") from None
    try:
        value = canonical.parse(text, "body")
    except Invalid as error:
        raise HTTPException(400, str(error)) from None
    if not isinstance(value, dict):
        raise Invalid(field="body", problem="must be a JSON object")
    return value


def is_json(headers: Mapping[bytes, bytes]) -> bool:
    """Return whether a request has a JSON body, or none at all."""
    media_type = headers.get(b"content-type")
    if media_type is None:
        return headers.get(b"content-length", b"0") == b"0" and b"transfer-encoding" not in headers
    return media_type == JSON or media_type.partition(b";")[0].strip().lower() == JSON


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


def list_parameters(model: type[BaseModel]) -> frozenset[str]:
    """Return the names of the query parameters that may be repeated."""

    def is_list(hint: Any) -> bool:
        return get_origin(hint) is list or any(is_list(part) for part in get_args(hint))

    return frozenset(name for name, info in model.model_fields.items() if is_list(info.annotation))

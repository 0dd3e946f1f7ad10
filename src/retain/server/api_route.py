"""Routes beside the endpoint table: chat, keys, administration, sign-in, status.

An `ApiRoute` declares what a request needs and returns; routing and the OpenAPI document both read
it. Its requests are authenticated before they are parsed, and parsed like those of the table.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from retain.auth.principal import Permission
from retain.base.errors import Invalid
from retain.server.handler import list_parameters, path_arguments
from retain.server.parsing import parse_json, read_body, read_query
from retain.server.request_authenticator import RequestAuthenticator


@dataclass(frozen=True, kw_only=True)
class ApiRoute:
    """A route with its documentation.

    The handler gets the request, the parameters of the path by name, and `query` and `body` if the
    route has models for them. Its docstring is the description of the operation.
    """

    authenticator: RequestAuthenticator
    method: str
    path: str
    name: str
    tag: str
    handler: Callable[..., Awaitable[Response]]
    permission: Permission | None = None
    is_public: bool = False
    """True if a request needs no credential."""
    query: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    result: Any = None
    """The type of the JSON response."""
    media_type: str = ""
    """The media type of a response that is not JSON."""
    response_help: str = "Successful response."
    status: int = 200
    path_help: Mapping[str, str] = field(default_factory=dict)
    """Descriptions of the parameters of the path."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names and descriptions of the request headers."""
    error_statuses: tuple[int, ...] = (507,)
    """Error statuses besides those of every operation."""

    async def handle(self, request: Request) -> Response:
        """Authenticate and parse a request, then call the handler."""
        if self.permission is not None:
            await self.authenticator.authorize(request, self.permission)
        elif not self.is_public:
            await self.authenticator.authenticate_request(request)
        arguments = path_arguments(request)
        if self.query is not None:
            parameters = read_query(request, list_parameters(self.query))
            arguments["query"] = self.query.model_validate(parameters)
        else:
            for name in read_query(request):
                raise Invalid(field=name, problem="is not a known parameter of the URL")
        if self.body is not None:
            data = await read_body(request, dict(request.scope["headers"]))
            arguments["body"] = self.body.model_validate(parse_json(data))
        return await self.handler(request, **arguments)

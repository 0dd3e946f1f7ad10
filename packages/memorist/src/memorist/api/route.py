"""Routes of the API: what each request needs and returns.

Every route is an `ApiRoute`: of a verb (server/routes/verb_routes.py), written by hand (chat, sign-in)
or of another package (base/extensions.py). Routing and the OpenAPI document both read it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from memorist.admin.principal import Permission

OCTETS = "application/octet-stream"
_PATH_PARAMETER = re.compile(r"\{(\w+):?(\w*)\}")


@dataclass(frozen=True, kw_only=True)
class ApiRoute:
    """One method of one path, and what the OpenAPI document says about it."""

    method: str
    path: str
    handle: Callable[[Request], Awaitable[Response]]
    """Authenticates, parses and responds to a request."""
    permission: Permission | None = None
    name: str = ""
    """The operation id; empty for a route that is not in the document."""
    tag: str = ""
    description: str = ""
    query: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    upload: type[BaseModel] | None = None
    """The query of a request whose body is not JSON but the content itself."""
    result: Any = None
    """The type of the JSON response."""
    media_type: str = ""
    """The media type of a response that is not JSON."""
    response_help: str = "Successful response."
    status: int = 200
    path_help: Mapping[str, str] = field(default_factory=dict)
    """Descriptions of the parameters of the path."""
    path_rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """JSON schemas of the parameters of the path that are not keys."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names and descriptions of the request headers."""
    is_versioned: bool = False
    """True if the response has an ETag, and none is sent if the caller has that version."""
    error_statuses: tuple[int, ...] = (507,)
    """Error statuses besides those of every operation."""


def path_parameters(path: str) -> dict[str, type]:
    """Return the names and types of the parameters in a path."""
    return {name: int if kind == "int" else str for name, kind in _PATH_PARAMETER.findall(path)}

"""Read the path, the query and the JSON body of a request by the same rules for every route.

Deep nesting, NaN, invalid UTF-8 and repeated parameters are errors of the caller (400 or 422).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args, get_origin
from urllib.parse import parse_qsl, unquote

from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from memorist.base import canonical
from memorist.base.errors import Invalid

JSON = b"application/json"
MAX_PARAMETERS = 100
_EMPTY: Mapping[str, Any] = {}


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

"""Error responses as `application/problem+json` (RFC 9457).

A problem says what is wrong, in which field, and what to do. It contains the id of the request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from memorist.base import masking
from memorist.base.error_text import error_text
from memorist.base.errors import MemoristError

MEDIA = "application/problem+json"
_TITLES = {
    400: "Bad request",
    401: "Unauthorized",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    408: "Request timeout",
    409: "Conflict",
    410: "Gone",
    411: "Length required",
    412: "Precondition failed",
    413: "Too large",
    415: "Unsupported media type",
    421: "Wrong host",
    422: "Invalid",
    429: "Too many requests",
    431: "Too many headers",
    500: "Unexpected error",
    502: "The model failed",
    503: "Service unavailable",
    507: "The disk is nearly full",
}
_DETAILS = {
    404: "No such path; /docs lists the API.",
    405: "This path does not support the method; see the header Allow.",
}
RETRY_SECONDS = 1
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_MAX_LISTED_FIELDS = 5
EXPECTED = (MemoristError, HTTPException, ValidationError)
"""Errors that are not defects of the server: bad requests and temporary failures."""


class Problem(BaseModel):
    """The description of an error."""

    model_config = ConfigDict(defer_build=True)
    type: str = Field(description="The name of the error type.", examples=["/problems/not-found"])
    title: str
    status: int
    detail: str = Field(description="What happened, why, and what to do.")
    request_id: str
    field: str | None = Field(None, description="The field of the request that is wrong, if any.")


def response(
    status: int,
    detail: str,
    request_id: str,
    *,
    type: str = "",
    headers: Mapping[str, str] | None = None,
    **more: Any,
) -> Response:
    """Return the response for a problem."""
    title = _TITLES.get(status, "Error")
    body = {
        "type": f"/problems/{type or title.lower().replace(' ', '-').replace('?', '')}",
        "title": title,
        "status": status,
        "detail": detail,
        "request_id": request_id,
        **more,
    }
    payload = json.dumps(body, ensure_ascii=False, default=str).encode("utf-8", "replace")
    return Response(payload, status, dict(headers or {}), MEDIA)


def of(error: Exception, request: Request) -> Response:
    """Return the response for any expected error."""
    if isinstance(error, MemoristError):
        return of_error(error, request_id(request))
    if isinstance(error, HTTPException):
        detail = str(error.detail)
        if detail in ("Not Found", "Method Not Allowed"):  # the texts of Starlette
            detail = _DETAILS.get(error.status_code, detail)
        return response(error.status_code, detail, request_id(request), headers=error.headers)
    assert isinstance(error, ValidationError)
    return _of_validation_error(error, request_id(request))


def unexpected(request: Request) -> Response:
    """Return the response for an unexpected error, which is a defect of the server."""
    detail = "Internal server error. The log has the details under the request id."
    return response(500, detail, request_id(request), type="unexpected")


def of_error(error: MemoristError, request_id: str) -> Response:
    """Return the response for an error of the library."""
    headers = {}
    if error.status in (429, 503):
        headers["Retry-After"] = str(error.details.get("seconds", RETRY_SECONDS))
    if error.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="memorist"'
    more = {"field": error.details["field"]} if "field" in error.details else {}
    kind = _CAMEL.sub("-", type(error).__name__).lower()
    return response(
        error.status, error_text(error, request_id), request_id, type=kind, headers=headers, **more
    )


def _of_validation_error(invalid: ValidationError, request_id: str) -> Response:
    messages: dict[str, str] = {}
    for error in invalid.errors():
        path = [
            str(part)
            for part in error["loc"]
            if not str(part).startswith(("function-", "list[", "dict["))
        ]
        # The caller may have sent an API key as a field name.
        field = masking.mask_secrets(".".join(path)) or str((*error["loc"], "body")[0])
        messages.setdefault(field, _message(error))
    detail = "; ".join(
        f"{name}: {message}" for name, message in list(messages.items())[:_MAX_LISTED_FIELDS]
    )
    return response(422, detail, request_id, type="invalid", field=next(iter(messages)))


def _message(error: Mapping[str, Any]) -> str:
    if error["type"] == "extra_forbidden":
        return "is not a known field; check its name"
    if error["type"] == "missing":
        return "is required"
    text = str(error["msg"])
    return text[:1].lower() + text[1:]


def request_id(request: Request) -> str:
    """Return the id of this request in the logs."""
    return str(request.scope.get("state", {}).get("request_id", ""))


async def respond(request: Request, error: Exception) -> Response:
    """Return the response for any expected error: an exception handler for Starlette."""
    return of(error, request)

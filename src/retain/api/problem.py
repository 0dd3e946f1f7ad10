"""Every failure as `application/problem+json` (RFC 9457): what is wrong, which field, what to do, and the request's id."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, ValidationError
from starlette.exceptions import HTTPException

from retain.base import masking
from retain.base.errors import Busy, Corrupt, Full, ReadOnly, RetainError, StorageError, Unreachable
from retain.base.logging import FIELDS

MEDIA = "application/problem+json"
_TITLES = {
    400: "Bad request",
    401: "A key is needed",
    403: "Not allowed",
    404: "Not found",
    405: "No such method",
    408: "Too slow",
    409: "Conflict",
    411: "How long is it?",
    412: "Changed meanwhile",
    413: "Too large",
    415: "Unknown format",
    421: "Wrong host",
    422: "Invalid",
    429: "Too many requests",
    431: "Too many headers",
    500: "Unexpected error",
    502: "The model failed",
    503: "Not now",
    507: "The disk is nearly full",
}
_DETAILS = {
    404: "There is nothing at this address; /docs lists what there is.",
    405: "This address does not take this method; the header Allow lists those that it takes.",
}
RETRY_SECONDS = 1
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_MOST_TOLD = 5
_PLAIN = (Busy, Corrupt, Full, ReadOnly, Unreachable)  # others may quote what was to be stored
_log = logging.getLogger("retain.storage")
EXPECTED = (RetainError, HTTPException, RequestValidationError, ValidationError)
"""What a request may end with that is nobody's mistake but the caller's, or the moment's."""


class Problem(BaseModel):
    """What went wrong."""

    type: str = Field(
        description="Which kind of problem, by its name.", examples=["/problems/not-found"]
    )
    title: str
    status: int
    detail: str = Field(description="What is wrong, and what to do.")
    request_id: str
    field: str | None = Field(None, description="Which field of the request, where it is one.")


def answer(
    status: int,
    detail: str,
    request_id: str,
    *,
    type: str = "",
    headers: Mapping[str, str] | None = None,
    **more: Any,
) -> Response:
    """A problem as a response."""
    title = _TITLES.get(status, "Error")
    body = {
        "type": f"/problems/{type or title.lower().replace(' ', '-').replace('?', '')}",
        "title": title,
        "status": status,
        "detail": detail,
        "request_id": request_id,
        **more,
    }
    written = json.dumps(body, ensure_ascii=False, default=str).encode("utf-8", "replace")
    return Response(written, status, dict(headers or {}), MEDIA)


def of(error: Exception, request: Request) -> Response:
    """Any expected error as a response."""
    if isinstance(error, RetainError):
        return of_error(error, request_id(request))
    if isinstance(error, HTTPException):
        detail = (
            _DETAILS.get(error.status_code, "")
            if error.detail in ("Not Found", "Method Not Allowed")
            else ""
        )
        return answer(
            error.status_code,
            detail or str(error.detail),
            request_id(request),
            headers=error.headers,
        )
    assert isinstance(error, RequestValidationError | ValidationError)
    return _of_shape(
        error.errors(),
        request_id(request),
        beside=1 if isinstance(error, RequestValidationError) else 0,
    )


def of_error(error: RetainError, request_id: str) -> Response:
    """An error of the library as a response."""
    headers = {}
    if error.status in (429, 503):
        headers["Retry-After"] = str(error.details.get("seconds", RETRY_SECONDS))
    if error.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="retain"'
    more = {"field": error.details["field"]} if "field" in error.details else {}
    kind = _CAMEL.sub("-", type(error).__name__).lower()
    return answer(
        error.status, told(error, request_id), request_id, type=kind, headers=headers, **more
    )


def told(error: RetainError, request_id: str | None = None) -> str:
    """What a caller is told of an error; why the database failed is for the log alone."""
    if isinstance(error, StorageError):
        fields = {
            "error": type(error).__name__,
            "reason": reason(error),
            "request_id": request_id or None,
        }
        _log.warning("the database failed", extra={FIELDS: fields})
    return error.public


def reason(error: StorageError) -> str | None:
    """Why the database failed, in its own words, where these have nothing of what is stored."""
    said = str(error.details.get("problem", "")).partition("\n")[0]
    return said if said and isinstance(error, _PLAIN) else None


def _of_shape(wrong: Sequence[Any], request_id: str, beside: int) -> Response:
    """What does not have the shape that was asked for; `beside` is how many parts of a place only say where it came from."""
    told: dict[str, str] = {}
    for one in wrong:
        place = [
            str(part)
            for part in one["loc"][beside:]
            if not str(part).startswith(("function-", "list[", "dict["))
        ]
        told.setdefault(
            masking.mask(".".join(place)) or str((*one["loc"], "body")[0]), _said(one)
        )  # it may be a key
    detail = "; ".join(f"{where}: {what}" for where, what in list(told.items())[:_MOST_TOLD])
    bad_json = any(one["type"] == "json_invalid" for one in wrong)
    return answer(
        400 if bad_json else 422, detail, request_id, type="invalid", field=next(iter(told))
    )


def _said(one: Mapping[str, Any]) -> str:
    if one["type"] == "extra_forbidden":
        return "is not known here; check its name"
    if one["type"] == "missing":
        return "is needed"
    said = str(one["msg"])
    return said[:1].lower() + said[1:]


def request_id(request: Request) -> str:
    """The id that this request has in the logs."""
    return str(request.scope.get("state", {}).get("request_id", ""))


def install(app: FastAPI) -> None:
    """Answer every failure of an app in this form."""

    async def expected(request: Request, error: Exception) -> Response:
        return of(error, request)

    async def unexpected(request: Request, error: Exception) -> Response:
        detail = "This is a mistake in retain, or in what it runs on; the log has more under the request's id."
        return answer(500, detail, request_id(request), type="unexpected")

    for kind in EXPECTED:
        app.add_exception_handler(kind, expected)
    app.add_exception_handler(Exception, unexpected)

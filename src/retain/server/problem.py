"""Every failure as `application/problem+json` (RFC 9457): what is wrong, which field, what to do, and the request's id."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from retain.errors import RetainError

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
RETRY_SECONDS = 1
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


class Problem(BaseModel):
    """What went wrong."""

    type: str = Field(description="Which kind of problem, by its name.", examples=["/problems/not-found"])
    title: str
    status: int
    detail: str = Field(description="What is wrong, and what to do.")
    request_id: str
    field: str | None = Field(None, description="Which field of the request, where it is one.")


def answer(
    status: int, detail: str, request_id: str, *, type: str = "", headers: Mapping[str, str] | None = None, **more: Any
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
    return Response(json.dumps(body, ensure_ascii=False, default=str), status, dict(headers or {}), MEDIA)


def of_error(error: RetainError, request_id: str) -> Response:
    """An error of the library as a response."""
    headers = {}
    if error.status in (429, 503):
        headers["Retry-After"] = str(error.details.get("seconds", RETRY_SECONDS))
    if error.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="retain"'
    more = {"field": error.details["field"]} if "field" in error.details else {}
    kind = _CAMEL.sub("-", type(error).__name__).lower()
    return answer(error.status, str(error), request_id, type=kind, headers=headers, **more)


def request_id(request: Request) -> str:
    """The id that this request has in the logs."""
    return str(request.scope.get("state", {}).get("request_id", ""))


def install(app: FastAPI) -> None:
    """Answer every failure of an app in this form."""

    async def ours(request: Request, error: Exception) -> Response:
        assert isinstance(error, RetainError)
        return of_error(error, request_id(request))

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        problems = [(".".join(str(part) for part in one["loc"][1:]) or one["loc"][0], one["msg"]) for one in error.errors()]
        bad_json = any(one["type"] == "json_invalid" for one in error.errors())
        detail = "; ".join(f"{where}: {what}" for where, what in problems[:5])
        return answer(400 if bad_json else 422, detail, request_id(request), type="invalid", field=str(problems[0][0]))

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return answer(error.status_code, str(error.detail), request_id(request), headers=error.headers)

    async def unexpected(request: Request, error: Exception) -> Response:
        detail = "This is a mistake in retain, or in what it runs on; the log has more under the request's id."
        return answer(500, detail, request_id(request), type="unexpected")

    app.add_exception_handler(RetainError, ours)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(Exception, unexpected)

"""A route of somebody else's protocol: it says what it needs as ours do, and answers in its own form, wrong keys too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from retain.auth.principal import Permission


def add(
    app: FastAPI,
    method: str,
    path: str,
    needs: Permission,
    answer: Callable[[Request], Awaitable[Response]],
) -> None:
    """The route, outside of our own description of the API: it is somebody else's contract."""
    route = APIRoute(  # the app's own kind of route would answer a wrong key in our form, and not in theirs
        path,
        answer,
        methods=[method],
        response_model=None,
        include_in_schema=False,
        openapi_extra={"x-retain-permission": needs},
    )
    app.router.routes.append(route)

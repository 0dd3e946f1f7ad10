"""`/openapi.json`, and `/docs`: Swagger UI over it, from the files of the package swagger-ui-py.

Nothing is loaded from another host. Both need a key with the permission `read`.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from memorist.api import openapi
from memorist.base.errors import NotFound
from memorist.server.http.authentication import RequestAuthenticator

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>memorist: API reference</title>
<link rel="stylesheet" href="/docs/swagger-ui.css">
<script src="/docs/swagger-ui-bundle.js" defer></script>
<script src="/docs/start.js" defer></script>
</head>
<body><div id="swagger-ui"></div></body>
</html>
"""
_START = """SwaggerUIBundle({url: "/openapi.json", dom_id: "#swagger-ui", deepLinking: true});
"""
_CSP = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
"""Swagger UI sets styles on elements; scripts and everything else come from our own files."""

Respond = Callable[[Request], Awaitable[Response]]
Read = Callable[[Starlette], bytes]


_lock = threading.Lock()


def _document(app: Starlette) -> bytes:
    with _lock:  # it is written once, which takes a second
        return msgspec.json.encode(openapi.document(app))


def routes(authenticator: RequestAuthenticator) -> list[Route]:
    """Return the routes of the document, the page and its files."""
    script = "text/javascript"
    files: dict[str, tuple[str, Read]] = {
        "/openapi.json": ("application/json", _document),
        "/docs": ("text/html; charset=utf-8", lambda app: _PAGE.encode()),
        "/docs/start.js": (script, lambda app: _START.encode()),
        "/docs/swagger-ui.css": ("text/css", lambda app: _swagger_file("swagger-ui.css")),
        "/docs/swagger-ui-bundle.js": (script, lambda app: _swagger_file("swagger-ui-bundle.js")),
    }
    return [
        Route(path, _respond_with(authenticator, media_type, read), methods=["GET"])
        for path, (media_type, read) in files.items()
    ]


def _swagger_file(name: str) -> bytes:
    """Return a file of Swagger UI. Its package is not imported: only its files are needed."""
    spec = find_spec("swagger_ui")
    if spec is None or not spec.submodule_search_locations:
        raise NotFound(what="file", id=name)
    return Path(spec.submodule_search_locations[0], "static", name).read_bytes()


def _respond_with(authenticator: RequestAuthenticator, media_type: str, read: Read) -> Respond:
    """Return the handler of one file."""

    async def respond(request: Request) -> Response:
        await authenticator.authorize(request, "read")
        body = await run_in_threadpool(read, request.app)
        headers = {
            "Content-Type": media_type,
            "ETag": f'"{hashlib.sha256(body).hexdigest()[:32]}"',
            "Cache-Control": "private, no-cache",
        }
        if media_type.startswith("text/html"):
            headers["Content-Security-Policy"] = _CSP
        if headers["ETag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers)

    return respond

"""The web app at `/`, built from `web/` into `server/site`.

If it was not built, a page says how to build it. The files are read once. Browsers cache a file
with a hash in its name forever and revalidate the page itself, so a new release is seen at once.
Nothing here needs a key: all content comes from the API.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache, cached_property
from html import escape
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from memorist.api import problem
from memorist.base.errors import NotFound
from memorist.base.version import version
from memorist.server.http.guarded_request import styled

FOLDER = Path(__file__).parents[1] / "site"
PAGES = (
    "chat",
    "why",
    "agents",
    "memory",
    "search",
    "operations",
    "users",
    "setup",
    "sign-in",
)
"""Paths that return the page, with everything below them; the page does its own routing."""
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Only our own scripts and styles, no requests to other hosts, and no text becomes HTML."""
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
_PACKED = frozenset({".png", ".woff2", ".ico"})
# A word of eight lower-case letters is not a hash.
_HASHED = re.compile(r"-(?=[a-z-]*[A-Z0-9_])[A-Za-z0-9_-]{8}\.\w+$")
_FOR_GOOD = "public, max-age=31536000, immutable"
_GZIP = re.compile(
    r"(?:^|,)\s*(?:x-)?gzip\s*(?:;\s*q\s*=\s*(?:0?\.\d*[1-9]\d*|1(?:\.0*)?)\s*)?(?:,|$)",
    re.IGNORECASE,
)
_STYLE = """
body { font: 16px/1.6 system-ui, sans-serif; max-width: 40rem; margin: 4rem auto; padding: 0 1rem }
body { color: #1a1a1a; background: #fff }
h1 { font-size: 1.6rem; margin: 0 }
small { color: #666 } code { background: #f1f1f1; padding: .1em .3em; border-radius: 3px }
dt { margin-top: .8rem; font-weight: 600 } dd { margin: 0; color: #444 } a { color: #0b5cad }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #161616 } code { background: #2a2a2a } dd, small { color: #aaa } a { color: #7ab8f5 }
}"""
_UNBUILT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>memorist</title><style>{style}</style></head><body>
<main><h1>memorist</h1><small>{version}: memory for AI agents</small>
<p>The server runs. Its web app is not there, because building it needs Node.js 20.19, or 22.12 or newer. With Node.js,
install memorist again, or run <code>make site</code> in a clone; then restart the server.</p>
<dl>
<dt><a href="/docs">/docs</a></dt>
<dd>Every call, with examples; as a document for programs: <a href="/openapi.json">/openapi.json</a></dd>
<dt><code>/mcp</code></dt><dd>The same memory for agents that speak MCP (streamable HTTP)</dd>
<dt><code>/api/chat</code></dt><dd>A chat agent with this memory</dd>
<dt><a href="/healthz">/healthz</a>, <a href="/readyz">/readyz</a></dt>
<dd>Whether the server is alive, and whether it can work</dd>
</dl></main></body></html>"""


@dataclass(frozen=True)
class File:
    """A file of the web app with its response headers."""

    content: bytes
    headers: dict[str, str]
    compressible: bool

    @cached_property
    def packed(self) -> bytes | None:
        """The compressed content, if it is smaller."""
        packed = gzip.compress(self.content, mtime=0) if self.compressible else self.content
        return packed if len(packed) < len(self.content) else None

    def response(self, request: Request) -> Response:
        """Return the file, or 304 if the client has it."""
        headers = self.headers
        known_etags = request.headers.get("if-none-match", "")
        if headers["ETag"].removeprefix("W/") in known_etags or known_etags.strip() == "*":
            return Response(status_code=304, headers=headers)
        if _GZIP.search(request.headers.get("accept-encoding", "")) and self.packed is not None:
            return Response(self.packed, headers={**headers, "Content-Encoding": "gzip"})
        return Response(self.content, headers=headers)


@cache
def files(folder: Path) -> dict[str, File]:
    """Return the files of a built web app by path; empty if it was not built."""
    if not (folder / "index.html").is_file():
        return {}
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix in _TYPES)
    return {path.relative_to(folder).as_posix(): _read(path) for path in paths}


def _read(path: Path) -> File:
    content = path.read_bytes()
    headers = {
        "Content-Type": _TYPES[path.suffix],
        "ETag": f'W/"{hashlib.sha256(content).hexdigest()[:32]}"',
        "Cache-Control": _FOR_GOOD if _HASHED.search(path.name) else "no-cache",
        "Vary": "Accept-Encoding",
    }
    if path.suffix == ".html":
        headers["Content-Security-Policy"] = CSP
    return File(content, headers, compressible=path.suffix not in _PACKED)


Page = Callable[[Request], Awaitable[Response]]


def routes() -> list[Route]:
    """Return the routes of the page and of its files."""
    built_files = files(FOLDER)

    async def asset(request: Request) -> Response:
        file = built_files.get(f"assets/{request.path_params['path']}")
        if file is None:
            raise NotFound(what="file", id=request.url.path)
        return file.response(request)

    page = _page()
    paths = ("/", *(f"/{name}{below}" for name in PAGES for below in ("", "/{below:path}")))
    return [
        *(Route(path, page, methods=["GET"]) for path in paths),
        Route("/assets/{path:path}", asset, methods=["GET"]),
    ]


async def not_found(request: Request, error: Exception) -> Response:
    """Show people a page at an unknown address, and programs a problem."""
    if not _is_for_people(request):
        return problem.of(error, request)
    response = await _page()(request)
    if response.status_code == 200:  # and not 304
        response.status_code = 404
    return response


def _is_for_people(request: Request) -> bool:
    """Return whether a browser asks for a page, and not a program for data."""
    accepts_html = "text/html" in request.headers.get("accept", "")
    return accepts_html and request.method == "GET" and not request.url.path.startswith("/api/")


def _page() -> Page:
    """Return the handler of the page: the built one, or one that says how to build it."""
    if built_files := files(FOLDER):
        index = built_files["index.html"]

        async def page(request: Request) -> Response:
            return index.response(request)

    else:
        html = _UNBUILT.format(style=_STYLE, version=escape(version()))
        headers = {"Cache-Control": "no-cache"} | styled(_STYLE)

        async def page(request: Request) -> Response:
            return HTMLResponse(html, headers=headers)

    return page

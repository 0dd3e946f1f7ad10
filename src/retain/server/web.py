"""The page at `/`: what runs here, and where to go on. It stands here until there is a web app."""

from __future__ import annotations

import base64
import hashlib
from html import escape

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse

from retain.faces.command import version
from retain.gate.exchange import CSP

_STYLE = """
body { font: 16px/1.6 system-ui, sans-serif; max-width: 40rem; margin: 4rem auto; padding: 0 1rem }
body { color: #1a1a1a; background: #fff }
h1 { font-size: 1.6rem; margin: 0 }
small { color: #666 } code { background: #f1f1f1; padding: .1em .3em; border-radius: 3px }
dt { margin-top: .8rem; font-weight: 600 } dd { margin: 0; color: #444 } a { color: #0b5cad }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #161616 } code { background: #2a2a2a } dd { color: #aaa } a { color: #7ab8f5 }
}"""
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>retain</title><style>{style}</style></head><body>
<h1>retain</h1><small>{version}: memory for AI agents</small>
<dl>
<dt><a href="/docs">/docs</a></dt>
<dd>Every call, with examples; as a document for programs: <a href="/openapi.json">/openapi.json</a></dd>
<dt><code>/mcp</code></dt><dd>The same memory for agents that speak MCP (streamable HTTP)</dd>
<dt><code>/api/chat</code></dt><dd>A chat agent with this memory</dd>
<dt><a href="/healthz">/healthz</a>, <a href="/readyz">/readyz</a></dt>
<dd>Whether the server is alive, and whether it can work</dd>
</dl></body></html>"""


def styled(style: str) -> dict[str, str]:
    """The header of a page with a style of its own: that one is used, and nothing that somebody put there."""
    mark = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return {"Content-Security-Policy": f"{CSP}; style-src 'sha256-{mark}'"}


def add(app: FastAPI) -> None:
    """Give an app its page."""
    page = _PAGE.format(style=_STYLE, version=escape(version()))
    headers = styled(_STYLE)

    async def home(request: Request) -> HTMLResponse:
        return HTMLResponse(page, headers=headers)

    app.add_route("/", home, methods=["GET"], include_in_schema=False)

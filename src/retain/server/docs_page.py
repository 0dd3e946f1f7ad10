"""`/docs`: every operation on one page, written here from the OpenAPI document; it runs no script and loads nothing."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from retain.api import problem
from retain.server.authenticator import Authenticator
from retain.server.exchange import styled
from retain.server.openapi import METHODS

_CODE = re.compile("`([^`]+)`")
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a }
body { background: #fff } h1 { margin-bottom: 0 } h2 { margin: 2.5rem 0 .3rem }
nav { display: flex; flex-wrap: wrap; gap: .2rem .8rem } a { color: #0b5cad }
details { border: 1px solid #ddd; border-radius: 6px; margin: .4rem 0; padding: 0 .8rem }
summary { cursor: pointer; padding: .45rem 0; overflow-wrap: anywhere } summary b { display: inline-block; width: 4.2rem }
summary span { color: #555 } code, pre { font: 13px/1.45 ui-monospace, monospace; background: #f4f4f4; border-radius: 4px }
code { padding: .1em .3em } pre { padding: .6rem; overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 } td, th { text-align: left; vertical-align: top }
td, th { padding: .25rem .6rem .25rem 0; border-bottom: 1px solid #eee } small { color: #666 }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #161616 } code, pre { background: #262626 } a { color: #7ab8f5 }
  details, td, th { border-color: #333 } summary span, small { color: #999 }
}"""


class Documents:
    """What the app says of itself, for programs and for people: written when somebody first asks, and kept as bytes."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[bytes, dict[str, str]]] = {}

    async def get(self, path: str) -> tuple[bytes, dict[str, str]]:
        """A document and its headers; writing it takes seconds, and nobody else waits for that."""
        return self._kept[path] if self._kept else await run_in_threadpool(self._written, path)

    def _written(self, path: str) -> tuple[bytes, dict[str, str]]:
        with self._lock:
            if not self._kept:
                told = self._app.openapi()
                document = json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()
                page = "".join(_page(told)).encode()
                self._kept = {
                    "/openapi.json": (document, _headers("application/json", document)),
                    "/docs": (page, _headers("text/html; charset=utf-8", page) | styled(_STYLE)),
                }
            return self._kept[path]


def _headers(media: str, document: bytes) -> dict[str, str]:
    mark = hashlib.sha256(document).hexdigest()[:32]
    return {"Content-Type": media, "ETag": f'"{mark}"', "Cache-Control": "private, no-cache"}


def add(app: FastAPI, authenticator: Authenticator) -> None:
    """Give an app its documentation; who may read something may read it."""
    documents = Documents(app)

    async def document(request: Request) -> Response:
        try:
            await authenticator.authorize(request, "read")
        except problem.EXPECTED as error:
            return problem.of(error, request)
        body, headers = await documents.get(request.url.path)
        if headers["ETag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers)

    for path in ("/openapi.json", "/docs"):
        app.add_route(path, document, methods=["GET"], include_in_schema=False)


def _page(found: Mapping[str, Any]) -> Iterator[str]:
    info, about = found["info"], {tag["name"]: tag["description"] for tag in found.get("tags", ())}
    by_tag: dict[str, list[str]] = {}
    for path, item in found["paths"].items():
        for method in METHODS:
            if method in item:
                tag = (item[method].get("tags") or ["other"])[0]
                by_tag.setdefault(tag, []).append(
                    "".join(_operation(method, path, item[method], found["components"]))
                )
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{escape(info['title'])}: the API</title>"
    yield f"<style>{_STYLE}</style></head><body><h1>{escape(info['title'])}</h1><small>{escape(info['version'])} · "
    yield 'for programs: <a href="/openapi.json">/openapi.json</a></small>'
    yield "".join(f"<p>{_text(part)}</p>" for part in info["description"].split("\n\n"))
    yield (
        "<nav>"
        + "".join(f'<a href="#{escape(tag)}">{escape(tag)}</a>' for tag in by_tag)
        + "</nav>"
    )
    for tag, operations in by_tag.items():
        yield f'<h2 id="{escape(tag)}">{escape(tag)}</h2><p>{_text(about.get(tag, ""))}</p>{"".join(operations)}'
    yield "</body></html>"


def _operation(
    method: str, path: str, told: Mapping[str, Any], components: Mapping[str, Any]
) -> Iterator[str]:
    id = escape(told.get("operationId", f"{method}{path}"))
    yield f'<details id="{id}"><summary><b>{method.upper()}</b> <code>{escape(path)}</code> '
    yield f"<span>{_text(told.get('summary', ''))}</span></summary>"
    yield from (
        f"<p>{_text(part)}</p>" for part in told.get("description", "").split("\n\n") if part
    )
    rows = [
        (one["name"], one["in"], one.get("required", False), one["schema"], one)
        for one in told.get("parameters", ())
    ]
    for media, content in told.get("requestBody", {}).get("content", {}).items():
        shape = _named(content.get("schema", {}), components)
        needed = shape.get("required", ())
        rows += [
            (name, "body", name in needed, one, one)
            for name, one in shape.get("properties", {}).items()
        ]
        if not shape.get("properties"):
            rows.append(
                (media, "body", False, shape, {"description": "The content itself, as it is."})
            )
    if rows:
        yield "<table><tr><th>name</th><th>in</th><th>type</th><th></th></tr>"
        for name, place, required, shape, one in rows:
            said = f"{_text(one.get('description', ''))}{' <b>needed</b>' if required else ''}"
            cells = (f"<code>{escape(name)}</code>", place, escape(_type(shape)), said)
            yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
        yield "</table>"
    for sample in told.get("x-codeSamples", ()):
        yield f"<pre>{escape(sample['source'])}</pre>"
    yield "<table><tr><th>answer</th><th></th></tr>"
    for status, answer in sorted(told["responses"].items()):
        one = _named(answer, components)
        shapes = [_type(content.get("schema", {})) for content in one.get("content", {}).values()]
        if status < "400" or status in ("404", "409", "412", "422"):
            yield f"<tr><td>{status} <code>{escape(', '.join(shapes))}</code></td><td>{_text(one['description'])}</td></tr>"
    yield "</table></details>"


def _named(shape: Mapping[str, Any], components: Mapping[str, Any]) -> Mapping[str, Any]:
    _, _, kind, name = ("///" + shape.get("$ref", "")).rsplit("/", 3)
    found: Mapping[str, Any] = components.get(kind, {}).get(name, shape)
    return found


def _type(shape: Mapping[str, Any]) -> str:
    """A shape in a word or two."""
    if "$ref" in shape:
        return str(shape["$ref"]).rpartition("/")[2]
    if "anyOf" in shape:
        return " or ".join(dict.fromkeys(_type(one) for one in shape["anyOf"]))
    if "enum" in shape:
        return ", ".join(json.dumps(one) for one in shape["enum"])
    if shape.get("type") == "array":
        return f"list of {_type(shape.get('items', {}))}"
    return str(shape.get("format") or shape.get("type") or "anything")


def _text(said: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(said))

"""Contents as they are, in and out: a body that is no JSON is kept byte for byte, and while it is sent, never all in memory.

What comes out is bytes to be saved, whatever it says it is: nothing that somebody stored is ever shown as a page of ours.
"""

from __future__ import annotations

import errno
import hashlib
import tempfile
from collections.abc import AsyncIterator, Callable
from typing import IO, Any

from fastapi import FastAPI, Request
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from retain.api.responses import response
from retain.api.schemas import asked
from retain.base.errors import Full
from retain.memory import Scope
from retain.server.authenticator import Authenticator
from retain.server.handler import Call, Operation
from retain.server.routes import OCTETS

IN_MEMORY = 1 << 20
"""Up to this size a body is held in memory."""
PIECE = 256 << 10
_MEDIA = {
    "text/markdown": "markdown",
    "text/html": "html",
    "application/pdf": "pdf",
    "text/plain": "text",
}
_ABOUT = "With a body that is not JSON, which is then the content itself: "


def add(app: FastAPI, authenticator: Authenticator) -> None:
    """Let the ways that take large contents take them as they are, and the way that gives them give them piece by piece."""
    operations: dict[str, Operation] = app.state.operations
    operations["refs_content"].do = _content
    for name, field, keep in (
        ("refs_add", "content", _add_ref),
        ("refs_capture", "output", _capture),
        ("knowledge_add", "text", _add_document),
    ):
        operation = operations[name]
        said = asked(operation.endpoint, operation.method, (field,), in_query=True, name="Query")
        if name == "knowledge_add":
            said.model_fields["title"].default = ""  # a file has a title of its own, or its name
            said.model_rebuild(force=True)
        operation.take_as_it_is(said, _taken(operation, keep))
        _document(app, name, said)


def _taken(
    operation: Operation, keep: Callable[[Scope, IO[bytes], Call], Any]
) -> Callable[[Call], Any]:
    """How a body that is a content is taken: to a file first, since a slow sender must hold no thread and no memory."""

    async def take(call: Call) -> Response:
        with tempfile.SpooledTemporaryFile(IN_MEMORY) as file:
            digest = await _spool(call.request, file)
            call.body = (
                call.headers.get(b"content-type", b"") + b"\n" + digest
            )  # what makes a retry the same request

            def verb(scope: Scope) -> Any:
                file.seek(0)
                return keep(scope, file, call)

            return response(await run_in_threadpool(operation.done, call, verb))

    return take


async def _spool(request: Request, file: IO[bytes]) -> bytes:
    """A body into a file, written in a thread since it may be too large for memory; the SHA-256 of all of it."""
    held: list[bytes] = []
    size = 0
    digest = hashlib.sha256()

    def keep(data: bytes) -> None:
        digest.update(data)
        file.write(data)

    try:
        async for piece in request.stream():
            held.append(piece)
            size += len(piece)
            if size > IN_MEMORY:
                await run_in_threadpool(keep, b"".join(held))
                held, size = [], 0
        await run_in_threadpool(keep, b"".join(held))
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise Full(problem="there is no room for what is being sent") from None
    return digest.digest()


def _add_ref(scope: Scope, file: IO[bytes], call: Call) -> str:
    return scope.refs.prepare.keep(scope.refs.prepare(file, **call.named)).key


def _capture(scope: Scope, file: IO[bytes], call: Call) -> Any:
    start = file.read(IN_MEMORY + 1)
    if len(start) <= IN_MEMORY:
        found = scope.refs.capture(start, **call.named)
        return found.decode("utf-8", "replace") if isinstance(found, bytes) else found
    file.seek(0)
    prepared = scope.refs.prepare(file, **{"type": "command_output", **call.named})
    return scope.refs.prepare.keep(prepared, as_line=True).line


def _add_document(scope: Scope, file: IO[bytes], call: Call) -> Any:
    media = call.request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return scope.knowledge.add_data(file.read(), **{"media": _MEDIA.get(media), **call.named})


async def _content(call: Call) -> Response:
    key: str = call.named["key"]

    def opened() -> tuple[IO[bytes], int]:
        file = call.scope.refs.opening(key)
        size = file.seek(0, 2)
        file.seek(0)
        return file, size

    file, size = await run_in_threadpool(opened)
    headers = {
        "Content-Length": str(size),
        "Content-Disposition": "attachment",
        "X-Content-Type-Options": "nosniff",
        "Accept-Ranges": "none",
    }
    return StreamingResponse(_pieces(file), headers=headers, media_type=OCTETS)


async def _pieces(file: IO[bytes]) -> AsyncIterator[bytes]:
    with file:
        while piece := await run_in_threadpool(file.read, PIECE):
            yield piece


def _document(app: FastAPI, name: str, said: type[BaseModel]) -> None:
    """Say in the documentation what a body that is no JSON may be, and what stands in the query then."""
    route = next(
        route for route in app.router.routes if isinstance(route, APIRoute) and route.name == name
    )
    shapes = said.model_json_schema()["properties"]
    told = [
        {
            "name": field,
            "in": "query",
            "required": False,
            "description": _ABOUT + str(shapes[field].get("description", "")),
            "schema": {
                part: value
                for part, value in shapes[field].items()
                if part not in ("description", "title")
            },
        }
        for field in shapes
        if field not in ("user", "agent")
    ]
    extra = route.openapi_extra = route.openapi_extra or {}
    extra["parameters"] = [*extra.get("parameters", ()), *told]
    extra["requestBody"] = {"content": {OCTETS: {"schema": {"type": "string", "format": "binary"}}}}

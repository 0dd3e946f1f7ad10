"""Uploads and downloads of raw content.

The body of an upload is the content itself. It is stored byte for byte and spooled to a file while
it arrives, so a large upload is never held in memory. A download is always an attachment: stored
content is never shown as one of our own pages.
"""

from __future__ import annotations

import errno
import hashlib
import tempfile
from collections.abc import AsyncIterator, Callable
from typing import IO, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from retain.api.responses import response
from retain.api.schemas import build_request_model
from retain.base.errors import Full
from retain.memory import Scope
from retain.server.handler import Call, Handler, Respond
from retain.server.routes import OCTETS

MAX_BYTES_IN_MEMORY = 1 << 20
CHUNK_BYTES = 256 << 10
_FORMATS = {
    "text/markdown": "markdown",
    "text/html": "html",
    "application/pdf": "pdf",
    "text/plain": "text",
}

Store = Callable[[Scope, IO[bytes], Call], Any]


def add(app: Starlette) -> None:
    """Let the endpoints for large content accept uploads and send downloads."""
    handlers: dict[str, Handler] = app.state.handlers
    handlers["refs_content"].respond = _download
    _accept_uploads(handlers["refs_add"], "content", _add_ref)
    _accept_uploads(handlers["refs_capture"], "output", _capture)
    _accept_uploads(handlers["knowledge_add"], "text", _add_document)


def _accept_uploads(handler: Handler, field: str, store: Store) -> None:
    """Accept the parameter `field` as the body of a request."""
    model = build_request_model(
        handler.endpoint, handler.method, (field,), in_query=True, name="Query"
    )
    if "title" in model.model_fields:  # the title of the document or its file name is the default
        model.model_fields["title"].default = ""
        model.model_fields["media"].json_schema_extra = None  # unlike a text, it can be a PDF
        model.model_rebuild(force=True)
    handler.accept_uploads(model, _respond_to_upload(handler, store))


def _respond_to_upload(handler: Handler, store: Store) -> Respond:
    async def respond(call: Call) -> Response:
        with tempfile.SpooledTemporaryFile(MAX_BYTES_IN_MEMORY) as file:
            digest = await _spool(call.request, file)
            # Identifies the body for the Idempotency-Key.
            call.body = call.headers.get(b"content-type", b"") + b"\n" + digest

            def verb(scope: Scope) -> Any:
                file.seek(0)
                return store(scope, file, call)

            return response(await run_in_threadpool(handler.call_verb, call, verb))

    return respond


async def _spool(request: Request, file: IO[bytes]) -> bytes:
    """Write the body of a request to a file, in a thread; return its SHA-256 digest."""
    chunks: list[bytes] = []
    size = 0
    digest = hashlib.sha256()

    def write(data: bytes) -> None:
        digest.update(data)
        file.write(data)

    try:
        async for chunk in request.stream():
            chunks.append(chunk)
            size += len(chunk)
            if size > MAX_BYTES_IN_MEMORY:
                await run_in_threadpool(write, b"".join(chunks))
                chunks = []
                size = 0
        await run_in_threadpool(write, b"".join(chunks))
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise Full(problem="no space left for the upload") from None
    return digest.digest()


def _add_ref(scope: Scope, file: IO[bytes], call: Call) -> str:
    return scope.refs.prepare.keep(scope.refs.prepare(file, **call.arguments)).key


def _capture(scope: Scope, file: IO[bytes], call: Call) -> Any:
    start = file.read(MAX_BYTES_IN_MEMORY + 1)
    if len(start) <= MAX_BYTES_IN_MEMORY:
        result = scope.refs.capture(start, **call.arguments)
        return result.decode("utf-8", "replace") if isinstance(result, bytes) else result
    file.seek(0)
    prepared = scope.refs.prepare(file, **{"type": "command_output", **call.arguments})
    return scope.refs.prepare.keep(prepared, as_line=True).line


def _add_document(scope: Scope, file: IO[bytes], call: Call) -> Any:
    media_type = call.request.headers.get("content-type", "").partition(";")[0].strip().lower()
    arguments = {"media": _FORMATS.get(media_type), **call.arguments}
    return scope.knowledge.add_data(file.read(), **arguments)


async def _download(call: Call) -> Response:
    key: str = call.arguments["key"]

    def open_content() -> tuple[IO[bytes], int]:
        file = call.scope.refs.opening(key)
        size = file.seek(0, 2)
        file.seek(0)
        return file, size

    file, size = await run_in_threadpool(open_content)
    headers = {
        "Content-Length": str(size),
        "Content-Disposition": "attachment",
        "Accept-Ranges": "none",
    }
    return StreamingResponse(_chunks(file), headers=headers, media_type=OCTETS)


async def _chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
    with file:
        while chunk := await run_in_threadpool(file.read, CHUNK_BYTES):
            yield chunk

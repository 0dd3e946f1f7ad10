"""Uploads and downloads of raw content.

The body of an upload is the content itself. It is stored byte for byte and spooled to a file while
it arrives, so a large upload is never held in memory. A download is always an attachment: stored
content is never shown as one of our own pages.
"""

from __future__ import annotations

import errno
import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from memorist.api.responses import response
from memorist.api.route import OCTETS
from memorist.api.schemas import build_request_model
from memorist.base.errors import Full
from memorist.kinds.refs import NewReference, Ref
from memorist.memory import Scope
from memorist.server.http.verb_handler import Call, VerbHandler

MAX_BYTES_IN_MEMORY = 1 << 20
CHUNK_BYTES = 256 << 10
_FORMATS = {
    "text/markdown": "markdown",
    "text/html": "html",
    "application/pdf": "pdf",
    "text/plain": "text",
}


class UploadHandler(VerbHandler):
    """Accepts one parameter of its verb as the body of the request, too."""

    content: str
    """The name of that parameter."""

    def build_upload_model(self) -> type[BaseModel]:
        """Return the other parameters of the verb, which are in the query."""
        return build_request_model(
            self.endpoint, self.method, (self.content,), in_query=True, name="Query"
        )

    def store(self, scope: Scope, file: IO[bytes], call: Call) -> Any:
        """Call the verb with the uploaded content."""
        raise NotImplementedError

    async def respond_to_upload(self, call: Call) -> Response:
        """Write the body to a file, then call the verb in a thread."""
        with tempfile.SpooledTemporaryFile(MAX_BYTES_IN_MEMORY) as file:
            digest = await _spool(call.request, file)
            # Identifies the body for the Idempotency-Key.
            call.body = call.headers.get(b"content-type", b"") + b"\n" + digest

            def verb(scope: Scope) -> Any:
                file.seek(0)
                return self.store(scope, file, call)

            return response(await run_in_threadpool(self.call_verb, call, verb))


class RefHandler(UploadHandler):
    """Adds a reference."""

    content = "content"

    def store(self, scope: Scope, file: IO[bytes], call: Call) -> Ref:
        """Add the content."""
        return scope.refs.prepare.keep(scope.refs.prepare(NewReference(file, **call.arguments)))


class CaptureHandler(UploadHandler):
    """Captures the output of a tool."""

    content = "output"

    def store(self, scope: Scope, file: IO[bytes], call: Call) -> Any:
        """Capture the output; a large one is not held in memory."""
        start = file.read(MAX_BYTES_IN_MEMORY + 1)
        if len(start) <= MAX_BYTES_IN_MEMORY:
            result = scope.refs.capture(start, **call.arguments)
            return result.decode("utf-8", "replace") if isinstance(result, bytes) else result
        file.seek(0)
        new = NewReference(file, **{"type": "command_output", **call.arguments})
        prepared = scope.refs.prepare(new)
        return scope.refs.prepare.keep(prepared, as_line=True).line


class DocumentHandler(UploadHandler):
    """Adds a document."""

    content = "text"

    def build_upload_model(self) -> type[BaseModel]:
        """Return the parameters; the title of the document or its file name is the default."""
        model = super().build_upload_model()
        model.model_fields["title"].default = ""
        model.model_fields["media"].json_schema_extra = None  # unlike a text, it can be a PDF
        model.model_rebuild(force=True)
        return model

    def store(self, scope: Scope, file: IO[bytes], call: Call) -> Any:
        """Add the document, in the format of its media type."""
        media_type = call.request.headers.get("content-type", "").partition(";")[0].strip().lower()
        arguments = {"media": _FORMATS.get(media_type), **call.arguments}
        return scope.documents.add_data(file.read(), **arguments)


class DownloadHandler(VerbHandler):
    """Sends the content of a reference."""

    async def respond(self, call: Call) -> Response:
        """Send the content in chunks."""

        def open_content() -> tuple[IO[bytes], int]:
            file = call.scope.refs.opening(call.arguments["key"])
            size = file.seek(0, 2)
            file.seek(0)
            return file, size

        file, size = await run_in_threadpool(open_content)
        headers = {
            "Content-Length": str(size),
            "Content-Disposition": "attachment",
            "Accept-Ranges": "none",
        }
        return StreamingResponse(read_chunks(file), headers=headers, media_type=OCTETS)


async def _spool(request: Request, file: IO[bytes]) -> bytes:
    """Write the body of a request to a file, in a thread; return its SHA-256 digest."""
    chunks: list[bytes] = []
    size = 0
    digest = hashlib.sha256()

    def write(data: bytes) -> None:
        digest.update(data)
        file.write(data)

    with checking_space("the upload"):
        async for chunk in request.stream():
            chunks.append(chunk)
            size += len(chunk)
            if size > MAX_BYTES_IN_MEMORY:
                await run_in_threadpool(write, b"".join(chunks))
                chunks = []
                size = 0
        await run_in_threadpool(write, b"".join(chunks))
    return digest.digest()


def read_chunks(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the content of a file in chunks, and close it."""
    with file:
        yield from iter(lambda: file.read(CHUNK_BYTES), b"")


@contextmanager
def checking_space(what: str) -> Iterator[None]:
    """Raise Full if there is no space left for a temporary file."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise Full(problem=f"no space left for {what} in the folder for temporary files") from None

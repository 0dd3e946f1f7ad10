"""One request and its response as they pass the middleware.

Counts and times the body while it arrives, and adds the common headers to the response.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from retain.api import problem
from retain.server.rate_limit import Rate

CSP = (
    "default-src 'self'; script-src 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
SECURITY_HEADERS = (
    (b"content-security-policy", CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
PRIVATE_PATHS = ("/api", "/agent", "/mcp", "/metrics")
BYTES_PER_SECOND = 64 << 10
"""A body may take `REQUEST_SECONDS`, plus one second for each of these many bytes received."""
MAX_JSON_CONTAINERS = 200_000
"""Maximum number of lists and objects in a JSON body. A million of them fit into 3 MB, and parsing
them would block the server for seconds."""
LINGER_SECONDS = 1.0
"""A rejected body is read and dropped for this time. Closing the connection at once would lose the
response."""
_MAX_STRINGS = 1_000_000
_STRING = re.compile(rb'"[^"]*"')
_NO_STORE = (b"cache-control", b"no-store")
_CLOSE = (b"connection", b"close")
_CHECK_SECONDS = 0.2
_DISCONNECT = {"type": "http.disconnect"}
_PREFLIGHT_HEADERS = (
    (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
    (
        b"access-control-allow-headers",
        b"authorization, x-api-key, content-type, accept, idempotency-key, if-match, "
        b"if-none-match, last-event-id, mcp-protocol-version, mcp-session-id, x-request-id, "
        b"x-retain-user, x-retain-agent",
    ),
    (b"access-control-max-age", b"600"),
)
_EXPOSED_HEADERS = (
    b"access-control-expose-headers",
    b"etag, location, retry-after, x-request-id, mcp-session-id, www-authenticate",
)


class Rejected(Exception):
    """Raised when the middleware rejects a request."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        seconds: float | None = None,
        close_connection: bool = False,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = {} if seconds is None else {"Retry-After": str(max(1, math.ceil(seconds)))}
        self.close_connection = close_connection


class GuardedRequest:
    """One request and its response."""

    __slots__ = (
        "_deadline",
        "_is_private",
        "_learn",
        "_request_id",
        "_send",
        "allowed_origin",
        "body_complete",
        "close_connection",
        "digest",
        "is_long",
        "json_chunks",
        "max_bytes",
        "peer",
        "receive_raw",
        "received_bytes",
        "rejected",
        "sent_bytes",
        "started_at",
        "state",
        "status",
        "wrong_keys",
    )

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        request_id: str,
        deadline: BodyDeadline,
        learn: Learn,
    ) -> None:
        self._deadline = deadline
        self._learn = learn
        self._send = send
        self._request_id = request_id
        self._is_private = scope["path"].startswith(PRIVATE_PATHS)
        self.receive_raw = receive
        self.received_bytes = 0
        self.sent_bytes = 0
        self.status = 0
        """The status of the response; 0 until it starts."""
        self.started_at = 0.0
        self.body_complete = False
        self.close_connection = False
        """True to close the connection after the response."""
        self.rejected = False
        """True once the middleware has responded; the response of the app is then dropped."""
        self.allowed_origin: str | None = None
        """The foreign origin of the request, if it is allowed."""
        self.digest: bytes | None = None
        """Hash of the credential."""
        self.wrong_keys: Rate | None = None
        """Counts the credential if it is wrong; None if there is none."""
        self.is_long = False
        """True for a request that waits for a model or for events."""
        self.max_bytes = 0
        self.json_chunks: list[bytes] | None = None
        """The JSON body so far; None for an upload."""
        self.state = scope["state"]
        """State of the request; has a principal once it is authenticated."""
        self.peer: str = (scope.get("client") or ("",))[0]

    async def receive(self) -> Message:
        """Return the next part of the body; reject a body that is too large or too slow."""
        if self.rejected:
            return _DISCONNECT
        if self.body_complete:
            return await self.receive_raw()
        try:
            message = await self._deadline.receive(self)
        except TimeoutError:
            seconds = f"{self._deadline.seconds:g}"
            text = f"The request did not arrive within {seconds} seconds."
            await self.reject(Rejected(408, text, close_connection=True))
            return _DISCONNECT
        if message["type"] == "http.request":
            chunk = message.get("body", b"")
            self.received_bytes += len(chunk)
            self.body_complete = not message.get("more_body", False)
            if self.received_bytes > self.max_bytes:
                await self.reject(self.too_large())
                return _DISCONNECT
            if self.json_chunks is not None:
                self.json_chunks.append(chunk)
                if self.body_complete and has_too_many_parts(self.json_chunks):
                    text = f"The body has more than {MAX_JSON_CONTAINERS:,} lists and objects."
                    await self.reject(Rejected(413, text))
                    return _DISCONNECT
                if self.body_complete:
                    self.json_chunks = None
        return message

    async def send(self, message: Message) -> None:
        """Pass on the response of the app, with the common headers."""
        if self.rejected:
            return
        if message["type"] == "http.response.start":
            self._learn(self, message["status"])
        await self._send_own(message)

    async def answer_preflight(self) -> None:
        """Answer a CORS preflight request."""
        await self._send_own(
            {"type": "http.response.start", "status": 204, "headers": _PREFLIGHT_HEADERS}
        )
        await self._send_own({"type": "http.response.body", "body": b""})

    async def reject(self, rejected: Rejected) -> None:
        """Respond instead of the app."""
        self.rejected = True
        if self.status:
            return
        response = problem.answer(
            rejected.status, str(rejected), self._request_id, headers=rejected.headers
        )
        self.close_connection = self.close_connection or rejected.close_connection
        await self._send_own(
            {
                "type": "http.response.start",
                "status": rejected.status,
                "headers": list(response.raw_headers),
            }
        )
        await self._send_own(
            {
                "type": "http.response.body",
                "body": response.body,
                "more_body": rejected.close_connection,
            }
        )
        if rejected.close_connection:
            await self._linger()
            await self._send_own({"type": "http.response.body", "body": b""})

    async def _send_own(self, message: Message) -> None:
        """Send a part of a response, and count it for the log."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = self._with_common_headers(message.get("headers", ()))
        else:
            self.sent_bytes += len(message.get("body", b""))
        await self._send(message)

    def too_large(self) -> Rejected:
        """Return the error for a body over the limit."""
        text = f"The body is larger than the limit of {self.max_bytes:,} bytes."
        return Rejected(413, text, close_connection=True)

    async def _linger(self) -> None:
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                while (await self.receive_raw()).get("more_body"):
                    pass
        except TimeoutError:
            return

    def _with_common_headers(self, headers: Any) -> list[tuple[bytes, bytes]]:
        result = [*headers, (b"x-request-id", self._request_id.encode())]
        names = {name for name, _ in headers}
        result += [header for header in SECURITY_HEADERS if header[0] not in names]
        if self._is_private and b"cache-control" not in names:
            result.append(_NO_STORE)
        if self.close_connection:
            result.append(_CLOSE)
        if self.allowed_origin:
            result += [
                (b"access-control-allow-origin", self.allowed_origin.encode()),
                _EXPOSED_HEADERS,
                (b"vary", b"Origin"),
            ]
        return result


def styled(style: str) -> dict[str, str]:
    """Return the CSP header of a page with an inline style: only this style is allowed."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return {"Content-Security-Policy": f"{CSP}; style-src 'sha256-{digest}'"}


def has_too_many_parts(chunks: list[bytes]) -> bool:
    """Return whether JSON has too many lists and objects; brackets inside strings do not count."""
    if sum(chunk.count(b"[") + chunk.count(b"{") for chunk in chunks) <= MAX_JSON_CONTAINERS:
        return False
    body = b"".join(chunks).replace(b"\\\\", b"").replace(b'\\"', b"")
    if body.count(b'"') > 2 * _MAX_STRINGS:
        return True
    body = _STRING.sub(b"", body)
    return body.count(b"[") + body.count(b"{") > MAX_JSON_CONTAINERS


Learn = Callable[[GuardedRequest, int], None]
"""Called with the status of the response."""


class BodyDeadline:
    """Limits how long bodies may take. One periodic check is cheaper than a timer per request."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.waiting_by_peer: Counter[str] = Counter()
        """Bodies that are still arriving, by the address of the client."""
        self.waiting_long = 0
        """Those of them that belong to long-running requests."""
        self._waiting: dict[GuardedRequest, asyncio.Task[Any]] = {}
        self._late: set[GuardedRequest] = set()
        self._is_scheduled = False

    def waiting(self, *, long: bool) -> int:
        """Return how many bodies are still arriving, of long-running or of ordinary requests."""
        return self.waiting_long if long else len(self._waiting) - self.waiting_long

    async def receive(self, guarded: GuardedRequest) -> Message:
        """Return the next part of a body, or raise TimeoutError."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        guarded.started_at = guarded.started_at or loop.time()
        self._waiting[guarded] = task
        self.waiting_by_peer[guarded.peer] += 1
        self.waiting_long += guarded.is_long
        if not self._is_scheduled:
            self._is_scheduled = True
            loop.call_later(_CHECK_SECONDS, self._check, loop)
        try:
            return await guarded.receive_raw()
        except asyncio.CancelledError:
            if guarded in self._late and not task.uncancel():
                raise TimeoutError from None
            raise
        finally:
            del self._waiting[guarded]
            self._late.discard(guarded)
            self.waiting_long -= guarded.is_long
            self.waiting_by_peer[guarded.peer] -= 1
            if not self.waiting_by_peer[guarded.peer]:
                del self.waiting_by_peer[guarded.peer]

    def _check(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel the tasks whose bodies are late."""
        now = loop.time()
        for guarded, task in self._waiting.items():
            allowed = self.seconds + guarded.received_bytes / BYTES_PER_SECOND
            if now - guarded.started_at > allowed and guarded not in self._late:
                self._late.add(guarded)
                task.cancel()
        self._is_scheduled = bool(self._waiting)
        if self._is_scheduled:
            loop.call_later(_CHECK_SECONDS, self._check, loop)

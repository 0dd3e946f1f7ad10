"""One request and its response as they pass the middleware.

Counts and times the body while it arrives, and adds the common headers to the response.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import math
import re
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from memorist.api import problem
from memorist.server.http.rate_limit import RETRY_SECONDS, Rate, network_of

CSP = (
    "default-src 'self'; script-src 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
CSP_HEADER = (b"content-security-policy", CSP.encode())
"""For a response that has no policy of its own."""
SECURITY_HEADERS = (
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
MAX_BODIES_PER_ADDRESS = 32
MAX_UNAUTHENTICATED_BODIES = 256
"""Bodies that arrive at the same time before their requests are authenticated."""
MAX_BODIES_PER_KEY = 128
MAX_BODIES_PER_TENANT = 512
"""Bodies of authenticated requests that arrive at the same time."""
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
        b"x-memorist-user, x-memorist-agent",
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
        "_bodies",
        "_is_private",
        "_learn",
        "_lingers",
        "_request_id",
        "_send",
        "address",
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
        bodies: ArrivingBodies,
        learn: Learn,
    ) -> None:
        self._bodies = bodies
        self._learn = learn
        self._send = send
        self._request_id = request_id
        self._lingers = False
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
        self.address: str = (scope.get("client") or ("",))[0]
        self.peer = network_of(self.address)
        """The client in limits for each address."""

    async def receive(self) -> Message:
        """Return the next part of the body; reject a body that is too large or too slow."""
        if self.rejected:
            return _DISCONNECT
        if self.body_complete:
            return await self.receive_raw()
        try:
            message = await self._bodies.receive(self)
        except Rejected as rejected:
            await self.reject(rejected)
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
                if self.body_complete and self.received_bytes > MAX_JSON_CONTAINERS:
                    if has_too_many_parts(self.json_chunks):
                        text = f"The body has more than {MAX_JSON_CONTAINERS:,} lists and objects."
                        await self.reject(Rejected(413, text))
                        return _DISCONNECT
                    self.json_chunks = None
        return message

    async def send(self, message: Message) -> None:
        """Pass on the response of the app, with the common headers."""
        if self.rejected:
            return
        if message["type"] == "http.response.start":
            self._learn(self, message["status"])
        await self._send_own(message)

    async def respond_to_preflight(self) -> None:
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
        response = problem.response(
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
        self._lingers = rejected.close_connection

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

    async def linger(self) -> None:
        """Read and drop the rest of a rejected body. By now the request holds no slot."""
        if not self._lingers:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while (await self.receive_raw()).get("more_body"):
                    pass
        await self._send_own({"type": "http.response.body", "body": b""})

    def _with_common_headers(self, headers: Any) -> list[tuple[bytes, bytes]]:
        result = [*headers, (b"x-request-id", self._request_id.encode())]
        names = {name for name, _ in headers}
        if b"content-security-policy" not in names:
            result.append(CSP_HEADER)
        result += SECURITY_HEADERS
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


class ArrivingBodies:
    """The bodies that are still arriving, with limits on their number and their time.

    A body counts against its key and tenant if the request is authenticated. Requests are
    authenticated before their body is read wherever possible. The others, such as sign-ins, have a
    separate limit per address and in all. At that limit the oldest unfinished body is dropped, so
    one client cannot block the sign-ins of others.

    One periodic check of the time is cheaper than a timer per request.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.waiting_long = 0
        """Bodies of long-running requests."""
        self._waiting: dict[GuardedRequest, asyncio.Task[Any]] = {}
        self._count: dict[Hashable, int] = {}
        """Bodies by key, tenant and address; those of all strangers under None."""
        self._dropped: dict[GuardedRequest, Rejected] = {}
        self._is_scheduled = False

    def waiting(self, *, long: bool) -> int:
        """Return how many bodies are still arriving, of long-running or of ordinary requests."""
        return self.waiting_long if long else len(self._waiting) - self.waiting_long

    async def receive(self, guarded: GuardedRequest) -> Message:
        """Return the next part of a body. Raise Rejected if it is late or one too many."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        guarded.started_at = guarded.started_at or loop.time()
        counted = self._take_slot(guarded)
        self._waiting[guarded] = task
        self.waiting_long += guarded.is_long
        if not self._is_scheduled:
            self._is_scheduled = True
            loop.call_later(_CHECK_SECONDS, self._check, loop)
        try:
            return await guarded.receive_raw()
        except asyncio.CancelledError:
            if guarded in self._dropped and not task.uncancel():
                raise self._dropped[guarded] from None
            raise
        finally:
            del self._waiting[guarded]
            self._dropped.pop(guarded, None)
            self.waiting_long -= guarded.is_long
            for name in counted:
                self._count[name] -= 1
                if not self._count[name]:
                    del self._count[name]

    def _take_slot(self, guarded: GuardedRequest) -> tuple[Hashable, Hashable]:
        """Count a body and return the names under which it counts. Raise Rejected over a limit."""
        count = self._count.get
        principal = guarded.state.get("principal")
        names: tuple[Hashable, Hashable]
        if principal is None:
            names = guarded.peer, None
            if count(guarded.peer, 0) >= MAX_BODIES_PER_ADDRESS:
                self._drop_oldest(guarded.peer)
            elif count(None, 0) >= MAX_UNAUTHENTICATED_BODIES:
                self._drop_oldest(None)
        else:
            names = (principal.tenant, principal.name), (principal.tenant,)
            if (
                count(names[0], 0) >= MAX_BODIES_PER_KEY
                or count(names[1], 0) >= MAX_BODIES_PER_TENANT
            ):
                raise too_many_bodies()
        for name in names:
            self._count[name] = count(name, 0) + 1
        return names

    def _drop_oldest(self, peer: str | None) -> None:
        """Drop the body of a stranger, from an address or from any, that began to arrive first."""
        strangers = (
            guarded
            for guarded in self._waiting
            if "principal" not in guarded.state
            and peer in (None, guarded.peer)
            and guarded not in self._dropped
        )
        oldest = min(strangers, key=lambda guarded: guarded.started_at, default=None)
        if oldest is None:
            raise too_many_bodies()
        self._drop(oldest, too_many_bodies())

    def _drop(self, guarded: GuardedRequest, reason: Rejected) -> None:
        self._dropped[guarded] = reason
        self._waiting[guarded].cancel()

    def _check(self, loop: asyncio.AbstractEventLoop) -> None:
        """Drop the bodies that are late."""
        now = loop.time()
        for guarded in self._waiting:
            allowed = self.seconds + guarded.received_bytes / BYTES_PER_SECOND
            if now - guarded.started_at > allowed and guarded not in self._dropped:
                text = f"The request did not arrive within {self.seconds:g} seconds."
                self._drop(guarded, Rejected(408, text, close_connection=True))
        self._is_scheduled = bool(self._waiting)
        if self._is_scheduled:
            loop.call_later(_CHECK_SECONDS, self._check, loop)


def too_many_bodies() -> Rejected:
    """Return the error for a body over the number that may arrive at the same time."""
    text = f"Too many uploads in progress for your key or tenant. Retry in {RETRY_SECONDS} s."
    return Rejected(503, text, seconds=RETRY_SECONDS, close_connection=True)

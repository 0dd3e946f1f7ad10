"""What stands before everything: a request by a strange name, from a strange page, too large or too often goes no further.

It answers with the request's id and the security headers, whoever made the answer, and never reads a body that is too large.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import random
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from anyio import to_thread
from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from retain.errors import SettingsError
from retain.server import life, problem
from retain.server.door import loopback
from retain.server.rate import Rate
from retain.settings import Settings

HEALTH = frozenset({"/healthz", "/readyz", "/metrics"})
"""Always answered: whoever looks after a server asks here when it has too much to do."""
LONG = ("/api/chat", "/agent/", "/api/notes/changes", "/api/notes/stream")
"""What waits for models or for news is counted apart, or a few of them would keep everybody out."""
CSP = "default-src 'self'; script-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
SECURITY = (
    (b"content-security-policy", CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
PRIVATE = ("/api", "/agent", "/mcp", "/metrics")
BYTES_PER_SECOND = 64 << 10
"""A body may take `request_seconds`, and a second more for each so many bytes that have come."""
LINGER_SECONDS = 1.0
"""So long a body that was refused is read and dropped: a connection closed at once would take the answer with it."""
RETRY_SECONDS = 1
_NO_STORE = (b"cache-control", b"no-store")
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_ONCE = frozenset({b"host", b"origin", b"content-length", b"authorization", b"x-api-key", b"content-encoding"})
_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_HOST = re.compile(rb"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?")
_ORIGIN = re.compile(r"https?://[a-z0-9.\[\]:-]+")
_MOST_NAMES = 1000
_ANYWHERE = ("0.0.0.0", "::")  # noqa: S104 - addresses to listen on, and no names to be called by
_DISCONNECT = {"type": "http.disconnect"}
_PREFLIGHT = (
    (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
    (
        b"access-control-allow-headers",
        b"authorization, x-api-key, content-type, accept, idempotency-key, if-match, if-none-match, last-event-id, "
        b"mcp-protocol-version, mcp-session-id, x-request-id, x-retain-user, x-retain-agent",
    ),
    (b"access-control-max-age", b"600"),
)
_EXPOSED = (b"access-control-expose-headers", b"etag, location, retry-after, x-request-id, mcp-session-id, www-authenticate")


class Refused(Exception):
    """A request that does not go on."""

    def __init__(self, status: int, detail: str, *, seconds: float | None = None, closes: bool = False) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = {} if seconds is None else {"Retry-After": str(max(1, math.ceil(seconds)))}
        self.closes = closes


class Guard:
    """The outermost layer of an app."""

    def __init__(self, settings: Settings, stopping: asyncio.Event) -> None:
        self.app: ASGIApp
        self.in_flight = 0
        self.long = 0
        self.settings = settings
        self.known: set[bytes] = set()
        """Digests of credentials that were let in: these are not slowed down by others' wrong ones."""
        self._stopping = stopping
        self._hosts = _hosts(settings)
        self._called: set[bytes] = set()
        self._origins = _origins(settings)
        self._rate = Rate(settings.rate_per_second)
        self.strangers = Rate(settings.rate_per_second)
        self._uploads = (("/api/refs", settings.max_ref_bytes), ("/api/knowledge", settings.max_document_bytes))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it."""
        if scope["type"] != "http":
            await (self.app(scope, receive, send) if scope["type"] == "lifespan" else send({"type": "websocket.close"}))
            return
        headers = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        request_id = given.decode() if _ID.fullmatch(given) else f"{random.getrandbits(96):024x}"
        scope.setdefault("state", {})["request_id"] = request_id
        exchange = Exchange(self, scope, headers, receive, send, request_id)
        path = scope["path"]
        long = path.startswith(LONG) or (path == "/mcp" and scope["method"] == "GET")
        try:
            self._check(scope, headers, exchange)
            if exchange.cross and b"access-control-request-method" in headers and scope["method"] == "OPTIONS":
                await exchange.allow()
                return
            if path not in HEALTH:
                self._check_load(self.long if long else self.in_flight)
                self._check_rate(headers, exchange)
            hears = exchange.receive if self._check_body(scope, headers, exchange) else receive
        except Refused as refused:
            await exchange.refuse(refused)
            return
        self.in_flight += not long
        self.long += long
        try:
            await self.app(scope, hears, exchange.send)
        except Exception:
            if not exchange.over:
                raise
        finally:
            self.in_flight -= not long
            self.long -= long

    def _check(self, scope: Scope, headers: Mapping[bytes, bytes], exchange: Exchange) -> None:
        """By which name and from which page it comes."""
        if len(headers) != len(scope["headers"]):
            names = [name for name, _ in scope["headers"]]
            if twice := next((name for name in _ONCE if names.count(name) > 1), None):
                raise Refused(400, f"The header {twice.decode()} is there twice: send it once.", closes=True)
        host = headers.get(b"host", b"")
        if host not in self._called:
            self._check_host(host, scope)
        origin = headers.get(b"origin")
        if origin is not None:
            self._check_origin(origin.decode("latin-1"), host.decode("latin-1"), scope, exchange)
        elif scope["method"] not in _SAFE and headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin"):
            raise Refused(403, "A page of another site may not do this.")

    def _check_host(self, host: bytes, scope: Scope) -> None:
        """A page whose own name was pointed at this machine calls us by that name: so every name must be known."""
        found = _HOST.fullmatch(host.lower())
        name = found[1].decode().strip("[]") if found else ""
        here = (scope.get("server") or ("",))[0]
        if not name or (name not in self._hosts and name != here):
            said = "This server is not called by that name: call it by its address, or add the name to allowed_hosts."
            raise Refused(421, said)
        if len(self._called) < _MOST_NAMES:
            self._called.add(host)

    def _check_origin(self, origin: str, host: str, scope: Scope, exchange: Exchange) -> None:
        if origin in self._origins:
            exchange.cross = origin
        elif origin not in (f"{scope.get('scheme', 'http')}://{host}", f"https://{host}"):  # the latter through a proxy
            said = "A page of that origin may not call this server: add the origin to allowed_origins."
            raise Refused(403, said)

    def _check_load(self, running: int) -> None:
        """Whether there is room for one more."""
        if self._stopping.is_set():
            raise Refused(503, "The server is stopping: try again in a moment.", seconds=RETRY_SECONDS, closes=True)
        if running >= self.settings.max_in_flight:
            said = f"The server has enough to do (max_in_flight is {running}): try again in a moment."
            raise Refused(503, said, seconds=RETRY_SECONDS)

    def _check_rate(self, headers: Mapping[bytes, bytes], exchange: Exchange) -> None:
        """Whether its sender has been asking too often; each key has an account, also before it is looked at."""
        if not self.settings.rate_per_second:
            return
        credential = headers.get(b"authorization") or headers.get(b"x-api-key")
        if credential is None:
            early = 0.0 if exchange.peer_is_here else self._rate.take(exchange.peer)
        else:
            exchange.digest = digest = hashlib.sha256(credential).digest()
            early = self._rate.take(digest)
            if not early and digest not in self.known:
                early = self.strangers.empty(exchange.peer)
        if early:
            said = f"Too many requests: at most {self.settings.rate_per_second:g} a second (rate_per_second)."
            raise Refused(429, said, seconds=early)

    def _check_body(self, scope: Scope, headers: Mapping[bytes, bytes], exchange: Exchange) -> bool:
        """Whether there is a body to count while it is read; one that says that it is too large is not read at all."""
        length = headers.get(b"content-length")
        if length is None and b"transfer-encoding" not in headers:
            return False
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise Refused(415, "Content-Encoding: a body is sent as it is here, not compressed.", closes=True)
        exchange.limit = self._limit(scope["path"], headers)
        if length is not None:
            if not length.isdigit():
                raise Refused(400, "Content-Length: must be a number of bytes.", closes=True)
            if len(length) > 15 or int(length) > exchange.limit:
                raise exchange.too_large()
        return True

    def _limit(self, path: str, headers: Mapping[bytes, bytes]) -> int:
        """The largest body: contents as they are may be large, since they need not be held in memory; JSON may not."""
        if headers.get(b"content-type", b"application/json").partition(b";")[0].strip().lower() != b"application/json":
            for prefix, limit in self._uploads:
                if path.startswith(prefix):
                    return limit
        return self.settings.max_body_bytes


class Exchange:
    """One request and its answer, as they pass."""

    __slots__ = (
        "_deadline",
        "_guard",
        "_id",
        "_private",
        "_receive",
        "_send",
        "_size",
        "_started",
        "_whole",
        "cross",
        "digest",
        "limit",
        "over",
        "peer",
    )

    def __init__(
        self, guard: Guard, scope: Scope, headers: Mapping[bytes, bytes], receive: Receive, send: Send, request_id: str
    ) -> None:
        self._guard = guard
        self._receive = receive
        self._send = send
        self._id = request_id
        self._private = scope["path"].startswith(PRIVATE)
        self._started = self._whole = False
        self._size, self._deadline = 0, 0.0
        self.over = False
        """We have answered: what the app says is not sent any more."""
        self.cross: str | None = None
        """The page of another origin, that may call us."""
        self.digest: bytes | None = None
        self.limit = 0
        self.peer: str = (scope.get("client") or ("",))[0]

    @property
    def peer_is_here(self) -> bool:
        """Whether the sender is on this machine."""
        return self.peer == "127.0.0.1" or loopback(self.peer)

    async def receive(self) -> Message:
        """The next piece of the body, while it is not too large and not too slow."""
        if self.over:
            return _DISCONNECT
        if self._whole:
            return await self._receive()
        if not self._deadline:
            self._deadline = asyncio.get_running_loop().time() + self._guard.settings.request_seconds
        try:
            async with asyncio.timeout_at(self._deadline + self._size / BYTES_PER_SECOND):
                message = await self._receive()
        except TimeoutError:
            seconds = self._guard.settings.request_seconds
            said = f"The request did not arrive within {seconds:g} seconds (request_seconds)."
            await self.refuse(Refused(408, said, closes=True))
            return _DISCONNECT
        if message["type"] == "http.request":
            self._size += len(message.get("body", b""))
            self._whole = not message.get("more_body", False)
            if self._size > self.limit:
                await self.refuse(self.too_large())
                return _DISCONNECT
        return message

    async def send(self, message: Message) -> None:
        """Pass on what the app answers, with the headers that every answer has."""
        if self.over:
            return
        if message["type"] == "http.response.start":
            self._started = True
            self._learn(message["status"])
            message["headers"] = self._dressed(message.get("headers", ()))
        await self._send(message)

    async def allow(self) -> None:
        """Answer a page that asks whether it may call."""
        await self._send({"type": "http.response.start", "status": 204, "headers": self._dressed(_PREFLIGHT)})
        await self._send({"type": "http.response.body", "body": b""})

    async def refuse(self, refused: Refused) -> None:
        """Answer in place of the app."""
        self.over = True
        if self._started:
            return
        answer = problem.answer(refused.status, str(refused), self._id, headers=refused.headers)
        headers = [*answer.raw_headers, (b"connection", b"close")] if refused.closes else answer.raw_headers
        await self._send({"type": "http.response.start", "status": refused.status, "headers": self._dressed(headers)})
        await self._send({"type": "http.response.body", "body": answer.body, "more_body": refused.closes})
        if refused.closes:
            await self._linger()
            await self._send({"type": "http.response.body", "body": b""})

    def too_large(self) -> Refused:
        """What is said of a body over the limit."""
        return Refused(413, f"The body is over the limit of {self.limit:,} bytes: send less at once.", closes=True)

    async def _linger(self) -> None:
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                while (await self._receive()).get("more_body"):
                    pass
        except TimeoutError:
            return

    def _learn(self, status: int) -> None:
        """Who was let in is known; wrong keys count against where they come from, each being another one."""
        if status == 401:
            self._guard.strangers.take(self.peer)
            if self.digest is not None:
                self._guard.known.discard(self.digest)
        elif self.digest is not None and self.digest not in self._guard.known:
            if len(self._guard.known) >= 10_000:
                self._guard.known.clear()
            self._guard.known.add(self.digest)

    def _dressed(self, headers: Any) -> list[tuple[bytes, bytes]]:
        dressed = [*headers, (b"x-request-id", self._id.encode())]
        have = {name for name, _ in headers}
        dressed += [header for header in SECURITY if header[0] not in have]
        if self._private and b"cache-control" not in have:
            dressed.append(_NO_STORE)
        if self.cross:
            dressed += [(b"access-control-allow-origin", self.cross.encode()), _EXPOSED, (b"vary", b"Origin")]
        return dressed


def install(app: FastAPI) -> None:
    """Put the guard around all of an app, also around what answers when everything else fails."""
    app.state.stopping = stopping = asyncio.Event()
    app.state.guard = guard = Guard(app.state.memory.settings, stopping)
    build = app.build_middleware_stack

    def guarded() -> ASGIApp:
        guard.app = build()
        return guard

    @asynccontextmanager
    async def room() -> AsyncIterator[None]:
        # As many threads as requests are let in, so that none waits for a thread: that wait would have no end, while the one
        # for a database's connection has (503 after two seconds), and embedded writes that wait together share one commit.
        # Requests that wait for a model or for news have as many again, and take none from the others. A thread that was
        # not needed for a while ends.
        to_thread.current_default_thread_limiter().total_tokens = 2 * guard.settings.max_in_flight + 8
        yield

    life.during(app, room)
    app.build_middleware_stack = guarded  # type: ignore[method-assign]


def _hosts(settings: Settings) -> frozenset[str]:
    """The names by which the server may be called."""
    named = [name.strip().lower().strip("[]") for name in settings.allowed_hosts.split(",") if name.strip()]
    for name in named:
        if not re.fullmatch(r"[a-z0-9._:-]+", name):
            raise SettingsError(
                where="allowed_hosts", problem=f"{name!r} is not the name of one host, such as retain.example.org"
            )
    return frozenset({"localhost", "127.0.0.1", "::1", settings.host.lower().strip("[]"), *named} - set(_ANYWHERE))


def _origins(settings: Settings) -> frozenset[str]:
    """The pages of other origins that may call."""
    named = [origin.strip().lower().rstrip("/") for origin in settings.allowed_origins.split(",") if origin.strip()]
    for origin in named:
        if not _ORIGIN.fullmatch(origin):
            problem = f"{origin!r} is not one origin, such as https://app.example.org"
            raise SettingsError(where="allowed_origins", problem=problem)
    return frozenset(named)

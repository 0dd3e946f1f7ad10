"""What stands before everything: a request by a strange name, from a strange page, too large or too often goes no further.

It answers with the request's id and the security headers, whoever made the answer, and never reads a body that is too large.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from anyio import to_thread
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from retain.auth.local import is_loopback
from retain.base import limits
from retain.base.errors import SettingsError, Unauthorized
from retain.base.settings import Settings
from retain.server import life
from retain.server.authenticator import NOBODY, credential_of
from retain.server.cookies import SAFE, token_of
from retain.server.exchange import Exchange, Patience, Refused
from retain.server.rate_limit import Rate

HEALTH = frozenset({"/healthz", "/readyz"})
"""Always answered: they need no key, and whoever looks after a server asks here when it has too much to do."""
METRICS = "/metrics"
"""Answered also by a server that has too much to do; but it takes keys, and so wrong ones are counted."""
LONG = ("/api/chat", "/agent/", "/api/notes/changes", "/api/notes/stream")
"""What waits for models or for news is counted apart, or a few of them would keep everybody out."""
SIGN_IN = "/api/web/sign-in"
"""Where keys come in a body: wrong ones are counted here too."""
RETRY_SECONDS = 1
_ONCE = frozenset(
    {b"host", b"origin", b"content-length", b"authorization", b"x-api-key", b"content-encoding"}
) | frozenset(
    {
        b"x-retain-user",
        b"x-retain-agent",
        b"x-retain-csrf",
        b"sec-fetch-site",
        b"idempotency-key",
        b"if-match",
    }
)
_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_HOST = re.compile(rb"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?")
_ORIGIN = re.compile(r"https?://[a-z0-9.\[\]:-]+")
_MOST_NAMES = 1000
_MOST_KNOWN = 10_000
_ANYWHERE = ("0.0.0.0", "::")  # noqa: S104 - addresses to listen on, and no names to be called by


class Guard:
    """The outermost layer of an app."""

    def __init__(self, settings: Settings, stopping: asyncio.Event) -> None:
        self.app: ASGIApp
        self.in_flight = 0
        self.long = 0
        self.settings = settings
        self._known: set[bytes] = set()
        """Digests of credentials that were let in: these are not slowed down by others' wrong ones."""
        self._stopping = stopping
        self._hosts = _hosts(settings)
        self._called: set[bytes] = set()
        self._origins = _origins(settings)
        self._rate = Rate(settings.rate_per_second)
        self._strangers, self._signing_in = (
            Rate(settings.rate_per_second),
            Rate(settings.rate_per_second),
        )
        """Wrong credentials, by where they come from; those at the sign-in apart, or others' would close it."""
        self._patience = Patience(limits.REQUEST_SECONDS)
        self._uploads = (
            ("/api/refs", limits.MAX_REF_BYTES),
            ("/api/knowledge", limits.MAX_DOCUMENT_BYTES),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it."""
        if scope["type"] != "http":
            await (
                self.app(scope, receive, send)
                if scope["type"] == "lifespan"
                else send({"type": "websocket.close"})
            )
            return
        headers = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        request_id = given.decode() if _ID.fullmatch(given) else f"{random.getrandbits(96):024x}"
        scope.setdefault("state", {})["request_id"] = request_id
        exchange = Exchange(scope, receive, send, request_id, self._patience, self._learn)
        path = scope["path"]
        long = path.startswith(LONG) or (path == "/mcp" and scope["method"] == "GET")
        try:
            self._check(scope, headers, exchange)
            if (
                exchange.cross
                and b"access-control-request-method" in headers
                and scope["method"] == "OPTIONS"
            ):
                await exchange.allow()
                return
            if path not in HEALTH:
                if path != METRICS:
                    self._check_load(self.long if long else self.in_flight)
                self._check_rate(scope, exchange)
            hears = exchange.receive if self._check_body(scope, headers, exchange) else receive
        except Refused as refused:
            await exchange.refuse(refused)
            return
        self.in_flight += not long
        self.long += long
        try:
            await self.app(scope, hears, exchange.send)
        except Exception:
            if (
                not exchange.over
            ):  # else it was refused in the middle of its body, and what that broke was answered
                raise
        finally:
            self.in_flight -= not long
            self.long -= long

    def _check(self, scope: Scope, headers: Mapping[bytes, bytes], exchange: Exchange) -> None:
        """By which name and from which page it comes."""
        if len(headers) != len(scope["headers"]):
            names = [name for name, _ in scope["headers"]]
            if twice := next((name for name in _ONCE if names.count(name) > 1), None):
                raise Refused(
                    400, f"The header {twice.decode()} is there twice: send it once.", closes=True
                )
        host = headers.get(b"host", b"")
        if host not in self._called:
            self._check_host(host, scope)
        origin = headers.get(b"origin")
        if origin is not None:
            self._check_origin(origin.decode("latin-1"), host.decode("latin-1"), scope, exchange)
        elif scope["method"] not in SAFE and headers.get(b"sec-fetch-site", b"none") not in (
            b"none",
            b"same-origin",
        ):
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
        elif origin not in (
            f"{scope.get('scheme', 'http')}://{host}",
            f"https://{host}",
        ):  # the latter through a proxy
            said = (
                "A page of that origin may not call this server: add the origin to allowed_origins."
            )
            raise Refused(403, said)

    def _check_load(self, running: int) -> None:
        """Whether there is room for one more."""
        if self._stopping.is_set():
            raise Refused(
                503,
                "The server is stopping: try again in a moment.",
                seconds=RETRY_SECONDS,
                closes=True,
            )
        if running >= limits.MAX_IN_FLIGHT:
            said = (
                f"Server at capacity: {running} requests are running. Retry in {RETRY_SECONDS} s."
            )
            raise Refused(503, said, seconds=RETRY_SECONDS)

    def _check_rate(self, scope: Scope, exchange: Exchange) -> None:
        """Whether its sender has been asking too often; each key has an account, also before it is looked at."""
        if not self.settings.rate_per_second:
            return
        peer, signs_in = exchange.peer, scope["path"] == SIGN_IN
        try:
            credential = credential_of(scope["headers"])
        except Unauthorized:
            exchange.wrongs = self._strangers
            early = self._strangers.empty(peer)
        else:
            if credential is None and (token := token_of(scope)):
                credential = token.encode("latin-1")
            if credential is None or signs_in:
                exchange.wrongs = self._signing_in if signs_in else None
                early = self._signing_in.empty(peer) if signs_in else 0.0
                early = early or (
                    0.0 if peer == "127.0.0.1" or is_loopback(peer) else self._rate.take(peer)
                )
            else:
                exchange.wrongs, exchange.digest = (
                    self._strangers,
                    (digest := hashlib.sha256(credential).digest()),
                )
                early = self._rate.take(digest) or (
                    0.0 if digest in self._known else self._strangers.empty(peer)
                )
        if early:
            said = f"Too many requests: at most {self.settings.rate_per_second:g} a second (rate_per_second)."
            raise Refused(429, said, seconds=early)

    def _learn(self, exchange: Exchange, status: int) -> None:
        """Who was let in is known; wrong keys count against where they come from, each being another one.

        Who shows none is not counted: a page of anybody's can make a browser ask, and must not keep it from signing in.
        """
        digest = exchange.digest
        if status == 401 or NOBODY in exchange.state:
            if exchange.wrongs is not None:
                exchange.wrongs.take(exchange.peer)
            self._known.discard(digest or b"")
        elif digest is not None and digest not in self._known and "principal" in exchange.state:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known.add(digest)

    def _check_body(self, scope: Scope, headers: Mapping[bytes, bytes], exchange: Exchange) -> bool:
        """Whether there is a body to count while it is read; one that says that it is too large is not read at all."""
        length = headers.get(b"content-length")
        if length is None and b"transfer-encoding" not in headers:
            return False
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise Refused(
                415, "Content-Encoding: a body is sent as it is here, not compressed.", closes=True
            )
        upload = self._upload(scope["path"], headers)
        exchange.limit = upload or self.settings.max_body_bytes
        exchange.parts = None if upload else []
        if length is not None:
            if not length.isdigit():
                raise Refused(400, "Content-Length: must be a number of bytes.", closes=True)
            if len(length) > 15 or int(length) > exchange.limit:
                raise exchange.too_large()
        return True

    def _upload(self, path: str, headers: Mapping[bytes, bytes]) -> int:
        """How large a content may be that comes as it is, since it need not be held in memory; 0 for JSON, which must."""
        if (
            headers.get(b"content-type", b"application/json").partition(b";")[0].strip().lower()
            != b"application/json"
        ):
            for prefix, limit in self._uploads:
                if path.startswith(prefix):
                    return limit
        return 0


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
        # The framework's own threads, for what is no verb: looking at keys, uploads, MCP, chats. As many as requests
        # are let in, those that wait for a model or for news with them, so that none waits for a thread. Verbs have others
        # (threads.py): few, since the database is what they wait for, and apart from those where verbs wait for models.
        to_thread.current_default_thread_limiter().total_tokens = 2 * limits.MAX_IN_FLIGHT + 8
        yield

    life.during(app, room)
    app.build_middleware_stack = guarded  # type: ignore[method-assign]


def _hosts(settings: Settings) -> frozenset[str]:
    """The names by which the server may be called."""
    named = [
        name.strip().lower().strip("[]")
        for name in settings.allowed_hosts.split(",")
        if name.strip()
    ]
    for name in named:
        if not re.fullmatch(r"[a-z0-9._:-]+", name):
            raise SettingsError(
                where="allowed_hosts",
                problem=f"{name!r} is not the name of one host, such as retain.example.org",
            )
    return frozenset(
        {"localhost", "127.0.0.1", "::1", settings.host.lower().strip("[]"), *named}
        - set(_ANYWHERE)
    )


def _origins(settings: Settings) -> frozenset[str]:
    """The pages of other origins that may call."""
    named = [
        origin.strip().lower().rstrip("/")
        for origin in settings.allowed_origins.split(",")
        if origin.strip()
    ]
    for origin in named:
        if not _ORIGIN.fullmatch(origin):
            problem = f"{origin!r} is not one origin, such as https://app.example.org"
            raise SettingsError(where="allowed_origins", problem=problem)
    return frozenset(named)

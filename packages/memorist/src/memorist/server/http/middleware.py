"""Outermost ASGI middleware: hosts, origins, body sizes, rate limits, security headers.

Rejects a request before authentication if its Host or Origin is not ours, its body is too large, or
its client is over a limit. Adds the request id and the security headers to every response.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import re
from collections import Counter
from collections.abc import Mapping

from anyio import to_thread
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from memorist.admin.authenticator import credential_of
from memorist.admin.local import is_loopback
from memorist.api import problem
from memorist.base import limits
from memorist.base.errors import SettingsError, Unauthorized
from memorist.base.settings import Settings
from memorist.server.http.authentication import SAFE, UNAUTHENTICATED, token_of
from memorist.server.http.guarded_request import ArrivingBodies, GuardedRequest, Rejected
from memorist.server.http.rate_limit import RETRY_SECONDS, Backoff, Rate

HEALTH = frozenset({"/healthz", "/readyz"})
"""Never limited: they need no key, and monitoring must reach an overloaded server."""
METRICS = "/metrics"
"""Not limited by load, but by rate: it accepts keys, so wrong keys are counted."""
LONG_RUNNING_PATHS = (
    "/api/chat",
    "/agent/",
    "/api/notes/changes",
    "/api/notes/stream",
    "/api/events",
)
"""Requests that wait for a model or for events. They have their own concurrency limit, so that
a few of them cannot use up the slots of ordinary requests."""
EVENT_STREAM = "/api/events"
MAX_STREAMS_PER_CREDENTIAL = 16
"""Event streams never end, so clients must not use up the slots of chats with them: one client
has at most this many, and all together have half of the slots of long-running requests."""
SIGN_IN = "/api/web/sign-in"
"""Keys arrive in the body here; wrong keys are counted, too."""
MAX_REMEMBERED_HOSTS = 1000
MAX_REMEMBERED_CREDENTIALS = 10_000
_SINGLE_HEADERS = frozenset(
    {
        b"host",
        b"origin",
        b"content-length",
        b"authorization",
        b"x-api-key",
        b"content-encoding",
        b"x-memorist-user",
        b"x-memorist-agent",
        b"x-memorist-csrf",
        b"sec-fetch-site",
        b"idempotency-key",
        b"if-match",
    }
)
"""Headers that may be sent only once."""
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_HOST = re.compile(rb"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?")
_ORIGIN = re.compile(r"https?://[a-z0-9.\[\]:-]+")
_ANY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - addresses to listen on, not host names


class ProtectionMiddleware:
    """The outermost layer of an app."""

    def __init__(self, settings: Settings, stopping: asyncio.Event) -> None:
        self.app: ASGIApp
        self.in_flight = 0
        self.long_running = 0
        self.is_draining = False
        """True once clients should use another server: responses close their connections."""
        self.settings = settings
        self._stopping = stopping
        self._streams: Counter[bytes] = Counter()
        self._hosts = _allowed_hosts(settings)
        self._accepted_hosts: set[bytes] = set()
        self._origins = _allowed_origins(settings)
        self._accepted_credentials: set[bytes] = set()
        """Digests of valid credentials. Wrong keys of other clients do not slow these down."""
        self._rate = Rate(settings.rate_per_second)
        self._wrong_keys = Rate(settings.rate_per_second)
        self._wrong_sign_ins = Rate(settings.rate_per_second)
        self._bodies = ArrivingBodies(limits.REQUEST_SECONDS)
        self._backoff = Backoff(stopping)
        self._uploads = (
            ("/api/refs", limits.MAX_REF_BYTES),
            ("/api/documents", limits.MAX_DOCUMENT_BYTES),
        )

    def around(self, app: ASGIApp) -> ASGIApp:
        """Protect an app: a factory for Starlette's list of middleware."""
        self.app = app
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the app, or reject it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return
        # Routes match the path as it was sent: `%2F` inside a name does not separate its parts.
        scope["path"] = scope.get("raw_path", scope["path"].encode()).decode("latin-1")
        headers = dict(scope["headers"])
        sent_id = headers.get(b"x-request-id", b"")
        if _REQUEST_ID.fullmatch(sent_id):
            request_id = sent_id.decode()
        else:
            request_id = f"{random.getrandbits(96):024x}"
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        guarded = GuardedRequest(scope, receive, send, request_id, self._bodies, self._learn)
        guarded.close_connection = self.is_draining
        state["guarded"] = guarded
        path = scope["path"]
        guarded.is_long = path.startswith(LONG_RUNNING_PATHS) or (
            path == "/mcp" and scope["method"] == "GET"
        )
        try:
            self._check_source(scope, headers, guarded)
            if (
                guarded.allowed_origin
                and b"access-control-request-method" in headers
                and scope["method"] == "OPTIONS"
            ):
                await guarded.respond_to_preflight()
                return
            if path not in HEALTH:
                if path != METRICS:
                    await self._check_load(scope, is_long=guarded.is_long)
                self._check_rate(scope, guarded)
            stream_owner = self._check_streams(scope, guarded)
            has_body = self._check_body(scope, headers, guarded)
        except Rejected as rejected:
            await guarded.reject(rejected)
        else:
            await self._run(scope, guarded.receive if has_body else receive, guarded, stream_owner)
        if guarded.rejected:
            await guarded.linger()

    async def _run(
        self, scope: Scope, receive: Receive, guarded: GuardedRequest, stream_owner: bytes | None
    ) -> None:
        """Count a request while the app responds to it."""
        is_long = guarded.is_long
        self.in_flight += not is_long
        self.long_running += is_long
        self._count_stream(stream_owner, 1)
        try:
            await self.app(scope, receive, guarded.send)
        except Exception:
            if guarded.rejected:  # the app may raise anything once its body was rejected
                return
            if not guarded.status:  # a defect: answered with 500 and raised again for the log
                await problem.unexpected(Request(scope))(scope, receive, guarded.send)
            raise
        finally:
            self.in_flight -= not is_long
            self.long_running -= is_long
            self._count_stream(stream_owner, -1)

    def running(self, *, long: bool = False) -> int:
        """Return how many requests are running, without those whose bodies are still arriving."""
        total = self.long_running if long else self.in_flight
        return total - self._bodies.waiting(long=long)

    def _check_source(
        self, scope: Scope, headers: Mapping[bytes, bytes], guarded: GuardedRequest
    ) -> None:
        """Reject repeated headers, unknown hosts and foreign origins."""
        if len(headers) != len(scope["headers"]):
            names = [name for name, _ in scope["headers"]]
            repeated = next((name for name in _SINGLE_HEADERS if names.count(name) > 1), None)
            if repeated:
                message = f"The header {repeated.decode()} was sent more than once."
                raise Rejected(400, message, close_connection=True)
        host = headers.get(b"host", b"")
        if host not in self._accepted_hosts:
            self._check_host(host, scope)
        origin = headers.get(b"origin")
        if origin is not None:
            self._check_origin(origin.decode("latin-1"), host.decode("latin-1"), scope, guarded)
        elif scope["method"] not in SAFE and headers.get(b"sec-fetch-site", b"none") not in (
            b"none",
            b"same-origin",
        ):
            raise Rejected(403, "Pages of other sites may not make this request.")

    def _check_host(self, host: bytes, scope: Scope) -> None:
        """Reject unknown host names, which protects from DNS rebinding."""
        match = _HOST.fullmatch(host.lower())
        name = match[1].decode().strip("[]") if match else ""
        own_address = (scope.get("server") or ("",))[0]
        if not name or (name not in self._hosts and name != own_address):
            message = (
                "This host name is not allowed. Use the address of the server, or add the name "
                "to allowed_hosts."
            )
            raise Rejected(421, message)
        if len(self._accepted_hosts) < MAX_REMEMBERED_HOSTS:
            self._accepted_hosts.add(host)

    def _check_origin(self, origin: str, host: str, scope: Scope, guarded: GuardedRequest) -> None:
        own_origins = (
            f"{scope.get('scheme', 'http')}://{host}",
            f"https://{host}",  # behind a proxy that terminates TLS
        )
        if origin in self._origins:
            guarded.allowed_origin = origin
        elif origin not in own_origins:
            message = "Pages of this origin may not call the server. Add it to allowed_origins."
            raise Rejected(403, message)

    async def _check_load(self, scope: Scope, *, is_long: bool) -> None:
        """Reject a request if the server is stopping or at capacity."""
        client = scope.get("client")
        connection = None if client is None else (*client, is_long)
        running = self.running(long=is_long)
        if running >= limits.MAX_IN_FLIGHT:
            await self._backoff.wait(connection)
            running = self.running(long=is_long)
        if self._stopping.is_set():
            message = "The server is stopping. Retry in a moment."
            raise Rejected(503, message, seconds=RETRY_SECONDS, close_connection=True)
        if running >= limits.MAX_IN_FLIGHT:
            seconds = self._backoff.reject(connection)
            message = f"Server at capacity: {running} requests are running. Retry in {seconds} s."
            raise Rejected(503, message, seconds=seconds)
        self._backoff.rejected.pop(connection, None)

    def _check_rate(self, scope: Scope, guarded: GuardedRequest) -> None:
        """Reject a client over its rate limit.

        Each credential has its own limit, checked before the credential itself. Wrong credentials
        count against the address that they come from.
        """
        if not self.settings.rate_per_second:
            return
        peer = guarded.peer
        signs_in = scope["path"] == SIGN_IN
        try:
            credential = _sent_credential(scope)
        except Unauthorized:
            guarded.wrong_keys = self._wrong_keys
            self._reject_if_early(self._wrong_keys.empty(peer))
            return
        if credential is None or signs_in:
            early = 0.0
            if signs_in:
                guarded.wrong_keys = self._wrong_sign_ins
                early = self._wrong_sign_ins.empty(peer)
            if not early and peer != "127.0.0.1" and not is_loopback(guarded.address):
                early = self._rate.take(peer)
        else:
            guarded.wrong_keys = self._wrong_keys
            guarded.digest = hashlib.sha256(credential).digest()
            early = self._rate.take(guarded.digest)
            if not early and guarded.digest not in self._accepted_credentials:
                early = self._wrong_keys.empty(peer)
        self._reject_if_early(early)

    def _check_streams(self, scope: Scope, guarded: GuardedRequest) -> bytes | None:
        """Return the owner of a new event stream, if it is one; reject it if they have too many."""
        if scope["path"] != EVENT_STREAM:
            return None
        try:
            credential = _sent_credential(scope)
        except Unauthorized:
            credential = None
        owner = hashlib.sha256(credential or guarded.peer.encode()).digest()
        if self._streams[owner] >= MAX_STREAMS_PER_CREDENTIAL:
            message = (
                f"Too many event streams: {MAX_STREAMS_PER_CREDENTIAL} are open with this key. "
                "Close one first."
            )
            raise Rejected(429, message, seconds=RETRY_SECONDS)
        if self._streams.total() >= limits.MAX_IN_FLIGHT // 2:
            message = f"Too many event streams are open. Retry in {RETRY_SECONDS} s."
            raise Rejected(503, message, seconds=RETRY_SECONDS)
        return owner

    def _count_stream(self, owner: bytes | None, change: int) -> None:
        if owner is None:
            return
        self._streams[owner] += change
        if not self._streams[owner]:
            del self._streams[owner]

    def _reject_if_early(self, seconds: float) -> None:
        if seconds:
            rate = f"{self.settings.rate_per_second:g}"
            message = f"Too many requests: the limit is {rate} per second (rate_per_second)."
            raise Rejected(429, message, seconds=seconds)

    def _learn(self, guarded: GuardedRequest, status: int) -> None:
        """Remember accepted credentials; count wrong ones against the client's address.

        A request without a credential is not counted: any web page can make a browser send one,
        and must not be able to block the user's sign-in.
        """
        digest = guarded.digest
        if status == 401 or UNAUTHENTICATED in guarded.state:
            if guarded.wrong_keys is not None:
                guarded.wrong_keys.take(guarded.peer)
            self._accepted_credentials.discard(digest or b"")
            return
        accepted = self._accepted_credentials
        if digest is not None and digest not in accepted and "principal" in guarded.state:
            if len(accepted) >= MAX_REMEMBERED_CREDENTIALS:
                accepted.clear()
            accepted.add(digest)

    def _check_body(
        self, scope: Scope, headers: Mapping[bytes, bytes], guarded: GuardedRequest
    ) -> bool:
        """Return whether the request has a body; reject one that declares too large a size."""
        length = headers.get(b"content-length")
        if length is None and b"transfer-encoding" not in headers:
            return False
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            message = "Compressed bodies (Content-Encoding) are not supported."
            raise Rejected(415, message, close_connection=True)
        upload_limit = self._upload_limit(scope["path"], headers)
        guarded.max_bytes = upload_limit or limits.MAX_BODY_BYTES
        guarded.json_chunks = None if upload_limit else []
        if length is not None:
            if not length.isdigit():
                message = "Content-Length must be a number of bytes."
                raise Rejected(400, message, close_connection=True)
            if len(length) > 15 or int(length) > guarded.max_bytes:
                raise guarded.too_large()
        return True

    def _upload_limit(self, path: str, headers: Mapping[bytes, bytes]) -> int:
        """Return the maximum size of an upload, which is not held in memory; 0 for JSON."""
        content_type = headers.get(b"content-type", b"application/json")
        if content_type.partition(b";")[0].strip().lower() == b"application/json":
            return 0
        for prefix, max_bytes in self._uploads:
            if path.startswith(prefix):
                return max_bytes
        return 0


def set_thread_limit() -> None:
    """Let anyio start a thread for each request that may be in flight, so that none waits for one.

    They serve key checks, uploads, MCP and chat. Verbs have their own pool (thread_pool.py).
    """
    to_thread.current_default_thread_limiter().total_tokens = 2 * limits.MAX_IN_FLIGHT + 8


def _sent_credential(scope: Scope) -> bytes | None:
    """Return the key or token of a request, also from a cookie; None if there is none."""
    credential = credential_of(scope["headers"])
    if credential is None and (token := token_of(scope)):
        return token.encode("latin-1")
    return credential


def _allowed_hosts(settings: Settings) -> frozenset[str]:
    """Return the host names of this server."""
    names = [name.strip().lower().strip("[]") for name in settings.allowed_hosts.split(",")]
    names = [name for name in names if name]
    for name in names:
        if not re.fullmatch(r"[a-z0-9._:-]+", name):
            text = f"{name!r} is not a host name, such as memorist.example.org"
            raise SettingsError(where="allowed_hosts", problem=text)
    own_names = {"localhost", "127.0.0.1", "::1", settings.host.lower().strip("[]")}
    return frozenset((own_names | set(names)) - set(_ANY_ADDRESS))


def _allowed_origins(settings: Settings) -> frozenset[str]:
    """Return the origins whose pages may call this server."""
    origins = [origin.strip().lower().rstrip("/") for origin in settings.allowed_origins.split(",")]
    origins = [origin for origin in origins if origin]
    for origin in origins:
        if not _ORIGIN.fullmatch(origin):
            text = f"{origin!r} is not an origin, such as https://app.example.org"
            raise SettingsError(where="allowed_origins", problem=text)
    return frozenset(origins)

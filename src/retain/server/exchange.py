"""One request and its answer, as they pass the guard: the body is counted and timed, every answer has the same headers."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import math
import re
from collections.abc import Callable
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from retain.api import problem
from retain.server.rate_limit import Rate

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
"""A body may take `REQUEST_SECONDS`, and a second more for each so many bytes that have come."""
MOST_PARTS = 200_000
"""The most lists and objects in a body: a million of them fit into 3 MB, and would keep everybody waiting for seconds."""
_MOST_TEXTS = 1_000_000
_TEXT = re.compile(rb'"[^"]*"')
LINGER_SECONDS = 1.0
"""So long a body that was refused is read and dropped: a connection closed at once would take the answer with it."""
_NO_STORE = (b"cache-control", b"no-store")
_LOOK_SECONDS = 0.2
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
_EXPOSED = (
    b"access-control-expose-headers",
    b"etag, location, retry-after, x-request-id, mcp-session-id, www-authenticate",
)


class Refused(Exception):
    """A request that does not go on."""

    def __init__(
        self, status: int, detail: str, *, seconds: float | None = None, closes: bool = False
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = {} if seconds is None else {"Retry-After": str(max(1, math.ceil(seconds)))}
        self.closes = closes


class Exchange:
    """One request and its answer, as they pass."""

    __slots__ = (
        "_id",
        "_learn",
        "_patience",
        "_private",
        "_send",
        "_started",
        "_whole",
        "began",
        "cross",
        "digest",
        "hear",
        "limit",
        "over",
        "parts",
        "peer",
        "size",
        "state",
        "wrongs",
    )

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        request_id: str,
        patience: Patience,
        learn: Learn,
    ) -> None:
        self._patience = patience
        self._learn = learn
        self.hear = receive
        self._send = send
        self._id = request_id
        self._private = scope["path"].startswith(PRIVATE)
        self._started = self._whole = False
        self.size, self.began = 0, 0.0
        self.over = False
        """We have answered: what the app says is not sent any more."""
        self.cross: str | None = None
        """The page of another origin, that may call us."""
        self.digest: bytes | None = None
        self.wrongs: Rate | None = None
        """Where it counts if the credential that it shows is wrong; None where it shows none."""
        self.limit = 0
        self.parts: list[bytes] | None = None
        """The body so far, where it is JSON."""
        self.state = scope["state"]
        """What is noted of the request; a principal, once somebody was let in."""
        self.peer: str = (scope.get("client") or ("",))[0]

    async def receive(self) -> Message:
        """The next piece of the body, while it is not too large and not too slow."""
        if self.over:
            return _DISCONNECT
        if self._whole:
            return await self.hear()
        try:
            message = await self._patience.hear(self)
        except TimeoutError:
            said = f"The request did not arrive within {self._patience.seconds:g} seconds."
            await self.refuse(Refused(408, said, closes=True))
            return _DISCONNECT
        if message["type"] == "http.request":
            self.size += len(message.get("body", b""))
            self._whole = not message.get("more_body", False)
            if self.size > self.limit:
                await self.refuse(self.too_large())
                return _DISCONNECT
            if self.parts is not None:
                self.parts.append(message.get("body", b""))
                if self._whole and crowded(self.parts):
                    said = f"The body has more than {MOST_PARTS:,} lists and objects: send less at once."
                    await self.refuse(Refused(413, said))
                    return _DISCONNECT
                self.parts = None if self._whole else self.parts
        return message

    async def send(self, message: Message) -> None:
        """Pass on what the app answers, with the headers that every answer has."""
        if self.over:
            return
        if message["type"] == "http.response.start":
            self._started = True
            self._learn(self, message["status"])
            message["headers"] = self._dressed(message.get("headers", ()))
        await self._send(message)

    async def allow(self) -> None:
        """Answer a page that asks whether it may call."""
        await self._send(
            {"type": "http.response.start", "status": 204, "headers": self._dressed(_PREFLIGHT)}
        )
        await self._send({"type": "http.response.body", "body": b""})

    async def refuse(self, refused: Refused) -> None:
        """Answer in place of the app."""
        self.over = True
        if self._started:
            return
        answer = problem.answer(refused.status, str(refused), self._id, headers=refused.headers)
        headers = (
            [*answer.raw_headers, (b"connection", b"close")]
            if refused.closes
            else answer.raw_headers
        )
        await self._send(
            {
                "type": "http.response.start",
                "status": refused.status,
                "headers": self._dressed(headers),
            }
        )
        await self._send(
            {"type": "http.response.body", "body": answer.body, "more_body": refused.closes}
        )
        if refused.closes:
            await self._linger()
            await self._send({"type": "http.response.body", "body": b""})

    def too_large(self) -> Refused:
        """What is said of a body over the limit."""
        return Refused(
            413,
            f"The body is over the limit of {self.limit:,} bytes: send less at once.",
            closes=True,
        )

    async def _linger(self) -> None:
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                while (await self.hear()).get("more_body"):
                    pass
        except TimeoutError:
            return

    def _dressed(self, headers: Any) -> list[tuple[bytes, bytes]]:
        dressed = [*headers, (b"x-request-id", self._id.encode())]
        have = {name for name, _ in headers}
        dressed += [header for header in SECURITY if header[0] not in have]
        if self._private and b"cache-control" not in have:
            dressed.append(_NO_STORE)
        if self.cross:
            dressed += [
                (b"access-control-allow-origin", self.cross.encode()),
                _EXPOSED,
                (b"vary", b"Origin"),
            ]
        return dressed


def styled(style: str) -> dict[str, str]:
    """The header of a page with a style of its own: that one is used, and nothing that somebody put there."""
    mark = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return {"Content-Security-Policy": f"{CSP}; style-src 'sha256-{mark}'"}


def crowded(parts: list[bytes]) -> bool:
    """Whether JSON has too many lists and objects to be read while others wait; brackets inside of texts do not count."""
    if sum(part.count(b"[") + part.count(b"{") for part in parts) <= MOST_PARTS:
        return False
    plain = b"".join(parts).replace(b"\\\\", b"").replace(b'\\"', b"")
    if plain.count(b'"') > 2 * _MOST_TEXTS:
        return True
    plain = _TEXT.sub(b"", plain)
    return plain.count(b"[") + plain.count(b"{") > MOST_PARTS


Learn = Callable[[Exchange, int], None]
"""Hears with which status an exchange is answered."""


class Patience:
    """How long bodies are waited for; one look around every now and then is cheaper than a timer for each."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._waiting: dict[Exchange, asyncio.Task[Any]] = {}
        self._late: set[Exchange] = set()
        self._looks = False

    async def hear(self, exchange: Exchange) -> Message:
        """The next piece of a body, or a TimeoutError."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        exchange.began = exchange.began or loop.time()
        self._waiting[exchange] = task
        if not self._looks:
            self._looks = True
            loop.call_later(_LOOK_SECONDS, self._look, loop)
        try:
            return await exchange.hear()
        except asyncio.CancelledError:
            if exchange in self._late and not task.uncancel():
                raise TimeoutError from None
            raise
        finally:
            del self._waiting[exchange]
            self._late.discard(exchange)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wake those that waited too long."""
        latest = loop.time() - self.seconds
        for exchange, task in self._waiting.items():
            if (
                exchange.began + exchange.size / BYTES_PER_SECOND < latest
                and exchange not in self._late
            ):
                self._late.add(exchange)
                task.cancel()
        self._looks = bool(self._waiting)
        if self._looks:
            loop.call_later(_LOOK_SECONDS, self._look, loop)

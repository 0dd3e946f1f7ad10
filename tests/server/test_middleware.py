"""Protection middleware: hosts, origins, body sizes, rates, concurrency, response headers."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memorist import Memory
from memorist.base import limits
from memorist.base.errors import SettingsError
from memorist.base.settings import Settings
from memorist.server.http import guarded_request, rate_limit
from memorist.server.http.app import create_app
from memorist.server.http.guarded_request import MAX_JSON_CONTAINERS
from memorist.server.http.middleware import MAX_STREAMS_PER_CREDENTIAL, ProtectionMiddleware
from testkit.keys import create_key
from testkit.limited import Limited

LOOPBACK_CLIENT, REMOTE_CLIENT = ("127.0.0.1", 50_000), ("203.0.113.9", 50_000)
URL = "http://127.0.0.1:7700"
SETTINGS = Settings(
    database="memory:",
    tenant="acme",
    allowed_hosts="memorist.example.org",
    allowed_origins="https://app.example.org",
    rate_per_second=0,
)


@pytest.fixture(autouse=True)
def small_bodies(limited: Limited) -> None:
    limited(MAX_BODY_BYTES=100_000)


@pytest.fixture(scope="module")
def http() -> Iterator[TestClient]:
    with pytest.MonkeyPatch.context() as patch, Memory.open(settings=SETTINGS) as memory:
        patch.setattr(limits, "MAX_REF_BYTES", 300_000)
        yield TestClient(
            create_app(memory), URL, client=LOOPBACK_CLIENT, raise_server_exceptions=False
        )


def guarded(app: ASGIApp, **changes: Any) -> ProtectionMiddleware:
    guard = ProtectionMiddleware(replace(SETTINGS, **changes), asyncio.Event())
    guard.app = app
    return guard


async def ok_app(scope: Scope, receive: Receive, send: Send) -> None:
    """Read the body and respond with 200."""
    size = 0
    while (message := await receive())["type"] == "http.request":
        size += len(message["body"])
        if not message.get("more_body"):
            break
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(size).encode()})


def request(
    path: str = "/api/x", method: str = "GET", client: Any = LOOPBACK_CLIENT, **headers: str
) -> Scope:
    lines = {
        "host": "127.0.0.1:7700",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    return {
        "type": "http",
        "method": method,
        "path": path,
        "scheme": "http",
        "client": client,
        "server": ("127.0.0.1", 7700),
        "headers": [(name.encode(), value.encode()) for name, value in lines.items()],
    }


async def call(
    app: ASGIApp, scope: Scope, receive: Callable[[], Awaitable[Message]] | None = None
) -> tuple[int, Any, bytes]:
    """Return the status, headers and body of a response."""
    sent: list[Message] = []

    async def empty_body() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive or empty_body, send)
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], dict(sent[0]["headers"]), body


def respond(*arguments: Any) -> tuple[int, Any, bytes]:
    """Return the status, headers and body of a response, outside of an event loop."""
    return asyncio.run(call(*arguments))


# -- ids and headers -------------------------------------------------------------------------------------------


def test_a_request_keeps_its_id_or_gets_one(http: TestClient) -> None:
    response = http.get("/nowhere", headers={"X-Request-ID": "a-1.b_2"})
    assert response.headers["X-Request-ID"] == response.json()["request_id"] == "a-1.b_2"
    for bad in ("", "a b", "a\tb", "x" * 65, "<script>"):
        answer = http.get("/nowhere", headers={"X-Request-ID": bad})
        assert answer.headers["X-Request-ID"] == answer.json()["request_id"] != bad
        assert len(answer.headers["X-Request-ID"]) == 24


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/", {}, 200),
        ("GET", "/nowhere", {}, 404),
        ("GET", "/api/sessions", {}, 200),
        ("GET", "/", {"Host": "evil.example"}, 421),
        ("POST", "/api/sessions", {"Origin": "null"}, 403),
        ("POST", "/api/sessions", {"Content-Encoding": "gzip"}, 415),
    ],
)
def test_every_response_has_the_security_headers(
    http: TestClient, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    """P0.6"""
    answer = http.request(
        method, path, headers=headers, content=b"{}" if method == "POST" else None
    )
    assert answer.status_code == status
    for part in (
        "script-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ):
        assert part in answer.headers["Content-Security-Policy"]
    assert answer.headers["Content-Security-Policy"].startswith(
        ("default-src 'self';", "default-src 'none';")
    )
    assert "unsafe" not in answer.headers["Content-Security-Policy"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert (answer.headers.get("Cache-Control") == "no-store") == path.startswith("/api")
    assert "Server" not in answer.headers
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]


def test_an_unexpected_failure_has_the_security_headers() -> None:
    def broken(request: Request) -> Response:
        raise ZeroDivisionError("division by a secret")

    with Memory.open(settings=SETTINGS) as memory:
        app = create_app(memory)
        app.add_route("/broken", broken)
        answer = TestClient(app, URL, client=LOOPBACK_CLIENT, raise_server_exceptions=False).get(
            "/broken"
        )
    assert answer.status_code == 500
    assert answer.headers["X-Request-ID"] == answer.json()["request_id"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "secret" not in answer.text


# -- names and pages -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:7700", 200),
        ("127.0.0.1", 200),
        ("localhost:1", 200),
        ("LocalHost", 200),
        ("[::1]:7700", 200),
        ("memorist.example.org", 200),
        ("memorist.example.org:443", 200),
        ("evil.example", 421),
        ("evil.example:7700", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example", 421),
        ("evil.example#localhost", 421),
        ("localhost@evil.example", 421),
        ("localhost:7700:1", 421),
        ("localhost/", 421),
        ("localhost.", 421),
        ("0.0.0.0:7700", 421),
        ("169.254.169.254", 421),
        ("", 421),
        ("*", 421),
    ],
)
def test_unknown_hosts_are_rejected(http: TestClient, host: str, status: int) -> None:
    """S7, DNS rebinding: a page that points its own name at this machine sends that name as host."""
    for path in ("/", "/openapi.json", "/nowhere/../"):
        answer = http.get(path, headers={"Host": host})
        assert (answer.status_code == 421) == (status == 421), path


def test_the_local_address_is_an_accepted_host() -> None:
    for name, status in (("192.0.2.7:7700", 200), ("192.0.2.8:7700", 421)):
        assert (
            respond(guarded(ok_app), {**request(host=name), "server": ("192.0.2.7", 7700)})[0]
            == status
        )


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        (None, True),
        (URL, True),
        ("https://127.0.0.1:7700", True),
        ("https://app.example.org", True),
        ("http://app.example.org", False),
        ("https://app.example.org.evil.example", False),
        ("https://evil.example", False),
        ("http://localhost:7700", False),
        ("http://127.0.0.1", False),
        ("http://127.0.0.1:77000", False),
        ("null", False),
        ("", False),
        ("file://", False),
        ("*", False),
    ],
)
def test_unknown_origins_are_rejected(method: str, origin: str | None, allowed: bool) -> None:
    """S6, CSRF and CORS: requests of other pages are rejected before any effect, simple ones too."""
    headers = {} if origin is None else {"origin": origin}
    status, text, _ = respond(guarded(ok_app), request(method=method, **headers))
    assert status == (200 if allowed else 403)
    cross = origin == "https://app.example.org"
    assert (text.get(b"access-control-allow-origin") == b"https://app.example.org") == cross
    assert b"access-control-allow-credentials" not in text
    assert (b"access-control-allow-origin" in text) == cross


def test_a_cross_site_form_without_an_origin_is_rejected() -> None:
    for site, expected in (
        ("cross-site", 403),
        ("same-site", 403),
        ("same-origin", 200),
        ("none", 200),
    ):
        status, _, _ = respond(guarded(ok_app), request(method="POST", sec_fetch_site=site))
        assert status == expected
    assert respond(guarded(ok_app), request(sec_fetch_site="cross-site"))[0] == 200, (
        "a link may lead here"
    )


def test_preflight_requests_allow_known_origins_only(http: TestClient) -> None:
    asks = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization",
    }
    allowed = http.options("/api/sessions", headers={"Origin": "https://app.example.org", **asks})
    assert allowed.status_code == 204
    assert allowed.headers["Access-Control-Allow-Origin"] == "https://app.example.org"
    assert "authorization" in allowed.headers["Access-Control-Allow-Headers"]
    assert "Origin" in allowed.headers["Vary"]
    assert "Access-Control-Allow-Credentials" not in allowed.headers
    refused = http.options("/api/sessions", headers={"Origin": "https://evil.example", **asks})
    assert refused.status_code == 403
    assert "Access-Control-Allow-Origin" not in refused.headers


@pytest.mark.parametrize(
    "wrong",
    [
        {"allowed_origins": "*"},
        {"allowed_origins": "https://*.example.org"},
        {"allowed_origins": "app.example.org"},
        {"allowed_origins": "https://a.example/path"},
        {"allowed_hosts": "*"},
        {"allowed_hosts": "https://a.example"},
    ],
)
def test_no_setting_allows_every_host_or_origin(wrong: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        guarded(ok_app, **wrong)


@pytest.mark.parametrize("name", ["host", "origin", "content-length", "authorization"])
def test_security_relevant_headers_must_be_unique(name: str) -> None:
    """A proxy that reads the first and a server that reads the last would see two requests."""
    scope = request(origin=URL, authorization="Bearer a", content_length="0")
    scope["headers"].append((name.encode(), b"127.0.0.1:7700"))
    status, _, body = respond(guarded(ok_app), scope)
    assert status == 400
    assert name.encode() in body


def test_a_web_socket_is_closed() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(guarded(ok_app)({**request(), "type": "websocket"}, lambda: asyncio.sleep(0), send))  # type: ignore[arg-type,return-value]
    assert sent == [{"type": "websocket.close"}]


# -- bodies ----------------------------------------------------------------------------------------------------


def test_a_body_over_the_limit_is_rejected_unread() -> None:
    """P16, F11"""
    reached = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        reached.append(scope)

    for length in ("100001", "209715200", "9" * 30):
        status, headers, body = respond(guarded(app), request(method="POST", content_length=length))
        assert status == 413
        assert b"100,000" in body
        assert headers[b"connection"] == b"close"
    assert not reached
    status, _, _ = respond(guarded(ok_app), request(method="POST", content_length="100000"))
    assert status == 200


@pytest.mark.parametrize("length", ["-1", "1e3", "0x10", "", "1, 2", "+5"])
def test_an_invalid_content_length_is_rejected(length: str) -> None:
    assert respond(guarded(ok_app), request(method="POST", content_length=length))[0] == 400


def test_a_body_without_a_length_is_counted(http: TestClient) -> None:
    sent = 0

    def pieces() -> Iterator[bytes]:
        nonlocal sent
        for _ in range(200):
            sent += 1
            yield b"x" * 1000

    answer = http.post(
        "/api/sessions", content=pieces(), headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 413
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json()["status"] == 413

    async def endless() -> Message:
        await asyncio.sleep(0)
        return {"type": "http.request", "body": b"x" * 1000, "more_body": True}

    status, _, _ = respond(
        guarded(ok_app), request(method="POST", transfer_encoding="chunked"), endless
    )
    assert status == 413


def test_uploads_may_be_larger_unless_they_are_json() -> None:
    for path, kind, expected in (
        ("/api/refs", "application/octet-stream", 200),
        ("/api/refs/capture", "text/plain; charset=utf-8", 200),
        ("/api/documents", "application/pdf", 200),
        ("/api/refs", "application/json", 413),
        ("/api/refs", "Application/JSON; charset=utf-8", 413),
        ("/api/messages", "application/octet-stream", 413),
    ):
        scope = request(path, "POST", content_length="200000", content_type=kind)
        assert respond(guarded(ok_app), scope)[0] == expected, (path, kind)
    large = request("/api/refs", "POST", content_length="300001", content_type="text/plain")
    assert respond(guarded(ok_app), large)[0] == 413


def test_a_compressed_body_is_rejected_unread(http: TestClient) -> None:
    """A gzip bomb: 50 MB of zeros in 50 kB."""
    bomb = gzip.compress(bytes(50 << 20))
    for encoding in ("gzip", "GZIP", "deflate", "br", "identity, gzip"):
        headers = {"Content-Encoding": encoding, "Content-Type": "application/json"}
        assert http.post("/api/sessions", content=bomb, headers=headers).status_code == 415
    answer = http.post(
        "/api/sessions",
        json={"user": "ada", "agent": "scout"},
        headers={"Content-Encoding": "identity"},
    )
    assert answer.status_code != 415


def test_a_slow_body_times_out() -> None:
    """Slowloris with a body; the time is REQUEST_SECONDS."""

    async def drip() -> Message:
        await asyncio.sleep(0.05)
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def hang() -> Message:
        return await asyncio.Future()

    for slow in (drip, hang):
        guard = guarded(ok_app)
        guard._bodies.seconds = 0.1
        status, headers, body = respond(guard, request(method="POST", content_length="1000"), slow)
        assert status == 408, body
        assert headers[b"connection"] == b"close"
        assert guard.in_flight == 0


def test_cancellation_of_a_request_is_passed_on() -> None:
    """The watchdog for slow bodies must not swallow the server's shutdown."""

    async def hang() -> Message:
        return await asyncio.Future()

    async def run() -> None:
        guard = guarded(ok_app)
        task = asyncio.create_task(call(guard, request(method="POST", content_length="1000"), hang))
        await asyncio.sleep(0.01)
        assert guard.in_flight == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert guard.in_flight == 0

    asyncio.run(run())


# -- how many, how often ---------------------------------------------------------------------------------------


def test_requests_above_the_concurrency_limit_are_rejected(limited: Limited) -> None:
    """P16: at most MAX_IN_FLIGHT; health always responds, and long-running requests have their own
    limit.
    """

    async def run() -> None:
        goes_on = asyncio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["path"] not in ("/healthz",):
                await goes_on.wait()
            await ok_app(scope, receive, send)

        limited(MAX_IN_FLIGHT=3)
        guard = guarded(app)
        running = [asyncio.create_task(call(guard, request())) for _ in range(3)]
        waiting = [asyncio.create_task(call(guard, request("/api/chat", "POST"))) for _ in range(2)]
        await asyncio.sleep(0)
        status, headers, body = await call(guard, request(client=("127.0.0.1", 2)))
        assert (status, headers[b"retry-after"]) == (503, b"1")
        assert b"Server at capacity: 3 requests" in body
        assert (await call(guard, request("/healthz")))[0] == 200
        waiting.append(asyncio.create_task(call(guard, request("/api/notes/stream"))))
        await asyncio.sleep(0)
        assert (await call(guard, request("/api/chat", "POST")))[0] == 503
        goes_on.set()
        assert [(await task)[0] for task in (*running, *waiting)] == [200] * 6
        assert (guard.in_flight, guard.long_running) == (0, 0)
        assert (await call(guard, request()))[0] == 200

    asyncio.run(run())


def test_the_event_streams_of_a_key_leave_room_for_chats(limited: Limited) -> None:
    async def run() -> None:
        goes_on = asyncio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await goes_on.wait()
            await ok_app(scope, receive, send)

        limited(MAX_IN_FLIGHT=2 * MAX_STREAMS_PER_CREDENTIAL + 2)
        guard = guarded(app)
        streams = [
            asyncio.create_task(call(guard, request("/api/events", x_api_key="one")))
            for _ in range(MAX_STREAMS_PER_CREDENTIAL)
        ]
        await asyncio.sleep(0)
        status, headers, body = await call(guard, request("/api/events", x_api_key="one"))
        assert (status, headers[b"retry-after"]) == (429, b"1")
        assert b"Too many event streams: 16 are open with this key." in body
        others = [
            asyncio.create_task(call(guard, request("/api/chat", "POST", x_api_key="one"))),
            asyncio.create_task(call(guard, request("/api/events", x_api_key="two"))),
        ]
        await asyncio.sleep(0)
        goes_on.set()
        assert {(await task)[0] for task in (*streams, *others)} == {200}
        assert (await call(guard, request("/api/events", x_api_key="one")))[0] == 200
        assert not guard._streams

    asyncio.run(run())


def test_a_rejected_client_does_not_wait_once_there_is_capacity(
    limited: Limited, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does its ordinary request if a long-running one was rejected."""

    async def run() -> None:
        goes_on = asyncio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await goes_on.wait()
            await ok_app(scope, receive, send)

        limited(MAX_IN_FLIGHT=1)
        monkeypatch.setattr(rate_limit, "RETRY_SECONDS", 10_000)
        monkeypatch.setattr(rate_limit, "MAX_RETRY_SECONDS", 10_000)
        guard = guarded(app)
        client = ("127.0.0.1", 2)
        chat = asyncio.create_task(call(guard, request("/api/chat", "POST")))
        await asyncio.sleep(0)
        assert (await call(guard, request("/api/chat", "POST", client=client)))[0] == 503
        ordinary = asyncio.create_task(call(guard, request(client=client)))
        await asyncio.sleep(0)
        assert (await call(guard, request(client=("127.0.0.1", 3))))[0] == 503
        goes_on.set()
        assert [(await task)[0] for task in (chat, ordinary)] == [200, 200]
        assert (await call(guard, request(client=("127.0.0.1", 3))))[0] == 200
        assert (await call(guard, request("/api/chat", "POST", client=client)))[0] == 200

    asyncio.run(run())


def test_bodies_that_are_still_arriving_hold_no_slot(
    limited: Limited, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slow bodies must not make the server reject other requests; one address has a limit."""

    async def hang() -> Message:
        return await asyncio.Future()

    async def run() -> None:
        limited(MAX_IN_FLIGHT=3)
        monkeypatch.setattr(guarded_request, "MAX_BODIES_PER_ADDRESS", 4)
        guard = guarded(ok_app)
        slow = [
            asyncio.create_task(call(guard, request(path, "POST", content_length="1000"), hang))
            for path in ("/api/web/sign-in", "/api/search", "/api/search", "/api/chat")
        ]
        await asyncio.sleep(0.01)
        assert (guard.running(), guard.running(long=True)) == (0, 0)
        assert (await call(guard, request()))[0] == 200
        body = request("/api/search", "POST", content_length="0")
        assert (await call(guard, body))[0] == 200
        assert (await slow[0])[0] == 503, "the one that began to arrive first is dropped"
        other = request("/api/search", "POST", client=("192.0.2.7", 1), content_length="0")
        assert (await call(guard, other))[0] == 200
        for task in slow[1:]:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        assert (guard.in_flight, guard.long_running, guard.running()) == (0, 0, 0)
        assert (await call(guard, request("/api/search", "POST", content_length="0")))[0] == 200

    asyncio.run(run())


def test_a_stopping_server_rejects_requests() -> None:
    """F10"""
    guard = guarded(ok_app)
    guard._stopping.set()
    status, headers, _ = respond(guard, request())
    assert (status, headers[b"retry-after"], headers[b"connection"]) == (503, b"1", b"close")
    assert respond(guard, request("/healthz"))[0] == 200


def statuses(guard: ProtectionMiddleware, count: int, **headers: Any) -> list[int]:
    async def run() -> list[int]:
        return [(await call(guard, request(**headers)))[0] for _ in range(count)]

    return asyncio.run(run())


def test_each_key_has_its_own_rate() -> None:
    guard = guarded(ok_app, rate_per_second=5)
    first = statuses(guard, 14, authorization="Bearer a", client=REMOTE_CLIENT)
    assert first[:10] == [200] * 10
    assert 429 in first[10:]
    assert statuses(guard, 5, authorization="Bearer b", client=REMOTE_CLIENT) == [200] * 5
    _, headers, body = respond(guard, request(authorization="Bearer a"))
    assert headers[b"retry-after"] == b"1"
    assert b"rate_per_second" in body


def test_without_a_key_the_rate_is_per_address_except_loopback() -> None:
    guard = guarded(ok_app, rate_per_second=5)
    assert 429 in statuses(guard, 14, client=REMOTE_CLIENT)
    assert statuses(guard, 50, client=LOOPBACK_CLIENT) == [200] * 50


def test_wrong_keys_are_rate_limited_and_valid_ones_are_not() -> None:
    """Each attempt uses another key, so they count against the client's address."""

    async def authenticator(scope: Scope, receive: Receive, send: Send) -> None:
        good = dict(scope["headers"])[b"authorization"] == b"Bearer good"
        if good:
            scope["state"]["principal"] = "somebody"
        await send({"type": "http.response.start", "status": 200 if good else 401, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    guard = guarded(authenticator, rate_per_second=5)
    assert statuses(guard, 1, authorization="Bearer good") == [200]
    wrong = [statuses(guard, 1, authorization=f"Bearer wrong{n}")[0] for n in range(30)]
    assert wrong[:10] == [401] * 10
    assert wrong.count(429) >= 15
    assert statuses(guard, 1, authorization="Bearer good") == [200]


@pytest.mark.parametrize(
    "spelled",
    [
        [{"authorization": "".join(letter.upper() if n >> at & 1 else letter for at, letter in enumerate("bearer")) + " KEY"}
         for n in range(40)],
        [{"authorization": "Bearer" + " " * (n + 1) + "KEY"} for n in range(40)],
        [{"authorization": "Bearer KEY"}, {"x-api-key": "KEY"}, {"authorization": "bearer KEY", "x-api-key": " KEY"}] * 14,
    ],
    ids=["letters", "spaces", "headers"],
)  # fmt: skip
def test_a_key_has_one_rate_in_every_spelling(spelled: list[dict[str, str]]) -> None:
    guard = guarded(ok_app, rate_per_second=5)
    results = [statuses(guard, 1, **headers)[0] for headers in spelled]
    assert results.count(429) >= 20


def test_wrong_keys_are_rate_limited_on_every_path() -> None:
    """On the metrics too; a route without authentication does not make a key known."""
    with Memory.open(settings=replace(SETTINGS, rate_per_second=1.0, auth="keys")) as memory:
        http = TestClient(create_app(memory), URL, client=LOOPBACK_CLIENT)
        wrong = [
            http.get("/metrics", headers={"X-API-Key": f"wrong{n}"}).status_code for n in range(30)
        ]
        assert wrong.count(429) >= 15
        assert {
            http.get(path, headers={"X-API-Key": "x"}).status_code
            for path in ("/healthz", "/readyz")
            for _ in "12345"
        } == {200}
    with Memory.open(settings=replace(SETTINGS, rate_per_second=1.0, auth="keys")) as memory:
        http = TestClient(create_app(memory), URL, client=LOOPBACK_CLIENT)
        both = []
        for n in range(30):
            http.get("/", headers={"X-API-Key": f"wrong{n}"})
            both.append(http.get("/api/me", headers={"X-API-Key": f"wrong{n}"}).status_code)
        assert both.count(429) >= 15


def test_the_rate_limit_works_in_a_real_app() -> None:
    """Also for an unknown key."""
    with Memory.open(settings=replace(SETTINGS, rate_per_second=1.0)) as memory:
        _, key = create_key(memory, "acme", "a test", ["read"])
        http = TestClient(create_app(memory), URL, client=LOOPBACK_CLIENT)
        results = [
            http.get("/api/sessions", headers={"Authorization": f"Bearer {key}"}) for _ in range(20)
        ]
        assert results[0].status_code == 200
        assert results[-1].status_code == 429
        assert results[-1].headers["Content-Type"] == "application/problem+json"
        assert int(results[-1].headers["Retry-After"]) >= 1


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"x":[' + b"[]," * MAX_JSON_CONTAINERS + b"[]]}", 413),
        (b'{"x":[' + b"{}," * MAX_JSON_CONTAINERS + b"{}]}", 413),
        (b'{"x":"' + b"[{" * MAX_JSON_CONTAINERS + b'"}', 200),
        (b'{"x":"' + rb"\"\\" + b"[{" * MAX_JSON_CONTAINERS + rb"\\" + b'"}', 200),
        (b'["\\\\",' + b"[]," * MAX_JSON_CONTAINERS + b'"\\"["]', 413),
    ],
    ids=["lists", "objects", "a text", "a text with quotes", "texts with quotes around lists"],
)
@pytest.mark.parametrize("size", [1 << 30, 1 << 16], ids=["whole", "in pieces"])
def test_deeply_structured_bodies_are_rejected_before_parsing(
    limited: Limited, body: bytes, status: int, size: int
) -> None:
    """A body within the size limit does not block the server for seconds."""
    pieces = [body[at : at + size] for at in range(0, len(body), size)]

    async def receive() -> Message:
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    limited(MAX_BODY_BYTES=8 << 20)
    guard = guarded(ok_app)
    scope = request(method="POST", content_length=str(len(body)), content_type="application/json")
    result, _, text = respond(guard, scope, receive)
    assert result == status
    assert status == 200 or b"lists and objects" in text

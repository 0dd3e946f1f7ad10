"""Raw connections: malformed and oversized requests, slow headers and bodies."""

from __future__ import annotations

import contextlib
import http.client
import json
import selectors
import socket
import time
from collections import Counter
from collections.abc import Iterator

import psutil
import pytest

from memorist import Memory
from memorist.admin.principal import PERMISSIONS
from memorist.base import limits
from memorist.base.settings import Settings
from memorist.server.http.app import create_app
from memorist.server.http.guarded_request import (
    MAX_BODIES_PER_ADDRESS,
    MAX_BODIES_PER_KEY,
    MAX_BODIES_PER_TENANT,
    MAX_UNAUTHENTICATED_BODIES,
)
from memorist.server.http.middleware import MAX_STREAMS_PER_CREDENTIAL, SIGN_IN
from testkit.keys import create_key
from testkit.routes import routes
from testkit.running import exchange, running

SETTINGS = Settings(database="memory:", rate_per_second=0, events="on")
POST = b"POST /api/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
GET = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
OWNER = {"X-Memorist-User": "ada", "X-Memorist-Agent": "scout"}
STREAMS = 2_000
CLOSE = b"Connection: close\r\n\r\n"


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    with pytest.MonkeyPatch.context() as patch, Memory.open(settings=SETTINGS) as memory:
        patch.setattr(limits, "REQUEST_SECONDS", 1)
        patch.setattr(limits, "MAX_BODY_BYTES", 100_000)
        with running(memory, jobs=False) as (_, there):
            yield there


def is_problem(answer: bytes, status: int) -> None:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), answer[:200]
    assert b"application/problem+json" in head
    assert b"nosniff" in head
    assert json.loads(body)["status"] == status


def test_responses_do_not_name_the_server_software(address: tuple[str, int]) -> None:
    answer = exchange(address, GET + CLOSE)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"\r\nserver:" not in answer.lower()


def test_slow_headers_time_out(address: tuple[str, int]) -> None:
    """Slowloris: nothing at all, a beginning, and headers that never end."""
    is_problem(exchange(address), 408)
    is_problem(exchange(address, b"GET / HT"), 408)
    with socket.create_connection(address, 10) as slow:
        slow.sendall(GET)
        with pytest.raises(ConnectionError):  # noqa: PT012
            for _ in range(100):
                slow.sendall(b"X-A: b\r\n")
                time.sleep(0.05)


def test_the_second_request_of_a_connection_times_out_too(address: tuple[str, int]) -> None:
    answer = exchange(address, GET + b"\r\n", GET)
    assert answer.count(b"HTTP/1.1 ") == 2
    is_problem(answer[answer.rindex(b"HTTP/1.1 ") :], 408)


def test_too_many_headers_are_rejected(address: tuple[str, int]) -> None:
    """10,000 headers, a header that is too long, one that never ends, and a URL that is too long."""
    is_problem(exchange(address, GET, b"X-A: b\r\n" * 10_000, b"\r\n"), 431)
    is_problem(exchange(address, GET, b"X-A: ", b"b" * 40_000, b"\r\n\r\n"), 431)
    is_problem(exchange(address, GET, b"X-A: ", *[b"b" * 60_000] * 20), 431)
    is_problem(
        exchange(address, b"GET /" + b"a" * 60_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"), 431
    )


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"hello\r\n\r\n",
        POST + b"Content-Length: -1\r\n\r\n",
        POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        GET + b"X A: b\r\n\r\n",
        GET + b" folded: b\r\n\r\n",
        GET + b"X-A: \x00\r\n\r\n",
    ],
)
def test_garbage_is_rejected(address: tuple[str, int], garbage: bytes) -> None:
    assert exchange(address, garbage).startswith(b"HTTP/1.1 400 ")


def test_chunked_garbage_ends_the_connection(address: tuple[str, int]) -> None:
    answer = exchange(address, POST + b"Transfer-Encoding: chunked\r\n\r\n", b"zz\r\n")
    assert answer.startswith(b"HTTP/1.1 4") or not answer


def test_200_megabytes_are_rejected_unread(address: tuple[str, int]) -> None:
    """With a length, without one, and with `Expect: 100-continue`; memory stays flat."""
    process, block = psutil.Process(), bytes(1 << 20)
    exchange(address, POST + b"Content-Length: 200000\r\n\r\n", block[:200_000])
    before = process.memory_info().rss
    length = b"Content-Length: %d\r\n" % (200 << 20)
    is_problem(exchange(address, POST + length + b"\r\n", *[block] * 200), 413)
    chunk = b"100000\r\n" + block + b"\r\n"
    is_problem(exchange(address, POST + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 200), 413)
    result = exchange(address, POST + length + b"Expect: 100-continue\r\n\r\n")
    assert b"100 Continue" not in result
    is_problem(result, 413)
    assert process.memory_info().rss - before < 40 << 20


def test_a_slow_body_times_out(address: tuple[str, int]) -> None:
    is_problem(exchange(address, POST + b"Content-Length: 100\r\n\r\n", b'{"user"'), 408)


class HalfSent:
    """Clients that keep requests open: most send a head, the first bytes of a body, and no more."""

    def __init__(self, stack: contextlib.ExitStack, address: tuple[str, int]) -> None:
        self._stack = stack
        self._address = address
        self._open: list[socket.socket] = []

    def send(self, path: str = SIGN_IN, *headers: str, source: str = "127.0.0.1") -> None:
        """Open a connection from an address and send half of a request."""
        connection = socket.create_connection(self._address, 10, source_address=(source, 0))
        self._stack.enter_context(connection)
        lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
        lines += ["Content-Length: 1000", *headers]
        connection.sendall("\r\n".join([*lines, "", '{"key": "']).encode())
        self._open.append(connection)

    def open_stream(self, key: str) -> None:
        """Request a stream of events and read nothing of it."""
        connection = self._stack.enter_context(socket.create_connection(self._address, 10))
        request = f"GET /api/events HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {key}\r\n\r\n"
        connection.sendall(request.encode())
        self._open.append(connection)

    def wait_for_responses(self, count: int) -> Counter[bytes]:
        """Wait until so many of the clients have a response; count the statuses."""
        statuses: list[bytes] = []
        with selectors.DefaultSelector() as selector:
            for connection in self._open:
                selector.register(connection, selectors.EVENT_READ)
            while len(statuses) < count:
                ready = selector.select(20)
                assert ready, f"{len(statuses)} of {count} clients have a response"
                for key, _ in ready:
                    selector.unregister(key.fileobj)
                    statuses.append(key.fileobj.recv(12))  # type: ignore[union-attr]
        return Counter(statuses)


class Caller:
    """A client with a key of the tenant acme."""

    def __init__(self, memory: Memory, address: tuple[str, int]) -> None:
        self._address = address
        _, self.key = create_key(memory, "acme", "a caller", PERMISSIONS)
        memory.scope(tenant="acme", user="ada", agent="scout").sessions.add("trip")

    def post(self, path: str, body: object, **headers: str) -> int:
        """Return the status of a request on a connection of its own."""
        connection = http.client.HTTPConnection(*self._address, timeout=20)
        with contextlib.closing(connection):
            connection.request(
                "POST", path, json.dumps(body), {"Content-Type": "application/json", **headers}
            )
            return connection.getresponse().status

    def wait_for_notes(self) -> int:
        """Make a request that may wait for changes; return the status."""
        connection = http.client.HTTPConnection(*self._address, timeout=20)
        headers = {"Authorization": f"Bearer {self.key}", **OWNER}
        with contextlib.closing(connection):
            connection.request("GET", "/api/notes/changes?after=0&wait=0", headers=headers)
            return connection.getresponse().status

    def append(self, n: int) -> int:
        """Append a message; return the status."""
        return self.post(
            "/api/messages/trip",
            {"role": "user", "content": f"{n}"},
            Authorization=f"Bearer {self.key}",
            **OWNER,
        )

    def sign_in(self) -> int:
        """Sign in; return the status."""
        return self.post(SIGN_IN, {"key": self.key})


@pytest.fixture
def attacked(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Memory, HalfSent, Caller]]:
    """A server behind a proxy on this machine, with one caller, and clients that attack it."""
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "127.0.0.1")
    monkeypatch.setattr(limits, "REQUEST_SECONDS", 600)
    with contextlib.ExitStack() as stack:
        memory = stack.enter_context(Memory.open(settings=SETTINGS))
        _, address = stack.enter_context(running(memory))
        yield memory, HalfSent(stack, address), Caller(memory, address)


def test_half_sent_bodies_from_many_addresses_keep_nobody_out(
    attacked: tuple[Memory, HalfSent, Caller],
) -> None:
    """1,100 strangers send half a sign-in: every append and every other sign-in succeeds."""
    _, half_sent, caller = attacked
    for n in range(1_100):
        half_sent.send(source=f"127.0.0.{2 + n % 200}")
        if n % 100 == 99:
            assert caller.append(n) == 201
            assert caller.sign_in() == 200
    assert set(half_sent.wait_for_responses(1_100 - MAX_UNAUTHENTICATED_BODIES)) == {
        b"HTTP/1.1 503"
    }


def test_half_sent_bodies_behind_a_proxy_keep_nobody_out(
    attacked: tuple[Memory, HalfSent, Caller],
) -> None:
    """130 from one address in X-Forwarded-For, and 130 more from one IPv6 network."""
    _, half_sent, caller = attacked
    for n in range(130):
        half_sent.send(SIGN_IN, "X-Forwarded-For: 203.0.113.9")
        half_sent.send(SIGN_IN, f"X-Forwarded-For: 2001:db8::{n:x}")
    for n in range(10):
        assert caller.append(n) == 201
        assert caller.sign_in() == 200
        assert caller.post(SIGN_IN, {"key": "mst_x"}, **{"X-Forwarded-For": "203.0.113.9"}) == 401
    rejected = 2 * (130 - MAX_BODIES_PER_ADDRESS)
    assert set(half_sent.wait_for_responses(rejected)) == {b"HTTP/1.1 503"}


def test_half_sent_bodies_of_another_tenant_keep_nobody_out(
    attacked: tuple[Memory, HalfSent, Caller],
) -> None:
    """Its keys share the slots of its tenant; a key of one's own tenant cannot take all either."""
    memory, half_sent, caller = attacked
    keys = [create_key(memory, "other", f"key {n}", PERMISSIONS)[1] for n in range(5)]
    keys.append(create_key(memory, "acme", "a slow one", PERMISSIONS)[1])
    for key in keys:
        for _ in range(MAX_BODIES_PER_KEY + 2):
            half_sent.send("/api/sessions", f"Authorization: Bearer {key}")
    rejected = 5 * (MAX_BODIES_PER_KEY + 2) - MAX_BODIES_PER_TENANT + 2
    assert set(half_sent.wait_for_responses(rejected)) == {b"HTTP/1.1 503"}
    for n in range(10):
        assert caller.append(n) == 201
        assert caller.sign_in() == 200


def test_callers_are_authenticated_before_a_body_is_read(
    attacked: tuple[Memory, HalfSent, Caller],
) -> None:
    """Without a key, every route with a body rejects half of a request at once."""
    memory, half_sent, caller = attacked
    app = create_app(memory, jobs=False)
    paths = {path for method, path, _ in routes(app) if method == "POST"} | {"/mcp"}
    assert len(paths) > 40
    for path in paths:
        half_sent.send(path)
    assert set(half_sent.wait_for_responses(len(paths))) == {b"HTTP/1.1 401"}
    assert caller.append(1) == 201


def test_event_streams_of_another_tenant_keep_nobody_out(
    attacked: tuple[Memory, HalfSent, Caller],
) -> None:
    """2,000 of them have half of the slots of long-running requests: chats and notes have the others."""
    memory, clients, caller = attacked
    for n in range(0, STREAMS, MAX_STREAMS_PER_CREDENTIAL):
        _, key = create_key(memory, "other", f"key {n}", PERMISSIONS)
        for _ in range(MAX_STREAMS_PER_CREDENTIAL):
            clients.open_stream(key)
    accepted = limits.MAX_IN_FLIGHT // 2
    statuses = clients.wait_for_responses(STREAMS)
    assert statuses == {b"HTTP/1.1 200": accepted, b"HTTP/1.1 503": STREAMS - accepted}
    for n in range(10):
        assert caller.append(n) == 201
        assert caller.wait_for_notes() == 200
        assert caller.sign_in() == 200

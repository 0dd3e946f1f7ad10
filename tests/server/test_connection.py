"""Raw connections: malformed and oversized requests, slow headers and bodies."""

from __future__ import annotations

import asyncio
import contextlib
import json
import selectors
import socket
import time
from collections.abc import Iterator

import psutil
import pytest

from retain import Memory
from retain.auth.api_keys import Keys
from retain.auth.principal import PERMISSIONS
from retain.base import limits
from retain.base.settings import Settings
from retain.server.connection import MAX_JOINED_BYTES, JoiningTransport
from retain.server.middleware import MAX_WAITING_BODIES_PER_ADDRESS
from tests.server.running import exchange, running

SETTINGS = Settings(
    database="memory:",
    rate_per_second=0,
)
POST = b"POST /api/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
GET = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
ATTACKERS = 260  # more than MAX_IN_FLIGHT
CLOSE = b"Connection: close\r\n\r\n"


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    with (
        pytest.MonkeyPatch.context() as patch,
        Memory.open(settings=SETTINGS) as memory,
    ):
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


def test_the_second_request_of_a_connection_times_out_too(
    address: tuple[str, int],
) -> None:
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


def test_many_unfinished_bodies_do_not_keep_others_out() -> None:
    """260 clients that need no key each send 8 of 1,000 bytes; the API and `/readyz` still answer."""
    head = (
        b"POST /api/web/sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    )
    head += b"Content-Length: 1000\r\n\r\n"
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        memory = stack.enter_context(Memory.open(settings=SETTINGS))
        _, key = Keys(memory.database).create("acme", "a test", PERMISSIONS)
        _, address = stack.enter_context(running(memory))
        for _ in range(ATTACKERS):
            attacker = stack.enter_context(socket.create_connection(address, 10))
            attacker.sendall(head + b'{"key": "')
            selector.register(attacker, selectors.EVENT_READ)
        rejections: list[bytes] = []
        while len(rejections) < ATTACKERS - MAX_WAITING_BODIES_PER_ADDRESS:
            for ready, _ in selector.select():
                selector.unregister(ready.fileobj)
                rejections.append(ready.fileobj.recv(12))  # type: ignore[union-attr]
        assert set(rejections) == {b"HTTP/1.1 503"}
        for path in ("/api/sessions", "/readyz"):
            request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            request += f"Authorization: Bearer {key}\r\n\r\n"
            assert exchange(address, request.encode()).startswith(b"HTTP/1.1 200"), path


class RecordedTransport(asyncio.Transport):
    """A transport that keeps each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:  # type: ignore[override]
        assert not self.closed
        self.writes.append(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


def test_head_and_body_are_written_together() -> None:
    async def respond() -> RecordedTransport:
        recorded = RecordedTransport()
        transport = JoiningTransport(recorded, asyncio.get_running_loop())
        transport.write(b"head")
        transport.write(b"body")
        assert not recorded.writes
        await asyncio.sleep(0)
        assert recorded.writes == [b"headbody"]
        await asyncio.sleep(0)
        transport.write(b"event")  # of a stream, whose head was sent before
        await asyncio.sleep(0)
        transport.write(b"x" * (MAX_JOINED_BYTES + 1))  # much is not held back
        assert len(recorded.writes) == 3
        transport.write(b"last")
        transport.close()
        assert transport.is_closing()
        await asyncio.sleep(0)
        return recorded

    assert asyncio.run(respond()).writes[3:] == [b"last"]

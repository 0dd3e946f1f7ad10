"""The configuration of HAProxy, in front of two stub servers."""

from __future__ import annotations

import os
import shutil
import socket
import socketserver
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from testkit.servers import free_port
from tests.deploy.topology import PATIENCE, PROGRAMS, ROOT

pytestmark = pytest.mark.slow


class Backend(socketserver.ThreadingTCPServer):
    """A server that answers every request, or closes the connection after it read one."""

    daemon_threads = True
    requests_to_drop = 0  # of those that have a body

    class RequestHandlerClass(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            length = 0
            while (line := self.rfile.readline().strip().lower()) != b"":
                if line.startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            body = self.rfile.read(length)
            if body and Backend.requests_to_drop:
                Backend.requests_to_drop -= 1
                return
            self.wfile.write(
                b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
            )
            self.wfile.write(body)

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), self.RequestHandlerClass)
        threading.Thread(target=self.serve_forever, daemon=True).start()


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a HAProxy with our configuration."""
    program = shutil.which("haproxy", path=PROGRAMS)
    if program is None:
        assert not os.environ.get("CI"), "HAProxy is not installed"
        pytest.skip("HAProxy is not installed: `make test-all` installs it")
    config = (ROOT / "deploy/haproxy/haproxy.cfg").read_text(encoding="utf-8")
    port = free_port()
    config = config.replace("0.0.0.0:8080", f"127.0.0.1:{port}")
    for name in ("server-1", "server-2"):
        config = config.replace(f"{name}:7700", f"127.0.0.1:{Backend().server_address[1]}")
    file: Path = tmp_path_factory.mktemp("proxy") / "haproxy.cfg"
    file.write_text(config.replace("time 30s", "time 2s"))
    process = subprocess.Popen([program, "-db", "-f", str(file)])
    try:
        deadline = time.monotonic() + PATIENCE
        while post(port, "/api/x", 10) != 200:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait(PATIENCE)


def post(port: int, path: str, size: int, key: str = "", parts: int = 2, pause: float = 0) -> int:
    """Send a body in parts, after the headers; return the status, 0 without a response."""
    header = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n"
    if key:
        header += f"Idempotency-Key: {key}\r\n"
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            with suppress(OSError):  # the proxy may respond and close before the body is sent
                connection.sendall(f"{header}\r\n".encode())
                for _ in range(parts):
                    time.sleep(pause)
                    connection.sendall(b"x" * (size // parts))
            return int(connection.recv(100).split()[1])
    except (OSError, IndexError):
        return 0


@pytest.mark.parametrize("size", [100, 400_000])
def test_a_slow_body_arrives(proxy: int, size: int) -> None:
    assert post(proxy, "/api/x", size, key="k", parts=4, pause=0.2) == 200
    assert post(proxy, "/api/x", size, parts=4, pause=0.2) == 200


def test_a_body_that_takes_too_long_is_rejected_if_it_may_be_repeated(proxy: int) -> None:
    assert post(proxy, "/api/x", 100, key="k", parts=1, pause=3) == 408
    assert post(proxy, "/api/x", 100, parts=1, pause=3) == 200


def test_a_request_with_a_key_is_repeated_when_its_server_dies(proxy: int) -> None:
    Backend.requests_to_drop = 1
    assert post(proxy, "/api/x", 100, key="k", pause=0.1) == 200
    assert Backend.requests_to_drop == 0


@pytest.mark.parametrize(("path", "key"), [("/api/x", ""), ("/v1/x", "k")])
def test_other_requests_are_not_repeated(proxy: int, path: str, key: str) -> None:
    Backend.requests_to_drop = 1
    assert post(proxy, path, 100, key=key, pause=0.1) == 502
    assert Backend.requests_to_drop == 0

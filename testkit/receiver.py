"""A local web server that receives webhooks, and misbehaves on request."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass(frozen=True)
class Delivery:
    """One request that arrived."""

    id: str
    headers: dict[str, str]
    body: bytes
    path: str

    @property
    def data(self) -> dict[str, Any]:
        """The event."""
        data: dict[str, Any] = json.loads(self.body)["data"]
        return data


class Receiver:
    """The server. `behaviour` is a status, `slow`, `reset`, `redirect` or `lie`."""

    def __init__(self, behaviour: str | int = 200) -> None:
        self.behaviour = behaviour
        self.deliveries: list[Delivery] = []
        self.arrived = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                delivery = Delivery(headers["webhook-id"], headers, body, self.path)
                receiver.deliveries.append(delivery)
                receiver.arrived.set()
                receiver.respond(self)

            def do_GET(self) -> None:
                raise AssertionError("the redirect was followed")

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self.url = f"http://127.0.0.1:{self.port}/hooks?a=1"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def respond(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer a request, or do not."""
        how = self.behaviour
        if how == "slow":
            time.sleep(2)  # longer than the time limit of the tests
        if how == "reset":
            linger = struct.pack("ii", 1, 0)
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            handler.connection.close()
            handler.close_connection = True
            return
        handler.send_response(how if isinstance(how, int) else 302 if how == "redirect" else 200)
        if how == "redirect":
            handler.send_header("Location", self.url + "&again=1")
        handler.send_header("Content-Length", "1000000" if how == "lie" else "0")
        handler.end_headers()
        handler.close_connection = True

    @property
    def numbers(self) -> list[int]:
        """The numbers of the events that arrived, in order."""
        return [delivery.data["number"] for delivery in self.deliveries]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

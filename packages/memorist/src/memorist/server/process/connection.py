"""HTTP connection with limits on the number, the size and the arrival time of headers.

uvicorn has no such limits, so an attacker could keep connections open forever.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from memorist.api import problem
from memorist.server.http.guarded_request import CSP_HEADER, SECURITY_HEADERS

MAX_HEADERS = 100
MAX_HEADER_BYTES = 32 << 10
_REASONS = {400: b"Bad Request", 408: b"Request Timeout", 431: b"Request Header Fields Too Large"}


class TooManyHeaders(Exception):
    """Raised when a request has too many or too long headers."""


class Connection(HttpToolsProtocol):
    """A connection that limits the headers of its requests."""

    def __init__(self, *args: Any, seconds: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self._reading = True
        """True while headers are expected: of the first request, or of one that has started."""
        self._received_bytes = self._size = 0
        self._status = 400

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer for the headers."""
        super().connection_made(transport)
        self._timer = self.loop.call_later(self._seconds, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        super().connection_lost(exc)
        self._stop_waiting()

    def data_received(self, data: bytes) -> None:
        """Count received bytes; if headers are missing, start the timer for the rest."""
        super().data_received(data)
        if self._reading and not self.transport.is_closing():
            self._received_bytes += len(data)
            if self._received_bytes > MAX_HEADER_BYTES:
                self._refuse(431, _TOO_MANY)
            elif self._timer is None:
                self._timer = self.loop.call_later(self._seconds, self._too_slow)

    def on_message_begin(self) -> None:
        """Reset the counters at the first bytes of a request."""
        super().on_message_begin()
        self._reading = True
        self._received_bytes = self._size = 0

    def on_url(self, url: bytes) -> None:
        """Count a part of the URL; the first header checks the sum."""
        self._size += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count one whole header, or trailer of a body."""
        self._size += len(name) + len(value)
        if self._size > MAX_HEADER_BYTES or len(self.headers) >= MAX_HEADERS:
            self._status = 431
            raise TooManyHeaders
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Stop the timer; the time limit of the body is checked elsewhere."""
        self._reading = False
        self._stop_waiting()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Reject data that is not a valid request."""
        if self._status == 431:
            self._refuse(431, _TOO_MANY)
        else:
            self._refuse(400, "The request is not valid HTTP.")

    def _too_slow(self) -> None:
        self._timer = None
        self._refuse(408, f"The headers did not arrive within {self._seconds:g} seconds.")

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: int, detail: str) -> None:
        """Respond with an error and close; if another response is in progress, only close."""
        self._stop_waiting()
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            response = problem.response(status, detail, "")
            headers = [
                *response.raw_headers,
                CSP_HEADER,
                *SECURITY_HEADERS,
                (b"connection", b"close"),
            ]
            lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
            head = b"HTTP/1.1 %d %s\r\n" % (status, _REASONS[status])
            self.transport.write(head + lines + b"\r\n" + bytes(response.body))
        self.transport.close()


_TOO_MANY = f"The headers are over {MAX_HEADERS} or over {MAX_HEADER_BYTES:,} bytes: send fewer."

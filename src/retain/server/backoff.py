"""Backoff of clients that the server rejects because it is at capacity.

A client that retries at once would take CPU time from the requests that are served: rejecting a
request takes a third of the CPU time of an append. So while the server is at capacity, a connection
that comes back before its Retry-After waits for that time, and Retry-After doubles with each
rejection in a row.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

RETRY_SECONDS = 1
MAX_RETRY_SECONDS = 4
MAX_CONNECTIONS = 4096
"""Rejected connections that are remembered, and requests that wait at the same time."""

Connection = tuple[str, int, bool] | None
"""Address and port of a client, and whether its requests are long; None if it is not known."""


class Backoff:
    """The connections whose last request was rejected because of the load."""

    def __init__(self, stopping: asyncio.Event) -> None:
        self._stopping = stopping
        self._waiting = 0
        self._rejected: dict[Connection, tuple[float, int]] = {}
        """The time of the next request of a connection, and the seconds of its Retry-After."""

    async def wait(self, connection: Connection) -> None:
        """Wait until the connection may send a request, or until the server stops."""
        if connection not in self._rejected:
            return
        retry_at, _ = self._rejected[connection]
        seconds = retry_at - asyncio.get_running_loop().time()
        if seconds <= 0 or self._waiting >= MAX_CONNECTIONS:
            return
        self._waiting += 1
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), seconds)
        finally:
            self._waiting -= 1

    def reject(self, connection: Connection) -> int:
        """Remember a rejection and return the seconds of its Retry-After."""
        _, last_seconds = self._rejected.get(connection, (0.0, 0))
        seconds = min(2 * last_seconds, MAX_RETRY_SECONDS) or RETRY_SECONDS
        if len(self._rejected) >= MAX_CONNECTIONS:
            self._rejected.clear()
        if connection is not None:
            retry_at = asyncio.get_running_loop().time() + seconds
            self._rejected[connection] = retry_at, seconds
        return seconds

    def accept(self, connection: Connection) -> None:
        """Forget the rejections of a connection."""
        self._rejected.pop(connection, None)

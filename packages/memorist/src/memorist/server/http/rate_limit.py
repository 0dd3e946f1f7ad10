"""Limits of each client: requests per second, and a backoff while the server is at capacity."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from ipaddress import IPv6Address

BURST_SECONDS = 2.0
"""A client may send this many seconds' worth of requests at once."""
MAX_REMEMBERED_CLIENTS = 20_000
RETRY_SECONDS = 1
MAX_RETRY_SECONDS = 4
MAX_CONNECTIONS = 4096
"""Rejected connections that are remembered, and requests that wait at the same time."""


@lru_cache(maxsize=MAX_REMEMBERED_CLIENTS)
def network_of(address: str) -> str:
    """Return an IPv4 address itself, but the /64 network of an IPv6 address.

    Each host of such a network may choose its addresses freely.
    """
    if ":" not in address:
        return address
    try:
        ip = IPv6Address(address)
    except ValueError:
        return address
    if ip.ipv4_mapped:
        return str(ip.ipv4_mapped)
    return address if ip.is_loopback else str(IPv6Address(int(ip) >> 64 << 64))


Connection = tuple[str, int, bool] | None
"""Address and port of a client, and whether its requests are long; None if it is not known."""


class Rate:
    """A token bucket for each name, stored as one number: the time at which it is full again."""

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._cost = 1 / per_second if per_second > 0 else 0.0
        self._clock = clock
        self._full_at: dict[bytes | str, float] = {}

    def take(self, name: bytes | str) -> float:
        """Take a token and return 0; if there is none, return the seconds until there is one."""
        now = self._clock()
        full_at = max(self._full_at.get(name, 0.0), now) + self._cost
        early = full_at - now - BURST_SECONDS
        if early > 0:
            return early
        if len(self._full_at) >= MAX_REMEMBERED_CLIENTS and name not in self._full_at:
            self._drop_full(now)
        self._full_at[name] = full_at
        return 0.0

    def empty(self, name: bytes | str) -> float:
        """Return the seconds until there is a token, without taking one; 0 if there is one."""
        full_at = self._full_at.get(name, 0.0)
        return max(0.0, full_at + self._cost - self._clock() - BURST_SECONDS)

    def _drop_full(self, now: float) -> None:
        """Drop full buckets; if few are full, drop those that were used longest ago."""
        remaining = {name: full_at for name, full_at in self._full_at.items() if full_at > now}
        while len(remaining) > MAX_REMEMBERED_CLIENTS // 2:
            del remaining[next(iter(remaining))]
        self._full_at = remaining


class Backoff:
    """The connections whose last request was rejected because the server is at capacity.

    A client that retries at once would take CPU time from the requests that are served: rejecting
    a request takes a third of the CPU time of an append. So while the server is at capacity, a
    connection that comes back before its Retry-After waits for that time, and Retry-After doubles
    with each rejection in a row.
    """

    def __init__(self, stopping: asyncio.Event) -> None:
        self._stopping = stopping
        self._waiting = 0
        self.rejected: dict[Connection, tuple[float, int]] = {}
        """The time of the next request of a connection, and the seconds of its Retry-After."""

    async def wait(self, connection: Connection) -> None:
        """Wait until the connection may send a request, or until the server stops."""
        if connection not in self.rejected:
            return
        retry_at, _ = self.rejected[connection]
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
        _, last_seconds = self.rejected.get(connection, (0.0, 0))
        seconds = min(2 * last_seconds, MAX_RETRY_SECONDS) or RETRY_SECONDS
        if len(self.rejected) >= MAX_CONNECTIONS:
            self.rejected.clear()
        if connection is not None:
            retry_at = asyncio.get_running_loop().time() + seconds
            self.rejected[connection] = retry_at, seconds
        return seconds

"""Rate limit: requests per second for each client, with bursts of two seconds' worth."""

from __future__ import annotations

import time
from collections.abc import Callable

BURST_SECONDS = 2.0
MAX_REMEMBERED_CLIENTS = 20_000


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

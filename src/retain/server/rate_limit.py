"""How often somebody may ask: so many times a second, and twice as many at once."""

from __future__ import annotations

import time
from collections.abc import Callable

BURST_SECONDS = 2.0
MOST_KEPT = 20_000


class Rate:
    """A token bucket for each name, kept as one number: when the bucket, drawn from as it was, will be full again."""

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._cost = 1 / per_second if per_second > 0 else 0.0
        self._clock = clock
        self._full: dict[bytes | str, float] = {}

    def take(self, name: bytes | str) -> float:
        """Draw once; 0, or how many seconds too early this is, which costs nothing."""
        now = self._clock()
        full = max(self._full.get(name, 0.0), now) + self._cost
        early = full - now - BURST_SECONDS
        if early > 0:
            return early
        if len(self._full) >= MOST_KEPT and name not in self._full:
            self._forget(now)
        self._full[name] = full
        return 0.0

    def empty(self, name: bytes | str) -> float:
        """How many seconds are missing for one to draw; 0 where there is something."""
        return max(0.0, self._full.get(name, 0.0) + self._cost - self._clock() - BURST_SECONDS)

    def _forget(self, now: float) -> None:
        """Full buckets are as good as none; where hardly any is full, those go that were used longest ago."""
        kept = {name: full for name, full in self._full.items() if full > now}
        while len(kept) > MOST_KEPT // 2:
            del kept[next(iter(kept))]
        self._full = kept

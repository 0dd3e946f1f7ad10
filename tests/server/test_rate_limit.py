"""The token bucket of the rate limit."""

from __future__ import annotations

from retain.server import rate_limit
from retain.server.rate_limit import Rate


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_burst_is_twice_the_rate() -> None:
    clock = Clock()
    limit = Rate(10, clock)
    assert [limit.take("a") for _ in range(20)] == [0.0] * 20
    assert 0 < limit.take("a") <= 0.1
    assert limit.take("b") == 0
    clock.now += 0.11
    assert limit.empty("a") == 0
    assert limit.take("a") == 0
    assert limit.empty("a") > 0
    assert limit.take("a") > 0


def test_the_buckets_are_bounded(monkeypatch: object) -> None:
    clock = Clock()
    limit = Rate(1, clock)
    for n in range(rate_limit.MAX_REMEMBERED_CLIENTS * 2):
        limit.take(str(n))
    assert len(limit._full_at) <= rate_limit.MAX_REMEMBERED_CLIENTS
    last = str(rate_limit.MAX_REMEMBERED_CLIENTS * 2 - 1)
    assert limit.take(last) == 0
    assert limit.take(last) > 0, "the one used last was forgotten"


def test_no_limit() -> None:
    limit = Rate(0)
    assert not any(limit.take("a") for _ in range(10_000))

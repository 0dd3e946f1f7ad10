"""The token bucket of the rate limit."""

from __future__ import annotations

from memorist.server.http import rate_limit
from memorist.server.http.rate_limit import Rate, network_of


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


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


def test_the_addresses_of_one_network_share_a_limit() -> None:
    assert network_of("192.0.2.7") == "192.0.2.7"
    assert network_of("2001:db8::7") == network_of("2001:db8:0:0:ffff::1")
    assert network_of("2001:db8::7") != network_of("2001:db8:0:1::7")
    assert network_of("::ffff:192.0.2.7") == "192.0.2.7"
    assert network_of("::1") == "::1"
    assert network_of("no address:") == "no address:"

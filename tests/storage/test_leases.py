"""Leases: one holder at a time, by the database clock, with a fence against late holders."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from memorist import Memory
from memorist.base import clock
from memorist.storage import leases
from memorist.storage.database import Database

MINUTE = 60.0


class Now:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.micros = 1_800_000_000_000_000

    def __call__(self) -> int:
        return self.micros

    def forward(self, seconds: float) -> None:
        self.micros += round(seconds * clock.SECOND)


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def database(open_memory: Callable[..., Memory], now: Now) -> Database:
    return open_memory(clock=now).database


def holds(database: Database, lease: leases.Lease) -> bool:
    return database.write(lease.tenant, lambda tx: leases.is_held(tx, lease))


def test_one_holder_at_a_time(database: Database) -> None:
    lease = leases.claim(database, "acme", "a", MINUTE)
    assert lease is not None
    assert leases.claim(database, "acme", "a", MINUTE) is None
    assert leases.claim(database, "acme", "b", MINUTE) is not None, "something else"
    assert leases.claim(database, "other", "a", MINUTE) is not None, "somebody else's"
    assert holds(database, lease)


def test_a_released_lease_is_available_at_once(database: Database) -> None:
    lease = leases.claim(database, "acme", "a", MINUTE)
    assert lease is not None
    leases.release(database, lease)
    leases.release(database, lease)
    assert not holds(database, lease)
    assert leases.claim(database, "acme", "a", MINUTE) is not None


def test_an_expired_holder_is_fenced_off(database: Database, now: Now) -> None:
    """F14."""
    first = leases.claim(database, "acme", "a", MINUTE)
    assert first is not None
    now.forward(59.999_999)
    assert leases.claim(database, "acme", "a", MINUTE) is None
    now.forward(0.000_001)
    assert holds(database, first), "it ran out, but nobody wanted it"
    second = leases.claim(database, "acme", "a", MINUTE)
    assert second is not None
    assert second.fence > first.fence
    assert holds(database, second)
    assert not holds(database, first)
    assert not leases.renew(database, first, MINUTE)
    leases.release(database, first)
    assert holds(database, second), "what is another's cannot be given back"


def test_renewal_counts_from_now(database: Database, now: Now) -> None:
    lease = leases.claim(database, "acme", "a", MINUTE)
    assert lease is not None
    now.forward(50)
    assert leases.renew(database, lease, MINUTE)
    now.forward(50)
    assert leases.claim(database, "acme", "a", MINUTE) is None
    now.forward(10)
    assert leases.claim(database, "acme", "a", MINUTE) is not None


def test_a_fence_is_never_reused(database: Database, now: Now) -> None:
    """Not even when the clock stops or goes back while leases come and go."""
    zombie = leases.claim(database, "acme", "a", MINUTE)
    assert zombie is not None
    now.forward(MINUTE)
    for step in (0.0, -30.0, 0.0, 0.000_001):
        now.forward(step)
        now.forward(2 * MINUTE)
        lease = leases.claim(database, "acme", "a", MINUTE)
        assert lease is not None
        assert lease.fence != zombie.fence
        assert not holds(database, zombie)
        leases.release(database, lease)
        assert not holds(database, zombie)


def test_one_of_many_concurrent_claims_wins(database: Database) -> None:
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda _: leases.claim(database, "acme", "a", MINUTE), range(64)))
    assert sum(lease is not None for lease in found) == 1


def test_expired_leases_are_purged(database: Database, now: Now) -> None:
    leases.claim(database, "acme", "dead", MINUTE)
    now.forward(MINUTE + 24 * 60 * MINUTE)
    leases.claim(database, "acme", "alive", MINUTE)
    assert leases.sweep(database, "acme") == 0, "a day after it ran out, not before"
    now.forward(1)
    assert leases.sweep(database, "acme") == 1
    assert leases.claim(database, "acme", "alive", MINUTE) is None, "the living keep theirs"

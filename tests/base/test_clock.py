"""Time in microseconds: exact in both directions, for every date and zone (B16, B21)."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorist.base import clock
from memorist.base.errors import Invalid
from testkit.failures import invalid, raised

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
MOST = (LAST - EPOCH) // timedelta(microseconds=1)


@given(
    st.integers(0, MOST)
    | st.integers(2**52 - 10**6, 2**52 + 10**6)
    | st.integers(2**31 * 10**6 - 10, 2**33 * 10**6)
)
def test_every_microsecond_round_trips(micros: int) -> None:
    """Also on both sides of where a double loses precision."""
    moment = clock.to_datetime(micros)
    assert moment == EPOCH + timedelta(microseconds=micros)
    assert moment.tzinfo is UTC
    assert clock.from_datetime(moment, "x") == micros


@given(st.integers(86_400_000_000, MOST - 86_400_000_000), st.integers(-24 * 60 + 1, 24 * 60 - 1))
def test_zones_denote_the_same_time(micros: int, offset: int) -> None:
    zone = timezone(timedelta(minutes=offset))
    assert clock.from_datetime(clock.to_datetime(micros).astimezone(zone), "x") == micros


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/St_Johns"])
def test_the_local_zone_does_not_matter(zone: str) -> None:
    before = os.environ.get("TZ")
    os.environ["TZ"] = zone
    time.tzset()
    try:
        assert (
            clock.to_datetime(1_760_000_000_123_456).isoformat()
            == "2025-10-09T08:53:20.123456+00:00"
        )
        assert (
            clock.from_datetime(datetime(2025, 10, 9, 8, 53, 20, 123_456, tzinfo=UTC), "x")
            == 1_760_000_000_123_456
        )
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()


@pytest.mark.parametrize(
    "moment",
    [datetime(2026, 1, 1), "2026-01-01", 0, None, EPOCH - timedelta(microseconds=1), EPOCH.date()],
    ids=str,
)
def test_an_invalid_time_is_rejected_by_name(moment: Any) -> None:
    """A naive datetime is ambiguous."""
    invalid("since", clock.from_datetime, moment, "since")


def test_the_limits_of_the_calendar() -> None:
    assert clock.from_datetime(EPOCH, "x") == 0
    assert clock.from_datetime(LAST, "x") == MOST
    late = LAST.replace(tzinfo=timezone(timedelta(hours=-1)))  # an hour into the year 10000
    raised(Invalid, clock.from_datetime, late, "x")
    assert clock.to_datetime_or_none(None) is None
    assert clock.to_datetime_or_none(MOST) == LAST


def test_adding_a_duration() -> None:
    assert clock.after(5, 1, "ttl") == 1_000_005
    assert clock.after(5, 0.000_002, "ttl") == 7
    assert clock.after(5, 1e-12, "ttl") == 6  # never at once
    assert clock.after(0, MOST // 1_000_000, "ttl") <= MOST


@pytest.mark.parametrize(
    "seconds", [0, -1, float("nan"), float("inf"), 1e300, 10**400, True, "1", None], ids=str
)
def test_an_invalid_ttl_is_rejected(seconds: Any) -> None:
    invalid("ttl", clock.after, 0, seconds, "ttl")


def test_now_is_the_system_time_in_microseconds() -> None:
    before = time.time_ns() // 1000
    assert before <= clock.now() <= time.time_ns() // 1000

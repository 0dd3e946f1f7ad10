"""Time as stored: whole microseconds since 1970 in UTC, the same number on every engine."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from memorist.base.errors import Invalid

Clock = Callable[[], int]

SECOND = 1_000_000
MINUTE = 60 * SECOND
DAY = 24 * 60 * MINUTE
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXACT = 2**52  # below this, in the year 2112, a double holds every microsecond
_LAST = 253_402_300_799_999_999  # the last microsecond of the year 9999


def now() -> int:
    """Return the time of the machine's clock, in microseconds."""
    return time.time_ns() // 1_000


def to_datetime(micros: int) -> datetime:
    """Convert microseconds, below 0 before 1970, to an aware datetime in UTC."""
    if 0 <= micros < _EXACT:
        return datetime.fromtimestamp(micros / SECOND, UTC)  # twice as fast as adding to 1970
    return _EPOCH + timedelta(microseconds=micros)


def to_datetime_or_none(micros: int | None) -> datetime | None:
    """Convert microseconds, or null, to a datetime or None."""
    return None if micros is None else to_datetime(micros)


def limit(micros: int) -> int:
    """Return a time that can be stored and shown: at most the end of the year 9999."""
    return max(0, min(micros, _LAST))


def from_datetime(moment: datetime, field: str) -> int:
    """Convert an aware datetime to microseconds; raise `Invalid` for one without a time zone."""
    if not isinstance(moment, datetime):
        raise Invalid(field=field, problem="must be a datetime")
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise Invalid(
            field=field, problem="has no time zone; add one, as in 2026-01-31T12:00:00+00:00"
        )
    micros = (moment - _EPOCH) // timedelta(microseconds=1)
    if not 0 <= micros <= _LAST:
        raise Invalid(field=field, problem="must lie between the years 1970 and 9999")
    return micros


def after(start: int, seconds: float, field: str) -> int:
    """Return the time `seconds` after `start`; raise `Invalid` past the year 9999."""
    if (
        isinstance(seconds, bool)
        or not isinstance(seconds, int | float)
        or not 0 < seconds < float("inf")
    ):
        raise Invalid(field=field, problem="must be a number of seconds above 0")
    if seconds > _LAST / SECOND or start + seconds * SECOND > _LAST:
        raise Invalid(field=field, problem="reaches past the year 9999")
    return start + max(1, round(seconds * SECOND))


def parse_time(text: str | None, field: str, *, days: bool = False) -> datetime | None:
    """Parse an ISO 8601 time; with `days`, a bare date is the start of that day in local time."""
    if text is None:
        return None
    try:
        parsed = datetime.fromisoformat(text)
        return parsed.astimezone() if days and len(text) == len("2026-01-31") else parsed
    except (ValueError, OverflowError):
        raise Invalid(
            field=field, problem=f"must be a time like 2026-01-31T12:00:00Z, not {text!r}"
        ) from None

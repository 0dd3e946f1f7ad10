"""Times in a statement: since when and until when it is true."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from memorist.search.validity import Tense, Times, cut_times

SAID_AT = datetime(2026, 11, 17, 12, tzinfo=UTC)  # a Tuesday


def dates(text: str, tense: Tense = "past") -> tuple[str | None, str | None]:
    times, _ = cut_times(text)
    start, end = times.validity(SAID_AT, tense)
    return (start.date().isoformat() if start else None, end.date().isoformat() if end else None)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("since 2019", "2019-01-01"),
        ("since early 2020", "2020-01-01"),
        ("since May", "2026-05-01"),
        ("since December", "2025-12-01"),
        ("since last May", "2026-05-01"),
        ("since March 15, 2024", "2024-03-15"),
        ("since 2024-03-15", "2024-03-15"),
        ("since yesterday", "2026-11-16"),
        ("last year", "2025-01-01"),
        ("last month", "2026-10-01"),
        ("last week", "2026-11-09"),
        ("last summer", "2026-06-01"),
        ("in the summer of 2019", "2019-06-01"),
        ("on Monday", "2026-11-16"),
        ("two years ago", "2024-11-17"),
        ("about a month ago", "2026-10-18"),
        ("for three years", "2023-11-17"),
        ("for the past two weeks", "2026-11-03"),
        ("for a year and 2 weeks", "2025-11-03"),
        ("seit 2019", "2019-01-01"),
        ("seit letztem Mai", "2026-05-01"),
        ("seit drei Jahren", "2023-11-17"),
        ("vor zwei Wochen", "2026-11-03"),
        ("letztes Jahr", "2025-01-01"),
        ("im Mai 2020", "2020-05-01"),
        ("gestern", "2026-11-16"),
    ],
)
def test_the_past(text: str, start: str) -> None:
    assert dates(text) == (start, None)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("next year", "2027-01-01"),
        ("next month", "2026-12-01"),
        ("next Friday", "2026-11-20"),
        ("in May", "2027-05-01"),
        ("on May 5th", "2027-05-05"),
        ("in two weeks", "2026-12-01"),
        ("tomorrow", "2026-11-18"),
        ("nächstes Jahr", "2027-01-01"),
        ("im Mai", "2027-05-01"),
        ("in zwei Wochen", "2026-12-01"),
        ("ab nächstem Monat", "2026-12-01"),
    ],
)
def test_the_future(text: str, start: str) -> None:
    assert dates(text, "future") == (start, None)


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("until March", "2027-03-01"),
        ("until 2028", "2028-01-01"),
        ("until Friday", "2026-11-21"),
        ("until December 3", "2026-12-04"),
        ("bis März", "2027-03-01"),
        ("bis Freitag", "2026-11-21"),
    ],
)
def test_an_end(text: str, end: str) -> None:
    assert dates(text) == (None, end)


def test_a_range() -> None:
    assert dates("from May to July", "future") == ("2027-05-01", "2027-07-01")
    assert dates("von Mai bis Juli", "future") == ("2027-05-01", "2027-07-01")


def test_a_past_end() -> None:
    times, _ = cut_times("until last May")
    end = times.end_of_past(SAID_AT)
    assert end is not None
    assert end.date().isoformat() == "2026-05-01"
    assert Times().end_of_past(SAID_AT) is None


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("I moved last May to Lisbon", "I moved to Lisbon"),
        ("Since 2019, I live in Lisbon", "I live in Lisbon"),
        ("ich wohne seit letztem Mai in Lissabon", "ich wohne in Lissabon"),
        ("I love May flowers", "I love May flowers"),
        ("I work in marketing", "I work in marketing"),
        ("since I was five", "since I was five"),
    ],
)
def test_the_times_are_cut(text: str, rest: str) -> None:
    assert cut_times(text)[1] == rest


@pytest.mark.parametrize("text", ["since February 31", "since 2024-13-45", "999 years ago"])
def test_dates_that_do_not_exist_do_no_harm(text: str) -> None:
    times, _ = cut_times(text)
    times.validity(SAID_AT)
    times.validity(datetime(1, 1, 1, tzinfo=UTC))
    times.validity(datetime(9999, 12, 31, tzinfo=UTC), "future")


def test_the_zone_of_the_message_counts() -> None:
    sent_at = datetime(2026, 11, 17, 12, tzinfo=timezone(timedelta(hours=2)))
    start, _ = cut_times("since May")[0].validity(sent_at)
    assert start == datetime(2026, 5, 1, tzinfo=timezone(timedelta(hours=2)))

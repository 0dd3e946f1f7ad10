"""Times in a question, in English and German: dates, months, and phrases such as `last week`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from memorist.base import clock
from memorist.base.lazy_pattern import LazyPattern

_MONTHS = (
    "jan january januar jänner",
    "feb february februar",
    "mar march mär mrz märz maerz",
    "apr april",
    "may mai",
    "jun june juni",
    "jul july juli",
    "aug august",
    "sep sept september",
    "oct october okt oktober",
    "nov november",
    "dec december dez dezember",
)
MONTHS = {name: number for number, names in enumerate(_MONTHS, 1) for name in names.split()}
AMBIGUOUS_MONTHS = frozenset(("may", "march", "mar", "jan", "dec", "sep"))
"""Verbs, names and abbreviations: in lower case they are months only after a preposition."""

_WEEKDAYS = (
    "monday montag",
    "tuesday dienstag",
    "wednesday mittwoch",
    "thursday donnerstag",
    "friday freitag",
    "saturday samstag sonnabend",
    "sunday sonntag",
)
WEEKDAYS = {name: number for number, names in enumerate(_WEEKDAYS) for name in names.split()}

_NUMBERS = {
    1: "a an one ein eine einem einen einer",
    2: "two zwei",
    3: "three few drei paar einige einigen wenige wenigen",
    4: "four several vier mehrere mehreren",
    5: "five fünf",
    6: "six sechs",
    7: "seven sieben",
    8: "eight acht",
    9: "nine neun",
    10: "ten zehn",
    11: "eleven elf",
    12: "twelve zwölf",
}
NUMBERS = {word: number for number, words in _NUMBERS.items() for word in words.split()}
NUMBERS["couple of"] = 2

_DAYS_PER_UNIT = {
    1.0: "day days tag tage tagen",
    7.0: "week weeks woche wochen",
    30.4: "month months monat monate monaten monats",
    365.25: "year years jahr jahre jahren jahres",
}
DAYS_PER_UNIT = {word: days for days, words in _DAYS_PER_UNIT.items() for word in words.split()}


def any_of(names: Iterable[str]) -> str:
    """Return a pattern for one of several names, the longest first."""
    return "|".join(sorted(names, key=len, reverse=True))


NUMBER = rf"(?:\d{{1,3}}|(?:an? |ein )?(?:{any_of(NUMBERS)}))"
UNIT = rf"(?:{any_of(DAYS_PER_UNIT)})"
LAST = r"(?:past|last|previous|(?:letzt|vergangen|vorig)e[mnrs]?)"
_MONTH = rf"({any_of(MONTHS)})"
_YEAR = r"((?:19|20)\d\d)"
_BEFORE_MONTH = LazyPattern(
    r"\b(?:in|since|during|until|last|this|im|seit|bis|anfang|mitte|ende|letzte[nrs]?) $",
    re.IGNORECASE,
)
_SINCE = LazyPattern(
    r"\b(?:since|seit)(?: (?:the|dem|der|den|last|letzte[mnrs]?|anfang|mitte|ende))* $",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Span:
    """A range of time in microseconds, end excluded; `exact` if the question named a date."""

    start: int
    end: int
    exact: bool = True


def parse_times(text: str, now: datetime | None) -> list[Span]:
    """Return the times that a question names; each part of the text is parsed once.

    A time without a year is relative to `now`; without `now` it is ignored.
    """
    # Case-insensitive patterns match these two letters as `i` and `s`, but the tables have no such words.
    text = text.replace("ı", "i").replace("ſ", "s")
    spans: list[Span] = []
    for pattern, reader in _READERS:
        matches = list(pattern.finditer(text))
        for match in matches:
            span = reader(match, now)
            if span and now and _SINCE.search(_before_time(match)):
                span = _extend_to_now(span, now)
            if span:
                spans.append(span)
        if matches:
            text = pattern.sub(" ", text)
    return spans


def _before_time(match: re.Match[str]) -> str:
    """Return the text before the first group of a match."""
    starts = [match.start(group) for group in range(1, match.re.groups + 1) if match[group]]
    return match.string[: min(starts)]


def _extend_to_now(span: Span, now: datetime) -> Span:
    """Return the span, extended to one day after now if it ends earlier."""
    end = int(now.timestamp()) * clock.SECOND + clock.DAY
    return replace(span, end=max(span.end, end))


def _iso(match: re.Match[str], now: datetime | None) -> Span | None:
    year, month, day = match.groups()
    return _date(int(year), int(month), int(day) if day else None)


def _numeric(match: re.Match[str], now: datetime | None) -> Span | None:
    day, month, year = match.groups()
    return _last_date(int(month), int(day), year, now)


def _day_month(match: re.Match[str], now: datetime | None) -> Span | None:
    day, month, year = match.groups()
    return _last_date(MONTHS[month.lower()], int(day), year, now)


def _month_day(match: re.Match[str], now: datetime | None) -> Span | None:
    month, day, year = match.groups()
    return _last_date(MONTHS[month.lower()], int(day), year, now)


def _month_year(match: re.Match[str], now: datetime | None) -> Span | None:
    month, year = match.groups()
    is_certain = year or month[0].isupper() or month not in AMBIGUOUS_MONTHS
    if not is_certain and not _BEFORE_MONTH.search(_before_time(match)):
        return None
    return _last_date(MONTHS[month.lower()], None, year, now)


def _only_year(match: re.Match[str], now: datetime | None) -> Span | None:
    return _date(int(match[1]), None, None)


def _ago(match: re.Match[str], now: datetime | None) -> Span | None:
    if now is None:
        return None
    number, unit = match.groups()
    days = _count(number) * DAYS_PER_UNIT[unit.lower()]
    slack = max(1.0, 0.5 * DAYS_PER_UNIT[unit.lower()], 0.15 * days)
    return _around(now - timedelta(days=days), slack, slack)


def _before_last(match: re.Match[str], now: datetime | None) -> Span | None:
    if now is None:
        return None
    days = DAYS_PER_UNIT[match[1].lower()]
    return _around(now - timedelta(days=2 * days), days, days)


def _past(match: re.Match[str], now: datetime | None) -> Span | None:
    if now is None:
        return None
    number, unit = match.groups()
    if unit.lower() not in DAYS_PER_UNIT:  # a weekend
        return _around(now - timedelta(days=(now.weekday() + 2) % 7 or 7), 2, 2)
    # Without a number the phrase is vague: `last week` may be the calendar week before this one.
    units = _count(number) if number else 2
    return _around(now, units * DAYS_PER_UNIT[unit.lower()], 1)


def _lasting(match: re.Match[str], now: datetime | None) -> Span | None:
    if now is None:
        return None
    number, unit = match.groups()
    return _around(now, _count(number) * DAYS_PER_UNIT[unit.lower()], 1)


def _this(match: re.Match[str], now: datetime | None) -> Span | None:
    return None if now is None else _around(now, DAYS_PER_UNIT[match[1].lower()], 1)


def _weekday(match: re.Match[str], now: datetime | None) -> Span | None:
    if now is None:
        return None
    back = (now.weekday() - WEEKDAYS[match[1].lower()]) % 7 or 7
    return _around(now - timedelta(days=back), 1, 1)


def _near_day(match: re.Match[str], now: datetime | None) -> Span | None:
    if now is None:
        return None
    name = match[1].lower()
    if name in ("vorgestern", "day before yesterday"):
        return _around(now - timedelta(days=2), 1, 1)
    return _around(now, 1 if name in ("today", "heute", "this morning") else 2, 1)


def _count(text: str) -> int:
    number = text.lower()
    if number not in NUMBERS:
        number = re.sub(r"^(?:an?|ein) ", "", number)
    return int(number) if number.isdigit() else NUMBERS[number]


def _last_date(month: int, day: int | None, year: str | None, now: datetime | None) -> Span | None:
    """Return the span of a date; without a year, the last such date before now."""
    if year:
        return _date(int(year), month, day)
    if now is None:
        return None
    span = _date(now.year, month, day)
    if span and span.start > now.timestamp() * clock.SECOND:
        return _date(now.year - 1, month, day)
    return span


def _date(year: int, month: int | None, day: int | None) -> Span | None:
    """Return the span of a day, a month or a year; None if there is no such date."""
    try:
        start = datetime(year, month or 1, day or 1, tzinfo=UTC)
        if day:
            end = start + timedelta(days=1)
        elif month:
            end = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
        else:
            end = datetime(year + 1, 1, 1, tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
    return Span(int(start.timestamp()) * clock.SECOND, int(end.timestamp()) * clock.SECOND)


def _around(moment: datetime, before: float, after: float) -> Span | None:
    try:
        start = moment - timedelta(days=before)
        end = moment + timedelta(days=after)
        return Span(
            int(start.timestamp() * clock.SECOND), int(end.timestamp() * clock.SECOND), exact=False
        )
    except (ValueError, OverflowError):
        return None


def _compile(pattern: str) -> LazyPattern:
    return LazyPattern(pattern, re.IGNORECASE)


_READERS = (
    (_compile(rf"\b{_YEAR}[-/](\d{{1,2}})(?:[-/](\d{{1,2}}))?\b"), _iso),
    (_compile(rf"\b(\d{{1,2}})\. ?(\d{{1,2}})\. ?{_YEAR}\b"), _numeric),
    (_compile(r"\b(?:am|vom|zum|bis|seit|dem|den) (\d{1,2})\. ?(\d{1,2})\.()(?!\d)"), _numeric),
    (
        _compile(
            rf"\b(\d{{1,2}})(?:(?:st|nd|rd|th)?(?: of)? |\. ?){_MONTH}\b\.?(?:,? {_YEAR})?",
        ),
        _day_month,
    ),
    (
        _compile(rf"\b{_MONTH}\.? (\d{{1,2}})(?:st|nd|rd|th)?\b(?!\d)(?:,? {_YEAR})?"),
        _month_day,
    ),
    (_compile(rf"\b{_MONTH}\b\.?(?:,? (?:of )?{_YEAR})?"), _month_year),
    (
        _compile(rf"\b(?:in|of|during|since|year|im Jahre?|seit|Jahr|Jahres|von) {_YEAR}\b"),
        _only_year,
    ),
    (_compile(rf"\b({NUMBER}) ({UNIT}) (?:ago|back)\b"), _ago),
    (_compile(rf"\bvor ({NUMBER}) ({UNIT})\b"), _ago),
    (_compile(rf"\bvorletzte[mnrs]? ({UNIT})\b"), _before_last),
    (_compile(rf"\bseit ({NUMBER}) ({UNIT})\b"), _lasting),
    (_compile(rf"\b{LAST} (?:({NUMBER}) )?({UNIT}|weekends?|Wochenenden?)\b"), _past),
    (_compile(rf"\b(?:this|diese[mnrs]?) ({UNIT})\b"), _this),
    (
        _compile(rf"\b(?:last|this past|on|am|letzten|vergangenen|vorigen) ({any_of(WEEKDAYS)})\b"),
        _weekday,
    ),
    (
        _compile(
            r"\b(today|day before yesterday|yesterday|this morning|last night|"
            r"heute|vorgestern|gestern|letzte Nacht)\b"
        ),
        _near_day,
    ),
)

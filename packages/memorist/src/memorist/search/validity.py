"""Times in a statement, in English and German: since when and until when it is true.

`times` reads the times that a question names as fuzzy ranges to search in. A statement needs exact
ends instead: `since last May` becomes the first of that May. Both share the tables of words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from memorist.base.lazy_pattern import LazyPattern
from memorist.search.times import DAYS_PER_UNIT, MONTHS, NUMBER, NUMBERS, UNIT, WEEKDAYS, any_of

Tense = Literal["past", "future"]
"""Direction in which a time without a year is read: `in May` is the last May or the next one."""

_SEASON_MONTHS = {
    3: "spring frühling frühjahr",
    6: "summer sommer",
    9: "fall autumn herbst",
    12: "winter",
}
SEASONS = {name: month for month, names in _SEASON_MONTHS.items() for name in names.split()}

_DAY_OFFSETS = {
    -2: "vorgestern",
    -1: "yesterday gestern",
    0: "today tonight heute",
    1: "tomorrow morgen",
    2: "übermorgen",
}
DAY_OFFSETS = {name: days for days, names in _DAY_OFFSETS.items() for name in names.split()}


_MONTH = rf"(?:{any_of(MONTHS)})\b\.?"
_YEAR = r"(?:19|20)\d\d\b"
_DAY = r"\d{1,2}(?:st|nd|rd|th|\.)?"
_NAMED = rf"(?:{any_of(WEEKDAYS)}|{any_of(SEASONS)}|{_MONTH}|{UNIT}|weekend|Wochenende)\b"
_LAST = r"(?:last|this past|(?:letzt|vergangen|vorig)e[mnrs]?)"
_NEXT = r"(?:next|this coming|(?:nächst|kommend)e[mnrs]?)"
_THIS = r"(?:this|diese[mnrs]?)"
_PART = r"(?:(?:the )?(?:beginning|start|middle|end) of|early|mid|late|Anfang|Mitte|Ende)[ -]"

# A date: `2024-05-01`, `1 May 2024`, `May 1st`, `May 2024`, `2024`.
_DATE = (
    rf"(?:{_YEAR}-\d{{2}}(?:-\d{{2}})?\b"
    rf"|{_DAY} (?:of )?{_MONTH}(?:,? {_YEAR})?"
    rf"|{_MONTH} {_DAY}\b(?:,? {_YEAR})?"
    rf"|{_MONTH}(?:,? (?:of )?{_YEAR})?"
    rf"|(?:the year |Jahr )?{_YEAR}"
    rf"|(?:{any_of(SEASONS)})(?: of)? {_YEAR})"
)
# A time that is relative to the message: `last May`, `next year`, `two weeks ago`, `tomorrow`.
_RELATIVE = (
    rf"(?:(?:{_LAST}|{_NEXT}|{_THIS}) {_NAMED}"
    rf"|(?:about |around |over |almost )?{NUMBER} {UNIT} ago"
    rf"|vor {NUMBER} {UNIT}\b"
    rf"|(?:the day before |the day after )?(?:{any_of(DAY_OFFSETS)})\b)"
)
_WEEKDAY = rf"(?:{any_of(WEEKDAYS)})\b"
_PERIOD = rf"(?:(?:{_PART})?(?:{_DATE}|{_RELATIVE}|{_WEEKDAY}))"
_AHEAD = rf"in (?:about |around )?{NUMBER} {UNIT}\b"
_ARTICLE = r"(?:(?:the|dem|der|den|zum|zur|in|on|im|am) )?"


def _compile(pattern: str) -> LazyPattern:
    return LazyPattern(rf"(?<![\w-]){pattern}(?![\w-])", re.IGNORECASE)


_RANGE = _compile(
    rf"(?:from|von) {_ARTICLE}({_PERIOD}) (?:to|until|till|through|bis) {_ARTICLE}({_PERIOD})"
)
_SINCE = _compile(rf"(?:ever since|since|seit|as of|from|ab) {_ARTICLE}({_PERIOD})")
_UNTIL = _compile(rf"(?:until|till|through|bis) {_ARTICLE}({_PERIOD})")
_LENGTH = _compile(
    r"(?:for|seit)(?: (?:about|around|over|almost|nearly|more than|the last|the past|etwa|über|"
    r"fast))*"
    rf" ({NUMBER} {UNIT}(?: (?:and|und) {NUMBER} {UNIT})?)(?: now)?"
)
_AT = _compile(
    rf"(?:(?:back in|in|on|during|im|am)(?: the)? ((?:{_PART})?{_DATE}|{_WEEKDAY}|{_RELATIVE})"
    rf"|({_RELATIVE})|({_AHEAD}))"
)
_UNITS_AWAY = _compile(
    rf"(?:({NUMBER}) ({UNIT}) ago|(?:vor|in)(?: about| around)? ({NUMBER}) ({UNIT}))"
)
_SHIFTED = _compile(rf"({_LAST}|{_NEXT}|{_THIS}) ({_NAMED})")
# A word that every time has, in lower case: most texts have none, and need no further look.
_ANY_TIME = LazyPattern(
    rf"\d|\b(?:{any_of(MONTHS)}|{any_of(WEEKDAYS)}|{any_of(SEASONS)}|{any_of(DAYS_PER_UNIT)}"
    rf"|{any_of(DAY_OFFSETS)}|weekend|wochenende)\b"
)
_WORD = re.compile(r"[^\W\d_]+")
_YEAR_NUMBER = re.compile(r"\b(?:19|20)\d\d\b")
_DAY_NUMBER = re.compile(r"\b(\d{1,2})(?:st|nd|rd|th|\.)?(?!\d)")
_ISO_DATE = re.compile(r"\b(\d{4})-(\d{2})(?:-(\d{2}))?\b")


@dataclass(frozen=True)
class Times:
    """The words of a statement that say when it is true."""

    since: str = ""
    until: str = ""
    at: str = ""
    length: str = ""

    def validity(
        self, sent_at: datetime, tense: Tense = "past"
    ) -> tuple[datetime | None, datetime | None]:
        """Return when the statement begins and ends to be true, where its words say so.

        `until March` ends when March begins; `until Friday` ends with that day.
        """
        start: datetime | None = None
        end: datetime | None = None
        first = self.since or self.at
        if first:
            start = _period_start(first, sent_at, tense)
        elif self.length and tense == "past":
            start = _shift(sent_at, self.length, -1)
        if self.until:
            end = _period_start(self.until, start or sent_at, "future")
            if end and _names_a_day(self.until):
                end += timedelta(days=1)
        if start and end and end <= start:
            end = None
        return start, end

    def end_of_past(self, sent_at: datetime) -> datetime | None:
        """Return when a statement that is no longer true ended, where its words say so."""
        phrase = self.until or self.at or self.since
        if not phrase:
            return None
        end = _period_start(phrase, sent_at, "past")
        return end if end and end <= sent_at else None


def cut_times(text: str) -> tuple[Times, str]:
    """Return the times of a statement, and the statement without them."""
    if not _ANY_TIME.search(text.lower()):
        return Times(), text
    since = until = at = length = ""
    match = _RANGE.search(text)
    if match:
        since = match[1]
        until = match[2]
        text = _cut(text, match)
    match = _LENGTH.search(text)
    if match:
        length = match[1]
        text = _cut(text, match)
    match = _SINCE.search(text)
    if match:
        since = match[1]
        text = _cut(text, match)
    match = _UNTIL.search(text)
    if match:
        until = match[1]
        text = _cut(text, match)
    match = _AT.search(text)
    if match:
        at = match[1] or match[2] or match[3]
        text = _cut(text, match)
    return Times(since, until, at, length), text


def _cut(text: str, match: re.Match[str]) -> str:
    before = text[: match.start()].rstrip(" ,")
    after = text[match.end() :].lstrip(" ,")
    return f"{before} {after}".strip()


def _names_a_day(phrase: str) -> bool:
    """Return whether the words name a single day, not a month or a year."""
    words = phrase.lower().split()
    if any(word in WEEKDAYS or word in DAY_OFFSETS for word in words):
        return True
    return bool(_DAY_NUMBER.search(_YEAR_NUMBER.sub("", phrase)))


def _period_start(phrase: str, now: datetime, tense: Tense) -> datetime | None:
    """Return the first moment of a period; None if there is no such date."""
    try:
        return (
            _read_units_away(phrase, now)
            or _read_shifted(phrase, now)
            or _read_date(phrase, now, tense)
        )
    except (ValueError, OverflowError):
        return None


def _read_units_away(phrase: str, now: datetime) -> datetime | None:
    """Read `two years ago`, `vor zwei Jahren`, `in two weeks`."""
    match = _UNITS_AWAY.search(phrase)
    if match is None:
        return None
    number = match[1] or match[3]
    unit = match[2] or match[4]
    is_ahead = phrase.lower().startswith("in ")
    return _shift(now, f"{number} {unit}", 1 if is_ahead else -1)


def _read_shifted(phrase: str, now: datetime) -> datetime | None:
    """Read `last May`, `next year`, `this summer`, `letzten Montag`."""
    match = _SHIFTED.search(phrase)
    if match is None:
        return None
    direction = match[1].lower()
    name = match[2].lower().rstrip(".")
    if re.fullmatch(_LAST, direction, re.IGNORECASE):
        step = -1
    else:
        step = 1 if re.fullmatch(_NEXT, direction, re.IGNORECASE) else 0
    if name in DAYS_PER_UNIT:
        return _unit_start(DAYS_PER_UNIT[name], step, now)
    if name in ("weekend", "wochenende"):
        saturday = _day(now) + timedelta(days=5 - now.weekday())
        return saturday + timedelta(weeks=step)
    if name in WEEKDAYS:
        return _weekday(WEEKDAYS[name], "past" if step < 0 else "future", now)
    month = MONTHS.get(name) or SEASONS[name]
    if step == 0:
        return datetime(now.year, month, 1, tzinfo=now.tzinfo or UTC)
    return _month(month, None, "past" if step < 0 else "future", now)


def _read_date(phrase: str, now: datetime, tense: Tense) -> datetime | None:
    """Read a date, a month, a season, a year, a weekday, or a word such as `yesterday`."""
    zone = now.tzinfo or UTC
    iso = _ISO_DATE.search(phrase)
    if iso:
        return datetime(int(iso[1]), int(iso[2]), int(iso[3] or 1), tzinfo=zone)
    words = [word.lower() for word in _WORD.findall(phrase)]
    for word in words:
        if word in DAY_OFFSETS:
            return _day(now) + timedelta(days=DAY_OFFSETS[word])
        if word in WEEKDAYS:
            return _weekday(WEEKDAYS[word], tense, now)
    year = _YEAR_NUMBER.search(phrase)
    month = next(
        (MONTHS.get(word) or SEASONS.get(word) for word in words if word in _MONTH_NAMES), 0
    )
    if not month:
        return datetime(int(year[0]), 1, 1, tzinfo=zone) if year else None
    day = _DAY_NUMBER.search(_YEAR_NUMBER.sub("", phrase))
    day_number = int(day[1]) if day else None
    if year:
        return datetime(int(year[0]), month, day_number or 1, tzinfo=zone)
    return _month(month, day_number, tense, now)


_MONTH_NAMES = frozenset(MONTHS) | frozenset(SEASONS)


def _day(moment: datetime) -> datetime:
    zone = moment.tzinfo or UTC
    return datetime(moment.year, moment.month, moment.day, tzinfo=zone)


def _weekday(weekday: int, tense: Tense, now: datetime) -> datetime:
    """Return the last such weekday before today, or the next one after it."""
    if tense == "past":
        back = (now.weekday() - weekday) % 7 or 7
        return _day(now) - timedelta(days=back)
    ahead = (weekday - now.weekday()) % 7 or 7
    return _day(now) + timedelta(days=ahead)


def _month(month: int, day: int | None, tense: Tense, now: datetime) -> datetime:
    """Return the last such month or day that has begun, or the next one that has not."""
    zone = now.tzinfo or UTC
    start = datetime(now.year, month, day or 1, tzinfo=zone)
    today = _day(now)
    if tense == "past" and start > today:
        return start.replace(year=now.year - 1)
    if tense == "future" and start <= today:
        return start.replace(year=now.year + 1)
    return start


def _unit_start(days: float, step: int, now: datetime) -> datetime:
    """Return the start of the last, this or next day, week, month or year."""
    today = _day(now)
    if days == 1:
        return today + timedelta(days=step)
    if days == 7:
        return today - timedelta(days=now.weekday()) + timedelta(weeks=step)
    if days < 32:
        months = now.year * 12 + now.month - 1 + step
        return today.replace(year=months // 12, month=months % 12 + 1, day=1)
    return today.replace(year=now.year + step, month=1, day=1)


def _shift(now: datetime, length: str, sign: int) -> datetime | None:
    """Return the day that is `length` away: `three years`, `a few months`, `a year and a month`."""
    days = sum(_days(part) for part in re.split(r" (?:and|und) ", length.lower()))
    try:
        return _day(now) + timedelta(days=round(sign * days))
    except OverflowError:
        return None


def _days(length: str) -> float:
    *number_words, unit = length.split()
    number = " ".join(number_words)
    if number not in NUMBERS:
        number = re.sub(r"^(?:an?|ein) ", "", number)
    count = int(number) if number.isdigit() else NUMBERS[number]
    return count * DAYS_PER_UNIT[unit]

"""Question understanding: who and when a question is about, and what sort of answer it wants.

Pure functions. Whatever is not understood is left to the words. Times are parsed in English. Names
are recognised only among known authors, so that `Will` is a name only if there is a Will.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from retain.base import clock
from retain.search import words
from retain.search.english import MONTHS

_MONTH = (
    "(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    "nov(?:ember)?|dec(?:ember)?)"
)
_NUMBERS = {
    "a": 1,
    "an": 1,
    "one": 1,
    "two": 2,
    "couple of": 2,
    "three": 3,
    "few": 3,
    "four": 4,
    "several": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "eleven": 11,
    "twelve": 12,
}
_NUMBER = r"(\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:a )?couple of|(?:a )?few|several)"
_YEAR = r"((?:19|20)\d\d)"
_DAY = r"(\d{1,2})(?:st|nd|rd|th)?"
_UNITS = {"day": 1, "week": 7, "month": 30.4, "year": 365.25}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

_ISO = re.compile(r"\b((?:19|20)\d\d)[-/](\d{1,2})(?:[-/](\d{1,2}))?\b")
_DAY_MONTH = re.compile(rf"\b{_DAY}(?: of)? {_MONTH}\b\.?(?:,? {_YEAR})?", re.IGNORECASE)
_MONTH_DAY = re.compile(rf"\b{_MONTH}\.? {_DAY}\b(?!\d)(?:,? {_YEAR})?", re.IGNORECASE)
_MONTH_YEAR = re.compile(rf"\b{_MONTH}\b\.?(?:,? (?:of )?{_YEAR})?", re.IGNORECASE)
_ONLY_YEAR = re.compile(rf"\b(?:in|of|during|since|year) {_YEAR}\b", re.IGNORECASE)
_AGO = re.compile(rf"\b{_NUMBER} (day|week|month|year)s? (?:ago|back)\b", re.IGNORECASE)
_PAST = re.compile(
    rf"\b(?:past|last|previous) (?:{_NUMBER} )?(day|week|weekend|month|year)s?\b", re.IGNORECASE
)
_THIS = re.compile(r"\bthis (week|month|year)\b", re.IGNORECASE)
_LAST_WEEKDAY = re.compile(rf"\b(?:last|this past|on) ({'|'.join(_WEEKDAYS)})\b", re.IGNORECASE)
_NEAR_DAY = re.compile(r"\b(today|yesterday|this morning|last night)\b", re.IGNORECASE)

_RECENT = re.compile(
    r"\b(?:latest|newest|(?:most )?recent(?:ly)?|lately|current(?:ly)?|now(?:adays)?|these days|at the moment|so far|still|"
    r"last time|up to date|(?:my|the|our) last)\b",
    re.IGNORECASE,
)
_FIRST = re.compile(
    r"\b(?:first|earliest|initial(?:ly)?|original(?:ly)?|in the beginning)\b", re.IGNORECASE
)
_MANY = re.compile(
    r"\b(?:how many|how much|how often|list|all (?:the|my|of)|total|altogether|combined|number of|order of|in what order|"
    r"which of|what are|what (?:\w+ )?(?:kinds|types|sorts)|summar\w+|overview|both|between)\b",
    re.IGNORECASE,
)
_OWN = re.compile(
    r"\b(?:i|me|my|mine|myself|i['’]\w+|we|our|us|ich|mein\w*|mir|mich|je|mon|ma|mes|yo|mi|mis)\b",
    re.IGNORECASE,
)
_SAYING = (
    "(?:said|say|told|tell|gave|give|mention|recommend|suggest|provid|list|explain|describ|wrote|write|shar|help|creat|made|us|"
    "propos|advis|remind)"
)
_ABOUT_ANSWERS = re.compile(
    rf"\byou (?:\w+ )?(?:{_SAYING}\w*|had|were|did)\b|\b(?:did|could|can|have|had) you (?:\w+ )?{_SAYING}\w*|"
    r"\b(?:your|our|the|last|previous|earlier) (?:\w+ )?(?:suggestion|recommendation|advice|answer|explanation|conversation|"
    r"chat|discussion)s?\b|\bremind me\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"[\"“”«»„]([^\"“”«»„]{2,200})[\"“”«»“]|(?<!\w)['‘]([^'‘’]{3,80})['’](?!\w)")
_QUESTION_MARK = re.compile(r"\?\s*$|\?\s", re.MULTILINE)
_BEGINS = re.compile(r"(?:[.!?:…]\s+|\n\s*|[\"“”«»„]\s*)$")
_LOWER = re.compile(r"(?<![\w'’])[a-zà-öø-ÿа-яα-ω]{2}")


@dataclass(frozen=True)
class Span:
    """A range of time in microseconds, end excluded; `exact` if the question named a date."""

    start: int
    end: int
    exact: bool = True


@dataclass(frozen=True)
class Question:
    """A parsed question: `words` to look up in the index, `for_embedding` as the text to embed."""

    text: str
    words: tuple[str, ...]
    for_embedding: str
    authors: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # the words among `words` that are parts of those authors' names
    spans: tuple[Span, ...] = ()
    phrases: tuple[tuple[str, ...], ...] = ()
    recent: bool = False
    first: bool = False
    many: bool = False
    own: bool = False
    about_answers: bool = False
    now: int | None = None


def parse_question(
    text: str, *, now: datetime | int | None = None, authors: Collection[str] = ()
) -> Question:
    """Parse a question asked at `now`; `authors` are the authors of messages in scope."""
    moment = clock.to_datetime(now) if isinstance(now, int) else now
    named_authors, names, bare = _authors(text, authors)
    return Question(
        text=text,
        words=tuple(words.query_words(text)),
        for_embedding=bare,
        authors=named_authors,
        names=names,
        spans=tuple(_spans(text, moment)),
        phrases=_phrases(text),
        recent=bool(_RECENT.search(text)),
        first=bool(_FIRST.search(text)),
        many=bool(_MANY.search(text)),
        own=bool(_OWN.search(text)),
        about_answers=bool(_ABOUT_ANSWERS.search(text)),
        now=None if moment is None else int(moment.timestamp() * clock.SECOND),
    )


def _authors(text: str, authors: Collection[str]) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Return the authors in a question, the index words of their names, and the question without.

    A name stays a word if nothing else is left to look up, or if it also occurs as a word.
    """
    named: list[str] = []
    taken: list[str] = []
    bare = words.strip_question_phrases(text)
    for author in authors:
        forms_used, is_certain = _find_name(author, text)
        if forms_used:
            named.append(author)
        if forms_used and is_certain:
            taken += forms_used
    forms = "|".join(map(re.escape, sorted(taken, key=len, reverse=True)))
    rest = re.sub(rf"(?<!\w)(?:{forms})(?!\w)", " ", bare) if taken else bare
    left = set(words.analyse(rest))
    if left <= words.STOP:
        taken = []
        rest = bare
    names = dict.fromkeys(
        word for name in taken for word in words.analyse(name) if word not in left
    )
    return tuple(named), tuple(names), re.sub(r"\s+", " ", rest).strip()


def _find_name(author: str, text: str) -> tuple[list[str], bool]:
    """Return how a text names an author, and whether that is certainly a name.

    Either the whole name occurs, or a part of it with a meaningful capital: not at the beginning of
    a sentence, nor if every word has one, nor if the word also occurs in lower case. So `deploy` is
    not about the author Deploy Bot.
    """
    parts = re.findall(r"\w+", author)
    if all(len(part) == 1 for part in parts):
        return [], False
    calls = _mentions(r"\W+".join(map(re.escape, parts)), text)
    if calls and len(parts) > 1:
        return [call[0] for call in calls], True
    if calls:
        sure = [
            call[0] for call in calls if call[0][-2] in "'’" or _is_name_capital(text, call.start())
        ]
        return sure or [call[0] for call in calls if call[0].lower() not in words.STOP], bool(sure)
    mentioned: list[str] = []
    for part in parts:
        calls = (
            _mentions(re.escape(part), text)
            if len(part) > 1 and part.lower() not in words.STOP
            else []
        )
        if all(_is_name_capital(text, call.start()) for call in calls):
            mentioned += [call[0] for call in calls]
    return mentioned, True


def _mentions(name: str, text: str) -> list[re.Match[str]]:
    return list(re.finditer(rf"(?<!\w){name}(?:['’]s)?(?!\w)", text, re.IGNORECASE))


def _is_name_capital(text: str, place: int) -> bool:
    """Return whether a letter is a meaningful capital, or of a script without capitals."""
    if not text[place].isupper():
        return text[place].isalpha() and not text[place].islower()
    begins = not text[:place].strip() or bool(_BEGINS.search(text[:place]))
    return not begins and bool(_LOWER.search(text))


def _phrases(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the words of each quoted phrase."""
    quoted = (tuple(words.analyse(double or single)) for double, single in _QUOTED.findall(text))
    return tuple(phrase for phrase in quoted if phrase)


def contains_question(text: str) -> bool:
    """Return whether a text contains a question."""
    return "?" in text and bool(_QUESTION_MARK.search(text))


def _spans(text: str, now: datetime | None) -> list[Span]:
    """Return the times that a question names; each part of the text is parsed once."""
    spans: list[Span] = []
    for pattern, reader in _READERS:
        spans += [span for match in pattern.finditer(text) if (span := reader(match, now))]
        text = pattern.sub(" ", text)
    return spans


def _iso(match: re.Match[str], now: datetime | None) -> Span | None:
    year, month, day = match.groups()
    return _span(int(year), int(month), int(day) if day else None)


def _day_month(match: re.Match[str], now: datetime | None) -> Span | None:
    day, month, year = match.groups()
    return _dated(month, int(day), year, now)


def _month_day(match: re.Match[str], now: datetime | None) -> Span | None:
    month, day, year = match.groups()
    return _dated(month, int(day), year, now)


def _month_year(match: re.Match[str], now: datetime | None) -> Span | None:
    month, year = match.groups()
    if not year and not month[0].isupper():  # `may` and `march` are verbs too
        return None
    return _dated(month, None, year, now)


def _only_year(match: re.Match[str], now: datetime | None) -> Span | None:
    return _span(int(match[1]), None, None)


def _ago(match: re.Match[str], now: datetime | None) -> Span | None:
    if now is None:
        return None
    days = _count(match[1]) * _UNITS[match[2].lower()]
    slack = max(1.0, 0.5 * _UNITS[match[2].lower()], 0.15 * days)
    return _around(now - timedelta(days=days), slack, slack)


def _past(match: re.Match[str], now: datetime | None) -> Span | None:
    if now is None:
        return None
    unit = match[2].lower()
    if unit == "weekend":
        return _around(now - timedelta(days=(now.weekday() + 2) % 7 or 7), 2, 2)
    return _around(now, _count(match[1] or "one") * _UNITS[unit] * (1 if match[1] else 2), 1)


def _this(match: re.Match[str], now: datetime | None) -> Span | None:
    return None if now is None else _around(now, _UNITS[match[1].lower()], 1)


def _last_weekday(match: re.Match[str], now: datetime | None) -> Span | None:
    if now is None:
        return None
    back = (now.weekday() - _WEEKDAYS.index(match[1].lower())) % 7 or 7
    return _around(now - timedelta(days=back), 1, 1)


def _near_day(match: re.Match[str], now: datetime | None) -> Span | None:
    return (
        None
        if now is None
        else _around(now, 2 if match[1].lower() in ("yesterday", "last night") else 1, 1)
    )


def _count(word: str) -> int:
    word = word.lower().removeprefix("a ") if len(word) > 2 else word.lower()
    return int(word) if word.isdigit() else _NUMBERS.get(word, 1)


def _dated(month: str, day: int | None, year: str | None, now: datetime | None) -> Span | None:
    """Return the span of a date; without a year, the last such date before now."""
    number = next(
        place for place, name in enumerate(MONTHS, 1) if name.startswith(month.lower()[:3])
    )
    if year:
        return _span(int(year), number, day)
    if now is None:
        return None
    span = _span(now.year, number, day)
    return (
        _span(now.year - 1, number, day)
        if span and span.start > now.timestamp() * clock.SECOND
        else span
    )


def _span(year: int, month: int | None, day: int | None) -> Span | None:
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


_READERS = (
    (_ISO, _iso),
    (_DAY_MONTH, _day_month),
    (_MONTH_DAY, _month_day),
    (_MONTH_YEAR, _month_year),
    (_ONLY_YEAR, _only_year),
    (_AGO, _ago),
    (_PAST, _past),
    (_THIS, _this),
    (_LAST_WEEKDAY, _last_weekday),
    (_NEAR_DAY, _near_day),
)

"""Text as index words: the same analysis on every engine, for what is stored and for what is asked.

An index word has letters and digits only, at most 64 bytes of them. Lower case, Latin, Greek and Cyrillic letters without
their accents, English endings cut and irregular forms led back (`went` is `go`); other languages stay as they are written.
Scripts without spaces become pairs of characters. An identifier is kept whole and in parts. German and its neighbours write
several words as one: a long word of such a text is indexed by its first and its last six letters too, so that `Nummer`
finds `Versicherungsnummer`.

Stop words are indexed: a question of nothing else (`to be or not to be`) has to find something.

Who changes what words a text has, adds a migration that sets `search_behind.old`, so that stored rows get their words anew.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache

from retain.base import clock
from retain.search.english import IRREGULAR, MONTHS, STOP, stem

__all__ = ["STOP", "analyse", "item_words", "preanalysed", "query_words", "strip_question_phrases"]

MOST_BYTES = 64
MOST_ASKED = 64
MOST_KNOWN = 1 << 16
MOST_READY = 16_000_000
"""Characters whose words are kept for one transaction; of what is longer, the rest is analysed inside of it."""
_SHORT = 24  # characters of a token worth keeping
_LONG = 10  # letters of a word that may be a compound
_PIECE = 6  # letters of its beginning and its end that are indexed
_MARK = "ˇ"  # a letter to Unicode, but of no language: stands where the rest of a compound stood

# Marks that Python's \w leaves out, though words of these scripts are written with them.
_MARKS = "\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u109f\u1780-\u17d3"
# A run of letters and digits, with what joins the parts of an identifier, a path, a version or an address.
_CHUNK = re.compile(rf"[\w{_MARKS}]+(?:[-.'’/\\:@#+&]+[\w{_MARKS}]+)*")
_PARTS = re.compile(rf"(?:(?!_)[\w{_MARKS}])+")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f]+"
)
_FRACTION = re.compile("[\u00bc-\u00be\u2150-\u215e\u2189]")
_POSSESSIVE = re.compile(r"['’](?:s|d|m|ll|re|ve|t)$", re.IGNORECASE)

# How a question asks how much or when: read as that by `question`, and not looked for in what was said.
_NUMBER = r"(?:\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:a )?couple of|(?:a )?few|several)"
_TIMES = r"(?:day|week|weekend|month|year)s?\b"
_ASIDE = re.compile(
    rf"\bhow (?:many|much|often|long)\b(?: (?:times|hours|{_TIMES})(?: ago)?)?|\b{_NUMBER} {_TIMES} (?:ago|back)\b|"
    rf"\b(?:in |over |during |within )?(?:the |this )?(?:past|last|previous) (?:{_NUMBER} )?{_TIMES}|\bthis {_TIMES}|"
    r"\b(?:from )?(?:the )?(?:earliest|first) to (?:the )?(?:latest|last)\b|\bwhat is the (?:total |number |order )+of\b",
    re.IGNORECASE,
)

# Words of German, Dutch and Scandinavian languages that hardly stand in a text of another.
_COMPOUNDING = """
aber als auch auf aus bei bist dann dass dein dem der dich durch ein eine einem einen einer eines fur haben hatte ich
ihr ist kann kein keine mein meine mich nach nicht noch nur oder schon sein sich sie sind uber und uns unser von vor
wann warum wenn wer werden wie wir wird wurde zu zum zur het een niet zijn voor maar naar deze och att jag inte som det
ikke jeg
"""
COMPOUNDING = frozenset(_COMPOUNDING.split())

_known: dict[str, tuple[str, ...]] = {}
_ready: dict[str, list[str]] = {}


def analyse(text: str) -> list[str]:
    """The index words of a text, in order."""
    words: list[str] = []
    known = _known.get
    for (
        token
    ) in text.split():  # ten times as quick as an expression, and most tokens were seen before
        found = known(token)
        words += _of_token(token) if found is None else found
    return words


def item_words(author: str, title: str, text: str, at: int | None) -> list[str]:
    """What is indexed of a row: who said it, what it is called, what it says, and the month it is from."""
    return text_words(text) + metadata_words(author, title, at)


def text_words(text: str) -> list[str]:
    """What is indexed of a text."""
    if _ready and (made := _ready.get(text)) is not None:
        return made.copy()
    words = analyse(text)
    return words if COMPOUNDING.isdisjoint(words) else words + _ends(words)


@contextmanager
def preanalysed(texts: Iterable[str]) -> Iterator[None]:
    """Analyse texts before the transaction that indexes them begins, so that nobody waits for it; up to a limit."""
    mine, size = [], 0
    try:
        for text in texts:
            size += len(text)
            if size > MOST_READY:
                break
            _ready[text] = text_words(text)
            mine.append(text)
        yield
    finally:
        for text in mine:
            _ready.pop(text, None)


def metadata_words(author: str, title: str, at: int | None) -> list[str]:
    """What is indexed of a row besides its text."""
    words = analyse(title) if title else []
    if author:
        words += analyse(author)
    if at is not None:
        words += _month(at // clock.DAY)
    return words


def strip_question_phrases(text: str) -> str:
    """A question without how it asks how much or when, unless it says nothing else."""
    rest = _ASIDE.sub(" ", text)
    return rest if any(word not in STOP for word in analyse(rest)) else text


def query_words(text: str) -> list[str]:
    """The distinct words that a question looks for: without stop words, unless it has no others.

    Of a question as long as a page they are the longest, which are the rarest as a rule: each is looked up by itself.
    """
    words = list(dict.fromkeys(analyse(strip_question_phrases(text))))
    asked = [word for word in words if word not in STOP]
    pairs = [word for word in asked if len(word) > 1 or not _UNSPACED.match(word)]
    asked = pairs or asked or words
    if len(asked) == len(words) or not COMPOUNDING.isdisjoint(
        words
    ):  # no English stop word in it, or German ones
        asked += [end for end in _ends(asked, _PIECE) if end not in asked]
    if len(asked) > MOST_ASKED:
        kept = set(sorted(asked, key=len, reverse=True)[:MOST_ASKED])
        asked = [word for word in asked if word in kept]
    return asked


def _ends(words: list[str], shortest: int = _LONG) -> list[str]:
    """The beginnings and the ends of long words."""
    ends: list[str] = []
    for word in words:
        if len(word) >= shortest and word.isalpha() and not _UNSPACED.match(word):
            ends += (word[:_PIECE] + _MARK, _MARK + word[-_PIECE:])
    return ends


def _of_token(token: str) -> tuple[str, ...]:
    """The words between two spaces; of short tokens they are kept for the next time."""
    words = tuple(word for chunk in _CHUNK.findall(token) for word in _of_chunk(chunk) if word)
    if len(token) <= _SHORT:
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        _known[token] = words
    return words


def _of_chunk(chunk: str) -> list[str]:
    """A word, or where it has parts, those and the whole."""
    strip_question_phrases = _POSSESSIVE.sub("", chunk)
    if (
        strip_question_phrases.isascii()
        and strip_question_phrases.isalpha()
        and (
            strip_question_phrases[1:].islower()
            or strip_question_phrases.isupper()
            or len(strip_question_phrases) == 1
        )
    ):
        return [_word(strip_question_phrases)]
    return _of_parts(_fold(strip_question_phrases))


def _of_parts(chunk: str) -> list[str]:
    """An identifier whole and in parts, scripts without spaces in pairs."""
    words: list[str] = []
    segments = re.split(r"[/\\:@]+", chunk)
    for segment in segments:
        parts: list[str] = []
        for run in _PARTS.findall(segment):
            start = 0
            for unspaced in _UNSPACED.finditer(run):
                parts += _camel(run[start : unspaced.start()])
                words += _pairs(unspaced[0])
                start = unspaced.end()
            parts += _camel(run[start:])
        words += map(_word, parts)
        if len(parts) > 1:
            words.append(_whole(parts))
    return words


def _camel(run: str) -> list[str]:
    """The parts of a run that change case or kind: `parseURLFast` in three, `HTTP404` in two, `B22` and `10k` in one."""
    if not run.isascii() or len(run) < 4 or (run.islower() and not run[-1].isdigit()):
        return [run] if run else []
    parts = _CAMEL.findall(run)
    return parts if parts and len(parts[0]) > 1 and not run[0].isdigit() else [run]


def _whole(parts: list[str]) -> str:
    """Parts as one word; a `p` for the point between numbers, so that 1.12 and 11.2 stay two."""
    whole = parts[0].lower()
    for part in parts[1:]:
        whole += ("p" if whole[-1].isdigit() and part[0].isdigit() else "") + part.lower()
    return _cut(whole)


def _pairs(run: str) -> list[str]:
    """The pairs of neighbours of a run of characters, and the Chinese characters themselves."""
    pairs = [run[place : place + 2] for place in range(len(run) - 1)] or [run]
    return pairs + [char for char in run if "\u3400" <= char <= "\u9fff" and len(run) > 1]


def _word(part: str) -> str:
    word = part.lower()
    if word in STOP:
        return word
    if word.isascii():
        return _cut(IRREGULAR.get(word) or stem(word))
    return _cut(word)


def _cut(word: str) -> str:
    return (
        word if len(word) <= MOST_BYTES // 4 else word.encode()[:MOST_BYTES].decode(errors="ignore")
    )


def _fold(text: str) -> str:
    """Without the accents of Latin, Greek and Cyrillic letters, and with one form for each character."""
    if text.isascii():
        return text
    folded: list[str] = []
    base = ""
    for char in unicodedata.normalize("NFKD", _FRACTION.sub(_divided, text.replace("ß", "ss"))):
        if not unicodedata.combining(char):
            base = char
            folded.append(char)
        elif base >= "\u0590":
            folded.append(char)
    whole = unicodedata.normalize("NFC", "".join(folded))
    return "".join(
        char
        for char in whole
        if char.isalnum() or char in "-._/\\:@#+&'’" or unicodedata.category(char)[0] == "M"
    )


def _divided(fraction: re.Match[str]) -> str:
    """A fraction as it is typed: the line between its numbers is no character that words keep."""
    return "/" + unicodedata.normalize("NFKD", fraction[0]).replace("\u2044", "/")


@lru_cache(maxsize=4096)
def _month(day: int) -> tuple[str, ...]:
    try:
        moment = clock.to_datetime(day * clock.DAY)
    except (OverflowError, ValueError, OSError):
        return ()
    return tuple(analyse(f"{MONTHS[moment.month - 1]} {moment.year}"))

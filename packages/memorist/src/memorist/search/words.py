"""Text analysis: texts and questions as index words, the same on every engine.

An index word consists of letters and digits, at most 64 bytes:
- lower case; Latin, Greek and Cyrillic letters without accents
- English words stemmed, irregular forms as their base form (`went` is `go`)
- scripts without spaces as pairs of characters
- identifiers whole and in parts
- long words of German and related languages also by their first and last six letters, so that
  `Nummer` finds `Versicherungsnummer`

Stop words are indexed: a question of nothing else (`to be or not to be`) has to find something.

If the analysis changes, increase `ANALYSIS` in segment.py: `memorist reindex` then analyses stored
texts again.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from itertools import chain

from memorist.base import clock
from memorist.base.lazy_pattern import LazyPattern
from memorist.search import german
from memorist.search.english import IRREGULAR, MONTHS, STOP, stem
from memorist.search.times import LAST, NUMBER, UNIT

__all__ = ["STOP", "analyse", "item_words", "preanalysed", "query_words", "strip_question_phrases"]

MAX_WORD_BYTES = 64
MAX_QUERY_WORDS = 64
MAX_CACHED_TOKENS = 1 << 16
MAX_PREANALYSED_CHARACTERS = 16_000_000
"""Limit of `preanalysed`; the rest is analysed inside the transaction."""
_SHORT = 24  # characters of a token worth keeping
_LONG = 10  # letters of a word that may be a compound
_PIECE = 6  # letters of its beginning and its end that are indexed
_MARK = "ˇ"  # replaces the rest of a compound: a letter in Unicode, but of no language

# Marks that Python's \w leaves out, though words of these scripts are written with them.
_MARKS = "\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u109f\u1780-\u17d3"
# A run of letters and digits, with the characters that join the parts of an identifier, a path, a
# version or an address.
_CHUNK = LazyPattern(rf"[\w{_MARKS}]+(?:[-.'’/\\:@#+&]+[\w{_MARKS}]+)*")
_PARTS = LazyPattern(rf"(?:(?!_)[\w{_MARKS}])+")
_CAMEL = LazyPattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_UNSPACED = LazyPattern(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f]+"
)
_FRACTION = LazyPattern("[\u00bc-\u00be\u2150-\u215e\u2189]")
_POSSESSIVE = LazyPattern(r"['’](?:s|d|m|ll|re|ve|t)$", re.IGNORECASE)

# Phrases for how much and when: `question` parses them, and they are not looked up as words.
_TIMES = rf"(?:{UNIT}|weekends?|wochenenden?)\b"
_ASIDE = LazyPattern(
    rf"\bhow (?:many|much|often|long)\b(?: (?:times|hours|{_TIMES})(?: ago)?)?|"
    rf"\b{NUMBER} {_TIMES} (?:ago|back)\b|"
    rf"\b(?:in |over |during |within )?(?:the |this |de[mnr] |die |das )?{LAST} (?:{NUMBER} )?{_TIMES}|"
    rf"\b(?:this|diese[mnrs]?|vorletzte[mnrs]?) {_TIMES}|"
    r"\b(?:from )?(?:the )?(?:earliest|first) to (?:the )?(?:latest|last)\b|"
    r"\bwhat is the (?:total |number |order )+of\b|"
    rf"\b(?:vor )?wie ?(?:viel(?:e[nr]?)?|oft|lange|häufig)\b(?: (?:male?|stunden|{_TIMES}))?|"
    rf"\b(?:vor|seit) {NUMBER} {_TIMES}",
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


class _KnownTokens(dict[str, tuple[str, ...]]):
    """A cache of short tokens and their words: analysis spends most of its time on new tokens."""

    def __missing__(self, token: str) -> tuple[str, ...]:
        words = _of_token(token)
        if len(token) <= _SHORT:
            if len(self) >= MAX_CACHED_TOKENS:
                self.clear()
            self[token] = words
        return words


_known = _KnownTokens()
_ready: dict[str, list[str]] = {}


def analyse(text: str) -> list[str]:
    """Return the index words of a text, in order."""
    # `split` is ten times as fast as a regular expression, and most tokens are cached.
    return list(chain.from_iterable(map(_known.__getitem__, text.split())))


def item_words(author: str, title: str, text: str, at: int | None) -> list[str]:
    """Return the index words of a row: text, title, author and month."""
    return text_words(text) + metadata_words(author, title, at)


def text_words(text: str) -> list[str]:
    """Return the index words of a text, with the ends of compounds."""
    if _ready and (ready := _ready.get(text)) is not None:
        return ready.copy()
    words = analyse(text)
    return words if COMPOUNDING.isdisjoint(words) else words + _ends(words)


@contextmanager
def preanalysed(texts: Iterable[str]) -> Iterator[None]:
    """Analyse texts before the transaction that indexes them, so that it is short."""
    mine = []
    size = 0
    try:
        for text in texts:
            size += len(text)
            if size > MAX_PREANALYSED_CHARACTERS:
                break
            _ready[text] = text_words(text)
            mine.append(text)
        yield
    finally:
        for text in mine:
            _ready.pop(text, None)


def metadata_words(author: str, title: str, at: int | None) -> list[str]:
    """Return the index words of a row besides its text."""
    words = analyse(title) if title else []
    if author:
        words += analyse(author)
    if at is not None:
        words += _month(at // clock.DAY)
    return words


def strip_question_phrases(text: str) -> str:
    """Return a question without phrases such as `how many` and `last week`, if more is left."""
    rest = _ASIDE.sub(" ", text)
    return rest if any(word not in STOP for word in analyse(rest)) else text


def query_words(text: str) -> list[str]:
    """Return the distinct words to look up for a question, without stop words if it has others.

    Of a very long question only the longest words are used, which are usually the rarest.
    """
    words = list(dict.fromkeys(analyse(strip_question_phrases(text))))
    stop = stop_words(words)
    wanted = [word for word in words if word not in stop]
    pairs = [word for word in wanted if len(word) > 1 or not _UNSPACED.match(word)]
    wanted = pairs or wanted or words
    # No English stop words, or some of a language with compounds.
    if len(wanted) == len(words) or not COMPOUNDING.isdisjoint(words):
        wanted += [end for end in _ends(wanted, _PIECE) if end not in wanted]
    if len(wanted) > MAX_QUERY_WORDS:
        longest = set(sorted(wanted, key=len, reverse=True)[:MAX_QUERY_WORDS])
        wanted = [word for word in wanted if word in longest]
    return wanted


def stop_words(words: Collection[str]) -> frozenset[str]:
    """Return the stop words for a text with these index words; German ones too if it looks German."""
    both, only_german, only_english = _stop_word_sets()
    german_words = only_german.intersection(words)
    if german_words and len(german_words) > len(only_english.intersection(words)):
        return both
    return STOP


@cache
def _stop_word_sets() -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Return stop words as index words: of both languages, only of German, only of English."""
    both = STOP | frozenset(analyse(" ".join(german.STOP)))
    only_german = both - STOP - frozenset(analyse(" ".join(german.ALSO_ENGLISH)))
    only_english = STOP - frozenset(analyse(" ".join(german.STOP)))
    return both, only_german, only_english


def _ends(words: list[str], shortest: int = _LONG) -> list[str]:
    """Return the beginnings and the ends of long words."""
    ends: list[str] = []
    for word in words:
        if len(word) >= shortest and word.isalpha() and not _UNSPACED.match(word):
            ends += (word[:_PIECE] + _MARK, _MARK + word[-_PIECE:])
    return ends


def _of_token(token: str) -> tuple[str, ...]:
    """Return the words of a token between two spaces."""
    if token.isascii() and token.isalpha() and token.islower():  # most tokens: a plain word
        return (_word(token),)
    return tuple([word for chunk in _CHUNK.findall(token) for word in _of_chunk(chunk) if word])


def _of_chunk(chunk: str) -> list[str]:
    """Return a word, or the parts of an identifier and the whole."""
    bare = _POSSESSIVE.sub("", chunk)
    if (
        bare.isascii()
        and bare.isalpha()
        and (bare[1:].islower() or bare.isupper() or len(bare) == 1)
    ):
        return [_word(bare)]
    return _of_parts(_fold(bare))


def _of_parts(chunk: str) -> list[str]:
    """Return an identifier whole and in parts, scripts without spaces in pairs."""
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
            words.append(_join_parts(parts))
    return words


def _camel(run: str) -> list[str]:
    """Split at changes of case or kind: `parseURLFast` in three, `HTTP404` in two, `B22` in one."""
    if not run.isascii() or len(run) < 4 or (run.islower() and not run[-1].isdigit()):
        return [run] if run else []
    parts = _CAMEL.findall(run)
    return parts if parts and len(parts[0]) > 1 and not run[0].isdigit() else [run]


def _join_parts(parts: list[str]) -> str:
    """Join parts to one word, with a `p` between numbers, so that 1.12 and 11.2 differ."""
    joined = parts[0].lower()
    for part in parts[1:]:
        joined += ("p" if joined[-1].isdigit() and part[0].isdigit() else "") + part.lower()
    return _cut(joined)


def _pairs(run: str) -> list[str]:
    """Return all pairs of neighbouring characters, and single Chinese characters."""
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
        word
        if len(word) <= MAX_WORD_BYTES // 4
        else word.encode()[:MAX_WORD_BYTES].decode(errors="ignore")
    )


def _fold(text: str) -> str:
    """Remove the accents of Latin, Greek and Cyrillic letters, and normalize characters."""
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
    joined = unicodedata.normalize("NFC", "".join(folded))
    return "".join(
        char
        for char in joined
        if char.isalnum() or char in "-._/\\:@#+&'’" or unicodedata.category(char)[0] == "M"
    )


def _divided(fraction: re.Match[str]) -> str:
    """Return a fraction as it is typed, such as 1/2."""
    return "/" + unicodedata.normalize("NFKD", fraction[0]).replace("\u2044", "/")


@lru_cache(maxsize=4096)
def _month(day: int) -> tuple[str, ...]:
    try:
        moment = clock.to_datetime(day * clock.DAY)
    except (OverflowError, ValueError, OSError):
        return ()
    return tuple(analyse(f"{MONTHS[moment.month - 1]} {moment.year}"))

"""Snippets: the part of a text around the words of a question, cut at sentences or words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memorist.base import tokens
from memorist.base.lazy_pattern import LazyPattern
from memorist.search import words

_TOKEN = LazyPattern(r"[^\s\x00-&(-/:-@\[-^`{-\x7f‘“”„«»…。，、！？；：（）「」『』—–]+")
_UNSPACED = LazyPattern(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]"
)
_SENTENCE = LazyPattern(r"""[.!?…]+["'”’»)\]]*\s+|[。！？]+[」』”’）]*|\n+""")
_BLANK = LazyPattern(r"\s+")
_SEARCHED_CHARACTERS = 40_000
"""Characters of a text that are searched for words; nearly all rows are shorter."""
_CHARACTERS_PER_TOKEN = 4
_MIN_CHARACTERS = 8
_LONG = 10
_PIECE = 6
_REST = "ˇ"
"""The parts of compounds, with the same values as in `words`."""

Place = tuple[int, int]


def find_matches(text: str, wanted: Sequence[str]) -> list[Place]:
    """Return where the query words stand in a text: start and end, from left to right."""
    return [
        (start, end) for start, end, _ in _locate(text[:_SEARCHED_CHARACTERS], frozenset(wanted))
    ]


def excerpt(text: str, wanted: Sequence[str], limit: int) -> str:
    """Return up to `limit` characters of a text around most of the words, with … at cuts."""
    if len(text) <= limit:
        return text
    first, last = _densest(_locate(text[:_SEARCHED_CHARACTERS], frozenset(wanted)), limit)
    start = max(0, min(first - (limit - (last - first)) // 3, len(text) - limit))
    start = _begin(text, start, first)
    end = _end(text, max(last, start + limit // 2), min(start + limit, len(text)))
    return f"{'… ' if start else ''}{text[start:end].strip()}{' …' if text[end:].strip() else ''}"


def excerpt_tokens(text: str, wanted: Sequence[str], limit: int) -> str:
    """Return an excerpt of about `limit` tokens at most."""
    size = limit * _CHARACTERS_PER_TOKEN
    part = text
    while tokens.estimate(part) > limit and size > _MIN_CHARACTERS:
        part = excerpt(text, wanted, size)
        size = size * 3 // 4
    return part


def _locate(text: str, wanted: frozenset[str]) -> list[tuple[int, int, str]]:
    """Return start, end and word of each match; of scripts without spaces, each matching pair."""
    unspaced = [word for word in wanted if _UNSPACED.match(word)]
    matches: list[tuple[int, int, str]] = []
    for token in _TOKEN.finditer(text):
        if _UNSPACED.search(token[0]):
            hits = [
                (at.start(), word)
                for word in unspaced
                for at in re.finditer(f"(?={re.escape(word)})", token[0])
            ]
            for at, word in sorted(hits):
                start = token.start() + at
                end = token.start() + at + len(word)
                if matches and matches[-1][1] >= start > token.start():
                    matches[-1] = (matches[-1][0], max(end, matches[-1][1]), matches[-1][2])
                else:
                    matches.append((start, end, word))
        else:
            own = words.analyse(token[0])
            if word := next((word for word in own if word in wanted), "") or _compound(own, wanted):
                matches.append((token.start(), token.end(), word))
    return matches


def _compound(own: Sequence[str], wanted: frozenset[str]) -> str:
    """Return the query word that is the beginning or the end of a long word, if any."""
    ends = (
        end
        for word in own
        if len(word) >= _LONG
        for end in (word[:_PIECE] + _REST, _REST + word[-_PIECE:])
    )
    return next((end for end in ends if end in wanted), "")


def _densest(matches: Sequence[tuple[int, int, str]], limit: int) -> Place:
    """Return the first range of at most `limit` characters with the most different words."""
    best = (0, 0)
    most_words = 0
    left = 0
    counts: dict[str, int] = {}
    for _, end, word in matches:
        counts[word] = counts.get(word, 0) + 1
        while end - matches[left][0] > limit and matches[left][1] < end:
            counts[matches[left][2]] -= 1
            if not counts[matches[left][2]]:
                del counts[matches[left][2]]
            left += 1
        if len(counts) > most_words:
            best = (matches[left][0], min(end, matches[left][0] + limit))
            most_words = len(counts)
    return best


def _begin(text: str, start: int, first: int) -> int:
    """Return where to begin, from `start` to the first match: at a sentence, else at a word."""
    if start == 0:
        return 0
    for pattern in (_SENTENCE, _BLANK):
        if match := pattern.search(text, start, first):
            return match.end()
    return min(tokens.boundary(text, start, up=True), first) if start < first else first


def _end(text: str, last: int, limit: int) -> int:
    """Return where to end, from the last match to `limit`: at a sentence, else at a word."""
    if limit >= len(text):
        return len(text)
    for pattern in (_SENTENCE, _BLANK):
        if ends := [match.end() for match in pattern.finditer(text, min(last, limit), limit)]:
            return ends[-1]
    return tokens.boundary(text, limit) or limit

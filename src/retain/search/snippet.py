"""The part of a text that a question is about: around the question's words, cut where a sentence or a word ends."""

from __future__ import annotations

import re
from collections.abc import Sequence

from retain.base import tokens
from retain.search import words

_TOKEN = re.compile(r"[^\s\x00-&(-/:-@\[-^`{-\x7f‘“”„«»…。，、！？；：（）「」『』—–]+")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]"
)
_SENTENCE = re.compile(r"""[.!?…]+["'”’»)\]]*\s+|[。！？]+[」』”’）]*|\n+""")
_BLANK = re.compile(r"\s+")
_LOOK = 40_000
"""Characters of a text in which words are looked for; rows of the index are shorter, but for the rarest."""
_PER_TOKEN = 4
_LEAST = 8
_LONG, _PIECE, _REST = 10, 6, "ˇ"  # how `words` writes a part of a compound

Place = tuple[int, int]


def find_matches(text: str, wanted: Sequence[str]) -> list[Place]:
    """Where words of a question (as `words.of_question` gives them) stand in a text, from left to right."""
    return [(start, end) for start, end, _ in _found(text[:_LOOK], frozenset(wanted))]


def excerpt(text: str, wanted: Sequence[str], most: int) -> str:
    """At most so many characters of a text, where most of the words are, with … where something is left out."""
    if len(text) <= most:
        return text
    first, last = _densest(_found(text[:_LOOK], frozenset(wanted)), most)
    start = max(0, min(first - (most - (last - first)) // 3, len(text) - most))
    start = _begin(text, start, first)
    end = _end(text, max(last, start + most // 2), min(start + most, len(text)))
    return f"{'… ' if start else ''}{text[start:end].strip()}{' …' if text[end:].strip() else ''}"


def excerpt_tokens(text: str, wanted: Sequence[str], most: int) -> str:
    """The same, with at most so many tokens, about."""
    size, part = most * _PER_TOKEN, text
    while tokens.estimate(part) > most and size > _LEAST:
        part = excerpt(text, wanted, size)
        size = size * 3 // 4
    return part


def _found(text: str, wanted: frozenset[str]) -> list[tuple[int, int, str]]:
    """Each place with the word that is found there; of scripts without spaces, each pair that is looked for."""
    unspaced = [word for word in wanted if _UNSPACED.match(word)]
    found: list[tuple[int, int, str]] = []
    for token in _TOKEN.finditer(text):
        if _UNSPACED.search(token[0]):
            hits = [
                (at.start(), word)
                for word in unspaced
                for at in re.finditer(f"(?={re.escape(word)})", token[0])
            ]
            for at, word in sorted(hits):
                start, end = token.start() + at, token.start() + at + len(word)
                if found and found[-1][1] >= start > token.start():
                    found[-1] = (found[-1][0], max(end, found[-1][1]), found[-1][2])
                else:
                    found.append((start, end, word))
        else:
            own = words.analyse(token[0])
            if word := next((word for word in own if word in wanted), "") or _compound(own, wanted):
                found.append((token.start(), token.end(), word))
    return found


def _compound(own: Sequence[str], wanted: frozenset[str]) -> str:
    """What is looked for as the beginning or the end of a long word."""
    ends = (
        end
        for word in own
        if len(word) >= _LONG
        for end in (word[:_PIECE] + _REST, _REST + word[-_PIECE:])
    )
    return next((end for end in ends if end in wanted), "")


def _densest(found: Sequence[tuple[int, int, str]], most: int) -> Place:
    """The stretch of at most so many characters that has the most different words; the first, where several have as many."""
    best, most_words, left = (0, 0), 0, 0
    counts: dict[str, int] = {}
    for _, end, word in found:
        counts[word] = counts.get(word, 0) + 1
        while end - found[left][0] > most and found[left][1] < end:
            counts[found[left][2]] -= 1
            if not counts[found[left][2]]:
                del counts[found[left][2]]
            left += 1
        if len(counts) > most_words:
            best, most_words = (found[left][0], min(end, found[left][0] + most)), len(counts)
    return best


def _begin(text: str, start: int, first: int) -> int:
    """Where to begin at or after `start`, and not after the first word: with a sentence, else with a word."""
    if start == 0:
        return 0
    for pattern in (_SENTENCE, _BLANK):
        if found := pattern.search(text, start, first):
            return found.end()
    return min(tokens.boundary(text, start, up=True), first) if start < first else first


def _end(text: str, last: int, most: int) -> int:
    """Where to end after the last word, and not after `most`: with a sentence, else with a word."""
    if most >= len(text):
        return len(text)
    for pattern in (_SENTENCE, _BLANK):
        if ends := [found.end() for found in pattern.finditer(text, min(last, most), most)]:
            return ends[-1]
    return tokens.boundary(text, most) or most

"""How many tokens a text costs a model: exact where its vocabulary is at hand, estimated from the characters otherwise."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import regex


def estimate(text: str) -> int:
    """About how many tokens `text` is: an ASCII character counts a quarter, any other two thirds."""
    wide = 0 if text.isascii() else sum(1 for character in text if character > "\x7f")
    return (len(text) - wide + 3) // 4 + (2 * wide + 2) // 3


def count(text: str, model: str = "") -> int:
    """How many tokens `text` is for a model, by name: exact where its vocabulary is at hand, else the estimate."""
    return counter(model)(text)


def counter(model: str) -> Callable[[str], int]:
    """What counts tokens for a model, by name: to be asked for once and called often."""
    return _counter(_family(model))


def cut(text: str, tokens: int, *, end: bool = False) -> str:
    """The longest beginning, or end, of at most so many estimated tokens; no character as people see it is split."""
    if tokens <= 0:
        return ""
    if estimate(text) <= tokens:
        return text
    size = len(text)
    most = _most(lambda length: estimate(text[size - length :] if end else text[:length]) <= tokens, size)
    return text[_boundary(text, size - most, up=True) :] if end else text[: _boundary(text, most)]


def _most(fits: Callable[[int], bool], size: int) -> int:
    """The largest number below `size` that fits, looked for from below: a huge text is not read for a small cut."""
    high = 64
    while high < size and fits(high):
        high *= 2
    low, high = high // 2 if high > 64 else 0, min(high, size)
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


def _plain(character: str) -> bool:
    """Whether a character never joins another such one: Latin, Greek, Cyrillic, kana and ideographs, without their marks."""
    return character < "\u0300" or "\u0370" <= character < "\u0483" or "\u30a0" <= character < "\ua000"


def _boundary(text: str, place: int, *, up: bool = False) -> int:
    """The place nearest to `place`, downwards or upwards, between two characters as people see them (grapheme clusters)."""
    start = place
    while start > 0 and not (_plain(text[start - 1]) and _plain(text[start]) and text[start] != "\n"):
        start -= 1
    if start == place:
        return place
    for cluster in _clusters().finditer(text, start):
        if cluster.end() >= place:
            return cluster.end() if up or cluster.end() == place else cluster.start()
    return place


@functools.cache
def _clusters() -> regex.Pattern[str]:
    import regex

    return regex.compile(r"\X")


def _family(model: str) -> str:
    """The vocabulary of a model, by its name with or without a provider before it; blank for one that is not known."""
    name = model.lower().removeprefix("ft:")
    name = name.replace(":", "/").rpartition("/")[2] if not name.startswith("gpt") else name
    if name.startswith(("gpt-4o", "gpt-4.", "gpt-5", "gpt-oss", "chatgpt-4o", "o1", "o3", "o4")):
        return "o200k"
    if name.startswith(("gpt-4", "gpt-3.5", "gpt-35", "text-embedding-3", "text-embedding-ada")):
        return "cl100k"
    return ""


@functools.cache
def _counter(family: str) -> Callable[[str], int]:
    return estimate

"""A Markdown document in parts, for a prompt that has not room for all of it; joined, they are the document.

This is done while a context is read, for documents of any size and shape. So it looks at how lines begin and does not read
Markdown as `markdown` does: what only looks like a heading (in an HTML comment, say) costs a cut in an odd place, and no
more. Fenced code is not cut, but for a document of thousands of blocks, and there are never more than a few dozen parts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

PART = 2_000
"""About how many characters a part has that has no sections to be divided by, or is made of many small ones."""
MOST_PARTS = 40
_FINE = 32  # parts of a large document that stay as they are; the rest of it makes the others
_MOST_MARKS = 3_000  # looked at in one document; what comes after them is cut at the ends of lines
_MOST_KEPT = 1_000
_MARK = re.compile(
    r"""^(?:[ ]{0,3}(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*)
          | [ ]{0,3}(?P<hashes>\#{1,6})(?=[ \t\n]|\Z)
          | [ ]{0,3}(?P<line>=+|-+)[ \t]*$
          | (?P<blank>(?:[ \t]*\n)+)
          | (?P<item>[-*+]|\d{1,9}[.)])[ \t])""",
    re.VERBOSE | re.MULTILINE,
)
_kept: dict[bytes, tuple[int, ...]] = {}


def parts(text: str) -> list[str]:
    """The parts of a document, of which the last can be left out.

    They are its outermost sections, or those of its title where all of it stands under one. What is long besides is divided
    between blocks, and small ones that are many are put together. Where a document was cut is kept, by its digest.
    """
    if not text:
        return []
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    ends = _kept.get(digest)
    if ends is None:
        ends = (*_few(_cuts(text), len(text))[1:], len(text))
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        _kept[digest] = ends
    return [text[start:end] for start, end in pairwise((0, *ends))]


def _cuts(text: str) -> list[int]:
    """Where the parts of a document begin, however many they are."""
    headings, places = _looked_at(text)
    cuts = {0, len(text)}
    while headings:
        outermost = [headings[0]]
        for heading in headings:
            if heading[1] > outermost[-1][1] and heading[0] <= outermost[-1][0]:
                outermost.append(heading)
        cuts |= {start for _, start in outermost}
        headings = headings[1:] if len(outermost) == 1 else []
    ordered = sorted(cuts)
    if len(ordered) > 2 and not text[: ordered[1]].strip():
        del ordered[1]  # blank lines are no part
    return _divided(ordered, places)


def _looked_at(text: str) -> tuple[list[tuple[int, int]], list[int]]:
    """The headings of a document by level and place, and where else it can be cut: between blocks and items of lists."""
    if "\r" in text:
        text = text.replace("\r\n", " \n").replace("\r", "\n")  # every place stays where it is
    headings: list[tuple[int, int]] = []
    places: list[int] = []
    fence = ""
    free = 0  # where the lines begin that have no mark
    for number, mark in enumerate(_MARK.finditer(text)):
        kind, start = mark.lastgroup, mark.start()
        if number == _MOST_MARKS:
            places += _ends_of_lines(text, start)
            break
        after = mark.end() if kind == "blank" else text.find("\n", mark.end()) + 1 or len(text)
        if fence:
            if kind == "info" and mark["fence"].startswith(fence) and not mark["info"].strip():
                fence, free = "", after
                places.append(after)
            continue
        if kind == "info":
            if mark["fence"][0] == "`" and "`" in mark["info"]:
                continue  # code in a line of text
            fence = mark["fence"]
            places.append(start)
        elif kind == "hashes":
            headings.append((len(mark["hashes"]), start))
        elif kind == "line" and free < start and not text[free].isspace() and text[free] != ">":
            headings.append((1 if mark["line"][0] == "=" else 2, free))
        elif kind != "blank":
            places.append(start)
        elif text[after : after + 1] not in (
            " ",
            "\t",
        ):  # else it goes on with an item of a list, or with code
            places.append(after)
        free = after
    return headings, sorted(set(places))


def _ends_of_lines(text: str, start: int) -> Iterator[int]:
    """Where lines begin from a place on, about as far apart as parts are long."""
    while start < len(text):
        yield start
        start = text.rfind("\n", start, start + PART) + 1 or text.find("\n", start) + 1 or len(text)


def _divided(cuts: Sequence[int], places: Sequence[int]) -> list[int]:
    """The cuts but for the last, with more of them at the places where parts would be long."""
    made = []
    waiting = iter(places)
    place = next(waiting, None)
    for start, end in pairwise(cuts):
        made.append(start)
        fits = start
        while place is not None and place < end:
            if place > start:
                if place - made[-1] > PART and fits > made[-1]:
                    made.append(fits)
                if place - made[-1] > PART:
                    made.append(place)
                fits = place
            place = next(waiting, None)
        if end - made[-1] > PART and fits > made[-1]:
            made.append(fits)
    return made


def _few(cuts: Sequence[int], length: int) -> Sequence[int]:
    """The same cuts, or fewer where there are too many: the first parts stay the finest, as they are left out last."""
    if len(cuts) <= MOST_PARTS:
        return cuts
    made = _packed(cuts, length, PART)
    if len(made) <= MOST_PARTS:
        return made
    rest = made[_FINE:]
    # two neighbours together are more than this, so there cannot be more than the parts that are left
    return [
        *made[:_FINE],
        *_packed(rest, length, 2 * (length - rest[0]) // (MOST_PARTS - _FINE) + 1),
    ]


def _packed(cuts: Sequence[int], length: int, most: int) -> list[int]:
    """Neighbours put together as long as they are not more than so many characters."""
    made: list[int] = []
    for start, end in pairwise([*cuts, length]):
        if not made or end - made[-1] > most:
            made.append(start)
    return made

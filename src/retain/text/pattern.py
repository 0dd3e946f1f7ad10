"""Regular expressions that a model or a person wrote, run so that none of them can take our time or memory.

Three things bound them: how long a pattern is, how large it grows when its counted repetitions are written out (a pattern of
25 characters can ask for a thousand million copies), and how long one search takes. Recursion is refused, because its memory
has no bound.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from retain.base.errors import Invalid, TooLarge

if TYPE_CHECKING:
    import regex

MOST_CHARACTERS = 500
MOST_COPIES = 10_000
MOST_DEPTH = 20
SECONDS = 0.5
_COUNT = re.compile(r"\{(\d*)(?:,(\d*))?\}")
_RECURSION = re.compile(r"\(\?(?:R|[+-]?\d+|&\w+|P>\w+)\)")
_FAR = 10**6  # a count with more digits than this has is as bad as any


def compiled(pattern: str, field: str = "pattern") -> regex.Pattern[str]:
    """A pattern ready to search with, or an error that says where it stops to make sense."""
    import regex  # here, because it takes longer to import than all of retain

    if not isinstance(pattern, str) or not pattern:
        raise Invalid(field=field, problem="must be a regular expression, such as error|warning")
    if len(pattern) > MOST_CHARACTERS:
        raise TooLarge(field=field, size=len(pattern), unit="characters", limit=MOST_CHARACTERS)
    _measure(pattern, field)
    try:
        return regex.compile(pattern)
    except regex.error as error:
        place = getattr(error, "pos", None) or 0
        message = getattr(error, "msg", "it cannot be read")
        raise Invalid(
            field=field, problem=f"is no regular expression: {message} at character {place + 1}"
        ) from None
    except (RecursionError, OverflowError, ValueError, KeyError) as error:
        raise Invalid(
            field=field,
            problem=f"is no regular expression that can be used ({type(error).__name__})",
        ) from None


def search(
    pattern: regex.Pattern[str], text: str, after: int = 0, field: str = "pattern"
) -> regex.Match[str] | None:
    """The first match that ends after a place; a pattern that takes too long over one text is refused."""
    try:
        if not after:
            return pattern.search(text, timeout=SECONDS)
        place = 1  # the text is the rest of another, so its beginning is not where ^ matches
        while found := pattern.search(text, place, timeout=SECONDS):
            if found.end() > after:
                return found
            place = max(found.end(), place + 1)
        return None
    except (TimeoutError, MemoryError):
        raise Invalid(
            field=field,
            problem="takes too long: something in it can match the same text in too many ways, like (a+)+; "
            "use fewer repetitions inside repetitions",
        ) from None


def _measure(pattern: str, field: str) -> None:
    """Refuse what would grow without bound when it is compiled or run."""
    if recursion := _RECURSION.search(pattern):
        raise Invalid(
            field=field, problem=f"calls itself with {recursion.group()}, which is not allowed"
        )
    sizes, last, place = [0], 0, 0
    while place < len(pattern):
        letter = pattern[place]
        count = _COUNT.match(pattern, place) if letter == "{" else None
        if count:
            last *= max(
                *(
                    _FAR if len(digits) > 6 else int(digits or 1)
                    for digits in count.groups(default="")
                ),
                1,
            )
            sizes[-1] += last
            place = count.end()
        elif letter == "(":
            sizes.append(0)
            place += 1
        elif letter == ")" and len(sizes) > 1:
            last = sizes.pop() + 1
            sizes[-1] += last
            place += 1
        else:
            last = 1
            sizes[-1] += 1
            place = (
                _after_class(pattern, place)
                if letter == "["
                else place + (2 if letter == "\\" else 1)
            )
        if len(sizes) > MOST_DEPTH:
            raise Invalid(
                field=field, problem=f"has groups more than {MOST_DEPTH} deep, at character {place}"
            )
        if sum(sizes) > MOST_COPIES:
            raise Invalid(
                field=field,
                problem=f"repeats too much: over {MOST_COPIES:,} copies, at character {place}",
            )


def _after_class(pattern: str, place: int) -> int:
    """The place behind a set of characters such as [^]a-z]."""
    end = place + 1
    end += pattern[end : end + 1] == "^"
    end += pattern[end : end + 1] == "]"
    while end < len(pattern) and pattern[end] != "]":
        end += 2 if pattern[end] == "\\" else 1
    return end + 1

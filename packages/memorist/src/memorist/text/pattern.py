"""Regular expressions written by users and models, with limits on time and memory.

There are limits on the length of a pattern, its size after counted repetitions are expanded (a
pattern of 25 characters can expand to a billion copies), and the time of one search. Recursion is
rejected, because its memory has no bound.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from memorist.base.errors import Invalid, TooLarge
from memorist.text.time_limit import TimeLimit

if TYPE_CHECKING:
    import regex

MAX_CHARACTERS = 500
MAX_EXPANDED_SIZE = 10_000
MAX_GROUP_DEPTH = 20
SEARCH_SECONDS = 0.5
MAX_COUNT = 10**6

_COUNT = re.compile(r"\{(\d*)(?:,(\d*))?\}")
_RECURSION = re.compile(r"\(\?(?:R|[+-]?\d+|&\w+|P>\w+)\)")


def compile_pattern(pattern: str) -> regex.Pattern[str]:
    """Compile a pattern; raise Invalid with the reason and the position if it is not valid."""
    import regex  # slow to import

    if not isinstance(pattern, str) or not pattern:
        raise Invalid(
            field="pattern", problem="must be a regular expression, such as error|warning"
        )
    if len(pattern) > MAX_CHARACTERS:
        raise TooLarge(field="pattern", size=len(pattern), unit="characters", limit=MAX_CHARACTERS)
    _check_size(pattern)
    try:
        return regex.compile(pattern)
    except regex.error as error:
        position = getattr(error, "pos", None) or 0
        reason = getattr(error, "msg", "it cannot be parsed")
        problem = f"is not a valid regular expression: {reason} at character {position + 1}"
    except (RecursionError, OverflowError, ValueError, KeyError) as error:
        problem = f"is not a usable regular expression ({type(error).__name__})"
    raise Invalid(field="pattern", problem=problem)


def search(
    pattern: regex.Pattern[str], text: str, after: int, time_limit: TimeLimit
) -> regex.Match[str] | None:
    """Return the first match that ends after a position.

    Raises Invalid if one match takes too long, and TimeLimitExceeded if many do.
    """
    try:
        if not after:
            return pattern.search(text, timeout=SEARCH_SECONDS)
        start = 1  # the text continues another piece, so ^ must not match at its beginning
        while match := pattern.search(text, start, timeout=SEARCH_SECONDS):
            if match.end() > after:
                return match
            start = max(match.end(), start + 1)
            time_limit.check()
        return None
    except (TimeoutError, MemoryError):
        raise Invalid(
            field="pattern",
            problem="takes too long: a part of it, such as (a+)+, matches the same text in too "
            "many ways; use fewer repetitions inside repetitions",
        ) from None


def _check_size(pattern: str) -> None:
    """Reject recursion, deep groups and patterns that grow too large when they are compiled."""
    if recursion := _RECURSION.search(pattern):
        raise Invalid(
            field="pattern", problem=f"uses recursion ({recursion.group()}), which is not allowed"
        )
    group_sizes = [0]
    last_size = 0  # of the item that a count would repeat
    position = 0
    while position < len(pattern):
        character = pattern[position]
        count = _COUNT.match(pattern, position) if character == "{" else None
        if count:
            last_size *= _repetitions(count)
            group_sizes[-1] += last_size
            position = count.end()
        elif character == "(":
            group_sizes.append(0)
            position += 1
        elif character == ")" and len(group_sizes) > 1:
            last_size = group_sizes.pop() + 1
            group_sizes[-1] += last_size
            position += 1
        else:
            last_size = 1
            group_sizes[-1] += 1
            position = _next_item(pattern, position)
        if len(group_sizes) > MAX_GROUP_DEPTH:
            problem = (
                f"nests groups more than {MAX_GROUP_DEPTH} levels deep, at character {position}"
            )
            raise Invalid(field="pattern", problem=problem)
        if sum(group_sizes) > MAX_EXPANDED_SIZE:
            problem = (
                f"repeats too much: over {MAX_EXPANDED_SIZE:,} copies, at character {position}"
            )
            raise Invalid(field="pattern", problem=problem)


def _repetitions(count: re.Match[str]) -> int:
    """Return the larger of the numbers in {2,5}."""
    numbers = [1]
    for digits in count.groups(default=""):
        numbers.append(MAX_COUNT if len(digits) > 6 else int(digits or 1))
    return max(numbers)


def _next_item(pattern: str, position: int) -> int:
    """Return the position after an escape, a set such as [^]a-z], or one character."""
    if pattern[position] == "\\":
        return position + 2
    if pattern[position] != "[":
        return position + 1
    end = position + 1
    end += pattern[end : end + 1] == "^"
    end += pattern[end : end + 1] == "]"
    while end < len(pattern) and pattern[end] != "]":
        end += 2 if pattern[end] == "\\" else 1
    return end + 1

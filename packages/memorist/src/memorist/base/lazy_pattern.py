"""Regular expressions that are compiled when they are first used.

Compiling all patterns of memorist takes longer than importing the rest of it, and most processes,
such as a single command, use only a few.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any


class LazyPattern:
    """A regular expression with the methods of `re.Pattern`.

    Each method is looked up once; after that, a call is as fast as on a compiled pattern.
    """

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self.pattern = pattern
        self.flags = flags

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The compiled pattern."""
        return re.compile(self.pattern, self.flags)

    @cached_property
    def search(self) -> Callable[..., re.Match[str] | None]:
        """Search a text: `re.Pattern.search`."""
        return self.compiled.search

    @cached_property
    def match(self) -> Callable[..., re.Match[str] | None]:
        """Match the start of a text: `re.Pattern.match`."""
        return self.compiled.match

    @cached_property
    def fullmatch(self) -> Callable[..., re.Match[str] | None]:
        """Match a whole text: `re.Pattern.fullmatch`."""
        return self.compiled.fullmatch

    @cached_property
    def finditer(self) -> Callable[..., Iterator[re.Match[str]]]:
        """Yield all matches: `re.Pattern.finditer`."""
        return self.compiled.finditer

    @cached_property
    def findall(self) -> Callable[..., list[Any]]:
        """Return all matches: `re.Pattern.findall`."""
        return self.compiled.findall

    @cached_property
    def split(self) -> Callable[..., list[str | Any]]:
        """Split a text: `re.Pattern.split`."""
        return self.compiled.split

    @cached_property
    def sub(self) -> Callable[..., str]:
        """Replace the matches in a text: `re.Pattern.sub`."""
        return self.compiled.sub

    @cached_property
    def subn(self) -> Callable[..., tuple[str, int]]:
        """Replace the matches and count them: `re.Pattern.subn`."""
        return self.compiled.subn

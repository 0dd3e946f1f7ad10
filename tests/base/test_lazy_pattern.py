"""Patterns that are compiled when they are first used."""

from __future__ import annotations

import re

import pytest

from memorist.base.lazy_pattern import LazyPattern

TEXT = "Ada met Bob, then ADA left."


def test_every_method_gives_what_the_compiled_pattern_gives() -> None:
    lazy = LazyPattern(r"(ada|bob)", re.IGNORECASE)
    compiled = re.compile(r"(ada|bob)", re.IGNORECASE)
    spans = [match.span() for match in compiled.finditer(TEXT)]
    assert [match.span() for match in lazy.finditer(TEXT)] == spans
    assert lazy.findall(TEXT) == compiled.findall(TEXT)
    assert lazy.split(TEXT) == compiled.split(TEXT)
    assert lazy.sub("x", TEXT, count=1) == compiled.sub("x", TEXT, count=1)
    assert lazy.subn("x", TEXT) == compiled.subn("x", TEXT)
    for name in ("search", "match", "fullmatch"):
        expected = getattr(compiled, name)(TEXT, 4)
        match = getattr(lazy, name)(TEXT, 4)
        assert (match and match.span()) == (expected and expected.span())


def test_an_invalid_pattern_is_an_error_at_its_first_use() -> None:
    lazy = LazyPattern("(")
    with pytest.raises(re.error):
        lazy.search("")

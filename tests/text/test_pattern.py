"""Untrusted regular expressions: valid ones work, invalid ones give the reason, none exhausts
resources.
"""

from __future__ import annotations

import contextlib

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from memorist.base.errors import Invalid, TooLarge
from memorist.text import pattern as patterns
from memorist.text.pattern import compile_pattern
from memorist.text.time_limit import TimeLimit, TimeLimitExceeded
from testkit.failures import invalid, raised


def search(pattern: regex.Pattern[str], text: str, after: int = 0) -> regex.Match[str] | None:
    return patterns.search(pattern, text, after, TimeLimit(60, 60))


GOOD = [
    (r"error|warning", "a warning", "warning"),
    (r"(?i)ERROR", "an error", "error"),
    (r"\d{3,5}", "x12345", "12345"),
    (r"^\s*at\b", "  at x", "  at"),
    (r"[^]a-z]+", "ab]12", "12"),
    (r"[]]", "a]", "]"),
    (r"a{,3}", "aaaa", "aaa"),
    (r"{not a count}", "{not a count}", "{not a count}"),
    (r"(a{10}){10}", "a" * 100, "a" * 100),
    (r"\p{Lu}\w+", "der Fluss", "Fluss"),
    (r"(?<=id=)\w+", "id=x7", "x7"),
    (r"(?:(?:\w+\s)*)end", "a b end", "a b end"),
    (r"\(\?R\)", "(?R)", "(?R)"),
]


@pytest.mark.parametrize(("pattern", "text", "found"), GOOD)
def test_matches_of_a_pattern(pattern: str, text: str, found: str) -> None:
    match = search(compile_pattern(pattern), text)
    assert match is not None
    assert match.group() == found


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("(", "missing ) at character 2"),
        ("a)", "at character"),
        ("[a", "at character"),
        ("*a", "at character 1"),
        ("\\", "bad escape (end of pattern) at character 2"),
        (r"\p{Nonsense}", "unknown property"),
        ("x{99999999999999999999}", "repeats too much"),
        ("((a{1000}){1000}){1000}", "repeats too much: over 10,000 copies, at character 16"),
        ("(?:(?:a{0,1000}){0,1000})", "repeats too much"),
        ("(" * 30 + "a" + ")" * 30, "nests groups more than 20 levels deep"),
        ("a(?R)?b", "uses recursion ((?R))"),
        ("(?<x>a(?&x)?b)", "uses recursion ((?&x))"),
        ("(a(?1)?b)", "uses recursion ((?1))"),
    ],
)
def test_an_invalid_pattern_gives_the_reason(pattern: str, says: str) -> None:
    """P16: it is neither compiled nor run."""
    assert says in raised(Invalid, compile_pattern, pattern).problem


def test_an_oversized_pattern_is_rejected() -> None:
    raised(TooLarge, compile_pattern, "a" * 501)


@pytest.mark.parametrize(
    "pattern", [r"(a+)+$", r"(a|aa)+$", r"(?:a?){60}a{60}b", r"(?:(?:(?:a+)+)+)+b", r"(.+)+\1$"]
)
def test_a_catastrophic_pattern_is_stopped(pattern: str) -> None:
    invalid("pattern", search, compile_pattern(pattern), "a" * 50_000 + "!")


def test_a_match_in_the_overlap_does_not_count() -> None:
    pattern = compile_pattern("ab")
    assert search(pattern, "ab..ab", 0).start() == 0  # type: ignore[union-attr]
    assert search(pattern, "ab..ab", 2).start() == 4  # type: ignore[union-attr]
    assert search(pattern, "ab..", 2) is None
    assert search(compile_pattern("^a"), "aaa", 1) is None


def test_many_matches_in_the_overlap_are_stopped() -> None:
    """P16: each takes less than the limit of one match; together they have a limit too."""
    with pytest.raises(TimeLimitExceeded):
        patterns.search(compile_pattern("a"), "a" * 200 + "b", 200, TimeLimit(-1, 60))


@given(st.text(r"ab.*+?()[]{}|^$\1,-:<>=!RP&#", max_size=30))
def test_any_pattern_is_compiled_or_rejected(pattern: str) -> None:
    with contextlib.suppress(Invalid):
        search(compile_pattern(pattern), "abab()[]{}")

"""The estimate of tokens: cheap, never zero for text, and never smaller for more text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain import tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 1),
        ("abcd", 1),
        ("abcde", 2),
        ("é", 1),
        ("ééé", 2),
        ("日本語テキスト", 5),
        ("a" * 4000, 1000),
        ("ab😀", 2),
    ],
)
def test_the_estimate(text: str, expected: int) -> None:
    assert tokens.estimate(text) == expected


@given(st.text(max_size=200), st.text(max_size=50))
def test_more_text_never_costs_less(text: str, more: str) -> None:
    whole = tokens.estimate(text + more)
    assert whole >= tokens.estimate(text)
    assert whole <= tokens.estimate(text) + tokens.estimate(more)
    assert (tokens.estimate(text) == 0) == (text == "")


@given(st.text(max_size=100))
def test_the_order_of_characters_does_not_matter(text: str) -> None:
    assert tokens.estimate(text) == tokens.estimate(text[::-1])

"""A JSON value as text."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from retain.text import jsonpath
from retain.text.budget import Budget
from retain.text.written import valid, written


@pytest.mark.parametrize(
    "value", [None, True, 1.5, "Grüße\n", [], {}, [1, {"a": [None]}], {"b": {"c": "d"}}]
)
def test_a_value_is_written_as_json_is(value: Any) -> None:
    assert written(value, 1000) == json.dumps(value, ensure_ascii=False)
    assert written(value, 1000, 2) == json.dumps(value, ensure_ascii=False, indent=2)


def test_with_an_indent_no_more_is_written_than_was_asked_for() -> None:
    """P16."""
    text = written([list(range(1000))] * 1000, 5000, 2)
    assert 5000 < len(text) < 5100
    assert text.startswith("[\n  [\n    0,\n    1,\n")


def test_what_is_nested_too_deep_for_an_indent_is_written_without() -> None:
    value: list[Any] = []
    for _ in range(20_000):
        value = [value]
    with pytest.raises(
        RecursionError
    ):  # in one line too, where it is deeper than what was parsed can be
        written(value, 10**9, 2)
    assert written(value, 1000, 2).startswith("[\n  [\n")


def test_of_a_large_value_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonpath, "_LOAD", 8)
    (found,) = jsonpath.select(io.BytesIO(b'  [1, 2, "Gr\xc3\xbc\xc3\x9fe"]'), "$", Budget(60))
    assert written(found, 12) == '[1, 2, "Gr'[:12] + "ü"


def test_half_characters_are_replaced() -> None:
    """B25."""
    assert valid("a\ud800b\udc00") == "a\ufffdb\ufffd"
    assert valid("😀") == "😀"

"""Paths over JSON objects select texts, in a bounded number of steps."""

from __future__ import annotations

from typing import Any

import pytest

from memorist.text import fields


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {"a": "harbour"}
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("text", ["harbour"]),
        ("deep.list[0].n", ["1"]),
        ("deep.list[-1].n", ["2"]),
        ("deep.list[*].n", ["1", "2"]),
        ("deep.list.*.n", ["1", "2"]),
        ("{text,deep.list[1].n}", ["harbour", "2"]),
        ("deep.{other,list}[*].n", ["1", "2"]),
        ("{missing,text,text}", ["harbour"]),
        ("deep.list[*]", ['{"n": 1}', '{"n": 2}']),
        ("deep.list[2].n", []),
        ("deep.list[x]", []),
        ("nothing", []),
    ],
)
def test_a_path_selects_texts_in_their_order(path: str, expected: list[str]) -> None:
    value = {"text": "harbour", "deep": {"list": [{"n": 1}, {"n": 2}]}, "nothing": None}
    assert fields.texts(value, [path]) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("{$,$}" * 100, 1),
        ("{a,a}" * 30, 1),
        ("{*,*}" * 30, 1),
        ("{*,$}" * 90, 31),
        ("{a,$}" * 90, 31),
        ("[a,a]" * 100, 0),
        ("[*]" * 170, 0),
    ],
)
def test_a_path_that_doubles_at_each_step_ends(path: str, expected: int) -> None:
    assert len(fields.texts(nested(29), [path])) == expected


def test_the_work_of_all_paths_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values beyond the limit are not selected; those before it are."""
    monkeypatch.setattr(fields, "MAX_VISITS", 100)
    value = {"many": [f"word{n}" for n in range(1000)], "last": "station"}
    texts = fields.texts(value, ["many[*]", "last"])
    assert texts[:2] == ["word0", "word1"]
    assert "word999" not in "\n".join(texts)
    assert "station" not in texts
    assert fields.texts(value, ["last", "many[*]"])[0] == "station"


def test_the_size_of_the_texts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fields, "MAX_TEXT_CHARACTERS", 100)
    value = {"many": [str(n) * 60 for n in range(10)]}
    assert fields.texts(value, ["many[*]"]) == ["0" * 60, "1" * 60]

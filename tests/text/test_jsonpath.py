"""JSON paths over stored content."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from memorist.base.errors import Invalid, TooLarge
from memorist.text import jsonpath
from memorist.text.jsonpath import parse_path, replace_surrogates, select, write_json
from memorist.text.time_limit import TimeLimit
from testkit.failures import invalid, raised

VALUE = {
    "name": "memorist",
    "a key": {"it's": 1, 'say "x"': 2},
    "items": [{"id": 0, "tags": ["a", "b"]}, {"id": 1, "tags": []}, {"id": 2, "more": {"id": 7}}],
    "empty": {},
    "deep": [[[[[[[["bottom"]]]]]]], {"id": None}],
    "text": 'a "quoted" {[text]}, \\ and ünïcode',
}


def select_all(value: Any, path: str, content: str | None = None) -> list[Any]:
    content = json.dumps(value) if content is None else content
    return list(select(io.BytesIO(content.encode()), path, TimeLimit(60, 60)))


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("$", [VALUE]),
        ("$.name", ["memorist"]),
        ("name", ["memorist"]),
        (".name", ["memorist"]),
        ("$['name']", ["memorist"]),
        ('$["a key"]["it\'s"]', [1]),
        ("$['a key']['it\\'s']", [1]),
        ("$.items[0].id", [0]),
        ("$.items[-1].id", [2]),
        ("$.items[ 1 ].id", [1]),
        ("$.items[*].id", [0, 1, 2]),
        ("$.items[0:2].id", [0, 1]),
        ("$.items[1:].id", [1, 2]),
        ("$.items[:-1].id", [0, 1]),
        ("$.items[-2:].id", [1, 2]),
        ("$.items[*].tags[*]", ["a", "b"]),
        ("$.items[*].more.id", [7]),
        ("$..id", [0, 1, 2, 7, None]),
        ("$.items..id", [0, 1, 2, 7]),
        ("$.items[2].*", [2, {"id": 7}]),
        ("$.empty.*", []),
        ("$..nothing", []),
        ("$.items[9:]", []),
        ("$.deep[0][0][0][0][0][0][0][0]", ["bottom"]),
        ("$.text", [VALUE["text"]]),
    ],
)
def test_paths(path: str, values: list[Any]) -> None:
    assert select_all(VALUE, path) == values


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("", "must be a JSON path"),
        ("$.items[x]", "is not a JSON path: unexpected query selector at character 9; use .name"),
        ("$.items[0", "is not a JSON path: "),
        ("$..", "is not a JSON path: expected a shorthand selector"),
        ("$.items[?@.id > 1]", "uses an unsupported selector; use .name"),
        ("$.nmae", "$ has no key 'nmae'; did you mean 'name'? Its keys: name, a key, items"),
        ("$.empty.x", "$.empty has no key 'x'. Its keys: none"),
        ("$.name.x", "$.name is text"),
        ("$.items.id", "$.items is an array of 3; use [0] or [*]"),
        ("$.items[7]", "$.items is an array of 3"),
        ("$.items[-4]", "$.items is an array of 3"),
        ("$.name[0]", "$.name is text"),
        ("$.empty[0]", "$.empty is an empty object"),
        ("$.items[0].id.x", "$.items[0].id is a number"),
    ],
)
def test_errors_name_where_a_path_stops(path: str, says: str) -> None:
    assert says in raised(Invalid, select_all, VALUE, path).problem


def test_a_path_has_limits() -> None:
    raised(TooLarge, parse_path, "$" + ".a" * 500 + ".b")
    raised(TooLarge, parse_path, "$" + ".a" * 65)
    assert len(parse_path("$" + ".a" * 64)) == 64


def test_a_content_has_a_size_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """P16: the error names the other ways to read it."""
    monkeypatch.setattr(jsonpath, "MAX_CONTENT_BYTES", 10)
    invalid("path", select_all, VALUE, "$")


@pytest.mark.parametrize("path", ["$..*", "$[0]", "$..a", "$[*]", "$[-1]"])
def test_nesting_has_a_limit(path: str) -> None:
    invalid("path", select_all, None, path, "[" * 1_000_000 + "]" * 1_000_000)


@pytest.mark.parametrize("path", ["$", "$.items[0]", "$..id", "$..*..*..*"])
def test_an_exhausted_time_limit_is_reported(path: str) -> None:
    """P16: no match within the limit differs from no match."""
    time_limit = TimeLimit(-1, 60)
    assert list(select(io.BytesIO(json.dumps(VALUE).encode()), path, time_limit)) == []
    assert time_limit.was_exceeded


def test_a_multiplying_path_is_stopped() -> None:
    """P16: sixty names with an exponential number of paths."""
    time_limit = TimeLimit(0.05, 60)
    content = '{"a": ' * 60 + "1" + "}" * 60
    assert (
        list(select(io.BytesIO(content.encode()), "$" + "..*" * 8 + "..nothing", time_limit)) == []
    )
    assert time_limit.was_exceeded


def test_json_lines_are_an_array() -> None:
    lines = "".join(json.dumps({"n": number}) + "\n" for number in range(20))
    assert select_all(None, "$[*].n", lines) == list(range(20))
    assert select_all(None, "$[-1].n", lines) == [19]
    assert select_all(None, "$..n", lines) == list(range(20))


@pytest.mark.parametrize(
    "content",
    ["", "hello", "{", '{"a"', '{"a": 1', '{"a": 1,}', "[1, 2", "[1 2]", "[}", "[" * 5000],
)
@pytest.mark.parametrize("path", ["$.a", "$[1]", "$[*]", "$..a"])
def test_invalid_json_is_an_error(content: str, path: str) -> None:
    raised(Invalid, select_all, None, path, content)


@pytest.mark.parametrize(
    "value", [None, True, 1.5, "Grüße\n", [], {}, [1, {"a": [None]}], {"b": {"c": "d"}}]
)
def test_values_are_written_as_json(value: Any) -> None:
    assert write_json(value, 1000) == json.dumps(value, ensure_ascii=False)
    assert write_json(value, 1000, 2) == json.dumps(value, ensure_ascii=False, indent=2)


def test_indented_json_stops_at_the_limit() -> None:
    text = write_json([list(range(1000))] * 1000, 5000, 2)
    assert 5000 < len(text) < 5100
    assert text.startswith("[\n  [\n    0,\n    1,\n")


def test_lone_surrogates_are_replaced() -> None:
    assert replace_surrogates("a\ud800b\udc00") == "a\ufffdb\ufffd"
    assert replace_surrogates("😀") == "😀"

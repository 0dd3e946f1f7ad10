"""JSON paths, over what is parsed and over what is too large to be: the same answers."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.base.errors import Invalid, TooLarge
from retain.text import jsonpath
from retain.text.budget import Budget
from retain.text.jsonpath import Large, select, steps

VALUE = {
    "name": "retain",
    "a key": {"it's": 1, 'say "x"': 2},
    "items": [{"id": 0, "tags": ["a", "b"]}, {"id": 1, "tags": []}, {"id": 2, "more": {"id": 7}}],
    "empty": {},
    "deep": [[[[[[[["bottom"]]]]]]], {"id": None}],
    "text": 'a "quoted" {[text]}, \\ and ünïcode',
}


def parsed(found: Any) -> Any:
    """A value, whether it was parsed or only found."""
    return json.loads(found.text(1 << 20)) if isinstance(found, Large) else found


def all_of(value: Any, path: str, written: str | None = None) -> list[Any]:
    return [
        parsed(found)
        for found in select(
            io.BytesIO((json.dumps(value) if written is None else written).encode()),
            path,
            Budget(60),
        )
    ]


@pytest.fixture(params=["parsed", "large"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Everything as if it were small, and as if everything were too large and every window too small."""
    if request.param == "large":
        monkeypatch.setattr(jsonpath, "_LOAD", 8)
        monkeypatch.setattr(jsonpath, "_WINDOW", 16)
    return str(request.param)


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("$", [VALUE]),
        ("$.name", ["retain"]),
        ("name", ["retain"]),
        (".name", ["retain"]),
        ("$['name']", ["retain"]),
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
def test_where_a_path_leads(path: str, values: list[Any], size: str) -> None:
    """R4."""
    assert all_of(VALUE, path) == values


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("", "must be a JSON path"),
        ("$.items[x]", "makes sense up to $.items and not at '[x]'"),
        ("$.items[0", "makes sense up to $.items and not at '[0'"),
        ("$..", "makes sense up to $ and not at '..'"),
        ("$ .a", "makes sense up to $ and not at ' .a'"),
        (
            "$.nmae",
            "looks for 'nmae' in $, which does not have it; did you mean 'name'? it has name, a key, items",
        ),
        ("$.empty.x", "looks for 'x' in $.empty, which does not have it; it has no keys"),
        ("$.name.x", "looks for 'x' in $.name, which is text"),
        ("$.items.id", "write [0] or [*] before it"),
        ("$.items[7]", "takes element 7 of $.items, which is an array of 3"),
        ("$.items[-4]", "takes element -4 of $.items, which is an array of 3"),
        ("$.name[0]", "takes an element of $.name, which is text"),
        ("$.empty[0]", "takes an element of $.empty, which is an"),
        ("$.name[*]", "goes on after $.name, which is text"),
        ("$.empty[0:1]", "takes elements of $.empty, which is an"),
        ("$.items[0].id.x", "looks for 'x' in $.items[0].id, which is a number"),
    ],
)
def test_an_error_says_where_it_stops_to_make_sense(path: str, says: str) -> None:
    with pytest.raises(Invalid) as error:
        all_of(VALUE, path)
    assert says in str(error.value)


def test_a_path_has_bounds() -> None:
    """P16."""
    with pytest.raises(TooLarge):
        steps("$" + ".a" * 500 + ".b")
    with pytest.raises(TooLarge):
        steps("$" + ".a" * 65)
    assert len(steps("$" + ".a" * 64)) == 64


@pytest.mark.parametrize("path", ["$..*", "$[0]", "$..a", "$[*]", "$[-1]"])
def test_nesting_has_a_bound_too(path: str) -> None:
    """P16: eight megabytes of nothing but brackets, each of which would have to be skipped once for each around it."""
    with pytest.raises(
        Invalid, match=r"path: cannot be followed: the content is nested too deep\.$"
    ):
        list(select(io.BytesIO(b"[" * (4 << 20) + b"]" * (4 << 20)), path, Budget(60)))


def test_large_values_in_one_another_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """P16: a hundred, and not one more."""
    monkeypatch.setattr(jsonpath, "_LOAD", 64)
    text = json.dumps("x" * 100)

    def found(depth: int) -> list[Any]:
        return all_of(None, "$..a", '{"a": ' * depth + text + "}" * depth)

    assert found(jsonpath.MOST_LARGE)[-1] == "x" * 100
    with pytest.raises(Invalid, match="nested too deep"):
        found(jsonpath.MOST_LARGE + 1)


@pytest.mark.parametrize("path", ["$", "$.items[0]", "$..id", "$.nothing", "$..*..*..*"])
def test_nothing_is_found_once_the_budget_is_spent(path: str, size: str) -> None:
    """P16: which is not the same as that there is nothing; so the budget says it."""
    budget = Budget(-1)
    assert list(select(io.BytesIO(json.dumps(VALUE).encode()), path, budget)) == []
    assert budget.is_spent


def test_a_path_that_multiplies_is_stopped() -> None:
    """P16: sixty names, and more ways through them than anybody could count."""
    budget = Budget(0.05)
    written = '{"a": ' * 60 + "1" + "}" * 60
    assert list(select(io.BytesIO(written.encode()), "$" + "..*" * 8 + "..nothing", budget)) == []
    assert budget.is_spent


def test_one_value_per_line_is_an_array(size: str) -> None:
    lines = "".join(json.dumps({"n": number}) + "\n" for number in range(20))
    assert all_of(None, "$[*].n", lines) == list(range(20))
    assert all_of(None, "$[-1].n", lines) == [19]
    assert all_of(None, "$..n", lines) == list(range(20))


@pytest.mark.parametrize(
    "written",
    [
        "",
        "hello",
        "{",
        '{"a"',
        '{"a":',
        '{"a": 1',
        '{"a": 1,}',
        "[1, 2",
        '["a',
        "[1 2]",
        '{"a" 1}',
        "[}",
        "[" * 5000,
    ],
)
@pytest.mark.parametrize("path", ["$.a", "$[1]", "$[*]", "$..a"])
def test_what_is_no_json_is_an_error_and_not_nothing(written: str, path: str, size: str) -> None:
    try:
        all_of(None, path, written)
    except (Invalid, json.JSONDecodeError):
        return
    assert size == "large"  # where only what the path leads to is read
    assert written.startswith(("[", "{"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text('ab"\\{é', max_size=3), inner, max_size=4)
    ),
    max_leaves=25,
)


@given(
    JSON,
    st.sampled_from(["$", "$[*]", "$..a", "$.a", "$[0]", "$[-1]", "$[1:3]", "$[*][*]", "$..b[0]"]),
    st.booleans(),
)
def test_what_is_large_and_what_is_parsed_lead_to_the_same(
    value: Any, path: str, ascii_only: bool
) -> None:
    written = json.dumps(value, ensure_ascii=ascii_only, indent=1)

    def answer() -> Any:
        try:
            return all_of(value, path, written)
        except Invalid:
            return "error"

    small = answer()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonpath, "_LOAD", 8)
        patch.setattr(jsonpath, "_WINDOW", 16)
        assert answer() == small

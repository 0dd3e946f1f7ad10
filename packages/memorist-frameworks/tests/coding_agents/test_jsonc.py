"""Edits of JSON with comments: the data, and every byte that is not part of the edit."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorist_frameworks.coding_agents import jsonc

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(st.text(max_size=3), VALUES, max_size=4)
INDENTS = st.sampled_from([None, 2, 4, "\t"])
COMMENTS = st.sampled_from(["", "// a note\n", "/* a\nnote */ "])


def written(document: Any, indent: int | str | None, comment: str) -> str:
    return comment + json.dumps(document, indent=indent, ensure_ascii=False) + "\n" + comment


@given(DOCUMENTS, INDENTS, COMMENTS, VALUES)
def test_a_member_is_added_and_removed(
    document: dict[str, Any], indent: int | str | None, comment: str, value: Any
) -> None:
    text = written(document, indent, comment)
    insertions = jsonc.set_member(text, ("group", "name"), value)
    after = jsonc.apply(text, insertions)
    assert jsonc.parse(after).value == {**document, "group": {"name": value}}
    assert jsonc.undo(after, insertions) == text
    node = jsonc.parse(after)
    removed = jsonc.remove_child(after, node, node.keys.index("group"))
    assert removed == text if document else jsonc.parse(removed).value == {}


@given(st.lists(VALUES, max_size=3), INDENTS, VALUES)
def test_an_item_is_added_and_removed(
    items: list[Any], indent: int | str | None, value: Any
) -> None:
    text = written({"list": items, "other": 1}, indent, "")
    insertions = jsonc.append_item(text, ("list",), value)
    after = jsonc.apply(text, insertions)
    assert jsonc.parse(after).value == {"list": [*items, value], "other": 1}
    assert jsonc.undo(after, insertions) == text
    node = jsonc.find(after, ("list",))
    assert node is not None
    removed = jsonc.remove_child(after, node, len(items))
    assert jsonc.parse(removed).value == {"list": items, "other": 1}


@given(DOCUMENTS, INDENTS, st.data())
def test_any_member_can_be_removed(
    document: dict[str, Any], indent: int | str | None, data: st.DataObject
) -> None:
    text = written(document, indent, "")
    if not document:
        return
    key = data.draw(st.sampled_from(list(document)))
    node = jsonc.parse(text)
    removed = jsonc.remove_child(text, node, node.keys.index(key))
    assert jsonc.parse(removed).value == {k: v for k, v in document.items() if k != key}


@given(st.text(max_size=30))
def test_any_text_is_parsed_or_rejected_with_its_line(text: str) -> None:
    line = 1
    try:
        jsonc.parse(text)
    except jsonc.EditError as error:
        line = error.line
    assert 1 <= line <= text.count("\n") + 1


def test_a_comment_behind_the_last_member_stays_there() -> None:
    text = '{\n  "a": 1 // first\n  // end\n}'
    after = jsonc.apply(text, jsonc.set_member(text, ("b",), 2))
    assert after == '{\n  "a": 1, // first\n  // end\n  "b": 2\n}'


def test_a_trailing_comma_stays() -> None:
    text = '{\n  "a": 1,\n}'
    after = jsonc.apply(text, jsonc.set_member(text, ("b",), 2))
    assert after == '{\n  "a": 1,\n  "b": 2,\n}'


@pytest.mark.parametrize(
    ("text", "position", "after"),
    [
        ('{ // mine\n "a": 1}', 0, "{ // mine\n}"),
        ('{ // mine\n "a": 1 /* b */ }', 0, "{ // mine\n /* b */ }"),
        ('{"a": 1, // mine\r\n "b": 2}', 1, '{"a": 1 // mine\r\n}'),
        ('{"a": 1, // mine\n "b": 2, "c": 3}', 1, '{"a": 1, // mine\n "c": 3}'),
        ('{ // mine\n "a": 1\n}', 0, "{ // mine\n}"),
        ('{"a": 1, "b": 2, "a": 3}', 2, '{"a": 1, "b": 2}'),
    ],
)
def test_a_comment_before_a_removed_member_hides_nothing(
    text: str, position: int, after: str
) -> None:
    assert jsonc.remove_child(text, jsonc.parse(text), position) == after
    jsonc.parse(after)


def test_of_a_repeated_key_the_last_counts() -> None:
    node = jsonc.parse('{"a": 1, "b": 2, "a": 3}')
    assert node.position("a") == 2
    assert node.children[node.position("a")] is node.child("a")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": 1', "line 1: a comma or } is missing"),
        ('{\n"a" 1}', "line 2: a colon is missing"),
        ("{'a': 1}", "line 1: a key in quotes is missing"),
        ('{"a": nope}', "line 1: nope is not a value"),
        ("{}\n{}", "line 2: there is text after the end"),
        ("[" * 200, "nested too deeply"),
        ("", "line 1: a value is missing"),
    ],
)
def test_the_line_of_a_problem_is_named(text: str, problem: str) -> None:
    with pytest.raises(jsonc.EditError, match=problem):
        jsonc.parse(text)

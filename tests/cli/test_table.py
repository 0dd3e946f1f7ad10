"""Tables for people: as wide as their terminal, and nothing lost in it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.api.table import lines, width, wrapped

ID = "01a1de0a-decd-717a-8ae0-a7b80cc07cd5"
HEAD = ("id", "agent", "created_at", "content")
ROWS = [
    (ID, "scout", "2026-11-15 07:10:16Z", "Ada prefers trains to planes."),
    (ID, "–", "2026-11-15 07:10:17Z", "日本語 and more"),
]


def test_with_room_a_record_is_a_line() -> None:
    assert lines(HEAD, ROWS, 100) == [
        "id                                    agent  created_at            content",
        "─" * 96,
        f"{ID}  scout  2026-11-15 07:10:16Z  Ada prefers trains to planes.",
        f"{ID}  –      2026-11-15 07:10:17Z  日本語 and more",
    ]
    assert lines(HEAD, ROWS, None) == lines(HEAD, ROWS, 100)


def test_with_less_the_text_wraps_then_moments_and_ids_are_shortened() -> None:
    assert lines(HEAD, ROWS, 90)[2:] == [
        f"{ID}  scout  2026-11-15 07:10:16Z  Ada prefers trains to",
        f"{' ' * 67}planes.",
        f"{ID}  –      2026-11-15 07:10:17Z  日本語 and more",
    ]
    assert lines(HEAD, ROWS, 80)[2:] == [
        f"{ID}  scout  11-15 07:10  Ada prefers trains to",
        f"{' ' * 58}planes.",
        f"{ID}  –      11-15 07:10  日本語 and more",
    ]
    assert lines(HEAD, ROWS, 64)[2:] == [
        "01a1de0a-decd-717a-  scout  11-15 07:10  Ada prefers trains to",
        "8ae0-a7b80cc07cd5                        planes.",
        "01a1de0a-decd-717a-  –      11-15 07:10  日本語 and more",
        "8ae0-a7b80cc07cd5",
    ]


def test_on_the_narrowest_each_record_is_a_block() -> None:
    assert lines(HEAD, ROWS, 40) == [
        f"id  {ID}",
        "agent  scout",
        "created_at  2026-11-15 07:10:16Z",
        "content  Ada prefers trains to planes.",
        "",
        f"id  {ID}",
        "agent  –",
        "created_at  2026-11-15 07:10:17Z",
        "content  日本語 and more",
    ]


def test_one_record_has_no_head() -> None:
    assert lines(("", ""), [("id", ID), ("text", "two\nlines")], None) == [
        f"id    {ID}",
        "text  two",
        "      lines",
    ]
    assert lines(HEAD, [], 80) == ["id  agent  created_at  content", "─" * 30]


@given(
    st.lists(
        st.tuples(*[st.text(st.sampled_from("ab -\n日😀é"), max_size=60)] * 3),
        min_size=1,
        max_size=4,
    ),
    st.integers(8, 120),
)
def test_no_letter_is_lost_and_no_line_is_too_wide(
    rows: list[tuple[str, str, str]], room: int
) -> None:
    """Whatever is in the cells, and however narrow the terminal is."""
    head = ("one", "two", "three")
    found = lines(head, rows, room)
    assert all(width(line) <= max(room, 14) for line in found)
    assert all(line == line.rstrip(" ") for line in found)
    shown, given = (
        re.sub("[^ab日😀é-]", "", text)
        for text in ("".join(found), "".join("".join(row) for row in rows))
    )
    assert sorted(shown) == sorted(given)


@pytest.mark.parametrize(
    ("text", "room", "made"),
    [
        ("one two", 7, ["one two"]),
        ("one two", 6, ["one", "two"]),
        ("one two", 3, ["one", "two"]),
        ("abcdefgh", 3, ["abc", "def", "gh"]),
        ("日本語", 4, ["日本", "語"]),
        ("日", 1, ["日"]),
        ("a\n\nb", 5, ["a", "", "b"]),
        ("", 5, [""]),
    ],
)
def test_wrapping(text: str, room: int, made: list[str]) -> None:
    assert wrapped(text, room) == made

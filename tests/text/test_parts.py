"""A Markdown document in parts, of which a prompt omits the last: spec N3."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorist.text.markdown import MAX_PARTS, PART_CHARACTERS, outline, split_parts


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", []),
        ("a", ["a"]),
        ("a\n# B\nb\n## C\nc\n# D\n", ["a\n", "# B\nb\n## C\nc\n", "# D\n"]),
        ("\n\n# B\nb\n# D\n", ["\n\n# B\nb\n", "# D\n"]),
        ("# Title\nt\n## A\na\n### A1\n## B\nb", ["# Title\nt\n", "## A\na\n### A1\n", "## B\nb"]),
        ("# Title\n## Only\no\n### X\n### Y", ["# Title\n", "## Only\no\n", "### X\n", "### Y"]),
        ("```\n# A\n```\n# B", ["```\n# A\n```\n", "# B"]),
        ("~~~~ md\n# A\n~~~\n```\n~~~~\n# B", ["~~~~ md\n# A\n~~~\n```\n~~~~\n", "# B"]),
        ("``` a`b\n# A\n# B", ["``` a`b\n", "# A\n", "# B"]),
        (
            "x\n\nA\nB\n===\na\n\nC\n---\nc\n\nD\n==\n",
            ["x\n\n", "A\nB\n===\na\n\nC\n---\nc\n\n", "D\n==\n"],
        ),
        ("- A\n---\n> B\n---\n---\n#C\n    # D\n", ["- A\n---\n> B\n---\n---\n#C\n    # D\n"]),
        ("# A\r\na\r\n# B\r\n", ["# A\r\na\r\n", "# B\r\n"]),
        ("# A\ra\r\rB\r=\r", ["# A\ra\r\r", "B\r=\r"]),
        ("# A\n#", ["# A\n", "#"]),
    ],
)
def test_parts_are_the_outermost_sections(text: str, wanted: list[str]) -> None:
    """Below a single title, the sections under it."""
    assert split_parts(text) == wanted
    assert split_parts(text) == wanted, "and the same again, when where to cut is known"


def test_long_parts_are_split_between_blocks() -> None:
    """A long list is not omitted as a whole; a block is never split."""
    items = [f"- thing {n} {'x' * 50}\n" for n in range(200)]
    code = "```\n" + "code\n\n" * 1000 + "```\n"
    text = "# List\n" + "".join(items) + "# Code\n" + code + "\nafter\n# Small\n"
    created = split_parts(text)
    assert "".join(created) == text
    assert created[0].startswith("# List\n- thing 0")
    assert code in created[-3] or code in created[-2]
    assert [part for part in created if len(part) > PART_CHARACTERS] == [
        part for part in created if code in part
    ]
    assert len(created) < 12
    assert created[-1] == "# Small\n"


def test_continuations_after_a_blank_line_are_not_split() -> None:
    """The second paragraph of an item, and indented code."""
    items = [f"- thing {n} {'x' * 500}\n\n  more of {n} {'y' * 500}\n" for n in range(10)]
    created = split_parts("".join(items))
    assert len(created) == 10
    assert created == items


WORST = {
    "headings": "# a\n" * 16_000,
    "more headings": "# a\n" * 65_000,
    "nested": "".join(f"{'#' * (n % 6 + 1)} h\ntext\n\n" for n in range(17_000)),
    "underlined": "a\n---\n" * 40_000,
    "items": "- a\n" * 60_000,
    "paragraphs": ("word " * 60 + "\n\n") * 850,
    "fences": "```\n" * 60_000,
    "carriage returns": "# a\r\n" * 50_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("text", WORST.values(), ids=WORST.keys())
def test_the_number_of_parts_is_bounded(text: str) -> None:
    """Small neighbours are joined; the first parts are the finest, since they are omitted last."""
    created = split_parts(text)
    assert "".join(created) == text
    assert len(created) <= MAX_PARTS
    assert all(len(part) <= PART_CHARACTERS for part in created[:30])
    assert split_parts(text) == created, "and the same again, when where to cut is known"


def test_40_sections_stay_40_parts_and_41_do_not() -> None:
    """Up to the limit each section can be omitted separately."""
    assert split_parts("# a\n" * 40) == ["# a\n"] * 40
    assert split_parts("# a\n" * 41) == ["# a\n" * 41]


@given(
    st.lists(
        st.sampled_from(
            ["# A", "## B", "A", "===", "---", "```", "- x", "  y", "", "word " * 100, "z" * 3000]
        ),
        max_size=90,
    ),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_parts_join_to_the_document(lines: list[str], ending: str) -> None:
    """None is empty."""
    text = ending.join(lines)
    created = split_parts(text)
    assert "".join(created) == text
    assert all(created)
    assert len(created) <= MAX_PARTS


@given(
    st.lists(
        st.sampled_from(
            ["# A\n", "## B\n", "### C\n", "text\n", "\n", "D\n---\n", "```\n# x\n```\n"]
        ),
        max_size=30,
    )
)
def test_parts_start_at_sections(lines: list[str]) -> None:
    """In ordinary Markdown, at CommonMark headings."""
    text = "".join(lines)
    headings = {heading.start for heading in outline(text)}
    place = 0
    for part in split_parts(text):
        assert place == 0 or place in headings
        place += len(part)

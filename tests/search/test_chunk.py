"""Splitting of long texts: complete, in order, along the structure, within the size limit."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorist.base.tokens import estimate
from memorist.search import chunk
from memorist.search.chunk import MAX_TOKENS, Chunk, Markup, split
from memorist.text import markdown

WORDS = st.sampled_from(
    [
        "word",
        "Satz.",
        "Ende!",
        "你好。",
        "ひらがな",
        "a_b_c",
        "naïve",
        "👩‍👩‍👧",
        "e\u0301",
        "x" * 500,
        "https://a.b/c?d=e",
        "1.",
        "-",
        "|",
    ]
)
LINES = st.sampled_from(
    ["# One", "## Two", "### Two", "Setext\n===", "```", "~~~py", "> quote", "- item", "  - inner", "1. first", "| a | b |",
     "|---|---|", "    code", "<!--", "-->", "<div>", "[a]: b", "---", "***", "", "", "", "\t", "\u2028", "\x0c"]
)  # fmt: skip
DOCUMENTS = st.lists(st.one_of(LINES, st.lists(WORDS, max_size=120).map(" ".join)), max_size=40)
ENDINGS = st.sampled_from(["\n", "\r\n", "\r", "\n\n", "\n \n"])


def check(text: str, parts: list[Chunk]) -> None:
    """Check invariants of any split."""
    at = 0
    for part in parts:
        assert part.text
        assert part.text == part.text.strip() == text[part.start : part.end]
        assert not text[at : part.start].strip(), "what lies between two parts is blank"
        assert estimate(part.text) <= MAX_TOKENS
        at = part.end
    assert not text[at:].strip()


@given(DOCUMENTS, ENDINGS, st.sampled_from(["text", "markdown"]))
def test_chunks_cover_the_text_in_order_without_overlap(
    lines: list[str], ending: str, media: Markup
) -> None:
    text = ending.join(lines)
    check(text, split(text, media))


@given(st.text(max_size=5000), st.sampled_from(["text", "markdown"]))
def test_any_text_can_be_split(text: str, media: Markup) -> None:
    check(text, split(text, media))


@given(DOCUMENTS, ENDINGS)
def test_blocks_cover_the_text(lines: list[str], ending: str) -> None:
    text = ending.join(lines)
    results = list(markdown.blocks(text))
    assert "".join(text[block.start : block.end] for block in results) == text
    assert [block.start for block in results] == [0, *(block.end for block in results)][
        : len(results)
    ]


def test_a_short_text_is_one_chunk_and_a_blank_one_none() -> None:
    assert split("  Hello.\n") == [Chunk("", "Hello.", 2, 8)]
    assert split("") == split(" \n\t\n") == split("", "markdown") == split("\n\n", "markdown") == []


GUIDE = f"""# Guide

## Install

### Linux

{"Install it with apt. " * 30}

### macOS

{"Install it with brew. " * 30}

## Use

```sh
# this is no heading
memorist search
```

{"Search for what you need. " * 30}
"""


def test_headings_become_titles() -> None:
    parts = split(GUIDE, "markdown")
    assert list(dict.fromkeys(part.title for part in parts)) == [
        "Guide › Install › Linux",
        "Guide › Install › macOS",
        "Guide › Use",
    ]
    assert parts[0].text.startswith("# Guide\n\n## Install\n\n### Linux"), (
        "headings over nothing go with what they are over"
    )
    assert not any("no heading" in part.title for part in parts)


def test_tiny_sections_are_joined() -> None:
    tiny = split(
        "# A\n\n## B\n\nOne.\n\n## C\n\nTwo.\n\n## D\n\n" + "A long section about D. " * 12,
        "markdown",
    )
    assert [part.title for part in tiny] == ["A", "A › D"]
    large = "\n\n".join(
        f"## {letter}\n\n" + f"About {letter} there is something to say. " * 8 for letter in "ABC"
    )
    assert [part.title for part in split(large, "markdown")] == ["A", "B", "C"]


@pytest.mark.parametrize(
    "block",
    [
        "```py\n" + "\n\n".join(f"value_{n} = {n}" for n in range(20)) + "\n```",
        "\n".join(f"- item number {n}" for n in range(25)),
        "| name | value |\n|---|---|\n" + "\n".join(f"| n{n} | {n} |" for n in range(18)),
        "One sentence. " * 40,
    ],
    ids=["code", "list", "table", "paragraph"],
)
def test_blocks_stay_together(block: str) -> None:
    before, after = "Some words before it. " * 20, "Some words after it. " * 20
    parts = split(f"{before}\n\n{block}\n\n{after}", "markdown")
    assert sum(block.strip() in part.text for part in parts) == 1


def test_a_long_paragraph_is_cut_after_sentences() -> None:
    text = "".join(f"This is sentence number {n} of a long paragraph. " for n in range(200))
    parts = split(text)
    assert len(parts) > 5
    assert all(part.text.endswith("paragraph.") for part in parts)
    assert all(150 < estimate(part.text) <= MAX_TOKENS for part in parts[:-1])


def test_windows_line_endings_are_split_alike() -> None:
    text = "\n\n".join("A line of a paragraph,\nand one more. " * 12 for _ in range(20))
    assert [part.text.replace("\r\n", "\n") for part in split(text.replace("\n", "\r\n"))] == [
        part.text for part in split(text)
    ]


def test_lists_are_cut_between_items_and_tables_between_rows() -> None:
    items = "\n".join(
        f"- item {n}: it has a sentence. And another one\n  that goes on" for n in range(100)
    )
    for part in split(items, "markdown"):
        assert part.text.startswith("- item")
    rows = "| name | value |\n|---|---|\n" + "\n".join(
        f"| name {n} | a value. Of {n} |" for n in range(200)
    )
    for part in split(rows, "markdown"):
        assert all(line.startswith(("| ", "|-")) for line in part.text.splitlines())


@pytest.mark.parametrize(
    "sentence",
    ["这是一个很长的句子，关于记忆。", "これは長い文です。", "यह एक वाक्य है। ", "هذه جملة؟ "],
)
def test_sentences_of_other_languages(sentence: str) -> None:
    parts = split(sentence * 300)
    assert len(parts) > 3
    assert all(
        len(part.text.replace(" ", "")) % len(sentence.replace(" ", "")) == 0 for part in parts
    )


def test_text_without_break_opportunities() -> None:
    for text in ("x" * 50_000, "你好" * 10_000, "👩‍👩‍👧" * 3_000, "e\u0301" * 20_000):
        parts = split(text)
        check(text, parts)
        assert "".join(part.text for part in parts) == text
        assert not any(part.text.startswith(("\u0301", "\u200d")) for part in parts)


def test_front_matter_is_no_heading() -> None:
    text = "---\ntitle: A page\ntags: [a, b]\n---\n\n# Heading\n\n" + "Body. " * 100
    assert {part.title for part in split(text, "markdown")} == {"", "Heading"}


def test_titles_are_short_and_plain() -> None:
    path = "".join(
        f"{'#' * level} {str(level) * 90} `code` [link](http://x)\n\n" for level in range(1, 7)
    )
    title = split(path + "Body. " * 100, "markdown")[-1].title
    assert len(title) <= 300
    assert title.endswith("666 code link")
    assert chunk.titled("a" * 1000) == "a" * 99 + "…"


def test_slices_of_large_documents_match_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = (
        GUIDE
        + "\n~~~\n## in code\n~~~\n\n- a list\n\n      with code\n\n1. another\n\n> quoted\n> # heading in a quote\n\n"
    )
    text = "".join(f"# Part {n}\n\n{unit}" for n in range(6))
    whole = list(markdown.blocks(text))
    for size in (700, 1500, 5000):
        monkeypatch.setattr(markdown, "SLICE_CHARACTERS", size)
        results = list(markdown.blocks(text))
        headings = [
            [(b.start, b.path) for b in some if b.kind == "heading"] for some in (results, whole)
        ]
        assert headings[0] == headings[1]
        assert "".join(text[b.start : b.end] for b in results) == text


def test_code_larger_than_a_slice_has_no_headings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markdown, "SLICE_CHARACTERS", 300)
    text = "```sh\n" + "# a comment\nls -l\n" * 100 + "```\n\n# Real\n\nText."
    assert [b.path for b in markdown.blocks(text) if b.kind == "heading"] == [("Real",)]


@pytest.mark.parametrize(
    "unit",
    [
        "x",
        " ",
        "\n",
        "[",
        "> ",
        "- ",
        "- a\n",
        "# a\n",
        "[a]: b\n",
        "<!--\n",
        "`",
        "|\n",
        "e\u0301",
        "\t",
        "\\",
        "1) ",
    ],
)
def test_splitting_takes_linear_time(unit: str) -> None:
    """Adversarial texts of tens of kilobytes are split at once."""
    for media in ("text", "markdown"):
        text = unit * (40_000 // len(unit))
        check(text, split(text, media))


def test_chunks_of_one_section_share_its_title() -> None:
    text = "# Long\n\n" + "\n\n".join(
        f"Paragraph {n}. " + "More words follow here. " * 12 for n in range(20)
    )
    parts = split(text, "markdown")
    assert len(parts) > 5
    assert {part.title for part in parts} == {"Long"}
    assert all(first.end <= two.start for first, two in itertools.pairwise(parts))

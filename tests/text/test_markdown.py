"""Markdown sections: CommonMark headings, and edits that change one section only: N2."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import assume, event, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from memorist.base.errors import Invalid, NoSection
from memorist.text import markdown
from memorist.text.markdown import delete_section, headers, outline, replace_section
from testkit.failures import invalid, raised
from testkit.sizes import FULL

# -- what is a heading ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("no heading", []),
        ("# A", ["# A"]),
        ("#\tA", ["# A"]),
        ("#", ["#"]),
        ("## \n", ["##"]),
        ("#A\n##B", []),
        ("####### seven", []),
        ("###### six", ["###### six"]),
        ("# A #\n## B ##  \n### C ### c\n# D#", ["# A", "## B", "### C ### c", "# D#"]),
        ("   # indented", ["# indented"]),
        ("    # code", []),
        ("\t# code", []),
        ("text\n    # no code, but no heading", []),
        ("\\# escaped", []),
        ("A\n===\nB\n---", ["# A", "## B"]),
        ("Two\nlines\n=\n", ["# Two lines"]),
        ("  A  \n   ----  ", ["## A"]),
        ("A\n    ---", []),
        ("A\n\n---\n\n***", []),
        ("A\n= =", []),
        ("- A\n---", []),
        ("> A\n---", []),
        ("```\n# A\n```\n# B", ["# B"]),
        ("~~~ md\n# A\n```\n# A\n~~~~\n# B", ["# B"]),
        ("````\n```\n# A\n````\n# B", ["# B"]),
        ("```\n# open to the end", []),
        ("``` a`b\n# B", ["# B"]),
        ("> # quoted\n\n# B", ["# B"]),
        ("> quoted\n# B", ["# B"]),
        ("- # item\n  # item\n\n  # item\n# B", ["# B"]),
        ("- a\n\n  # item\n\n # B", ["# B"]),
        ("1. a\n\n   # item\n   B\n   ===\n", []),
        ("<div>\n# A\n</div>\n\n# B", ["# B"]),
        ("<!-- \n\n# A\n\n-->\n# B", ["# B"]),
        ("<script>\n\n# A\n</script>\n# B", ["# B"]),
        ("<pre>\n# A\n\n# A", []),
        ("<?php\n\n# A ?>\n# B", ["# B"]),
        ("[a]: /url\n===\n# B", ["# B"]),
        ("[a]: /url\nB\n===", ["# B"]),
        ("# *A* `b` [c](d)", ["# *A* `b` [c](d)"]),
        ("text\n# B\ntext", ["# B"]),
        ("# A\r\n\r\nB\r\n---\r\n", ["# A", "## B"]),
        ("# A\rtext\r## B\r", ["# A", "## B"]),
        ("a\u2028# no line\u2029# none\x0b# none\x0c# none\x85# none", []),
        ("\ufeff# A", []),
        ("# [MemoryRef: a - b]", ["# [MemoryRef: a - b]"]),
    ],
)
def test_headings_follow_commonmark(text: str, found: list[str]) -> None:
    """A `#` in code, HTML, a quote or a list is no heading; an underlined line is."""
    assert headers(text) == found
    for heading in outline(text):
        assert text[heading.start - 1 : heading.start] in ("", "\n", "\r")
        assert heading.start < heading.body <= heading.end <= len(text)


def test_a_section_ends_at_the_next_heading_of_its_level_or_higher() -> None:
    text = "before\n# A\na\n## B\nb\n### C\nc\n## D\nd\n# E\ne"
    assert [text[heading.start : heading.end] for heading in outline(text)] == [
        "# A\na\n## B\nb\n### C\nc\n## D\nd\n",
        "## B\nb\n### C\nc\n",
        "### C\nc\n",
        "## D\nd\n",
        "# E\ne",
    ]
    assert [text[heading.start : heading.body] for heading in outline(text)] == [
        "# A\n",
        "## B\n",
        "### C\n",
        "## D\n",
        "# E\n",
    ]
    assert [heading.body for heading in outline("A\n=\n")] == [4]


def test_concurrent_first_use_of_the_parser() -> None:
    """The parser is created once and shared: another thread must not see it half initialised."""
    text = "# A\n> # q\n\n- # l\n\n```\n# c\n```\nB\n===\n" * 20
    for _ in range(10):
        markdown.parser.cache_clear()
        start = threading.Barrier(8)

        def work(_: int, start: threading.Barrier = start) -> list[str]:
            start.wait()
            return headers(text)

        with ThreadPoolExecutor(8) as threads:
            assert all(item == ["# A", "# B"] * 20 for item in threads.map(work, range(8)))


# -- which section is meant -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "gone"),
    [
        ("Tea", "# Tea\n1\n## Milk\n2\n## tea\n3\n"),
        ("  Tea \n", "# Tea\n1\n## Milk\n2\n## tea\n3\n"),
        ("# Tea", "# Tea\n1\n## Milk\n2\n## tea\n3\n"),
        ("# Tea ##", "# Tea\n1\n## Milk\n2\n## tea\n3\n"),
        ("tea", "## tea\n3\n"),
        ("TEA", "# Tea\n1\n## Milk\n2\n## tea\n3\n"),
        ("## TEA", "## tea\n3\n"),
        ("### Tea", "### Tea\n5\n"),
        ("milk", "## Milk\n2\n"),
        ("STRASSE A", "## Straße  a\n4\n### Tea\n5\n"),
        ("straße a", "## Straße  a\n4\n### Tea\n5\n"),
        ("**Bold** `x`", "## **Bold** `x`\n6\n"),
        ("# # hash", "# # hash\n7\n"),
    ],
)
def test_a_header_is_matched_by_its_text(header: str, gone: str) -> None:
    """Exactly first, then ignoring case; `##` before it selects the level."""
    text = "# Tea\n1\n## Milk\n2\n## tea\n3\n# X\n## Straße  a\n4\n### Tea\n5\n## **Bold** `x`\n6\n# # hash\n7\n"
    assert delete_section(text, header).text == text.replace(gone, "", 1)


def test_the_first_of_equal_headers_is_used() -> None:
    """The answer says how many there are."""
    assert delete_section("# A\n1\n## A\n2\n# A\n3\n", "A") == ("# A\n3\n", 3)
    assert delete_section("# A\n1\n## A\n2\n# A\n3\n", "## A") == ("# A\n1\n# A\n3\n", 1)
    assert replace_section("# A\n1\n# A\n2\n", "A", "x") == ("# A\nx\n# A\n2\n", 2)


@pytest.mark.parametrize(
    "edit", [delete_section, lambda text, header: replace_section(text, header, "x")]
)
def test_an_unknown_header_lists_the_existing_ones(edit: Callable[[str, str], Any]) -> None:
    with pytest.raises(NoSection) as error:
        edit("# A\n## B *b*\nC\n===\n```\n# D\n```\n", "D")
    assert str(error.value) == "There is no section 'D': the sections are # A, ## B *b*, # C."
    with pytest.raises(NoSection) as error:
        edit("# A\n", "## A")
    assert str(error.value) == "There is no section '## A': the sections are # A."
    with pytest.raises(NoSection) as error:
        edit("just text", "A\nB")
    assert str(error.value) == "There is no section 'A B': there are no sections."
    with pytest.raises(NoSection) as error:
        edit("".join(f"# {n} {'x' * 200}\n" for n in range(60)), "y" * 200)
    assert str(error.value) == (
        f"There is no section '{'y' * 99}…': the sections are "
        + ", ".join(f"# {n} {'x' * (96 - len(str(n)))}…" for n in range(50))
        + " and 10 more."
    )
    invalid("header", edit, "#\n", " \n")


# -- what an edit leaves ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "body", "after"),
    [
        ("# A\nold\n# B\n", "new", "# A\nnew\n# B\n"),
        ("# A\n\nold\n\n\n# B\n", "new", "# A\n\nnew\n\n\n# B\n"),
        ("# A\n\nold\n\n# B", "\n\nnew\n\n", "# A\n\nnew\n\n# B"),
        ("# A\n# B\n", "new", "# A\nnew\n# B\n"),
        ("# A\n\n# B\n", "new", "# A\nnew\n\n# B\n"),
        ("# A", "new", "# A\nnew"),
        ("# A\n", "new\n\n", "# A\nnew\n"),
        ("# A\nold", "new\n", "# A\nnew"),
        ("# A\nold\n## Sub\nmore\n# B\n", "new", "# A\nnew\n# B\n"),
        ("# A\n\nold\n\n# B\n", "", "# A\n\n# B\n"),
        ("# A\nold\n# B\n", " \n", "# A\n# B\n"),
        ("# A\nold", "", "# A\n"),
        ("A\n===\nold\n\nB\n===\n", "new", "A\n===\nnew\n\nB\n===\n"),
        ("# A\nB\n---\nb\n# C\n", "new", "# A\nnew\n# C\n"),
        ("# A\nB\n===\n", "new", "# A\nnew\n\nB\n===\n"),
        ("# A ##\r\nold\r\n\r\n# B\r\n", "x\ny\n", "# A ##\r\nx\r\ny\r\n\r\n# B\r\n"),
        ("# A\rold\r# B", "x\r\ny", "# A\rx\ry\r# B"),
        ("# A\nold\n", "# A\nnew", "# A\nnew\n"),
        ("## A\nold\n", "a\n===\n\nnew", "## A\nnew\n"),
        ("# A\nold\n", "## a ##\nnew\n## Sub\n", "# A\nnew\n## Sub\n"),
        ("# A\nold\n", "## Sub\nnew", "# A\n## Sub\nnew\n"),
        ("# A\nold\n", "    code", "# A\n    code\n"),
        ("# A\nold", "```\nopen", "# A\n```\nopen"),
    ],
)
def test_replacing_keeps_the_heading_and_surrounding_blank_lines(
    before: str, body: str, after: str
) -> None:
    """To the letter, with the document's line endings; a body may begin with the section's
    heading.
    """
    assert replace_section(before, "A", body).text == after


@pytest.mark.parametrize(
    ("text", "header", "after"),
    [
        ("# A\n1\n# B\n2\n", "A", "# B\n2\n"),
        ("# A\n1\n# B\n2\n", "B", "# A\n1\n"),
        ("# A\n1\n\n# B", "B", "# A\n1\n\n"),
        ("x\n# A\n## B\n1\n## C\n2", "B", "x\n# A\n## C\n2"),
        ("x\r\n# A\r\n1\r\n# B\r\n", "A", "x\r\n# B\r\n"),
        ("x\n# A\nB\n===\n", "A", "x\n\nB\n===\n"),
        ("x\r\n# A\r\nB\r\n===\r\n", "A", "x\r\n\r\nB\r\n===\r\n"),
        ("```\n# A\n```\n# A\n1", "A", "```\n# A\n```\n"),
        ("# A", "A", ""),
    ],
)
def test_deleting_removes_only_the_section(text: str, header: str, after: str) -> None:
    """Except for a blank line where text would run into an underlined heading."""
    assert delete_section(text, header).text == after


@pytest.mark.parametrize(
    ("text", "body", "problem"),
    [
        ("## A\n## B\n", "x\n# C\n", "would end the section"),
        ("## A\n", "x\n---\n", "would end the section"),
        ("###### A\n", "# C", "would end the section"),
        ("# A\n\n# B\n", "```\nopen", "would include the next section"),
        ("# A\n# B\n", "<!-- open", "would include the next section"),
        ("# A\n\n  # B\n", "- item", "would include the next section"),
    ],
)
def test_a_body_that_would_change_other_sections_is_rejected(
    text: str, body: str, problem: str
) -> None:
    """The following sections keep their meaning, or nothing is changed."""
    assert problem in raised(Invalid, replace_section, text, "A", body).problem


def test_a_section_that_separates_a_list_from_the_next_cannot_be_deleted() -> None:
    assert raised(Invalid, delete_section, "- item\n# A\n\n  # B\n", "A").field == "header"


@pytest.mark.parametrize(
    ("document", "text", "appended", "prepended"),
    [
        ("", "a", "a", "a"),
        ("", "\n\na\n\n\n", "a\n", "a\n"),
        ("\n\n", "a", "a", "a"),
        ("a", "b", "a\n\nb", "b\n\na"),
        ("a\n", "b\n", "a\n\nb\n", "b\n\na\n"),
        ("\n\na\n\n\n", "\n\nb\n\n", "\n\na\n\nb\n", "b\n\na\n\n\n"),
        ("a\r\n", "b\nc", "a\r\n\r\nb\r\nc", "b\r\nc\r\n\r\na\r\n"),
        ("a", "b\r\nc\r\n", "a\r\n\r\nb\r\nc\r\n", "b\r\nc\r\n\r\na"),
        ("a\n", "b\r\nc\rd", "a\n\nb\nc\nd", "b\nc\nd\n\na\n"),
        ("  a  ", "    code", "  a  \n\n    code", "    code\n\n  a  "),
        ("a", " \n\t", "a", "a"),
        ("a\n\n", "", "a\n\n", "a\n\n"),
    ],
)
def test_text_is_appended_after_one_blank_line(
    document: str, text: str, appended: str, prepended: str
) -> None:
    """To the letter; no line ending is added at the end."""
    assert markdown.append(document, text) == appended
    assert markdown.prepend(document, text) == prepended


def test_a_thousand_appends_leave_no_extra_line_endings() -> None:
    document = ""
    for n in range(1000):
        document = markdown.append(document, f"{n}\n\n")
    assert document == "\n\n".join(map(str, range(1000))) + "\n"


# -- edits against what is known of a document because it was put together here ---------------------------------------


@dataclass(frozen=True)
class Block:
    """An independent part of a document: a heading, or something that only looks like one."""

    text: str
    level: int = 0
    words: str = ""


@dataclass(frozen=True)
class Place:
    """A heading and the extent of its section."""

    level: int
    words: str
    underlined: bool
    start: int
    body: int
    end: int


WORDS = st.sampled_from(["A", "B", "a b", "Tea *x*", "ß", "C #", "1. x", "`#`", "日本"])
LOOKALIKES = st.sampled_from(
    ["# A", "## B", "A\n===", "B\n---", "text", "- x", "", "> q", "\t# A", "<div>"]
)


@st.composite
def atx(draw: Any, deepest: int = 1) -> Block:
    level, words = (
        draw(st.integers(deepest, 6)),
        draw(WORDS.filter(lambda words: not words.endswith("#"))),
    )
    start = (
        draw(st.sampled_from(["", " "])) + "#" * level + draw(st.sampled_from([" ", "\t", "   "]))
    )
    return Block(
        start + words + draw(st.sampled_from(["", "  ", " #", " ##\t"])) + "\n", level, words
    )


@st.composite
def setext(draw: Any, deepest: int = 1) -> Block:
    level = draw(st.integers(min(deepest, 2), 2))
    words = draw(st.sampled_from(["A", "B", "a b", "Two\nlines", "C #"]))
    return Block(
        f"{words}\n{draw(st.sampled_from(['', ' ']))}{'=-'[level - 1] * draw(st.integers(2, 4))}\n",
        level,
        words,
    )


@st.composite
def lookalike(draw: Any) -> Block:
    lines = [
        line
        for inner in draw(st.lists(LOOKALIKES, min_size=1, max_size=4))
        for line in inner.split("\n")
    ]
    kind = draw(
        st.sampled_from(
            [
                "```",
                "~~~~",
                "    ",
                "\t",
                "> ",
                "- ",
                "1. ",
                "div",
                "<!--",
                "paragraph",
                "***",
                "nested",
            ]
        )
    )
    if kind in ("```", "~~~~"):
        info = draw(st.sampled_from(["", " md"]))
        return Block("\n".join([kind + info, *lines, kind]) + "\n")
    if kind in ("    ", "\t", "> "):
        return Block("".join(kind + (line or "x") + "\n" for line in lines))
    if kind in ("- ", "1. "):
        rest = "".join(" " * len(kind) + (line or "x") + "\n" for line in lines[1:])
        return Block(kind + "x\n\n" + " " * len(kind) + (lines[0] or "x") + "\n" + rest)
    if kind == "nested":
        return Block("- a\n  - b\n\n    # A\n\n    B\n    ===\n    1. # C\n")
    if kind == "div":
        return Block("<div>\n" + "".join((line or "x") + "\n" for line in lines) + "</div>\n")
    if kind == "<!--":
        return Block("<!--\n" + "".join(line + "\n" for line in lines) + "-->\n")
    return Block("***\n" if kind == "***" else "Just text, #hash\nand more \\# of it\n")


@st.composite
def documents(draw: Any, deepest: int = 1) -> tuple[str, list[Place]]:
    """Generate a document with its sections, by construction instead of parsing."""
    ending = draw(st.sampled_from(["\n", "\n", "\r\n", "\r"]))
    blocks = draw(
        st.lists(st.one_of(atx(deepest), atx(deepest), setext(deepest), lookalike()), max_size=8)
    )
    text, results, tight = draw(st.sampled_from(["", "", "\n", "Intro\n\n"])), [], True
    for block in blocks:
        heading = (
            block.level
            and not block.words.startswith("Two")
            and not block.text.rstrip().endswith(("=", "-"))
        )
        if text and not (heading and tight):
            text += draw(st.sampled_from(["\n", "\n\n", " \n", "\t \n\n"]))
        if block.level:
            results.append((block, len(text)))
        text += block.text
        tight = bool(block.level) or block.text.startswith(("```", "~~~", "***", "Just"))
    if text and draw(st.booleans()):
        text = text[:-1]
    shift = [text[:n].count("\n") * (len(ending) - 1) for n in range(len(text) + 1)]
    places = []
    for n, (block, start) in enumerate(results):
        higher = [later for other, later in results[n + 1 :] if other.level <= block.level]
        body = min(start + len(block.text), len(text))
        end = higher[0] if higher else len(text)
        underlined = not block.text.lstrip().startswith("#")
        spots = [spot + shift[spot] for spot in (start, body, end)]
        places.append(Place(block.level, " ".join(block.words.split()), underlined, *spots))
    return text.replace("\n", ending), places


def named(places: list[Place]) -> list[tuple[int, str]]:
    return [(place.level, place.words) for place in places]


@given(documents())
def test_generated_headings_are_found(document: tuple[str, list[Place]]) -> None:
    """The parser against documents with known headings."""
    text, places = document
    results = [
        (heading.level, heading.text, heading.start, heading.body, heading.end)
        for heading in outline(text)
    ]
    assert results == [
        (place.level, place.words, place.start, place.body, place.end) for place in places
    ]
    assert "".join(markdown.split_parts(text)) == text


def chosen(data: st.DataObject, places: list[Place]) -> tuple[int, Place, str]:
    """Return a section and a header that selects it: the first of its name, of its level or of any."""
    n = data.draw(st.integers(0, len(places) - 1))
    written = data.draw(st.sampled_from(["", "#" * places[n].level + " "]))
    same = [m for m, place in enumerate(places) if place.words == places[n].words]
    if written or places[n].words.startswith("#"):
        written = "#" * places[n].level + " "
        same = [m for m in same if places[m].level == places[n].level]
    return same[0], places[same[0]], written + places[n].words


@given(documents(), st.data())
def test_deleting_a_generated_section_changes_nothing_else(
    document: tuple[str, list[Place]], data: st.DataObject
) -> None:
    """Every other byte stays, in order, and the rest parses as constructed."""
    text, places = document
    assume(places)
    n, gone, header = chosen(data, places)
    result = delete_section(text, header).text
    before, after = text[: gone.start], text[gone.end :]
    following = [place for place in places if place.start >= gone.end]
    between = result[len(before) : len(result) - len(after)]
    assert (result.startswith(before), result.endswith(after)) == (True, True)
    assert len(result) == len(before + between + after)
    assert between in ("", "\n", "\r\n", "\r")
    if between:
        event("a blank line stays")
        assert following
        assert following[0].underlined
    assert [(heading.level, heading.text) for heading in outline(result)] == named(
        places[:n]
    ) + named(following)


@given(documents(), st.data())
def test_replacing_a_generated_section_changes_nothing_else(
    document: tuple[str, list[Place]], data: st.DataObject
) -> None:
    """Every other byte stays; the body is the new one; replacing it again changes nothing."""
    text, places = document
    assume(places)
    n, section, header = chosen(data, places)
    body, inside = data.draw(documents(deepest=min(section.level + 1, 6)))
    inside = [place for place in inside if place.level > section.level]
    assume(len(inside) == len(outline(body)))
    if (
        inside
        and not body[: inside[0].start].strip()
        and inside[0].words.casefold() == section.words.casefold()
    ):
        return  # the heading written once more, which has a test of its own
    result = replace_section(text, header, body).text
    before, after = text[: section.body], text[section.end :]
    assert result.startswith(before)
    assert result.endswith(after)
    put = result[len(before) : len(result) - len(after)]
    assert lines(put.strip("\r\n \t")) == lines(body.strip("\r\n \t"))
    endings = set(re.findall("\r\n|\r|\n", put.strip("\r\n")))
    assert len(endings) <= 1 or not re.search("[\r\n]", text)
    following = [place for place in places if place.start >= section.end]
    assert [(heading.level, heading.text) for heading in outline(result)] == (
        named(places[: n + 1]) + named(inside) + named(following)
    )
    assert replace_section(result, header, body).text == result


def lines(text: str) -> list[str]:
    return re.split("\r\n|\r|\n", text)


NASTY = st.lists(
    st.sampled_from(
        [
            "# A",
            "## A",
            "### B",
            "A",
            "===",
            "---",
            "```",
            "~~~",
            "> # A",
            ">",
            "- # A",
            "-",
            "  # B",
            "    # A",
            "\t# A",
            "  - x",
            "<!--",
            "-->",
            "<div>",
            "</div>",
            "<pre>",
            "</pre>",
            "[a]: b",
            "[a]:",
            "1. x",
            "   x",
            "",
            " ",
            "\\",
            "#",
            "# #",
            "=",
            "* * *",
            "[MemoryRef: a - b]",
            "</notes>",
            "\x0b# A",
            "\u2028# A",
            "| a |",
            "|---|",
        ]  # fmt: skip
    ),
    max_size=14,
)
ENDINGS = st.sampled_from(["\n", "\r\n", "\r"])


@given(NASTY, ENDINGS, NASTY, st.sampled_from(["A", "# A", "## A", "B", "#", "a", "A A"]))
@hypothesis_settings(max_examples=500 if FULL else 60)
def test_an_edit_of_any_document_keeps_the_rest_or_is_rejected(
    made_of: list[str], ending: str, body: list[str], header: str
) -> None:
    """Lines in an unlikely order."""
    text = ending.join(made_of)
    whole = outline(text)
    assert "".join(markdown.split_parts(text)) == text
    for new in (None, "\n".join(body)):
        try:
            created, same = (
                delete_section(text, header) if new is None else replace_section(text, header, new)
            )
        except (NoSection, Invalid) as error:
            event(type(error).__name__)
            continue
        # "# A" is the heading A, unless there is none; then it is a heading with this text.
        sections = (
            [h for h in whole if h.header == header]
            or [h for h in whole if h.text == header]
            or [h for h in whole if h.text.casefold() == header.casefold()]
        )
        section = sections[0]
        assert same == len(sections)
        assert created.startswith(text[: section.start])
        assert created.endswith(text[section.end :])
        stored = [h.header for h in whole if h.start < section.start or h.start >= section.end]
        left = [h.header for h in outline(created)]
        inside = len(left) - len(stored)
        first = [h.start for h in whole].index(section.start)
        assert left[:first] + left[first + inside :] == stored


@given(NASTY, ENDINGS, NASTY)
def test_appending_keeps_the_document(made_of: list[str], ending: str, added: list[str]) -> None:
    text, more = ending.join(made_of), "\n".join(added)
    assert markdown.append(text, more).startswith(text.rstrip("\r\n"))
    assert markdown.prepend(text, more).endswith(text.lstrip("\r\n"))
    twice = markdown.append(markdown.append(text, more), more)
    assert not re.search(r"(\r\n|\r(?!\n)|\n){2}\Z", twice) or not more.strip()


def test_a_header_names_a_heading_before_one_with_the_same_text() -> None:
    text = "# # A ##\none\n# A\ntwo\n"
    assert replace_section(text, "# A", "new") == ("# # A ##\none\n# A\nnew\n", 1)

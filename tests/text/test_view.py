"""Views of a large content: within their tokens, without losing or splitting characters."""

from __future__ import annotations

import io
import os
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from memorist.base.tokens import estimate
from memorist.text import view
from memorist.text.describe import media_of
from memorist.text.time_limit import TimeLimit
from memorist.text.view import View
from testkit.failures import invalid

TEXT = "".join(f"line {number} {'x' * (number % 70)}\n" for number in range(1, 1205))
FAMILY, FLAGS, MARKS = "👨‍👩‍👧‍👦", "🇩🇪🇵🇹🇯🇵", "e\u0301o\u0302\u0323n\u0303"
LARGE = 50 << 20


def file(content: str | bytes) -> IO[bytes]:
    return io.BytesIO(content if isinstance(content, bytes) else content.encode())


def pages(content: str | bytes, tokens: int) -> Iterator[View]:
    """Return every page, following the hints to the next one."""
    number = 1
    while True:
        result = view.page(file(content), number, tokens)
        yield result
        if not result.next:
            return
        number = result.next["page"]


def test_a_small_content_is_shown_completely() -> None:
    """And says so."""
    assert view.page(file("hello\nworld\n"), 1, 100) == View(
        "hello\nworld\n", estimate("hello\nworld\n"), "all of it, 2 lines", page=1, pages=1
    )
    assert view.page(file(""), 1, 100) == View("", 0, "nothing: the content is empty")
    assert view.head(file(""), 5, 100) == view.tail(file(""), 5, 100) == view.page(file(""), 1, 100)


def test_pages_cover_the_content_once() -> None:
    """In order they are the content, each within its tokens, cut at line ends."""
    results = list(pages(TEXT, 500))
    assert [(part.page, part.pages) for part in results] == [
        (n, len(results)) for n in range(1, len(results) + 1)
    ]
    assert "".join(part.text for part in results) == TEXT
    assert all(part.tokens == estimate(part.text) <= 500 for part in results)
    assert all(part.text.endswith("\n") for part in results)
    assert results[0].what.startswith(f"page 1 of {len(results)}, lines 1–")
    assert results[0].what.endswith("of 1,204")
    assert results[0].more == f"{len(results) - 1} more pages; the next is page 2."
    assert results[-2].more == f"1 more page; the next is page {len(results)}."
    assert results[-2].next == {"page": len(results)}
    assert (results[-1].more, dict(results[-1].next)) == ("", {})
    assert results[-1].what.endswith("–1,204 of 1,204")


def test_pages_are_deterministic() -> None:
    requests = [view.page(file(TEXT), number, 300).text for number in (3, 1, 3, 2)]
    assert requests[0] == requests[2]
    assert requests[1] + requests[3] + requests[0] == TEXT[: sum(map(len, requests[1:]))]


CLUSTERS = st.sampled_from(
    [
        FAMILY,
        FLAGS[:2],
        *regex.findall(r"\X", MARKS),
        "한",
        "각",
        "क्षि",
        "👍🏽",
        "a",
        " ",
        "\n",
        "\r\n",
        "漢",
    ]
)


@given(st.lists(CLUSTERS, max_size=400), st.integers(50, 120))
def test_no_page_splits_a_grapheme(parts: list[str], tokens: int) -> None:
    """Families, flags, marks, Hangul, skin tones, line ends; always valid UTF-8."""
    text = "".join(parts)
    whole = regex.findall(r"\X", text)
    results = [part.text for part in pages(text, tokens)]
    assert "".join(results) == text
    assert [cluster for part in results for cluster in regex.findall(r"\X", part)] == whole
    assert all(estimate(part) <= tokens for part in results)


@pytest.mark.parametrize("offset", range(60))
@pytest.mark.parametrize("unit", [FAMILY, FLAGS, MARKS])
def test_cuts_at_every_offset(unit: str, offset: int) -> None:
    """Lines, ends and matches are cut between graphemes too."""
    text = "a" * offset + unit * 400
    whole = set(regex.findall(r"\X", unit)) | {"a"}
    for shown in (
        view.head(file(text), 1, 60).text.partition(" … (")[0],
        view.tail(file(text), 1, 60).text.partition(") … ")[2],
        view.grep(file(text), "a" if offset else unit[0], 2000).text.removeprefix("1:").strip("…"),
    ):
        assert shown
        assert set(regex.findall(r"\X", shown)) <= whole


@given(st.binary(max_size=3000), st.integers(50, 200))
def test_any_bytes_can_be_viewed(content: bytes, tokens: int) -> None:
    """Invalid UTF-8 is replaced, binary content is not shown; no view exceeds its tokens."""
    text = "".join(part.text for part in pages(content, tokens))
    if media_of(content) == "binary":
        assert text == ""
    else:
        assert text == content.decode("utf-8", "replace")
    for shown in (
        view.head(file(content), 3, tokens),
        view.tail(file(content), 3, tokens),
        view.grep(file(content), ".", tokens),
    ):
        assert estimate(shown.text) == shown.tokens <= tokens
        shown.text.encode()


@given(st.text("ab\n\r é", max_size=300), st.integers(1, 30), st.integers(1, 30))
def test_line_numbers_match_an_editor(text: str, first: int, more: int) -> None:
    """In every kind of view."""
    every = text.split("\n")[: -1 if text.endswith("\n") else None] if text else []
    if first > len(every):
        invalid("lines", view.lines, file(text), first, first + more, 500)
    else:
        assert view.lines(file(text), first, first + more, 500).text == "\n".join(
            every[first - 1 : first + more]
        )
    assert view.head(file(text), more, 500).text == "\n".join(every[:more]) or not every
    assert view.tail(file(text), more, 500).text == "\n".join(every[-more:]) or not every


def test_line_views_name_their_range_and_what_follows() -> None:
    shown = view.lines(file(TEXT), 5, 7, 500)
    assert shown.text == "line 5 xxxxx\nline 6 xxxxxx\nline 7 xxxxxxx"
    assert (shown.what, shown.more) == ("lines 5–7 of 1,204", "1,197 more lines, from line 8 on.")
    assert shown.next == {"lines": [8, 10]}
    last = view.lines(file(TEXT), 1204, 9999, 500)
    assert (last.what, last.more, last.next) == ("line 1,204 of 1,204", "", {})


def test_lines_that_do_not_fit_follow_in_the_next_view() -> None:
    results: list[str] = []
    wanted = [5, 700]
    while wanted:
        shown = view.lines(file(TEXT), wanted[0], wanted[1], 200)
        assert shown.tokens <= 200
        results.append(shown.text)
        wanted = shown.next["lines"] if "did not fit" in shown.more else []
    assert "\n".join(results) == "\n".join(TEXT.split("\n")[4:700])


def test_head_and_tail() -> None:
    assert view.head(file(TEXT), 2, 500).text == "line 1 x\nline 2 xx"
    shown = view.tail(file(TEXT), 2, 500)
    assert shown.text == f"line 1203 {'x' * 13}\nline 1204 {'x' * 14}"
    assert (shown.what, shown.more) == ("lines 1,203–1,204 of 1,204", "1,202 lines before.")
    most = view.tail(file(TEXT), 1000, 100)
    assert most.text.endswith("line 1204 " + "x" * 14)
    assert most.tokens <= 100
    first = 1205 - len(most.text.split("\n"))
    assert most.more == f"{first - 205} lines did not fit; ask for lines 205–{first - 1:,}."
    assert most.next == {"lines": [205, first - 1]}


def test_a_long_line_is_cut_with_a_note() -> None:
    text = "a" * 100_000 + "\nb\n"
    shown = view.head(file(text), 2, 100)
    assert shown.text.endswith("aaa … (line 1 continues; read it with pages, or with a pattern)")
    assert shown.what == "the beginning of line 1 of 2"
    assert (shown.more, shown.tokens <= 100) == ("1 more line, from line 2 on.", True)
    shown = view.tail(file("b\n" + "a" * 100_000), 2, 100)
    assert shown.text.startswith(
        "(line 2 begins before this; read it with pages, or with a pattern) … aaa"
    )
    assert shown.what == "the end of line 2 of 2"
    assert shown.more == "1 line did not fit; ask for line 1."


def test_grep_shows_matching_lines_with_their_numbers() -> None:
    """Like `grep -n`, with the number of matches."""
    shown = view.grep(file(TEXT), r"line 7(0|1) ", 500)
    assert (shown.text, shown.what) == ("70:line 70 \n71:line 71 x", "2 matches in 1,204 lines")
    assert shown.more == ""
    shown = view.grep(file(TEXT), "(?i)LINE", 100)
    count = len(shown.text.split("\n"))
    assert shown.tokens <= 100
    assert shown.what == f"the first {count} of 1,204 matches in 1,204 lines"
    assert shown.more == f"{1204 - count:,} more matches from line {count} on; narrow the pattern."
    assert view.grep(file(TEXT), "nowhere", 100) == View("", 0, "nothing: no match in 1,204 lines")


def test_grep_finds_matches_in_a_huge_line() -> None:
    """Also across the boundary of a piece."""
    for offset in range(65_536 - 8, 65_536 + 3):
        text = "a" * offset + "needle" + "b" * 200_000
        shown = view.grep(file(text), "needle", 500)
        assert (shown.what, "needle" in shown.text) == ("1 match in 1 line", True)
        assert shown.text[:3] == "1:…"
        assert len(shown.text) < 400
    assert view.grep(file("x" * 200_000), "^x", 500).what == "1 match in 1 line"


def test_grep_shows_text_inside_binary_data() -> None:
    assert view.grep(file(b"\0\1\2" * 50 + b"\nhello\0\n"), "hello", 500).text == "2:hello\0"


@pytest.mark.parametrize(
    "pattern", ["(", "a**", "", "x" * 501, "((a{1000}){1000}){1000}", "a(?R)?b", "(a+)+$"]
)
def test_an_invalid_pattern_is_reported(pattern: str) -> None:
    """P16: catastrophic ones are stopped. tests/text/test_pattern.py has the reasons."""
    invalid("pattern", view.grep, file("a" * 50_000 + "!"), pattern, 100)


def test_a_slow_search_reports_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "SEARCH_SECONDS", -1.0)
    shown = view.grep(file(TEXT), "line", 500)
    assert shown.what == "1 match in 1 line that were searched"
    assert shown.more == "The search reached its time limit at line 1."


def test_binary_content_is_not_shown() -> None:
    for shown in (
        view.page(file(bytes(250)), 1, 500),
        view.lines(file(bytes(250)), 3, 3, 500),
        view.tail(file(bytes(250)), 1, 500),
    ):
        assert (shown.text, shown.what) == ("", "binary content of 250 bytes, not shown as text")
        assert shown.more.startswith("Search for text in it with a pattern")


JSON = '{"a": {"b": [1, 2, {"c": "x"}]}, "text": "Grüße\\nand more", "half": "\\ud800"}'


@pytest.mark.parametrize(
    ("path", "text", "what"),
    [
        ("$.a.b[2].c", "x", "$.a.b[2].c, text"),
        ("$.text", "Grüße\nand more", "$.text, text"),
        ("$.a.b[*]", '1\n2\n{"c": "x"}', "3 values at $.a.b[*]"),
        ("$.a.b[2]", '{\n  "c": "x"\n}', "$.a.b[2], an object with the keys c"),
        ("$.a.b[5:]", "", "nothing: no value at $.a.b[5:]"),
        ("$..c", "x", "$..c, text"),
    ],
)
def test_a_json_path(path: str, text: str, what: str) -> None:
    shown = view.path(file(JSON), path, 100)
    assert (shown.text, shown.what, shown.more) == (text, what, "")


def test_path_values_that_do_not_fit() -> None:
    content = "[" + ",".join(str(number) for number in range(1000)) + "]"
    shown = view.path(file(content), "$[*]", 100)
    count = len(shown.text.split("\n"))
    assert shown.tokens <= 100
    assert shown.what == f"the first {count} of 1,000 values at $[*]"
    assert shown.more == f"{1000 - count} more; select a part, such as [0:10]."
    first = view.path(file(content), "$", 100)
    assert (first.tokens <= 100, first.what) == (True, "the beginning of $, an array of 1,000")
    assert first.more == "It does not fit; select a part of it with a longer path."


def test_a_lone_surrogate_in_json_is_replaced() -> None:
    assert view.path(file(JSON), "$.half", 500).text == "\ufffd"
    assert view.path(file(JSON), "$", 500).text.endswith('  "half": "\ufffd"\n}')
    assert view.path(file(JSON), "$.*", 500).text.endswith('\n"\ufffd"')
    assert (
        view.path(file('["a\\ud83d\\ude00b\\ude00\\ud83dc"]'), "$[0]", 500).text
        == "a😀b\ufffd\ufffdc"
    )


def test_a_slow_path_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """P16: no match in the searched part differs from no match."""
    monkeypatch.setattr(view, "SEARCH_SECONDS", -1.0)
    shown = view.path(file(JSON), "$.a", 500)
    assert shown.text == ""
    assert shown.what == "nothing: no value at $.a in the part that was searched"
    assert shown.more == "The search reached its time limit; use a longer path."


def test_a_stopped_path_shows_its_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    """P16: a partial result is not presented as complete."""
    result = iter(range(10**9))

    def is_exceeded(time_limit: TimeLimit) -> bool:
        time_limit.was_exceeded = next(result) > 2000
        return time_limit.was_exceeded

    monkeypatch.setattr(TimeLimit, "is_exceeded", is_exceeded)
    content = '[{"id": 7}, ' + '{"a": ' * 60 + "1" + "}" * 60 + "]"
    shown = view.path(file(content), "$" + "..*" * 8, 500)
    assert shown.what.endswith("in the part that was searched")
    assert "The search reached its time limit; use a longer path." in shown.more


@pytest.mark.parametrize("depth", [400, 900])
def test_deeply_nested_values_are_written_only_as_far_as_shown(depth: int) -> None:
    """P16: fully indented, this would be gigabytes of spaces."""
    content = "[" * depth + "0," * 1_000_000 + "0" + "]" * depth
    shown = view.path(file(content), "$", 500)
    assert shown.text.startswith("[\n  [\n    [\n")
    assert shown.tokens <= 500
    assert shown.what == "the beginning of $, an array of 1"
    assert shown.more == "It does not fit; select a part of it with a longer path."


@pytest.mark.parametrize(
    ("field", "call"),
    [
        ("page", lambda f: view.page(f, 0, 100)),
        ("page", lambda f: view.page(f, 999, 500)),
        ("lines", lambda f: view.lines(f, 2000, 2001, 500)),
        ("lines", lambda f: view.lines(f, 5, 4, 500)),
        ("head", lambda f: view.head(f, 0, 500)),
        ("tail", lambda f: view.tail(f, -1, 500)),
        ("tokens", lambda f: view.page(f, 1, 10)),
        ("path", lambda f: view.path(f, "$.a", 100)),
        ("path", lambda f: view.path(file(b"\0\1"), "$.a", 100)),
        ("path", lambda f: view.path(file(""), "$.a", 100)),
    ],
)
def test_invalid_input_is_rejected_with_the_field(
    field: str, call: Callable[[IO[bytes]], View]
) -> None:
    invalid(field, call, file(TEXT))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Contents of 50 MB: many lines, one line, binary."""
    created = tmp_path_factory.mktemp("large")
    line = b"2026-11-15 05:28:23 INFO a line of a log that says little but in many words \xc3\xbc\n"
    (created / "log").write_bytes(line * (LARGE // len(line)) + b"the needle is here\n")
    (created / "line").write_bytes(b"x" * LARGE + b"needle")
    (created / "bytes").write_bytes(os.urandom(1 << 20) * (LARGE >> 20))
    return created


@pytest.mark.parametrize(
    ("name", "call", "has"),
    [
        ("log", lambda f: view.page(f, 5, 2000), "INFO"),
        ("log", lambda f: view.lines(f, 600_000, 600_002, 2000), "INFO"),
        ("log", lambda f: view.tail(f, 3, 2000), "needle"),
        ("line", lambda f: view.head(f, 1, 2000), "xxx"),
        ("line", lambda f: view.grep(f, "n..dle", 2000), "needle"),
        ("bytes", lambda f: view.page(f, 20, 2000), ""),
    ],
)
def test_fifty_megabytes_use_little_memory(
    folder: Path, name: str, call: Callable[[IO[bytes]], View], has: str
) -> None:
    """P16: and never exceed the tokens."""
    with (folder / name).open("rb") as content:
        tracemalloc.start()
        try:
            shown = call(content)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert has in shown.text
    assert shown.tokens == estimate(shown.text) <= 2000
    assert peak < 8 << 20


def test_the_estimated_number_of_pages_is_close() -> None:
    content = TEXT * 60
    shown = view.page(file(content), 1, 50_000)
    about = int(shown.what.partition("about ")[2].partition(", lines")[0])
    assert shown.more == f"About {about - 1} more pages; the next is page 2."
    assert abs(len(list(pages(content, 50_000))) - about) <= 0.2 * about

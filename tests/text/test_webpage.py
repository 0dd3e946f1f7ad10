"""Web pages as Markdown: the readable text, whatever the markup."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorist.text import markdown
from memorist.text.webpage import read

PIECES = st.sampled_from(
    ["<p>", "</p>", "<div hidden>", "</div>", "<ul>", "<li>", "</ul>", "<table>", "<tr>", "<td>", "</table>", "<pre>",
     "</pre>", "<h1>", "</h1>", "<h2 style='display:none'>", "<script>", "</script>", "<!--", "-->", "<title>",
     "</title>", "<br/>",
     "<img alt='x'>", "<a b=\"", "'", '"', ">", "<", "</", "&amp;", "&", "&#0;", "&#xD800;", "text", "# x", "```", "\n",
     "<?", "<!"]
)  # fmt: skip


def test_a_page() -> None:
    page = read("""<!DOCTYPE html><html><head><title>The &amp; Guide</title><style>p { color: red }</style>
        <script>document.write("<p>never</p>")</script></head><body>
        <h1>Guide</h1><p>Caf&eacute; &#x1F600; <b>bold</b>, <a href="http://x">a link</a>.<br>A second line.
        <p>No end tag<ul><li>one<li>two<ul><li>inner</ul><li>three</ul><ol><li>a<li>b</ol>
        <h2>Code</h2><pre><code>def f():
    # a comment
    return 1</code></pre>
        <table><caption>Prices</caption><tr><th>Name<th>A|B<tr><td>tea<td><p>2</p></table></body></html>""")
    assert page.title == "The & Guide"
    assert page.text.split("\n\n") == [
        "# Guide",
        "Café 😀 bold, a link.\nA second line.",
        "No end tag",
        "- one\n- two\n   - inner\n- three",
        "1. a\n2. b",
        "## Code",
        "```\ndef f():\n    # a comment\n    return 1\n```",
        "Prices",
        "| Name | A\\|B |\n|---|---|\n| tea | 2 |",
    ]


@pytest.mark.parametrize(
    "hidden",
    [
        "<script>gone</script>",
        "<SCRIPT type='x'>if (a < b) gone()</SCRIPT>",
        "<style>gone</style>",
        "<template><p>gone</p></template>",
        "<div hidden>gone<div>gone</div>gone</div>",
        "<p style='DISPLAY : none'>gone</p>",
        "<p hidden>gone",
        '<span style="visibility:hidden">gone</span>',
        "<!-- gone --><!-- > gone -->",
        "<noscript>gone</noscript>",
        "<svg><text>gone</text></svg>",
        "<?php gone ?>",
        "<a title='> gone'></a>",
        "<svg class='i' />",
        "<!-->",
        "<!--->",
        "<span hidden>gone<div>gone</div>gone</span>",
        "<div hidden>gone</section>gone</div>",
    ],
)
def test_hidden_content_is_omitted(hidden: str) -> None:
    assert read(f"<p>before</p>{hidden}<p>after</p>").text.split() == ["before", "after"]


def test_invalid_character_references() -> None:
    assert read(f"<p>&#{'1' * 5000}; &#{'1' * 5000}</p>").text == "\ufffd \ufffd"


def test_a_table_with_one_long_row_stays_small() -> None:
    page = "<table>" + "<tr><td>a<td>b" * 3000 + "<tr>" + "<td>c" * 3000 + "</table>"
    assert len(read(page).text) < 2 * len(page)


def test_an_unclosed_hidden_item_or_cell_ends_at_the_next() -> None:
    assert (
        read("<ul><li hidden>gone<ul><li>gone</ul><li>seen</ul><p>after").text == "- seen\n\nafter"
    )
    assert read("<ul><li>one<li hidden>gone</ul><p>after").text == "- one\n\nafter"
    assert read("<table><tr><td>a<td hidden>gone<td>b</table>").text.startswith("| a | b |")


def test_page_text_is_not_taken_for_markup() -> None:
    """A paragraph cannot start a heading, list or code block that the page does not have."""
    page = read(
        "<p># no heading<p>- no item<p>```<p>1. no number<p>~~~<p>&lt;!-- no comment<p>===<h2>Real</h2>"
    )
    assert [block.path for block in markdown.blocks(page.text) if block.kind == "heading"] == [
        ("Real",)
    ]
    fenced = read("<pre>```\n# x\n```</pre><h2>Real</h2>").text
    assert [block.path for block in markdown.blocks(fenced) if block.kind == "heading"] == [
        ("Real",)
    ]


def test_layout_tables_are_read_as_text() -> None:
    text = read("<table><tr><td><h1>Title</h1><p>Text.</td><td>Side</td></tr></table><p>End").text
    assert "# Title" in text
    assert [word for word in text.split() if word in ("Text.", "Side", "End")] == [
        "Text.",
        "Side",
        "End",
    ]


def test_empty_and_minimal_pages() -> None:
    assert read("") == ("", "")
    assert read("just 1 < 2 && text").text == "just 1 < 2 && text"
    assert read("<p>").text == ""


@given(st.lists(st.one_of(PIECES, st.text(max_size=5)), max_size=60).map("".join))
def test_any_input_can_be_read(html: str) -> None:
    page = read(html)
    assert isinstance(page.text, str)


@pytest.mark.parametrize(
    "unit",
    [
        "<",
        "<a ",
        "<!--",
        "<!",
        "<div>",
        "<ul><li>",
        '<a b="',
        "&",
        "<td>",
        "</",
        "<p hidden>",
        "<li>a",
    ],
)
def test_adversarial_pages(unit: str) -> None:
    read(unit * (200_000 // len(unit)))


def test_deeply_nested_content_is_read() -> None:
    deep = "<div>" * 100_000 + "treasure" + "</div>" * 100_000
    assert read(f"<h1>Map</h1>{deep}<p>The end").text == "# Map\n\ntreasure\n\nThe end"
    fonts = "".join(f"<font size={size}>" for size in range(2_000))
    assert read(fonts + "<p>x" * 2_000).text == "\n\n".join(["x"] * 2_000)


@pytest.mark.parametrize("tag", ["script", "style", "SCRIPT", "textarea"])
def test_comparisons_in_a_script_do_not_count_as_nesting(tag: str) -> None:
    code = "for(i=0;i<n;i++)if(a<b>c)s<u;" * 1_000
    html = f"<p>before</p><{tag}>{code}</{tag}><!-- {code} --><p>after <b>all</b></p>"
    assert read(html).text.endswith("after all")

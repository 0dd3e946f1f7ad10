"""Placeholders in the web app open the stored output: its facts, pages and selected parts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from memorist import Scope
from testkit.browser import Web

SCRIPT = "<script>document.title = 'ran'</script><img src=x onerror=\"document.title = 'ran'\">"
LINES = [f"{number}. a line (of the log)" for number in range(1, 2001)]


@pytest.fixture
def me(web: Web) -> Scope:
    return web.me


def answered(me: Scope, text: str) -> str:
    """Return the address of the page that explains an answer."""
    me.sessions.add("s")
    turn = me.save_turn(
        "s", [{"role": "user", "content": "Go"}, {"role": "assistant", "content": text}]
    )
    return f"/why/{turn.id}"


def opened(web: Web, chip: str) -> Locator:
    web.page.get_by_role("button", name=chip).click()
    dialog = web.page.get_by_role("dialog", name="Reference")
    expect(dialog).to_be_visible()
    return dialog


def ask(dialog: Locator, endpoint: str, field: str, typed: str) -> None:
    dialog.get_by_label("Show", exact=True).select_option(label=endpoint)
    dialog.get_by_label(field, exact=True).fill(typed)
    dialog.get_by_role("button", name="Show", exact=True).click()


def text(dialog: Locator) -> Locator:
    return dialog.get_by_role("region", name="Text")


def test_a_placeholder_opens_its_content_in_pages(web: Web, me: Scope) -> None:
    """The whole content, one page at a time, with search and download."""
    key = me.refs.add(
        "\n".join([*LINES, SCRIPT]),
        "The log of the night",
        key="log-1",
        session=None,
        type="command_output",
    ).key
    web.open(
        answered(
            me, f"I ran it: [MemoryRef: {key} - The log of the night] and [MemoryRef: Not One - x]."
        )
    )
    expect(web.page.get_by_text("[MemoryRef: Not One - x]")).to_be_visible()
    dialog = opened(web, "The log of the night")
    expect(dialog.get_by_text("2,001 lines")).to_be_visible()
    expect(text(dialog)).to_contain_text(LINES[0])
    dialog.get_by_role("button", name="Next").click()
    expect(dialog.get_by_text(re.compile(r"^page 2 of \d+"))).to_be_visible()
    expect(text(dialog)).not_to_contain_text(" ".join(LINES[:2]))

    ask(dialog, "Search inside", "Search inside", "77. A LINE (of")
    expect(dialog.get_by_text("20 matches in 2,001 lines")).to_be_visible()
    dialog.get_by_label("Regular expression").check()
    ask(dialog, "Search inside", "Search inside", r"^7+\. ")
    expect(dialog.get_by_text("3 matches in 2,001 lines")).to_be_visible()
    ask(dialog, "Lines", "Lines", "10-12")
    expect(text(dialog)).to_have_text("\n".join(LINES[9:12]))
    ask(dialog, "End", "Last lines", "1")
    expect(text(dialog)).to_have_text(SCRIPT)
    assert web.page.title() != "ran"


def test_an_invalid_query_is_reported_and_kept(web: Web, me: Scope) -> None:
    me.refs.add({"items": [{"name": "tea"}, {"name": "salt"}]}, "Prices", key="prices-1")
    web.open(answered(me, "[MemoryRef: prices-1 - Prices] [MemoryRef: gone-1 - Gone]"))
    web.expects("422", "404")
    dialog = opened(web, "Prices")
    ask(dialog, "JSON path", "JSON path", "items[1].name")
    expect(text(dialog)).to_have_text("salt")
    ask(dialog, "JSON path", "JSON path", "$.nothing")
    expect(dialog.get_by_role("alert")).to_contain_text("items")
    ask(dialog, "Lines", "Lines", "9-3")
    expect(dialog.get_by_role("alert").filter(has_text="120-160")).to_be_visible()
    expect(dialog.get_by_label("Lines", exact=True)).to_have_value("9-3")
    assert web.axe() == []
    web.page.keyboard.press("Escape")
    expect(web.page.get_by_role("button", name="Prices")).to_be_focused()
    dialog = opened(web, "Gone")
    expect(dialog.get_by_role("alert")).to_contain_text("gone-1")


def test_a_reference_is_downloaded_and_only_writers_deactivate_it(
    web: Web, me: Scope, tmp_path: Path
) -> None:
    me.refs.add("x" * 100, "A thing", key="thing-1")
    where = answered(me, "[MemoryRef: thing-1 - A thing]")
    web.open(where)
    dialog = opened(web, "A thing")
    with web.page.expect_download() as download:
        dialog.get_by_role("link", name="Download all").click()
    download.value.save_as(tmp_path / "kept")
    assert (tmp_path / "kept").read_text() == "x" * 100
    dialog.get_by_label("Active").uncheck()
    expect(web.page.get_by_text("Prompts no longer mention it.")).to_be_visible()
    assert not me.refs.info("thing-1").is_active

    reader = web.device(signed_in=False)
    reader.context.add_cookies([web.cookie(web.key(["read"]))])
    reader.goto(web.url + where)
    reader.get_by_role("button", name="A thing").click()
    expect(reader.get_by_text("inactive: not in prompts")).to_be_visible()
    expect(reader.get_by_label("Active")).to_have_count(0)

"""References in the web app: find, filter, open, describe, add and remove."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from testkit.browser import Web


def test_references_are_found_opened_and_described(web: Web) -> None:
    """The output of a tool is listed with its facts and opens in parts."""
    mine = web.me
    mine.sessions.add("trip", label="A trip")
    lines = "\n".join(f"npm warn line {number}" for number in range(800))
    mine.refs.capture(lines, source="npm install", status="Failed", session="trip")
    key = mine.refs.add("Ada flies on 3 May.", "<b>travel</b> dates", type="user_preference").key
    unnamed = mine.sessions.add().id
    mine.messages.append(unnamed, "user", "I want to visit my sister in Lisbon in May.")
    page = web.open("/memory/refs")
    expect(page.get_by_label("Conversation")).to_contain_text("I want to visit my sister")
    expect(page.get_by_label("Conversation")).not_to_contain_text(unnamed)
    rows = page.get_by_role("list", name="References").get_by_role("listitem")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("<b>travel</b> dates")
    page.get_by_label("Type").select_option("command output")
    expect(rows).to_have_count(1)
    page.get_by_label("Type").select_option("All types")
    page.get_by_label("Conversation").select_option("A trip")
    expect(rows).to_have_count(1)
    rows.get_by_role("link").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("npm warn line 0").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    page.get_by_label("Conversation").select_option("All conversations")
    search = page.get_by_label("Search in the references").bounding_box()
    add = page.get_by_role("button", name="Add").bounding_box()
    assert search
    assert add
    assert search["y"] == pytest.approx(add["y"], abs=10), (
        "the filters and the button are on one line"
    )
    page.get_by_label("Search in the references").fill("travel dates")
    page.keyboard.press("Enter")
    expect(rows.first).to_contain_text("travel")
    page.go_back()
    expect(page.get_by_label("Search in the references")).to_have_value("")
    page.go_forward()
    expect(page.get_by_label("Search in the references")).to_have_value("travel dates")
    page.get_by_role("button", name=f"Edit {key}").click()
    page.get_by_label("Summary").fill("When she flies")
    page.get_by_label("Active: list it in prompts").uncheck()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("not active", exact=True)).to_be_visible()
    result = mine.refs.info(key)
    assert (result.summary, result.is_active) == ("When she flies", False)


def test_references_are_added_and_removed(web: Web) -> None:
    mine = web.me
    page = web.open("/memory/refs")
    expect(page.get_by_role("heading", name="No references yet")).to_be_visible()
    page.get_by_role("button", name="Add").click()
    page.get_by_label("Content").fill("pasted, as it is: <i>ü</i>")
    page.get_by_label("Description").fill("a pasted text")
    page.get_by_role("button", name="Store").click()
    expect(page.get_by_role("link", name="a pasted text")).to_be_visible()
    page.get_by_role("button", name="Add").click()
    page.get_by_label("Or a file").set_input_files(
        {"name": "data.json", "mimeType": "application/json", "buffer": b'{ "a":  1 }'}
    )
    page.get_by_label("Description").fill("a file")
    page.get_by_role("button", name="Store").click()
    expect(page.get_by_role("link", name="a file")).to_be_visible()
    stored = {ref.summary: mine.refs.content(ref.key) for ref in mine.refs.list()}
    assert stored == {
        "a pasted text": "pasted, as it is: <i>ü</i>".encode(),
        "a file": b'{ "a":  1 }',
    }
    assert not web.axe()
    web.screens("memory-refs")
    page.get_by_label("Select all shown").check()
    expect(page.get_by_role("button", name="Remove 2")).to_be_visible()
    page.get_by_label("Type").select_option("tool output")
    expect(page.get_by_role("heading", name="No such reference")).to_be_visible()
    page.get_by_label("Type").select_option("All types")
    expect(page.get_by_label("Select all shown")).not_to_be_checked()  # nobody saw them in between
    page.get_by_label("Select all shown").check()
    page.get_by_role("button", name="Remove 2").click()
    expect(page.get_by_role("dialog").get_by_role("listitem")).to_have_text(
        ["a file", "a pasted text"]
    )
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.get_by_role("heading", name="No references yet")).to_be_visible()
    assert not list(mine.refs.list())

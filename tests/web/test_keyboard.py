"""Keyboard operation: Tab, Enter, Escape and arrows; the focus is never lost."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from testkit.browser import Web

NAME = """() => {
    const node = document.activeElement;
    if (!node || node === document.body) return 'nothing';
    return (node.ariaLabel || node.innerText || node.title || node.labels?.[0]?.innerText || node.id || node.tagName).trim();
}"""


def focused_name(page: Page) -> str:
    """Return the name of the focused element."""
    result: str = page.evaluate(NAME)
    return result


def reach(page: Page, name: str, key: str = "Tab") -> None:
    """Press a key until an element of this name has the focus."""
    for _ in range(80):
        if re.match(name, focused_name(page)):
            return
        page.keyboard.press(key)
    raise AssertionError(f"{name} cannot be reached; at {focused_name(page)}")


def test_the_skip_link(web: Web) -> None:
    """The first Tab stop skips the menu."""
    page = web.open("/agents")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.keyboard.press("Tab")
    assert focused_name(page) == "Skip to the page"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("Tab")
    assert focused_name(page) == "New agent"
    expect(page.get_by_role("heading", level=1)).to_be_visible()


def test_chat_why_and_search_by_keyboard(web: Web) -> None:
    """From a message to Why and back, and from a query to a hit."""
    page = web.open("/chat")
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    page.keyboard.type("The bees are in Porto")
    page.keyboard.press("Enter")
    expect(
        page.get_by_role("article").get_by_role("link", name="Why")
    ).to_be_visible()  # the menu has another one
    reach(page, "Why$", "Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Why this answer")).to_be_visible()
    expect(page.get_by_role("figure")).to_be_visible()
    assert focused_name(page) != "nothing"
    page.go_back()
    expect(page.get_by_role("article", name="assistant said")).to_be_visible()
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    reach(page, "Search$", "Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Search everything")).to_be_focused()
    page.keyboard.type("bees")
    expect(page.get_by_role("list", name="Found").get_by_role("listitem").first).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/chat/assistant/.*at=\d"))
    expect(
        page.get_by_role("article").get_by_text("The bees are in Porto", exact=True)
    ).to_be_visible()
    assert focused_name(page) != "nothing"


def test_an_entry_is_edited_and_deleted_by_keyboard(web: Web) -> None:
    """A dialog returns the focus; a deletion keeps it in the list."""
    me = web.me
    me.entries.add("Bees sleep.", kind="core")
    me.entries.add("Bees sing.", kind="core")
    page = web.open("/agents/scout/memory")
    expect(page.get_by_text("Bees sing.")).to_be_visible()
    reach(page, "Edit: Bees sing")
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name=re.compile("Edit|Content|Entry")).last).to_be_focused()
    page.keyboard.press("End")
    page.keyboard.type(" And dance.")
    reach(page, "Save")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name=re.compile("^Edit: Bees sing. And"))).to_be_focused()
    reach(page, "Delete: Bees sing")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert focused_name(page) == "Cancel"
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert focused_name(page).startswith("Delete: Bees sing")
    page.keyboard.press("Enter")
    reach(page, "Delete$")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Bees sing. And dance.", exact=True)).to_have_count(0)
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("body")).not_to_be_focused()
    assert focused_name(page) != "nothing"
    assert [entry.content for entry in me.entries.list()] == ["Bees sleep."]

"""A dialog asks before it discards typed text."""

from __future__ import annotations

from playwright.sync_api import expect

from testkit.browser import Web


def test_escape_asks_before_discarding_input(web: Web) -> None:
    page = web.open("/memory/state")
    form = page.get_by_role("dialog", name="Add a value")
    page.get_by_role("button", name="Add", exact=True).click()
    page.keyboard.press("Escape")
    expect(form).to_be_hidden()  # nothing was typed: nothing is asked
    page.get_by_role("button", name="Add", exact=True).click()
    form.get_by_label("Key").fill("theme")
    page.keyboard.press("Escape")
    result = page.get_by_role("dialog", name="Discard what you typed?")
    result.get_by_role("button", name="Cancel").click()
    expect(form.get_by_label("Key")).to_have_value("theme")
    form.get_by_role("button", name="Close").first.click()
    page.keyboard.press("Escape")
    expect(result).to_be_hidden()
    expect(form).to_be_visible()
    form.get_by_role("button", name="Close").first.click()
    result.get_by_role("button", name="Discard").click()
    expect(form).to_be_hidden()

"""Search in the web app: hits of every kind, the reason for each, and links."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from memorist import Scope
from testkit.browser import Web

SCRIPT = "<img src=x onerror=\"document.title = 'ran'\">"


@pytest.fixture
def me(web: Web) -> Scope:
    me = web.me
    me.sessions.add("trip", label="A trip")
    values = ["Where shall we go?", f"My sister Clara paddles a kayak. {SCRIPT}", "Good."]
    me.messages.extend("trip", [{"role": "user", "content": text} for text in values])
    me.notes.overwrite("# Boats\n\nAda has a yellow kayak.")
    me.entries.add("Ada dreams of a kayak trip.", kind="core")
    me.refs.add("a kayak manual\n" * 50, "The manual of the kayak", key="manual-1")
    me.state.set("boat", "a kayak, of course")
    me.documents.add("Boats", "# Kayaks\n\nA kayak has a paddle with two blades.")
    return me


@pytest.mark.smoke
def test_every_kind_is_found_and_opens(web: Web, me: Scope) -> None:
    """Kind, search methods, reason and marked words; text is never HTML."""
    me.facts.add("Clara has a kayak.", subject="Clara")
    page = web.open("/search")
    page.get_by_label("Search everything").fill("who has a kayak?")
    result = page.get_by_role("list", name="Found", exact=True)
    hits = result.get_by_role("article")
    expect(hits).to_have_count(6)
    expect(page).to_have_url(re.compile(r"/search\?q=who\+has\+a\+kayak"))
    expect(page.get_by_text(re.compile(r"^\d+ by words"))).to_be_visible()
    expect(page.get_by_text("1 fact and 6 hits")).to_be_visible()
    fact = page.get_by_role("list", name="Facts", exact=True).get_by_role("article")
    expect(fact).to_contain_text("Clara has a kayak.")
    message = hits.filter(has_text="Clara paddles")
    expect(message.locator("mark")).to_have_text(["kayak"])
    expect(message).to_contain_text("in A trip")
    expect(message).to_contain_text("Where shall we go?")
    message.get_by_text("Why this hit").click()
    message.get_by_role("button", name="by words").focus()
    expect(message.get_by_role("tooltip").first).to_be_visible()
    places: dict[str, str | re.Pattern[str]] = {
        "Clara paddles": "/chat/scout/trip?at=2",
        "yellow kayak": "/memory/notes?agent=scout",
        "of course": "/memory/state?area=user&prefix=boat",
        "two blades": re.compile(r"/memory/documents\?doc=.+&seq=\d+"),
        "dreams of": re.compile(r"/memory/entries\?agent=scout&entry=.+"),
    }
    for text, place in places.items():
        expect(hits.filter(has_text=text).get_by_role("link")).to_have_attribute("href", place)
    result.get_by_role("button", name="manual-1").click()
    expect(page.get_by_role("dialog", name="Reference")).to_contain_text("a kayak manual")
    assert page.title() != "ran"


def test_the_search_is_in_the_address(web: Web, me: Scope) -> None:
    page = web.open("/search?q=kayak&kinds=notes,refs")
    hits = page.get_by_role("list", name="Found", exact=True).get_by_role("article")
    expect(hits).to_have_count(2)
    page.get_by_role("button", name="Notes").click()
    expect(hits).to_have_count(1)
    page.get_by_label("When").select_option(label="The last week")
    expect(page).to_have_url(re.compile("since=week"))
    page.get_by_label("When").select_option(label="Custom range…")
    page.get_by_label("Until").fill("2020-01-01")
    expect(page.get_by_role("heading", name="Nothing found")).to_be_visible()
    page.get_by_role("button", name="Search everything instead").click()
    expect(hits.nth(5)).to_be_visible()  # six have the word
    page.go_back()
    expect(page.get_by_role("heading", name="Nothing found")).to_be_visible()
    page.get_by_label("Search everything").fill("")
    expect(page.get_by_role("heading", name="Ask in your own words")).to_be_visible()
    page.go_back()
    expect(page.get_by_label("Search everything")).to_have_value("kayak")


def test_search_by_keyboard_and_without_a_server(web: Web, me: Scope) -> None:
    page = web.open("/search?q=kayak")
    box = page.get_by_label("Search everything")
    hits = page.get_by_role("list", name="Found", exact=True).get_by_role("article")
    expect(hits).to_have_count(6)
    expect(box).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(hits.nth(0).get_by_role("heading").locator("> *")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(hits.nth(1).get_by_role("heading").locator("> *")).to_be_focused()
    page.keyboard.press("/")
    expect(box).to_be_focused()
    expect(box).to_have_value("kayak")
    assert web.axe() == []
    web.screens("search")
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.querySelector('main').scrollWidth") <= 390
    web.expects("ERR_CONNECTION_REFUSED")
    web.stop()
    box.fill("yellow kayak")
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
    web.start()
    page.get_by_role("button", name="Try again").click()
    expect(hits.first).to_be_visible()
    expect(box).to_have_value("yellow kayak")

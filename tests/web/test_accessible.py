"""Accessibility: axe finds no serious problem on any page, full, empty or failing."""

from __future__ import annotations

from typing import Literal

import pytest
from playwright.sync_api import Page, Route

from testkit.browser import Web, settled
from tests.web.story import tell

OPENERS = {
    "chat": ["Summary"],
    "agent-memory": ["Add", "Import", "Delete: "],
    "agent-whiteboard": ["New board", "Manage access"],
    "agent-settings": ["Remove agent"],
    "notes": ["Clear"],
    "facts": ["Add", "Correct: "],
    "fact": ["Forget"],
    "state": ["Add", "Edit ", "Remove "],
    "refs": ["Add"],
    "documents": ["Remove "],
    "calls": ["gpt-5-mini"],
    "keys": ["New key", "Revoke "],
    "audit": ["keys.create"],
}
"""On which page which buttons open dialogs, by how their names begin."""
NARROW = {"chat", "agent-memory", "facts", "notes", "calls"}
"""Pages of each kind of layout, which are looked at on a phone too."""


def describe(name: str, found: list[str]) -> list[str]:
    """Return findings, each with its page."""
    return [f"{name}: {item}" for item in found]


def in_theme(page: Page, theme: Literal["light", "dark"]) -> None:
    """Show the page in a theme."""
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")


@pytest.mark.parametrize(
    "names",
    [pytest.param(["chat", "agent-memory"], marks=pytest.mark.smoke), None],
    ids=["main", "all"],
)
def test_every_page_and_dialog(web: Web, names: list[str] | None) -> None:
    """In the light and the dark theme; all pages also on a phone."""
    places = tell(web).places
    del places["nowhere"]
    if names:
        places = {name: places[name] for name in names}
    results: list[str] = []
    page = web.page
    for name, place in places.items():
        in_theme(page, "light")
        page.set_viewport_size({"width": 1280, "height": 800})
        web.open(place)
        settled(page)
        results += describe(name, web.axe())
        in_theme(page, "dark")
        if names is None and name in NARROW:
            page.set_viewport_size({"width": 390, "height": 844})
            results += describe(f"{name}, dark and narrow", web.axe())
        else:
            results += describe(f"{name}, dark", web.axe(rule="color-contrast"))
        for opener in OPENERS.get(name, []):
            page.locator("main").get_by_role("button", name=opener).first.click()
            page.get_by_role("dialog").wait_for()
            results += describe(f"{name}, {opener}", web.axe(inside="dialog[open]"))
            page.keyboard.press("Escape")
    assert results == []


def test_failing_and_empty_pages(web: Web) -> None:
    """An error is shown where it happened, with a retry; colour is never the only sign."""
    page = web.page
    in_theme(page, "light")
    places = [
        "/chat", "/why", "/agents", "/agents/scout/memory", "/memory/facts", "/memory/notes",
        "/memory/state", "/memory/refs",
    ]  # fmt: skip
    places += [
        "/memory/documents", "/search?q=x", "/operations", "/operations/calls",
        "/operations/review", "/operations/audit",
    ]  # fmt: skip
    results: list[str] = []
    for place in places:
        web.open(place)
        settled(page)
        results += describe(f"{place}, empty", web.axe(inside="main"))
    web.expects("status of 500")

    def fail(route: Route) -> None:
        route.fulfill(
            status=500,
            content_type="application/problem+json",
            body='{"title": "Broken", "detail": "It broke."}',
        )

    page.route(lambda url: "/api/" in url and not url.endswith("/api/web"), fail)
    for place in places:
        web.open(place)
        page.get_by_text("It broke.").first.wait_for()
        results += describe(f"{place}, failing", web.axe(inside="main"))
    assert results == []

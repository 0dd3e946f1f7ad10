"""Screenshots of every page in both themes, wide and narrow; no page scrolls sideways."""

from __future__ import annotations

from playwright.sync_api import Page

from testkit.browser import Web, settled
from tests.web.story import Story, tell

WIDE = """() => {
    const wide = innerWidth;
    const sideways = [...document.querySelectorAll('html, body, #root, #root > *, main, main > *, .page, dialog')]
        .filter((node) => node.scrollWidth > node.clientWidth + 1 && getComputedStyle(node).overflowX !== 'visible');
    const outside = [...document.querySelectorAll('main *, header *')].filter((node) => {
        const box = node.getBoundingClientRect();
        if (!box.width || !box.height || box.left < wide && box.right <= wide + 1) return false;
        for (let up = node.parentElement; up; up = up.parentElement)
            if (getComputedStyle(up).overflowX !== 'visible' && !up.matches('html, body, main')) return false;
        return true;
    });
    const told = (node) => `${node.tagName}.${node.className} ${Math.round(node.getBoundingClientRect().right)}`;
    const said = [...sideways.map((node) => `scrolls: ${told(node)}`), ...outside.map((node) => `outside: ${told(node)}`)];
    return said.slice(0, 5);
}"""
HEADINGS = "[...document.querySelectorAll('h1,h2,h3,h4')].map((node) => Number(node.tagName[1]))"

ORDERED = {"chat", "why", "why-preview", "agents", "facts", "search", "nowhere"}
ORDERED |= {"users", "user", "operations", "health"}
"""Pages whose headings leave out no level."""


def sideways(page: Page) -> list[str]:
    """Return the elements wider than a phone."""
    page.set_viewport_size({"width": 390, "height": 844})
    result: list[str] = []
    for _ in range(50):  # charts follow the new width a moment later
        if not (result := page.evaluate(WIDE)):
            break
        page.wait_for_timeout(100)
    return result


def skipped_headings(page: Page) -> list[str]:
    """Return the places where a level of headings is left out."""
    levels = page.evaluate(HEADINGS)
    pairs = zip(levels, levels[1:], strict=False)
    gaps = [f"heading {after} after {before}" for before, after in pairs if after > before + 1]
    return gaps if 1 in levels else [f"no first heading in {levels}"]


def look_at(web: Web, places: dict[str, str], title: str) -> list[str]:
    """Open every page, take screenshots, and return what is wrong with it."""
    wrong = []
    for name, place in places.items():
        web.open(place)
        settled(web.page)
        web.screens(f"{title}-{name}")
        found = skipped_headings(web.page) if name in ORDERED else []
        wrong += [f"{name}: {item}" for item in found + sideways(web.page)]
        web.page.set_viewport_size({"width": 1280, "height": 800})
    return wrong


def test_screenshots_of_every_page(web: Web) -> None:
    """With weeks of data; people review the pictures."""
    web.expects("404")
    assert look_at(web, tell(web).places, "story") == []


def test_screenshots_of_an_empty_database(web: Web) -> None:
    places = {
        name: place for name, place in Story(*6 * ["none"]).places.items() if "none" not in place
    }
    del places["nowhere"], places["search"]
    assert (
        look_at(web, places | {"chat": "/chat", "why": "/why", "search": "/search"}, "empty") == []
    )

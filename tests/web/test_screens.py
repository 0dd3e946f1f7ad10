"""Screenshots of every page in both themes, wide and narrow; no page scrolls sideways."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.conftest import one_engine
from tests.web.browsing import Web
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


def settled(page: Page) -> None:
    """Wait until all requests of the page are answered."""
    expect(page.get_by_role("heading", level=1).first).to_be_visible()
    expect(page.get_by_text("Loading")).to_have_count(0)
    expect(page.locator("[aria-busy=true]")).to_have_count(0)


def sideways(page: Page) -> list[str]:
    """Return the elements wider than a phone."""
    page.set_viewport_size({"width": 390, "height": 844})
    result: list[str] = page.evaluate(WIDE)
    return result


@one_engine
def test_screenshots_of_every_page(web: Web) -> None:
    """With weeks of data; people review the pictures."""
    wrong = []
    story = tell(web)
    for name, place in story.places.items():
        if name == "nowhere":
            continue
        web.open(place)
        settled(web.page)
        web.screens(f"story-{name}")
        wrong += [f"{name}: {item}" for item in sideways(web.page)]
        web.page.set_viewport_size({"width": 1280, "height": 800})
    assert wrong == []


@one_engine
def test_screenshots_of_an_empty_database(web: Web) -> None:
    wrong = []
    story = Story("none", "none", "none", "none", "none", "none")
    named = (
        "agents",
        "agent-memory",
        "agent-whiteboard",
        "notes",
        "facts",
        "facts-timeline",
        "facts-review",
        "state",
        "refs",
        "knowledge",
        "operations",
        "calls",
        "review",
        "keys",
        "webhooks",
    )
    places = {name: story.places[name] for name in named} | {
        "chat": "/chat",
        "why": "/why",
        "search": "/search",
    }
    for name, place in places.items():
        web.open(place)
        settled(web.page)
        web.screens(f"empty-{name}")
        wrong += [f"{name}: {item}" for item in sideways(web.page)]
        web.page.set_viewport_size({"width": 1280, "height": 800})
    assert wrong == []

"""Which conversation a browser goes on with (C6), in all its branches; and that nothing said is lost or said twice."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from retain import Memory
from retain.kinds.sessions import Session
from tests.conftest import one_engine
from tests.web.browsing import Web

USER, AGENT = "default", "assistant"


def stored(page: Page, agent: str = AGENT, user: str = USER) -> str | None:
    """The id that the browser keeps."""
    found: str | None = page.evaluate(f"localStorage.getItem('chatSession_{user}_{agent}')")
    return found


def active(memory: Memory, agent: str = AGENT) -> Session:
    """The session that the server would go on with."""
    return memory.scope(user=USER, agent=agent).sessions.active()


def chat(web: Web, page: Page | None = None, path: str = "/chat") -> Page:
    """A page on which one can write."""
    page = web.open(path, page)
    expect(page.get_by_label("Message", exact=True)).to_be_visible()
    return page


def say(page: Page, text: str) -> None:
    """Say something, and wait for the whole answer."""
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")
    expect(page.get_by_role("article", name="assistant said").get_by_text(f"You said: {text}")).to_be_visible()
    expect(page.get_by_role("link", name="Why").last).to_be_visible()


def test_a_conversation_comes_back(web: Web, memory: Memory) -> None:
    """C6: after a reload, in a new window, after a restart of the server, on another device, with storage cleared."""
    page = chat(web)
    say(page, "My sister lives in Lisbon.")
    id = active(memory).id
    assert stored(page) == id
    page.reload()
    expect(page.get_by_text("You said: My sister lives in Lisbon.")).to_be_visible()
    window = chat(web, web.tab())
    expect(window.get_by_text("You said: My sister lives in Lisbon.")).to_be_visible()
    web.restart()
    other = chat(web, web.device())
    expect(other.get_by_text("You said: My sister lives in Lisbon.")).to_be_visible()
    assert stored(other) == id
    page.evaluate("localStorage.clear()")
    page.reload()
    expect(page.get_by_text("You said: My sister lives in Lisbon.")).to_be_visible()
    assert stored(page) == active(memory).id == id
    assert len(memory.scope(user=USER).sessions.list()) == 1

"""Quick, however much there is: a small first page, lists that hold only what is in sight, and words as they are said."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

from playwright.sync_api import Page, Request, expect

from retain import Memory
from retain.models import Reply
from retain.testing import ScriptedModel
from tests.conftest import one_engine
from tests.web.browsing import Web

MOST_SCRIPT = 150_000
MOST_ELEMENTS = 1_500
WATCH = """
    window.seen = {long: 0, longest: 0, most: 0, blank: 0, frames: 0};
    new PerformanceObserver((list) => { for (const one of list.getEntries()) {
        seen.long++; seen.longest = Math.max(seen.longest, one.duration); } }).observe({type: 'longtask'});
    const look = () => {
        const list = document.querySelector('main [aria-setsize]')?.closest('ul, ol');
        if (list) {
            seen.frames++;
            seen.most = Math.max(seen.most, document.querySelectorAll('*').length);
            const box = list.parentElement.getBoundingClientRect();
            const rows = [...list.children].map((row) => row.getBoundingClientRect());
            if (!rows.some((row) => row.bottom > box.top && row.top < box.bottom)) seen.blank++;
        }
        requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
"""


def over(page: Page, name: str) -> None:
    """The pointer over the middle of a list."""
    box = page.get_by_label(name, exact=True).bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] / 2, 400)


def figures(page: Page, what: str) -> dict[str, float]:
    """What was seen while it scrolled; said, for whoever wants the figures."""
    found: dict[str, float] = page.evaluate("seen")
    print(what, found)
    return found


@one_engine
def test_the_script_of_the_first_page(web: Web) -> None:
    """Under 150 kB of script, compressed, as it comes over the wire on a first visit."""
    came: list[Request] = []
    web.page.on("requestfinished", lambda request: came.append(request) if request.url.endswith(".js") else None)
    web.open("/chat")
    expect(web.page.get_by_label("Message", exact=True)).to_be_visible()
    web.page.wait_for_load_state("networkidle")
    size = sum(request.sizes()["responseBodySize"] for request in came)
    print("script", size, "in", len(came))
    assert 50_000 < size < MOST_SCRIPT
    assert all(
        (one.response() or one).headers.get("content-encoding") in ("gzip", "br", "zstd")
        for one in came
        if one.sizes()["responseBodySize"] > 2000
    )


@one_engine
def test_ten_thousand_messages(web: Web, memory: Memory) -> None:
    """C3: from the newest to the first and back by wheel; only what is in sight is in the document."""
    me = memory.scope("default", "default", "assistant")
    session = me.sessions.add().id
    for start in range(0, 10_000, 1000):
        said = [
            {"role": ("user", "assistant")[n % 2], "content": f"Message {n + 1}: " + "words " * (n % 40)}
            for n in range(start, start + 1000)
        ]
        me.messages.extend(session, said)
    page = web.page
    page.add_init_script(WATCH)
    web.open("/chat")
    expect(page.get_by_text("Message 10000:")).to_be_visible()
    over(page, "Messages")
    first, last = page.get_by_text("Message 1:", exact=False).first, page.get_by_text("Message 10000:")
    for way, end in ((-1, first), (1, last)):
        for _ in range(80):
            page.mouse.wheel(0, way * 30_000)
            page.wait_for_timeout(20)
            if end.is_visible():
                break
        expect(end).to_be_visible()
    for _ in range(20):
        page.mouse.wheel(0, -500)
    found = figures(page, "10,000 messages")
    assert found["most"] < MOST_ELEMENTS
    assert found["blank"] <= found["frames"] / 20


@one_engine
def test_five_thousand_entries(web: Web, memory: Memory) -> None:
    """J6: a hundred at a time, to the last one, and only what is in sight is in the document."""
    me = memory.scope("default", "default", "scout")
    now = datetime.now(UTC)
    for start in range(0, 5000, 1000):
        made = [
            {"content": f"Entry {n}.", "created_at": (now - timedelta(minutes=n)).isoformat()}
            for n in range(start, start + 1000)
        ]
        me.entries.add_many(made)
    page = web.page
    page.add_init_script(WATCH)
    web.open("/agents/scout/memory")
    expect(page.get_by_text("Entry 0.", exact=True)).to_be_visible()
    over(page, "What scout remembers")
    last = page.get_by_text("Entry 4999.", exact=True)
    for _ in range(400):
        page.mouse.wheel(0, 20_000)
        page.wait_for_timeout(20)
        if last.is_visible():
            break
    expect(last).to_be_visible()
    for _ in range(30):
        page.mouse.wheel(0, -30_000)
    expect(page.get_by_text("Entry 0.", exact=True)).to_be_visible()
    found = figures(page, "5,000 entries")
    assert found["most"] < MOST_ELEMENTS
    assert found["blank"] <= found["frames"] / 20


class Halting(ScriptedModel):
    """A model that says the next word when it is asked to."""

    def __init__(self) -> None:
        super().__init__("one two three")
        self.said: list[str] = []
        self.next = threading.Semaphore(0)

    def converse(self, *given: Any, on_text: Any = None, **more: Any) -> Reply:
        """Word by word."""
        for word in ("one ", "two ", "three") if on_text else ():
            self.next.acquire(timeout=30)
            self.said.append(word)
            on_text(word)
        return super().converse(*given, **more)


@one_engine
def test_each_word_is_there_before_the_next_one_is_made(web: Web) -> None:
    """A1: streaming shows a token as it arrives."""
    web.model = model = Halting()
    page = web.open("/chat")
    page.get_by_label("Message", exact=True).fill("Count")
    page.keyboard.press("Enter")
    for number, seen in enumerate(("one", "one two", "one two three"), 1):
        model.next.release()
        expect(page.get_by_role("article", name="assistant said").get_by_text(seen)).to_be_visible()
        assert len(model.said) == number
    expect(page.get_by_role("link", name="Why").last).to_be_visible()

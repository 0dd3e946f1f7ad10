"""Speed: a small first page and streamed words; tests/web/test_long_lists.py has long lists."""

from __future__ import annotations

import threading
from typing import Any

from playwright.sync_api import Request, expect

from memorist.models import ModelReply
from memorist.testing import ScriptedModel
from testkit.browser import Web

MOST_SCRIPT = 150_000


def test_the_script_size_of_the_first_page(web: Web) -> None:
    """Under 150 kB of compressed script on a first visit."""
    came: list[Request] = []
    web.page.on(
        "requestfinished",
        lambda request: came.append(request) if request.url.endswith(".js") else None,
    )
    web.open("/chat")
    expect(web.page.get_by_label("Message", exact=True)).to_be_visible()
    web.page.wait_for_load_state("networkidle")
    size = sum(request.sizes()["responseBodySize"] for request in came)
    print("script", size, "in", len(came))
    assert 50_000 < size < MOST_SCRIPT
    assert all(
        (item.response() or item).headers.get("content-encoding") in ("gzip", "br", "zstd")
        for item in came
        if item.sizes()["responseBodySize"] > 2000
    )


class SteppedModel(ScriptedModel):
    """A model that sends its next word on demand."""

    def __init__(self) -> None:
        super().__init__("one two three")
        self.said: list[str] = []
        self.next = threading.Semaphore(0)

    def converse(self, *given: Any, on_text: Any = None, **more: Any) -> ModelReply:
        """Send the answer word by word."""
        for word in ("one ", "two ", "three") if on_text else ():
            self.next.acquire(timeout=30)
            self.said.append(word)
            on_text(word)
        return super().converse(*given, **more)


def test_each_word_is_shown_before_the_next_one_is_sent(web: Web) -> None:
    """Streaming shows a token as it arrives."""
    web.model = model = SteppedModel()
    page = web.open("/chat")
    page.get_by_label("Message", exact=True).fill("Count")
    page.keyboard.press("Enter")
    for number, seen in enumerate(("one", "one two", "one two three"), 1):
        model.next.release()
        expect(page.get_by_role("article", name="assistant said").get_by_text(seen)).to_be_visible()
        assert len(model.said) == number
    expect(page.get_by_role("link", name="Why").last).to_be_visible()

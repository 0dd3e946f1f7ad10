"""A first visit: from an empty server to a remembered fact, with the help of the page alone."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from retain import Memory
from retain.testing import ScriptedModel
from tests.conftest import one_engine
from tests.web.browsing import Web

FACT = "My sister lives in Porto and keeps bees."


def say(page: Page, text: str) -> None:
    """Type into the suggested input and wait for the answer."""
    page.get_by_role("textbox", name="Message").fill(text)
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("link", name="Why").last).to_be_visible()


def start_conversation(page: Page) -> None:
    """Start an empty conversation."""
    page.get_by_role("button", name="New conversation", exact=True).click()
    expect(page.get_by_role("heading", name="Talk to assistant")).to_be_visible()


@pytest.mark.smoke
def test_a_first_visit_without_a_model(web: Web, memory: Memory) -> None:
    """A fact from one conversation is found in the next, and Why shows its source."""
    web.model = None
    web.restart()
    page = web.open("/")
    expect(page).to_have_url(f"{web.url}/chat/assistant")
    say(page, FACT)
    start_conversation(page)
    say(page, "Where does my sister live?")
    expect(page.get_by_role("article", name="assistant said").last).to_contain_text("Porto")
    page.get_by_role("article").get_by_role("link", name="Why").last.click()
    page.get_by_role("link", name="What would its context be now?").click()
    recalled = page.get_by_role("region", name=re.compile("^Recalled"))
    expect(recalled.get_by_role("listitem").filter(has_text="Porto").first).to_be_visible()
    assert len(memory.scope(user="default").sessions.list()) == 2


@one_engine
def test_a_first_visit_with_a_model(web: Web) -> None:
    """A fact from one conversation is in the context of the next."""
    web.model = model = ScriptedModel("How nice.", "In Porto.")
    page = web.open("/")
    say(page, FACT)
    start_conversation(page)
    say(page, "Where does my sister live?")
    expect(page.get_by_role("article", name="assistant said").last).to_contain_text("In Porto.")
    assert "keeps bees" in f"{model.requests[-1]}"
    page.reload()
    expect(page.get_by_role("article", name="assistant said").last).to_contain_text("In Porto.")


@one_engine
def test_a_first_visit_while_the_server_starts(web: Web) -> None:
    """The page reports the missing server and continues with one click."""
    web.expects("ERR_CONNECTION_REFUSED", "could not be loaded")
    page = web.open("/")
    expect(page.get_by_role("textbox", name="Message")).to_be_visible()
    web.stop()
    page.get_by_role("link", name="Agents").click()
    expect(page.get_by_role("alert")).to_contain_text("could not be loaded")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_text("The server does not answer. Is it running?")).to_be_visible()
    web.start()
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name="Agents", level=1)).to_be_visible()


@pytest.mark.parametrize(
    "path", ["/", "/agents", "/memory/notes", "/memory/state", "/search", "/operations", "/why"]
)
@one_engine
def test_an_empty_page_says_what_to_do_next(web: Web, path: str) -> None:
    """No page is blank, and every control has a name."""
    page = web.open(path)
    expect(page.get_by_role("heading", level=1).first).to_be_visible()
    expect(
        page.locator("main")
        .get_by_role("button")
        .or_(page.locator("main").get_by_role("link"))
        .first
    ).to_be_visible()
    nameless = "(node) => !node.innerText.trim() && !node.ariaLabel && !node.title"
    assert (
        page.evaluate(
            f"[...document.querySelectorAll('button, a[href]')].filter({nameless}).length"
        )
        == 0
    )

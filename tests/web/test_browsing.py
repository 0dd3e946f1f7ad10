"""The browser fixture: a real server, recorded errors, and no event loop left behind."""

from __future__ import annotations

import asyncio

import pytest
from playwright.sync_api import Error, expect

from retain import Memory
from retain.testing import ScriptedModel
from tests.conftest import one_engine
from tests.web.browsing import Web


def test_a_page_shows_the_database_of_the_test(web: Web, memory: Memory) -> None:
    memory.scope(tenant="default", user="default", agent="scout").notes.overwrite("Lisbon in May")
    web.open("/healthz")
    expect(web.page.locator("body")).to_contain_text("ok")
    answer = web.page.evaluate(
        "fetch('/api/notes?user=default&agent=scout').then(answer => answer.text())"
    )
    assert "Lisbon in May" in answer


@one_engine
def test_a_server_restarts_on_its_port(web: Web) -> None:
    before = web.url
    web.open("/healthz")
    web.stop()
    with pytest.raises(Error):
        web.open("/healthz")
    web.page.wait_for_url("chrome-error://**")
    web.model = ScriptedModel("Here again.")
    web.start()
    assert web.url == before
    web.open("/healthz")


@one_engine
def test_errors_on_a_page_are_recorded(web: Web) -> None:
    web.open("/healthz")
    web.page.evaluate("console.error('broken')")
    web.page.evaluate("fetch('http://127.0.0.2:1/beacon').catch(() => 0)")
    assert any("broken" in text for text in web.wrong)
    assert any("127.0.0.2:1/beacon" in text for text in web.wrong)
    web.expects("broken", "beacon")


def test_event_loops_run_after_a_browser_test() -> None:
    assert asyncio.run(asyncio.sleep(0, "done")) == "done"

"""The browser that the other tests of this room use sees a real server, forgives nothing, and leaves no loop behind."""

from __future__ import annotations

import asyncio

import pytest
from playwright.sync_api import Error, expect

from retain import Memory
from retain.testing import ScriptedModel
from tests.conftest import one_engine
from tests.web.browsing import Web


def test_a_page_of_the_server_over_the_tests_own_database(web: Web, memory: Memory) -> None:
    memory.scope(tenant="default", user="default", agent="scout").notes.overwrite("Lisbon in May")
    web.open("/healthz")
    expect(web.page.locator("body")).to_contain_text("ok")
    said = web.page.evaluate(
        "fetch('/api/notes?user=default&agent=scout').then(answer => answer.text())"
    )
    assert "Lisbon in May" in said


@one_engine
def test_a_server_that_stops_and_comes_again_on_its_port(web: Web) -> None:
    before = web.url
    web.open("/healthz")
    web.stop()
    with pytest.raises(Error):
        web.open("/healthz")
    web.model = ScriptedModel("Here again.")
    web.start()
    assert web.url == before
    web.open("/healthz")


@one_engine
def test_what_goes_wrong_on_a_page_is_noted(web: Web) -> None:
    web.open("/healthz")
    web.page.evaluate("console.error('broken')")
    web.page.evaluate("fetch('http://127.0.0.2:1/beacon').catch(() => 0)")
    assert any("broken" in text for text in web.wrong)
    assert any("127.0.0.2:1/beacon" in text for text in web.wrong)
    web.expects("broken", "beacon")


def test_loops_run_after_a_test_with_a_browser() -> None:
    assert asyncio.run(asyncio.sleep(0, "done")) == "done"

"""State in the web app: expiring values and concurrent changes."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from memorist.base.errors import NotFound
from testkit.browser import Web


def _save(page: Page) -> None:
    page.get_by_role("dialog").get_by_role("button", name="Save").click()


def test_an_expired_value_disappears(web: Web) -> None:
    """The remaining seconds are shown; an expired value never is."""
    web.me.state.set("theme", {"dark": True})
    web.me.state.set("code", 123456, ttl=4)
    web.me.state.set("later", "<img src=x onerror=alert(1)>", ttl=300)
    page = web.open("/memory/state")
    expect(page.get_by_text("expires in 4:5")).to_be_visible()
    expect(page.get_by_text("<img src=x")).to_be_visible()
    expect(page.get_by_text('{"dark":true}')).to_be_visible()
    expect(page.get_by_role("heading", name="code")).to_have_count(0)
    expect(page.get_by_role("heading", name="later")).to_be_visible()


def test_values_are_added_edited_and_removed(web: Web) -> None:
    page = web.open("/memory/state")
    expect(page.get_by_role("heading", name="No state here")).to_be_visible()
    page.get_by_role("button", name="Add").click()
    page.get_by_label("Key", exact=True).fill("task/1")
    page.get_by_label("Value, as JSON").fill("{dark}")
    expect(page.get_by_role("alert")).to_contain_text("not valid JSON yet")
    page.get_by_label("Value, as JSON").fill('{"step": 2}')
    page.get_by_label("Expires").select_option("In an hour")
    _save(page)
    expect(page.get_by_text("expires in 59:")).to_be_visible()
    page.get_by_role("button", name="Edit task/1").click()
    expect(page.get_by_label("Expires")).to_have_value("kept")
    page.get_by_label("Value, as JSON").fill("3")
    _save(page)
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_text("3", exact=True)).to_be_visible()
    value = web.me.state.get("task/1")
    assert (value.value, value.version) == (3, 2)
    assert value.expires_at is not None
    page.get_by_role("button", name="Remove task/1").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.get_by_role("heading", name="No state here")).to_be_visible()
    with pytest.raises(NotFound):
        web.me.state.get("task/1")


def test_a_concurrent_change_is_not_overwritten_silently(web: Web) -> None:
    """Compare-and-set; the other value is shown, and one's own can still be set."""
    web.me.state.set("count", 1)
    web.expects("409", "500")
    page = web.open("/memory/state")
    page.get_by_role("button", name="Edit count").click()
    page.get_by_label("Value, as JSON").fill("2")
    web.me.state.set("count", 77)
    _save(page)
    result = page.get_by_role("dialog").get_by_role("alert")
    expect(result).to_contain_text("77")
    assert web.me.state.get("count").value == 77
    expect(page.get_by_label("Value, as JSON")).to_have_value("2")
    page.get_by_role("button", name="Overwrite with mine").click()
    expect(page.get_by_text("count is set.")).to_be_visible()
    assert web.me.state.get("count").value == 2
    page.get_by_role("button", name="Edit count").click()  # an unreadable value is not removed
    page.get_by_label("Value, as JSON").fill("3")
    web.me.state.set("count", 77)
    page.route(
        "**/api/state/count?*area=user*",
        lambda route: route.fulfill(status=500, json={"detail": "Out of order."}),
    )
    _save(page)
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("Out of order.")
    _save(page)
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("Out of order.")
    assert web.me.state.get("count").value == 77


def test_many_keys_are_filtered_by_area_and_prefix(web: Web) -> None:
    mine = web.me
    web.me.sessions.add("trip", label="A trip")
    mine.state.set("seat", "window", area="session:trip")
    mine.state.set("motto", "be kind", area="tenant")
    for number in range(250):
        mine.state.set(f"key-{number:03}", number)
    mine.state.set("large", {"rows": list(range(500)), "id": 2**60})
    page = web.open("/memory/state")
    rows = page.get_by_role("list", name="State").get_by_role("listitem")
    expect(rows.first).to_contain_text("key-000")
    assert rows.count() < 60
    assert not web.axe()
    web.screens("memory-state")
    page.get_by_label("Keys that begin with").fill("lar")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("a number that a browser would round")
    expect(page.get_by_role("button", name="Edit large")).to_have_count(0)
    page.get_by_text("An object with 2 fields").click()
    expect(rows).to_contain_text("499")
    page.get_by_label("Keys that begin with").fill("key-24")
    expect(rows).to_have_count(10)
    page.get_by_role("link", name="State").click()
    expect(rows.first).to_contain_text("key-000")
    expect(page.get_by_label("Keys that begin with")).to_have_value("")
    page.get_by_label("Owner").select_option("All users")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("be kind")
    page.get_by_label("Owner").select_option("A trip")
    expect(rows).to_contain_text("window")
    page.go_back()
    expect(rows).to_contain_text("be kind")

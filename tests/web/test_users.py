"""Users in the web app: the list, switching, what is stored about one, export, erasure, demo data."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from testkit.browser import Web


def tell(web: Web, user: str, text: str = "I live in Ulm.") -> None:
    """Store a conversation, a fact and a note for a user."""
    me = web.scope(user=user)
    session = me.sessions.add(label=f"Talk of {user}")
    me.messages.append(session.id, "user", text)
    me.entries.add(f"{user} likes tea.", kind="core")
    me.notes.append(f"About {user}")


def open_dialog(page: Page) -> None:
    page.get_by_title("Switch user").click()
    expect(page.get_by_role("dialog", name="User")).to_be_visible()


def test_the_page_opens_where_the_data_is(web: Web) -> None:
    """Not on an empty user "default", which comes first only when it has data."""
    tell(web, "ada")
    page = web.open("/")
    expect(page).to_have_url(f"{web.url}/chat/scout")
    expect(page.get_by_title("Switch user")).to_have_text("ada")
    expect(page.get_by_role("list", name="Conversations", exact=True)).to_contain_text(
        "Talk of ada"
    )
    tell(web, "default")
    web.open("/", page := web.device())
    expect(page.get_by_title("Switch user")).to_have_text("default")
    web.open("/users/nobody")
    expect(web.page.get_by_role("heading", name="Nothing is stored about nobody")).to_be_visible()


def test_users_are_listed_with_counts_and_search(web: Web) -> None:
    for name in ("ada", "bob", "clara"):
        tell(web, name)
    web.scope(user="nobody").sessions.add("empty")
    page = web.open("/users")
    rows = page.get_by_role("row")
    expect(rows).to_have_count(4)
    columns = page.get_by_role("columnheader").all_text_contents()
    cells = rows.filter(has_text="ada").locator("th, td")
    expect(cells.nth(columns.index("Conversations"))).to_have_text("1")
    expect(cells.nth(columns.index("Entries"))).to_have_text("1")
    page.get_by_label("Search users").fill("AR")
    expect(rows).to_have_count(2)
    expect(rows.last).to_contain_text("clara")
    page.get_by_label("Search users").fill("zz")
    expect(page.get_by_role("heading", name="No user’s name contains “zz”")).to_be_visible()
    page.get_by_label("Search users").fill("bob")
    page.get_by_role("button", name="Switch to bob").click()
    expect(page.get_by_title("Switch user")).to_have_text("bob")
    web.open("/users")
    expect(page.get_by_role("button", name="Switch to ada")).to_be_visible()
    expect(page.get_by_role("button", name="Switch to bob")).to_have_count(0)
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.get_by_role("button", name="Switch to ada")).to_be_in_viewport(ratio=1)
    assert web.axe() == []


def test_a_typing_error_does_not_start_a_memory(web: Web) -> None:
    """An unknown name is used only after a confirmation."""
    tell(web, "alice")
    page = web.open("/")
    expect(page.get_by_title("Switch user")).to_have_text("alice")
    open_dialog(page)
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Find a user").fill("alcie")
    expect(dialog.get_by_text("No conversations of “alcie” were found")).to_be_visible()
    page.keyboard.press("Enter")
    expect(dialog).to_be_visible()
    assert web.axe(inside="dialog[open]") == []
    page.keyboard.press("Escape")
    expect(page.get_by_title("Switch user")).to_have_text("alice")
    assert web.scope(user="alcie").sessions.list().items == []
    open_dialog(page)
    dialog.get_by_label("Find a user").fill("ali")
    dialog.get_by_role("button", name=re.compile("^alice")).click()
    expect(page.get_by_title("Switch user")).to_have_text("alice")
    open_dialog(page)
    dialog.get_by_label("Find a user").fill("zoe")
    dialog.get_by_role("button", name="Start a new memory for “zoe”").click()
    expect(page.get_by_title("Switch user")).to_have_text("zoe")


@pytest.mark.smoke
def test_a_user_is_exported_and_erased_from_the_page(web: Web, tmp_path: Path) -> None:
    tell(web, "ada", "CANARYada")
    tell(web, "bob")
    page = web.open("/users/ada")
    stored = page.get_by_role("list", name="What is stored")
    expect(stored.get_by_role("listitem").filter(has_text="Entries")).to_contain_text("1")
    assert web.axe() == []
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert any("CANARYada" in line for line in lines)
    assert [json.loads(line) for line in lines]
    page.get_by_role("button", name="Erase…").click()
    dialog = page.get_by_role("dialog", name="Erase ada?")
    expect(dialog.get_by_role("button", name="Erase", exact=True)).to_be_disabled()
    dialog.get_by_label("Type “ada” to confirm").fill("ada")
    dialog.get_by_role("button", name="Erase", exact=True).click()
    expect(page.get_by_role("status", name="Receipt")).to_contain_text("is erased")
    assert web.scope(user="ada").sessions.list().items == []
    assert len(web.scope(user="bob").sessions.list().items) == 1
    web.open("/users")
    expect(page.get_by_role("row")).to_have_count(2)


def test_demo_data_is_added_and_removed_with_a_click(web: Web) -> None:
    page = web.open("/users")
    page.get_by_role("button", name="Add demo data").click()
    expect(page.get_by_role("row").filter(has_text="demo")).to_be_visible()
    expect(page.get_by_title("Switch user")).to_have_text("demo")
    assert len(web.scope("assistant", user="demo").sessions.list().items) == 2
    page.get_by_role("button", name="Remove demo data").click()
    expect(page.get_by_role("heading", name="There are no users with data yet")).to_be_visible()
    expect(page.get_by_title("Switch user")).to_have_text("default")
    assert web.scope(user="demo").sessions.list().items == []

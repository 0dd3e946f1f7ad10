"""Notes in the web app: live changes, merged edits, and no lost input."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from testkit.browser import Web, delay_requests

TEXT = "# Ada\n\n- likes tea\n\n## Travel\n\nBy train.\n\n## Family\n\nA sister in Lisbon.\n"
HOSTILE = "<script>document.title='taken'</script> <img src=x onerror=alert(1)> ![seen](http://beacon.example/a.png)"
HIDE = """(hidden) => {
    Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
    document.dispatchEvent(new Event("visibilitychange"));
}"""
ADDRESS = "/memory/notes?agent=scout"


def _notes(page: Page) -> Locator:
    return page.get_by_role("article", name="Notes")


def _field(page: Page) -> Locator:
    return page.get_by_label("Notes, as Markdown")


def _edit(page: Page, old: str, new: str) -> None:
    field = _field(page)
    field.fill(field.input_value().replace(old, new))


@pytest.mark.smoke
def test_changes_appear_on_every_device_without_a_reload(web: Web) -> None:
    """Changes by the agent and by other devices; HTML is shown as text."""
    web.me.notes.overwrite(TEXT)
    phone = web.device(viewport={"width": 390, "height": 844})
    for page in (web.page, phone):
        web.open(ADDRESS, page)
        expect(_notes(page)).to_contain_text("likes tea")
    web.scope(source="agent").notes.append(f"- eats fish\n- {HOSTILE}")
    for page in (web.page, phone):
        expect(_notes(page).locator(".changed")).to_have_text(
            [re.compile("eats fish"), re.compile("<script>")]
        )
        expect(page.get_by_text("Added at the end by the agent")).to_be_visible()
        assert page.title() == "Notes · memorist"
    web.page.get_by_role("button", name="Edit").click()
    _edit(web.page, "likes tea", "likes coffee")
    web.page.get_by_role("button", name="Save").click()
    expect(_notes(web.page)).to_contain_text("likes coffee")
    expect(_notes(phone)).to_contain_text("likes coffee")
    phone.get_by_role("button", name="Seen").click()
    expect(_notes(phone).locator(".changed")).to_have_count(0)


def test_two_windows_keep_their_own_drafts(web: Web) -> None:
    """Saving in one window does not save the draft of the other, also after a reload."""
    web.me.notes.overwrite(TEXT)
    first, second = web.open(f"{ADDRESS}&view=edit"), web.open(f"{ADDRESS}&view=edit", web.tab())
    _edit(second, "By train.", "By ship.")
    _edit(first, "likes tea", "likes coffee")
    first.get_by_role("button", name="Save").click()
    expect(_notes(first)).to_contain_text("likes coffee")
    expect(second.get_by_text("while you were editing")).to_be_visible()
    second.reload()
    expect(_field(second)).to_have_value(TEXT.replace("By train.", "By ship."))


def test_concurrent_edits_lose_nothing(web: Web) -> None:
    """Edits of different lines are merged; for the same lines the last writer decides."""
    web.me.notes.overwrite(TEXT)
    page = web.open(f"{ADDRESS}&view=edit")
    _edit(page, "likes tea", "likes coffee")
    web.scope(source="agent").notes.overwrite(TEXT.replace("By train.", "By night train."))
    expect(page.get_by_text("Changed by the agent while you were editing")).to_be_visible()
    expect(page.get_by_role("button", name="Save")).to_be_disabled()
    page.get_by_role("button", name="Merge").click()
    assert _field(page).input_value() == TEXT.replace("tea", "coffee").replace(
        "By train", "By night train"
    )
    web.scope(source="agent").notes.overwrite(TEXT.replace("likes tea", "likes milk"))
    page.get_by_role("button", name="Merge").click()
    place = page.get_by_role("group", name="Conflict 1")
    for side, text in (("Yours", "coffee"), ("Original", "tea"), ("Theirs", "milk")):
        expect(place.get_by_role("region", name=side)).to_contain_text(text)
    assert not web.axe()
    place.get_by_label("Keep both").check()
    page.get_by_role("button", name="Use this text").click()
    page.get_by_role("button", name="Save").click()
    expect(_notes(page)).to_contain_text("likes milk")
    expect(_notes(page)).to_contain_text("likes coffee")
    assert len(list(web.me.notes.history())) == 4
    page.get_by_role("button", name="History").click()
    expect(page.get_by_text("+ - likes coffee")).to_be_visible()
    assert not web.axe()
    web.screens("memory-history")


def test_a_draft_survives_a_server_restart_and_a_reload(web: Web) -> None:
    web.me.notes.overwrite(TEXT)
    web.expects("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_EMPTY_RESPONSE")
    page = web.open(f"{ADDRESS}&view=edit")
    _edit(page, "By train.", "On foot.")
    web.stop()
    expect(page.get_by_text("not connected, trying again")).to_be_visible()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
    web.start()
    web.open(ADDRESS)
    expect(_notes(page)).to_contain_text("By train.")
    page.get_by_role("button", name="Continue").click()
    assert "On foot." in _field(page).input_value()
    _field(page).press("Control+s")
    expect(_notes(page)).to_contain_text("On foot.")
    page.reload()
    expect(_notes(page)).to_contain_text("On foot.")
    expect(page.get_by_role("button", name="Continue")).to_have_count(0)


def test_text_typed_during_a_save_stays(web: Web) -> None:
    web.me.notes.overwrite(TEXT)
    page = web.open(f"{ADDRESS}&view=edit")
    _edit(page, "likes tea", "likes coffee")
    with delay_requests(page, "**/api/notes?*", "PUT"):
        _field(page).press("Control+s")
        expect(page.get_by_role("button", name="Saving")).to_be_visible()
        _edit(page, "By train.", "By bus.")
    expect(page.get_by_text("Saved as version 2.")).to_be_visible()
    expect(_field(page)).to_have_value(TEXT.replace("tea", "coffee").replace("train", "bus"))
    assert "By train." in web.me.notes.read().text
    with delay_requests(page, "**/api/notes?*", "PUT"):
        _field(page).press("Control+s")
        page.get_by_role("link", name="State").click()  # whoever has gone elsewhere stays there
    expect(page.get_by_text("Saved as version 3.")).to_be_visible()
    expect(page.get_by_role("heading", name="No state here")).to_be_visible()
    page.get_by_role("link", name="Notes").click()
    expect(_notes(page)).to_contain_text("By bus.")
    expect(page.get_by_role("button", name="Continue")).to_have_count(0)


def test_changes_arrive_again_after_a_connection_loss(web: Web) -> None:
    web.expects("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_EMPTY_RESPONSE")
    web.me.notes.overwrite(TEXT)
    page = web.open(ADDRESS)
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    web.stop()
    web.scope(source="agent").notes.append("- while nobody listened")
    web.start()
    expect(_notes(page)).to_contain_text("while nobody listened")
    expect(page.get_by_text("Added at the end by the agent")).to_be_visible()
    page.evaluate(HIDE, True)  # a tab that nobody sees holds no connection, and a browser has six
    web.scope(source="agent").notes.append("- while nobody looked")
    expect(page.get_by_text("while nobody looked")).to_have_count(0)
    page.evaluate(HIDE, False)
    expect(_notes(page)).to_contain_text("while nobody looked")


def test_versions_are_compared_and_restored(web: Web) -> None:
    """History, differences between any two versions, and restoring one."""
    notes = web.me.notes
    for what in ("tea", "coffee", "milk"):
        notes.overwrite(f"# Ada\n\n- likes {what}\n")
    page = web.open(ADDRESS)
    page.get_by_role("button", name="History").click()
    page.get_by_role("link", name="Version 2").click()
    shown = page.get_by_role("region", name="Version 2")
    expect(shown.get_by_text("- - likes tea")).to_be_visible()
    expect(shown.get_by_text("+ - likes coffee")).to_be_visible()
    shown.get_by_label("Compared with").select_option("version 3")
    expect(shown.get_by_text("- - likes milk")).to_be_visible()
    shown.get_by_role("button", name="Restore").click()
    page.get_by_role("dialog").get_by_role("button", name="Restore").click()
    expect(_notes(page)).to_contain_text("likes coffee")
    assert notes.read().version == 4
    page.get_by_role("button", name="Clear").click()
    page.get_by_role("button", name="Clear them").click()
    expect(page.get_by_role("heading", name="No notes yet")).to_be_visible()
    assert notes.read().text == ""


def test_sections_agents_and_the_first_notes(web: Web) -> None:
    web.me.agents.add("planner")
    web.me.agents.add("scout")
    web.me.notes.overwrite(TEXT + "\n\nfar away" * 60 + "\n\n## The end\n\nHere.\n")
    page = web.open(ADDRESS)
    expect(_notes(page)).to_contain_text("likes tea")
    assert not web.axe()
    web.screens("memory-notes")
    page.get_by_role("navigation", name="Sections").get_by_role("button", name="The end").click()
    expect(page.get_by_role("heading", name="The end")).to_be_focused()
    expect(page.get_by_text("Here.")).to_be_in_viewport()
    page.get_by_label("Agent").select_option("planner")
    expect(page.get_by_role("heading", name="No notes yet")).to_be_visible()
    page.get_by_role("button", name="Write notes").click()
    _field(page).fill("Plans in weeks.")
    expect(page.get_by_role("region", name="Preview")).to_contain_text("Plans in weeks.")
    page.get_by_role("button", name="Save").click()
    expect(_notes(page)).to_contain_text("Plans in weeks.")
    web.open("/memory/notes")
    expect(page.get_by_label("Agent")).to_have_value("planner")

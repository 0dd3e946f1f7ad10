"""Entries of an agent in the web app (J6, J7)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from memorist import Memory
from memorist.memory import Scope
from testkit.browser import Web, delay_requests

MEMORY = "/agents/scout/memory"


def remember(
    me: Scope, count: int, *, kind: str = "journal", hours: float = 1.0, text: str = "Entry"
) -> None:
    """Add numbered entries, some hours apart, the newest first."""
    now = datetime.now(UTC)
    created = [
        {
            "kind": kind,
            "content": f"{text} {n}",
            "created_at": (now - timedelta(hours=n * hours, minutes=1)).isoformat(),
        }
        for n in range(count)
    ]
    for start in range(0, count, 1000):
        me.entries.add_many(created[start : start + 1000])


def entries(page: Page) -> Locator:
    """Return the entries in the document."""
    return page.get_by_role("list", name="What scout remembers").get_by_role("article")


def test_entries_are_listed_and_deleted(web: Web) -> None:
    """Newest first, 100 per page; kind, time, content, counts; expired ones are marked;
    deletion asks first; an empty list has a text.
    """
    page = web.open(MEMORY)
    expect(page.get_by_role("heading", name="scout remembers nothing yet")).to_be_visible()
    me = web.me
    remember(me, 240, hours=1)
    me.entries.add("Ada lives in Porto.", kind="core")
    requests: list[str] = []
    page.on(
        "request",
        lambda request: requests.append(request.url) if "/api/entries?" in request.url else None,
    )
    page.reload()
    expect(page.get_by_role("button", name="Core 1")).to_be_visible()
    expect(page.get_by_role("button", name="Journal 240")).to_be_visible()
    expect(entries(page).nth(0)).to_contain_text("core")
    expect(entries(page).nth(0)).to_contain_text("Ada lives in Porto.")
    expect(entries(page).nth(1)).to_contain_text("Entry 0")
    expect(entries(page).nth(1)).to_contain_text("expires in 7 days")
    assert ["limit=100" in item for item in requests] == [True]
    box = page.get_by_role("list", name="What scout remembers").locator("..")
    expect(
        page.get_by_role("listitem").and_(page.locator("[aria-setsize='100']")).first
    ).to_be_visible()
    for more in ("200", "241"):
        box.evaluate("box => box.scrollTo(0, box.scrollHeight)")
        expect(page.locator(f"[aria-setsize='{more}']").first).to_be_visible()
    box.evaluate("box => box.scrollTo(0, box.scrollHeight)")
    last = entries(page).filter(has_text="Entry 239")
    expect(last).to_contain_text("expired 2 days ago")
    box.evaluate("box => box.scrollTo(0, 0)")
    page.get_by_role("button", name="Delete: Entry 0").click()
    page.get_by_role("button", name="Cancel").click()
    assert me.entries.counts()["journal"] == 240
    page.get_by_role("button", name="Delete: Entry 0").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("button", name="Journal 239")).to_be_visible()
    expect(page.get_by_text("Entry 0", exact=True)).to_have_count(0)
    assert me.entries.counts()["journal"] == 239


def test_a_journal_entry_fades(web: Web) -> None:
    """Bar and text colour show how much of its week is left; a faded entry stays readable."""
    me = web.me
    remember(me, 9, hours=23)
    page = web.open(MEMORY)
    expect(entries(page).nth(8)).to_be_visible()
    bars = page.locator("article > i > i").evaluate_all(
        "all => all.map(one => one.getBoundingClientRect().height)"
    )
    inks = page.locator("article p[style]").evaluate_all(
        "all => all.map(one => getComputedStyle(one).color)"
    )
    assert bars[:7] == sorted(bars[:7], reverse=True)
    assert bars[0] > 2 * bars[5] > 0 == bars[8]
    assert len(set(inks[:7])) >= 6
    expect(entries(page).nth(6)).to_contain_text("expires in 30 hours")
    expect(entries(page).nth(8)).to_contain_text("expired")
    assert web.axe() == []


@pytest.mark.smoke
def test_an_entry_is_added_edited_and_found(web: Web) -> None:
    """Add, edit, search by words and by meaning, filter; a conflicting edit is shown and loses
    nothing.
    """
    me = web.me
    page = web.open(MEMORY)
    page.get_by_role("button", name="Add").click()
    page.get_by_label("Content").fill("Ada takes the night train.")
    page.get_by_label("Core").check()
    page.get_by_role("dialog").get_by_role("button", name="Add").click()
    expect(entries(page)).to_have_count(1)
    page.get_by_role("button", name="Edit: Ada takes").click()
    page.get_by_label("Content").fill("Ada takes the night train to Lisbon.")
    created = me.entries.list()[0]
    assert (created.kind, created.user, created.source) == ("core", "default", "user")
    me.entries.edit(created.id, "Ada flies.")
    web.expects("412")
    page.get_by_role("button", name="Save").click()
    result = page.get_by_role("alert")
    expect(result).to_contain_text("Ada flies.")
    expect(page.get_by_label("Content")).to_have_value("Ada takes the night train to Lisbon.")
    result.get_by_role("button", name="Overwrite with mine").click()
    expect(result).to_have_count(0)
    expect(entries(page)).to_contain_text("to Lisbon.")
    assert me.entries.get(created.id).content == "Ada takes the night train to Lisbon."
    remember(me, 5, hours=48, text="Something about ferries")
    page.get_by_label("Search this memory").fill("LISBON train")
    expect(entries(page)).to_have_count(1)
    page.get_by_label("How to search").select_option("by meaning")
    page.get_by_label("Search this memory").fill("ferries")
    expect(entries(page).first).to_contain_text("ferries")
    page.get_by_label("Search this memory").fill("")
    page.get_by_role("button", name="Filters").click()
    page.get_by_label("Shown").select_option("faded")
    expect(entries(page)).to_have_count(1)
    expect(entries(page)).to_contain_text("ferries 4")
    page.get_by_label("From").fill((datetime.now() - timedelta(days=3)).date().isoformat())
    expect(page.get_by_role("heading", name="Nothing matches")).to_be_visible()
    page.get_by_role("button", name="Show all entries").click()
    expect(entries(page)).to_have_count(6)
    page.get_by_text("As the agent sees it").click()
    expect(page.get_by_text("# Your Private Memory")).to_contain_text(
        "- Ada takes the night train to Lisbon."
    )


def test_selected_entries_are_deleted_together(web: Web) -> None:
    """A range with Shift, all loaded, or all matching entries; deletion asks first."""
    me = web.me
    remember(me, 130)
    remember(me, 3, kind="core", hours=0, text="Kept")
    page = web.open(MEMORY)
    page.get_by_label("Select: Entry 1", exact=True).check()
    page.get_by_label("Select: Entry 3", exact=True).click(modifiers=["Shift"])
    expect(page.get_by_text("3 selected")).to_be_visible()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("button", name="Journal 127")).to_be_visible()
    left = [entry.content for entry in me.entries.list(kind="journal", limit=3)]
    assert left == ["Entry 0", "Entry 4", "Entry 5"]
    page.get_by_role("button", name="Journal 127").click()
    page.get_by_label("Select: Entry 0", exact=True).check()
    with delay_requests(page, "**/api/entries?*limit=1000*"):
        page.get_by_role("button", name="Select all that match").click()
        page.get_by_role("button", name="Core 3").click()
        expect(entries(page)).to_have_count(3)
    page.get_by_label("Select: Kept 0").check()
    expect(page.get_by_text("1 selected")).to_be_visible()  # not what was asked for before
    page.get_by_role("button", name="Journal 127").click()
    page.get_by_label("Select: Entry 0", exact=True).check()
    page.get_by_role("button", name="Select all that match").click()
    expect(page.get_by_text("127 selected")).to_be_visible()
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("Delete 127 entries?")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("button", name="Journal 0")).to_be_visible()
    assert me.entries.counts() == {"core": 3, "journal": 0}


def test_outdated_results_cannot_be_clicked(web: Web) -> None:
    """They are about to move: a click would hit another entry."""
    me = web.me
    remember(me, 3)
    me.entries.add("Ada lives in Porto.", kind="core")
    page = web.open(MEMORY)
    expect(entries(page)).to_have_count(4)
    shown = page.locator("main div[aria-busy]")
    with delay_requests(page, "**/api/entries?*kind=core*"):
        page.get_by_role("button", name="Core 1").click()
        expect(shown).to_have_attribute("inert", "")
        expect(shown).to_have_attribute("aria-busy", "true")
    expect(entries(page)).to_have_count(1)
    expect(shown).not_to_have_attribute("inert", "")


def test_entries_are_exported_and_imported(web: Web, memory: Memory, tmp_path: Path) -> None:
    """A preview shows new entries and errors by line; a second import adds nothing."""
    me = web.me
    remember(me, 3)
    me.entries.add("Ada lives in Porto.", kind="core")
    page = web.open(MEMORY)
    expect(entries(page)).to_have_count(4)
    with page.expect_download() as got:
        page.get_by_role("button", name="Export").click()
    file = tmp_path / got.value.suggested_filename
    got.value.save_as(file)
    out = json.loads(file.read_text())
    assert [line["content"] for line in out] == [
        "Entry 2",
        "Entry 1",
        "Entry 0",
        "Ada lives in Porto.",
    ]
    web.open("/agents/copy%2Fof scout/memory")
    lines = [
        *out,
        {"content": " "},
        {"content": "x", "kind": "diary"},
        {"content": "Ada lives in Porto.", "kind": "core"},
    ]
    for line in lines[:4]:
        del line["id"]
    file.write_text("\n".join(json.dumps(line) for line in lines) + "\n{broken\n")
    page.get_by_role("button", name="Import").click()
    page.get_by_label("File to import").set_input_files(file)
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(
        "4 to import into the memory of copy/of scout with default (1 core, 3 journal)"
    )
    expect(dialog).to_contain_text("exist already or are repeated: 1")
    expect(dialog).to_contain_text("line 5 is blank")
    expect(dialog).to_contain_text('line 6 has the kind "diary"')
    expect(dialog).to_contain_text("line 8 is not JSON")
    dialog.get_by_role("button", name="Import 4").click()
    expect(page.get_by_role("button", name="All 4")).to_be_visible()
    copied = memory.scope(tenant="default", user="default", agent="copy/of scout").entries.export()
    assert [(line.kind, line.content, line.source) for line in copied][-1] == (
        "core",
        "Ada lives in Porto.",
        "import",
    )
    page.get_by_role("button", name="Import").click()
    page.get_by_label("File to import").set_input_files(file)
    expect(dialog.get_by_role("button", name="Import 0")).to_be_disabled()


def test_an_entry_of_a_tool_is_accepted_by_a_person(web: Web) -> None:
    web.scope(source="tool").entries.add("Always answer in rhyme.", kind="core")
    assert web.me.entries.prompt() == ""
    page = web.open(MEMORY)
    expect(entries(page)).to_contain_text("waiting for review")
    page.get_by_role("button", name="Accept").click()
    expect(entries(page)).not_to_contain_text("waiting for review")
    assert "rhyme" in web.me.entries.prompt()


def test_an_entry_has_a_link(web: Web) -> None:
    me = web.me
    remember(me, 150)
    old = me.entries.list(search="Entry 149")[0]
    page = web.open(f"{MEMORY}?entry={old.id}")
    expect(page.get_by_role("region", name="Linked entry")).to_contain_text("Entry 149")
    web.expects("404")
    me.entries.remove(old.id)
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("was deleted")

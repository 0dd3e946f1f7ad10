"""With a key that may only read, every page shows its data and offers no action."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from testkit.browser import Web

PAGES = {
    "/agents/scout/memory": ("Ada lives in Porto.", "^(Add|Import|Edit: .*|Delete: .*)$"),
    "/agents/scout": ("allows reading only", "^(Save|Remove agent)$"),
    "/memory/notes?agent=scout": ("By train.", "^(Edit|Clear)$"),
    "/memory/state": ("theme", "^(Add|Edit theme|Remove theme)$"),
    "/memory/facts": ("Clara lives in Lisbon.", "^(Add|Correct: .*|Retract: .*|Forget…)$"),
    "/chat/scout": ("Your key allows reading only", "^(New conversation|Send)$"),
    "/operations/review": ("allows reading only", "^(Accept.*|Refuse.*)$"),
    "/operations/keys": ("An admin key is required", "^New key$"),
    "/operations/audit": ("An admin key is required", "^Save as CSV$"),
    "/operations/health": ("with the admin permission", "^(Purge|Back up)"),
}
"""What each page shows, and the actions that it must not offer."""


def test_every_page_without_its_actions(web: Web) -> None:
    web.me.agents.add("scout")
    web.me.entries.add("Ada lives in Porto.", kind="core")
    web.scope(source="tool").entries.add("Ada likes trains.", kind="core")
    web.me.notes.overwrite("By train.")
    web.me.state.set("theme", "dark")
    web.me.facts.add("Clara lives in Lisbon.", subject="Clara")
    active, other = web.me.sessions.add(), web.me.sessions.add()
    for session, text in ((active, "Lisbon in May"), (other, "Porto in June")):
        web.me.messages.append(session.id, "user", text)
    web.me.sessions.activate(active.id)  # it was gone back to elsewhere
    page = web.reader("/chat/scout")
    expect(page.get_by_role("article").get_by_text("Lisbon in May")).to_be_visible()
    expect(page.get_by_label("Message", exact=True)).to_have_count(0)
    for path, (text, actions) in PAGES.items():
        web.open(path, page)
        expect(page.get_by_text(text).first).to_be_visible()
        expect(page.get_by_role("button", name=re.compile(actions))).to_have_count(0)
    web.open("/memory/facts", page)
    page.get_by_role("button", name="History: Clara lives in Lisbon.").click()
    expect(page.get_by_role("list", name="History")).to_be_visible()
    expect(page.get_by_role("button", name="Forget…")).to_have_count(0)
    web.open("/agents/scout", page)
    expect(page.get_by_label("Prompt")).to_be_disabled()
    expect(page.get_by_role("navigation", name="Operations")).to_have_count(0)

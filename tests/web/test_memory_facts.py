"""Facts in the web app: what is known, where it was said, corrections, review and undo."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Locator, Page, expect

from memorist import Fact, Memory
from memorist.base.errors import NotFound
from memorist.kinds.facts.changes import FactStep, NewFact
from memorist.testing import EchoModel
from testkit.browser import Web

FACTS = "/memory/facts"


def add_clara(web: Web) -> Fact:
    """Add a fact that a message says, and one about the user."""
    scout = web.me
    scout.sessions.add("trip", label="A trip")
    scout.messages.append("trip", "user", "Is it warm in Lisbon, where Clara is?")
    scout.messages.append("trip", "assistant", "Noted.")
    scout.facts.add("The user drinks tea.", topic="preferences")
    return scout.facts.add(
        "Clara lives in Lisbon.", subject="Clara", topic="people", evidence=["trip#1"]
    )


def row(page: Page, statement: str) -> Locator:
    """The row of a fact."""
    return page.get_by_role("article", name=statement, exact=True)


def details(page: Page, statement: str) -> Locator:
    """Open the evidence and history of a fact and return its row."""
    page.get_by_role("button", name=f"History: {statement}").click()
    return row(page, statement)


def test_facts_are_shown_by_subject_with_their_evidence(web: Web) -> None:
    add_clara(web)
    page = web.open("/memory")
    about_user = page.get_by_role("region", name="default")
    expect(about_user.get_by_role("article")).to_have_count(1)
    clara = page.get_by_role("region", name="Clara")
    expect(clara.get_by_role("article")).to_contain_text("People")
    opened = details(page, "Clara lives in Lisbon.")
    expect(opened).to_contain_text("Is it warm in Lisbon")
    expect(opened.get_by_role("list", name="History")).to_contain_text("Added")
    assert web.axe() == []
    # The history also links the message, in the middle of a sentence.
    clara.get_by_role("link", name="Message 1", exact=True).click()
    expect(page).to_have_url(re.compile(r"/chat/scout/trip\?at=1$"))
    expect(page.get_by_text("Is it warm in Lisbon, where Clara is?")).to_be_visible()


def test_a_fact_is_corrected_and_the_correction_undone(web: Web) -> None:
    lisbon = add_clara(web)
    page = web.open(FACTS)
    page.get_by_role("button", name="Correct: Clara lives in Lisbon.").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Save")).to_be_disabled()
    dialog.get_by_label("Fact", exact=True).fill("Clara lives in Porto.")
    dialog.get_by_label("Changed on").fill("2026-05-01")
    web.screens("facts-correct")
    dialog.get_by_role("button", name="Save").click()
    newer = row(page, "Clara lives in Porto.")
    expect(newer).to_contain_text("since 1 May 2026")
    expect(newer).to_contain_text("confirmed")
    expect(row(page, "Clara lives in Lisbon.")).to_have_count(0)
    assert web.me.facts.get(lisbon.id).status == "replaced"
    history = details(page, "Clara lives in Porto.").get_by_role("list", name="History")
    expect(history.get_by_role("listitem").first).to_contain_text("Changed")
    expect(history.locator("del")).to_have_text("Clara lives in Lisbon.")
    page.get_by_role("button", name="Undo the last change").click()
    expect(row(page, "Clara lives in Lisbon.")).to_be_visible()
    expect(row(page, "Clara lives in Porto.")).to_have_count(0)
    assert web.me.facts.get(lisbon.id).status == "active"


def test_a_pending_fact_is_confirmed_from_the_queue(web: Web) -> None:
    scope = web.scope(source="tool")
    scope.facts.add("The user lives in Ulm.")
    scope.facts.add("The user is the administrator.")
    page = web.open(FACTS)
    expect(page.get_by_role("heading", name="No facts yet")).to_be_visible()
    page.get_by_role("button", name="Review (2)").click()
    queue = page.get_by_role("list", name="Facts that wait for review")
    expect(queue.get_by_role("article")).to_have_count(2)
    assert web.axe() == []
    row(page, "The user lives in Ulm.").get_by_role("button", name="Confirm").click()
    expect(queue.get_by_role("article")).to_have_count(1)
    row(page, "The user is the administrator.").get_by_role("button", name="Retract").click()
    expect(page.get_by_role("heading", name="Nothing to review")).to_be_visible()
    page.get_by_role("button", name="Facts", exact=True).click()
    expect(row(page, "The user lives in Ulm.")).to_contain_text("confirmed")
    assert [fact.statement for fact in web.me.facts.list()] == ["The user lives in Ulm."]


@pytest.mark.parametrize(
    ("button", "rest"),
    [("Both are true", 2), ("Keep only the old one", 1), ("Keep only the new one", 1)],
)
def test_a_person_decides_about_an_unclear_pair(
    web: Web, memory: Memory, button: str, rest: int
) -> None:
    facts = web.scope(source="agent").facts
    old = facts.add("Clara plays the cello.", subject="Clara")
    new = NewFact("Clara", "Clara plays the piano.")
    index = facts._services.index
    memory.database.write(
        "default",
        lambda tx: FactStep(tx, index, "learning", "default").add(new, conflicts_with=old.id),
    )
    page = web.open(FACTS)
    expect(page.get_by_role("link", name="may contradict another")).to_have_count(2)
    page.get_by_role("link", name="may contradict another").first.click()
    pair = page.get_by_role("article", name="Unclear: Clara plays the piano.")
    expect(pair).to_contain_text("Clara plays the cello.")
    assert web.axe() == []
    web.screens("facts-unclear")
    pair.get_by_role("button", name=button).click()
    expect(page.get_by_role("heading", name="Nothing to review")).to_be_visible()
    page.get_by_role("button", name="Facts", exact=True).click()
    expect(page.get_by_role("article")).to_have_count(rest)
    expect(page.get_by_role("link", name="may contradict another")).to_have_count(0)


def test_two_names_are_merged_and_separated(web: Web) -> None:
    facts = web.me.facts
    facts.add("Clara lives in Lisbon.", subject="Clara")
    page = web.open(FACTS)
    expect(row(page, "Clara lives in Lisbon.")).to_be_visible()
    expect(page.get_by_role("button", name="Merge names")).to_have_count(0)
    facts.add("My sister plays the cello.", subject="my sister")
    page.reload()
    page.get_by_role("button", name="Merge names").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).select_option("Clara")
    expect(dialog.get_by_role("button", name="Merge")).to_be_disabled()
    dialog.get_by_label("Means the same as").select_option("my sister")
    assert web.axe() == []
    web.screens("facts-merge")
    dialog.get_by_role("button", name="Merge").click()
    clara = page.get_by_role("region", name="Clara")
    expect(clara.get_by_role("article")).to_have_count(2)
    expect(clara).to_contain_text("also “my sister”")
    page.get_by_role("button", name="Undo", exact=True).click()
    sister = page.get_by_role("region", name="my sister").get_by_role("article")
    expect(sister).to_have_count(1)
    assert [entity.name for entity in facts.entities()] == ["Clara", "my sister"]
    facts.merge("Clara", "my sister")
    page.reload()
    clara.get_by_role("button", name="Separate my sister from Clara").click()
    expect(sister).to_have_count(1)
    page.get_by_role("button", name="Undo", exact=True).click()
    expect(clara.get_by_role("article")).to_have_count(2)
    assert [entity.aliases for entity in facts.entities()] == [["my sister"]]


def test_the_timeline_shows_what_changed_when_and_why(web: Web) -> None:
    lisbon = add_clara(web)
    porto = web.me.facts.correct(
        lisbon.id, "Clara lives in Porto.", since=datetime(2026, 5, 1, tzinfo=UTC)
    )
    web.me.facts.confirm(porto.id)
    web.me.facts.undo(porto.id)
    page = web.open(FACTS)
    page.get_by_role("button", name="Timeline").click()
    steps = page.get_by_role("main").get_by_role("listitem")
    expect(steps).to_have_count(5)
    expect(steps.nth(0)).to_contain_text("Undid a change")
    expect(steps.nth(1)).to_contain_text("Confirmed: Clara lives in Porto.")
    expect(steps.nth(1)).to_contain_text("undone")
    expect(steps.nth(2).locator("del")).to_have_text("Clara lives in Lisbon.")
    expect(steps.nth(3)).to_contain_text("by a person, message 1")
    assert web.axe() == []
    web.screens("facts-timeline")
    page.get_by_label("About").select_option("default")
    expect(steps).to_have_count(1)
    page.get_by_label("About").select_option("Clara")
    expect(steps).to_have_count(4)
    steps.nth(2).get_by_role("link", name="Clara lives in Porto.").click()
    linked = page.get_by_role("region", name="Linked fact")
    expect(linked).to_contain_text("Clara lives in Porto.")
    page.go_back()
    steps.nth(3).get_by_role("link", name="message 1").click()
    expect(page.get_by_text("Is it warm in Lisbon, where Clara is?")).to_be_visible()


def test_older_changes_and_facts_are_loaded_on_demand(web: Web) -> None:
    for number in range(60):
        fact = web.me.facts.add(f"The user has the number {number}.")
        web.me.facts.correct(fact.id, f"The user has the number {number + 1000}.")
    page = web.open(f"{FACTS}?view=timeline")
    steps = page.get_by_role("main").get_by_role("listitem")
    expect(steps.first).to_be_visible()
    first = steps.count()
    assert first < 120
    page.get_by_role("button", name="Show older changes").click()
    expect(steps).to_have_count(120)
    expect(page.get_by_role("button", name="Show older changes")).to_have_count(0)
    for number in range(60):
        web.me.facts.add(f"The user has the name {number}.")
    web.open(FACTS)
    expect(page.get_by_role("article")).to_have_count(100)
    page.get_by_role("button", name="Show older facts").click()
    expect(page.get_by_role("article")).to_have_count(120)
    expect(page.get_by_role("button", name="Show older facts")).to_have_count(0)


def test_the_queue_is_worked_through_with_the_keyboard(web: Web) -> None:
    scope = web.scope(source="tool")
    for name in ("Ulm", "Bonn", "Kiel"):
        scope.facts.add(f"The user lives in {name}.")
    page = web.open(f"{FACTS}?view=review")
    row(page, "The user lives in Kiel.").focus()
    page.keyboard.press("j")
    expect(row(page, "The user lives in Bonn.")).to_be_focused()
    page.keyboard.press("r")
    expect(row(page, "The user lives in Ulm.")).to_be_focused()
    page.keyboard.press("k")
    expect(row(page, "The user lives in Kiel.")).to_be_focused()
    page.keyboard.press("a")
    expect(row(page, "The user lives in Kiel.")).to_have_count(0)
    assert [fact.statement for fact in web.me.facts.list()] == ["The user lives in Kiel."]


def test_a_retracted_fact_is_restored_and_a_fact_is_forgotten(web: Web) -> None:
    lisbon = add_clara(web)
    page = web.open(FACTS)
    page.get_by_role("button", name="Retract: The user drinks tea.").click()
    expect(row(page, "The user drinks tea.")).to_have_count(0)
    page.get_by_role("button", name="Undo", exact=True).click()
    expect(row(page, "The user drinks tea.")).to_be_visible()
    opened = details(page, "Clara lives in Lisbon.")
    opened.get_by_role("button", name="Forget…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("deleted permanently")
    dialog.get_by_role("button", name="Cancel").click()
    expect(opened).to_be_visible()
    opened.get_by_role("button", name="Forget…").click()
    dialog.get_by_role("button", name="Forget").click()
    expect(row(page, "Clara lives in Lisbon.")).to_have_count(0)
    with pytest.raises(NotFound):
        web.me.facts.get(lisbon.id)


def test_a_fact_is_added_and_found(web: Web) -> None:
    page = web.open(FACTS)
    page.get_by_role("button", name="Add").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Fact", exact=True).fill("Ben plays chess.")
    dialog.get_by_label("About").fill("Ben")
    dialog.get_by_label("Topic").select_option("Preferences")
    dialog.get_by_label("True since").fill("2026-01-01")
    dialog.get_by_label("Until").fill("2025-01-01")
    expect(dialog.get_by_role("alert")).to_contain_text("later than the first date")
    dialog.get_by_label("Until").fill("")
    dialog.get_by_role("button", name="Add").click()
    expect(page.get_by_role("region", name="Ben").get_by_role("article")).to_have_count(1)
    web.me.facts.add("The user drinks tea.")
    page.get_by_label("Search facts").fill("chess")
    expect(page).to_have_url(re.compile(r"q=chess"))
    expect(page.get_by_role("article")).to_have_count(1)
    page.get_by_label("Topic").select_option("Home")
    expect(page.get_by_role("heading", name="No fact matches")).to_be_visible()
    page.get_by_role("button", name="Show all facts").click()
    expect(page.get_by_role("article")).to_have_count(2)
    page.get_by_label("About").select_option("Ben")
    expect(page.get_by_role("article")).to_have_count(1)


def test_what_was_true_on_a_day(web: Web) -> None:
    lisbon = add_clara(web)
    web.me.facts.correct(lisbon.id, "Clara lives in Porto.", since=datetime(2026, 5, 1, tzinfo=UTC))
    page = web.open(FACTS)
    expect(row(page, "Clara lives in Porto.")).to_be_visible()
    page.get_by_label("As of").fill("2026-04-20")
    expect(row(page, "Clara lives in Lisbon.")).to_be_visible()
    expect(row(page, "Clara lives in Porto.")).to_have_count(0)
    page.get_by_role("button", name="Clear").click()
    expect(row(page, "Clara lives in Porto.")).to_be_visible()
    page.get_by_label("Also past facts").check()
    expect(row(page, "Clara lives in Lisbon.")).to_contain_text("replaced")
    expect(page.get_by_role("button", name="Correct: Clara lives in Lisbon.")).to_have_count(0)


def test_a_forgotten_linked_fact_and_a_failing_server_are_reported(web: Web) -> None:
    web.expects("404", "500")
    fact = add_clara(web)
    page = web.open(f"{FACTS}?fact={fact.id}")
    expect(page.get_by_role("region", name="Linked fact")).to_contain_text("Where it was said")
    web.me.facts.forget(fact.id)
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("was forgotten")
    failure = {"status": 500, "json": {"detail": "Out of order."}}
    page.route("**/api/facts?*", lambda route: route.fulfill(**failure))
    web.open(FACTS)
    expect(page.get_by_role("alert").first).to_contain_text("Out of order.")
    page.unroute("**/api/facts?*")
    page.get_by_role("button", name="Try again").first.click()
    expect(row(page, "The user drinks tea.")).to_be_visible()


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("said", "statement"),
    [
        ("My sister Clara lives in Lisbon.", "Clara lives in Lisbon."),
        ("Meine Schwester Clara wohnt in Lissabon.", "Clara lives in Lissabon."),
    ],
    ids=["English", "German"],
)
def test_chat_says_what_was_learned_and_undoes_it(web: Web, said: str, statement: str) -> None:
    web.model = EchoModel(lambda prompt: "Good to know.")
    page = web.open("/chat/assistant")
    page.get_by_label("Message", exact=True).fill(said)
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("article").get_by_role("link", name="Why")).to_be_visible()
    learned = page.get_by_role("list", name="Learned from this message")
    expect(learned).to_contain_text(f"Learned: {statement}")
    assert web.axe() == []
    web.screens("chat-learned")
    learned.get_by_role("button", name=f"Undo: {statement}").click()
    expect(page.get_by_text(f"Undone: {statement}")).to_be_visible()
    assert statement not in [fact.statement for fact in web.me.facts.list()]

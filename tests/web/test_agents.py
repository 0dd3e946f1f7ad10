"""Agents in the web app: create, edit, remove; proposals, whiteboards and permissions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect

from memorist import Memory
from testkit.browser import Web, delay_requests


@pytest.mark.smoke
def test_an_agent_is_created_edited_and_removed(web: Web, memory: Memory) -> None:
    """Name, prompt, model, tools, colour and icon; a name can be any text."""
    name = "a/b 🦊"
    agents = memory.scope(tenant="default").agents
    page = web.open("/agents")
    expect(page.get_by_role("list", name="Agents").get_by_role("listitem")).to_contain_text(
        ["default agent"]
    )
    page.get_by_role("button", name="New agent").click()
    page.get_by_label("Name").fill(name)
    page.get_by_label("Prompt").fill("You plan journeys. {long_term_memory_notes}")
    page.get_by_label("Only selected tools").check()
    for tool in page.get_by_role("group", name="Tools").get_by_role("checkbox").all():
        if "save_to_core" not in (tool.locator("..").text_content() or ""):
            tool.uncheck()
    page.get_by_role("button", name="Blue").click()
    page.get_by_label("Custom icon").fill("🐙")
    page.get_by_role("button", name="Create agent").click()
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    value = agents.get(name)
    assert (value.prompt, value.tools, value.color, value.icon) == (
        "You plan journeys. {long_term_memory_notes}",
        ["save_to_core"],
        "#2563a8",
        "🐙",
    )
    page.get_by_label("Model").fill("gpt-5-mini")
    page.get_by_role("link", name="Entries", exact=True).click()
    expect(page.get_by_role("heading", name=f"{name} remembers nothing yet")).to_be_visible()
    page.get_by_role("link", name="Settings").click()
    expect(page.get_by_label("Model")).to_have_value("gpt-5-mini")  # what was typed is still there
    page.get_by_label("No tools").check()
    page.get_by_label("Active").uncheck()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved.")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Model")).to_have_value("gpt-5-mini")
    now = agents.get(name)
    assert (now.model, now.tools, now.active, now.version) == ("gpt-5-mini", ["none"], False, 2)
    page.get_by_role("button", name="Remove agent").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.get_by_role("heading", name="Agents")).to_be_visible()
    expect(page.get_by_role("link", name=name, exact=True)).to_have_count(0)
    assert [agent.name for agent in agents.list()] == []


def test_the_default_agent_needs_no_setup(web: Web, memory: Memory) -> None:
    """Its settings say which defaults it uses, not that it is missing; saving them stores it."""
    page = web.open("/agents/assistant")
    expect(page.get_by_text("assistant uses the defaults: the main model")).to_be_visible()
    expect(page.get_by_text("set up", exact=False)).to_have_count(0)
    page.get_by_label("Prompt").fill("You help.")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("assistant uses the defaults")).to_have_count(0)
    assert memory.scope(tenant="default").agents.get("assistant").prompt == "You help."


def test_a_conflicting_edit_is_shown_and_neither_is_lost(web: Web, memory: Memory) -> None:
    agents = memory.scope(tenant="default").agents
    agents.add("scout", prompt="You scout.")
    page = web.open("/agents/scout")
    page.get_by_label("Prompt").fill("You scout ahead.")
    agents.edit("scout", model="other", icon="🐢")
    web.expects("412")
    page.get_by_role("button", name="Save").click()
    result = page.get_by_role("alert")
    expect(result).to_contain_text("Somebody else changed this agent in the meantime")
    expect(result).to_contain_text("other")
    expect(result).to_be_in_viewport()
    expect(page.get_by_label("Prompt")).to_have_value("You scout ahead.")
    with delay_requests(page, "**/api/agents/*", "PATCH"):
        result.get_by_role("button", name="Overwrite with mine").click()
        page.get_by_label("Prompt").fill("You scout ahead, and back.")
    expect(result).to_have_count(0)
    expect(page.get_by_label("Prompt")).to_have_value(
        "You scout ahead, and back."
    )  # was written on meanwhile
    now = agents.get("scout")
    assert (now.prompt, now.model, now.icon) == ("You scout ahead.", "other", "🐢")
    agents.edit("scout", prompt="You stay.")
    page.get_by_label("Prompt").fill("You run.")
    page.get_by_role("button", name="Save").click()
    result.get_by_role("button", name="Use theirs").click()
    expect(page.get_by_label("Prompt")).to_have_value("You stay.")
    assert agents.get("scout").prompt == "You stay."


def test_a_taken_name_is_rejected_and_the_form_stays(web: Web, memory: Memory) -> None:
    memory.scope(tenant="default").agents.add("scout")
    page = web.open("/agents/new")
    page.get_by_label("Name").fill("scout")
    page.get_by_label("Prompt").fill("Another one.")
    web.expects("409")
    page.get_by_role("button", name="Create agent").click()
    expect(page.get_by_role("alert")).to_contain_text("An agent with this name already exists")
    expect(page.get_by_label("Name")).to_be_focused()
    expect(page.get_by_label("Prompt")).to_have_value("Another one.")


def test_proposals_are_found_accepted_undone_and_refused(web: Web) -> None:
    """A person decides on consolidations, with their sources in view."""
    me = web.me
    old = datetime.now(UTC) - timedelta(days=6)
    values = [
        "Ada plans a trip to Lisbon by train.",
        "The trip to Lisbon needs a night train.",
        "Lisbon: the train leaves at nine.",
    ]
    me.entries.add_many(
        [
            {"content": text, "created_at": (old + timedelta(hours=n)).isoformat()}
            for n, text in enumerate(values)
        ]
    )
    web.stop()
    web.model = None
    web.start()
    page = web.open("/agents/scout/proposals")
    expect(page.get_by_role("heading", name="Nothing is proposed")).to_be_visible()
    page.get_by_role("button", name="Look for proposals now").click()
    proposal = page.get_by_role("article")
    expect(proposal).to_have_count(1)
    expect(proposal).to_contain_text("Lisbon")
    expect(proposal.get_by_role("list").get_by_role("listitem").first).to_contain_text("Lisbon")
    page.get_by_role("button", name="Accept", exact=True).click()
    expect(proposal).to_contain_text("Accepted")
    assert me.entries.counts() == {"core": 1, "journal": 3}
    page.get_by_role("button", name="Undo", exact=True).click()
    expect(proposal).to_contain_text("Undone")
    assert me.entries.counts() == {"core": 0, "journal": 3}
    expect(page.get_by_role("button", name="Skipped")).to_be_visible()
    page.get_by_role("button", name="Undone").click()
    page.get_by_role("button", name="Accept after all").click()
    expect(proposal).to_contain_text("Accepted")
    proposal.get_by_role("link", name="the core entry").click()
    expect(page.get_by_role("region", name="Linked entry")).to_contain_text("Lisbon")


def test_the_models_of_the_service_can_be_chosen(web: Web) -> None:
    page = web.open("/agents/scout")
    offered = page.locator(f"#{page.get_by_label('Model').get_attribute('list')} option")
    expect(offered).to_have_count(1)
    assert offered.get_attribute("value") == "echo"


def test_an_unusable_model_is_reported(web: Web) -> None:
    me = web.me
    old = (datetime.now(UTC) - timedelta(days=6)).isoformat()
    me.entries.add_many([{"content": "Ada plans a trip.", "created_at": old}])
    page = web.open("/agents/scout/proposals")
    web.expects("502", "503")
    page.get_by_role("button", name="Look for proposals now").click()
    expect(page.get_by_role("alert")).to_contain_text("echo")
    expect(page.get_by_role("alert").get_by_role("button", name="Try again")).to_be_visible()


def test_a_whiteboard_is_shared_written_and_read(web: Web, memory: Memory) -> None:
    """The chosen agents share it and read it in their context."""
    memory.scope(tenant="default").agents.add("planner")
    page = web.open("/agents/scout/whiteboard")
    expect(page.get_by_role("heading", name="scout shares no whiteboard")).to_be_visible()
    page.get_by_role("button", name="New board").click()
    page.get_by_label("Name").fill("trips/2027")
    page.get_by_label("planner").check()
    page.get_by_role("button", name="Save").click()
    board = page.get_by_role("region", name="Whiteboard trips/2027")
    board.get_by_label("A line for trips/2027, as scout").fill("Porto first.")
    board.get_by_role("button", name="Write").click()
    lines = board.get_by_role("article")
    expect(lines).to_have_count(1)
    planner = memory.scope(tenant="default", user="default", agent="planner")
    planner.entries.add("Then Lisbon.", kind="whiteboard", board="trips/2027")
    page.reload()
    expect(lines).to_have_count(2)
    expect(lines.first).to_contain_text("planner")
    board.get_by_role("button", name="Edit: Then Lisbon").click()
    board.get_by_label("Content").fill("Then Lisbon, by train.")
    board.get_by_role("button", name="Save").click()
    expect(lines.first).to_contain_text("by train.")
    board.get_by_role("button", name="Delete: Porto").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(lines).to_have_count(1)
    page.get_by_text("As the agent sees it").click()
    expect(page.locator("pre")).to_contain_text("Then Lisbon, by train.")
    board.get_by_role("button", name="Manage access").click()
    page.get_by_label("planner").uncheck()
    page.get_by_role("button", name="Save").click()
    expect(board.get_by_text("planner", exact=True)).to_have_count(
        1
    )  # its line stays for the others
    assert planner.entries.boards() == {}

"""What a newcomer stumbled over: names, dates, notices, headings and places where one looks first."""

from __future__ import annotations

from datetime import UTC, datetime

from playwright.sync_api import expect

from memorist.testing import ScriptedModel, calling
from testkit.browser import Web
from testkit.model_service import FakeService

LOADING = 90_000
"""The first call of a model imports its libraries."""


def imported(web: Web) -> str:
    """Store a conversation of the year 2020 without a label and without turns."""
    scope = web.me
    session = scope.sessions.add()
    at = datetime(2020, 5, 1, 12, tzinfo=UTC)
    scope.messages.append(session.id, "user", "My sister keeps bees in Porto.", created_at=at)
    scope.messages.append(session.id, "assistant", "How nice.", created_at=at)
    return session.id


def test_an_imported_conversation_has_its_own_date_and_no_empty_why(web: Web) -> None:
    session = imported(web)
    page = web.open(f"/chat/scout/{session}")
    item = page.get_by_role("list", name="Conversations", exact=True).get_by_role("listitem")
    expect(item).to_contain_text("years ago")
    answer = page.get_by_role("article", name="said").last
    expect(answer).to_contain_text("How nice.")
    expect(answer.get_by_role("link", name="Why")).to_have_count(0)
    web.me.save_turn(
        session,
        [{"role": "user", "content": "Where?"}, {"role": "assistant", "content": "In Porto."}],
    )
    page.reload()
    expect(answer).to_contain_text("In Porto.")
    expect(answer.get_by_role("link", name="Why")).to_have_count(1)


def test_a_conversation_has_one_name_everywhere(web: Web) -> None:
    session = imported(web)
    name = "My sister keeps bees in Porto."
    page = web.open(f"/chat/scout/{session}")
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    expect(page.get_by_role("list", name="Conversations", exact=True)).to_contain_text(name)
    web.open("/why")
    expect(page.get_by_label("Conversation").locator("option:checked")).to_have_text(name)
    web.open("/search?q=bees")
    expect(page.get_by_role("list", name="Found")).to_contain_text(f"in {name}")


def test_the_no_model_notice_is_dismissed_and_leads_to_the_set_up(web: Web) -> None:
    web.model = None
    web.restart()
    page = web.open("/chat")
    notice = page.get_by_role("region", name="No model")
    expect(notice).to_have_count(1)
    notice.get_by_role("link", name="Set up a model").click()
    with FakeService("ready") as service:
        page.get_by_label("Provider").select_option("Another OpenAI-compatible service")
        page.get_by_label("URL").fill(service.url)
        page.get_by_role("button", name="List models").click()
        expect(page.get_by_text("1 available")).to_be_visible(timeout=LOADING)
        expect(page.locator("datalist option[value=fake]")).to_have_count(1)
        page.get_by_label("Model").fill("m1")
        page.get_by_role("button", name="Test").click()
        expect(page.get_by_role("status").filter(has_text="m1 works.")).to_be_visible(
            timeout=LOADING
        )
        assert web.axe() == []
        page.get_by_role("button", name="Use this model").click()
        expect(page.get_by_text("The server uses m1 now.")).to_be_visible()
        web.open("/chat")
        expect(page.get_by_role("textbox", name="Message")).to_be_visible()
        expect(notice).to_have_count(0)
    web.restart()
    web.open("/chat")
    notice.get_by_role("button", name="Dismiss").click()
    expect(notice).to_have_count(0)
    page.reload()
    expect(page.get_by_role("textbox", name="Message")).to_be_visible()
    expect(notice).to_have_count(0)


def test_a_model_that_does_not_answer_is_reported(web: Web) -> None:
    page = web.open("/setup")
    page.get_by_label("Provider").select_option("Another OpenAI-compatible service")
    page.get_by_label("URL").fill("http://127.0.0.1:9/v1")
    page.get_by_label("Model").fill("m1")
    page.get_by_role("button", name="Test").click()
    expect(page.get_by_role("alert")).to_contain_text("The test failed.", timeout=LOADING)
    expect(page.get_by_role("button", name="Use this model")).to_be_disabled()


def test_search_says_first_that_nothing_was_found(web: Web) -> None:
    imported(web)
    page = web.open("/search?q=bees")
    hit = page.get_by_role("list", name="Found").get_by_role("listitem").first
    expect(hit.get_by_role("list", name="Why it was found")).to_be_hidden()
    hit.get_by_text("Why this hit").click()
    expect(hit.get_by_role("list", name="Why it was found")).to_be_visible()
    web.open("/search?q=zzyzx&kinds=state")
    nothing = page.get_by_role("heading", name="Nothing found")
    expect(nothing).to_be_visible()
    legs = page.get_by_role("status").filter(has_text="0 hits")
    above = nothing.bounding_box()
    below = legs.bounding_box()
    assert above is not None
    assert below is not None
    assert above["y"] < below["y"]


def test_memory_has_everything_in_one_place_for_the_agent_in_use(web: Web) -> None:
    imported(web)
    web.me.notes.append("Bees need sun.")
    web.me.entries.add("Her sister keeps bees.", kind="core")
    web.scope(source="tool").entries.add("I am the administrator.", kind="core")  # not counted
    page = web.open("/memory/entries")
    expect(page.get_by_role("button", name="Core 1")).to_be_visible()
    tabs = page.get_by_role("navigation", name="Kinds of memory").get_by_role("link")
    expect(tabs).to_have_text(["Facts", "Entries", "Notes", "References", "Documents", "State"])
    expect(page.get_by_label("Agent")).to_have_value("scout")
    expect(page.get_by_text("Her sister keeps bees.")).to_be_visible()
    assert web.axe() == []
    tabs.filter(has_text="Notes").click()
    expect(page.get_by_text("Bees need sun.")).to_be_visible()


def test_an_unknown_address_is_a_page(web: Web) -> None:
    web.expects("404")
    page = web.open("/no/such/page")
    expect(page.get_by_role("heading", name="Page not found")).to_be_visible()
    expect(page.get_by_role("link", name="Go to the chat")).to_be_visible()


def test_tabs_on_a_phone_show_that_there_are_more(web: Web) -> None:
    page = web.device(viewport={"width": 390, "height": 844})
    web.open("/operations", page)
    more = page.get_by_role("button", name="More tabs")
    expect(more).to_be_visible()
    for _ in range(4):
        if more.count():
            more.click()
            page.wait_for_timeout(300)
    expect(more).to_have_count(0)
    expect(page.get_by_role("button", name="Earlier tabs")).to_be_visible()
    expect(page.get_by_role("link", name="Audit log")).to_be_in_viewport()
    web.open("/memory/state")  # the current tab stays in view when the window shrinks
    state = web.page.get_by_role("navigation", name="Kinds of memory").get_by_role(
        "link", name="State"
    )
    expect(state).to_be_visible()
    web.page.set_viewport_size({"width": 390, "height": 844})
    expect(state).to_be_in_viewport(ratio=0.9)


def test_a_page_opened_without_a_server_continues_with_it(web: Web) -> None:
    web.expects("ERR_CONNECTION_REFUSED", "could not be loaded")
    page = web.open("/")
    expect(page.get_by_role("textbox", name="Message")).to_be_visible()
    web.stop()
    page.get_by_role("link", name="Agents").click()
    expect(page.get_by_role("alert")).to_contain_text("could not be loaded")
    web.start()
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name="Agents", level=1)).to_be_visible()


def test_chat_says_that_memory_was_updated_and_forgets(web: Web) -> None:
    fact = "Clara is allergic to nuts."
    web.model = ScriptedModel(calling(("save_to_core", {"content": fact})), "I will remember that.")
    page = web.open("/chat/assistant")
    page.get_by_role("textbox", name="Message").fill("Clara is allergic to nuts.")
    page.get_by_role("button", name="Send").click()
    update = page.get_by_text("Memory updated").locator("..")
    expect(update).to_contain_text(fact)
    entries = web.scope("assistant").entries
    assert [entry.content for entry in entries.list()] == [fact]
    update.get_by_role("button", name="Forget this").click()
    expect(page.get_by_text("Forgotten", exact=True)).to_be_visible()
    assert entries.list().items == []

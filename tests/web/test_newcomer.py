"""What a newcomer stumbled over: names, dates, notices, headings and places where one looks first."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from playwright.sync_api import expect

from retain import Memory, Scope
from retain.testing import FakeService, ScriptedModel, calling
from tests.conftest import one_engine
from tests.web.browsing import Web

pytestmark = one_engine
LOADING = 90_000
"""The first call of a model imports its libraries."""


def me(memory: Memory, agent: str = "scout", source: str = "user") -> Scope:
    return memory.scope(tenant="default", user="default", agent=agent, source=source)  # type: ignore[arg-type]


def imported(memory: Memory) -> str:
    """Store a conversation of the year 2020 without a label and without turns."""
    scope = me(memory)
    session = scope.sessions.add()
    at = datetime(2020, 5, 1, 12, tzinfo=UTC)
    scope.messages.append(session.id, "user", "My sister keeps bees in Porto.", created_at=at)
    scope.messages.append(session.id, "assistant", "How nice.", created_at=at)
    return session.id


def test_an_imported_conversation_has_its_own_date_and_no_empty_why(
    web: Web, memory: Memory
) -> None:
    session = imported(memory)
    page = web.open(f"/chat/scout/{session}")
    item = page.get_by_role("list", name="Conversations", exact=True).get_by_role("listitem")
    expect(item).to_contain_text("years ago")
    answer = page.get_by_role("article", name="said").last
    expect(answer).to_contain_text("How nice.")
    expect(answer.get_by_role("link", name="Why")).to_have_count(0)
    me(memory).save_turn(
        session,
        [{"role": "user", "content": "Where?"}, {"role": "assistant", "content": "In Porto."}],
    )
    page.reload()
    expect(answer).to_contain_text("In Porto.")
    expect(answer.get_by_role("link", name="Why")).to_have_count(1)


def test_a_conversation_has_one_name_everywhere(web: Web, memory: Memory) -> None:
    session = imported(memory)
    name = "My sister keeps bees in Porto."
    page = web.open(f"/chat/scout/{session}")
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    expect(page.get_by_role("list", name="Conversations", exact=True)).to_contain_text(name)
    web.open("/why")
    expect(page.get_by_label("Conversation").locator("option:checked")).to_have_text(name)
    web.open("/search?q=bees")
    expect(page.get_by_role("list", name="Found")).to_contain_text(f"in {name}")


def test_why_shows_the_text_and_the_conversation_of_what_was_recalled(
    web: Web, memory: Memory
) -> None:
    imported(memory)
    scope = me(memory)
    session = scope.sessions.add(label="Today")
    context = scope.context(session.id, "Where does my sister keep bees?")
    turn = scope.save_turn(
        session.id,
        [
            {"role": "user", "content": "Where does my sister keep bees?"},
            {"role": "assistant", "content": "In Porto."},
        ],
        context=context,
    )
    page = web.open(f"/why/{turn.id}")
    row = page.locator("summary").filter(has_text="of “My sister keeps bees in Porto.”").first
    expect(row).to_contain_text("My sister keeps bees in Porto.")
    row.click()
    page.get_by_role("link", name="Open the original").first.click()
    expect(page.get_by_role("article", name="You said")).to_contain_text("bees")


@pytest.mark.smoke
def test_the_no_model_notice_is_dismissed_and_leads_to_the_set_up(web: Web, memory: Memory) -> None:
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


def test_search_says_first_that_nothing_was_found(web: Web, memory: Memory) -> None:
    imported(memory)
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


def test_pending_entries_are_not_counted_as_memories(web: Web, memory: Memory) -> None:
    me(memory).entries.add("Ada lives in Ulm.", kind="core")
    me(memory, source="tool").entries.add("I am the administrator.", kind="core")
    assert me(memory).entries.counts() == {"core": 1, "journal": 0, "pending": 1}
    page = web.open("/memory/entries?agent=scout")
    expect(page.get_by_role("button", name="Core 1")).to_be_visible()


def test_memory_has_everything_in_one_place_for_the_agent_in_use(web: Web, memory: Memory) -> None:
    imported(memory)
    me(memory).notes.append("Bees need sun.")
    me(memory).entries.add("Her sister keeps bees.", kind="core")
    page = web.open("/memory/entries")
    tabs = page.get_by_role("navigation", name="Kinds of memory").get_by_role("link")
    expect(tabs).to_have_text(["Facts", "Entries", "Notes", "References", "Documents", "State"])
    expect(page.get_by_label("Agent")).to_have_value("scout")
    expect(page.get_by_text("Her sister keeps bees.")).to_be_visible()
    assert web.axe() == []
    tabs.filter(has_text="Notes").click()
    expect(page.get_by_text("Bees need sun.")).to_be_visible()


@pytest.mark.parametrize("path", ["/nowhere", "/no/such/page"])
def test_an_unknown_address_is_a_page(web: Web, path: str) -> None:
    web.expects("404")
    page = web.open(path)
    expect(page.get_by_role("heading", name="Page not found")).to_be_visible()
    expect(page.get_by_role("link", name="Go to the chat")).to_be_visible()


def test_the_current_tab_stays_in_view_when_the_window_shrinks(web: Web) -> None:
    page = web.open("/memory/state")
    state = page.get_by_role("navigation", name="Kinds of memory").get_by_role("link", name="State")
    expect(state).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 844})
    expect(state).to_be_in_viewport(ratio=0.9)


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


def test_headings_come_in_order(web: Web, memory: Memory) -> None:
    session = imported(memory)
    page = web.page
    for path in (
        f"/chat/scout/{session}",
        "/why",
        "/agents",
        "/memory/facts",
        "/memory/entries",
        "/memory/notes",
        "/search?q=bees",
        "/users",
        "/users/default",
        "/operations",
        "/operations/health",
        "/nowhere",
    ):
        web.expects("404")
        web.open(path)
        expect(page.get_by_role("heading", level=1).first).to_be_visible()
        expect(page.get_by_text("Loading")).to_have_count(0)
        levels = page.evaluate(
            "[...document.querySelectorAll('h1,h2,h3,h4')].map((node) => Number(node.tagName[1]))"
        )
        assert levels[0] == 1 or 1 in levels, (path, levels)
        for before, after in zip(levels, levels[1:], strict=False):
            assert after - before <= 1, (path, levels)


def test_operations_say_whose_data_they_show_and_sort_calls(web: Web, memory: Memory) -> None:
    calls = me(memory).interactions
    calls.add("chat", "slow", latency_ms=5000, tokens_in=1, tokens_out=1)
    calls.add("chat", "quick", latency_ms=10, tokens_in=500, tokens_out=1)
    page = web.open("/operations")
    expect(page.get_by_text("Data of all users")).to_be_visible()
    expect(page.get_by_text("p95 latency")).to_be_visible()
    web.open("/operations/calls")
    rows = page.get_by_role("table", name="Calls").locator("tbody tr")
    expect(rows).to_have_count(2)
    page.get_by_role("button", name="Took").click()
    expect(rows.first).to_contain_text("slow")
    expect(rows.first).to_contain_text("default")
    page.get_by_role("button", name="Took").click()
    expect(rows.first).to_contain_text("quick")


def test_a_call_opens_with_its_prompt_and_answer(web: Web, memory: Memory) -> None:
    session = me(memory).sessions.add("trip")
    messages = [
        {"role": "user", "content": "Where?"},
        {"role": "assistant", "content": "In Lisbon."},
    ]
    me(memory).save_turn(session.id, messages, usage={"model": "the-one", "tokens_in": 1})
    page = web.open("/operations/calls")
    page.get_by_role("button", name="the-one").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("region", name="Prompt")).to_contain_text("Where?")
    expect(dialog.get_by_role("region", name="Answer")).to_contain_text("In Lisbon.")


@pytest.mark.smoke
def test_chat_says_that_memory_was_updated_and_forgets(web: Web, memory: Memory) -> None:
    fact = "Clara is allergic to nuts."
    web.model = ScriptedModel(calling(("save_to_core", {"content": fact})), "I will remember that.")
    page = web.open("/chat/assistant")
    page.get_by_role("textbox", name="Message").fill("Clara is allergic to nuts.")
    page.get_by_role("button", name="Send").click()
    update = page.get_by_text("Memory updated").locator("..")
    expect(update).to_contain_text(fact)
    entries = me(memory, "assistant").entries
    assert [entry.content for entry in entries.list()] == [fact]
    update.get_by_role("button", name="Forget this").click()
    expect(page.get_by_text("Forgotten", exact=True)).to_be_visible()
    assert entries.list().items == []

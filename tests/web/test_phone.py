"""A phone with a bad connection: no form loses its input when the server is away."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Locator, Page, expect

from memorist import Memory
from testkit.browser import Web

PHONE = {"width": 390, "height": 844}
Filled = tuple[Locator, Locator, str]
"""A field, the button that sends it, and what was typed."""


def opened(page: Page, button: str) -> Locator:
    """Open the dialog of a button and return it."""
    page.locator("main").get_by_role("button", name=button, exact=True).click()
    return page.get_by_role("dialog")


def filled(page: Page, label: str, text: str, button: str, inside: Locator | None = None) -> Filled:
    """Type text into an existing form."""
    place: Page | Locator = inside or page
    field = place.get_by_label(label, exact=True).first
    field.fill(text)
    return field, place.get_by_role("button", name=button, exact=True), text


def a_state(page: Page) -> Filled:
    """Fill two fields and return the second."""
    dialog = opened(page, "Add")
    dialog.get_by_label("Key", exact=True).fill("city")
    return filled(page, "Value, as JSON", '"Porto on the train"', "Save", dialog)


FORMS: dict[str, Callable[[Page], Filled]] = {
    "/agents/new": lambda page: filled(page, "Name", "train agent", "Create agent"),
    "/agents/scout": lambda page: filled(page, "Prompt", "You ride trains.", "Save"),
    "/agents/scout/memory": lambda page: filled(
        page, "Content", "A train entry", "Add", opened(page, "Add")
    ),
    "/memory/notes?agent=scout&view=edit": lambda page: filled(
        page, "Notes, as Markdown", "A train note", "Save"
    ),
    "/memory/facts": lambda page: filled(
        page, "Fact", "The user rides trains.", "Add", opened(page, "Add")
    ),
    "/memory/state": a_state,
    "/memory/refs": lambda page: filled(
        page, "Content", "A train output", "Store", opened(page, "Add")
    ),
}


def test_every_form_keeps_its_input_without_a_server(web: Web) -> None:
    """Each form reports the failure, keeps the input, and saves it when the server is back."""
    me = web.me
    me.agents.add("scout", prompt="You scout.")
    me.notes.overwrite("Before")
    web.expects("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE", "ERR_EMPTY", "ERR_CONNECTION_RESET")
    forms: list[tuple[Page, Filled]] = []
    for path, fill in FORMS.items():
        page = web.tab()
        page.set_viewport_size(PHONE)  # type: ignore[arg-type]
        web.open(path, page)
        forms.append((page, fill(page)))
    web.stop()
    for page, (field, send, text) in forms:
        send.click()
        expect(page.get_by_role("alert").filter(has_text="does not answer").first).to_be_visible()
        expect(field).to_have_value(text)
    web.start()
    for page, (_, send, _) in forms:
        with page.expect_response(lambda answer: answer.request.method != "GET" and answer.ok):
            send.click()  # while it is under way the button is disabled, too
        expect(send.and_(page.locator(":not(:disabled)"))).to_have_count(0)
    assert {agent.name for agent in me.agents.list()} == {"scout", "train agent"}
    assert me.agents.get("scout").prompt == "You ride trains."
    assert me.notes.read().text.strip() == "A train note"
    assert [fact.statement for fact in me.facts.list()] == ["The user rides trains."]
    assert me.state.get("city").value == "Porto on the train"
    assert [entry.content for entry in me.entries.list()] == ["A train entry"]
    assert [me.refs.content(ref.key) for ref in me.refs.list()] == [b"A train output"]


def test_an_unsent_message_is_sent_once_later(web: Web, memory: Memory) -> None:
    """A message sent without a server waits in the browser, also through a reload, and is sent
    once.
    """
    web.expects("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE", "ERR_EMPTY", "ERR_CONNECTION_RESET")
    page = web.open("/chat")
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    page.get_by_label("Message", exact=True).fill("On the train")
    web.stop()
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("article", name="You said")).to_contain_text("On the train")
    web.start()
    page.reload()
    expect(page.get_by_text("You said: On the train", exact=True)).to_be_visible()
    me = memory.scope(tenant="default", user="default", agent="assistant")
    assert [message.text for message in me.messages.window(me.sessions.active().id)] == [
        "On the train",
        "You said: On the train",
    ]

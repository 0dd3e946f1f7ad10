"""The conversation that a browser resumes (C6), in all cases; no message is lost or sent twice."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from memorist import Memory
from memorist.kinds.sessions import Session
from testkit.browser import Web

USER, AGENT = "default", "assistant"


def stored(page: Page, agent: str = AGENT, user: str = USER) -> str | None:
    """Return the session id that the browser stores."""
    result: str | None = page.evaluate(f"localStorage.getItem('chatSession_{user}_{agent}')")
    return result


def active(memory: Memory, agent: str = AGENT) -> Session:
    """Return the active session of the server."""
    return memory.scope(user=USER, agent=agent).sessions.active()


def chat(web: Web, page: Page | None = None, path: str = "/chat") -> Page:
    """Open the chat and wait until it accepts input."""
    page = web.open(path, page)
    expect(page.get_by_label("Message", exact=True)).to_be_visible()
    return page


def say(page: Page, text: str) -> None:
    """Send a message and wait for the whole answer."""
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")
    expect_answer(page, text)
    expect(page.get_by_role("link", name="Why").last).to_be_visible()


def expect_answer(page: Page, text: str) -> None:
    """Wait for the answer to a message in the conversation.

    The text for screen readers may repeat it: after a reload, an answer that was still being
    received is received again.
    """
    answer = page.get_by_role("article", name="assistant said").get_by_text(f"You said: {text}")
    expect(answer).to_be_visible()


def test_a_conversation_is_resumed(web: Web, memory: Memory) -> None:
    """After a reload, in a new window, after a server restart, on another device, without
    storage.
    """
    page = chat(web)
    say(page, "My sister lives in Lisbon.")
    id = active(memory).id
    assert stored(page) == id
    page.reload()
    expect_answer(page, "My sister lives in Lisbon.")
    window = chat(web, web.tab())
    expect_answer(window, "My sister lives in Lisbon.")
    web.restart()
    other = chat(web, web.device())
    expect_answer(other, "My sister lives in Lisbon.")
    assert stored(other) == id
    page.evaluate("localStorage.clear()")
    page.reload()
    expect_answer(page, "My sister lives in Lisbon.")
    assert stored(page) == active(memory).id == id
    assert len(memory.scope(user=USER).sessions.list()) == 1


def test_a_stale_id_is_replaced_and_agents_have_separate_conversations(
    web: Web, memory: Memory
) -> None:
    """An id that the server does not confirm is replaced by the active session."""
    me = memory.scope(user=USER, agent=AGENT)
    old, new = me.sessions.add(), me.sessions.add()
    me.messages.append(old.id, "user", "This is over.")
    me.messages.append(new.id, "user", "This goes on.")
    scout = memory.scope(user=USER, agent="scout")
    scout.agents.add("scout")
    page = web.open("/healthz")
    page.evaluate(f"localStorage.setItem('chatSession_{USER}_{AGENT}', '{old.id}')")
    chat(web, page)
    expect(page.get_by_role("article").get_by_text("This goes on.")).to_be_visible()
    assert stored(page) == new.id
    page.get_by_label("Agent").select_option("scout")
    expect(page.get_by_role("heading", name="Talk to scout")).to_be_visible()
    assert stored(page, "scout") == scout.sessions.active().id != new.id
    assert stored(page) == active(memory).id == new.id
    chat(web, page)
    expect(page.get_by_role("heading", level=1, name="scout")).to_be_visible()


def test_two_windows_of_a_first_visit_share_a_conversation(web: Web, memory: Memory) -> None:
    """Both find no session, and both use the one that is created."""
    first, second = web.page, web.tab()
    for page in (first, second):
        page.goto(f"{web.url}/chat", wait_until="commit")
    for page in (first, second):
        expect(page.get_by_label("Message", exact=True)).to_be_visible()
    assert stored(first) == stored(second) == active(memory).id
    assert len(memory.scope(user=USER).sessions.list()) == 1


def test_a_new_conversation_in_another_window_is_announced(web: Web, memory: Memory) -> None:
    """A window writes only to the conversation that it shows, and offers to switch."""
    here = chat(web)
    say(here, "one")
    old = active(memory).id
    there = chat(web, web.tab())
    there.keyboard.press("Alt+n")
    expect(there.get_by_role("heading", name="Talk to assistant")).to_be_visible()
    expect(here.get_by_text("another conversation in another window")).to_be_visible()
    say(here, "two")
    assert [message.text for message in memory.scope(user=USER).messages.window(old)][2] == "two"
    expect(there.get_by_role("link", name="Why").last).to_be_visible()
    device = chat(web, web.device())
    device.get_by_role("button", name="New conversation").click()
    expect(device.get_by_role("heading", name="Talk to assistant")).to_be_visible()
    say(device, "three")
    here.get_by_role("button", name="Stay here").click()
    here.evaluate("dispatchEvent(new Event('focus'))")
    here.get_by_role("button", name="Go there").click()
    expect_answer(here, "three")
    assert stored(here) == active(memory).id


def test_a_browser_without_storage(web: Web, memory: Memory) -> None:
    """The server alone knows the active session."""
    web.page.add_init_script(
        "for (const name of ['getItem', 'setItem', 'removeItem'])"
        " Storage.prototype[name] = () => { throw new DOMException('denied', 'SecurityError') }"
    )
    page = chat(web)
    say(page, "Lisbon")
    page.reload()
    expect_answer(page, "Lisbon")
    assert len(memory.scope(user=USER).sessions.list()) == 1


def test_past_conversations(web: Web, memory: Memory) -> None:
    """Listed, searched by name and content, renamed, resumed and deleted."""
    me = memory.scope(user=USER, agent=AGENT)
    porto = me.sessions.add()
    me.messages.append(porto.id, "user", "Porto has six bridges.")
    me.messages.append(porto.id, "assistant", "It does.", author=AGENT)
    me.sessions.add(label="Empty")
    page = chat(web)
    say(page, "Something else")
    listed = page.get_by_role("list", name="Conversations", exact=True)
    expect(listed.get_by_role("listitem")).to_have_count(2)
    listed.get_by_role("link", name="Porto has six bridges.").hover()
    page.get_by_role("button", name="Rename Porto has six bridges.").click()
    page.get_by_label("Name of the conversation").fill("Bridges")
    page.keyboard.press("Enter")
    expect(listed.get_by_role("link", name="Bridges")).to_be_visible()
    assert me.sessions.get(porto.id).label == "Bridges"
    page.get_by_label("Search conversations").fill("bridges")
    expect(page.get_by_role("list", name="Found by name").get_by_role("listitem")).to_have_count(1)
    page.get_by_role("list", name="Matching messages").get_by_role(
        "link", name="Porto has six bridges."
    ).click()
    expect(page).to_have_url(f"{web.url}/chat/{AGENT}/{porto.id}?at=1")
    expect(page.get_by_role("article").get_by_text("Porto has six bridges.")).to_be_visible()
    assert active(memory).id != porto.id  # to look at it is not to go on with it
    page.get_by_label("Search conversations").fill("")
    listed.get_by_role("link", name="Bridges").click()
    expect(page).to_have_url(f"{web.url}/chat/{AGENT}/{porto.id}")
    assert active(memory).id == stored(page) == porto.id
    page.get_by_label("Message", exact=True).fill("A draft")
    page.get_by_role("button", name="Delete Bridges").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("The conversation is deleted.")).to_be_visible()
    expect(listed.get_by_role("link", name="Bridges")).to_have_count(0)
    expect(page.get_by_label("Message", exact=True)).to_be_visible()
    assert porto.id not in [session.id for session in me.sessions.list()]
    assert page.evaluate(f"localStorage.getItem('chatDraft_{USER}_{porto.id}')") is None


def test_many_conversations(web: Web, memory: Memory) -> None:
    """Titles come from the first messages; loaded ones stay; one deleted elsewhere is reported."""
    me = memory.scope(user=USER, agent=AGENT)
    for number in range(35):
        me.messages.append(me.sessions.add().id, "user", f"Question {number}")
        me.sessions.add()  # in which nothing is said
    requests: list[str] = []
    web.page.on("request", lambda request: requests.append(request.url))
    page = chat(web)
    listed = page.get_by_role("list", name="Conversations", exact=True).get_by_role("listitem")
    expect(listed).to_have_count(30)
    page.get_by_role("button", name="More").click()
    expect(listed).to_have_count(35)
    expect(listed.last).to_contain_text("Question 0")
    assert (
        sum("/window" in url for url in requests) <= 1
    )  # the messages that are shown, not one request for each name
    say(page, "Lisbon")
    expect(listed).to_have_count(36)
    expect(listed.first).to_contain_text("Lisbon")
    web.expects("404")
    me.sessions.remove(active(memory).id)
    page.evaluate("dispatchEvent(new Event('focus'))")
    expect(page.get_by_role("link", name="Go to your current conversation")).to_be_visible()

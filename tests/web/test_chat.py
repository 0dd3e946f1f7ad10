"""The chat in the browser: streamed answers, what was used for them, and no lost text."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import FilePayload, Page, expect

from memorist import Memory
from memorist.chat import turn_lock
from memorist.models import ModelReply
from memorist.testing import EchoModel, FailingModel, ScriptedModel, calling
from testkit.browser import Web
from testkit.limited import Limited

USER, AGENT = "default", "assistant"
PIXEL = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")


class SlowModel(ScriptedModel):
    """A model that sends the beginning of its answer, and the rest when released."""

    def __init__(self) -> None:
        super().__init__("Once upon a time")
        self.go = threading.Event()

    def converse(self, *given: Any, on_text: Any = None, **more: Any) -> ModelReply:
        """Start at once and wait for the release before the end."""
        if on_text:
            on_text("Once upon ")
        self.go.wait(30)
        if on_text:
            on_text("a time")
        return super().converse(*given, **more)


@pytest.fixture
def slow(web: Web) -> Iterator[SlowModel]:
    """A slow model as the model of the server, released at the end of the test."""
    web.model = model = SlowModel()
    yield model
    model.go.set()


def chat(web: Web, path: str = "/chat") -> Page:
    """Open the chat and wait until it accepts input."""
    page = web.open(path)
    expect(page.get_by_label("Message", exact=True)).to_be_visible()
    return page


def say(page: Page, text: str) -> None:
    """Type a message and send it."""
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")


def answered(page: Page, text: str) -> None:
    """Wait until the whole answer is shown as it is stored."""
    article = page.get_by_role("article").filter(has_text=text).last
    expect(article.get_by_role("link", name="Why")).to_be_visible()


def said(memory: Memory) -> list[str]:
    """Return the stored messages of the active conversation."""
    me = memory.scope(user=USER, agent=AGENT)
    return [message.text for message in me.messages.window(me.sessions.active().id)]


@pytest.mark.smoke
def test_a_first_fact_is_remembered_without_a_model(web: Web, memory: Memory) -> None:
    """The page says that there is no model, stores the message, and answers from memory."""
    web.model = None
    web.restart()
    page = chat(web, "/")
    expect(page.get_by_role("region", name="No model")).to_be_visible()
    assert web.axe() == []
    page.get_by_role("button", name="My sister lives in Lisbon").click()
    answered(page, "No model is set")
    say(page, "Where does my sister live?")
    answers = page.get_by_role("article", name="assistant said")
    expect(answers).to_have_count(2)
    expect(answers.last).to_contain_text("Lisbon")
    expect(page.get_by_role("article").get_by_role("link", name="Why")).to_have_count(2)
    assert len(said(memory)) == 4
    page.get_by_role("button", name="New conversation", exact=True).click()
    expect(page.get_by_role("heading", name="Talk to assistant")).to_be_visible()
    say(page, "Where does my sister live?")
    expect(answers).to_have_count(1)
    expect(answers.last).to_contain_text("Lisbon")
    assert len(memory.scope(user=USER).sessions.list()) == 2


@pytest.mark.smoke
def test_an_answer_is_streamed(web: Web, memory: Memory, slow: SlowModel) -> None:
    """The first word is shown while the model writes; a reload loses and repeats nothing."""
    page = chat(web)
    say(page, "Tell me a story")
    expect(page.get_by_text("Once upon")).to_be_visible()
    assert not slow.go.is_set()
    page.reload()
    expect(page.get_by_text("Once upon")).to_be_visible()
    page.get_by_role("button", name="Stop following the answer").click()
    expect(page.get_by_text("You stopped following the answer")).to_be_visible()
    page.get_by_role("button", name="Reconnect").click()
    slow.go.set()
    answered(page, "Once upon a time")
    expect(page.get_by_role("article", name="You said")).to_have_count(1)
    assert said(memory) == ["Tell me a story", "Once upon a time"]
    assert page.evaluate("localStorage.getItem('chatOutbox_default')") is None


@pytest.mark.smoke
def test_tool_calls_references_and_hostile_text(web: Web, memory: Memory) -> None:
    """Calls are collapsed lines, placeholders open their content; no text runs or loads
    anything.
    """
    me = memory.scope(user=USER, agent=AGENT)
    key = me.refs.add(
        "\n".join(f"line {n}" for n in range(2000)), "A long listing", type="command_output"
    ).key
    bad = "<script>document.title='owned'</script> <img src=x onerror=\"document.title='owned'\"> ![b](http://127.0.0.2/b)"
    web.model = ScriptedModel(
        calling(
            ("save_to_core", {"content": "Sister in Lisbon"}),
            ("no_such_tool", {}),
            text="One moment.",
        ),
        f"Noted: [MemoryRef: {key} - A long listing] {bad}",
    )
    page = chat(web)
    say(page, bad)
    answered(page, "Noted:")
    page.get_by_text("save_to_core").first.click()
    expect(page.get_by_text("Sister in Lisbon").first).to_be_visible()
    expect(page.get_by_text("failed", exact=True)).to_be_visible()
    page.get_by_role("button", name="A long listing").click()
    expect(page.get_by_role("dialog").get_by_text("line 1", exact=False).first).to_be_visible()
    page.keyboard.press("Escape")
    assert page.title() != "owned"  # the name of the conversation is its first words, as text
    page.get_by_role("button", name="Cost").click()
    expect(page.get_by_text("tokens in")).to_be_visible()
    assert web.axe() == []
    web.screens("chat")
    link = page.get_by_role("article").get_by_role("link", name="Why")
    expect(link).to_have_attribute("href", f"/why?session={me.sessions.active().id}&seq=5")
    link.click()
    expect(page.get_by_role("heading", name="Why this answer")).to_be_visible()


def test_a_failing_model(web: Web, memory: Memory) -> None:
    """The error says what happened and offers a retry; the message is there once, also after a
    reload.
    """
    web.model = FailingModel()
    page = chat(web)
    say(page, "Are you there?")
    expect(page.get_by_role("alert")).to_contain_text("the answer is missing")
    page.get_by_label("Message", exact=True).fill("A draft")
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("the answer is missing")
    expect(page.get_by_label("Message", exact=True)).to_have_value("A draft")
    web.model = ScriptedModel("Here I am.")
    page.get_by_role("button", name="Try again").click()
    answered(page, "Here I am.")
    expect(page.get_by_role("alert")).to_have_count(0)
    assert said(memory) == ["Are you there?", "Here I am."]


def test_a_server_restart_during_an_answer(
    web: Web, memory: Memory, slow: SlowModel, monkeypatch: pytest.MonkeyPatch, limited: Limited
) -> None:
    """The page continues by itself, and every message is there once."""
    monkeypatch.setattr(turn_lock, "LEASE_SECONDS", 1.0)
    web.expects("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "503")
    limited(STOP_SECONDS=1)
    web.restart()
    page = chat(web)
    say(page, "Tell me a story")
    expect(page.get_by_text("Once upon")).to_be_visible()
    web.stop()
    slow.go.set()
    expect(page.get_by_text("The connection was lost. Trying again").first).to_be_visible()
    say(page, "And another")
    web.model = EchoModel(lambda prompt: f"You said: {prompt}")
    web.start()
    page.get_by_label("Message", exact=True).fill("And a draft")
    expect(page.get_by_role("article", name="You said")).to_have_count(2)
    expect(
        page.get_by_role("article", name="assistant said").get_by_role("link", name="Why")
    ).to_have_count(2, timeout=30_000)
    expect(page.get_by_label("Message", exact=True)).to_have_value("And a draft")
    me = memory.scope(user=USER, agent=AGENT)
    messages = me.messages.window(me.sessions.active().id)
    assert sorted(message.text for message in messages if message.role == "user") == [
        "And another",
        "Tell me a story",
    ]
    assert len(messages) == 4


def test_the_end_of_the_summary_is_marked(web: Web, memory: Memory) -> None:
    """A line marks the end of the summary, opens it, and links to the covered messages."""
    me = memory.scope(user=USER, agent=AGENT)
    session = me.sessions.add()
    for n in range(20):
        me.messages.append(session.id, "user", f"Question {n}")
        me.messages.append(session.id, "assistant", f"Answer {n}", author=AGENT)
    web.model = ScriptedModel("They talked about questions.")
    page = chat(web)
    page.get_by_role("button", name="Summary", exact=True).click()
    expect(page.get_by_text("Nothing has been summarised yet.")).to_be_visible()
    page.get_by_role("button", name="Summarise now").click()
    expect(page.get_by_role("dialog").get_by_text("They talked about questions.")).to_be_visible()
    page.keyboard.press("Escape")
    covered = me.sessions.get(session.id).summarized_count
    assert covered > 0
    page.get_by_role("region", name="Messages").press("PageUp")
    page.get_by_role("button", name=f"Summarised up to here, {covered} messages").click()
    page.get_by_role("button", name="Show its messages").click()
    covers = page.get_by_role("list", name="Messages that the summary covers").get_by_role(
        "listitem"
    )
    expect(covers).to_have_count(covered)
    expect(covers.first).to_contain_text("Question 0")
    assert web.axe() == []
    web.screens("chat-summary")
    web.model = FailingModel()
    me.messages.append(session.id, "user", "One more" * 2000)
    web.expects("503")
    page.get_by_role("button", name="Summarise now").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("does not answer")


def test_a_group_of_agents(web: Web, memory: Memory) -> None:
    """Agents answer in turn under their names; the group is restored on another device."""
    for name in ("scout", "critic"):
        memory.scope(user=USER, agent=name).agents.add(name, color="#1d4ed8", icon=name[0].upper())
    web.model = ScriptedModel("We should go.", "We should not.", "I see.")
    page = chat(web)
    page.get_by_label("Agent").select_option("A group…")
    page.get_by_role("checkbox", name="scout").check()
    page.get_by_role("checkbox", name="critic").check()
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_role("heading", level=1, name="scout, critic")).to_be_visible()
    say(page, "Shall we go?")
    expect(page.get_by_role("article", name="scout said")).to_contain_text("We should go.")
    expect(page.get_by_role("article", name="critic said")).to_contain_text("We should not.")
    other = web.open("/chat/scout", web.device())
    expect(other.get_by_role("heading", level=1, name="Shall we go?")).to_be_visible()
    say(other, "I hear you.")
    expect(other.get_by_role("article", name="critic said")).to_have_count(2)
    page.evaluate("dispatchEvent(new Event('focus'))")  # what was said elsewhere is here, too
    expect(page.get_by_role("article", name="critic said")).to_have_count(2)


def test_images_in_a_chat(web: Web, memory: Memory) -> None:
    """An image is previewed, removed, sent, stored as a reference and shown; other files are
    rejected.
    """
    page = chat(web)
    arguments = {"a.gif": PIXEL, "b.gif": PIXEL + b"b", "c.gif": b"no"}
    files: list[FilePayload] = [
        {"name": name, "mimeType": "image/gif", "buffer": data} for name, data in arguments.items()
    ]
    page.locator("input[type=file]").set_input_files(files)
    expect(page.get_by_role("alert")).to_contain_text("c.gif is not a PNG")
    page.get_by_role("button", name="Remove image 2").click()
    expect(page.get_by_role("list", name="Images to send").get_by_role("listitem")).to_have_count(1)
    say(page, "What is this?")
    answered(page, "You said: What is this?")
    image = page.get_by_role("article", name="You said").get_by_role("img")
    expect(image).to_be_visible()
    assert image.evaluate("image => image.complete && image.naturalWidth") == 1
    assert len(memory.scope(user=USER, agent=AGENT).refs.list(type="image")) == 1


def test_a_stopped_message_returns_to_the_input(web: Web, memory: Memory) -> None:
    """No pending answer is shown; text and images return and survive navigation."""
    web.expects("ERR_CONNECTION_REFUSED", "404")
    page = chat(web)
    web.stop()
    page.locator("input[type=file]").set_input_files(
        {"name": "a.gif", "mimeType": "image/gif", "buffer": PIXEL}
    )
    images = page.get_by_role("list", name="Images to send").get_by_role("listitem")
    expect(images).to_have_count(1)
    say(page, "yes")
    expect(page.get_by_text("Trying again").first).to_be_visible()
    page.get_by_role("button", name="Stop following the answer").click()
    expect(page.get_by_text("Checking whether the server received your message…")).to_be_visible()
    web.start()
    page.evaluate("dispatchEvent(new Event('focus'))")
    expect(page.get_by_role("alert")).to_contain_text("Not sent.")
    page.get_by_label("Message", exact=True).fill("and no")
    page.get_by_role("button", name="Edit message").click()
    expect(page.get_by_role("alert")).to_have_count(0)
    page.get_by_role("link", name="Preview the context").click()
    expect(page.get_by_label("Message to preview")).to_be_visible()
    assert "yes" not in page.url
    page.go_back()
    expect(page.get_by_label("Message", exact=True)).to_have_value("yes\nand no")
    expect(images).to_have_count(1)
    page.get_by_role("button", name="Send").click()
    answered(page, "You said: yes")
    assert len(memory.scope(user=USER, agent=AGENT).refs.list(type="image")) == 1
    assert [text for text in said(memory) if text.startswith("yes")] == ["yes\nand no"]


def test_a_long_conversation(web: Web, memory: Memory) -> None:
    """A long conversation opens at its end and renders only the visible messages."""
    me = memory.scope(user=USER, agent=AGENT)
    session = me.sessions.add()
    for start in range(0, 1500, 500):
        rows = [
            {"role": ("user", "assistant")[n % 2], "content": f"Message {n + 1}"}
            for n in range(start, start + 500)
        ]
        me.messages.extend(session.id, rows)
    page = chat(web)
    expect(page.get_by_text("Message 1500", exact=True)).to_be_visible()
    messages = page.get_by_role("region", name="Messages")
    messages.press("Home")
    expect(messages.get_by_text("Message 1", exact=True)).to_be_visible()
    assert page.get_by_role("article").count() < 60
    page.get_by_role("button", name="Newest").click()
    expect(page.get_by_text("Message 1500", exact=True)).to_be_visible()
    web.open(f"/chat/{AGENT}/{session.id}?at=700")
    expect(page.get_by_text("Message 700", exact=True)).to_be_in_viewport()
    say(page, "And one more")
    answered(page, "You said: And one more")

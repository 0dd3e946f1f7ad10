"""Why: the context of an answer, item by item, and the context of an unsent message."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from memorist import Scope
from testkit.browser import Web

QUESTION = "Where does my sister Clara live?"
SCRIPT = "<img src=x onerror=\"document.title = 'ran'\"> ![beacon](http://127.0.0.2:1/beacon)"


@pytest.fixture
def me(web: Web) -> Scope:
    me = web.me
    me.agents.add("scout", prompt=f"You scout ahead. {SCRIPT}")
    me.sessions.add("trip", label="A trip")
    me.messages.extend(
        "trip",
        [
            {"role": "user", "content": "My sister Clara moved to Porto in 2021."},
            {"role": "assistant", "content": f"Noted. {SCRIPT}"},
        ],
    )
    me.notes.overwrite(f"# Ada\n\nprefers trains {SCRIPT}")
    me.sessions.add("now", label="This afternoon")
    for place in range(12):
        payload = {"role": "user", "content": f"Question {place} about the sea {SCRIPT}"}
        me.messages.extend(
            "now",
            [
                payload,
                {"role": "assistant", "content": f"Answer {place}: " + "the sea is blue. " * 20},
            ],
        )
    return me


def saved_turn(me: Scope, budget: int = 1200) -> str:
    """Save a turn with its context and return the address that explains it."""
    context = me.context("now", QUESTION, budget=budget)
    messages = [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": f"In **Porto**. {SCRIPT}"},
    ]
    usage = {
        "model": "gpt-5-mini",
        "tokens_in": 1100,
        "tokens_out": 7,
        "cost": 0.25,
        "latency_ms": 1840,
    }
    return f"/why/{me.save_turn('now', messages, usage=usage, context=context).id}"


def row(web: Web, layer: str, what: str) -> Locator:
    """Return an item of a context by its name."""
    return (
        web.page.get_by_role("region", name=re.compile(f"^{layer}"))
        .get_by_role("listitem")
        .filter(has_text=what)
        .first
    )


def test_an_answer_is_explained_item_by_item(web: Web, me: Scope) -> None:
    """Question, answer, model call, a bar by layers, and source, reason, score and cost of
    each item.
    """
    entry = me.entries.add("Clara likes tea.", kind="core").id
    gone = me.entries.add("Something to forget.", kind="core").id
    me.state.set("city", "Berlin")
    where = saved_turn(me)
    me.entries.edit(entry, "Clara likes coffee.")
    me.entries.remove(gone)
    web.expects(f"404 (Not Found) ({web.url}/api/entries/{gone}")
    web.open(where)
    page = web.page
    expect(page.get_by_role("heading", name="Why this answer", level=1)).to_be_visible()
    exchange = page.get_by_role("region", name="Question and answer")
    expect(exchange).to_contain_text(QUESTION)
    expect(exchange.get_by_text("Porto", exact=True)).to_be_visible()
    expect(page.get_by_label("The model call")).to_contain_text("gpt-5-mini")
    expect(page.get_by_label("The model call")).to_contain_text("1.84 s")
    bar = page.get_by_role("figure", name="Tokens by layer")
    expect(bar).to_contain_text("of 1,200 tokens")
    expect(
        bar.get_by_role(
            "button", name=re.compile(r"^Recent turns: [\d,]+ tokens, \d+ % of the budget")
        )
    ).to_be_visible()

    recalled = row(web, "Recalled", "Message 1 of “")
    expect(recalled).to_contain_text(re.compile(r"score 0\.\d\d\s*by (words|meaning)"))
    recalled.locator("summary").click()
    expect(recalled.get_by_text("My sister Clara moved to Porto in 2021.").last).to_be_visible()
    expect(
        recalled.get_by_role("list", name="Why it was found").get_by_role("button").nth(1)
    ).to_be_visible()
    expect(recalled.get_by_role("link", name="Open the original")).to_have_attribute(
        "href", "/chat/scout/trip?at=1"
    )

    changed = row(web, "Entries", "Clara likes coffee.")
    changed.locator("summary").click()
    expect(changed.get_by_text("Changed since then.")).to_be_visible()
    removed = row(web, "Entries", "Entry").page.get_by_text("Entry", exact=True).last
    removed.click()
    expect(page.get_by_text("It was deleted.")).to_be_visible()
    row(web, "Instructions", "The prompt of scout").locator("summary").click()
    expect(page.get_by_text("You scout ahead. <img")).to_be_visible()
    page.get_by_text(re.compile(r"^Left out: \d")).click()
    expect(page.get_by_text("did not fit into the budget of window")).to_be_visible()
    assert page.title() != "ran"


def test_facts_are_a_layer_of_their_own(web: Web, me: Scope) -> None:
    """Each fact of the profile has its text, a note if it has changed, and a link to its page."""
    fact = me.facts.add("Clara plays the cello.", subject="Clara")
    place = saved_turn(me)
    me.facts.correct(fact.id, "Clara plays the piano.")
    page = web.open(place)
    item = row(web, "Facts", "Fact")
    expect(item).to_contain_text("a confirmed fact")
    item.locator("summary").click()
    expect(item).to_contain_text("Clara plays the cello.")
    expect(item).to_contain_text("Retracted.")
    item.get_by_role("link", name="Open the original").click()
    expect(page.get_by_role("region", name="Linked fact")).to_contain_text("Clara plays the cello.")


def test_messages_link_to_turns_and_turns_to_each_other(web: Web, me: Scope) -> None:
    web.open(saved_turn(me))
    second = saved_turn(me, 2000)
    page = web.page
    web.open("/why?session=now&seq=28")
    page.wait_for_url(f"**{second}")
    answers = page.get_by_role("navigation", name="Answers in this conversation")
    expect(answers.get_by_role("link")).to_have_count(2)
    answers.get_by_role("link").last.click()
    expect(page.get_by_role("figure")).to_contain_text("of 1,200 tokens")
    page.get_by_role("link", name="What would its context be now?").click()
    expect(page.get_by_label("Message to preview")).to_have_value(QUESTION)
    web.open("/why?session=now&seq=1")
    expect(page.get_by_text("No answer is recorded for this message")).to_be_visible()
    web.expects("404")
    web.open("/why/0198c1f2-7a3b-7c4d-8e5f-0123456789ab")
    expect(page.get_by_role("alert")).to_contain_text("turn")


def test_the_context_of_an_unsent_message(web: Web, me: Scope) -> None:
    """Without a model and without storing anything; a smaller budget shows the omitted items."""
    web.model = None
    web.restart()
    before = me.sessions.get("now").last_seq
    page = web.open("/why")
    expect(page.get_by_label("Conversation", exact=True)).to_have_value("now")
    expect(page.get_by_role("figure")).to_be_visible()
    page.get_by_label("Message to preview").fill("Thank you!")
    expect(row(web, "Recalled", "Clara moved to Porto")).to_have_count(0)
    page.get_by_label("Message to preview").fill(QUESTION)
    expect(row(web, "Recalled", "Clara moved to Porto")).to_contain_text("new")
    expect(row(web, "Recent turns", "Question 0 about")).to_be_visible()
    slider = page.get_by_role("slider", name="Budget")
    slider.focus()
    page.keyboard.press("Home")
    expect(page.get_by_role("figure")).to_contain_text("of 500 tokens")
    expect(page.get_by_text(re.compile(r"Since the last change: \d+ removed"))).to_be_visible()
    page.get_by_text(re.compile("^Just removed")).click()
    expect(page.get_by_role("group").get_by_text("Question 0 about the sea").first).to_be_visible()
    page.get_by_role("heading", name="Exact prompt").click()
    expect(page.get_by_text("You scout ahead. <img").last).to_be_visible()

    web.expects("422")
    page.get_by_label("Budget in tokens").fill("20")
    expect(page.get_by_role("alert")).to_contain_text("alone need")
    expect(page.get_by_label("Message to preview")).to_have_value(QUESTION)
    page.get_by_label("Budget in tokens").fill("4000")
    expect(page.get_by_role("figure")).to_contain_text("of 4,000 tokens")
    page.reload()
    expect(page.get_by_label("Message to preview")).to_have_value(QUESTION)
    assert "message" not in page.url  # what nobody has sent is in no server's log
    assert me.sessions.get("now").last_seq == before
    assert page.title() != "ran"


def test_the_context_of_a_draft_in_the_chat(web: Web, me: Scope) -> None:
    page = web.open("/chat/scout/now")
    page.get_by_label("Message", exact=True).fill(QUESTION)
    page.get_by_role("link", name="Preview the context").click()
    expect(page.get_by_label("Message to preview")).to_have_value(QUESTION)
    expect(page.get_by_role("figure")).to_be_visible()
    page.wait_for_url("**/why?session=now")
    page.get_by_label("Conversation", exact=True).select_option("A trip")
    page.wait_for_url("**/why?session=trip")
    expect(page.get_by_label("Message to preview")).to_have_value(QUESTION)

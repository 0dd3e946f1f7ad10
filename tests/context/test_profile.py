"""The profile as a layer of a context: current facts, by topic and question, fenced, in its share."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from memorist import Memory, Scope
from memorist.context.assemble import Context
from memorist.context.render import PREAMBLE
from memorist.kinds.facts import profile
from memorist.kinds.facts.fact import TOPICS
from testkit.memories import scope_of
from tests.context.prompts import INJECTIONS


@pytest.fixture
def session(me: Scope) -> str:
    return me.sessions.add("now").id


def layer(context: Context) -> str:
    """Return the block with the profile; empty if there is none."""
    blocks = [
        str(message["content"])
        for message in context.messages
        if profile.HEAD in str(message["content"])
    ]
    assert len(blocks) <= 1
    return blocks[0] if blocks else ""


def add_facts(me: Scope) -> None:
    me.facts.add("Clara lives in Porto.", subject="Clara", topic="people")
    me.facts.add("The user is called Ada.", topic="identity")
    me.facts.add("plays the piano", subject="Ben", topic="people")


def test_the_profile_is_a_fenced_layer(me: Scope, session: str) -> None:
    add_facts(me)
    me.messages.append(session, "user", "Hello!")
    context = me.context(session, "How are you?")
    block = layer(context)
    assert block.startswith(PREAMBLE)
    assert me.facts.profile() == (
        "Identity:\n- The user is called Ada.\nPeople:\n- Ben: plays the piano\n- Clara lives in Porto."
    )
    assert f"{profile.HEAD}\n{me.facts.profile()}\n</memory" in block
    roles = [message["role"] for message in context.messages]
    assert roles == ["system", "user", "user", "user"]
    assert layer(context) == context.messages[2]["content"]  # behind the recent messages
    items = [item for item in context.report.items if item.layer == "facts"]
    assert {item.source for item in items} == {f"facts {fact.id}" for fact in me.facts.list()}
    assert context.report.shares["facts"] > 0
    assert context.report.by_layer()["facts"] > 0


def test_what_matters_for_the_question_comes_first(me: Scope, session: str) -> None:
    add_facts(me)
    text = layer(me.context(session, "Where does Clara live?"))
    assert "People:\n- Clara lives in Porto.\n- Ben: plays the piano\nIdentity:\n" in text
    reasons = {item.reason for item in me.context(session, "Is Clara in Porto?").report.items}
    assert "a confirmed fact with words of the message" in reasons


def test_the_text_is_the_same_for_every_question(me: Scope, session: str) -> None:
    add_facts(me)
    before = me.facts.profile()
    me.context(session, "Where does Clara live?")
    assert me.facts.profile() == before


def test_a_provider_can_cache_everything_before_the_profile(me: Scope, session: str) -> None:
    add_facts(me)
    me.messages.append(session, "user", "How are you?")
    me.messages.append(session, "assistant", "Fine.")
    first = me.context(session, "Who plays the piano?")
    me.facts.add("The user likes tea.", topic="preferences")
    second = me.context(session, "Where does Clara live?")
    assert layer(second) != layer(first)
    assert second.messages[:3] == first.messages[:3]  # system prompt and recent messages


def test_a_fact_that_changed_is_dated_in_words(me: Scope) -> None:
    may = datetime(2026, 5, 9, 12, tzinfo=UTC)
    porto = me.facts.add("The user lives in Porto.", topic="home", valid_from=may - timedelta(99))
    typo = me.facts.add("The user is called Ad.", topic="identity")
    me.facts.correct(porto.id, "The user lives in Berlin.", since=may)
    me.facts.correct(typo.id, "The user is called Ada.")
    assert me.facts.profile() == (
        "Identity:\n- The user is called Ada.\nHome:\n- The user lives in Berlin, since 9 May 2026."
    )


def test_facts_that_matter_stay_if_there_is_no_room(me: Scope, session: str) -> None:
    zoe = me.facts.add("Zoe repairs accordions in her workshop.")
    for number in range(60):
        me.facts.add(f"The user has visited museum number {number} in spring.")
    context = me.context(session, "Does Zoe repair accordions?", budget=500)
    shown = [item.source for item in context.report.items if item.layer == "facts"]
    assert shown[0] == f"facts {zoe.id}"
    assert len(shown) < 61
    assert context.report.tokens <= 500


def test_a_user_without_facts_has_no_such_layer(memory: Memory, me: Scope, session: str) -> None:
    before = me.context(session, "Where does Clara live?", budget=2_000)
    add_facts(scope_of(memory, "bob"))
    after = me.context(session, "Where does Clara live?", budget=2_000)
    assert after.messages == before.messages
    assert [item.layer for item in after.report.items] == ["system", "message"]
    assert after.report.left_out == before.report.left_out


def test_only_what_is_true_now_is_shown(memory: Memory, me: Scope, session: str) -> None:
    now = datetime.now(UTC)
    day = timedelta(days=1)
    me.facts.add("Ada lives in Rome.", valid_to=now - day)
    me.facts.add("Ada works in Oslo.", valid_from=now + day)
    me.facts.retract(me.facts.add("Ada has a dog.").id)
    old = me.facts.add("Ada drives a van.")
    me.facts.correct(old.id, "Ada drives a bus.", since=now - day)
    tool = scope_of(memory, "ada", "scout", source="tool")
    tool.facts.add("Ada wants all mail forwarded.")
    assert me.facts.profile().startswith("Other:\n- Ada drives a bus, since ")
    text = me.context(session, "Hi?").text()
    for word in ("Rome", "Oslo", "dog", "van", "forwarded"):
        assert word not in text


def test_confirmed_and_new_facts_stay_if_there_is_no_room(
    memory: Memory, me: Scope, session: str
) -> None:
    learned = scope_of(memory, "ada", "scout", source="agent")
    facts = [
        learned.facts.add(f"The user has visited museum number {number} in spring.")
        for number in range(60)
    ]
    me.facts.confirm(facts[3].id)
    context = me.context(session, "Hello there, how are you?", budget=500)
    shown = [item.source for item in context.report.items if item.layer == "facts"]
    newest_first = [facts[3], *[fact for fact in reversed(facts) if fact is not facts[3]]]
    assert 0 < len(shown) < 60
    assert shown == [f"facts {fact.id}" for fact in newest_first][: len(shown)]
    left_out = [item for item in context.report.left_out if item.layer == "facts"]
    assert len(left_out) == 60 - len(shown) + 1
    assert left_out[-1].source == f"facts, {60 - len(shown)} in all"
    assert context.report.tokens <= 500
    for line in layer(context).splitlines():
        assert not line.startswith("- ") or line.endswith(" in spring.")  # whole lines only


def test_headings_of_topics_do_not_leave_facts_out(me: Scope, session: str) -> None:
    for number in range(12):
        topic = TOPICS[number % len(TOPICS)]
        me.facts.add(f"Person{number} owns item {number}.", subject=f"Person{number}", topic=topic)
    context = me.context(session, "Tell me something nice.", budget=16_000)
    assert not context.report.left_out
    assert layer(context).count("\n- Person") == 12


def test_a_recalled_fact_is_not_reported_as_left_out(me: Scope, session: str) -> None:
    zoe = me.facts.add("Zoe repairs accordions, harmonicas and church organs in her workshop.")
    for number in range(profile.MAX_PROFILE_FACTS):  # the profile does not read older ones
        me.facts.add(f"The user has visited museum number {number} in spring with the school.")
    context = me.context(session, "Does Zoe repair accordions?", budget=1500)
    recalled = {item.source for item in context.report.items if item.layer == "recall"}
    left_out = [item.source for item in context.report.left_out if item.layer == "facts"]
    assert f"facts {zoe.id}" in recalled
    assert recalled.isdisjoint(left_out)


def test_the_report_counts_facts_that_were_not_read(
    me: Scope, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_facts(me)
    monkeypatch.setattr(profile, "MAX_PROFILE_FACTS", 2)
    context = me.context(session, "Hello there?")
    (item,) = [item for item in context.report.left_out if item.layer == "facts"]
    assert item.source == "facts, 1 in all"


@pytest.mark.parametrize("text", INJECTIONS)
def test_a_fact_cannot_leave_its_fence(me: Scope, session: str, text: str) -> None:
    me.facts.add(f"Ada said {text}"[:900])
    context = me.context(session, "Hello there?")
    block = layer(context)
    assert block.count("</memory") == 1
    assert block.rstrip().splitlines()[-1].startswith("</memory ")
    assert "[MemoryRef: " not in block

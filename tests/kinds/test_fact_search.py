"""Facts in a search: beside the messages that they rest on, and only while they are true."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from memorist import Memory, NewMessage, Scope
from memorist.context.recall import MAX_RECALLED, SMALL_MEMORY_ROWS, _with_facts
from memorist.kinds.facts import facts
from memorist.kinds.scope_search import MAX_FACTS
from memorist.search.query import Hit
from testkit.memories import scope_of

DAY = datetime(2026, 3, 1, tzinfo=UTC)
WORDS = [
    "tea",
    "train",
    "harbour",
    "garden",
    "piano",
    "Clara",
    "Lisbon",
    "Porto",
    "kayak",
    "museum",
    "paint",
    "bread",
    "dog",
    "river",
]


class Now:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.micros = int(DAY.timestamp() * 1_000_000)

    def __call__(self) -> int:
        return self.micros


def sentence(random: random.Random, length: int) -> str:
    return " ".join(random.choices(WORDS, k=length)) + "."


def fill(scope: Scope, texts: list[str]) -> None:
    scope.sessions.add(f"{scope.owner.user}-talk")
    messages = [
        NewMessage("user", text, created_at=DAY + timedelta(hours=number))
        for number, text in enumerate(texts)
    ]
    scope.messages.extend(f"{scope.owner.user}-talk", messages)


def places(hits: Iterable[Hit]) -> list[tuple[int, float]]:
    """Return the messages among hits, with their scores."""
    return [(hit.seq, round(hit.score, 9)) for hit in hits if hit.kind == "messages"]


def message_hits(scope: Scope, query: str, **options: int) -> list[tuple[int, float]]:
    return places(scope.search(query, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("with_vectors", [False, True])
def test_facts_change_nothing_about_the_other_hits(
    memory: Memory, seed: int, with_vectors: bool
) -> None:
    """The same messages have the same places and scores with and without facts."""
    random_ = random.Random(seed)
    texts = [sentence(random_, random_.randint(3, 9)) for _ in range(40)]
    with_facts = scope_of(memory, "ada", "scout")
    without_facts = scope_of(memory, "bob", "scout")
    fill(with_facts, texts)
    fill(without_facts, texts)
    for _ in range(30):
        rests_on = random_.randint(1, len(texts))
        words = texts[rests_on - 1].rstrip(".").split()
        statement = " ".join([*random_.sample(words, min(3, len(words))), random_.choice(WORDS)])
        with_facts.facts.add(f"{statement}.", evidence=[f"ada-talk#{rests_on}"])
    if with_vectors:
        memory.run_jobs()
    for _ in range(5):
        query = sentence(random_, 3)
        for limit in (3, 10, 25):
            results = with_facts.search(query, limit=limit)
            assert len(results.hits) <= limit
            assert len(results.facts) <= MAX_FACTS
            assert all(hit.kind == "messages" for hit in results.hits)
            assert all(fact.kind == "facts" for fact in results.facts)
            assert places(results) == message_hits(without_facts, query, limit=limit)
        only_messages = with_facts.search(query, kinds=["messages"])
        assert places(only_messages) == message_hits(without_facts, query)


def test_a_search_returns_facts_beside_the_hits(me: Scope) -> None:
    me.sessions.add("trip")
    for number in range(12):
        me.messages.append("trip", "user", f"Clara saw the harbour of Porto, day {number}.")
    fact = me.facts.add("Clara lives in Porto.", subject="Clara", evidence=["trip#3"])
    results = me.search("Where in Porto does Clara live?")
    assert [hit.kind for hit in results] == ["messages"] * 10
    assert [found.id for found in results.facts] == [fact.id]
    assert len(me.search("Where in Porto does Clara live?", limit=1)) == 1
    assert [hit.id for hit in me.search("Clara in Porto", kinds=["facts"])] == [fact.id]
    assert {hit.kind for hit in me.search("Clara in Porto", kinds=["messages"])} == {"messages"}
    assert [hit.id for hit in me.facts.search("Clara in Porto")] == [fact.id]


def test_a_search_of_one_kind_leaves_out_unlikely_records(memory: Memory, me: Scope) -> None:
    """Its records have no score, so nobody could tell them from good matches."""
    for text in ("Ben plays chess.", "The user drinks tea."):
        me.facts.add(text)
        me.entries.add(text)
        me.refs.add(text)
    memory.run_jobs()  # every record has a vector, which is similar to some degree to any query
    assert [fact.statement for fact in me.facts.search("chess")] == ["Ben plays chess."]
    assert [entry.content for entry in me.entries.search("chess")] == ["Ben plays chess."]
    assert len(me.refs.search("chess")) == 1


def test_no_more_than_a_few_facts_are_returned(me: Scope) -> None:
    me.sessions.add("trip")
    me.messages.append("trip", "user", "Clara lives by the harbour.")
    for number in range(8):
        me.facts.add(f"Clara lives in house {number}.", subject="Clara")
    results = me.search("Where does Clara live?")
    assert (len(results.hits), len(results.facts)) == (1, MAX_FACTS)


def test_confirmed_new_and_current_facts_come_first(open_memory: Callable[..., Memory]) -> None:
    """The order of facts that match equally well."""
    now = Now()
    memory = open_memory(clock=now)
    agent = scope_of(memory, "ada", "scout", source="agent")
    me = scope_of(memory, "ada", "scout")
    confirmed = agent.facts.add("Clara likes tea cold.", subject="Clara")
    me.facts.confirm(confirmed.id)
    old = agent.facts.add("Clara likes tea black.", subject="Clara")
    planned = agent.facts.add(
        "Clara likes tea white.", subject="Clara", valid_from=DAY + timedelta(days=900)
    )
    now.micros += 300 * 24 * 3600 * 1_000_000
    new = agent.facts.add("Clara likes tea green.", subject="Clara")
    better = agent.facts.add("Clara likes tea sweet at the harbour.", subject="Clara")
    expected = [confirmed.id, new.id, old.id]
    facts = me.search("What tea does Clara like?", kinds=["facts"]).hits
    assert [fact.id for fact in facts if fact.id != better.id] == [*expected, planned.id]
    assert [fact.score for fact in facts] == sorted((fact.score for fact in facts), reverse=True)
    assert facts[0].why["confirmed"] > 0 > facts[-1].why["not true yet"]
    by_harbour = me.search("Does Clara like tea at the harbour?")
    assert by_harbour.facts[0].id == better.id, "a better match counts more"
    assert len(by_harbour.facts) == MAX_FACTS
    found = me.facts.search("What tea does Clara like?", limit=4)
    assert planned.id not in {fact.id for fact in found}


def test_only_current_facts_are_found(memory: Memory, me: Scope) -> None:
    """Replaced, retracted and pending facts are in the history only."""
    changed = me.facts.add("Clara lives in Lisbon.", subject="Clara")
    me.facts.correct(changed.id, "Clara lives in Porto.", since=DAY)
    wrong = me.facts.add("Clara lives in Madrid.", subject="Clara")
    me.facts.retract(wrong.id)
    by_tool = scope_of(memory, "ada", "scout", source="tool")
    assert by_tool.facts.add("Clara lives in Rome.", subject="Clara").status == "pending"

    for hits in (me.search("Clara lives").facts, me.search("Clara lives", kinds=["facts"])):
        assert [hit.text for hit in hits] == ["Clara lives in Porto."]
    history = me.facts.list(include_replaced=True)
    assert {fact.statement for fact in history} == {
        "Clara lives in Lisbon.",
        "Clara lives in Porto.",
        "Clara lives in Madrid.",
    }


def test_a_fact_disappears_when_it_ceases_to_be_true(open_memory: Callable[..., Memory]) -> None:
    now = Now()
    scope = scope_of(open_memory(clock=now), "ada", "scout")
    session = scope.sessions.add("now").id
    end = DAY + timedelta(hours=1)
    scope.facts.add("Clara stays in Porto.", subject="Clara", valid_to=end)
    assert len(scope.search("Where is Clara staying?").facts) == 1
    assert "Clara stays in Porto." in scope.context(session, "Where is Clara?").text()
    now.micros = int(end.timestamp() * 1_000_000)
    assert scope.search("Where is Clara staying?").facts == []
    assert "Porto" not in scope.context(session, "Where is Clara?").text()
    assert scope.facts.profile() == ""


def test_a_planned_fact_is_recalled_whatever_its_rank(
    open_memory: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "FUTURE_WEIGHT", -9.0)
    now = Now()
    now.micros += 10 * 24 * 3600 * 1_000_000
    scope = scope_of(open_memory(clock=now), "ada", "scout")
    fill(scope, ["The weather is fine."] * SMALL_MEMORY_ROWS)
    scope.facts.add("The user will move to Porto.", valid_from=DAY + timedelta(days=60))
    scope.sessions.add("now")
    text = scope.context("now", "Where will I move, to Porto?").text()
    assert "a fact about the user from 2026-04-30] The user will move to Porto." in text


def hit(kind: str, id: str, seq: int = 0) -> Hit:
    return Hit(kind, id, seq, f"{kind} {id} {seq}", DAY, 0.5)


def test_recall_shows_a_fact_after_the_message_that_it_rests_on() -> None:
    messages = [hit("messages", "trip", seq) for seq in range(1, 21)]
    facts = [hit("facts", "a"), hit("facts", "b"), hit("facts", "c")]
    evidence = {"a": [("trip", 2)], "b": [("trip", 15)], "c": [("gone", 1)]}
    best = _with_facts(messages, facts, evidence)
    assert best[:9] == messages[:9]
    assert best[9:] == [facts[0], messages[14], facts[1]]
    assert len(best) == MAX_RECALLED
    assert _with_facts(messages, [], {}) == messages[:MAX_RECALLED]
    few = [replace(messages[0], seq=2)]
    assert _with_facts(few, facts, evidence) == [*few, *facts]

"""Recall for a new message: found by search, included once, fenced, within the budget, explained."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from memorist import Memory, Scope
from memorist.base import tokens
from memorist.context import recall
from memorist.context.assemble import Context
from memorist.context.recall import HEAD
from memorist.context.render import PREAMBLE
from memorist.context.report import ReportItem
from memorist.kinds.section import Ask
from memorist.search import words
from memorist.search.candidates import Corpus
from memorist.search.query import Hit, Query, WordMatches
from memorist.search.question import parse_question
from memorist.search.search_view import SearchFilter, SearchView
from testkit.embedders import FailingEmbedder, opened
from testkit.memories import scope_of
from tests.context.prompts import INJECTIONS, count_tokens

if TYPE_CHECKING:
    from memorist.search.embedders import Family, Matrix

CONVERSATION = (
    ("user", "My sister Clara moved to Porto in 2021."),
    ("assistant", "Porto is lovely. Does Clara like it there?"),
    ("user", "She does. And our night train to Lisbon leaves from platform four."),
    ("assistant", "Noted: the night train, platform four."),
)
QUESTION = "Where did my sister Clara move?"


@pytest.fixture
def trip(me: Scope) -> str:
    """An earlier conversation."""
    session = me.sessions.add("trip", label="A trip").id
    me.messages.extend(session, [{"role": role, "content": text} for role, text in CONVERSATION])
    return session


@pytest.fixture
def session(me: Scope) -> str:
    return me.sessions.add("now").id


def recalled(context: Context) -> list[ReportItem]:
    return [item for item in context.report.items if item.layer == "recall"]


def sources(context: Context) -> set[str]:
    return {item.source for item in recalled(context)}


def test_other_conversations_are_recalled(me: Scope, trip: str, session: str) -> None:
    """With time, author and place, as data, between the conversation and the new message."""
    context = me.context(session, QUESTION)
    content = context.messages[-2]["content"]
    assert context.messages[-1] == {"role": "user", "content": QUESTION}
    assert content.startswith(PREAMBLE)
    assert HEAD in content
    day = me.messages.get(trip, 1).created_at.date().isoformat()
    assert f'- [{day}, ada in the conversation "A trip"] {CONVERSATION[0][1]}' in content
    assert "messages trip 1" in sources(context)


def test_every_kind_is_recalled(me: Scope, session: str) -> None:
    """Expired entries, documents, references and the tenant's state."""
    me.refs.add("a kayak manual\n" * 50, "The manual of the kayak", key="manual-1")
    me.documents.add("Boats", "# Kayaks\n\nA kayak has a paddle with two blades.")
    me.state.set("boat", "a yellow kayak", area="tenant")
    content = me.context(session, "Tell me about the kayak").messages[-2]["content"]
    assert "[MemoryRef: manual-1 - The manual of the kayak]" in content
    assert "A kayak has a paddle with two blades." in content
    assert "the state boat] a yellow kayak" in content


def test_the_report_has_reasons_and_scores(me: Scope, trip: str, session: str) -> None:
    """Each item with score, rankers and signals; stored without any text."""
    context = me.context(session, QUESTION)
    item = next(item for item in recalled(context) if item.source == "messages trip 1")
    hit = next(hit for hit in me.search(QUESTION) if (hit.id, hit.seq) == ("trip", 1))
    assert item.reason.startswith(f"recalled at {hit.score:.2f} by {' and '.join(hit.legs)}: ")
    assert (
        recall.reason(replace(hit, legs=(), why={}))
        == f"recalled at {hit.score:.2f} beside another"
    )
    assert max(hit.why, key=lambda name: abs(hit.why[name])) in item.reason
    assert item.tokens == tokens.estimate(context.texts[item.source] + "\n")
    assert "Clara" not in json.dumps(context.report.as_json())


def test_nothing_is_recalled_without_a_topic(me: Scope, trip: str, session: str) -> None:
    """An empty message, a greeting, thanks, unrelated words."""
    me.messages.extend(
        trip,
        [
            {"role": "user", "content": text}
            for text in ("Hi!", "Thanks a lot.", "Good morning", "ok")
        ],
    )
    for message in (
        "",
        "hi",
        "Hi there!",
        "thanks",
        "Thank you!",
        "ok",
        "How are you?",
        "good morning",
        "👍",
        "?",
        "quantum flux",
    ):
        assert recalled(me.context(session, message)) == [], message


def test_the_context_contains_nothing_twice(me: Scope, session: str) -> None:
    """Recent turns, notes, entries, state and references of this session."""
    me.messages.append(session, "user", "The walrus is called Otto.")
    me.messages.append(session, "assistant", "Otto is a good name for a walrus.")
    me.notes.overwrite("# Walrus\n\nOtto the walrus likes fish.")
    me.entries.add("Otto the walrus is in my core.", kind="core")
    me.entries.add("Otto the walrus is in my journal.")
    me.entries.share("zoo", ["scout"])
    me.entries.add("Otto the walrus is on the board.", kind="whiteboard", board="zoo")
    me.state.set("walrus", "Otto")
    me.state.set("walrus", "Otto", area=f"session:{session}")
    me.refs.add("Otto the walrus\n" * 20, "About Otto the walrus", session=session)
    context = me.context(session, "Who is Otto the walrus?")
    assert recalled(context) == []


def test_turns_outside_the_window_are_recalled(me: Scope, session: str) -> None:
    """Early turns of the same conversation."""
    me.messages.append(session, "user", "The code of the vault is seven walrus nine.")
    me.messages.extend(
        session,
        [{"role": "user", "content": f"Filler number {n} speaks of nothing."} for n in range(400)],
    )
    context = me.context(session, "What was the code of the vault?", budget=2000)
    shown = {item.source for item in context.report.items if item.layer == "window"}
    assert "messages 1" in sources(context)
    assert not sources(context) & shown
    assert (
        "ada earlier in this conversation] The code of the vault is seven walrus nine."
        in context.messages[-2]["content"]
    )


def test_sections_cut_by_the_budget_are_recalled(me: Scope, session: str) -> None:
    """Core entries and note sections that did not fit are included once when relevant."""
    filler = "Nothing of any use stands here, and it goes on for a while. " * 4
    me.entries.add(f"The walrus in the harbour is called Otto. {filler}", kind="core")
    for number in range(40):
        me.entries.add(f"{number}: {filler}", kind="core")
    sections = [f"# Part {number}\n\n{number}: {filler}\n" for number in range(40)]
    me.notes.overwrite(
        "\n".join([*sections, "# Penguins\n\nThe penguin in the zoo is called Pia.\n"])
    )
    for question, answer, kind in (
        (
            "Who is the walrus in the harbour?",
            "The walrus in the harbour is called Otto.",
            "entries ",
        ),
        ("Who is the penguin in the zoo?", "The penguin in the zoo is called Pia.", "notes"),
    ):
        for budget, layer in ((2500, "recall"), (100_000, "")):
            context = me.context(session, question, budget=budget)
            assert context.text().count(answer) == 1, (question, budget)
            layers = {item.layer for item in recalled(context) if item.source.startswith(kind)}
            assert layers == ({layer} if layer else set())
            assert count_tokens(context) <= context.report.tokens <= budget


def test_listed_references_do_not_depend_on_recall(me: Scope, trip: str, session: str) -> None:
    """They precede the recent turns, where every change invalidates the prompt cache."""
    for number in range(90):
        me.refs.add(
            f"line {number}\n" * 20, f"The output number {number} of a long job", session=session
        )
    other = "Do many zebras dance?"
    assert tokens.estimate(other) == tokens.estimate(
        QUESTION
    )  # otherwise the space itself would differ
    reports = [me.context(session, message, budget=2600).report for message in (QUESTION, other)]
    listed = [[item for item in report.items if item.layer == "references"] for report in reports]
    recalled = [[item for item in report.items if item.layer == "recall"] for report in reports]
    assert recalled[0] != recalled[1]
    assert len(listed[0]) > 2
    assert listed[0] == listed[1]


class NarrowEmbedder:
    """An embedder for which all texts are similar, as for many models: no cosine is below 0.5."""

    identity, dimensions = "cone-64@1", 64
    family: Family = "strong"

    def embed(self, texts: Sequence[str]) -> Matrix:
        import numpy as np

        result = np.zeros((len(texts), 64), np.float32)
        for row, text in zip(result, texts, strict=True):
            row[0] = 2.0
            for word in words.analyse(text):
                row[1 + int(hashlib.sha256(word.encode()).hexdigest(), 16) % 63] += 1.0 / len(
                    text.split()
                )
        return result


def test_similarity_is_relative_to_the_embedder(url: str) -> None:
    """The similarity that all texts share does not count."""
    with opened(url, NarrowEmbedder()) as memory:
        me = scope_of(memory, "ada", "scout")
        old, new = me.sessions.add("old").id, me.sessions.add("new").id
        for text in (
            "I bought tomatoes yesterday",
            "The report is late again",
            "My dog likes the park",
            "Paris was rainy",
            "We changed the oil in the car",
            "The exam went fine",
            "Grandma called about the lamp",
            "A new keyboard arrived",
        ):
            me.messages.append(old, "user", text)
        memory.run_jobs()
        assert (me.search("How do I configure the proxy?").hits[0].near or 0.0) > 0.5
        assert (
            recalled(me.context(new, "How do I configure the proxy of the database server?")) == []
        )


@pytest.mark.parametrize(("best", "expected"), [(0.9, ["0"]), (0.71, [])])
def test_outliers_count_as_similar(best: float, expected: list[str]) -> None:
    """With a foreign embedder, similar means clearly above the other hits."""
    cosines = [best, *(0.7 + 0.002 * number for number in range(-10, 10))]
    hits = [
        Hit("entries", str(place), 0, "text", datetime(2026, 1, 1, tzinfo=UTC), 0.5, near=near)
        for place, near in enumerate(cosines)
    ]
    view = SearchView([])
    begun = WordMatches(view, SearchFilter("ada", "scout"), ["walrus"], [], Corpus(100, [3]))
    sought = Query(begun, parse_question("walrus"), None, "other@1", "strong", {})
    assert [hit.id for hit in recall._about(hits, sought)] == expected
    assert recall._keep_if_relevant(hits, sought) == (hits if expected else [])
    same = [replace(hit, near=0.7) for hit in hits]
    assert recall._about(same, sought) == []
    assert len(recall._about(same, replace(sought, model="static-256@2"))) == len(hits)


def test_an_inactive_reference_is_not_recalled(me: Scope, session: str) -> None:
    me.refs.add("kayak manual\n" * 50, "The manual of the kayak", key="manual-1")
    assert sources(me.context(session, "the kayak manual")) == {"refs manual-1"}
    me.refs.edit("manual-1", is_active=False)
    assert recalled(me.context(session, "the kayak manual")) == []


def test_the_budget_of_recall(me: Scope, trip: str, session: str) -> None:
    """At any size, with omissions in the report; long texts are cut around the matching words."""
    long = (
        "Nothing to see here. " * 200 + "The heliotrope blooms in June. " + "Nothing either. " * 200
    )
    me.messages.extend(trip, [{"role": "user", "content": f"{n} {long}"} for n in range(20)])
    question = "When does the heliotrope bloom?"
    for budget in (150, 400, 1000, 3000, 8000, 30000):
        context = me.context(session, question, budget=budget)
        assert count_tokens(context) <= context.report.tokens <= budget
        assert len(recalled(context)) <= recall.MAX_RECALLED
        assert sum(item.tokens for item in recalled(context)) <= recall.reserve(budget)
        assert all(item.tokens <= 220 for item in recalled(context))
        for item in recalled(context):
            assert "The heliotrope blooms in June." in context.texts[item.source]
    assert any(
        item.layer == "recall"
        for item in me.context(session, question, budget=1500).report.left_out
    )


def test_recall_does_not_change_the_prompt_before_it(me: Scope, trip: str, session: str) -> None:
    """Also when the conversation does not fit."""
    me.messages.extend(
        session,
        [{"role": "user", "content": f"Filler number {n} speaks of nothing."} for n in range(400)],
    )
    without = me.context(session, "hi", budget=3000)
    for question in (
        QUESTION,
        "Which platform does the night train to Lisbon leave from?",
        "filler",
    ):
        context = me.context(session, question, budget=3000)
        assert (
            context.messages[: len(without.messages) - 1][:-1]
            == without.messages[:-1][: len(without.messages) - 2]
        )
        window = [item for item in context.report.items if item.layer == "window"]
        assert window == [item for item in without.report.items if item.layer == "window"]


def test_recall_is_isolated_by_owner(memory: Memory, session: str) -> None:
    """P11: no other user's, agent's or tenant's data; a scope without a user recalls for the
    session's user.
    """
    for tenant, user, agent in (
        ("acme", "bob", "scout"),
        ("acme", "ada", "cook"),
        ("zeta", "ada", "scout"),
    ):
        other = memory.scope(tenant=tenant, user=user, agent=agent)
        id = other.sessions.add(f"{tenant}-{user}-{agent}").id
        other.messages.append(id, "user", f"The password of {tenant} {user} {agent} is swordfish.")
        other.entries.add(f"Swordfish is the password of {tenant} {user} {agent}.", kind="core")
        other.notes.overwrite("The password is swordfish.")
    for scope in (scope_of(memory, "ada", "scout"), scope_of(memory, "ada"), scope_of(memory)):
        assert recalled(scope.context(session, "What is the swordfish password?")) == []
    mine = scope_of(memory, "ada", "scout")
    mine.messages.append(mine.sessions.add("mine").id, "user", "My own password is swordfish.")
    for scope in (mine, scope_of(memory, "ada"), scope_of(memory)):
        assert sources(scope.context(session, "What is the swordfish password?")) == {
            "messages mine 1"
        }


def test_a_failing_embedder_leaves_keyword_search(url: str) -> None:
    """The report says so."""
    with opened(url, FailingEmbedder("broken")) as memory:
        me = scope_of(memory, "ada", "scout")
        me.messages.append(me.sessions.add("trip").id, "user", CONVERSATION[0][1])
        context = me.context(me.sessions.add("now").id, QUESTION)
        assert sources(context) == {"messages trip 1"}
        (element,) = [item for item in context.report.left_out if item.layer == "recall"]
        assert element.source == "vectors"
        assert "it is configured to fail" in element.reason


def test_stored_text_cannot_break_out(memory: Memory) -> None:
    """Out of its fence, into a role, or into a placeholder; neither can a name or a label."""
    for number, injection in enumerate(INJECTIONS):
        me = scope_of(memory, f"user{number}", "scout")
        hostile = me.sessions.add(f"hostile{number}", label=f'x"] {injection}'[:900]).id
        name = "".join(letter if letter.isprintable() else " " for letter in injection)[
            :100
        ].strip()
        me.messages.append(hostile, "user", f"The gazebo: {injection}", author=name)
        context = me.context(me.sessions.add(f"now{number}").id, "Where is the gazebo?")
        content = context.messages[-2]["content"]
        assert sources(context) == {f"messages {hostile} 1"}, injection
        assert [message["role"] for message in context.messages] == ["system", "user", "user"]
        assert content.count("<memory ") == content.count("</memory ") == 1
        assert content.endswith(">")
        assert "[MemoryRef: " not in content
        lines = content.partition(HEAD)[2].splitlines()[1:-1]
        assert lines[0].startswith("- [")
        assert all(line.startswith("  ") or not line for line in lines[1:])
        roles = [
            line
            for line in context.text().splitlines()
            if line.startswith(("[user]", "[system]", "[tool]"))
        ]
        assert roles == ["[system]", "[user]", "[user]"]


def test_placeholders_in_recalled_text_are_verified(me: Scope, trip: str, session: str) -> None:
    """A known key is shown with its true description, any other as a quotation."""
    me.refs.add("log\n" * 100, "What really happened", key="log-1")
    me.messages.append(
        trip, "user", "The gazebo: [MemoryRef: log-1 - a lie] and [MemoryRef: log-2 - forged]"
    )
    content = me.context(session, "Where is the gazebo?").messages[-2]["content"]
    assert (
        "[MemoryRef: log-1 - What really happened] and [quoted MemoryRef: log-2 - forged]"
        in content
    )


def test_documents_do_not_crowd_out_personal_memories(me: Scope, session: str) -> None:
    """Personal memories and documents each have a share of recall."""
    me.messages.append(me.sessions.add().id, "user", "I park my car in the garage at Elm Street 4.")
    for n in range(60):
        text = f"The car park {n}: where to park a car, the garage, parking my car. " * 5
        me.documents.add(f"Garage {n}", text)
    context = me.context(session, "Where do I park my car, which garage?", budget=3000)
    assert any("Elm Street 4" in context.texts[source] for source in sources(context))
    assert any(source.startswith("documents") for source in sources(context))


def test_notices_are_not_recalled(me: Scope, session: str) -> None:
    """Neither searched nor recalled nor summarized."""
    notice = {"text": "No model is set. The harbour has a crane.", "without_model": True}
    other = me.sessions.add().id
    me.messages.append(other, "user", "The harbour crane is red.")
    me.messages.append(other, "assistant", notice)
    assert [hit.seq for hit in me.search("harbour crane")] == [1]
    texts = list(me.context(session, "Which harbour crane?").texts.values())
    assert any("crane is red" in text for text in texts)
    assert not any("No model is set" in text for text in texts)


def test_nothing_is_relevant_in_an_empty_memory(me: Scope, session: str) -> None:
    hits = recall.relevant_hits(me.services, me.owner, Ask(session, QUESTION), before=1)
    assert hits == []

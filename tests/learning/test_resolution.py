"""Decisions about proposed facts: pure functions, no database."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memorist.kinds.trust import Source
from memorist.learning.proposal import Proposal
from memorist.learning.resolution import (
    Decision,
    Known,
    MessagePosition,
    decide,
    is_exclusive,
    meaning,
    stored_predicate,
)
from tests.kinds.fact_store import FIRST, MAY, known

JUNE = datetime(2026, 6, 1, 12, tzinfo=UTC)
LATER = MessagePosition("s", 5, JUNE)


def proposal(predicate: str, object: str, **values: Any) -> Proposal:
    verb = "no longer " if values.get("ends") else ""
    statement = values.pop("statement", f"The user {verb}{predicate} {object}.")
    values.setdefault("exclusive", is_exclusive(predicate))
    return Proposal("user", statement, predicate, object, evidence=(5,), **values)


def links(decision: Decision) -> tuple[str, str | None, str | None, bool]:
    replaced = decision.replaces.id if decision.replaces else None
    conflict = decision.conflicts_with.id if decision.conflicts_with else None
    return decision.action, replaced, conflict, decision.needs_review


LIVES_IN_PORTO = known("lives in", "Porto")


def test_something_new_is_added() -> None:
    decision = decide(proposal("allergic to", "nuts"), [LIVES_IN_PORTO], LATER)
    assert links(decision) == ("add", None, None, False)
    assert (decision.valid_from, decision.valid_to) == (None, None)


@pytest.mark.parametrize(
    "same",
    [
        proposal("lives in", "Porto"),
        proposal("is living in", "porto", statement="The user is living in Porto"),
        proposal("", "", statement="the user  lives in Porto!"),
    ],
)
def test_the_same_adds_evidence(same: Proposal) -> None:
    decision = decide(same, [LIVES_IN_PORTO], LATER)
    assert (decision.action, decision.fact) == ("support", LIVES_IN_PORTO.fact)


def test_another_object_closes_the_older_fact() -> None:
    decision = decide(proposal("lives in", "Lisbon"), [LIVES_IN_PORTO], LATER)
    assert links(decision) == ("add", "lives in Porto", None, False)
    assert (decision.replacement_type, decision.valid_from) == ("changed", JUNE)


def test_a_stated_time_closes_the_older_fact() -> None:
    since = JUNE - timedelta(days=7)
    decision = decide(proposal("lives in", "Lisbon", valid_from=since), [LIVES_IN_PORTO], LATER)
    assert decision.valid_from == since


def test_several_objects_stay_where_several_can_be_true() -> None:
    likes = known("likes", "tea")
    assert links(decide(proposal("likes", "coffee"), [likes], LATER)) == ("add", None, None, False)


@pytest.mark.parametrize("negative", ["does not like", "dislikes", "doesn't like", "hates"])
def test_the_opposite_closes_the_older_fact(negative: str) -> None:
    likes = known("likes", "tea")
    decision = decide(proposal(negative, "tea"), [likes, known("likes", "jam")], LATER)
    assert links(decision) == ("add", "likes tea", None, False)
    back = decide(proposal("likes", "tea"), [known(negative, "tea")], LATER)
    assert links(back)[1] == f"{negative} tea"


def test_an_end_closes_the_fact_that_it_names() -> None:
    ended = proposal("works at", "Acme", ends=True)
    acme = known("works at", "Acme")
    assert links(decide(ended, [acme, LIVES_IN_PORTO], LATER))[1] == "works at Acme"
    assert stored_predicate(ended) == "no longer works at"
    globex = known("works at", "Globex")
    assert links(decide(ended, [globex], LATER)) == ("add", None, None, False)
    again = known("no longer works at", "Acme")
    assert decide(ended, [again], LATER).action == "support"
    assert links(decide(proposal("works at", "Acme"), [again], LATER))[1] == again.fact.id
    replaced = replace(acme, fact=replace(acme.fact, status="replaced"))
    assert decide(ended, [replaced, globex], LATER).action == "ignore"


def test_an_end_without_an_object_needs_one_candidate() -> None:
    quit_job = proposal("works at", "", ends=True, statement="The user quit the job.")
    acme = known("works at", "Acme")
    globex = known("works at", "Globex", message=MessagePosition("s", 2, MAY))
    assert links(decide(quit_job, [acme], LATER))[1] == "works at Acme"
    decision = decide(quit_job, [acme, globex], LATER)
    assert links(decision) == ("add", None, "works at Globex", False)


def test_a_part_of_a_place_is_more_exact() -> None:
    lisbon = known("lives in", "Lisbon")
    decision = decide(proposal("lives in", "Alfama, Lisbon"), [lisbon], LATER)
    assert (links(decision)[1], decision.replacement_type) == ("lives in Lisbon", "refined")
    assert decision.valid_from is None
    alfama = known("lives in", "Alfama, Lisbon")
    assert decide(proposal("lives in", "Lisbon"), [alfama], LATER).fact == alfama.fact
    york = decide(proposal("lives in", "York"), [known("lives in", "New York")], LATER)
    assert links(york)[1] == "lives in New York", "another town"


def test_a_confirmed_fact_is_replaced_only_by_a_person() -> None:
    confirmed = known("lives in", "Porto", confirmed=True)
    decision = decide(proposal("lives in", "Lisbon"), [confirmed], LATER)
    porto = "lives in Porto"
    assert links(decision) == ("add", porto, porto, True), "once a person confirms it"
    ended = decide(proposal("lives in", "Porto", ends=True), [confirmed], LATER)
    assert links(ended) == ("add", porto, porto, True)
    agent = decide(proposal("lives in", "Lisbon"), [confirmed], LATER, source="agent")
    assert links(agent) == ("add", porto, porto, True)
    two = decide(proposal("lives in", "Lisbon"), [confirmed], LATER, is_ambiguous=True)
    assert links(two) == ("add", None, porto, True)
    waiting = known("lives in", "Lisbon", status="pending")
    again = decide(proposal("lives in", "Lisbon"), [confirmed, waiting], LATER)
    assert (again.action, again.fact) == ("support", waiting.fact)


def test_what_a_person_retracted_is_not_learned_again() -> None:
    retracted = known("lives in", "Porto", status="retracted", by_person=True)
    assert decide(proposal("lives in", "Porto"), [retracted], LATER).action == "ignore"
    learned = known("lives in", "Porto", status="retracted")
    assert decide(proposal("lives in", "Porto"), [learned], LATER).action == "add"


def test_an_ambiguous_name_makes_the_pair_unclear() -> None:
    for object in ("Lisbon", "Alfama, Porto"):
        decision = decide(proposal("lives in", object), [LIVES_IN_PORTO], LATER, is_ambiguous=True)
        assert links(decision) == ("add", None, "lives in Porto", False)
    larger = known("lives in", "Alfama, Lisbon")
    decision = decide(proposal("lives in", "Lisbon"), [larger], LATER, is_ambiguous=True)
    assert decision.action == "add"


@pytest.mark.parametrize(
    ("source", "other"),
    [
        ("user", "admin"),
        ("admin", "user"),
        ("tool", "import"),
        ("import", "tool"),
        ("user", "tool"),
    ],
)
def test_a_source_that_is_trusted_as_much_replaces(source: Source, other: Source) -> None:
    """People are equal, and so is text that may come from anyone."""
    older = known("lives in", "Porto", source=other)
    new = proposal("lives in", "Lisbon", statement="The user has moved to Lisbon.")
    assert links(decide(new, [older], LATER, source=source))[1:3] == (older.fact.id, None)


def test_a_less_trusted_source_retires_nothing() -> None:
    new = proposal("lives in", "Lisbon")
    assert links(decide(new, [LIVES_IN_PORTO], LATER, source="agent")) == (
        "add",
        None,
        "lives in Porto",
        False,
    )
    assert links(decide(new, [LIVES_IN_PORTO], LATER, source="import"))[1:3] == (
        None,
        "lives in Porto",
    )
    agent = known("lives in", "Porto", source="agent")
    assert links(decide(new, [agent], LATER))[1] == "lives in Porto"


def test_an_older_message_closes_itself_and_not_the_newer_fact() -> None:
    """Imported conversations are read after newer ones."""
    newer = known("lives in", "Porto", message=LATER)
    old = MessagePosition("imported", 90, MAY)
    decision = decide(proposal("lives in", "Lisbon"), [newer], old)
    assert links(decision) == ("add", None, None, False)
    assert decision.valid_to == JUNE
    since = known("lives in", "Porto", message=LATER, valid_from=MAY + timedelta(days=3))
    decision = decide(proposal("lives in", "Lisbon"), [since], old)
    assert decision.valid_to == MAY + timedelta(days=3)
    assert decide(proposal("lives in", "Porto", ends=True), [newer], old).action == "ignore"


def test_contradicting_times_are_unclear() -> None:
    since = known("lives in", "Porto", valid_from=MAY)
    decision = decide(
        proposal("lives in", "Lisbon", valid_from=MAY - timedelta(days=1)), [since], LATER
    )
    assert links(decision) == ("add", None, "lives in Porto", False)
    plan = decide(
        proposal("lives in", "Lisbon", valid_from=JUNE + timedelta(days=90)), [since], LATER
    )
    assert links(plan) == ("add", None, "lives in Porto", False)


def test_one_message_that_says_two_things_is_unclear() -> None:
    decision = decide(proposal("lives in", "Lisbon"), [LIVES_IN_PORTO], FIRST)
    assert links(decision) == ("add", None, "lives in Porto", False)


def test_a_fact_that_has_ended_is_no_contradiction() -> None:
    ended = known("lives in", "Porto", valid_to=MAY)
    assert links(decide(proposal("lives in", "Lisbon"), [ended], LATER))[1:3] == (None, None)
    again = decide(proposal("lives in", "Porto"), [ended], LATER)
    assert links(again) == ("add", None, None, False)


def test_pending_facts_are_supported_and_never_replaced() -> None:
    pending = known("lives in", "Porto", status="pending", source="tool")
    porto = proposal("lives in", "Porto")
    assert decide(porto, [pending], LATER, needs_review=True).action == "support"
    assert links(decide(porto, [pending], LATER)) == ("add", None, None, False), "the user said so"
    assert links(decide(proposal("lives in", "Lisbon"), [pending], LATER))[1:3] == (None, None)


def test_a_known_end_refines_a_fact() -> None:
    until = proposal("lives in", "Porto", valid_to=JUNE + timedelta(days=30))
    decision = decide(until, [LIVES_IN_PORTO], LATER)
    assert (links(decision)[1], decision.replacement_type) == ("lives in Porto", "refined")
    assert decision.valid_to == JUNE + timedelta(days=30)


def test_a_refined_fact_keeps_its_times() -> None:
    end = JUNE + timedelta(days=30)
    porto = known("lives in", "Porto", valid_from=MAY, valid_to=end)
    exact = decide(proposal("lives in", "Ribeira, Porto"), [porto], LATER)
    assert (links(exact)[1], exact.replacement_type) == ("lives in Porto", "refined")
    assert (exact.valid_from, exact.valid_to) == (MAY, end)
    since = decide(proposal("lives in", "Ribeira, Porto", valid_from=JUNE), [porto], LATER)
    assert (since.valid_from, since.valid_to) == (JUNE, end)
    later = decide(proposal("lives in", "Ribeira, Porto", valid_from=end), [porto], LATER)
    assert (later.valid_from, later.valid_to) == (end, None)


def test_of_two_unclear_facts_the_newest_is_replaced() -> None:
    second = known("lives in", "Rome", message=MessagePosition("s", 2, MAY))
    decision = decide(proposal("lives in", "Lisbon"), [second, LIVES_IN_PORTO], LATER)
    assert links(decision) == ("add", "lives in Rome", "lives in Porto", False)


def claim(relation: Any, about: Known, predicate: str, object: str, **values: Any) -> Decision:
    new = proposal(predicate, object, relation=relation, about=about.fact.id, **values)
    return decide(new, [about], LATER)


def test_a_plausible_claim_is_believed() -> None:
    prefers = known("prefers", "coffee")
    assert links(claim("changes", prefers, "prefers", "tea"))[1] == "prefers coffee"
    dog = known("has", "a dog")
    refined = claim("refines", dog, "has", "a dog called Bruno")
    assert (refined.replaces, refined.replacement_type) == (dog.fact, "refined")
    corrected = claim("corrects", LIVES_IN_PORTO, "lives in", "Lisbon")
    assert (corrected.replaces, corrected.replacement_type) == (LIVES_IN_PORTO.fact, "corrected")
    assert claim("same", dog, "owns", "a dog").fact == dog.fact
    ended = claim("changes", prefers, "wants", "coffee", ends=True, statement="No coffee any more.")
    assert ended.replaces == prefers.fact


@pytest.mark.parametrize("relation", ["same", "refines", "changes", "corrects", "unclear"])
def test_an_implausible_claim_leaves_both(relation: str) -> None:
    decision = claim(relation, LIVES_IN_PORTO, "likes", "chess")
    assert links(decision) == ("add", None, "lives in Porto", False)


def test_a_claim_cannot_make_one_of_several_objects_false() -> None:
    german = known("speaks", "German")
    assert links(claim("changes", german, "speaks", "French")) == (
        "add",
        None,
        "speaks German",
        False,
    )
    acme = known("works at", "Acme")
    other = claim("changes", acme, "works at", "Globex", ends=True)
    assert links(other) == ("add", None, None, False)


def test_a_claim_about_an_unknown_fact_claims_nothing() -> None:
    new = proposal("lives in", "Lisbon", relation="corrects", about="invented")
    decision = decide(new, [LIVES_IN_PORTO], LATER)
    assert (links(decision)[1], decision.replacement_type) == ("lives in Porto", "changed")
    confirmed = known("lives in", "Porto", confirmed=True)
    assert links(claim("corrects", confirmed, "lives in", "Lisbon"))[1:] == (
        "lives in Porto",
        "lives in Porto",
        True,
    )


def test_meanings_compare_predicates_of_different_words() -> None:
    assert meaning("is no longer working at", "the Acme") == meaning("works for", "Acme").opposite
    assert meaning("is allergic to", "nuts") == meaning("allergic to", "Nuts")
    assert is_exclusive("moved to")
    assert is_exclusive("favourite colour")
    assert not is_exclusive("likes")


def test_a_nickname_does_not_retire_a_name() -> None:
    kate = proposal("is called", "Kate", exclusive=True)
    assert links(decide(kate, [known("name", "Katherine")], LATER)) == ("add", None, None, False)


def test_a_correction_is_true_since_the_corrected_fact() -> None:
    porto = known("lives in", "Porto", valid_from=MAY)
    lisbon = proposal("lives in", "Lisbon", relation="corrects", about=porto.fact.id)
    decision = decide(lisbon, [porto], LATER)
    assert (decision.replacement_type, decision.valid_from) == ("corrected", MAY)

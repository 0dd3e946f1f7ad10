"""No sequence of statements retires a fact without an end, a correction or a newer lasting statement."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from memorist.learning.proposal import Proposal
from memorist.learning.resolution import (
    Decision,
    Known,
    MessagePosition,
    decide,
    meaning,
    stored_predicate,
)
from memorist.learning.statements import is_restricted_in_time, is_uncertain, make_proposals
from memorist.learning.tagging import FLAGS, SLOTS, Tag
from tests.kinds.fact_store import MAY, known

LEADS = (
    "",
    "now: ",
    "this week ",
    "maybe ",
    "used to ",
    "on the side ",
    "next year ",
    "bis Freitag ",
)
VALUES = ("Leeds", "Porto", "vegan", "nurse", "12", "married")
RESTRAINING = {"temporary", "past", "unsure", "reported"}


@st.composite
def messages(draw: st.DrawFn) -> tuple[str, Tag]:
    """Return a text with one value, as the reader might tag it."""
    lead = draw(st.sampled_from(LEADS))
    value = draw(st.sampled_from(VALUES))
    flags = draw(st.frozensets(st.sampled_from(FLAGS), max_size=2))
    slot = draw(st.sampled_from(SLOTS))
    text = f"{lead}{value}."
    return text, Tag(slot, len(lead), len(lead) + len(value), None, flags, 1.0)


def may_retire(text: str, tag: Tag, proposal: Proposal, older: Known) -> bool:
    """Return whether a statement is an end, a correction, or a newer one that lasts."""
    if {"ended", "correction", "negated"} & tag.flags:
        return older.fact.topic == proposal.topic or older.fact.predicate == proposal.predicate
    is_lasting = not (RESTRAINING & tag.flags or is_restricted_in_time(text) or is_uncertain(text))
    same = meaning(proposal.predicate, "").predicate == meaning(older.fact.predicate, "").predicate
    is_opposite = {tag.slot} <= {"likes", "dislikes"}
    is_more_exact = not proposal.exclusive and older.fact.object in proposal.object
    return is_lasting and same and (proposal.exclusive or is_opposite or is_more_exact)


@given(st.lists(messages(), min_size=2, max_size=8))
def test_nothing_retires_a_fact_without_a_reason(said: list[tuple[str, Tag]]) -> None:
    facts: list[Known] = []
    for number, (text, tag) in enumerate(said, 1):
        at = MAY + timedelta(days=30 * number)
        for proposal in make_proposals(text, [tag], at):
            message = MessagePosition(f"s{number}", 1, at)
            decision = decide(proposal, facts, message)
            if decision.replaces is not None:
                (older,) = (item for item in facts if item.fact.id == decision.replaces.id)
                assert may_retire(text, tag, proposal, older), (text, tag, older.fact.statement)
            facts = remember(facts, proposal, decision, message)


def remember(
    facts: list[Known], proposal: Proposal, decision: Decision, message: MessagePosition
) -> list[Known]:
    """Return the facts after a decision."""
    if decision.action != "add":
        return facts
    retired = decision.replaces.id if decision.replaces else None
    kept = [
        replace(item, fact=replace(item.fact, status="replaced"))
        if item.fact.id == retired
        else item
        for item in facts
    ]
    new = known(
        stored_predicate(proposal),
        proposal.object,
        message=message,
        id=f"{message.session} {len(facts)}",
        statement=proposal.statement,
        topic=proposal.topic,
        valid_to=decision.valid_to,
    )
    return [*kept, new]

"""The state of facts follows from their events, whatever the order of steps and undone steps."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from memorist.kinds.facts.chain import FactEvent, Link, is_stated, states

EVENTS = st.lists(
    st.builds(
        FactEvent,
        st.sampled_from(["added", "supported", "confirmed", "retracted"]),
        st.sampled_from(["user", "admin", "agent", "tool", "learning"]),
    ),
    max_size=5,
).map(tuple)
ADDED = (FactEvent("added", "learning"),)
CONFIRMED = (*ADDED, FactEvent("confirmed", "user"))
RETRACTED = (*ADDED, FactEvent("retracted", "user"))


@st.composite
def chains(draw: st.DrawFn) -> list[Link]:
    """Facts, each of which may replace an earlier one."""
    chain: list[Link] = []
    for number in range(draw(st.integers(1, 5))):
        earlier = [None, *(link.id for link in chain)]
        chain.append(
            Link(
                str(number),
                valid_from=draw(st.none() | st.integers(0, 9)),
                valid_to=draw(st.none() | st.integers(10, 19)),
                replaces=draw(st.sampled_from(earlier)),
                replaces_type=draw(st.sampled_from(["changed", "refined", "corrected"])),
                needs_review=draw(st.booleans()),
                events=draw(EVENTS),
            )
        )
    return chain


@given(EVENTS)
def test_the_last_word_of_a_person_decides(events: tuple[FactEvent, ...]) -> None:
    stated, confirmed = is_stated(events)
    by_people = [event for event in events if event.actor in ("user", "admin")]
    if by_people:
        assert stated == confirmed == (by_people[-1].action != "retracted")
    else:
        assert not confirmed
        assert stated == (bool(events) and events[-1].action != "retracted")


@given(chains())
def test_a_fact_is_replaced_only_by_a_live_one(chain: list[Link]) -> None:
    result = states(chain)
    for link in chain:
        state = result[link.id]
        stated, confirmed = is_stated(link.events)
        assert state.confirmed == confirmed
        if not stated:
            assert (state.status, state.replaced_by) == ("retracted", None)
        elif link.needs_review and not confirmed:
            assert state.status == "pending"
        elif state.replaced_by is None:
            assert (state.status, state.valid_to) == ("active", link.valid_to)
        else:
            newer = result[state.replaced_by]
            assert newer.status in ("active", "replaced") or newer.replaced_by is not None
            assert state.status == (
                "retracted" if state.replaced_type == "corrected" else "replaced"
            )


@given(chains(), st.integers(0, 4))
def test_a_retracted_fact_replaces_nothing(chain: list[Link], place: int) -> None:
    link = chain[place % len(chain)]
    retracted = replace(link, events=(*link.events, FactEvent("retracted", "user")))
    result = states([retracted if other is link else other for other in chain])
    assert result[link.id].status == "retracted"
    assert all(state.replaced_by != link.id for state in result.values())


def test_a_retracted_fact_in_the_middle_is_passed_over() -> None:
    old = Link("old", events=ADDED)
    middle = Link("middle", 5, replaces="old", replaces_type="changed", events=RETRACTED)
    new = Link("new", 8, replaces="middle", replaces_type="changed", events=ADDED)
    state = states([old, middle, new])["old"]
    assert (state.status, state.valid_to, state.replaced_by) == ("replaced", 8, "new")


def test_a_correction_of_a_retracted_fact_takes_its_place() -> None:
    old = Link("old", events=ADDED)
    middle = Link("middle", 5, replaces="old", replaces_type="changed", events=RETRACTED)
    new = Link("new", 5, replaces="middle", replaces_type="corrected", events=ADDED)
    state = states([old, middle, new])["old"]
    assert (state.status, state.valid_to, state.replaced_type) == ("replaced", 5, "changed")


def test_a_pending_fact_replaces_nothing_until_it_is_confirmed() -> None:
    old = Link("old", events=CONFIRMED)
    new = Link("new", 5, replaces="old", replaces_type="changed", needs_review=True, events=ADDED)
    assert states([old, new])["old"].status == "active"
    confirmed = replace(new, events=CONFIRMED)
    assert states([old, confirmed])["old"].status == "replaced"


def test_a_long_chain_needs_no_recursion() -> None:
    first = Link("0", events=ADDED)
    retracted = [
        Link(str(number), replaces=str(number - 1), replaces_type="changed", events=RETRACTED)
        for number in range(1, 5_000)
    ]
    last = Link("last", 7, replaces="4999", replaces_type="changed", events=ADDED)
    state = states([first, *retracted, last])["0"]
    assert (state.status, state.valid_to, state.replaced_by) == ("replaced", 7, "last")

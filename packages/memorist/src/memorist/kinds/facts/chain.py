"""The state of a fact: what follows from everything that happened to it and to those after it.

The words of a fact never change. Its status, end and replacement follow from its events: that it
was stated, confirmed or retracted, and that newer facts replace it. Facts that replace each other
form a chain. Whenever something happens to one of them (an event, an undone step, a removed
message, a deleted fact), the states that depend on it are recomputed and stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from memorist.kinds.facts.fact import COLUMNS, FactAction, FactRow, Status, fact_rows, mark
from memorist.kinds.trust import PEOPLE
from memorist.search.index import Index
from memorist.storage.database import Transaction

STATEMENTS: tuple[FactAction, ...] = ("added", "supported")
DECISIONS: tuple[FactAction, ...] = ("confirmed", "retracted")
LEARNING = "learning"
"""The actor of the background job that learns facts."""


@dataclass(frozen=True)
class FactEvent:
    """Something that happened to a fact.

    The column `rests` is 1 for an event that rests on messages: it counts only as long as one of
    them exists.
    """

    action: FactAction
    actor: str


@dataclass(frozen=True)
class Link:
    """A fact in a chain, with the events that still count."""

    id: str
    valid_from: int | None = None
    valid_to: int | None = None  # as it was stated
    replaces: str | None = None
    replaces_type: str | None = None  # why this fact replaces `replaces`
    needs_review: bool = False
    events: Sequence[FactEvent] = field(default_factory=tuple)


@dataclass(frozen=True)
class FactState:
    """The columns of a fact that follow from its chain."""

    status: Status
    confirmed: bool = False
    valid_to: int | None = None  # as it was stated, or when a newer fact became true
    replaced_by: str | None = None
    replaced_type: str | None = None  # why `replaced_by` replaces this fact


class Replacement(NamedTuple):
    """The fact that replaces another, why, and since when it is true."""

    id: str
    type: str | None
    since: int | None


def is_stated(events: Sequence[FactEvent]) -> tuple[bool, bool]:
    """Return whether a fact is stated, and whether a person says so.

    A person's word outranks that of agents and of learning, whenever it was said. Otherwise the
    last event counts.
    """
    by_people = [event for event in events if event.actor in PEOPLE]
    for decisive in (by_people, events):
        relevant = [event for event in decisive if event.action in STATEMENTS + DECISIONS]
        if relevant:
            stated = relevant[-1].action != "retracted"
            return stated, stated and decisive is by_people
    return False, False


def states(chain: Sequence[Link]) -> dict[str, FactState]:
    """Return the state of each fact of a chain."""
    newer: dict[str | None, list[Link]] = {}
    for link in chain:
        newer.setdefault(link.replaces, []).append(link)
    own = {link.id: _own_state(link) for link in chain}
    replacements: dict[str, Replacement] = {}
    for link in reversed(_oldest_first(chain, newer)):
        replacement = _find_replacement(newer.get(link.id, []), own, replacements)
        if replacement is not None:
            replacements[link.id] = replacement

    result = {}
    for link in chain:
        state = own[link.id]
        later = replacements.get(link.id) if state.status == "active" else None
        if later is not None:
            is_changed = later.type == "changed"
            state = FactState(
                "retracted" if later.type == "corrected" else "replaced",
                state.confirmed,
                _earlier(link.valid_to, later.since) if is_changed else link.valid_to,
                later.id,
                later.type,
            )
        result[link.id] = state
    return result


def _oldest_first(chain: Sequence[Link], newer: Mapping[str | None, Sequence[Link]]) -> list[Link]:
    """Return the facts of a chain, each after the one that it replaces."""
    ids = {link.id for link in chain}
    ordered = [link for link in chain if link.replaces not in ids]
    for link in ordered:  # the loop also visits the facts that it appends
        ordered += newer.get(link.id, [])
    return ordered


def _find_replacement(
    newer: Sequence[Link], own: Mapping[str, FactState], replacements: Mapping[str, Replacement]
) -> Replacement | None:
    """Return what replaces a fact, without the retracted facts in between.

    newer: the facts that were stated to replace it
    """
    for link in reversed(newer):
        if own[link.id].status == "active":
            return Replacement(link.id, link.replaces_type, link.valid_from)
    for link in reversed(newer):
        later = replacements.get(link.id) if own[link.id].status == "retracted" else None
        if later is not None:
            # A correction or refinement of a retracted fact takes its place.
            replaces_type = later.type if later.type == "changed" else link.replaces_type
            since = link.valid_from if later.since is None else later.since
            return Replacement(later.id, replaces_type, since)
    return None


def _own_state(link: Link) -> FactState:
    """Return the state of a fact without those that replace it."""
    stated, confirmed = is_stated(link.events)
    if not stated:
        return FactState("retracted", valid_to=link.valid_to)
    waits = link.needs_review and not confirmed
    return FactState("pending" if waits else "active", confirmed, link.valid_to)


def _earlier(first: int | None, second: int | None) -> int | None:
    return min((end for end in (first, second) if end is not None), default=None)


# -- stored chains -----------------------------------------------------------------------------


def find_fact(tx: Transaction, id: str) -> FactRow | None:
    """Return the row of a fact."""
    row = tx.one(f"select {COLUMNS} from facts where tenant = :tenant and id = :id", id=id)
    return None if row is None else FactRow(*row)


_CHAIN = """with recursive older (id, replaces, is_retracted) as (
        select id, replaces, 1 from facts where tenant = :tenant and id = :id
        union
        select facts.id, facts.replaces,
            case when facts.status = 'retracted' and facts.replaced_by is null then 1 else 0 end
        from older cross join facts
        where facts.tenant = :tenant and facts.id = older.replaces
        and (older.is_retracted = 1 or :whole = 1)),
    chain (id) as (
        select id from older
        union
        select facts.id from chain cross join facts
        where facts.tenant = :tenant and facts.replaces = chain.id)"""
"""The ids of a fact, of those that it replaced and of those that replace any of them.

If `:whole` is 0, only the ids whose state may depend on the fact: the one that it replaced, older
ones if all facts in between are retracted, and the facts that replace these.
"""


def read_chain(tx: Transaction, id: str, *, whole: bool = True) -> list[FactRow]:
    """Return the rows of a fact, of those that it replaced and of those that replace them."""
    rows = tx.all(
        f"""{_CHAIN} select {COLUMNS} from facts
            where tenant = :tenant and id in (select id from chain) order by learned_at, id""",
        id=id,
        whole=int(whole),
    )
    return fact_rows(rows)


def refresh(tx: Transaction, index: Index, ids: Iterable[str]) -> list[str]:
    """Recompute the states that depend on facts, and return the ids that became active.

    The result does not depend on the order of the ids; sorted ids take the fewest reads, because
    a fact has a later id than the one that it replaces.
    """
    done: set[str] = set()
    activated = []
    marks = []
    for id in ids:
        if id in done:
            continue
        rows = read_chain(tx, id, whole=False)
        links = _links(tx, id, rows)
        # Not the facts that it replaced: if one of them was retracted too, older ones change.
        done |= _with_newer(id, links)
        new_states = states(links)
        for row in rows:
            new = new_states[row.id]
            if new != _stored_state(row):
                _store(tx, row.id, new)
                marks.append(mark(row.user_id, row.id))
                if new.status == "active" and row.status != "active":
                    activated.append(row.id)
    index.mark(tx, marks)
    return activated


def _with_newer(id: str, chain: Sequence[Link]) -> set[str]:
    """Return the ids of a fact and of those that replace it, directly or through others."""
    newer: dict[str | None, list[str]] = {}
    for link in chain:
        newer.setdefault(link.replaces, []).append(link.id)
    ids = [id]
    for older in ids:  # the loop also visits the ids that it appends
        ids += newer.get(older, [])
    return set(ids)


def _links(tx: Transaction, id: str, rows: Sequence[FactRow]) -> list[Link]:
    """Return facts with the events that were not undone and whose messages exist."""
    events: dict[str, list[FactEvent]] = {row.id: [] for row in rows}
    event_rows = tx.all(
        f"""{_CHAIN} select event.fact_id, action, actor
            from chain cross join fact_events event
            where event.tenant = :tenant and event.fact_id = chain.id and undone = 0
            and (rests = 0 or exists (
                select 1 from fact_evidence evidence where evidence.tenant = :tenant
                and evidence.fact_id = event.fact_id and evidence.step = event.step))
            order by event.fact_id, number""",
        id=id,
        whole=0,
    )
    for fact_id, action, actor in event_rows:
        events[fact_id].append(FactEvent(action, actor))
    return [
        Link(
            row.id,
            row.valid_from,
            row.stated_to,
            row.replaces,
            row.replaces_how,
            bool(row.needs_review),
            events[row.id],
        )
        for row in rows
    ]


def _stored_state(row: FactRow) -> FactState:
    return FactState(
        row.status,
        bool(row.confirmed),
        row.valid_to,
        row.replaced_by,
        row.replaced_how,
    )


def _store(tx: Transaction, id: str, state: FactState) -> None:
    tx.send(
        """update facts set status = :status, confirmed = :confirmed, valid_to = :valid_to,
               replaced_by = :replaced_by, replaced_how = :replaced_how
           where tenant = :tenant and id = :id""",
        id=id,
        status=state.status,
        confirmed=int(state.confirmed),
        valid_to=state.valid_to,
        replaced_by=state.replaced_by,
        replaced_how=state.replaced_type,
    )

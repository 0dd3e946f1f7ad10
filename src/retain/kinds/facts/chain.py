"""The state of a fact: what follows from everything that happened to it and to those after it.

The words of a fact never change. Its status, end and replacement follow from its events: that it
was stated, confirmed or retracted, and that newer facts replace it. Facts that replace each other
form a chain. Whenever something happens to one of them (an event, an undone step, a removed
message, a deleted fact), the states of the whole chain are computed again and stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from retain.kinds.facts.fact import COLUMNS, PEOPLE, Action, Status, column, index_rows
from retain.search.index import Index
from retain.storage.database import Row, Transaction

STATEMENTS: tuple[Action, ...] = ("added", "supported")
DECISIONS: tuple[Action, ...] = ("confirmed", "retracted")
LEARNING = "learning"
"""The actor of the background job that learns facts."""


@dataclass(frozen=True)
class Event:
    """Something that happened to a fact."""

    action: Action
    actor: str


@dataclass(frozen=True)
class Link:
    """A fact in a chain, with the events that still count."""

    id: str
    valid_from: int | None = None
    valid_to: int | None = None  # as it was stated
    replaces: str | None = None
    replacement_type: str | None = None  # of `replaces` by this fact
    needs_review: bool = False
    events: Sequence[Event] = field(default_factory=tuple)


@dataclass(frozen=True)
class State:
    """The columns of a fact that follow from its chain."""

    status: Status
    confirmed: bool = False
    valid_to: int | None = None  # as it was stated, or when a newer fact became true
    replaced_by: str | None = None
    replacement_type: str | None = None  # of this fact by `replaced_by`


class Replacement(NamedTuple):
    """The fact that replaces another, why, and since when it is true."""

    id: str
    type: str | None
    since: int | None


def is_stated(events: Sequence[Event]) -> tuple[bool, bool]:
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


def states(chain: Sequence[Link]) -> dict[str, State]:
    """Return the state of each fact of a chain."""
    newer: dict[str | None, list[Link]] = {}
    for link in chain:
        newer.setdefault(link.replaces, []).append(link)
    own = {link.id: _own_state(link) for link in chain}

    def replacement(link: Link) -> Replacement | None:
        """Return what replaces a fact; retracted facts between them are passed over."""
        for candidate in reversed(newer.get(link.id, [])):
            if own[candidate.id].status == "active":
                return Replacement(candidate.id, candidate.replacement_type, candidate.valid_from)
        for candidate in reversed(newer.get(link.id, [])):
            later = replacement(candidate) if own[candidate.id].status == "retracted" else None
            if later is not None:
                # What corrects or refines a retracted fact takes its place.
                type = later.type if later.type == "changed" else candidate.replacement_type
                since = candidate.valid_from if later.since is None else later.since
                return Replacement(later.id, type, since)
        return None

    result = {}
    for link in chain:
        state = own[link.id]
        later = replacement(link) if state.status == "active" else None
        if later is not None:
            is_changed = later.type == "changed"
            state = State(
                "retracted" if later.type == "corrected" else "replaced",
                state.confirmed,
                _earlier(link.valid_to, later.since) if is_changed else link.valid_to,
                later.id,
                later.type,
            )
        result[link.id] = state
    return result


def _own_state(link: Link) -> State:
    """Return the state of a fact without those that replace it."""
    stated, confirmed = is_stated(link.events)
    if not stated:
        return State("retracted", valid_to=link.valid_to)
    waits = link.needs_review and not confirmed
    return State("pending" if waits else "active", confirmed, link.valid_to)


def _earlier(first: int | None, second: int | None) -> int | None:
    return min((end for end in (first, second) if end is not None), default=None)


# -- stored chains -----------------------------------------------------------------------------


def find_fact(tx: Transaction, id: str) -> Row | None:
    """Return the row of a fact."""
    return tx.one(f"select {COLUMNS} from facts where tenant = :tenant and id = :id", id=id)


def read_chain(tx: Transaction, id: str) -> list[Row]:
    """Return the rows of a fact, of those that it replaced and of those that replace them."""
    first = find_fact(tx, id)
    seen: dict[str, Row] = {}
    while first is not None:
        seen[column(first, "id")] = first
        earlier = column(first, "replaces")
        if earlier is None or earlier in seen:
            break
        row = find_fact(tx, earlier)
        if row is None:
            break
        first = row
    if first is None:
        return []
    chain = {column(first, "id"): first}
    waiting = [column(first, "id")]
    while waiting:
        rows = tx.all(
            f"""select {COLUMNS} from facts
                where tenant = :tenant and replaces = :id order by learned_at, id""",
            id=waiting.pop(),
        )
        for row in rows:
            if column(row, "id") not in chain:
                chain[column(row, "id")] = row
                waiting.append(column(row, "id"))
    return sorted(chain.values(), key=lambda row: (column(row, "learned_at"), column(row, "id")))


def refresh(tx: Transaction, index: Index, ids: Iterable[str]) -> list[str]:
    """Compute the states of the chains of facts again, and return the ids that became active."""
    done: set[str] = set()
    activated = []
    for id in ids:
        if id in done:
            continue
        rows = read_chain(tx, id)
        new_states = states([_link(tx, row) for row in rows])
        for row in rows:
            done.add(column(row, "id"))
            new = new_states[column(row, "id")]
            if new != _stored_state(row):
                _store(tx, index, row, new)
                if new.status == "active" and column(row, "status") != "active":
                    activated.append(column(row, "id"))
    return activated


def _link(tx: Transaction, row: Row) -> Link:
    """Return a fact with the events that were not undone and whose messages exist."""
    id = column(row, "id")
    events = tx.all(
        """select action, actor from fact_events event
           where tenant = :tenant and fact_id = :id and undone = 0
           and (rests = 0 or exists (
               select 1 from fact_evidence evidence where evidence.tenant = :tenant
               and evidence.fact_id = :id and evidence.step = event.step))
           order by number""",
        id=id,
    )
    return Link(
        id,
        column(row, "valid_from"),
        column(row, "stated_to"),
        column(row, "replaces"),
        column(row, "replaces_how"),
        bool(column(row, "needs_review")),
        [Event(action, actor) for action, actor in events],
    )


def _stored_state(row: Row) -> State:
    return State(
        column(row, "status"),
        bool(column(row, "confirmed")),
        column(row, "valid_to"),
        column(row, "replaced_by"),
        column(row, "replaced_how"),
    )


def _store(tx: Transaction, index: Index, row: Row, state: State) -> None:
    values: Mapping[str, object] = {
        "status": state.status,
        "confirmed": int(state.confirmed),
        "valid_to": state.valid_to,
        "replaced_by": state.replaced_by,
        "replaced_how": state.replacement_type,
    }
    id = column(row, "id")
    tx.send(
        """update facts set status = :status, confirmed = :confirmed, valid_to = :valid_to,
               replaced_by = :replaced_by, replaced_how = :replaced_how
           where tenant = :tenant and id = :id""",
        id=id,
        **values,
    )
    changed = find_fact(tx, id)
    if changed is not None:
        index.replace(tx, "facts", id, index_rows(changed))

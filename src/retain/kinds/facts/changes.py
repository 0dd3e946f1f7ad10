"""Changes of facts: each is in the history of its fact and can be undone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from retain.base import ids
from retain.base.errors import Conflict
from retain.kinds.facts.fact import (
    COLUMNS,
    Evidence,
    add_evidence,
    column,
    index_rows,
    lock_facts,
    read_evidence,
)
from retain.search.index import Index
from retain.storage.database import Row, Transaction

ALL_MESSAGES = 2**53
"""A number above that of any message."""
_MUTABLE = ("status", "confirmed", "valid_to", "replaced_by")
"""The columns that change after a fact was added. Its words never do."""


class _Change(NamedTuple):
    step: str
    undoes: str | None
    before: dict[str, Any] | None


class Step:
    """One step of a person, an agent or the learning job. It may change several facts."""

    def __init__(self, tx: Transaction, index: Index, source: str) -> None:
        self._tx = tx
        self._index = index
        self._source = source
        self._id = ids.uuid7()

    def add(self, values: Mapping[str, Any], evidence: Sequence[Evidence]) -> Row:
        """Insert a fact and return its row."""
        self._tx.send(
            """insert into facts (tenant, id, user_id, agent, subject, subject_key, statement,
                   statement_key, predicate, object, topic, valid_from, valid_to, learned, confirmed,
                   confidence, source, status, replaces, replaced_by, learned_at)
               values (:tenant, :id, :user, :agent, :subject, :subject_key, :statement,
                   :statement_key, :predicate, :object, :topic, :valid_from, :valid_to, :learned,
                   :confirmed, :confidence, :source, :status, :replaces, null, :now)""",
            **values,
            source=self._source,
        )
        id = values["id"]
        add_evidence(self._tx, id, evidence)
        self._record(id, "added", None)
        row = find_fact(self._tx, id)
        self._index.add(self._tx, index_rows(row))
        return row

    def change(self, row: Row, action: str, **columns: Any) -> Row:
        """Set some of the columns that may change, and return the new row."""
        id = column(row, "id")
        self._record(id, action, row)
        return self._set(id, {name: column(row, name) for name in _MUTABLE} | columns)

    def support(self, row: Row, evidence: Sequence[Evidence]) -> Row:
        """Add messages to the evidence of a fact."""
        id = column(row, "id")
        known = read_evidence(self._tx, [id])[id]
        if any(message not in known for message in evidence):
            self._record(id, "supported", row)
            add_evidence(self._tx, id, evidence)
        return row

    def retract(self, row: Row, action: str = "retracted", *, withdrawn: bool = False) -> Row:
        """Retract a fact. The fact that it replaced is true again.

        withdrawn: its evidence was removed, so a fact that it corrected is true again, too
        """
        retracted = self.change(row, action, status="retracted")
        replaced = self._tx.one(
            f"""select {COLUMNS} from facts
                where tenant = :tenant and id = :id and replaced_by = :newer""",
            id=column(row, "replaces"),
            newer=column(row, "id"),
        )
        if replaced and (withdrawn or column(replaced, "status") == "replaced"):
            before = self._changes(column(replaced, "id"))[-1].before or {}
            columns = {"valid_to": before.get("valid_to"), "replaced_by": None}
            self.change(replaced, "restored", status="active", **columns)
        return retracted

    def undo(self, id: str) -> Row:
        """Undo the last step that changed a fact, for all facts that it changed."""
        step = self._last_step(id)
        if step is None:
            raise Conflict(problem="There is nothing to undo")
        rows = self._tx.all(
            "select distinct fact_id from fact_changes where tenant = :tenant and step = :step",
            step=step,
        )
        changed_ids = sorted(changed_id for (changed_id,) in rows)
        for changed_id in changed_ids:
            if self._last_step(changed_id) != step:
                problem = (
                    f"The step also changed the fact {changed_id}, which was changed again later; "
                    "undo that first"
                )
                raise Conflict(problem=problem)
        for changed_id in changed_ids:
            self._restore(changed_id, step)
        return find_fact(self._tx, id)

    def _changes(self, id: str) -> list[_Change]:
        """Return the changes of a fact in order."""
        rows = self._tx.all(
            """select step, undoes, before from fact_changes
               where tenant = :tenant and fact_id = :id order by number""",
            id=id,
        )
        return [
            _Change(step, undoes, None if before is None else json.loads(before))
            for step, undoes, before in rows
        ]

    def _last_step(self, id: str) -> str | None:
        """Return the last step that changed a fact and was not undone."""
        steps: list[str] = []
        for change in self._changes(id):
            if change.undoes is not None:
                steps = [step for step in steps if step != change.undoes]
            else:
                steps.append(change.step)
        return steps[-1] if steps else None

    def _restore(self, id: str, step: str) -> None:
        """Set a fact to its state before a step."""
        before = next(change.before for change in self._changes(id) if change.step == step)
        row = find_fact(self._tx, id)
        self._record(id, "undone", row, undoes=step)
        if before is None:  # the step added it
            current = {name: column(row, name) for name in _MUTABLE}
            self._set(id, {**current, "status": "retracted"})
            return
        self._restore_evidence(id, before.pop("evidence"))
        if column(row, "learned") and not read_evidence(self._tx, [id])[id]:
            before["status"] = "retracted"
        self._set(id, before)

    def _restore_evidence(self, id: str, messages: Sequence[tuple[str, int]]) -> None:
        """Link a fact to the messages of an earlier state that still exist."""
        self._tx.send("delete from fact_evidence where tenant = :tenant and fact_id = :id", id=id)
        existing = [
            Evidence(session, seq)
            for session, seq in messages
            if self._tx.one(
                """select 1 from messages where tenant = :tenant
                   and session_id = :session and seq = :seq and chatter < 2""",
                session=session,
                seq=seq,
            )
        ]
        add_evidence(self._tx, id, existing)

    def _set(self, id: str, values: Mapping[str, Any]) -> Row:
        self._tx.send(
            """update facts set status = :status, confirmed = :confirmed, valid_to = :valid_to,
                   replaced_by = :replaced_by
               where tenant = :tenant and id = :id""",
            id=id,
            **values,
        )
        row = find_fact(self._tx, id)
        self._index.remove(self._tx, "facts", id)
        self._index.add(self._tx, index_rows(row))
        return row

    def _record(self, id: str, action: str, row: Row | None, *, undoes: str | None = None) -> None:
        """Add a change to the history of a fact. `row` is the fact before it, None for a new one."""
        before = None
        if row is not None:
            evidence = read_evidence(self._tx, [id])[id]
            state = {name: column(row, name) for name in _MUTABLE}
            messages = [[message.session, message.seq] for message in evidence]
            before = json.dumps({**state, "evidence": messages})
        self._tx.send(
            """insert into fact_changes
                   (tenant, fact_id, number, step, undoes, action, source, before, created_at)
               values (:tenant, :id, 1 + coalesce((
                   select max(number) from fact_changes where tenant = :tenant and fact_id = :id), 0),
                   :step, :undoes, :action, :source, :before, :now)""",
            id=id,
            step=self._id,
            undoes=undoes,
            action=action,
            source=self._source,
            before=before,
        )


_SELECT = f"select {COLUMNS} from facts where tenant = :tenant and id = :id"


def find_fact(tx: Transaction, id: str) -> Row:
    """Return the row of a fact that exists."""
    return tx.one(_SELECT, id=id) or ()


def remove_evidence(tx: Transaction, index: Index, session: str, first: int, last: int) -> None:
    """Remove messages of a session from the evidence of facts, before they are deleted.

    Facts that were learned only from them are retracted.
    """
    rows = tx.all(
        """select distinct fact_id from fact_evidence where tenant = :tenant
           and session_id = :session and seq >= :first and seq <= :last""",
        session=session,
        first=first,
        last=last,
    )
    if not rows:
        return
    lock_facts(tx, column(find_fact(tx, rows[0][0]), "user_id"))  # a session has one user
    tx.send(
        """delete from fact_evidence where tenant = :tenant
           and session_id = :session and seq >= :first and seq <= :last""",
        session=session,
        first=first,
        last=last,
    )
    for (id,) in rows:
        row = find_fact(tx, id)
        is_supported = not column(row, "learned") or read_evidence(tx, [id])[id]
        if not is_supported and column(row, "status") in ("active", "pending"):
            step = Step(tx, index, column(row, "source"))
            step.retract(row, "message removed", withdrawn=True)

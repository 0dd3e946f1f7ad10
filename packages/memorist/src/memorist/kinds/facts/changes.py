"""Changes of facts: each is a step in their history and can be undone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from memorist.base import ids
from memorist.base.errors import Conflict, NotFound
from memorist.kinds.facts.chain import FactEvent, find_fact, is_stated, refresh
from memorist.kinds.facts.fact import (
    COLUMNS,
    EARLIEST,
    LATEST,
    Evidence,
    FactAction,
    FactRow,
    ReplacementType,
    Topic,
    comparison_key,
    fact_rows,
    lock_facts,
    mark,
    read_evidence,
)
from memorist.kinds.trust import PEOPLE, PEOPLE_SQL
from memorist.search.index import Index
from memorist.storage.checksum import checksum
from memorist.storage.damage import changed_checksum
from memorist.storage.database import Transaction
from memorist.storage.tables import OF_AGENT_SESSION, Table

_ACTIONS: dict[ReplacementType, FactAction] = {
    "changed": "replaced",
    "refined": "refined",
    "corrected": "corrected",
}
"""The action that is recorded for the older fact, by the type of its replacement."""
_DENIALS: tuple[FactAction, ...] = ("retracted", "corrected", "undone")
"""If one of these is the last action of a person, agents and learning do not add the fact again."""
FACTS = Table(
    "facts",
    order="id",
    owned="user_id = :user",
    of_agent="agent = :agent",
    checked=("subject", "statement", "predicate", "object"),
)
REMOVED = "(removed with its message)"
"""The statement of a fact whose messages were removed."""
ALL_MESSAGES = 2**53
"""A number above that of any message."""
_OF_MESSAGES = "session_id = :session and seq >= :first and seq <= :last"


@dataclass(frozen=True)
class NewFact:
    """The words of a new fact, checked and masked, and when it is true."""

    subject: str
    statement: str
    predicate: str = ""
    object: str = ""
    topic: Topic = "other"
    valid_from: int | None = None
    valid_to: int | None = None
    confidence: float = 1.0

    @property
    def subject_key(self) -> str:
        """The key by which subjects are compared."""
        return comparison_key(self.subject)

    @property
    def statement_key(self) -> str:
        """The key by which statements are compared."""
        return comparison_key(self.statement)


class FactStep:
    """One step of a person, an agent or the learning job. It may change several facts.

    actor:  `user`, `admin`, `agent`, `tool`, `import`, or `learning`
    source: the source of facts that the step adds; the learning job reads what the user said
    """

    def __init__(
        self,
        tx: Transaction,
        index: Index,
        actor: str,
        user: str,
        *,
        source: str | None = None,
        agent: str | None = None,
    ) -> None:
        self._tx = tx
        self._index = index
        self._actor = actor
        self._user = user
        self._source = source or actor
        self._agent = None if self._source in PEOPLE else agent
        self._id = ids.uuid7()

    def add(
        self,
        new: NewFact,
        evidence: Sequence[Evidence] = (),
        *,
        replaces: str | None = None,
        replacement_type: ReplacementType = "changed",
        conflicts_with: str | None = None,
        needs_review: bool = False,
    ) -> str:
        """Add a fact and return its id.

        replaces:       the fact that it replaces; pending facts replace it once they are confirmed
        conflicts_with: a fact that may contradict it; a person decides
        needs_review:   it is pending until a person confirms it
        """
        id = ids.uuid7()
        _, confirmed = is_stated([FactEvent("added", self._actor)])
        is_pending = needs_review and not confirmed
        self._tx.send(
            """insert into facts (tenant, id, user_id, agent, subject, subject_key, statement,
                   statement_key, predicate, object, topic, valid_from, stated_to, source,
                   confidence, learned_at, replaces, replaces_how, conflicts_with, needs_review,
                   status, confirmed, valid_to, checksum)
               values (:tenant, :id, :user, :agent, :subject, :subject_key, :statement,
                   :statement_key, :predicate, :object, :topic, :valid_from, :valid_to, :source,
                   :confidence, :now, :replaces, :replacement_type, :conflicts_with, :needs_review,
                   :status, :confirmed, :valid_to, :checksum)""",
            id=id,
            user=self._user,
            agent=self._agent,
            subject=new.subject,
            subject_key=new.subject_key,
            statement=new.statement,
            checksum=checksum(new.subject, new.statement, new.predicate, new.object),
            statement_key=new.statement_key,
            predicate=new.predicate,
            object=new.object,
            topic=new.topic,
            valid_from=new.valid_from,
            valid_to=new.valid_to,
            source=self._source,
            confidence=new.confidence,
            replaces=replaces,
            replacement_type=replacement_type if replaces else None,
            conflicts_with=conflicts_with,
            needs_review=int(needs_review),
            status="pending" if is_pending else "active",
            confirmed=int(confirmed),
        )
        self._record(id, "added", evidence)
        if not is_pending:
            self._index.mark(self._tx, [mark(self._user, id)])
        if replaces is not None:
            self._record(replaces, _ACTIONS[replacement_type], other=id)
            refresh(self._tx, self._index, [replaces])
        return id

    def support(self, id: str, evidence: Sequence[Evidence] = ()) -> None:
        """State a known fact again. An agent without a new message for it adds nothing."""
        known = read_evidence(self._tx, [id])[id]
        new = [message for message in evidence if message not in known]
        if new or self._actor in PEOPLE:
            self._record(id, "supported", new)
            refresh(self._tx, self._index, [id])

    def confirm(self, id: str) -> None:
        """Confirm a fact. Raise Conflict if another active fact has the same words."""
        self._record(id, "confirmed")
        for activated in refresh(self._tx, self._index, [id]):
            _require_no_duplicate(self._tx, activated)

    def retract(self, id: str, evidence: Sequence[Evidence] = ()) -> None:
        """Retract a fact. The fact that it replaced is true again."""
        self._record(id, "retracted", evidence)
        refresh(self._tx, self._index, [id])

    def undo(self, id: str) -> None:
        """Undo the last step that changed a fact, for all facts that it changed."""
        last = self._tx.one(
            """select step from fact_events
               where tenant = :tenant and fact_id = :id and undone = 0 and action <> 'undone'
               order by number desc limit 1""",
            id=id,
        )
        if last is None:
            raise Conflict(problem="There is nothing to undo")
        (step,) = last
        rows = self._tx.all(
            "select fact_id from fact_events where tenant = :tenant and step = :step", step=step
        )
        changed = sorted({str(changed_id) for (changed_id,) in rows})
        self._tx.send(
            "update fact_events set undone = 1 where tenant = :tenant and step = :step", step=step
        )
        for changed_id in changed:
            self._record(changed_id, "undone")
        for activated in refresh(self._tx, self._index, changed):
            _require_no_duplicate(self._tx, activated)

    def _record(
        self,
        id: str,
        action: FactAction,
        evidence: Sequence[Evidence] = (),
        other: str | None = None,
    ) -> None:
        """Add an event to the history of a fact, with its messages."""
        self._tx.send(
            """insert into fact_events
                   (tenant, fact_id, number, step, action, actor, rests, other, undone, created_at)
               select tenant, id, 1 + coalesce((
                   select max(number) from fact_events where tenant = :tenant and fact_id = :id), 0),
                   :step, :action, :actor, :rests, :other, 0, cast(:now as {time})
               from facts where tenant = :tenant and id = :id""",
            id=id,
            step=self._id,
            action=action,
            actor=self._actor,
            # A fact that a person stated stays when its messages are removed.
            rests=int(bool(evidence) and self._actor not in PEOPLE),
            other=other,
        )
        self._tx.many(
            """insert into fact_evidence (tenant, fact_id, step, session_id, seq)
               values (:tenant, :id, :step, :session, :seq) on conflict do nothing""",
            [
                {"id": id, "step": self._id, "session": message.session, "seq": message.seq}
                for message in evidence
            ],
        )


def find_duplicates(tx: Transaction, user: str, new: NewFact) -> list[FactRow]:
    """Return the live facts with the same words that are true at the same time as a new fact.

    Active ones come first.
    """
    rows = tx.all(
        f"""select {COLUMNS} from facts
            where tenant = :tenant and user_id = :user and subject_key = :subject_key
            and statement_key = :statement_key
            and coalesce(valid_to, :latest) > :start and coalesce(valid_from, :earliest) < :stop""",
        user=user,
        subject_key=new.subject_key,
        statement_key=new.statement_key,
        start=EARLIEST if new.valid_from is None else new.valid_from,
        stop=LATEST if new.valid_to is None else new.valid_to,
        earliest=EARLIEST,
        latest=LATEST,
    )
    live = [row for row in fact_rows(rows) if row.status in ("active", "pending")]
    return sorted(
        live,
        key=lambda row: (row.status, row.learned_at, row.id),
    )


def find_denied(
    tx: Transaction, user: str, subject_key: str, statement_key: str | None = None
) -> list[str]:
    """Return the facts about a subject that a person retracted, corrected or undid, newest last.

    An undone fact counts if an agent or learning had added it. A denial ends when a person later
    states a fact with the same words.

    statement_key: only facts with these words
    """
    rows = tx.all(
        f"""select facts.id, event.action, event.actor, event.undone,
               case when exists (
                   select 1 from facts same join fact_events statement
                   on statement.tenant = :tenant and statement.fact_id = same.id
                   where same.tenant = :tenant and same.user_id = :user
                   and same.subject_key = :subject_key
                   and same.statement_key = facts.statement_key
                   and statement.action in ('added', 'supported', 'confirmed')
                   and statement.actor in {PEOPLE_SQL} and statement.undone = 0
                   and (statement.created_at, statement.step) > (event.created_at, event.step)
               ) then 1 else 0 end
           from facts cross join fact_events event
           where facts.tenant = :tenant and facts.user_id = :user
           and facts.subject_key = :subject_key
           and facts.statement_key = coalesce(:statement_key, facts.statement_key)
           and facts.status = 'retracted'
           and event.tenant = :tenant and event.fact_id = facts.id
           order by facts.learned_at, facts.id, event.number""",
        user=user,
        subject_key=subject_key,
        statement_key=statement_key,
    )
    is_denied: dict[str, bool] = {}  # by the last action of a person
    undone_additions = set()
    for id, action, actor, undone, is_stated_later in rows:
        if undone:
            if action == "added" and actor not in PEOPLE:
                undone_additions.add(id)
        elif actor in PEOPLE and (action != "undone" or id in undone_additions):
            is_denied[id] = action in _DENIALS and not is_stated_later
    return [id for id, denied in is_denied.items() if denied]


def _require_no_duplicate(tx: Transaction, id: str) -> None:
    row = find_fact(tx, id)
    if row is None or row.status != "active":
        return
    same = NewFact(
        row.subject,
        row.statement,
        valid_from=row.valid_from,
        valid_to=row.valid_to,
    )
    for duplicate in find_duplicates(tx, row.user_id, same):
        if duplicate.id != id and duplicate.status == "active":
            raise Conflict(
                problem=f"The fact {duplicate.id} says the same; forget one of the two first"
            )


def delete_facts(tx: Transaction, index: Index, fact_ids: Iterable[str]) -> int:
    """Delete facts with their history. Facts on both sides of one then replace each other."""
    count = 0
    for id in fact_ids:
        row = find_fact(tx, id)
        if row is None:
            continue
        older = row.replaces
        newer = tx.all(
            "select id, replaces_how from facts where tenant = :tenant and replaces = :id", id=id
        )
        for newer_id, newer_type in newer:
            # A correction or refinement takes the place of this fact; a later change stays a change.
            is_change = newer_type == "changed"
            replacement_type = newer_type if is_change else row.replaces_how
            tx.send(
                """update facts set replaces = :older, replaces_how = :replacement_type
                   where tenant = :tenant and id = :id""",
                id=newer_id,
                older=older,
                replacement_type=replacement_type if older else None,
            )
        tx.send(
            """update facts set conflicts_with = null
               where tenant = :tenant and user_id = :user and conflicts_with = :id""",
            id=id,
            user=row.user_id,
        )
        tx.send(
            "delete from fact_events where tenant = :tenant and fact_id = :older and other = :id",
            id=id,
            older=older,
        )
        tx.send("delete from facts where tenant = :tenant and id = :id", id=id)
        index.mark(tx, [mark(row.user_id, id)])
        refresh(tx, index, [other for other, _ in newer] + ([older] if older else []))
        count += 1
    return count


def remove_evidence(tx: Transaction, index: Index, session: str, first: int, last: int) -> None:
    """Remove messages of a session from the evidence of facts, before they are deleted.

    Statements that rest only on them are over, and names that were learned from them go. The
    session must be locked.
    """
    _remove_evidence(tx, index, _OF_MESSAGES, session=session, first=first, last=last)


def remove_of_agent(tx: Transaction, index: Index, agent: str) -> int:
    """Delete the facts that an agent added, and the evidence in its sessions, before it is erased.

    Return the number of deleted facts.
    """
    tx.lock_rows(
        "select 1 from sessions where tenant = :tenant and agent = :agent order by id", agent=agent
    )
    users = tx.all(
        f"""select user_id from facts where tenant = :tenant and agent = :agent
            union select user_id from fact_evidence
            join facts on facts.tenant = :tenant and facts.id = fact_evidence.fact_id
            where fact_evidence.tenant = :tenant and {OF_AGENT_SESSION}""",
        agent=agent,
    )
    for (user,) in sorted(users):
        lock_facts(tx, user)
    _remove_evidence(tx, index, OF_AGENT_SESSION, agent=agent)
    own = tx.all("select id from facts where tenant = :tenant and agent = :agent", agent=agent)
    return delete_facts(tx, index, [id for (id,) in own])


def _remove_evidence(tx: Transaction, index: Index, condition: str, **values: Any) -> None:
    rows = tx.all(
        f"""select distinct fact_id, user_id from fact_evidence
            join facts on facts.tenant = :tenant and facts.id = fact_evidence.fact_id
            where fact_evidence.tenant = :tenant and {condition} order by fact_id""",
        **values,
    )
    tx.send(f"delete from fact_names where tenant = :tenant and {condition}", **values)
    if not rows:
        return
    for user in sorted({user for _, user in rows}):
        lock_facts(tx, user)
    tx.send(f"delete from fact_evidence where tenant = :tenant and {condition}", **values)
    refresh(tx, index, [id for id, _ in rows])
    _blank_unsupported(tx, [id for id, _ in rows])


def _blank_unsupported(tx: Transaction, fact_ids: Iterable[str]) -> None:
    """Remove the words of retracted facts whose messages are all gone, unless a person acted."""
    blank = {"statement": REMOVED, "predicate": "", "object": ""}
    for id in fact_ids:
        tx.send(
            f"""update facts set statement = :removed, checksum = :checksum, statement_key = :id, predicate = '', object = ''
               where tenant = :tenant and id = :id and status = 'retracted' and not exists (
                   select 1 from fact_evidence where tenant = :tenant and fact_id = :id)
               and not exists (
                   select 1 from fact_events where tenant = :tenant and fact_id = :id
                   and actor in {PEOPLE_SQL})""",
            id=id,
            removed=REMOVED,
            checksum=changed_checksum(tx, FACTS, {"id": id}, blank) or 0,
        )


def has_word_of_person(tx: Transaction, id: str) -> bool:
    """Return whether a person ever stated, corrected, confirmed or retracted a fact."""
    row = tx.one(
        f"""select 1 from fact_events where tenant = :tenant and fact_id = :id
           and actor in {PEOPLE_SQL}""",
        id=id,
    )
    return row is not None


def require_fact(tx: Transaction, id: str, user: str | None) -> FactRow:
    """Return the row of a fact of a user (None: of any user); raise NotFound if there is none."""
    row = find_fact(tx, id)
    if row is None or user not in (None, row.user_id):
        raise NotFound(what="fact", id=id)
    return row

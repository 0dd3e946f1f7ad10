"""Facts: what is known about a user and the people and things they talk about.

A fact is linked to the messages that it comes from. Its words never change: a correction, or newer
knowledge, is a new fact that replaces it. All agents of a user share the user's facts.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from retain.base import canonical, ids
from retain.base.clock import to_datetime
from retain.base.errors import Conflict, Forbidden, Invalid, NotFound
from retain.kinds import search_scope
from retain.kinds.facts.changes import Step
from retain.kinds.facts.fact import (
    ABOUT_USER,
    COLUMNS,
    FACT_INDEX,
    MAX_STATEMENT_CHARACTERS,
    MAX_SUBJECT_CHARACTERS,
    PEOPLE,
    REVIEWED_SOURCES,
    STATUSES,
    TOPICS,
    Evidence,
    Fact,
    FactChange,
    Status,
    Topic,
    checked_text,
    column,
    comparison_key,
    fact,
    from_time,
    lock_facts,
    lock_messages,
    optional_text,
    parse_evidence,
    read_evidence,
)
from retain.kinds.kind import Check, Kind, Page, Table, decode_cursor, make_page
from retain.kinds.section import RecallScope
from retain.search.query import Hit
from retain.storage.database import Row, Transaction

MAX_PROFILE_FACTS = 100
_FAR_FUTURE = 2**62
_SELECT_FACT = f"""select {COLUMNS} from facts
    where tenant = :tenant and id = :id and user_id = coalesce(:user, user_id)"""
_OF_USERS_FACT = "fact_id in (select id from facts where tenant = :tenant and user_id = :user)"
_OF_AGENTS_FACT = "fact_id in (select id from facts where tenant = :tenant and agent = :agent)"
_CURRENT = "status = 'active' and coalesce(valid_to, :now + 1) > :now"


class Facts(Kind):
    """The facts about the scope's user, and about the people and things the user talks about."""

    name = "facts"
    tables = (
        Table("facts", order="id", owned="user_id = :user", of_agent="agent = :agent"),
        Table(
            "fact_evidence",
            order="fact_id, session_id, seq",
            owned=_OF_USERS_FACT,
            of_agent=_OF_AGENTS_FACT,
        ),
        Table(
            "fact_changes", order="fact_id, number", owned=_OF_USERS_FACT, of_agent=_OF_AGENTS_FACT
        ),
    )
    checks = (
        Check(
            "every learned fact has a message that says so",
            """select id from facts where tenant = :tenant and learned = 1
               and status in ('active', 'pending') and not exists (
                   select 1 from fact_evidence evidence
                   where evidence.tenant = :tenant and evidence.fact_id = facts.id)""",
        ),
        Check(
            "every replaced fact has the one that replaces it",
            """select id from facts where tenant = :tenant and status = 'replaced'
               and not exists (select 1 from facts newer
                   where newer.tenant = :tenant and newer.id = facts.replaced_by)""",
        ),
        *FACT_INDEX.checks,
    )
    findable = FACT_INDEX

    def add(
        self,
        statement: str,
        *,
        subject: str = ABOUT_USER,
        predicate: str = "",
        object: str = "",
        topic: Topic = "other",
        valid_from: datetime | None = None,
        valid_to: datetime | None = None,
        evidence: Sequence[str] = (),
        confidence: float = 1.0,
    ) -> Fact:
        """Add a fact. If it is known already, the messages are added to its evidence.

        Facts from tools and imports are pending until a person confirms them.
        """
        user = self._user()
        messages = parse_evidence(evidence)
        source = self._owner.source
        values = {
            "user": user,
            "agent": self._owner.agent,
            **self._words(statement, subject, predicate, object),
            "topic": _checked(topic, "topic", TOPICS),
            **_validity(valid_from, valid_to),
            "learned": int(source not in PEOPLE and bool(messages)),
            "confirmed": 0,
            "confidence": _confidence(confidence),
            "status": "pending" if source in REVIEWED_SOURCES else "active",
            "replaces": None,
        }

        def work(tx: Transaction) -> Fact:
            lock_messages(tx, user, messages)
            lock_facts(tx, user)
            step = self._step(tx)
            known = tx.one(
                f"""select {COLUMNS} from facts
                    where tenant = :tenant and user_id = :user and subject_key = :subject_key
                    and statement_key = :statement_key and status in ('active', 'pending')
                    order by learned_at, id limit 1""",
                user=user,
                subject_key=values["subject_key"],
                statement_key=values["statement_key"],
            )
            if known is None:
                return self._record(tx, step.add({**values, "id": ids.uuid7()}, messages))
            row = step.support(known, messages)
            if column(row, "status") == "pending" and values["status"] == "active":
                row = step.change(row, "confirmed", status="active")
            return self._record(tx, row)

        return self._write("add", work, row=lambda fact: {"id": fact.id})

    def get(self, id: str) -> Fact:
        """Return a fact with its evidence, whatever its status."""
        canonical.key(id, "id")
        return self._read(lambda tx: self._record(tx, self._get(tx, id)))

    def list(
        self,
        *,
        about: str | None = None,
        topic: Topic | None = None,
        at: datetime | None = None,
        include_replaced: bool = False,
        status: Status | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Page[Fact]:
        """Return what is true now, newest first.

        about:            only facts about this subject; `user` for the user
        at:               what was true at this time, as far as is known today
        include_replaced: also facts that were replaced or retracted, or have ended
        status:           only facts with this status; `pending` ones wait for a person
        """
        if status is not None and (at is not None or include_replaced):
            raise Invalid(field="status", problem="cannot be combined with at or include_replaced")
        if about is not None:
            about = comparison_key(checked_text(about, "about", MAX_SUBJECT_CHARACTERS))
        if topic is not None:
            _checked(topic, "topic", TOPICS)
        size = self._limit(limit)
        last_at, last_id = decode_cursor(after, [int, str]) if after else (_FAR_FUTURE, "")
        if status is not None:
            which = "status = :status"
            _checked(status, "status", STATUSES)
        elif at is not None:
            which = """status in ('active', 'replaced') and coalesce(valid_from, :at) <= :at
                       and coalesce(valid_to, :at + 1) > :at"""
        elif include_replaced:
            which = "status <> 'pending'"
        else:
            which = _CURRENT

        def work(tx: Transaction) -> list[Fact]:
            rows = tx.all(
                f"""select {COLUMNS} from facts
                    where tenant = :tenant and user_id = coalesce(:user, user_id)
                    and subject_key = coalesce(:about, subject_key)
                    and topic = coalesce(:topic, topic) and {which}
                    and (learned_at, id) < (:last_at, :last_id)
                    order by learned_at desc, id desc limit :size""",
                user=self._owner.user,
                about=about,
                topic=topic,
                status=status,
                at=from_time(at, "at"),
                last_at=last_at,
                last_id=last_id,
                size=size + 1,
            )
            evidence = read_evidence(tx, [column(row, "id") for row in rows])
            return [fact(row, evidence[column(row, "id")]) for row in rows]

        return make_page(self._read(work), size, _position)

    def correct(
        self,
        id: str,
        statement: str,
        *,
        since: datetime | None = None,
        evidence: Sequence[str] = (),
    ) -> Fact:
        """Replace a fact by a corrected fact, and return the new fact.

        since: the time of the change; without it, the fact was never true

        A person's correction is confirmed. Only a person can correct a confirmed fact.
        """
        canonical.key(id, "id")
        messages = parse_evidence(evidence)
        changed_at = from_time(since, "since")
        is_person = self._owner.source in PEOPLE

        def work(tx: Transaction) -> Fact:
            row = self._get_locked(tx, id, messages)
            _require_current(row)
            self._require_person_if_confirmed(row)
            user = column(row, "user_id")
            subject = column(row, "subject")
            words = self._words(statement, subject, "", "")
            if words["statement_key"] == comparison_key(column(row, "statement")):
                raise Invalid(field="statement", problem="is what the fact says already")
            valid_from = column(row, "valid_from")
            if changed_at is not None:
                if valid_from is not None and changed_at < valid_from:
                    raise Invalid(field="since", problem="is before the fact became true")
                valid_from = changed_at
            step = self._step(tx)
            newer = step.add(
                {
                    "id": ids.uuid7(),
                    "user": user,
                    "agent": self._owner.agent,
                    **words,
                    "topic": column(row, "topic"),
                    "valid_from": valid_from,
                    "valid_to": None if changed_at is not None else column(row, "valid_to"),
                    "learned": int(not is_person and bool(messages)),
                    "confirmed": int(is_person),
                    "confidence": 1.0,
                    "status": "active",
                    "replaces": id,
                },
                messages,
            )
            newer_id = column(newer, "id")
            if changed_at is None:
                step.change(row, "corrected", status="retracted", replaced_by=newer_id)
            else:
                step.change(
                    row, "replaced", status="replaced", valid_to=changed_at, replaced_by=newer_id
                )
            return self._record(tx, newer)

        return self._write("correct", work, row=lambda fact: {"id": fact.id})

    def retract(self, id: str) -> Fact:
        """Retract a fact that is not true. The fact that it replaced is true again."""
        canonical.key(id, "id")

        def work(tx: Transaction) -> Fact:
            row = self._get_locked(tx, id)
            _require_current(row)
            self._require_person_if_confirmed(row)
            return self._record(tx, self._step(tx).retract(row))

        return self._write("retract", work, row={"id": id})

    def confirm(self, id: str) -> Fact:
        """Confirm a fact, so that only a person can change it. A pending fact becomes active."""
        canonical.key(id, "id")
        if self._owner.source not in PEOPLE:
            raise Forbidden(problem="only a person can confirm a fact")

        def work(tx: Transaction) -> Fact:
            row = self._get_locked(tx, id)
            _require_current(row)
            if not column(row, "confirmed") or column(row, "status") == "pending":
                row = self._step(tx).change(row, "confirmed", status="active", confirmed=1)
            return self._record(tx, row)

        return self._write("confirm", work, row={"id": id})

    def undo(self, id: str) -> Fact:
        """Undo the last step that changed a fact, also for other facts that the step changed."""
        canonical.key(id, "id")
        if self._owner.source not in PEOPLE:
            raise Forbidden(problem="only a person can undo a step")

        def work(tx: Transaction) -> Fact:
            self._get_locked(tx, id)
            return self._record(tx, self._step(tx).undo(id))

        return self._write("undo", work, row={"id": id})

    def forget(self, id: str) -> None:
        """Delete a fact with its history. Use `retract` to keep a trace of it."""
        canonical.key(id, "id")

        def work(tx: Transaction) -> None:
            row = self._get_locked(tx, id)
            self._require_person_if_confirmed(row)
            newer = column(row, "replaced_by")
            if newer is None:  # it is unknown again until when the older fact was true
                tx.send(
                    """update facts set status = 'retracted'
                       where tenant = :tenant and replaced_by = :id and status = 'replaced'""",
                    id=id,
                )
            tx.send(
                "update facts set replaced_by = :newer where tenant = :tenant and replaced_by = :id",
                id=id,
                newer=newer,
            )
            tx.send(
                "update facts set replaces = :older where tenant = :tenant and replaces = :id",
                id=id,
                older=column(row, "replaces"),
            )
            tx.send("delete from facts where tenant = :tenant and id = :id", id=id)
            self._services.index.remove(tx, self.name, id)

        self._write("forget", work, row={"id": id}, frees_space=True)

    def history(self, id: str) -> Sequence[FactChange]:
        """Return every change of a fact and of those that it replaced or that replaced it."""
        canonical.key(id, "id")

        def work(tx: Transaction) -> list[FactChange]:
            chain = self._chain(tx, self._get(tx, id))
            changes = [
                FactChange(
                    column(row, "id"),
                    column(row, "statement"),
                    action,
                    source,
                    step,
                    to_datetime(created_at),
                )
                for row in chain
                for action, source, step, created_at in tx.all(
                    """select action, source, step, created_at from fact_changes
                       where tenant = :tenant and fact_id = :id order by number""",
                    id=column(row, "id"),
                )
            ]
            return sorted(changes, key=lambda change: change.at)

        return self._read(work)

    def profile(self) -> str:
        """Return what is true now, by topic: confirmed and new facts first."""
        rows = self._read(
            lambda tx: tx.all(
                f"""select {COLUMNS} from facts
                    where tenant = :tenant and user_id = :user and {_CURRENT}
                    order by confirmed desc, learned_at desc, id desc limit :size""",
                user=self._user(),
                size=MAX_PROFILE_FACTS,
            )
        )
        lines: list[str] = []
        for topic in TOPICS:
            facts = [row for row in rows if column(row, "topic") == topic]
            if facts:
                lines.append(f"{topic.capitalize()}:")
                lines += [f"- {_profile_line(row)}" for row in facts]
        return "\n".join(lines)

    def search(self, query: str, *, limit: int = 10) -> Sequence[Fact]:
        """Return current facts that match a query by words and meaning, best first."""
        hits = search_scope.search(self._services, self._owner, query, [self.name], limit=limit)

        def work(tx: Transaction) -> list[Fact]:
            rows = [tx.one(_SELECT_FACT, id=hit.id, user=self._owner.user) for hit in hits]
            return [self._record(tx, row) for row in rows if row]

        return self._read(work)

    @staticmethod
    def hit_origin(hit: Hit, scope: RecallScope) -> str:
        """Return who wrote a recalled hit of this kind, or where it is from."""
        return f"a fact about {hit.title}" if hit.title else "a fact about the user"

    @classmethod
    def source_of(cls, tx: Transaction, id: str) -> str | None:
        """Return the source of a fact."""
        row = tx.one("select source from facts where tenant = :tenant and id = :id", id=id)
        return None if row is None else str(row[0])

    def _words(self, statement: str, subject: str, predicate: str, object: str) -> dict[str, Any]:
        """Return the words of a fact as they are stored, with the keys that compare them."""
        policy = self._settings.masking
        subject = checked_text(subject, "subject", MAX_SUBJECT_CHARACTERS, policy)
        statement = checked_text(statement, "statement", MAX_STATEMENT_CHARACTERS, policy)
        return {
            "subject": subject,
            "subject_key": comparison_key(subject),
            "statement": statement,
            "statement_key": comparison_key(statement),
            "predicate": optional_text(predicate, "predicate", MAX_SUBJECT_CHARACTERS, policy),
            "object": optional_text(object, "object", MAX_STATEMENT_CHARACTERS, policy),
        }

    def _step(self, tx: Transaction) -> Step:
        return Step(tx, self._services.index, self._owner.source)

    def _get(self, tx: Transaction, id: str) -> Row:
        row = tx.one(_SELECT_FACT, id=id, user=self._owner.user)
        if row is None:
            raise NotFound(what="fact", id=id)
        return row

    def _get_locked(self, tx: Transaction, id: str, messages: Sequence[Evidence] = ()) -> Row:
        """Return a fact after locking the facts of its user, and the messages to link to it."""
        user = column(self._get(tx, id), "user_id")
        lock_messages(tx, user, messages)
        lock_facts(tx, user)
        return self._get(tx, id)

    def _require_person_if_confirmed(self, row: Row) -> None:
        if column(row, "confirmed") and self._owner.source not in PEOPLE:
            raise Conflict(
                problem="The fact was confirmed by a person; only a person can change or forget it"
            )

    def _record(self, tx: Transaction, row: Row) -> Fact:
        id = column(row, "id")
        return fact(row, read_evidence(tx, [id])[id])

    def _chain(self, tx: Transaction, row: Row) -> Sequence[Row]:
        """Return a fact with those that it replaced and those that replaced it."""
        chain = {column(row, "id"): row}
        waiting = [row]
        while waiting:
            current = waiting.pop()
            for neighbour_id in (column(current, "replaces"), column(current, "replaced_by")):
                if neighbour_id is not None and neighbour_id not in chain:
                    neighbour = tx.one(_SELECT_FACT, id=neighbour_id, user=self._owner.user)
                    if neighbour is not None:
                        chain[neighbour_id] = neighbour
                        waiting.append(neighbour)
        return sorted(
            chain.values(), key=lambda row: (column(row, "learned_at"), column(row, "id"))
        )


def _require_current(row: Row) -> None:
    status = column(row, "status")
    if status in ("replaced", "retracted"):
        newer = column(row, "replaced_by")
        hint = f"; change the fact {newer} instead" if newer else ""
        raise Conflict(problem=f"The fact was {status} before{hint}")


def _validity(valid_from: datetime | None, valid_to: datetime | None) -> dict[str, int | None]:
    start = from_time(valid_from, "valid_from")
    end = from_time(valid_to, "valid_to")
    if start is not None and end is not None and end < start:
        raise Invalid(field="valid_to", problem="is before valid_from")
    return {"valid_from": start, "valid_to": end}


def _checked(value: str, field: str, allowed: Sequence[str]) -> str:
    if value not in allowed:
        raise Invalid(field=field, problem=f"must be one of {', '.join(allowed)}, not {value!r}")
    return value


def _confidence(value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise Invalid(field="confidence", problem="must be a number from 0 to 1")
    return float(value)


def _profile_line(row: Row) -> str:
    subject = column(row, "subject")
    statement = column(row, "statement")
    is_named = subject == ABOUT_USER or subject.casefold() in statement.casefold()
    return statement if is_named else f"{subject}: {statement}"


def _position(fact: Fact) -> list[Any]:
    return [int(fact.learned_at.timestamp() * 1_000_000 + 0.5), fact.id]

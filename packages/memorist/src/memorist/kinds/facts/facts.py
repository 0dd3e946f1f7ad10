"""Facts: what is known about a user and the people and things they talk about.

A fact is linked to the messages that it comes from. Its words never change: a correction, or newer
knowledge, is a new fact that replaces it. All agents of a user share the user's facts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Any

from memorist.base import canonical, clock
from memorist.base.errors import Conflict, Forbidden, Invalid
from memorist.base.parameters import (
    KEY_PATTERN,
    NOT_BLANK,
    HitCount,
    Key,
    PageSize,
    Probability,
    Text,
    Texts,
)
from memorist.base.verbs import verb
from memorist.kinds import scope_search, trust
from memorist.kinds.facts import entities, fact_tools
from memorist.kinds.facts.chain import find_fact, read_chain
from memorist.kinds.facts.changes import (
    FACTS,
    FactStep,
    NewFact,
    delete_facts,
    find_denied,
    find_duplicates,
    has_word_of_person,
    require_fact,
)
from memorist.kinds.facts.entities import ABOUT, Entity
from memorist.kinds.facts.fact import (
    ABOUT_USER,
    CHANGE_COLUMNS,
    COLUMNS,
    EARLIEST,
    FACT_INDEX,
    LATEST,
    MAX_EVIDENCE,
    MAX_STATEMENT_CHARACTERS,
    MAX_SUBJECT_CHARACTERS,
    STATUSES,
    TOPICS,
    TRUE_AT,
    Evidence,
    Fact,
    FactChange,
    FactRow,
    Status,
    Topic,
    change_position,
    checked_text,
    comparison_key,
    fact,
    fact_rows,
    from_time,
    lock_facts,
    lock_messages,
    optional_text,
    parse_evidence,
    read_changes,
    read_evidence,
    subject_name,
)
from memorist.kinds.facts.profile import profile_section, profile_text, read_profile
from memorist.kinds.facts.replaced import find_replaced
from memorist.kinds.kind import ChangeSubject, Check, Kind, Table
from memorist.kinds.newer_statement import MessageName, NewerStatement
from memorist.kinds.page import Page, make_page, page_start
from memorist.kinds.scope_search import SearchRequest
from memorist.kinds.section import Ask, RecallScope, Section
from memorist.kinds.tool import Tool
from memorist.search.query import Hit, Query
from memorist.storage.database import Transaction

Subject = Annotated[str, Text(NOT_BLANK.pattern, max_length=MAX_SUBJECT_CHARACTERS)]
Statement = Annotated[str, Text(NOT_BLANK.pattern, max_length=MAX_STATEMENT_CHARACTERS)]
EvidenceNames = Annotated[
    Sequence[str], Texts(Text(f"^{KEY_PATTERN}#[0-9]{{1,15}}$"), max_items=MAX_EVIDENCE)
]
AnyYear = Annotated[datetime, Text("^[0-9]{4}-")]
"""A time, also before 1970."""
MONTH = timedelta(days=30)
CONFIRMED_WEIGHT = 0.5
RECENCY_WEIGHT = 0.3
FUTURE_WEIGHT = -2.0
"""Added to the log odds of a fact's score. Chosen by hand, because no dataset has such facts."""
_OF_USERS_FACT = "fact_id in (select id from facts where tenant = :tenant and user_id = :user)"
_OF_AGENTS_FACT = "fact_id in (select id from facts where tenant = :tenant and agent = :agent)"
_IN_REVIEW = """(status = 'pending' or (
    conflicts_with is not null and status = 'active' and confirmed = 0 and exists (
        select 1 from facts other where other.tenant = :tenant
        and other.id = facts.conflicts_with and other.status = 'active')))"""


@dataclass(frozen=True)
class _FactFilter:
    """The values that the condition of a list of facts compares."""

    about: str | None = None
    topic: str | None = None
    at: int | None = None
    status: str | None = None


class Facts(Kind):
    """The facts about a user, and about the people and things the user talks about."""

    name = "facts"
    parameter_help = {
        "id": "Id of the fact.",
        "at": "Return what was true at this time, with a time zone.",
        "name": "A name of the person or thing.",
        "since": "When it changed, with a time zone. Without it, the old fact was never true.",
        "status": "Only facts with this status; `pending` facts wait for a person.",
    }
    tables = (
        FACTS,
        Table(
            "fact_events", order="fact_id, number", owned=_OF_USERS_FACT, of_agent=_OF_AGENTS_FACT
        ),
        Table(
            "fact_evidence",
            order="fact_id, step, session_id, seq",
            owned=_OF_USERS_FACT,
            of_agent=_OF_AGENTS_FACT,
        ),
        Table(
            "fact_names",
            order="user_id, entity, name_key",
            owned="user_id = :user",
            checked=("name",),
        ),
    )
    checks = (
        Check(
            "every learned fact has a message that says so",
            """select id from facts where tenant = :tenant and status in ('active', 'pending')
               and not exists (
                   select 1 from fact_events event
                   where event.tenant = :tenant and event.fact_id = facts.id and undone = 0
                   and (rests = 0 and action in ('added', 'supported', 'confirmed') or exists (
                       select 1 from fact_evidence evidence
                       where evidence.tenant = :tenant and evidence.fact_id = facts.id
                       and evidence.step = event.step)))""",
        ),
        Check(
            "every replaced fact has the one that replaces it",
            """select id from facts where tenant = :tenant and status = 'replaced'
               and not exists (select 1 from facts newer
                   where newer.tenant = :tenant and newer.id = facts.replaced_by)""",
        ),
    )
    findable = FACT_INDEX
    is_ranked_separately = True

    def tools(self, session: str | None = None) -> list[Tool]:
        """Return the tools with which a model remembers, corrects and reads facts."""
        return fact_tools.tools(
            self._owner.user, self.add, self.get, self.correct, self.list, self.search
        )

    @verb(
        "POST /facts",
        effect="add",
        example='memorist facts add "Clara lives in Lisbon." --subject Clara --topic people --user ada',
    )
    def add(
        self,
        statement: Statement,
        *,
        subject: Subject = ABOUT_USER,
        predicate: Annotated[str, Text(max_length=MAX_SUBJECT_CHARACTERS)] = "",
        object: Annotated[str, Text(max_length=MAX_STATEMENT_CHARACTERS)] = "",
        topic: Topic = "other",
        valid_from: AnyYear | None = None,
        valid_to: AnyYear | None = None,
        evidence: EvidenceNames = (),
        confidence: Probability = 1.0,
    ) -> Fact:
        """Add a fact. If it is known already, the messages are added to its evidence.

        Facts from tools and imports are pending until a person confirms them. So are facts from
        agents that read like instructions.
        """
        user = self._user()
        messages = parse_evidence(evidence)
        canonical.one_of(topic, "topic", TOPICS)
        start, end = _validity(valid_from, valid_to)
        words = self._words(statement, subject, predicate, object)
        needs_review = self._needs_review(topic, statement, subject, predicate, object)
        new = replace(
            words,
            topic=topic,
            valid_from=start,
            valid_to=end,
            confidence=_confidence(confidence),
        )

        def work(tx: Transaction) -> Fact:
            lock_messages(tx, user, messages)
            lock_facts(tx, user)
            return self._record(tx, self._add(tx, user, new, messages, needs_review))

        return self._write("add", work, row=lambda fact: {"id": fact.id})

    def _add(
        self,
        tx: Transaction,
        user: str,
        new: NewFact,
        messages: Sequence[Evidence],
        needs_review: bool,
    ) -> str:
        """Add a fact, or support a known one with the same words; return its id."""
        step = self._step(tx, user)
        known = next(iter(find_duplicates(tx, user, new)), None)
        if known is not None:
            id = str(known.id)
            if not _is_more_exact(new, known) or self._is_kept_for_people(known):
                step.support(id, messages)
                return id
            exact = replace(
                new,
                valid_from=new.valid_from if new.valid_from is not None else known.valid_from,
                valid_to=new.valid_to if new.valid_to is not None else known.stated_to,
            )
            return step.add(
                exact,
                messages,
                replaces=id,
                replacement_type="refined",
                needs_review=needs_review,
            )
        self._require_not_denied(tx, user, new)
        return step.add(new, messages, needs_review=needs_review)

    def _require_not_denied(self, tx: Transaction, user: str, new: NewFact) -> None:
        """Raise Conflict if a person said that a fact is not true; a person may add it again."""
        if self._is_person:
            return
        denied = find_denied(tx, user, new.subject_key, new.statement_key)
        if denied:
            raise Conflict(
                problem=f"A person said that this is not true (fact {denied[-1]}); only a person can add it again"
            )

    @verb("GET /facts/{id}", effect="read", example="memorist facts get 0199… --json")
    def get(self, id: Key) -> Fact:
        """Return a fact with its evidence, whatever its status."""
        canonical.key(id, "id")
        return self._read(lambda tx: self._record(tx, id))

    @verb("GET /facts", effect="read", example="memorist facts list --about Clara --user ada")
    def list(
        self,
        *,
        about: Subject | None = None,
        topic: Topic | None = None,
        at: AnyYear | None = None,
        include_replaced: bool = False,
        status: Status | None = None,
        limit: PageSize = 100,
        after: str | None = None,
    ) -> Page[Fact]:
        """Return what is true now, newest first.

        about:            only facts about this subject; `user` for the user
        at:               what was true at this time, as far as is known today
        include_replaced: also facts that were replaced or retracted, or have ended; not with `at`
        status:           only facts with this status; `pending` ones wait for a person
        """
        if status is not None and (at is not None or include_replaced):
            raise Invalid(field="status", problem="cannot be combined with at or include_replaced")
        if at is not None and include_replaced:
            problem = "cannot be combined with at, which includes facts that were replaced later"
            raise Invalid(field="include_replaced", problem=problem)
        if about is not None:
            about = subject_name(about, "about", self._settings.masking)
        if topic is not None:
            canonical.one_of(topic, "topic", TOPICS)
        moment = from_time(at, "at")
        if status is not None:
            which = "status = :status"
            canonical.one_of(status, "status", STATUSES)
        elif include_replaced:
            which = "status <> 'pending'"
        else:
            which = f"{TRUE_AT}"

        return self._page(which, limit, after, _FactFilter(about, topic, moment, status))

    @verb(
        "GET /facts/review",
        effect="read",
        people_only=True,
        example="memorist facts review --user ada",
    )
    def review(self, *, limit: PageSize = 100, after: str | None = None) -> Page[Fact]:
        """Return what waits for a person: pending facts, and facts that may contradict others.

        Confirm, correct or retract each. `conflicts_with` is the other fact of a contradiction.
        """
        return self._page(_IN_REVIEW, limit, after, _FactFilter())

    def _page(
        self, condition: str, limit: int, after: str | None, wanted: _FactFilter
    ) -> Page[Fact]:
        """Return a page of the scope's facts that meet a condition, newest first."""
        size, (last_at, last_id) = page_start(limit, after, LATEST, "")
        # Without these conditions where they apply, no index could be used.
        of_user = "user_id = :user" if self._owner.user is not None else "1 = 1"
        about_subject = "1 = 1" if wanted.about is None else f"{ABOUT}"

        def work(tx: Transaction) -> list[Fact]:
            rows = tx.all(
                f"""select {COLUMNS} from facts
                    where tenant = :tenant and {of_user} and {about_subject}
                    and topic = coalesce(:topic, topic) and {condition}
                    and (learned_at, id) < (:last_at, :last_id)
                    order by learned_at desc, id desc limit :size""",
                user=self._owner.user,
                about=None if wanted.about is None else comparison_key(wanted.about),
                topic=wanted.topic,
                status=wanted.status,
                at=tx.now if wanted.at is None else wanted.at,
                earliest=EARLIEST,
                latest=LATEST,
                last_at=last_at,
                last_id=last_id,
                size=size + 1,
            )
            named = fact_rows(rows)
            evidence = read_evidence(tx, [row.id for row in named])
            return [fact(row, evidence[row.id]) for row in named]

        return make_page(self._read(work, allow_replica=True), size, _position)

    @verb(
        "POST /facts/{id}/correct",
        effect="change",
        example='memorist facts correct 0199… "Clara lives in Porto." --since 2026-05-01T00:00:00Z',
    )
    def correct(
        self,
        id: Key,
        statement: Statement,
        *,
        since: AnyYear | None = None,
        evidence: EvidenceNames = (),
    ) -> Fact:
        """Replace a fact by a corrected fact, and return the new fact.

        since: the time of the change; without it, the fact was never true

        A person's correction is confirmed. Only a person can correct a confirmed fact.
        """
        canonical.key(id, "id")
        messages = parse_evidence(evidence)
        changed_at = from_time(since, "since")
        self._words(statement, ABOUT_USER)  # before the patterns read it: it may be too long
        needs_review = self._needs_review("other", statement)

        def work(tx: Transaction) -> Fact:
            row = self._get_locked(tx, id, messages)
            self._require_changeable(row)
            user = row.user_id
            new = _correction(row, self._words(statement, row.subject), changed_at)
            duplicate = next(iter(find_duplicates(tx, user, new)), None)
            if duplicate is not None and duplicate.id != id:
                raise Conflict(
                    problem=f"The fact {duplicate.id} says this already; retract this one instead"
                )
            self._require_not_denied(tx, user, new)
            newer = self._step(tx, user).add(
                new,
                messages,
                replaces=id,
                replacement_type="corrected" if changed_at is None else "changed",
                needs_review=needs_review or self._needs_review(new.topic),
            )
            return self._record(tx, newer)

        return self._write("correct", work, row=lambda fact: {"id": fact.id})

    @verb("POST /facts/{id}/retract", effect="change", example="memorist facts retract 0199…")
    def retract(self, id: Key) -> Fact:
        """Retract a fact that is not true. The fact that it replaced is true again."""
        return self._decide("retract", id, self._require_changeable, FactStep.retract)

    @verb(
        "POST /facts/{id}/confirm",
        effect="change",
        people_only=True,
        example="memorist facts confirm 0199…",
    )
    def confirm(self, id: Key) -> Fact:
        """Confirm a fact, so that only a person can change it. A pending fact becomes active.

        Raises Conflict if another active fact has the same words.
        """
        self._require_person("confirm a fact")
        return self._decide("confirm", id, _require_current, FactStep.confirm)

    @verb(
        "POST /facts/{id}/undo",
        effect="change",
        people_only=True,
        example="memorist facts undo 0199…",
    )
    def undo(self, id: Key) -> Fact:
        """Undo the last step that changed a fact, also for other facts that the step changed."""
        self._require_person("undo a step")
        return self._decide("undo", id, lambda row: None, FactStep.undo)

    def _decide(
        self,
        verb: str,
        id: str,
        check: Callable[[FactRow], None],
        change: Callable[[FactStep, str], None],
    ) -> Fact:
        """Change the state of a fact in one step, if it passes a check, and return the fact."""
        canonical.key(id, "id")

        def work(tx: Transaction) -> Fact:
            row = self._get_locked(tx, id)
            check(row)
            change(self._step(tx, row.user_id), id)
            return self._record(tx, id)

        return self._write(verb, work, row={"id": id})

    @verb("DELETE /facts/{id}", effect="forget", example="memorist facts forget 0199…")
    def forget(self, id: Key) -> None:
        """Delete a fact with its history, and earlier ones with the same words.

        The fact that it replaced does not become true again. Use `retract` to keep a trace of it.
        """
        canonical.key(id, "id")

        def work(tx: Transaction) -> None:
            row = self._get_locked(tx, id)
            if self._is_kept_for_people(row) or (
                not self._is_person and has_word_of_person(tx, id)
            ):
                raise Conflict(problem=_FOR_PEOPLE)
            older = None if row.replaces is None else find_fact(tx, row.replaces)
            if older is not None and older.replaced_by != id:
                older = None
            if older is not None and older.replaced_how in ("corrected", "refined"):
                self._step(tx, row.user_id).retract(older.id)
            elif older is not None and older.replaced_how == "changed":
                tx.send(
                    "update facts set stated_to = valid_to where tenant = :tenant and id = :older",
                    older=older.id,
                )
            same_words = [link.id for link in read_chain(tx, id) if link.statement == row.statement]
            delete_facts(tx, self._services.index, same_words)
            entities.remove_unused(tx, row.user_id, row.subject)

        self._write("forget", work, row={"id": id})

    @verb(
        "GET /facts/{id}/history",
        effect="read",
        people_only=True,
        example="memorist facts history 0199…",
    )
    def history(self, id: Key) -> Sequence[FactChange]:
        """Return every change of a fact and of those that it replaced or that replaced it."""
        canonical.key(id, "id")

        def work(tx: Transaction) -> list[FactChange]:
            require_fact(tx, id, self._owner.user)
            rows = [
                row
                for link in read_chain(tx, id)
                for row in tx.all(
                    f"""select {CHANGE_COLUMNS} from fact_events event
                        join facts on facts.tenant = :tenant and facts.id = event.fact_id
                        where event.tenant = :tenant and event.fact_id = :id order by number""",
                    id=link.id,
                )
            ]
            return sorted(read_changes(tx, rows), key=lambda change: change.at)

        return self._read(work)

    @verb(
        "GET /facts/timeline",
        effect="read",
        people_only=True,
        example="memorist facts timeline --user ada",
    )
    def timeline(
        self, *, about: Subject | None = None, limit: PageSize = 100, after: str | None = None
    ) -> Page[FactChange]:
        """Return the changes of the user's facts, newest first, with the messages that led to them.

        about: only changes of facts about this subject; `user` for the user
        """
        user = self._user()
        size, (at, step, fact_id, number) = page_start(limit, after, LATEST, "", "", 0)
        if about is not None:
            about = subject_name(about, "about", self._settings.masking)
        about_subject = "1 = 1" if about is None else f"{ABOUT}"

        def work(tx: Transaction) -> Page[FactChange]:
            # A cross join reads the facts of the user first, not the changes of all users.
            rows = tx.all(
                f"""select {CHANGE_COLUMNS} from facts cross join fact_events event
                    where facts.tenant = :tenant and facts.user_id = :user and {about_subject}
                    and event.tenant = :tenant and event.fact_id = facts.id
                    and (event.created_at, step, fact_id, number) < (:at, :step, :fact, :number)
                    order by event.created_at desc, step desc, fact_id desc, number desc
                    limit :size""",
                user=user,
                about=None if about is None else comparison_key(about),
                at=at,
                step=step,
                fact=fact_id,
                number=number,
                size=size + 1,
            )
            page = make_page(rows, size, change_position)
            return Page(read_changes(tx, page.items), page.next)

        return self._read(work)

    @verb("GET /facts/entities", effect="read", example="memorist facts entities --user ada")
    def entities(self, *, limit: PageSize = 100, after: str | None = None) -> Page[Entity]:
        """Return the people and things that facts are about, with their names, by name."""
        user = self._user()
        size, (start,) = page_start(limit, after, 0)
        every_entity = self._read(lambda tx: entities.list_entities(tx, user))
        page = every_entity[start : start + size + 1]
        return make_page(page, size, lambda _: [start + size])

    @verb(
        "POST /facts/merge",
        effect="change",
        people_only=True,
        example="""memorist facts merge Clara "the user's sister" --user ada""",
    )
    def merge(self, name: Subject, other: Subject) -> Entity:
        """Let two names mean the same person or thing, and return it. `separate` undoes it."""
        return self._change_names("merge", entities.merge, name, other)

    @verb(
        "POST /facts/separate",
        effect="change",
        people_only=True,
        example="""memorist facts separate Clara "the user's sister" --user ada""",
    )
    def separate(self, name: Subject, other: Subject) -> Entity:
        """Let two names mean different things again, or reject a proposal to merge them.

        Return what `name` means.
        """
        return self._change_names("separate", entities.separate, name, other)

    def _change_names(
        self,
        verb: str,
        change: Callable[[Transaction, str, str, str], None],
        name: str,
        other: str,
    ) -> Entity:
        self._require_person(f"{verb} names")
        user = self._user()
        policy = self._settings.masking
        first = subject_name(name, "name", policy)
        second = subject_name(other, "other", policy)

        def work(tx: Transaction) -> Entity:
            lock_facts(tx, user)
            change(tx, user, first, second)
            return entities.find_entity(tx, user, first)

        return self._write(verb, work, row=ChangeSubject(comparison_key(first)))

    @verb("GET /facts/profile", effect="read", example="memorist facts profile --user ada")
    def profile(self) -> str:
        """Return what is true now, by topic: confirmed and new facts first."""
        user = self._user()
        return profile_text(self._read(lambda tx: read_profile(tx, user)))

    @verb(
        "GET /facts/search",
        effect="read",
        calls_model="embedder",
        example='memorist facts search "where is Clara"',
    )
    def search(self, query: str, *, limit: HitCount = 10) -> Page[Fact]:
        """Return current facts that match a query by words and meaning, best first."""
        request = SearchRequest(
            query, [self.name], limit=limit, min_score=scope_search.LIKELY_SCORE
        )
        hits = scope_search.search(self._services, self._owner, request)

        def work(tx: Transaction) -> list[Fact]:
            rows = [find_fact(tx, hit.id) for hit in hits]
            return [
                self._record(tx, row.id)
                for row in rows
                if row and (row.valid_from or EARLIEST) <= tx.now
            ]

        return Page(self._read(work, allow_replica=True))

    def section(self, tx: Transaction, ask: Ask) -> Section | None:
        """Return the profile of the scope's user, what matters for the message first."""
        if self._owner.user is None:
            return None
        return profile_section(tx, self._owner.user, ask.message)

    @staticmethod
    def hit_origin(hit: Hit, scope: RecallScope) -> str:
        """Return who wrote a recalled hit of this kind, or where it is from."""
        return f"a fact about {hit.title}" if hit.title else "a fact about the user"

    @classmethod
    def messages_of(
        cls, tx: Transaction, ids: Sequence[str]
    ) -> Mapping[str, Collection[tuple[str, int]]]:
        """Return the messages that facts come from: session and number, by the fact's id."""
        return {
            id: [(message.session, message.seq) for message in messages]
            for id, messages in read_evidence(tx, ids).items()
        }

    @classmethod
    def replaced_messages(
        cls, tx: Transaction, query: Query, messages: Collection[MessageName], now: int
    ) -> Mapping[MessageName, NewerStatement]:
        """Return the messages that answer with replaced facts, and what is true instead."""
        return find_replaced(tx, query, messages, now)

    @classmethod
    def rank_hits(cls, tx: Transaction, hits: Sequence[Hit]) -> Sequence[Hit]:
        """Return facts, best first.

        Words and meaning count most. Of similar matches, confirmed and new facts come first, and
        facts that are not true yet come last.
        """
        sent = [
            tx.send(
                "select confirmed, valid_from from facts where tenant = :tenant and id = :id",
                id=hit.id,
            )
            for hit in hits
        ]
        now = clock.to_datetime(tx.now)
        ranked = []
        for hit, result in zip(hits, sent, strict=True):
            for confirmed, valid_from in result.rows():
                months = (now - hit.at) / MONTH
                why = {
                    "confirmed": CONFIRMED_WEIGHT if confirmed else 0.0,
                    "recency": round(RECENCY_WEIGHT / (1 + max(months, 0)), 3),
                    "not true yet": FUTURE_WEIGHT if (valid_from or 0) > tx.now else 0.0,
                }
                why = {name: weight for name, weight in why.items() if weight}
                odds = math.exp(sum(why.values())) * hit.score / max(1 - hit.score, 1e-9)
                ranked.append(replace(hit, score=odds / (1 + odds), why={**hit.why, **why}))
        return sorted(ranked, key=lambda hit: -hit.score)

    @classmethod
    def source_of(cls, tx: Transaction, id: str) -> str | None:
        """Return the source of a fact."""
        row = tx.one("select source from facts where tenant = :tenant and id = :id", id=id)
        return None if row is None else str(row[0])

    @property
    def _is_person(self) -> bool:
        return trust.is_person(self._owner.source)

    def _needs_review(self, topic: Topic, *texts: str) -> bool:
        """Return whether a fact of these texts, as they were sent, waits for a person."""
        if topic == "instructions":
            return not self._is_person
        return trust.waits("facts", [self._owner.source], self._settings.review, *texts)

    def _words(
        self, statement: str, subject: str, predicate: str = "", object: str = ""
    ) -> NewFact:
        """Return the words of a fact as they are stored."""
        policy = self._settings.masking
        return NewFact(
            subject_name(subject, "subject", policy),
            checked_text(statement, "statement", MAX_STATEMENT_CHARACTERS, policy),
            optional_text(predicate, "predicate", MAX_SUBJECT_CHARACTERS, policy),
            optional_text(object, "object", MAX_STATEMENT_CHARACTERS, policy),
        )

    def _step(self, tx: Transaction, user: str) -> FactStep:
        return FactStep(tx, self._services.index, self._owner.source, user, agent=self._owner.agent)

    def _get_locked(self, tx: Transaction, id: str, messages: Sequence[Evidence] = ()) -> FactRow:
        """Return a fact after locking the facts of its user, and the messages to link to it."""
        user = require_fact(tx, id, self._owner.user).user_id
        lock_messages(tx, user, messages)
        lock_facts(tx, user)
        return require_fact(tx, id, user)

    def _is_kept_for_people(self, row: FactRow) -> bool:
        """Return whether only a person can change a fact, and the writer is not a person."""
        decided = row.confirmed or row.status == "pending"
        return bool(decided) and not self._is_person

    def _require_changeable(self, row: FactRow) -> None:
        _require_current(row)
        if self._is_kept_for_people(row):
            raise Conflict(problem=_FOR_PEOPLE)

    def _require_person(self, what: str) -> None:
        if not self._is_person:
            raise Forbidden(problem=f"only a person can {what}")

    def _record(self, tx: Transaction, id: str) -> Fact:
        row = require_fact(tx, id, self._owner.user)
        return fact(row, read_evidence(tx, [id])[id])


_FOR_PEOPLE = "A person confirmed this fact, or it waits for review; only a person can change it"


def _require_current(row: FactRow) -> None:
    status = row.status
    if status in ("replaced", "retracted"):
        newer = row.replaced_by
        hint = f"; change the fact {newer} instead" if newer else ""
        raise Conflict(problem=f"The fact was already {status}{hint}")


def _is_more_exact(new: NewFact, known: FactRow) -> bool:
    """Return whether a fact with the same words says when it is true, and the known one does not."""
    begins = new.valid_from is not None and known.valid_from is None
    ends = new.valid_to is not None and known.stated_to is None
    return begins or ends


def _correction(row: FactRow, words: NewFact, changed_at: int | None) -> NewFact:
    """Return the fact that replaces another; changed_at is None if that was never true."""
    if words.statement_key == comparison_key(row.statement):
        raise Invalid(field="statement", problem="must differ from what the fact says now")
    valid_from = row.valid_from
    valid_to = row.stated_to
    if changed_at is not None:
        if valid_from is not None and changed_at < valid_from:
            raise Invalid(field="since", problem="is before the fact became true")
        if valid_to is not None and changed_at > valid_to:
            raise Invalid(field="since", problem="is after the fact ceased to be true")
        valid_from = changed_at
        valid_to = None
    object = _corrected_object(row, words.statement)
    return replace(
        words,
        predicate=row.predicate if object else "",
        object=object,
        topic=row.topic,
        valid_from=valid_from,
        valid_to=valid_to,
    )


def _corrected_object(row: FactRow, statement: str) -> str:
    """Return the object of a corrected statement that differs from a fact in its object only."""
    before, mark, after = row.statement.partition(row.object or "\0")
    if not mark or not statement.startswith(before):
        return ""
    rest = statement[len(before) :].rstrip(".! ")
    return rest.removesuffix(after.rstrip(".! ")).strip()


def _validity(
    valid_from: datetime | None, valid_to: datetime | None
) -> tuple[int | None, int | None]:
    start = from_time(valid_from, "valid_from")
    end = from_time(valid_to, "valid_to")
    if start is not None and end is not None and end < start:
        raise Invalid(field="valid_to", problem="is before valid_from")
    return start, end


def _confidence(value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise Invalid(field="confidence", problem="must be a number from 0 to 1")
    return float(value)


def _position(fact: Fact) -> list[Any]:
    return [fact.learned_at, fact.id]

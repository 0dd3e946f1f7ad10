"""Consolidations: proposals to turn fading journal entries into core ones, each with its sources and each reversible.

Nothing is deleted by a consolidation, and an entry is used once. A model is asked outside any transaction, and what it
answers is written at once, if the entries still are what it was given: no later answer can spoil it, and it is paid once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import Any, Literal, get_args

from retain.base import canonical, clock, ids, masking
from retain.base.errors import (
    BadAnswer,
    Conflict,
    Invalid,
    ModelError,
    NoModel,
    NotFound,
    PartlyAnswered,
)
from retain.kinds import findable as index
from retain.kinds.consolidations import draft
from retain.kinds.consolidations.draft import Draft, Old
from retain.kinds.entries import entry
from retain.kinds.kind import Check, Kind, Owner, Page, Services, Table, decode_cursor, make_page
from retain.storage.database import Row, Transaction

Status = Literal["proposed", "accepted", "refused", "undone", "passed"]
ROUTE = "consolidate"
"""What a call of a model is for, in the record of it."""
_MOST_ENTRIES = 400  # in one run; the rest waits for the next
_MOST_CALLS = 20
_FAR = 2**62
_COLUMNS = "id, agent, status, content, entry_id, model, user_id, source, created_at, decided_at"
_DUE = """select id, user_id, content, tokens, version, created_at, source, failures from entries
          where tenant = :tenant and agent = :agent and kind = 'journal' and created_at > :after and created_at <= :upto
          and review = 'accepted' and (user_id is null or user_id = coalesce(:user, user_id))
          and not exists (select 1 from consolidation_sources as used
                          where used.tenant = :tenant and used.entry_id = entries.id)
          order by created_at, id limit :size"""

_INSERT = """insert into entries (tenant, id, agent, kind, board, content, tokens, user_id, source, review, version,
                                  created_at, updated_at)
             values (:tenant, :id, :agent, :kind, :board, :content, :tokens, :user, :source, :review, 1, :now, :now)"""


@dataclass(frozen=True)
class Consolidation:
    """What might be kept of some journal entries, the `sources`; `entry_id` is the core entry that it became.

    One that was `passed` has no content: a model found nothing in its sources that is worth keeping, or said nothing
    about them that could be used. `source` is who wrote the sources: of several, the one who is trusted least.
    """

    id: str
    agent: str
    status: Status
    content: str
    entry_id: str | None
    model: str
    user: str | None
    source: str
    created_at: datetime
    decided_at: datetime | None
    sources: Sequence[str]


@dataclass(frozen=True)
class Looked:
    """What came of looking through a journal: what is proposed, how often a model was asked, and what went wrong."""

    made: Sequence[Consolidation]
    calls: int = 0
    errors: Sequence[ModelError] = ()


class Consolidations(Kind):
    """Proposals to turn the agent's journal entries into core ones."""

    name = "consolidations"
    tables = (
        Table("consolidations", order="id", owned="user_id = :user"),
        Table(
            "consolidation_sources",
            order="entry_id",
            owned="consolidation_id in (select id from consolidations where tenant = :tenant and user_id = :user)",
        ),
    )
    checks = (
        Check(
            "an accepted consolidation has its core entry",
            """select id from consolidations where tenant = :tenant and status = 'accepted' and not exists (
                   select 1 from entries where entries.tenant = :tenant and entries.id = consolidations.entry_id
                   and entries.agent = consolidations.agent and entries.kind = 'core')""",
        ),
    )

    def propose(self, *, days: float = 5.0) -> Sequence[Consolidation]:
        """Look through the agent's journal entries that are older than so many days, and propose what to keep of them.

        Entries of different users never meet in one proposal. An entry that was used before is not looked at again, and
        neither is one that faded more than a week ago. What a model says is kept answer by answer: where one cannot be
        used, an error says so in the end, and its entries are asked about again in smaller parts, three times in all.
        """
        looked = self._look(days)
        if looked.errors and looked.calls == 1:
            raise looked.errors[0]
        if looked.errors:
            first = looked.errors[0]
            good = looked.calls - len(looked.errors)
            raise PartlyAnswered(
                model=first.model, good=good, calls=looked.calls, problem=first.problem
            )
        return looked.made

    def accept(self, id: str) -> Consolidation:
        """Make a proposal a core entry; also one that was refused or undone. Once more changes nothing.

        What a person accepts counts at once; where a program does, an entry of an untrusted source waits for a review.
        """
        canonical.key(id, "id")

        def work(tx: Transaction) -> Consolidation:
            found = self._get(tx, id, lock=True)
            if found.status == "accepted":
                return found
            if not found.content:
                raise Conflict(problem=f"consolidation {id!r} has nothing to accept")
            review = self._reviewed(found)
            new = entry.values(
                ids.uuid7(),
                found.agent,
                "core",
                None,
                found.content,
                found.user,
                found.source,
                review,
            )
            tx.run(_INSERT, **new)
            if review == "accepted":
                made = index.entry(
                    new["id"], found.agent, "core", None, found.content, found.user, at=tx.now
                )
                self._services.index.add(tx, made)
            return self._decide(tx, id, "accepted", new["id"])

        return self._write("accept", work, row={"id": id})

    def refuse(self, id: str) -> Consolidation:
        """Leave a proposal's entries to fade; they are not proposed again unless they are edited."""
        canonical.key(id, "id")

        def work(tx: Transaction) -> Consolidation:
            found = self._get(tx, id, lock=True)
            if found.status == "accepted":
                raise Conflict(problem=f"consolidation {id!r} is accepted; undo it")
            return self._decide(tx, id, "refused", None) if found.status == "proposed" else found

        return self._write("refuse", work, row={"id": id})

    def undo(self, id: str) -> Consolidation:
        """Take back a core entry that a proposal became; the journal stays as it is. Once more changes nothing."""
        canonical.key(id, "id")

        def work(tx: Transaction) -> Consolidation:
            made = self._get(
                tx, id
            ).entry_id  # locked before the consolidation, as whoever removes the entry does
            tx.lock_rows("select 1 from entries where tenant = :tenant and id = :made", made=made)
            found = self._get(tx, id, lock=True)
            if found.status == "undone":
                return found
            if found.status != "accepted":
                raise Conflict(problem=f"consolidation {id!r} is {found.status}, not accepted")
            if not tx.run(
                "delete from entries where tenant = :tenant and id = :made and version = 1",
                made=found.entry_id,
            ):
                raise Conflict(
                    problem=f"the core entry {found.entry_id!r} was edited since: remove it, if that is meant"
                )
            self._services.index.remove(tx, "entries", found.entry_id or "")
            return self._decide(tx, id, "undone", None)

        return self._write("undo", work, row={"id": id})

    def get(self, id: str) -> Consolidation:
        """One consolidation."""
        canonical.key(id, "id")
        return self._read(lambda tx: self._get(tx, id))

    def list(
        self, *, status: Status | None = None, limit: int = 100, after: str | None = None
    ) -> Page[Consolidation]:
        """Consolidations, the newest first."""
        if status is not None and status not in get_args(Status):
            raise Invalid(
                field="status",
                problem=f"must be one of {', '.join(get_args(Status))}, not {status!r}",
            )
        size = self._limit(limit)
        at, id = decode_cursor(after, [int, str]) if after else (_FAR, "")
        rows = self._read(
            lambda tx: tx.all(
                _LIST[self._owner.agent is not None],
                agent=self._owner.agent,
                user=self._owner.user,
                status=status,
                at=at,
                id=id,
                size=size + 1,
            )
        )
        return make_page(
            _records(rows), size, lambda one: [clock.from_datetime(one.created_at, "after"), one.id]
        )

    def _get(self, tx: Transaction, id: str, lock: bool = False) -> Consolidation:
        if lock:
            tx.lock_rows("select 1 from consolidations where tenant = :tenant and id = :id", id=id)
        found = _records(tx.all(_GET, id=id, agent=self._owner.agent, user=self._owner.user))
        if not found:
            raise NotFound(what="consolidation", id=id)
        return found[0]

    def _reviewed(self, found: Consolidation) -> entry.Review:
        """What a person accepts is reviewed by that; what a program does waits, where its sources or it would."""
        if self._owner.source in entry.PEOPLE:
            return "accepted"
        return entry.awaits(self._settings.review, (found.source, self._owner.source), "core")

    def _decide(self, tx: Transaction, id: str, status: Status, made: str | None) -> Consolidation:
        tx.run(
            """update consolidations set status = :status, entry_id = :made, decided_at = :now
               where tenant = :tenant and id = :id""",
            id=id,
            status=status,
            made=made,
        )
        return self._get(tx, id)

    def _look(self, days: float) -> Looked:
        agent = self._agent()
        most = 2 * entry.WINDOW // clock.DAY
        if isinstance(days, bool) or not isinstance(days, int | float) or not 0 <= days < most:
            raise Invalid(field="days", problem=f"must be a number from 0 to under {most}")

        def look(tx: Transaction) -> tuple[dict[str, Any], list[Old]]:
            which = {
                "agent": agent,
                "user": self._owner.user,
                "after": tx.now - 2 * entry.WINDOW,
                "upto": tx.now - round(days * clock.DAY),
            }
            return which, [Old(*row) for row in tx.all(_DUE, **which, size=_MOST_ENTRIES)]

        which, due = self._read(look)
        if self._services.models.main is not None and due:
            return self._ask(which, draft.parts(due)[:_MOST_CALLS])
        drafts = self._guarded(
            [one for same in draft.by_user(due) for one in draft.extracted(same)]
        )
        return Looked(
            self._write("propose", lambda tx: self._keep(tx, which, drafts)) if drafts else []
        )

    def _ask(self, which: dict[str, Any], parts: Sequence[Sequence[Old]]) -> Looked:
        """Ask a model about each part, and keep what it says before the next; one that does not answer ends it."""
        assert self._services.models.main is not None
        model = self._services.watched(self._services.models.main, self._owner, ROUTE)
        made: list[Consolidation] = []
        errors: list[ModelError] = []
        for calls, part in enumerate(parts, 1):
            try:
                drafts = self._guarded(draft.asked(model, part))
            except NoModel:
                raise
            except BadAnswer as error:
                errors.append(error)
                failed = partial(self._fail, which=which, part=part, model=model.name)
                self._write("propose", failed)
            except ModelError as error:  # nobody paid for that, and the next would hear the same
                return Looked(made, calls, [*errors, error])
            else:
                made += self._write("propose", partial(self._keep, which=which, drafts=drafts))
        return Looked(made, len(parts), errors)

    def _guarded(self, drafts: Sequence[Draft]) -> Sequence[Draft]:
        """Drafts without what must not be written: what is derived is looked at again."""
        mode = masking.derived(self._settings.secrets)
        if mode == "off":
            return drafts
        return [replace(one, content=masking.guard(one.content, "content", mode)) for one in drafts]

    def _fail(
        self, tx: Transaction, which: dict[str, Any], part: Sequence[Old], model: str
    ) -> None:
        """Count an answer that could not be used, for each entry of its part; after the last, they are passed over."""
        if part[0].failures + 1 >= len(draft.ENTRIES_A_CALL):
            self._keep(tx, which, [Draft("", model, part)])
            return
        tx.many(
            """update entries set failures = :failures
               where tenant = :tenant and id = :id and version = :version and failures < :failures""",
            [
                {"id": one.id, "version": one.version, "failures": one.failures + 1}
                for one in sorted(part)
            ],
        )

    def _keep(
        self, tx: Transaction, which: dict[str, Any], drafts: Sequence[Draft]
    ) -> Sequence[Consolidation]:
        """Write the drafts whose entries still are what they were made of, and are not used by another."""
        tx.lock_rows(
            """select 1 from entries where tenant = :tenant and agent = :agent and kind = 'journal'
               and (user_id is null or user_id = coalesce(:user, user_id))
               and created_at > :after and created_at <= :upto order by id""",
            **which,
        )
        still = {row[0]: row[4] for row in tx.all(_DUE, **which, size=_FAR)}
        made = []
        for one in drafts:
            same = [old for old in one.seen if still.get(old.id) == old.version]
            if same and (len(same) == len(one.seen) or not one.content):
                made.append(self._add(tx, which["agent"], Draft(one.content, one.model, same)))
        return [one for one in made if one.content]

    def _add(self, tx: Transaction, agent: str, new: Draft) -> Consolidation:
        id = ids.uuid7()
        tx.run(
            """insert into consolidations (tenant, id, agent, user_id, source, status, content, model, created_at)
               values (:tenant, :id, :agent, :user, :source, :status, :content, :model, :now)""",
            id=id,
            agent=agent,
            user=new.user,
            source=new.source,
            status="proposed" if new.content else "passed",
            content=new.content,
            model=new.model,
        )
        tx.many(
            """insert into consolidation_sources (tenant, entry_id, consolidation_id, number)
               values (:tenant, :entry, :id, :number)""",
            [
                {"entry": old.id, "id": id, "number": number}
                for number, old in enumerate(new.seen, 1)
            ],
        )
        return self._get(tx, id)


_WITH_SOURCES = """ select page.id, page.agent, status, content, page.entry_id, model, user_id, source, created_at,
                           decided_at, used.entry_id
                    from page left join consolidation_sources as used
                         on used.tenant = :tenant and used.consolidation_id = page.id
                    order by created_at desc, page.id desc, number"""
_PAGE = """with page as (
    select """ + _COLUMNS + """ from consolidations
    where tenant = :tenant and status = coalesce(:status, status) and (created_at, id) < (:at, :id)
    and (user_id is null or user_id = coalesce(:user, user_id))"""  # fmt: skip
_LAST = " order by created_at desc, id desc limit :size)" + _WITH_SOURCES
_LIST = {True: _PAGE + " and agent = :agent" + _LAST, False: _PAGE + _LAST}
_GET = """with page as (
    select """ + _COLUMNS + """ from consolidations
    where tenant = :tenant and id = :id and agent = coalesce(:agent, agent)
    and (user_id is null or user_id = coalesce(:user, user_id)))""" + _WITH_SOURCES  # fmt: skip


def _records(rows: Sequence[Row]) -> list[Consolidation]:
    """Consolidations out of rows that each name one source, in the order of the rows."""
    found = []
    for _, same in groupby(rows, key=lambda row: row[0]):
        parts = list(same)
        id, agent, status, content, made, model, user, source, created, decided, _ = parts[0]
        sources = [row[10] for row in parts if row[10] is not None]
        at = (clock.to_datetime(created), clock.to_datetime_or_none(decided))
        found.append(
            Consolidation(id, agent, status, content, made, model, user, source, *at, sources)
        )
    return found


def look(services: Services, owner: Owner, days: float) -> Looked:
    """The same as `propose`, for whoever goes on where something went wrong."""
    return Consolidations(services, owner)._look(days)

"""Consolidations: reversible proposals to keep the content of journal entries that expire.

An accepted proposal becomes a core entry of the agent, or a document.

A consolidation deletes nothing, and uses each entry once. The model is called outside of any
transaction. Each answer is stored at once, if the entries have not changed: a later failure cannot
lose it, and no answer is paid for twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import Annotated, Any, Literal, get_args

from memorist.base import canonical, clock, ids, limits, masking
from memorist.base.errors import (
    BadAnswer,
    Conflict,
    Forbidden,
    Invalid,
    ModelError,
    NoModel,
    NotFound,
    PartlyAnswered,
)
from memorist.base.parameters import Key, PageSize, Range
from memorist.base.verbs import verb
from memorist.kinds.consolidations import draft
from memorist.kinds.consolidations.draft import Draft, JournalEntry
from memorist.kinds.documents import documents, sources
from memorist.kinds.entries import entry, review
from memorist.kinds.entries.entry import JOURNAL_WINDOW_MICROS, Review
from memorist.kinds.kind import Check, Kind, Owner, Services, Table
from memorist.kinds.page import Page, make_page, page_start
from memorist.kinds.trust import is_person
from memorist.search.search_document import IndexMark, owner_of
from memorist.storage.checksum import checksum
from memorist.storage.database import Row, Transaction

Status = Literal["proposed", "accepted", "refused", "undone", "passed"]
Target = Literal["core", "documents"]
"""What an accepted proposal becomes: a core entry, or a document."""
ROUTE = "consolidate"
"""The route of the model calls in the telemetry."""
_MAX_ENTRIES = 400
"""Entries per run; the rest waits for the next run."""
_MAX_CALLS = 20
_TITLE_CHARACTERS = 80

_OF_USER = "(user_id is null or user_id = coalesce(:user, user_id))"
_COLUMNS = "id, agent, status, content, entry_id, model, user_id, source, created_at, decided_at"
# The end of a query `with page as (…)`: one row for each source of each consolidation.
_WITH_SOURCES = """
    select page.id, page.agent, status, content, page.entry_id, model, page.user_id, page.source,
           page.created_at, decided_at, sources.entry_id, documents.id
    from page left join consolidation_sources as sources
        on sources.tenant = :tenant and sources.consolidation_id = page.id
        left join documents on documents.tenant = :tenant and documents.id = page.entry_id
    order by page.created_at desc, page.id desc, number"""


@dataclass(frozen=True)
class Consolidation:
    """A proposal to keep content of journal entries.

    A proposal with the status `passed` has no content: the model found nothing worth keeping, or
    gave no usable answer.
    """

    id: str
    agent: str
    status: Status
    content: str
    entry_id: str | None  # the core entry that the proposal became
    document_id: str | None  # or the document that it became
    model: str
    user: str | None
    source: str  # the least trusted source of the journal entries
    created_at: datetime
    decided_at: datetime | None
    sources: Sequence[str]  # ids of the journal entries


@dataclass(frozen=True)
class ProposalRun:
    """The result of one run over a journal."""

    proposals: Sequence[Consolidation]
    calls: int = 0
    errors: Sequence[ModelError] = ()


_Consolidations = list[Consolidation]
_Errors = list[ModelError]


class Consolidations(Kind):
    """Proposals to keep the agent's journal entries, as core entries or documents."""

    name = "consolidations"
    parameter_help = {
        "id": "Id of the proposal.",
        "status": "Only consolidations with this status.",
    }
    tables = (
        Table(
            "consolidations",
            order="id",
            owned="user_id = :user",
            of_agent="agent = :agent",
            checked=("content",),
        ),
        Table(
            "consolidation_sources",
            order="entry_id",
            owned="""consolidation_id in (
                select id from consolidations where tenant = :tenant and user_id = :user)""",
            of_agent="""consolidation_id in (
                select id from consolidations where tenant = :tenant and agent = :agent)""",
        ),
    )
    checks = (
        Check(
            "an accepted consolidation has its core entry or document",
            """select id from consolidations
               where tenant = :tenant and status = 'accepted' and not exists (
                   select 1 from entries
                   where entries.tenant = :tenant and entries.id = consolidations.entry_id
                   and entries.agent = consolidations.agent and entries.kind = 'core')
               and not exists (
                   select 1 from documents
                   where documents.tenant = :tenant and documents.id = consolidations.entry_id)""",
        ),
    )

    @verb(
        "POST /consolidations",
        effect="add",
        calls_model="main",
        example="memorist consolidations propose --agent scout --days 5",
    )
    def propose(
        self, *, days: Annotated[float, Range(0, below=14)] = 5.0
    ) -> Sequence[Consolidation]:
        """Propose what to keep of the agent's journal entries that are older than `days`.

        Entries of different users are never mixed in one proposal. Entries that were used before,
        or that expired more than a week ago, are not considered. If an answer of the model cannot
        be used, the other answers are stored and an error is raised at the end. The entries of the
        failed answer are tried again in smaller groups, at most three times.
        """
        run = self._propose(days)
        if not run.errors:
            return run.proposals
        first = run.errors[0]
        if run.calls == 1:
            raise first
        raise PartlyAnswered(
            model=first.model,
            good=run.calls - len(run.errors),
            calls=run.calls,
            problem=first.problem,
        )

    @verb(
        "POST /consolidations/{id}/accept",
        effect="change",
        example="memorist consolidations accept 0199…",
    )
    def accept(self, id: Key, *, into: Target = "core") -> Consolidation:
        """Accept a proposal, even if it was refused or undone. Repeating changes nothing.

        into: `core` for an entry of the agent, `documents` for a document that all agents can find

        If a person accepts, the text is used at once. If a program accepts a proposal from an
        untrusted source, a core entry waits for review and a document is refused.
        """
        canonical.key(id, "id")
        canonical.one_of(into, "into", get_args(Target))

        def work(tx: Transaction) -> Consolidation:
            proposal = self._get_to_decide(tx, id)
            if proposal.status == "accepted":
                return proposal
            if not proposal.content:
                raise Conflict(problem=f"consolidation {id!r} has no text to accept")
            if into == "documents":
                return self._decide(tx, id, "accepted", self._add_document(tx, proposal))
            new = entry.NewEntry(
                proposal.agent,
                "core",
                proposal.content,
                proposal.source,
                user=proposal.user,
                review=self._review_of(proposal),
            )
            added = entry.entry(entry.insert(tx, new) or (), tx.now)
            if added.review == "accepted":
                self._services.index.mark(tx, [entry.mark(added)])
            return self._decide(tx, id, "accepted", new.id)

        return self._write("accept", work, row={"id": id})

    @verb(
        "POST /consolidations/{id}/refuse",
        effect="change",
        example="memorist consolidations refuse 0199…",
    )
    def refuse(self, id: Key) -> Consolidation:
        """Refuse a proposal; its entries expire and are not proposed again unless edited."""
        canonical.key(id, "id")

        def work(tx: Transaction) -> Consolidation:
            proposal = self._get_to_decide(tx, id)
            if proposal.status == "accepted":
                raise Conflict(problem=f"consolidation {id!r} is already accepted; undo it instead")
            if proposal.status != "proposed":
                return proposal
            return self._decide(tx, id, "refused", None)

        return self._write("refuse", work, row={"id": id})

    @verb(
        "POST /consolidations/{id}/undo",
        effect="change",
        example="memorist consolidations undo 0199…",
    )
    def undo(self, id: Key) -> Consolidation:
        """Remove the core entry or document that a proposal became; the journal stays.

        Repeating changes nothing.
        """
        canonical.key(id, "id")

        def work(tx: Transaction) -> Consolidation:
            # Lock the record before the consolidation, in the same order as its `remove`.
            before = self._get(tx, id)
            tx.lock_rows(
                "select 1 from entries where tenant = :tenant and id = :id", id=before.entry_id
            )
            tx.lock_rows(
                "select 1 from documents where tenant = :tenant and id = :id",
                id=before.document_id,
            )
            proposal = self._get_to_decide(tx, id)
            if proposal.status == "undone":
                return proposal
            if proposal.status != "accepted":
                raise Conflict(problem=f"consolidation {id!r} is {proposal.status}, not accepted")
            if proposal.document_id is None:
                self._remove_entry(tx, proposal.entry_id or "")
            else:
                self._remove_document(tx, proposal.document_id)
            return self._decide(tx, id, "undone", None)

        return self._write("undo", work, row={"id": id})

    @verb(
        "GET /consolidations/{id}",
        effect="read",
        example="memorist consolidations get 0199… --json",
    )
    def get(self, id: Key) -> Consolidation:
        """Return a consolidation."""
        canonical.key(id, "id")
        return self._read(lambda tx: self._get(tx, id))

    @verb(
        "GET /consolidations",
        effect="read",
        example="memorist consolidations list --status proposed",
    )
    def list(
        self, *, status: Status | None = None, limit: PageSize = 100, after: str | None = None
    ) -> Page[Consolidation]:
        """Return consolidations, newest first."""
        if status is not None:
            canonical.one_of(status, "status", get_args(Status))
        size, (at, id) = page_start(limit, after, 2**62, "")
        of_agent = "" if self._owner.agent is None else "and agent = :agent"
        rows = self._read_rows(
            lambda tx: tx.send(
                f"""with page as (
                    select {_COLUMNS} from consolidations
                    where tenant = :tenant and status = coalesce(:status, status) and {_OF_USER}
                    and (created_at, id) < (:at, :id) {of_agent}
                    order by created_at desc, id desc limit :size) {_WITH_SOURCES}""",
                agent=self._owner.agent,
                user=self._owner.user,
                status=status,
                at=at,
                id=id,
                size=size + 1,
            ),
            allow_replica=True,
        )

        def position(record: Consolidation) -> Any:
            return [record.created_at, record.id]

        return make_page(_records(rows), size, position)

    def _get(self, tx: Transaction, id: str, lock: bool = False) -> Consolidation:
        if lock:
            tx.lock_rows("select 1 from consolidations where tenant = :tenant and id = :id", id=id)
        rows = tx.all(
            f"""with page as (
                select {_COLUMNS} from consolidations
                where tenant = :tenant and id = :id and agent = coalesce(:agent, agent)
                and {_OF_USER}) {_WITH_SOURCES}""",
            id=id,
            agent=self._owner.agent,
            user=self._owner.user,
        )
        if not rows:
            raise NotFound(what="consolidation", id=id)
        return _records(rows)[0]

    def _get_to_decide(self, tx: Transaction, id: str) -> Consolidation:
        """Lock and return a proposal that the scope may decide on."""
        proposal = self._get(tx, id, lock=True)
        review.require_reviewable(self._owner, proposal.user, "proposal")
        return proposal

    def _add_document(self, tx: Transaction, proposal: Consolidation) -> str:
        """Add a proposal to the documents of its user, or of the tenant; return the id."""
        if self._review_of(proposal) != "accepted":
            raise Forbidden(
                problem=f"this proposal comes from the source {proposal.source!r};"
                " only a person can accept it as a document"
            )
        title = sources.one_line(proposal.content)
        if len(title) > _TITLE_CHARACTERS:
            title = title[: _TITLE_CHARACTERS - 1].rstrip() + "…"
        text = (
            f"{proposal.content}\n\n"
            f"(Source: the journal of {proposal.agent}, consolidation {proposal.id})\n"
        )
        path = f"consolidated/{proposal.id}"
        source = sources.from_text(title, text, path, "markdown", limits.MAX_DOCUMENT_BYTES)
        prepared = documents.prepare(source, proposal.user, proposal.source)
        document, _ = documents.write(tx, self._services, prepared)
        return document.id

    def _remove_entry(self, tx: Transaction, id: str) -> None:
        row = tx.one(
            """delete from entries where tenant = :tenant and id = :id and version = 1
               returning user_id, agent, board""",
            id=id,
        )
        if row is None:
            raise Conflict(
                problem=f"the core entry {id!r} was edited since; remove the entry itself"
            )
        self._services.index.mark(tx, [IndexMark(owner_of(*row), "entries", id)])

    def _remove_document(self, tx: Transaction, id: str) -> None:
        row = tx.one(
            """delete from documents
               where tenant = :tenant and id = :id and updated_at = created_at
               returning user_id""",
            id=id,
        )
        if row is None:
            raise Conflict(
                problem=f"the document {id!r} was replaced since; remove the document itself"
            )
        self._services.index.mark(tx, [IndexMark(owner_of(row[0] or None), "documents", id)])

    def _review_of(self, proposal: Consolidation) -> Review:
        """Return the review status of the new core entry: if a person accepts, it is reviewed."""
        if is_person(self._owner.source):
            return "accepted"
        sources = (proposal.source, self._owner.source)
        return entry.initial_review(self._settings.review, sources, "core", proposal.content)

    def _decide(
        self, tx: Transaction, id: str, status: Status, entry_id: str | None
    ) -> Consolidation:
        tx.send(
            """update consolidations
               set status = :status, entry_id = :entry_id, decided_at = :now
               where tenant = :tenant and id = :id""",
            id=id,
            status=status,
            entry_id=entry_id,
        )
        return self._get(tx, id)

    # -- proposing -----------------------------------------------------------------------------

    def _propose(self, days: float) -> ProposalRun:
        agent = self._agent()
        limit = 2 * JOURNAL_WINDOW_MICROS // clock.DAY
        if isinstance(days, bool) or not isinstance(days, int | float) or not 0 <= days < limit:
            raise Invalid(field="days", problem=f"must be a number from 0 to under {limit}")

        def read_due(tx: Transaction) -> tuple[dict[str, Any], Sequence[JournalEntry]]:
            span = {
                "agent": agent,
                "user": self._owner.user,
                "after": tx.now - 2 * JOURNAL_WINDOW_MICROS,
                "until": tx.now - round(days * clock.DAY),
            }
            return span, _due_entries(tx, span, _MAX_ENTRIES)

        span, due = self._read(read_due)
        if self._services.models.main is not None and due:
            return self._ask_model(span, draft.groups_for_model(due)[:_MAX_CALLS])
        drafts = [
            proposal
            for entries in draft.group_by_user(due)
            for proposal in draft.extract_drafts(entries)
        ]
        if not drafts:
            return ProposalRun([])
        masked = self._mask(drafts)
        return ProposalRun(self._write("propose", lambda tx: self._store(tx, span, masked)))

    def _ask_model(
        self, span: dict[str, Any], groups: Sequence[Sequence[JournalEntry]]
    ) -> ProposalRun:
        """Ask the model about each group and store its answer before the next call."""
        assert self._services.models.main is not None
        model = self._services.watched(self._services.models.main, self._owner, ROUTE)
        proposals: _Consolidations = []
        errors: _Errors = []
        for calls, group in enumerate(groups, 1):
            try:
                drafts = self._mask(draft.ask_model(model, group))
            except NoModel:
                raise
            except BadAnswer as error:
                errors.append(error)
                count_failure = partial(
                    self._count_failure, span=span, group=group, model=model.name
                )
                self._write("propose", count_failure)
            except ModelError as error:  # the next call would fail the same way
                return ProposalRun(proposals, calls, [*errors, error])
            else:
                store = partial(self._store, span=span, drafts=drafts)
                proposals += self._write("propose", store)
        return ProposalRun(proposals, len(groups), errors)

    def _mask(self, drafts: Sequence[Draft]) -> Sequence[Draft]:
        """Mask secrets and personal data in drafts: a model may have joined parts of them."""
        policy = masking.derived(self._settings.masking)
        if policy is masking.OFF:
            return drafts
        return [
            replace(proposal, content=masking.guard(proposal.content, "content", policy))
            for proposal in drafts
        ]

    def _count_failure(
        self, tx: Transaction, span: dict[str, Any], group: Sequence[JournalEntry], model: str
    ) -> None:
        """Count an unusable answer for each entry of a group; after the last try, skip the group."""
        failures = group[0].failures + 1
        if failures >= len(draft.ENTRIES_PER_CALL):
            self._store(tx, span, [Draft("", model, group)])
            return
        tx.many(
            """update entries set failures = :failures
               where tenant = :tenant and id = :id and version = :version
               and failures < :failures""",
            [
                {"id": journal.id, "version": journal.version, "failures": failures}
                for journal in sorted(group)
            ],
        )

    def _store(
        self, tx: Transaction, span: dict[str, Any], drafts: Sequence[Draft]
    ) -> Sequence[Consolidation]:
        """Write the drafts whose entries have not changed and are not used by another proposal."""
        tx.lock_rows(
            f"""select 1 from entries
                where tenant = :tenant and agent = :agent and kind = 'journal' and {_OF_USER}
                and created_at > :after and created_at <= :until order by id""",
            **span,
        )
        versions = {journal.id: journal.version for journal in _due_entries(tx, span, 2**62)}
        proposals = []
        for proposal in drafts:
            unchanged = [
                journal
                for journal in proposal.entries
                if versions.get(journal.id) == journal.version
            ]
            if not unchanged:
                continue
            if not proposal.content or len(unchanged) == len(proposal.entries):
                id = _insert(tx, span["agent"], replace(proposal, entries=unchanged))
                if proposal.content:
                    proposals.append(self._get(tx, id))
        return proposals


def _insert(tx: Transaction, agent: str, proposal: Draft) -> str:
    """Insert a draft and the ids of its source entries; return its id."""
    id = ids.uuid7()
    tx.send(
        """insert into consolidations
               (tenant, id, agent, user_id, source, status, content, model, created_at, checksum)
           values (:tenant, :id, :agent, :user, :source, :status, :content, :model, :now, :checksum)""",
        id=id,
        agent=agent,
        user=proposal.user,
        source=proposal.source,
        status="proposed" if proposal.content else "passed",
        content=proposal.content,
        checksum=checksum(proposal.content),
        model=proposal.model,
    )
    tx.many(
        """insert into consolidation_sources (tenant, entry_id, consolidation_id, number)
           values (:tenant, :entry, :id, :number)""",
        [
            {"entry": journal.id, "id": id, "number": number}
            for number, journal in enumerate(proposal.entries, 1)
        ],
    )
    return id


def _due_entries(tx: Transaction, span: dict[str, Any], size: int) -> Sequence[JournalEntry]:
    """Return the journal entries of a time span that no consolidation has used, oldest first."""
    rows = tx.all(
        f"""select id, user_id, content, tokens, version, created_at, source, failures from entries
            where tenant = :tenant and agent = :agent and kind = 'journal'
            and created_at > :after and created_at <= :until and review = 'accepted' and {_OF_USER}
            and not exists (
                select 1 from consolidation_sources as used
                where used.tenant = :tenant and used.entry_id = entries.id)
            order by created_at, id limit :size""",
        **span,
        size=size,
    )
    return [JournalEntry(*row) for row in rows]


def _records(rows: Sequence[Row]) -> list[Consolidation]:
    """Join rows, one for each source, into records, in the order of the rows."""
    records = []
    for _, same in groupby(rows, key=lambda row: row[0]):
        group = list(same)
        id, agent, status, content, kept_id, model, user, source, created, decided, _, document = (
            group[0]
        )
        records.append(
            Consolidation(
                id=id,
                agent=agent,
                status=status,
                content=content,
                entry_id=kept_id if document is None else None,
                document_id=document,
                model=model,
                user=user,
                source=source,
                created_at=clock.to_datetime(created),
                decided_at=clock.to_datetime_or_none(decided),
                sources=[row[10] for row in group if row[10] is not None],
            )
        )
    return records


def run_proposals(services: Services, owner: Owner, days: float) -> ProposalRun:
    """Propose as `Consolidations.propose` does, and return the errors instead of raising them."""
    return Consolidations(services, owner)._propose(days)

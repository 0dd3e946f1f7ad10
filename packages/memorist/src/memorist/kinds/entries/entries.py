"""Entries: the memory of an agent, and the whiteboards that several agents share.

An entry belongs to an agent, not to a user. The user of the conversation is stored with the entry,
so that erasing a user also erases what the agent learned from them. A scope without an agent can
read the entries of all agents, but cannot add entries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Annotated, Any, Literal

from memorist.base import canonical, clock, limits
from memorist.base.errors import AlreadyExists, Invalid, NotFound, WrongVersion
from memorist.base.parameters import (
    KEY,
    NOT_BLANK,
    SINCE_1970,
    Count,
    HiddenFromAgents,
    HitCount,
    JsonSchema,
    Key,
    PageSize,
    SomeKeys,
    Visible,
)
from memorist.base.verbs import verb
from memorist.content import placeholder
from memorist.kinds import scope_search, trust
from memorist.kinds.entries import boards, entry_prompt, entry_tools, review
from memorist.kinds.entries.entry import (
    COLUMNS,
    ENTRY_INDEX,
    ENTRY_KINDS,
    JOURNAL_WINDOW_MICROS,
    MAIN_BOARD,
    REVIEWS,
    Entry,
    EntryKind,
    NewEntry,
    Review,
    checked_content,
    entry,
    imported_entry,
    initial_review,
    insert,
    mark,
    prompt_tokens,
    with_signs,
)
from memorist.kinds.entries.review import queued_rows
from memorist.kinds.kind import ChangeSubject, Kind, Table
from memorist.kinds.page import Page, make_page, page_start
from memorist.kinds.scope_search import SearchRequest
from memorist.kinds.section import Ask, RecallScope, Section
from memorist.kinds.tool import Tool
from memorist.search.query import Hit
from memorist.storage.checksum import checksum
from memorist.storage.database import Row, Transaction

_TIME = {"type": "string", "format": "date-time", **SINCE_1970.schema()}
_OPTIONAL_TIME = {"anyOf": [_TIME, {"type": "null"}]}
NewEntries = Annotated[
    Sequence[Mapping[str, Any]],
    JsonSchema(
        {
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["content"],
                "additionalProperties": False,
                "properties": {
                    **{field.name: {} for field in fields(Entry)},
                    "id": {"type": "string", **KEY.schema()},
                    "kind": {"enum": ["journal", "core"]},
                    "content": {"type": "string", **NOT_BLANK.schema()},
                    "review": {"enum": list(REVIEWS)},
                    "created_at": _OPTIONAL_TIME,
                    "updated_at": _OPTIONAL_TIME,
                },
            },
        }
    ),
]
MAX_PROMPT_ENTRIES = 1000
_FILTER_BATCH = 500
_FAR_FUTURE = 2**62

_SELECT_ENTRY = f"select {COLUMNS} from entries where tenant = :tenant and id = :id"
_OF_USER = "(user_id is null or user_id = coalesce(:user, user_id))"
_SHARED_BOARDS = "(select board from board_members where tenant = :tenant and agent = :agent)"


class Entries(Kind):
    """The journal and core entries of an agent, and the whiteboards that it shares."""

    name = "entries"
    parameter_help = {
        "id": "Id of the entry.",
    }
    tables = (
        Table(
            "entries",
            order="id",
            owned="user_id = :user",
            of_agent="agent = :agent",
            local={"failures": "0"},
            checked=("content",),
        ),
        Table("boards", order="board"),
        Table("board_members", order="board, agent", of_agent="agent = :agent"),
    )
    findable = ENTRY_INDEX

    @verb(
        "POST /entries",
        effect="add",
        example='memorist entries add "Ada prefers trains to planes." --kind core --agent scout',
    )
    def add(
        self, content: Visible, *, kind: EntryKind = "journal", board: Key | None = None
    ) -> Entry:
        """Add an entry to the journal (expires), the core (permanent) or a whiteboard."""
        return self._add(content, kind, board, self._owner.source)

    @verb("GET /entries/{id}", effect="read", example="memorist entries get 0199… --json")
    def get(self, id: Key) -> Entry:
        """Return an entry."""
        canonical.key(id, "id")
        return with_signs(self._read(lambda tx: self._get(tx, id)))

    @verb(
        "PATCH /entries/{id}",
        effect="change",
        example='memorist entries edit 0199… "Ada prefers night trains." --if-version 1',
    )
    def edit(self, id: Key, content: Visible, *, if_version: Count | None = None) -> Entry:
        """Replace the content of an entry; its expiry does not change.

        if_version: edit only this version

        A source whose entries wait for a review may not edit an accepted entry. An accepted entry
        for all users can only be edited by a scope without a user.
        """
        canonical.key(id, "id")
        text = checked_content(content, policy=self._settings.masking)
        if if_version is not None:
            canonical.check_integer(if_version, "if_version")
        source = self._owner.source
        reviews = {kind: self._initial_review(source, kind, text) for kind in ENTRY_KINDS}

        def work(tx: Transaction) -> Entry:
            before = self._get_own(tx, id)
            review.require_changeable(self._owner, before)
            _expect_version(before, if_version)
            review.require_editable(tx, before, text, source, reviews[before.kind])
            tx.send(
                """update entries set content = :content, checksum = :checksum, tokens = :tokens, source = :source,
                       version = version + 1, failures = 0, updated_at = :now
                   where tenant = :tenant and id = :id""",
                id=id,
                source=trust.least_trusted((before.source, source)),
                content=text,
                checksum=checksum(text),
                tokens=prompt_tokens(text),
            )
            _drop_proposals(tx, [id])
            # A later consolidation may use a journal entry in which an earlier one found nothing.
            tx.send(
                """delete from consolidation_sources
                   where tenant = :tenant and entry_id = :id and consolidation_id in (
                       select id from consolidations
                       where tenant = :tenant and status = 'passed')""",
                id=id,
            )
            edited = entry(tx.one(_SELECT_ENTRY, id=id) or (), tx.now)
            self._mark_accepted(tx, [edited])
            return edited

        return with_signs(self._write("edit", work, row={"id": id}, returns=with_signs))

    @verb(
        "POST /entries/{id}/accept",
        effect="change",
        people_only=True,
        example="memorist entries accept 0199… --if-version 2",
    )
    def accept(self, id: Key, *, if_version: Count | None = None) -> Entry:
        """Accept an entry that waits for a review or was refused. Repeating changes nothing.

        if_version: accept only the version that was read

        Only a person can accept: not an agent, an import or a tool. An entry for all users can only
        be accepted by a scope without a user.
        """
        return self._decide("accept", id, "accepted", if_version)

    @verb(
        "POST /entries/{id}/refuse",
        effect="change",
        people_only=True,
        example="memorist entries refuse 0199…",
    )
    def refuse(self, id: Key, *, if_version: Count | None = None) -> Entry:
        """Refuse an entry, even if it was accepted; it stays listed and can be accepted later.

        if_version: refuse only the version that was read

        Only a person can refuse. If a program adds the same words again, they are not queued again.
        """
        return self._decide("refuse", id, "refused", if_version)

    @verb("GET /entries/queue", effect="read", people_only=True, example="memorist entries queue")
    def queue(
        self,
        *,
        review: Literal["pending", "refused"] = "pending",
        limit: PageSize = 100,
        after: str | None = None,
    ) -> Page[Entry]:
        """Return the entries that wait for a review or were refused, newest first.

        Covers all boards and agents; a scope with an agent or a user sees only its own entries.
        `signs` are warnings for the reviewer; they have no other effect.
        """
        if review not in ("pending", "refused"):
            raise Invalid(field="review", problem=f"must be pending or refused, not {review!r}")
        size, before = page_start(limit, after, _FAR_FUTURE, "")

        def work(tx: Transaction) -> list[Entry]:
            rows = queued_rows(tx, self._owner, review, before, size + 1)
            return [entry(row, tx.now) for row in rows]

        return make_page(_all_with_signs(self._read(work)), size, _position)

    @verb("DELETE /entries/{id}", effect="remove", example="memorist entries remove 0199…")
    def remove(self, id: Key) -> None:
        """Remove an entry, and the proposals based on it.

        An accepted entry for all users can only be removed by a scope without a user.
        """
        canonical.key(id, "id")

        def work(tx: Transaction) -> None:
            own = self._get_own(tx, id)
            review.require_changeable(self._owner, own)
            self._remove(tx, [own])

        self._write("remove", work, row={"id": id})

    @verb(
        "POST /entries/remove",
        effect="remove",
        example="memorist entries remove-many 0199…,0199… --agent scout",
    )
    def remove_many(self, ids: SomeKeys) -> int:
        """Remove several entries and return their number; skip ids that the scope does not have."""
        checked = {
            canonical.key(id, "ids") for id in canonical.check_list(ids, "ids", limits.MAX_PAGE)
        }

        def work(tx: Transaction) -> Sequence[str]:  # the audit log records the ids
            own: list[Entry] = []
            for id in sorted(checked):  # all writers use one order, so that no two block each other
                tx.lock_rows(_SELECT_ENTRY, id=id)
                row = self._visible_row(tx, id)
                if row is not None and self._owner.agent in (None, row[1]):
                    own.append(entry(row, tx.now))
                    review.require_changeable(self._owner, own[-1])
            self._remove(tx, own)
            return [entry.id for entry in own]

        removed = self._write(
            "remove_many", work, row=lambda ids: [{"id": id} for id in ids], returns=len
        )
        return len(removed)

    @verb("GET /entries/counts", effect="read", example="memorist entries counts --agent scout")
    def counts(self) -> dict[str, int]:
        """Return the number of accepted core and journal entries, and of `pending` entries, if any."""

        def work(tx: Transaction) -> dict[str, int]:
            rows = tx.all(
                f"""select kind, count(*) from entries
                    where tenant = :tenant and board is null and review = 'accepted'
                    and {_OF_USER} {self._of_agent()}
                    group by kind""",
                agent=self._owner.agent,
                user=self._owner.user,
            )
            counts = {"core": 0, "journal": 0}
            counts.update({str(kind): int(count) for kind, count in rows})
            pending = review.count_pending(tx, self._owner)
            if pending:
                counts["pending"] = pending
            return counts

        return self._read(work)

    @verb("GET /entries/prompt", effect="read", example="memorist entries prompt --agent scout")
    def prompt(self) -> str:
        """Return the agent's private memory as in its prompt; empty if it has no entries."""
        self._agent()
        section = self._read(lambda tx: entry_prompt.private_section(tx, self._owner, _FAR_FUTURE))
        return placeholder.neutralize(section.write(section.pieces))

    @verb(
        "GET /entries/whiteboard",
        effect="read",
        example="memorist entries whiteboard --agent scout",
    )
    def whiteboard(self) -> str:
        """Return the agent's boards as in its prompt; empty if it shares none."""
        self._agent()
        section = self._read(
            lambda tx: entry_prompt.whiteboard_section(tx, self._owner, MAX_PROMPT_ENTRIES)
        )
        return placeholder.neutralize(section.write(section.pieces))

    @verb(
        "PUT /entries/boards/{board:path}",
        effect="change",
        example="memorist entries share trips scout,planner",
    )
    def share(self, board: Key, agents: SomeKeys) -> dict[str, Sequence[str]]:
        """Share a board among exactly these agents.

        An agent may share a new board, or change one that it shares.
        """
        policy = self._settings.masking
        canonical.name(board, "board", policy)
        names = canonical.check_list(agents, "agents", limits.MAX_BATCH)
        members = sorted({canonical.key(name, "agents", policy) for name in names})
        return self._write(
            "share",
            lambda tx: boards.set_members(tx, self._owner.agent, board, members),
            row=ChangeSubject(board),
        )

    @verb("GET /entries/boards", effect="read", example="memorist entries boards")
    def boards(self) -> dict[str, Sequence[str]]:
        """Return the agent's boards, each with its agents; without an agent, every board."""
        return self._read(lambda tx: boards.list_boards(tx, self._owner.agent))

    @verb(
        "GET /entries/export",
        effect="read",
        example="memorist entries export --agent scout --json > scout.json",
    )
    def export(self) -> Sequence[Entry]:
        """Return every core and journal entry of the agent, oldest first, for `add_many`."""

        def work(tx: Transaction) -> Sequence[Entry]:
            rows = tx.all(
                f"""select {COLUMNS} from entries
                    where tenant = :tenant and board is null and {_OF_USER} {self._of_agent()}
                    order by created_at, id""",
                agent=self._owner.agent,
                user=self._owner.user,
            )
            return [entry(row, tx.now) for row in rows]

        return self._read(work)

    @verb(
        "POST /entries/batch",
        effect="add",
        example="memorist entries add-many scout.json --agent scout",
    )
    def add_many(self, entries: NewEntries) -> Sequence[Entry]:
        """Add entries from `export` with their ids and times, all or none; skip existing ones."""
        self._agent()
        records = canonical.check_list(entries, "entries", limits.MAX_BATCH)
        rows = [
            imported_entry(record, f"entries[{number}]", self._owner, self._settings)
            for number, record in enumerate(records)
        ]

        def work(tx: Transaction) -> Sequence[Entry]:
            return [self._import(tx, row) for row in rows]

        return _all_with_signs(self._write("add_many", work, returns=_all_with_signs))

    @verb(
        "GET /entries/search",
        effect="read",
        calls_model="embedder",
        example="memorist entries search 'what does Ada prefer' --agent scout",
    )
    def search(
        self,
        query: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: HitCount = 10,
    ) -> Page[Entry]:
        """Return the entries that match a query by words and meaning, best first.

        Includes expired entries and boards.
        """
        request = SearchRequest(
            query,
            [self.name],
            since=since,
            until=until,
            limit=limit,
            min_score=scope_search.LIKELY_SCORE,
        )
        hits = scope_search.search(self._services, self._owner, request)

        def work(tx: Transaction) -> list[Entry]:
            rows = [self._visible_row(tx, hit.id) for hit in hits]
            return [entry(row, tx.now) for row in rows if row]

        return Page(self._read(work, allow_replica=True))

    def tools(self, session: str | None = None) -> list[Tool]:
        """Return the tools with which an agent stores entries."""
        add = None if self._owner.agent is None else self._add_as_agent
        return entry_tools.tools(add, self.boards, self.verbs["add"].name)

    def section(self, tx: Transaction, ask: Ask) -> Section | None:
        """Return the agent's private memory."""
        if self._owner.agent is None:
            return None
        return entry_prompt.private_section(tx, self._owner, MAX_PROMPT_ENTRIES)

    def shared_section(self, tx: Transaction, ask: Ask) -> Section | None:
        """Return the boards that the agent shares; other agents' words get a separate layer."""
        if self._owner.agent is None:
            return None
        return entry_prompt.whiteboard_section(tx, self._owner, MAX_PROMPT_ENTRIES)

    @classmethod
    def source_of(cls, tx: Transaction, id: str) -> str | None:
        """Return the source of an entry: who wrote it."""
        row = tx.one("select source from entries where tenant = :tenant and id = :id", id=id)
        return None if row is None else str(row[0])

    @staticmethod
    def hit_origin(hit: Hit, scope: RecallScope) -> str:
        """Return who wrote a recalled hit of this kind, or where it is from."""
        if hit.role == "whiteboard":
            return f"{hit.author} on a whiteboard"
        return f"your {hit.role}"

    # -- writing -------------------------------------------------------------------------------

    def _add_as_agent(
        self, content: str, kind: EntryKind, board: str | None, about_self: bool = False
    ) -> Entry:
        """Add an entry whose source is the agent, or the scope's source if that is less trusted."""
        source = trust.least_trusted(("agent", self._owner.source))
        return self._add(content, kind, board, source, about_self=about_self)

    def _add(
        self,
        content: str,
        kind: EntryKind,
        board: str | None,
        source: str,
        *,
        about_self: bool = False,
    ) -> Entry:
        canonical.one_of(kind, "kind", ENTRY_KINDS)
        if kind != "whiteboard" and board is not None:
            raise Invalid(field="board", problem="is only for entries of the kind whiteboard")
        text = checked_content(content, policy=self._settings.masking)
        if kind == "whiteboard":
            board = canonical.key(MAIN_BOARD if board is None else board, "board")
        agent = self._agent()
        user = self._owner.user
        status = self._initial_review(source, kind, text)
        if about_self and user is not None:
            # It will be in the prompts of all users, so a single user must not decide on it.
            user = None
            status = "pending"
        new = NewEntry(agent, kind, text, source, board=board, user=user, review=status)

        def work(tx: Transaction) -> Entry:
            boards.require_membership(tx, agent, board)
            row = review.find_reviewed(tx, new)
            if row is not None:
                return entry(row, tx.now)
            added = entry(insert(tx, new) or (), tx.now)
            self._mark_accepted(tx, [added])
            return added

        added = self._write("add", work, row=lambda entry: {"id": entry.id}, returns=with_signs)
        return with_signs(added)

    def _import(self, tx: Transaction, new: NewEntry) -> Entry:
        """Add an entry of `export`, or return the existing entry if it was added before."""
        if new.created_at is not None and new.created_at > tx.now + clock.DAY:
            raise Invalid(field="created_at", problem="is more than a day in the future")
        row = review.find_reviewed(tx, new)
        if row is not None:
            return entry(row, tx.now)
        row = insert(tx, new)
        if row is not None:
            added = entry(row, tx.now)
            self._mark_accepted(tx, [added])
            return added
        row = tx.one(_SELECT_ENTRY, id=new.id) or ()
        if (row[1], row[2], row[4]) != (new.agent, new.kind, new.content):
            raise AlreadyExists(what="entry", id=new.id)
        return entry(row, tx.now)

    def _decide(self, verb: str, id: str, decision: Review, if_version: int | None) -> Entry:
        """Write a person's decision about an entry."""
        canonical.key(id, "id")
        if if_version is not None:
            canonical.check_integer(if_version, "if_version")
        review.require_person(self._owner)

        def work(tx: Transaction) -> Entry:
            before = self._get_own(tx, id)
            review.require_reviewable(self._owner, before.user)
            _expect_version(before, if_version)
            if before.review == decision:
                return before
            tx.send(
                "update entries set review = :review where tenant = :tenant and id = :id",
                id=id,
                review=decision,
            )
            _drop_proposals(tx, [id])
            decided = entry(tx.one(_SELECT_ENTRY, id=id) or (), tx.now)
            if "accepted" in (before.review, decision):
                self._services.index.mark(tx, [mark(decided)])
            return decided

        return with_signs(self._write(verb, work, row={"id": id}, returns=with_signs))

    def _remove(self, tx: Transaction, entries: Sequence[Entry]) -> None:
        ids = [entry.id for entry in entries]
        _drop_proposals(tx, ids)
        each = [{"id": id} for id in ids]
        tx.many(
            """update consolidations
               set status = 'undone', content = '', checksum = 0, entry_id = null, decided_at = :now
               where tenant = :tenant and entry_id = :id""",
            each,
        )
        tx.many("delete from entries where tenant = :tenant and id = :id", each)
        self._mark_accepted(tx, entries)

    def _mark_accepted(self, tx: Transaction, entries: Sequence[Entry]) -> None:
        """Note in the index that entries were changed; others than accepted ones are not in it."""
        marks = [mark(entry) for entry in entries if entry.review == "accepted"]
        self._services.index.mark(tx, marks)

    def _initial_review(self, source: str, kind: EntryKind, content: str) -> Review:
        return initial_review(self._settings.review, (source,), kind, content)

    # -- reading -------------------------------------------------------------------------------

    def _of_agent(self) -> str:
        return "" if self._owner.agent is None else "and agent = :agent"

    def _visible_row(self, tx: Transaction, id: str) -> Row | None:
        """Return the row of an entry that the scope may see: of its agent, or on a shared board."""
        sql = f"{_SELECT_ENTRY} and {_OF_USER}"
        if self._owner.agent is not None:
            sql += f" and (board is null and agent = :agent or board in {_SHARED_BOARDS})"
        return tx.one(sql, id=id, agent=self._owner.agent, user=self._owner.user)

    def _get(self, tx: Transaction, id: str) -> Entry:
        row = self._visible_row(tx, id)
        if row is None:
            raise NotFound(what="entry", id=id)
        return entry(row, tx.now)

    def _get_own(self, tx: Transaction, id: str) -> Entry:
        """Lock and return an entry that the scope may change.

        Only its author may change a line on a board.
        """
        tx.lock_rows(_SELECT_ENTRY, id=id)
        own = self._get(tx, id)
        if self._owner.agent not in (None, own.agent):
            raise Invalid(
                field="id", problem=f"was written by {own.agent}; only its author can change it"
            )
        return own

    def _filter(
        self, tx: Transaction, sql: str, values: dict[str, Any], words: Sequence[str], size: int
    ) -> list[Entry]:
        """Return the entries that contain all words.

        Compares in Python, because the engines fold case differently.
        """
        entries: list[Entry] = []
        batch = _FILTER_BATCH if words else size
        while True:
            rows = tx.all(sql, **values, faded=tx.now - JOURNAL_WINDOW_MICROS, size=batch)
            for row in rows:
                if all(word in row[4].casefold() for word in words):
                    entries.append(entry(row, tx.now))
                    if len(entries) == size:
                        return entries
            if len(rows) < batch:
                return entries
            values = {**values, "at": rows[-1][8], "id": rows[-1][0]}

    @verb(
        "GET /entries",
        effect="read",
        example="memorist entries list --agent scout --search 'train lisbon'",
    )
    def list(
        self,
        *,
        kind: EntryKind | None = None,
        board: Key | None = None,
        search: str | None = None,
        review: Annotated[Review, HiddenFromAgents("accepted")] | None = None,
        expired: bool | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: PageSize = 100,
        after: str | None = None,
    ) -> Page[Entry]:
        """Return core and journal entries, newest first; with kind `whiteboard`, entries on boards.

        search: only entries in which all these words occur, in any order, upper or lower case
        """
        if kind is not None:
            canonical.one_of(kind, "kind", ENTRY_KINDS)
        if board is not None:
            canonical.key(board, "board")
            if kind not in (None, "whiteboard"):
                raise Invalid(field="board", problem=f"has no {kind} entries")
        if review is not None:
            canonical.one_of(review, "review", REVIEWS)
        size, (at, id) = page_start(limit, after, _FAR_FUTURE, "")
        values = {
            "agent": self._owner.agent,
            "user": self._owner.user,
            "kind": kind,
            "board": board,
            "review": review,
            "since": 0 if since is None else clock.from_datetime(since, "since"),
            "until": _FAR_FUTURE if until is None else clock.from_datetime(until, "until"),
            "min_expired": int(expired is True),
            "max_expired": int(expired is not False),
            "at": at,
            "id": id,
        }
        if kind != "whiteboard" and board is None:
            which = f"board is null and kind = coalesce(:kind, kind) {self._of_agent()}"
        elif self._owner.agent is None:
            which = "board = coalesce(:board, board) and board is not null"
        else:
            which = f"board = coalesce(:board, board) and board in {_SHARED_BOARDS}"
        sql = f"""select {COLUMNS} from entries
            where tenant = :tenant and {which} and {_OF_USER}
            and created_at >= :since and created_at < :until and (created_at, id) < (:at, :id)
            and review = coalesce(:review, review)
            and case when kind = 'journal' and created_at <= :faded then 1 else 0 end
                between :min_expired and :max_expired
            order by created_at desc, id desc limit :size"""
        words = canonical.words(search, limits.MAX_ATTRIBUTES_BYTES)
        entries = self._read(
            lambda tx: self._filter(tx, sql, values, words, size + 1), allow_replica=True
        )
        return make_page(_all_with_signs(entries), size, _position)


def _all_with_signs(entries: Sequence[Entry]) -> list[Entry]:
    return [with_signs(entry) for entry in entries]


def _expect_version(entry: Entry, if_version: int | None) -> None:
    if if_version not in (None, entry.version):
        raise WrongVersion(what="entry", id=entry.id, actual=entry.version, expected=if_version)


def _drop_proposals(tx: Transaction, ids: Sequence[str]) -> None:
    """Delete the open proposals based on entries that were changed or removed."""
    tx.many(
        """delete from consolidations
           where tenant = :tenant and status not in ('accepted', 'passed') and id in (
               select consolidation_id from consolidation_sources
               where tenant = :tenant and entry_id = :id)""",
        [{"id": id} for id in ids],
    )


def _position(entry: Entry) -> list[Any]:
    return [entry.created_at, entry.id]

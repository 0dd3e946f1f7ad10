"""Entries: what an agent remembers for itself, and what chosen agents share on a whiteboard.

An entry belongs to an agent, whatever user it was talking to; the user is kept beside it, so that erasing a user takes
what the agent learned from them along. A scope without an agent sees every agent's entries, and can add none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, get_args

from retain.base import canonical, clock, ids, limits
from retain.base.errors import AlreadyExists, Invalid, NotFound, WrongVersion
from retain.kinds import findable as index
from retain.kinds import finding
from retain.kinds.entries import boards as sharing
from retain.kinds.entries import entry as rules
from retain.kinds.entries import entry_tools
from retain.kinds.entries import review as reviewing
from retain.kinds.entries.entry import KINDS_OF_ENTRY, MAIN_BOARD, WINDOW, Entry, EntryKind, Review
from retain.kinds.kind import Kind, Page, Table, decode_cursor, make_page
from retain.kinds.section import Ask, RecallScope, Section
from retain.kinds.tool import Tool
from retain.messages import placeholder
from retain.search.index import split_text
from retain.search.query import Hit
from retain.storage.database import Row, Transaction

_MOST_IN_A_PROMPT = 1000
_IN_ONE_READ = 500

# A scope sees its agent's entries and the boards that this shares, written with its user or with none.
_WITH_USER, _COLUMNS, _MINE = reviewing.WITH_USER, reviewing.COLUMNS, reviewing.MINE
_GET = "select " + _COLUMNS + " from entries where tenant = :tenant and id = :id"
_SEEN = _GET + _WITH_USER
_FIND = {
    False: _SEEN,
    True: _SEEN + " and (board is null and agent = :agent or board in " + _MINE + ")",
}
_OWN = {named: _FIND[named] + " and agent = coalesce(:agent, agent)" for named in _FIND}
_REMOVE = "delete from entries where tenant = :tenant and id = :id"
_FILTER = (
    _WITH_USER
    + """ and created_at >= :since and created_at < :until and (created_at, id) < (:at, :id)
    and review = coalesce(:review, review)
    and case when kind = 'journal' and created_at <= :fading then 1 else 0 end between :least and :most
    order by created_at desc, id desc limit :size"""
)
_PRIVATE = (
    "select "
    + _COLUMNS
    + " from entries where tenant = :tenant and board is null and kind = coalesce(:kind, kind)"
)
_SHARED = (
    "select "
    + _COLUMNS
    + " from entries where tenant = :tenant and board = coalesce(:board, board)"
)
_LIST = {
    (False, True): _PRIVATE + " and agent = :agent" + _FILTER,
    (False, False): _PRIVATE + _FILTER,
    (True, True): _SHARED + " and board in " + _MINE + _FILTER,
    (True, False): _SHARED + " and board is not null" + _FILTER,
}
_COUNTED = (
    "select kind, count(*) from entries where tenant = :tenant and board is null" + _WITH_USER
)
_COUNTS = {True: _COUNTED + " and agent = :agent group by kind", False: _COUNTED + " group by kind"}
_INSERT = """insert into entries (tenant, id, agent, kind, board, content, tokens, user_id, source, review, version,
                                  created_at, updated_at)
             values (:tenant, :id, :agent, :kind, :board, :content, :tokens, :user, :source, :review, 1,
                     :created_at, :updated_at)
             on conflict do nothing
             returning """ + _COLUMNS  # fmt: skip
_EDIT = """update entries set content = :content, tokens = :tokens, source = :source, version = version + 1, failures = 0,
                  updated_at = :now where tenant = :tenant and id = :id"""
_STALE = """delete from consolidations where tenant = :tenant and status not in ('accepted', 'passed') and id in (
                select consolidation_id from consolidation_sources where tenant = :tenant and entry_id = :id)"""
_UNDONE = """update consolidations set status = 'undone', content = '', entry_id = null, decided_at = :now
             where tenant = :tenant and entry_id = :id"""
_AGAIN = """delete from consolidation_sources where tenant = :tenant and entry_id = :id and consolidation_id in (
                select id from consolidations where tenant = :tenant and status = 'passed')"""


def _all_looked_at(entries: Sequence[Entry]) -> list[Entry]:
    return [rules.looked_at(one) for one in entries]


class Entries(Kind):
    """The journal and core entries of the scope's agent, and the boards it shares."""

    name = "entries"
    tables = (
        Table("entries", order="id", owned="user_id = :user", local={"failures": "0"}),
        Table("boards", order="board"),
        Table("board_members", order="board, agent"),
    )
    checks = index.ENTRIES.checks
    findable = index.ENTRIES

    def add(self, content: str, *, kind: EntryKind = "journal", board: str | None = None) -> Entry:
        """Remember something: in the journal, where it fades, in the core, where it stays, or on a shared whiteboard."""
        return self._add(content, kind, board, self._owner.source)

    def get(self, id: str) -> Entry:
        """One entry."""
        canonical.key(id, "id")
        return rules.looked_at(self._read(lambda tx: self._find(tx, id)))

    def edit(self, id: str, content: str, *, if_version: int | None = None) -> Entry:
        """Put other words in an entry's place; with `if_version`, only over that version. When it fades does not change.

        What counts is not for a source to edit that waits for a review: it adds an entry of its own.
        """
        canonical.key(id, "id")
        said = split_text(kept := rules.content(content, secrets=self._settings.secrets))
        if if_version is not None:
            canonical.whole(if_version, "if_version")

        def work(tx: Transaction) -> Entry:
            found = self._own(tx, id)
            if if_version not in (None, found.version):
                raise WrongVersion(what="entry", id=id, actual=found.version, expected=if_version)
            reviewing.editable(
                tx, found, kept, self._owner.source, self._awaits((self._owner.source,), found.kind)
            )
            least = rules.least_trusted((found.source, self._owner.source))
            tx.run(_EDIT, id=id, source=least, content=kept, tokens=rules.cost(kept))
            tx.run(_STALE, id=id)  # what a proposal made of it is about words that are gone
            tx.run(_AGAIN, id=id)  # what was passed over with it stays so: nobody changed that
            row = tx.one(_GET, id=id) or ()
            self._services.index.remove(tx, self.name, id)
            self._find_again(tx, row, said)
            return _entry(row, tx.now)

        return rules.looked_at(self._write("edit", work, row={"id": id}, returns=rules.looked_at))

    def accept(self, id: str, *, if_version: int | None = None) -> Entry:
        """Let an entry count that waits for a review or was refused; with `if_version`, only as it was read then.

        Only a person can, and never an agent, an import or a tool. Once more changes nothing.
        """
        return self._decide("accept", id, "accepted", if_version)

    def refuse(self, id: str, *, if_version: int | None = None) -> Entry:
        """Keep an entry from counting, also one that did: it stays listed until it is removed, and can be accepted later.

        Only a person can. The same words are not offered for review again, and count for nobody but a person.
        """
        return self._decide("refuse", id, "refused", if_version)

    def queue(
        self, *, review: Review = "pending", limit: int = 100, after: str | None = None
    ) -> Page[Entry]:
        """What waits for a review, or was refused, on whatever board and of whatever agent, the newest first.

        A scope with an agent or a user has its own alone. `signs` say what to look at twice; they decide nothing.
        """
        if review not in ("pending", "refused"):
            raise Invalid(field="review", problem=f"must be pending or refused, not {review!r}")
        size = self._limit(limit)
        at, id = decode_cursor(after, [int, str]) if after else (rules.FAR, "")

        def work(tx: Transaction) -> list[Entry]:
            return [
                _entry(row, tx.now)
                for row in reviewing.queue(tx, self._owner, review, at, id, size + 1)
            ]

        return make_page([rules.looked_at(one) for one in self._read(work)], size, _place)

    def remove(self, id: str) -> None:
        """Forget an entry, and with it what waits to be made of it."""
        canonical.key(id, "id")
        self._write("remove", lambda tx: self._forget(tx, [self._own(tx, id).id]), row={"id": id})

    def remove_many(self, ids: Sequence[str]) -> int:
        """Forget several entries at once, and say how many; one that is not there, or that is another's, is no error."""
        wanted = sorted(
            {canonical.key(id, "ids") for id in canonical.several(ids, "ids", limits.MAX_PAGE)}
        )
        owner = {"agent": self._owner.agent, "user": self._owner.user}

        def work(tx: Transaction) -> Sequence[str]:  # which these were is on record
            for id in wanted:  # in one order, whoever else does the same
                tx.lock_rows(_GET, id=id)
            own = [
                id for id in wanted if tx.one(_OWN[self._owner.agent is not None], id=id, **owner)
            ]
            self._forget(tx, own)
            return own

        removed = self._write(
            "remove_many", work, row=lambda ids: [{"id": id} for id in ids], returns=len
        )
        return len(removed)

    def _forget(self, tx: Transaction, ids: Sequence[str]) -> None:
        each = [{"id": id} for id in ids]
        tx.many(_STALE, each)
        tx.many(_UNDONE, each)
        tx.many(_REMOVE, each)
        self._services.index.remove_all(tx, self.name, ids)

    def counts(self) -> dict[str, int]:
        """How many core and journal entries there are, faded ones too; and how many are `pending`, where some are."""
        sees, owner = (
            self._owner.agent is not None,
            {"agent": self._owner.agent, "user": self._owner.user},
        )
        rows, waiting = self._read(
            lambda tx: (tx.all(_COUNTS[sees], **owner), reviewing.pending(tx, self._owner))
        )
        return {
            "core": 0,
            "journal": 0,
            **{str(kind): int(count) for kind, count in rows},
            **waiting,
        }

    def prompt(self) -> str:
        """The agent's private memory as its prompt has it, oldest first; nothing where there is nothing."""
        self._agent()
        section = self._read(lambda tx: reviewing.private(tx, self._owner, rules.FAR))
        return placeholder.neutralize(section.write(section.pieces))

    def whiteboard(self) -> str:
        """The boards that the agent shares as its prompt has them, oldest first; nothing where there is nothing."""
        self._agent()
        section = self._read(lambda tx: reviewing.boards(tx, self._owner, _MOST_IN_A_PROMPT))
        return placeholder.neutralize(section.write(section.pieces))

    def share(self, board: str, agents: Sequence[str]) -> dict[str, Sequence[str]]:
        """Share a board among exactly these agents; an agent can do so with a new board, or one that it is on."""
        canonical.name(board, "board", self._settings.secrets)
        given = canonical.several(agents, "agents", limits.MAX_BATCH)
        wanted = sorted({canonical.key(agent, "agents", self._settings.secrets) for agent in given})
        return self._write(
            "share",
            lambda tx: sharing.share(tx, self._owner.agent, board, wanted),
            subject=board,
        )

    def boards(self) -> dict[str, Sequence[str]]:
        """The boards that the agent shares, each with the agents that share it; without an agent, every board."""
        return self._read(lambda tx: sharing.shared(tx, self._owner.agent))

    def export(self) -> Sequence[Entry]:
        """Every core and journal entry of the agent, the oldest first, for `add_many`."""
        values = {
            **rules.everything(self._owner.agent, self._owner.user),
            "kind": None,
            "board": None,
            "size": rules.FAR,
        }

        def work(tx: Transaction) -> Sequence[Entry]:
            rows = tx.all(
                _LIST[False, self._owner.agent is not None], **values, fading=tx.now - WINDOW
            )
            return [_entry(row, tx.now) for row in reversed(rows)]

        return self._read(work)

    def add_many(self, entries: Sequence[Mapping[str, Any]]) -> Sequence[Entry]:
        """Bring in entries that `export` gave, with their ids and times, all or none; ones that are there already stay."""
        agent = self._agent()
        secrets, given = (
            self._settings.secrets,
            enumerate(canonical.several(entries, "entries", limits.MAX_BATCH)),
        )
        whose = (agent, self._owner.user, self._owner.source, self._settings.review)
        rows = [rules.imported(one, f"entries[{n}]", *whose, secrets) for n, one in given]
        said = [split_text(row["content"]) for row in rows]
        made = self._write(
            "add_many",
            lambda tx: [self._bring_in(tx, *one) for one in zip(rows, said, strict=True)],
            returns=_all_looked_at,
        )
        return _all_looked_at(made)

    def search(
        self,
        query: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 10,
    ) -> Sequence[Entry]:
        """The entries that are most likely wanted, by words and by meaning, best first; faded ones and boards' too."""
        found = finding.search(
            self._services, self._owner, query, [self.name], None, since, until, None, limit
        )
        asked = {"agent": self._owner.agent, "user": self._owner.user}

        def work(tx: Transaction) -> Sequence[Entry]:
            rows = [
                tx.one(_FIND[self._owner.agent is not None], id=hit.id, **asked) for hit in found
            ]
            return [_entry(row, tx.now) for row in rows if row]

        return self._read(work)

    def tools(self) -> list[Tool]:
        """How an agent remembers something."""
        return entry_tools.tools(None if self._owner.agent is None else self._say, self.boards)

    def section(self, tx: Transaction, ask: Ask) -> Section | None:
        """The agent's private memory."""
        return (
            None
            if self._owner.agent is None
            else reviewing.private(tx, self._owner, _MOST_IN_A_PROMPT)
        )

    def shared_section(self, tx: Transaction, ask: Ask) -> Section | None:
        """The boards that the agent shares: other agents' words, and so a layer of their own."""
        return (
            None
            if self._owner.agent is None
            else reviewing.boards(tx, self._owner, _MOST_IN_A_PROMPT)
        )

    @staticmethod
    def hit_origin(hit: Hit, scope: RecallScope) -> str:
        """Return who wrote a recalled hit of this kind, or where it is from."""
        if hit.role == "whiteboard":
            return f"{hit.author} on a whiteboard"
        return f"your {hit.role}"

    def _say(self, content: str, kind: EntryKind, board: str | None) -> Entry:
        """What the agent says is kept as its own, whoever the scope is for; a tool's stays a tool's."""
        return self._add(content, kind, board, rules.least_trusted(("agent", self._owner.source)))

    def _add(self, content: str, kind: EntryKind, board: str | None, source: str) -> Entry:
        if kind not in KINDS_OF_ENTRY:
            raise Invalid(
                field="kind", problem=f"must be one of {', '.join(KINDS_OF_ENTRY)}, not {kind!r}"
            )
        if kind != "whiteboard" and board is not None:
            raise Invalid(field="board", problem="is only for entries of the kind whiteboard")
        kept = rules.content(content, secrets=self._settings.secrets)
        where = (
            canonical.key(MAIN_BOARD if board is None else board, "board")
            if kind == "whiteboard"
            else None
        )
        review = self._awaits((source,), kind)
        values = rules.values(
            ids.uuid7(), self._agent(), kind, where, kept, self._owner.user, source, review
        )
        said = split_text(kept)

        def work(tx: Transaction) -> Entry:
            sharing.require(tx, values["agent"], where)
            if there := reviewing.asked(tx, values):
                return _entry(there, tx.now)
            row = tx.one(_INSERT, **values, created_at=tx.now, updated_at=tx.now) or ()
            self._find_again(tx, row, said)
            return _entry(row, tx.now)

        return rules.looked_at(
            self._write("add", work, row=lambda entry: {"id": entry.id}, returns=rules.looked_at)
        )

    def _bring_in(self, tx: Transaction, values: Mapping[str, Any], said: Sequence[str]) -> Entry:
        """Add an entry from elsewhere, or find that it was brought in before."""
        created = tx.now if values["created_at"] is None else values["created_at"]
        if created > tx.now + clock.DAY:
            raise Invalid(field="created_at", problem="lies more than a day in the future")
        if there := reviewing.asked(tx, values):
            return _entry(there, tx.now)
        updated = max(created, values["updated_at"] or 0)
        if row := tx.one(_INSERT, **{**values, "created_at": created, "updated_at": updated}):
            self._find_again(tx, row, said)
        row = row or tx.one(_GET, id=values["id"]) or ()
        if (row[1], row[2], row[4]) != (values["agent"], values["kind"], values["content"]):
            raise AlreadyExists(what="entry", id=values["id"])
        return _entry(row, tx.now)

    def _decide(self, verb: str, id: str, review: Review, if_version: int | None) -> Entry:
        """What a person says about an entry; what does not count is not found, and nothing is made of it."""
        canonical.key(id, "id")
        reviewing.by_a_person(self._owner)

        def work(tx: Transaction) -> Entry:
            found = self._own(tx, id)
            if if_version not in (None, found.version):
                raise WrongVersion(what="entry", id=id, actual=found.version, expected=if_version)
            if found.review == review:
                return found
            reviewing.decide(tx, id, review)
            tx.run(_STALE, id=id)
            self._services.index.remove(tx, self.name, id)
            self._find_again(tx, tx.one(_GET, id=id) or ())
            return self._find(tx, id)

        return rules.looked_at(self._write(verb, work, row={"id": id}, returns=rules.looked_at))

    def _awaits(self, sources: Sequence[str], kind: EntryKind) -> Review:
        return rules.awaits(self._settings.review, sources, kind)

    def _find_again(self, tx: Transaction, row: Row, said: Sequence[str] | None = None) -> None:
        """Make an entry findable, if it counts."""
        if row[10] == "accepted":
            self._services.index.add(tx, index.entry(*row[:6], at=row[8], said=said))

    def _find(self, tx: Transaction, id: str) -> Entry:
        row = tx.one(
            _FIND[self._owner.agent is not None],
            id=id,
            agent=self._owner.agent,
            user=self._owner.user,
        )
        if row is None:
            raise NotFound(what="entry", id=id)
        return _entry(row, tx.now)

    def _own(self, tx: Transaction, id: str) -> Entry:
        """An entry that the scope may change, kept from others until the commit; a line on a board is its author's."""
        tx.lock_rows(_GET, id=id)
        found = self._find(tx, id)
        if self._owner.agent not in (None, found.agent):
            raise Invalid(
                field="id", problem=f"is a line of {found.agent}, and only its author can change it"
            )
        return found

    def _listed(
        self, tx: Transaction, shared: bool, values: dict[str, Any], words: Sequence[str], size: int
    ) -> list[Entry]:
        """Entries from a place in time back; words are looked for here, because engines do not agree on capital letters."""
        found: list[Entry] = []
        batch = _IN_ONE_READ if words else size
        while True:
            rows = tx.all(
                _LIST[shared, self._owner.agent is not None],
                **values,
                fading=tx.now - WINDOW,
                size=batch,
            )
            for row in rows:
                if all(word in row[4].casefold() for word in words):
                    found.append(_entry(row, tx.now))
                    if len(found) == size:
                        return found
            if len(rows) < batch:
                return found
            values = {**values, "at": rows[-1][8], "id": rows[-1][0]}

    def list(
        self,
        *,
        kind: EntryKind | None = None,
        board: str | None = None,
        search: str | None = None,
        review: Review | None = None,
        expired: bool | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Page[Entry]:
        """Core and journal entries, the newest first, or with kind `whiteboard` the lines of the boards that are shared.

        `search` keeps those in which all its words are, in any order and in small or capital letters.
        """
        if kind is not None and kind not in KINDS_OF_ENTRY:
            raise Invalid(
                field="kind", problem=f"must be one of {', '.join(KINDS_OF_ENTRY)}, not {kind!r}"
            )
        if board is not None:
            canonical.key(board, "board")
            if kind not in (None, "whiteboard"):
                raise Invalid(field="board", problem=f"has no {kind} entries")
        if review is not None and review not in get_args(Review):
            raise Invalid(
                field="review",
                problem=f"must be one of {', '.join(get_args(Review))}, not {review!r}",
            )
        size = self._limit(limit)
        at, id = decode_cursor(after, [int, str]) if after else (rules.FAR, "")
        shared = kind == "whiteboard" or board is not None
        values = {
            **rules.everything(self._owner.agent, self._owner.user, since, until),
            "kind": kind,
            "board": board,
            "review": review,
            "least": int(expired is True),
            "most": int(expired is not False),
        }
        words = canonical.words(search, limits.MAX_ATTRIBUTES_BYTES)
        found = self._read(
            lambda tx: self._listed(tx, shared, {**values, "at": at, "id": id}, words, size + 1)
        )
        return make_page([rules.looked_at(one) for one in found], size, _place)


def _place(entry: Entry) -> list[Any]:
    return [clock.from_datetime(entry.created_at, "after"), entry.id]


def _entry(row: Row, now: int) -> Entry:
    id, agent, kind, board, content, user, source, version, created, updated, review = row
    fades = created + WINDOW if kind == "journal" else None
    at = (clock.to_datetime(created), clock.to_datetime(updated), clock.to_datetime_or_none(fades))
    return Entry(
        id,
        agent,
        kind,
        board,
        content,
        user,
        source,
        version,
        *at,
        fades is not None and fades <= now,
        review,
    )

"""Entries: what an agent remembers for itself, and what chosen agents share on a whiteboard.

An entry belongs to an agent, whatever user it was talking to; the user is kept beside it, so that erasing a user takes
what the agent learned from them along. A scope without an agent sees every agent's entries, and can add none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from retain import canonical, clock, ids, placeholder
from retain.errors import AlreadyExists, Invalid, NotFound, TooLarge, WrongVersion
from retain.kinds import entry as rules
from retain.kinds import findable as index
from retain.kinds import finding
from retain.kinds.entry import KINDS_OF_ENTRY, MAIN_BOARD, WINDOW, Entry, EntryKind
from retain.kinds.kind import Kind, Page, Table, Who, cut, unpack
from retain.search.index import parts
from retain.section import Ask, Section
from retain.storage.database import Row, Transaction
from retain.tool import Answer, Tool

CORE_NOTE = "This is kept for good and is part of every prompt of yours."
_MOST_IN_A_PROMPT = 1000
_IN_ONE_READ = 500

# A scope sees its agent's entries and the boards that this shares, written with its user or with none.
_WITH_USER = " and (user_id is null or user_id = coalesce(:user, user_id))"
_COLUMNS = "id, agent, kind, board, content, user_id, source, version, created_at, updated_at"
_MINE = "(select board from board_members where tenant = :tenant and agent = :agent)"
_GET = "select " + _COLUMNS + " from entries where tenant = :tenant and id = :id"
_SEEN = _GET + _WITH_USER
_FIND = {False: _SEEN, True: _SEEN + " and (board is null and agent = :agent or board in " + _MINE + ")"}
_FILTER = (
    _WITH_USER
    + """ and created_at >= :since and created_at < :until and (created_at, id) < (:at, :id)
    and case when kind = 'journal' and created_at <= :fading then 1 else 0 end between :least and :most
    order by created_at desc, id desc limit :size"""
)
_PRIVATE = "select " + _COLUMNS + " from entries where tenant = :tenant and board is null and kind = coalesce(:kind, kind)"
_SHARED = "select " + _COLUMNS + " from entries where tenant = :tenant and board = coalesce(:board, board)"
_LIST = {
    (False, True): _PRIVATE + " and agent = :agent" + _FILTER,
    (False, False): _PRIVATE + _FILTER,
    (True, True): _SHARED + " and board in " + _MINE + _FILTER,
    (True, False): _SHARED + " and board is not null" + _FILTER,
}
_COUNTED = "select kind, count(*) from entries where tenant = :tenant and board is null" + _WITH_USER
_COUNTS = {True: _COUNTED + " and agent = :agent group by kind", False: _COUNTED + " group by kind"}
_INSERT = """insert into entries (tenant, id, agent, kind, board, content, tokens, user_id, source, version,
                                  created_at, updated_at)
             values (:tenant, :id, :agent, :kind, :board, :content, :tokens, :user, :source, 1, :created_at, :updated_at)
             on conflict do nothing
             returning """ + _COLUMNS  # fmt: skip
_NEWEST = """select id, agent, content, tokens, created_at from entries
             where tenant = :tenant and agent = :agent and kind = :kind and created_at > :since""" + _WITH_USER + """
             order by created_at desc, id desc limit :size"""  # fmt: skip
_ON_BOARDS = """select id, agent, content, tokens, created_at, board from entries
                where tenant = :tenant and board in """ + _MINE + _WITH_USER + """
                order by created_at desc, id desc limit :size"""  # fmt: skip
_STALE = """delete from consolidations where tenant = :tenant and status not in ('accepted', 'passed') and id in (
                select consolidation_id from consolidation_sources where tenant = :tenant and entry_id = :id)"""
_AGAIN = """delete from consolidation_sources where tenant = :tenant and entry_id = :id and consolidation_id in (
                select id from consolidations where tenant = :tenant and status = 'passed')"""


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
        return self._add(content, kind, board, self._who.source)

    def get(self, id: str) -> Entry:
        """One entry."""
        canonical.key(id, "id")
        return self._read(lambda tx: self._find(tx, id))

    def edit(self, id: str, content: str, *, if_version: int | None = None) -> Entry:
        """Put other words in an entry's place; with `if_version`, only over that version. When it fades does not change."""
        canonical.key(id, "id")
        said = parts(kept := rules.content(content, secrets=self._settings.secrets))
        if if_version is not None:
            canonical.whole(if_version, "if_version")

        def work(tx: Transaction) -> Entry:
            found = self._own(tx, id)
            if if_version not in (None, found.version):
                raise WrongVersion(what="entry", id=id, actual=found.version, expected=if_version)
            tx.run(
                """update entries set content = :content, tokens = :tokens, source = :source, version = version + 1,
                       failures = 0, updated_at = :now where tenant = :tenant and id = :id""",
                id=id,
                source=max(found.source, self._who.source, key=rules.TRUST.index),  # trusted as the least of its writers
                content=kept,
                tokens=rules.cost(kept),
            )
            tx.run(_STALE, id=id)  # what a proposal made of it is about words that are gone
            tx.run(_AGAIN, id=id)  # what was passed over with it stays so: nobody changed that
            row = tx.one(_GET, id=id) or ()
            self._home.index.replace(tx, self.name, id, index.entry(*row[:6], at=row[8], said=said))
            return _entry(row, tx.now)

        return self._write(work)

    def remove(self, id: str) -> None:
        """Forget an entry, and with it what waits to be made of it."""
        canonical.key(id, "id")

        def work(tx: Transaction) -> None:
            self._own(tx, id)
            tx.run(_STALE, id=id)
            tx.run(
                """update consolidations set status = 'undone', content = '', entry_id = null, decided_at = :now
                   where tenant = :tenant and entry_id = :id""",
                id=id,
            )
            tx.run("delete from entries where tenant = :tenant and id = :id", id=id)
            self._home.index.remove(tx, self.name, id)

        self._write(work)

    def counts(self) -> dict[str, int]:
        """How many core and journal entries there are, faded ones too."""

        def work(tx: Transaction) -> dict[str, int]:
            rows = tx.all(_COUNTS[self._who.agent is not None], agent=self._who.agent, user=self._who.user)
            return {"core": 0, "journal": 0, **{str(kind): int(count) for kind, count in rows}}

        return self._read(work)

    def prompt(self) -> str:
        """The agent's private memory as its prompt has it, oldest first; nothing where there is nothing."""
        self._agent()
        section = self._read(lambda tx: _private(tx, self._who, rules.FAR))
        return placeholder.neutral(section.write(section.pieces))

    def whiteboard(self) -> str:
        """The boards that the agent shares as its prompt has them, oldest first; nothing where there is nothing."""
        self._agent()
        section = self._read(lambda tx: _boards(tx, self._who, _MOST_IN_A_PROMPT))
        return placeholder.neutral(section.write(section.pieces))

    def share(self, board: str, agents: Sequence[str]) -> dict[str, Sequence[str]]:
        """Share a board among exactly these agents; an agent can do so with a new board, or one that it is on."""
        canonical.key(board, "board", self._settings.secrets)
        if isinstance(agents, str) or not isinstance(agents, Sequence) or not agents:
            raise Invalid(field="agents", problem="must be a list of names that is not empty")
        wanted = sorted({canonical.key(agent, "agents", self._settings.secrets) for agent in agents})

        def work(tx: Transaction) -> dict[str, Sequence[str]]:
            tx.run(
                "insert into boards (tenant, board, created_at) values (:tenant, :board, :now) on conflict do nothing",
                board=board,
            )
            tx.lock("select 1 from boards where tenant = :tenant and board = :board", board=board)
            rows = tx.all("select agent from board_members where tenant = :tenant and board = :board", board=board)
            members = {str(row[0]) for row in rows}
            if members and self._who.agent is not None and self._who.agent not in members:
                raise NotFound(what="board", id=board)
            tx.many(
                "delete from board_members where tenant = :tenant and board = :board and agent = :agent",
                [{"board": board, "agent": agent} for agent in sorted(members.difference(wanted))],
            )
            tx.many(
                """insert into board_members (tenant, board, agent, created_at)
                   values (:tenant, :board, :agent, :now) on conflict do nothing""",
                [{"board": board, "agent": agent} for agent in wanted],
            )
            return {board: wanted}

        return self._write(work)

    def boards(self) -> dict[str, Sequence[str]]:
        """The boards that the agent shares, each with the agents that share it; without an agent, every board."""

        def work(tx: Transaction) -> Sequence[Row]:
            return tx.all(
                """select board, agent from board_members where tenant = :tenant and board in (
                       select board from board_members where tenant = :tenant and agent = coalesce(:agent, agent))
                   order by board, agent""",
                agent=self._who.agent,
            )

        found: dict[str, Any] = {}
        for board, agent in self._read(work):
            found.setdefault(board, []).append(agent)
        return found

    def export(self) -> Sequence[Entry]:
        """Every core and journal entry of the agent, the oldest first, for `add_many`."""
        values = {**rules.everything(self._who.agent, self._who.user), "kind": None, "board": None, "size": rules.FAR}

        def work(tx: Transaction) -> Sequence[Entry]:
            rows = tx.all(_LIST[False, self._who.agent is not None], **values, fading=tx.now - WINDOW)
            return [_entry(row, tx.now) for row in reversed(rows)]

        return self._read(work)

    def add_many(self, entries: Sequence[Mapping[str, Any]]) -> Sequence[Entry]:
        """Bring in entries that `export` gave, with their ids and times, all or none; ones that are there already stay."""
        agent = self._agent()
        if isinstance(entries, str | bytes) or not isinstance(entries, Sequence) or not entries:
            raise Invalid(field="entries", problem="must be a list of entries that is not empty")
        if len(entries) > self._settings.max_batch:
            raise TooLarge(field="entries", size=len(entries), unit="entries", limit=self._settings.max_batch)
        secrets = self._settings.secrets
        rows = [rules.imported(one, f"entries[{n}]", agent, self._who.user, secrets) for n, one in enumerate(entries)]
        said = [parts(row["content"]) for row in rows]
        return self._write(lambda tx: [self._bring_in(tx, *one) for one in zip(rows, said, strict=True)])

    def search(
        self, query: str, *, since: datetime | None = None, until: datetime | None = None, limit: int = 10
    ) -> Sequence[Entry]:
        """The entries that are most likely wanted, by words and by meaning, best first; faded ones and boards' too."""
        found = finding.search(self._home, self._who, query, [self.name], None, since, until, None, limit)
        asked = {"agent": self._who.agent, "user": self._who.user}

        def work(tx: Transaction) -> Sequence[Entry]:
            rows = [tx.one(_FIND[self._who.agent is not None], id=hit.id, **asked) for hit in found]
            return [_entry(row, tx.now) for row in rows if row]

        return self._read(work)

    def tools(self) -> list[Tool]:
        """How an agent remembers something."""
        return rules.tools(self._save_to_journal, self._save_to_core, self._save_to_board)

    def section(self, tx: Transaction, ask: Ask) -> Section | None:
        """The agent's private memory."""
        return None if self._who.agent is None else _private(tx, self._who, _MOST_IN_A_PROMPT)

    def shared_section(self, tx: Transaction, ask: Ask) -> Section | None:
        """The boards that the agent shares: other agents' words, and so a layer of their own."""
        return None if self._who.agent is None else _boards(tx, self._who, _MOST_IN_A_PROMPT)

    def _save_to_journal(self, content: str) -> Answer:
        saved = self._said(content, "journal")
        if isinstance(saved, dict):
            return saved
        until = saved.created_at + rules.JOURNAL_WINDOW
        return {**_success(saved), "expires_around": until.date().isoformat()}

    def _save_to_core(self, content: str) -> Answer:
        saved = self._said(content, "core")
        return saved if isinstance(saved, dict) else {**_success(saved), "note": CORE_NOTE}

    def _save_to_board(self, content: str, board: str = MAIN_BOARD) -> Answer:
        try:
            saved = self._said(content, "whiteboard", board)
        except NotFound:
            shared = ", ".join(self.boards()) or "none"
            return {"error": f"You do not share a board {board!r}. The boards that you share: {shared}."}
        return saved if isinstance(saved, dict) else {**_success(saved), "board": saved.board}

    def _said(self, content: str, kind: EntryKind, board: str | None = None) -> Entry | Answer:
        """What the agent says is kept as its own, whoever the scope is for."""
        if self._who.agent is None:
            return {"error": "There is no agent here whose memory this could be: name one (X-Retain-Agent, or --agent)."}
        try:
            return self._add(content, kind, board, "agent")
        except TooLarge as error:
            return {"error": f"The content has {error.size} characters and may have {error.limit}: shorten or split it."}
        except Invalid as error:
            return {"error": f"The {error.field} {error.problem}."}

    def _add(self, content: str, kind: EntryKind, board: str | None, source: str) -> Entry:
        if kind not in KINDS_OF_ENTRY:
            raise Invalid(field="kind", problem=f"must be one of {', '.join(KINDS_OF_ENTRY)}, not {kind!r}")
        if kind != "whiteboard" and board is not None:
            raise Invalid(field="board", problem="is only for entries of the kind whiteboard")
        kept = rules.content(content, secrets=self._settings.secrets)
        where = canonical.key(MAIN_BOARD if board is None else board, "board") if kind == "whiteboard" else None
        values = rules.values(ids.uuid7(), self._agent(), kind, where, kept, self._who.user, source)
        said = parts(kept)

        def work(tx: Transaction) -> Entry:
            if where is not None and not tx.one(
                "select 1 from board_members where tenant = :tenant and board = :board and agent = :agent",
                board=where,
                agent=values["agent"],
            ):
                raise NotFound(what="board", id=where)
            row = tx.one(_INSERT, **values, created_at=tx.now, updated_at=tx.now) or ()
            self._home.index.add(tx, index.entry(*row[:6], at=row[8], said=said))
            return _entry(row, tx.now)

        return self._write(work)

    def _bring_in(self, tx: Transaction, values: Mapping[str, Any], said: Sequence[str]) -> Entry:
        """Add an entry from elsewhere, or find that it was brought in before."""
        created = tx.now if values["created_at"] is None else values["created_at"]
        if created > tx.now + clock.DAY:
            raise Invalid(field="created_at", problem="lies more than a day in the future")
        updated = max(created, values["updated_at"] or 0)
        if row := tx.one(_INSERT, **{**values, "created_at": created, "updated_at": updated}):
            self._home.index.add(tx, index.entry(*row[:6], at=row[8], said=said))
        row = row or tx.one(_GET, id=values["id"]) or ()
        if (row[1], row[2], row[4]) != (values["agent"], values["kind"], values["content"]):
            raise AlreadyExists(what="entry", id=values["id"])
        return _entry(row, tx.now)

    def _find(self, tx: Transaction, id: str) -> Entry:
        row = tx.one(_FIND[self._who.agent is not None], id=id, agent=self._who.agent, user=self._who.user)
        if row is None:
            raise NotFound(what="entry", id=id)
        return _entry(row, tx.now)

    def _own(self, tx: Transaction, id: str) -> Entry:
        """An entry that the scope may change, kept from others until the commit; a line on a board is its author's."""
        tx.lock("select 1 from entries where tenant = :tenant and id = :id", id=id)
        found = self._find(tx, id)
        if self._who.agent not in (None, found.agent):
            raise Invalid(field="id", problem=f"is a line of {found.agent}, and only its author can change it")
        return found

    def _listed(self, tx: Transaction, shared: bool, values: dict[str, Any], words: Sequence[str], size: int) -> list[Entry]:
        """Entries from a place in time back; words are looked for here, because engines do not agree on capital letters."""
        found: list[Entry] = []
        batch = _IN_ONE_READ if words else size
        while True:
            rows = tx.all(_LIST[shared, self._who.agent is not None], **values, fading=tx.now - WINDOW, size=batch)
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
            raise Invalid(field="kind", problem=f"must be one of {', '.join(KINDS_OF_ENTRY)}, not {kind!r}")
        if board is not None:
            canonical.key(board, "board")
            if kind not in (None, "whiteboard"):
                raise Invalid(field="board", problem=f"has no {kind} entries")
        if search is not None and not isinstance(search, str):
            raise Invalid(field="search", problem=f"must be text, not {type(search).__name__}")
        size = self._limit(limit)
        at, id = unpack(after, [int, str]) if after else (rules.FAR, "")
        shared = kind == "whiteboard" or board is not None
        values = {
            **rules.everything(self._who.agent, self._who.user, since, until),
            "kind": kind,
            "board": board,
            "least": int(expired is True),
            "most": int(expired is not False),
        }
        words = canonical.text(search or "", "search", self._settings.max_attributes_bytes).casefold().split()
        found = self._read(lambda tx: self._listed(tx, shared, {**values, "at": at, "id": id}, words, size + 1))
        return cut(found, size, lambda entry: [clock.from_datetime(entry.created_at, "after"), entry.id])


def _entry(row: Row, now: int) -> Entry:
    id, agent, kind, board, content, user, source, version, created, updated = row
    fades = created + WINDOW if kind == "journal" else None
    at = (clock.to_datetime(created), clock.to_datetime(updated), clock.to_datetime_or_none(fades))
    return Entry(id, agent, kind, board, content, user, source, version, *at, fades is not None and fades <= now)


def _success(saved: Entry) -> Answer:
    return {"success": True, "memory_type": saved.kind, "content": saved.content}


def _private(tx: Transaction, who: Who, most: int) -> Section:
    core = tx.all(_NEWEST, agent=who.agent, user=who.user, kind="core", since=-1, size=most)
    journal = tx.all(_NEWEST, agent=who.agent, user=who.user, kind="journal", since=tx.now - WINDOW, size=most)
    return rules.private_section(core[::-1], journal[::-1])


def _boards(tx: Transaction, who: Who, most: int) -> Section:
    return rules.shared_section(tx.all(_ON_BOARDS, agent=who.agent, user=who.user, size=most)[::-1])

"""Turns: the messages that one run of an agent added, and the context of its model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memorist.base import canonical, ids
from memorist.base.errors import NotFound
from memorist.base.parameters import Key, Number, PageSize
from memorist.base.verbs import verb
from memorist.kinds.kind import Check, Kind, Table, own_session
from memorist.kinds.page import Page, make_page, page_start
from memorist.storage.checksum import checksum
from memorist.storage.database import Row, Transaction
from memorist.storage.rows import row_mapper
from memorist.storage.tables import OF_AGENT_SESSION

_OWNED = "session_id in (select id from sessions where tenant = :tenant and user_id = :user)"
_NEWEST_TURNS = """select id, session_id, first_seq, last_seq, interaction_id, report, created_at from turns
           where tenant = :tenant and session_id = :session and last_seq < :before
           order by last_seq desc limit :size"""
_TURN_AT = """select id, session_id, first_seq, last_seq, interaction_id, report, created_at from turns
             where tenant = :tenant and session_id = :session and last_seq >= :seq order by last_seq limit 1"""
_ANSWERING_TURNS = """select id, session_id, first_seq, last_seq, interaction_id, report, created_at from turns
                where tenant = :tenant and session_id = :session and last_seq > :seq and last_seq < :before
                and exists (select 1 from messages where tenant = :tenant and session_id = :session and seq = :seq
                            and role = 'user' and chatter = 0)
                and last_seq < coalesce((
                    select seq from messages where tenant = :tenant and session_id = :session and seq > :seq
                    and role = 'user' and chatter = 0 order by seq limit 1), :before)
                order by last_seq desc limit :size"""


@dataclass(frozen=True)
class Turn:
    """One run of an agent: messages first_seq..last_seq; `report` explains its context."""

    id: str
    session: str
    first_seq: int
    last_seq: int
    interaction: str | None
    report: dict[str, Any] | None
    created_at: datetime


_turn = row_mapper(Turn)


class Turns(Kind):
    """The saved turns of sessions: why each answer was given."""

    name = "turns"
    other_writes = {"save": "add"}
    parameter_help = {
        "id": "Id of the turn.",
        "seq": "Only the turn of the message with this number; for a user message, the turns that answered it.",
    }
    tables = (
        Table("turns", order="id", owned=_OWNED, of_agent=OF_AGENT_SESSION, checked=("report",)),
    )
    checks = (
        Check(
            "a turn has its messages",
            """select 'turn ' || id from turns where tenant = :tenant and (first_seq > last_seq or last_seq > (
                   select coalesce(max(seq), turns.last_seq) from messages
                   where messages.tenant = :tenant and messages.session_id = turns.session_id))""",
        ),
    )

    @verb("GET /turns/{id}", effect="read", example="memorist turns get 0199… --json")
    def get(self, id: Key) -> Turn:
        """Return one turn by its id."""
        canonical.key(id, "id")

        rows = self._read_rows(
            lambda tx: tx.send(
                """select turns.id, session_id, turns.first_seq, last_seq, interaction_id, report, turns.created_at
                   from turns join sessions on sessions.tenant = turns.tenant and sessions.id = turns.session_id
                   where turns.tenant = :tenant and turns.id = :id and user_id = coalesce(:user, user_id)""",
                id=id,
                user=self._owner.user,
            )
        )
        if not rows:
            raise NotFound(what="turn", id=id)
        return _turn(rows[0])

    @verb("GET /turns", effect="read", example="memorist turns list trip --seq 4")
    def list(
        self,
        session: Key,
        *,
        seq: Number | None = None,
        limit: PageSize = 100,
        after: str | None = None,
    ) -> Page[Turn]:
        """Return the turns of a session, newest first; with `seq`, only those of one message.

        That is the turn that contains the message. For a user message that was saved by itself, as
        a chat does, returns the turns that answered it: those before the next user message, one
        for each agent that answered.
        """
        canonical.key(session, "session")
        if seq is not None:
            canonical.check_integer(seq, "seq", 1)
        size, (before,) = page_start(limit, after, 2**53)

        def work(tx: Transaction) -> Sequence[Row]:
            own_session(tx, self._owner, session)
            parameters = {"session": session, "before": before, "size": size + 1}
            if seq is None:
                return tx.all(_NEWEST_TURNS, **parameters)
            own = tx.one(_TURN_AT, session=session, seq=seq)
            if own is not None and own[2] <= seq:
                return [own] if own[3] < before else []
            return tx.all(_ANSWERING_TURNS, **parameters, seq=seq)

        return make_page(
            [_turn(row) for row in self._read(work, allow_replica=True)],
            size,
            lambda turn: [turn.last_seq],
        )

    def add_row(
        self,
        tx: Transaction,
        session: str,
        first: int,
        last: int,
        interaction: str | None,
        report: str | None,
    ) -> Turn:
        """Insert a turn, in the transaction that adds its messages."""
        id = ids.uuid7()
        tx.send(
            """insert into turns (tenant, id, session_id, first_seq, last_seq, interaction_id, report, created_at,
                                  checksum)
               values (:tenant, :id, :session, :first, :last, :interaction, :report, :now, :checksum)""",
            id=id,
            session=session,
            first=first,
            last=last,
            interaction=interaction,
            report=report,
            checksum=checksum(report),
        )
        return _turn((id, session, first, last, interaction, report, tx.now))

    def of_messages(self, tx: Transaction, session: str, last: int) -> Turn:
        """Return the turn that ended with a message."""
        row = tx.one(
            """select id, session_id, first_seq, last_seq, interaction_id, report, created_at from turns
               where tenant = :tenant and session_id = :session and last_seq = :last""",
            session=session,
            last=last,
        )
        if row is None:
            raise NotFound(what="turn that ended with message", id=last)
        return _turn(row)

    def of_key(self, tx: Transaction, session: str, key: str) -> Turn | None:
        """Return the turn that was saved with an idempotency key; None if there is none."""
        own_session(tx, self._owner, session)
        row = tx.one(
            """select turns.id, turns.session_id, turns.first_seq, turns.last_seq, interaction_id, report, turns.created_at
               from message_keys join turns on turns.tenant = message_keys.tenant
                   and turns.session_id = message_keys.session_id and turns.last_seq = message_keys.last_seq
               where message_keys.tenant = :tenant and message_keys.session_id = :session and key = :key""",
            session=session,
            key=key,
        )
        return None if row is None else _turn(row)

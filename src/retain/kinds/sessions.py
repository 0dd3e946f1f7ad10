"""Sessions: conversation threads, and which one is active for a user and an agent."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from retain.base import canonical, clock, ids, limits
from retain.base.errors import AlreadyExists, Invalid, NotFound
from retain.kinds.kind import Check, Kind, Page, Table, decode_cursor, make_page, own_session
from retain.storage.database import Row, Transaction

_IN_ONE_READ = 500
_AT_ONCE = 100


@dataclass(frozen=True)
class Session:
    """A conversation thread; its messages are numbered first_seq..last_seq without a gap."""

    id: str
    user: str
    agent: str
    label: str
    attributes: dict[str, Any]
    summary: str
    summarized_count: int
    first_seq: int
    last_seq: int
    created_at: datetime
    updated_at: datetime

    @property
    def count(self) -> int:
        """How many messages there are to read."""
        return self.last_seq - self.first_seq + 1


def _session(row: Row) -> Session:
    id, user, agent, label, attributes, summary, summarized, first, last, created, updated = row
    return Session(
        id,
        user,
        agent,
        label,
        json.loads(attributes),
        summary,
        summarized,
        first,
        last,
        clock.to_datetime(created),
        clock.to_datetime(updated),
    )


def _place(session: Session) -> list[Any]:
    """Where a session stands in the list."""
    return [clock.from_datetime(session.updated_at, "after"), session.id]


def held(sessions: Sessions, id: str) -> Session:
    """A session that nobody else changes before the transaction is over: for `Scope.transaction`, to write what is read."""
    canonical.key(id, "id")

    def work(tx: Transaction) -> Session:
        tx.lock_rows("select 1 from sessions where tenant = :tenant and id = :id", id=id)
        return sessions._get(tx, id)

    return sessions._write("hold", work, row={"id": id})


def _has(text: str, words: Sequence[str]) -> bool:
    folded = text.casefold()
    return all(word in folded for word in words)


def _ids(ids: Sequence[str]) -> dict[str, str | None]:
    """Up to `_AT_ONCE` ids as the parameters of a statement."""
    return dict.fromkeys(_NAMED) | dict(zip(_NAMED, ids, strict=False))


class Sessions(Kind):
    """The sessions of a tenant, of one user where the scope has one."""

    name = "sessions"
    tables = (
        Table("sessions", order="id", owned="user_id = :user"),
        Table("active_sessions", order="user_id, agent", owned="user_id = :user"),
    )
    checks = (
        Check(
            "an active session is its user's and agent's own",
            """select active.user_id || ' / ' || active.agent || ' has active session ' || active.active_session_id
               from active_sessions active left join sessions on sessions.tenant = active.tenant
               and sessions.id = active.active_session_id
               where active.tenant = :tenant and (
                   sessions.id is null or sessions.user_id <> active.user_id or sessions.agent <> active.agent)""",
        ),
        Check(
            "a summary covers no more messages than there are",
            """select 'session ' || id from sessions
               where tenant = :tenant and (summarized_count < 0 or summarized_count > (
                   select coalesce(max(seq), sessions.first_seq - 1) from messages
                   where messages.tenant = :tenant and messages.session_id = sessions.id))""",
        ),
    )

    def add(
        self, id: str | None = None, *, label: str = "", attributes: Mapping[str, Any] | None = None
    ) -> Session:
        """Start a session and make it the active one; `id` may be the client's own."""
        user, agent = self._user(), self._agent()
        new = ids.uuid7() if id is None else canonical.name(id, "id", self._settings.secrets)
        values = self._values(
            canonical.text(label, "label", 1000), {} if attributes is None else attributes
        )

        def work(tx: Transaction) -> Session:
            if not self._insert(tx, new, user, agent, values):
                raise AlreadyExists(what="session", id=new)
            self._activate(tx, new, user, agent)
            return self._get(tx, new)

        return self._write("add", work, row={"id": new})

    def resume(self, stored_id: str | None = None) -> Session:
        """The session to go on with: the client's own if it is the active one, else the active one, else a new one."""
        user, agent = (
            self._user(),
            self._agent(),
        )  # an id that is not the active session's is stale, and dropped: C6

        def work(tx: Transaction) -> Session:
            active = self._active_id(tx, user, agent)
            if active is None:
                active = ids.uuid7()
                self._insert(tx, active, user, agent, self._values("", {}))
                if not self._activate(
                    tx, active, user, agent, only_if_none=True
                ):  # another device was faster
                    tx.run("delete from sessions where tenant = :tenant and id = :id", id=active)
                    active = self._active_id(tx, user, agent)
            else:
                self._activate(tx, active, user, agent)
            return self._get(tx, active or "")

        return self._write("resume", work, row=lambda session: {"id": session.id})

    def active(self) -> Session:
        """The active session of the scope's user and agent."""
        user, agent = self._user(), self._agent()

        def work(tx: Transaction) -> Session:
            found = self._active_id(tx, user, agent)
            if found is None:
                raise NotFound(what="active session", id=f"{user} / {agent}")
            return self._get(tx, found)

        return self._read(work)

    def activate(self, id: str) -> Session:
        """Go back to a session: make it the active one of its user and agent."""
        canonical.key(id, "id")

        def work(tx: Transaction) -> Session:
            session = self._get(tx, id)
            self._activate(tx, id, session.user, session.agent)
            return session

        return self._write("activate", work, row={"id": id})

    def get(self, id: str) -> Session:
        """One session by its id."""
        canonical.key(id, "id")
        return self._read(lambda tx: self._get(tx, id))

    def list(
        self,
        *,
        search: str | None = None,
        spoken: bool = False,
        limit: int = 100,
        after: str | None = None,
    ) -> Page[Session]:
        """Sessions, the one that was used last first; with `search`, those in whose label or id all its words are.

        With `spoken`, only those that have messages.
        """
        size = self._limit(limit)
        at, id = decode_cursor(after, [int, str]) if after else (2**62, "")
        words = canonical.words(search, limits.MAX_ATTRIBUTES_BYTES)
        floor, page = (
            (_FLOOR, _PAGE) if self._owner.user is None else (_FLOOR_OF_USER, _PAGE_OF_USER)
        )
        owner = {
            "agent": self._owner.agent,
            **({} if self._owner.user is None else {"user": self._owner.user}),
        }
        least = 1 if spoken else 0

        def work(tx: Transaction) -> Sequence[Session]:
            if words:
                return self._searched(tx, owner, words, least, at, id, size + 1)
            enough = tx.one(floor, **owner, least=least, at=at - clock.MINUTE - 1, size=size) or (
                0,
            )
            rows = tx.all(
                page,
                **owner,
                least=least,
                floor=enough[0] - clock.MINUTE,
                at=at,
                id=id,
                size=size + 1,
            )
            return [_session(row) for row in rows]

        return make_page([*self._read(work)], size, _place)

    def _searched(
        self,
        tx: Transaction,
        owner: Mapping[str, Any],
        words: Sequence[str],
        least: int,
        at: int,
        id: str,
        size: int,
    ) -> Sequence[Session]:
        """Sessions from a place back that have the words; looked for here, because engines do not agree on capitals."""
        found: list[Session] = []
        place, floor = (at, id), 0
        while True:
            rows = tx.all(
                _NAMES if "user" not in owner else _NAMES_OF_USER,
                **owner,
                at=place[0],
                id=place[1],
                size=_IN_ONE_READ,
            )
            named = [
                (key, touched) for key, label, touched in rows if _has(f"{label}\n{key}", words)
            ]
            for start in range(0, len(named), _AT_ONCE):
                some = named[start : start + _AT_ONCE]
                if some[0][1] < floor:
                    break
                sessions = [
                    _session(row)
                    for row in tx.all(_SOME, least=least, **_ids([key for key, _ in some]))
                ]
                found += [one for one in sessions if _place(one) < [at, id]]
                if (
                    len(found) >= size
                ):  # enough, but for those whose last message is up to a minute later than they say
                    floor = floor or some[-1][1] - clock.MINUTE
            if len(rows) < _IN_ONE_READ or rows[-1][2] < floor:
                return sorted(found, key=_place, reverse=True)[:size]
            place = (rows[-1][2], rows[-1][0])

    def beginnings(self, tx: Transaction, ids: Sequence[str]) -> dict[str, str]:
        """How sessions began, as JSON: the first that the user says, if that is among the first messages."""
        found: dict[str, str] = {}
        for start in range(0, len(ids), _AT_ONCE):
            some = tx.all(_BEGINNINGS, **_ids(ids[start : start + _AT_ONCE]))
            found |= {id: content for id, content in some if content is not None}
        return found

    def edit(
        self, id: str, *, label: str | None = None, attributes: Mapping[str, Any] | None = None
    ) -> Session:
        """Change the label or the attributes of a session."""
        canonical.key(id, "id")
        values = self._values(label, attributes)

        def work(tx: Transaction) -> Session:
            own_session(tx, self._owner, id)
            tx.run(
                """update sessions set label = coalesce(:label, label), attributes = coalesce(:attributes, attributes),
                       touched_at = :now
                   where tenant = :tenant and id = :id""",
                id=id,
                **values,
            )
            return self._get(tx, id)

        return self._write("edit", work, row={"id": id})

    def remove(self, id: str) -> None:
        """Delete a session with everything in it, at once."""
        canonical.key(id, "id")

        def work(tx: Transaction) -> list[str]:
            own_session(tx, self._owner, id)
            contents = tx.all(
                "select distinct user_id, digest from refs where tenant = :tenant and session_id = :id",
                id=id,
            )
            tx.run("delete from sessions where tenant = :tenant and id = :id", id=id)
            self._services.index.remove_session(tx, id)
            return self._services.blobs.release(tx, [(user, digest) for user, digest in contents])

        self._services.blobs.discard(self._write("remove", work, row={"id": id}, long=True))

    def _get(self, tx: Transaction, id: str) -> Session:
        row = tx.one(
            _ONE,
            id=id,
            user=self._owner.user,
        )
        if row is None:
            raise NotFound(what="session", id=id)
        return _session(row)

    def _insert(
        self, tx: Transaction, id: str, user: str, agent: str, values: Mapping[str, Any]
    ) -> int:
        return tx.run(
            """insert into sessions (tenant, id, user_id, agent, label, attributes, summary, summarized_count,
                                     first_seq, first_at, touched_at, created_at)
               values (:tenant, :id, :user, :agent, :label, :attributes, '', 0, 1, :now, :now, :now)
               on conflict do nothing""",
            id=id,
            user=user,
            agent=agent,
            **values,
        )

    def _active_id(self, tx: Transaction, user: str, agent: str) -> str | None:
        row = tx.one(
            """select active_session_id from active_sessions
               where tenant = :tenant and user_id = :user and agent = :agent""",
            user=user,
            agent=agent,
        )
        return row[0] if row else None

    def _activate(
        self, tx: Transaction, id: str, user: str, agent: str, *, only_if_none: bool = False
    ) -> int:
        insert = """insert into active_sessions (tenant, user_id, agent, active_session_id, last_active_at, created_at)
                    values (:tenant, :user, :agent, :id, :now, :now) on conflict do nothing"""
        upsert = """insert into active_sessions (tenant, user_id, agent, active_session_id, last_active_at, created_at)
                    values (:tenant, :user, :agent, :id, :now, :now)
                    on conflict (tenant, user_id, agent) do update
                    set active_session_id = excluded.active_session_id, last_active_at = excluded.last_active_at"""
        return tx.run(insert if only_if_none else upsert, id=id, user=user, agent=agent)

    def _values(
        self, label: str | None, attributes: Mapping[str, Any] | None
    ) -> dict[str, str | None]:
        most, secrets = limits.MAX_ATTRIBUTES_BYTES, self._settings.secrets
        if attributes is not None and not isinstance(attributes, Mapping | canonical.JsonText):
            raise Invalid(field="attributes", problem="must be a JSON object")
        written = (
            None if attributes is None else canonical.dump(attributes, "attributes", most, secrets)
        )
        if written is not None and not written.lstrip().startswith("{"):
            raise Invalid(field="attributes", problem="must be a JSON object")
        return {
            "label": None if label is None else canonical.text(label, "label", 1000, secrets),
            "attributes": written,
        }


# A session with the number and the moment of its last message. The table itself knows its last activity exact to a minute,
# so a page reads a minute more at each end and sorts what it read; all parts are constants, joined at import.
_FIELDS = """select id, user_id, agent, label, attributes, summary, summarized_count, first_seq,
                    coalesce(last_seq, first_seq - 1), created_at, updated_at from ("""
_SEEN = """
    select *, case when last_at > touched_at and last_at <= touched_at + 60000000 then last_at else touched_at end
              as updated_at
    from (select sessions.*,
                 (select seq from messages where messages.tenant = :tenant and session_id = sessions.id
                  order by seq desc limit 1) as last_seq,
                 (select messages.created_at from messages where messages.tenant = :tenant and session_id = sessions.id
                  order by seq desc limit 1) as last_at
          from sessions where sessions.tenant = :tenant """
_ONE = _FIELDS + _SEEN + "and id = :id and user_id = coalesce(:user, user_id)) found) seen"
# What was removed (2) is no message.
_SPOKEN = """and (:least < 1 or exists (
             select 1 from messages where messages.tenant = :tenant and session_id = sessions.id and chatter < 2)) """
_RANGE = "and agent = coalesce(:agent, agent) and touched_at <= :at " + _SPOKEN
_NTH = "order by touched_at desc limit 1 offset :size"
_FLOOR = "select touched_at from sessions where tenant = :tenant " + _RANGE + _NTH
_FLOOR_OF_USER = (
    "select touched_at from sessions where tenant = :tenant and user_id = :user " + _RANGE + _NTH
)
_BY_NAME = """and agent = coalesce(:agent, agent) and (touched_at, id) < (:at, :id)
              order by touched_at desc, id desc limit :size"""
_NAMES = "select id, label, touched_at from sessions where tenant = :tenant " + _BY_NAME
_NAMES_OF_USER = (
    "select id, label, touched_at from sessions where tenant = :tenant and user_id = :user "
    + _BY_NAME
)
_CUT = ") found) seen where (updated_at, id) < (:at, :id) order by updated_at desc, id desc limit :size"
_PAGE = _FIELDS + _SEEN + _RANGE + "and touched_at >= :floor" + _CUT
_PAGE_OF_USER = (
    _FIELDS + _SEEN + "and user_id = :user " + _RANGE + "and touched_at >= :floor" + _CUT
)
_NAMED = [
    f"id_{chr(97 + place // 26)}{chr(97 + place % 26)}" for place in range(_AT_ONCE)
]  # parameters have letters alone
_SOME = _FIELDS + _SEEN + _SPOKEN + "and id in (:" + ", :".join(_NAMED) + ")) found) seen"
_BEGINNINGS = (
    """select id, (select content from messages where messages.tenant = :tenant and session_id = sessions.id
                   and role = 'user' and chatter < 2 and seq < first_seq + 20 order by seq limit 1)
       from sessions where tenant = :tenant and id in (:"""
    + ", :".join(_NAMED)
    + ")"
)

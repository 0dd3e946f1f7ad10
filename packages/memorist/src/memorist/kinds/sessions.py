"""Sessions: conversation threads, and the active one of each user and agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memorist.base import canonical, clock, ids, limits
from memorist.base.errors import AlreadyExists, Invalid, NotFound
from memorist.base.parameters import Key, PageSize
from memorist.base.verbs import verb
from memorist.kinds.facts.changes import ALL_MESSAGES, remove_evidence
from memorist.kinds.indexing import marks_of_session
from memorist.kinds.kind import Check, Kind, Table, own_session
from memorist.kinds.page import Page, make_page, page_start
from memorist.storage.checksum import checksum
from memorist.storage.damage import changed_checksum
from memorist.storage.database import Transaction
from memorist.storage.rows import row_mapper
from memorist.storage.tables import OF_AGENT_SESSION

_MAX_ROWS_PER_READ = 500
_MAX_IDS_PER_STATEMENT = 100


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
        """The number of messages."""
        return self.last_seq - self.first_seq + 1


@dataclass(frozen=True)
class ActiveSession(Session):
    """The active session of a user and an agent."""

    last_active_at: (
        datetime  # when it was made active, resumed or last written to; exact to a minute
    )


_session = row_mapper(Session)


def _place(session: Session) -> list[Any]:
    """Return the position of a session in the list, for cursors and sorting."""
    return [clock.from_datetime(session.updated_at, "after"), session.id]


def get_locked(sessions: Sessions, id: str) -> Session:
    """Return a session, locked until the transaction ends.

    Use it inside `Scope.transaction` to read a session and then write it.
    """
    canonical.key(id, "id")

    def work(tx: Transaction) -> Session:
        tx.lock_rows("select 1 from sessions where tenant = :tenant and id = :id", id=id)
        return sessions._get(tx, id)

    return sessions._write("hold", work, row={"id": id})


def _has(text: str, words: Sequence[str]) -> bool:
    folded = text.casefold()
    return all(word in folded for word in words)


def _ids(ids: Sequence[str]) -> dict[str, str | None]:
    """Return up to `_MAX_IDS_PER_STATEMENT` ids as the parameters of a statement."""
    return dict.fromkeys(_ID_PARAMETERS) | dict(zip(_ID_PARAMETERS, ids, strict=False))


class Sessions(Kind):
    """The sessions of a user, or of the tenant if no user is named."""

    name = "sessions"
    other_writes = {"hold": "read"}
    is_store = True
    parameter_help = {
        "id": "Id of the session.",
        "search": "Only sessions whose label or id contains all these words.",
    }
    tables = (
        # The summary repeats that of the newest row of summaries, which another check compares.
        Table(
            "sessions",
            order="id",
            owned="user_id = :user",
            of_agent="agent = :agent",
            local={"fresh_from": "null"},
            checked=("label", "attributes"),
        ),
        Table(
            "active_sessions",
            order="user_id, agent",
            owned="user_id = :user",
            of_agent="agent = :agent",
        ),
        # Before messages, so that learning does not read again what an import brings.
        Table(
            "fact_positions",
            order="session_id",
            owned="session_id in (select id from sessions where tenant = :tenant and user_id = :user)",
            of_agent=OF_AGENT_SESSION,
            local={"tries": "0", "retry_at": "null", "error": "null"},
            advancing=("seq",),
        ),
    )
    checks = (
        Check(
            "an active session belongs to its user and agent",
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

    @verb(
        "POST /sessions",
        effect="add",
        example="memorist sessions add trip --user ada --agent scout --label 'A trip'",
    )
    def add(
        self, id: Key | None = None, *, label: str = "", attributes: Mapping[str, Any] | None = None
    ) -> Session:
        """Start a session and make it the active session; a client may choose the `id`."""
        user = self._user()
        agent = self._agent()
        session_id = ids.uuid7() if id is None else canonical.name(id, "id", self._settings.masking)
        values = self._values(
            canonical.text(label, "label", 1000), {} if attributes is None else attributes
        )

        def work(tx: Transaction) -> Session:
            if not self._insert(tx, session_id, user, agent, values):
                raise AlreadyExists(what="session", id=session_id)
            self._activate(tx, session_id, user, agent)
            return self._get(tx, session_id)

        return self._write("add", work, row={"id": session_id})

    @verb(
        "POST /sessions/resume",
        effect="change",
        routine=True,
        example="memorist sessions resume --user ada --agent scout",
    )
    def resume(self, stored_id: str | None = None) -> Session:
        """Return the active session of the scope's user and agent, or a new session.

        A `stored_id` that is not the active session's is stale and is ignored.
        """
        user = self._user()
        agent = self._agent()

        def work(tx: Transaction) -> Session:
            active = self._active_id(tx, user, agent)
            if active is None:
                active = ids.uuid7()
                self._insert(tx, active, user, agent, self._values("", {}))
                # Another device may have started a session in the meantime: then use that session.
                if not self._activate_if_none(tx, active, user, agent):
                    tx.send("delete from sessions where tenant = :tenant and id = :id", id=active)
                    active = self._active_id(tx, user, agent)
            else:
                self._activate(tx, active, user, agent)
            return self._get(tx, active or "")

        return self._write("resume", work, row=lambda session: {"id": session.id})

    @verb(
        "GET /sessions/active",
        effect="read",
        example="memorist sessions active --user ada --agent scout",
    )
    def active(self) -> ActiveSession:
        """Return the active session of the scope's user and agent."""
        user = self._user()
        agent = self._agent()

        def work(tx: Transaction) -> ActiveSession:
            row = tx.one(
                """select active_session_id, last_active_at from active_sessions
                   where tenant = :tenant and user_id = :user and agent = :agent""",
                user=user,
                agent=agent,
            )
            if row is None:
                raise NotFound(what="active session", id=f"{user} / {agent}")
            id, last_active = row
            session = self._get(tx, id)
            return ActiveSession(**vars(session), last_active_at=clock.to_datetime(last_active))

        return self._read(work)

    @verb(
        "POST /sessions/{id:path}/activate",
        effect="change",
        example="memorist sessions activate trip",
    )
    def activate(self, id: Key) -> Session:
        """Make a session the active session of its user and agent."""
        canonical.key(id, "id")

        def work(tx: Transaction) -> Session:
            session = self._get(tx, id)
            self._activate(tx, id, session.user, session.agent)
            return session

        return self._write("activate", work, row={"id": id})

    @verb("GET /sessions/{id:path}", effect="read", example="memorist sessions get trip --json")
    def get(self, id: Key) -> Session:
        """Return one session by its id."""
        canonical.key(id, "id")
        return self._read(lambda tx: self._get(tx, id))

    @verb(
        "GET /sessions", effect="read", example="memorist sessions list --user ada --search lisbon"
    )
    def list(
        self,
        *,
        search: str | None = None,
        spoken: bool = False,
        limit: PageSize = 100,
        after: str | None = None,
    ) -> Page[Session]:
        """Return sessions, most recently used first.

        With `search`, only sessions whose label or id contains all its words. With `spoken`, only
        sessions that have messages.
        """
        size, (at, id) = page_start(limit, after, 2**62, "")
        words = canonical.words(search, limits.MAX_ATTRIBUTES_BYTES)
        floor, page = (
            (_FLOOR, _PAGE) if self._owner.user is None else (_FLOOR_OF_USER, _PAGE_OF_USER)
        )
        owner = self._owner_values()
        min_messages = 1 if spoken else 0

        def work(tx: Transaction) -> Sequence[Session]:
            if words:
                return self._searched(tx, words, min_messages, (at, id), size + 1)
            floor_row = tx.one(
                floor, **owner, min_messages=min_messages, at=at - clock.MINUTE - 1, size=size
            ) or (0,)
            rows = tx.all(
                page,
                **owner,
                min_messages=min_messages,
                floor=floor_row[0] - clock.MINUTE,
                at=at,
                id=id,
                size=size + 1,
            )
            return [_session(row) for row in rows]

        return make_page([*self._read(work, allow_replica=True)], size, _place)

    def _owner_values(self) -> dict[str, str | None]:
        """Return the agent, and the user if the scope has one, as values of statements."""
        values = {"agent": self._owner.agent}
        return values if self._owner.user is None else {**values, "user": self._owner.user}

    def _searched(
        self,
        tx: Transaction,
        words: Sequence[str],
        min_messages: int,
        before: tuple[int, str],
        size: int,
    ) -> Sequence[Session]:
        """Return the sessions before a position whose label or id contains the words.

        Compares in Python, because the engines fold case differently.
        """
        owner = self._owner_values()
        matching: list[Session] = []
        place = before
        floor = 0
        while True:
            rows = tx.all(
                _NAMES if "user" not in owner else _NAMES_OF_USER,
                **owner,
                at=place[0],
                id=place[1],
                size=_MAX_ROWS_PER_READ,
            )
            matches = [
                (key, touched) for key, label, touched in rows if _has(f"{label}\n{key}", words)
            ]
            for start in range(0, len(matches), _MAX_IDS_PER_STATEMENT):
                batch = matches[start : start + _MAX_IDS_PER_STATEMENT]
                if batch[0][1] < floor:
                    break
                sessions = [
                    _session(row)
                    for row in tx.all(
                        _SESSIONS_BY_ID,
                        min_messages=min_messages,
                        **_ids([key for key, _ in batch]),
                    )
                ]
                matching += [session for session in sessions if _place(session) < [*before]]
                if len(matching) >= size:
                    # Read one more minute: a last message may be that much newer than `touched_at`.
                    floor = floor or batch[-1][1] - clock.MINUTE
            if len(rows) < _MAX_ROWS_PER_READ or rows[-1][2] < floor:
                return sorted(matching, key=_place, reverse=True)[:size]
            place = (rows[-1][2], rows[-1][0])

    def beginnings(self, tx: Transaction, ids: Sequence[str]) -> dict[str, str]:
        """Return each session's first user message, as JSON, if it is among the first 20."""
        contents: dict[str, str] = {}
        for start in range(0, len(ids), _MAX_IDS_PER_STATEMENT):
            rows = tx.all(_BEGINNINGS, **_ids(ids[start : start + _MAX_IDS_PER_STATEMENT]))
            contents |= {id: content for id, content in rows if content is not None}
        return contents

    def last_message_times(self, tx: Transaction, ids: Sequence[str]) -> dict[str, int]:
        """Return the time of each session's last message, if it has any."""
        times: dict[str, int] = {}
        for start in range(0, len(ids), _MAX_IDS_PER_STATEMENT):
            rows = tx.all(_LAST_MESSAGE_TIMES, **_ids(ids[start : start + _MAX_IDS_PER_STATEMENT]))
            times |= {id: at for id, at in rows if at is not None}
        return times

    @verb(
        "PATCH /sessions/{id:path}",
        effect="change",
        example="""memorist sessions edit trip --label 'Lisbon' --attributes '{"pinned": true}'""",
    )
    def edit(
        self, id: Key, *, label: str | None = None, attributes: Mapping[str, Any] | None = None
    ) -> Session:
        """Change the label or the attributes of a session."""
        canonical.key(id, "id")
        values = self._values(label, attributes)
        changed = {name: text for name, text in values.items() if text is not None}

        def work(tx: Transaction) -> Session:
            own_session(tx, self._owner, id)
            tx.lock_rows("select 1 from sessions where tenant = :tenant and id = :id", id=id)
            tx.send(
                """update sessions set label = coalesce(:label, label), attributes = coalesce(:attributes, attributes),
                       touched_at = :now, checksum = :checksum
                   where tenant = :tenant and id = :id""",
                id=id,
                **values,
                checksum=changed_checksum(tx, self.tables[0], {"id": id}, changed),
            )
            return self._get(tx, id)

        return self._write("edit", work, row={"id": id})

    @verb("DELETE /sessions/{id:path}", effect="remove", example="memorist sessions remove trip")
    def remove(self, id: Key) -> None:
        """Delete a session and everything in it."""
        canonical.key(id, "id")

        def work(tx: Transaction) -> list[str]:
            own_session(tx, self._owner, id)
            tx.lock_rows("select 1 from sessions where tenant = :tenant and id = :id", id=id)
            marks = marks_of_session(tx, id)
            contents = tx.all(
                "select distinct user_id, digest from refs where tenant = :tenant and session_id = :id",
                id=id,
            )
            remove_evidence(tx, self._services.index, id, 1, ALL_MESSAGES)
            tx.send("delete from sessions where tenant = :tenant and id = :id", id=id)
            self._services.index.mark(tx, marks)
            return self._services.blobs.release(tx, [(user, digest) for user, digest in contents])

        self._services.blobs.discard(self._write("remove", work, row={"id": id}, long=True))

    def _get(self, tx: Transaction, id: str) -> Session:
        row = tx.one(
            _SESSION,
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
                                     first_seq, first_at, touched_at, created_at, checksum)
               values (:tenant, :id, :user, :agent, :label, :attributes, '', 0, 1, :now, :now, :now, :checksum)
               on conflict do nothing""",
            id=id,
            user=user,
            agent=agent,
            **values,
            checksum=checksum(values["label"], values["attributes"]),
        )

    def _active_id(self, tx: Transaction, user: str, agent: str) -> str | None:
        row = tx.one(
            """select active_session_id from active_sessions
               where tenant = :tenant and user_id = :user and agent = :agent""",
            user=user,
            agent=agent,
        )
        return row[0] if row else None

    def _activate(self, tx: Transaction, id: str, user: str, agent: str) -> None:
        tx.send(
            """insert into active_sessions (tenant, user_id, agent, active_session_id, last_active_at, created_at)
               values (:tenant, :user, :agent, :id, :now, :now)
               on conflict (tenant, user_id, agent) do update
               set active_session_id = excluded.active_session_id, last_active_at = excluded.last_active_at""",
            id=id,
            user=user,
            agent=agent,
        )

    def _activate_if_none(self, tx: Transaction, id: str, user: str, agent: str) -> bool:
        """Make a session the active one; return False if another one is active."""
        activated = tx.run(
            """insert into active_sessions (tenant, user_id, agent, active_session_id, last_active_at, created_at)
               values (:tenant, :user, :agent, :id, :now, :now) on conflict do nothing""",
            id=id,
            user=user,
            agent=agent,
        )
        return activated > 0

    def _values(
        self, label: str | None, attributes: Mapping[str, Any] | None
    ) -> dict[str, str | None]:
        max_bytes = limits.MAX_ATTRIBUTES_BYTES
        policy = self._settings.masking
        if attributes is not None and not isinstance(attributes, Mapping | canonical.JsonText):
            raise Invalid(field="attributes", problem="must be a JSON object")
        raw = (
            None
            if attributes is None
            else canonical.dump(attributes, "attributes", max_bytes, policy)
        )
        if raw is not None and not raw.lstrip().startswith("{"):
            raise Invalid(field="attributes", problem="must be a JSON object")
        return {
            "label": None if label is None else canonical.text(label, "label", 1000, policy),
            "attributes": raw,
        }


# A session with the number and the time of its last message. `touched_at` is exact to a minute, so
# a page reads a minute more at each end and sorts. All parts are constants, joined at import.
_FIELDS = """select id, user_id, agent, label, attributes, summary, summarized_count, first_seq,
                    coalesce(last_seq, first_seq - 1), created_at, updated_at from ("""
_WITH_LAST_MESSAGE = """
    select *, case when last_at > touched_at and last_at <= touched_at + 60000000 then last_at else touched_at end
              as updated_at
    from (select sessions.*,
                 (select seq from messages where messages.tenant = :tenant and session_id = sessions.id
                  order by seq desc limit 1) as last_seq,
                 (select messages.created_at from messages where messages.tenant = :tenant and session_id = sessions.id
                  order by seq desc limit 1) as last_at
          from sessions where sessions.tenant = :tenant """
_SESSION = (
    _FIELDS
    + _WITH_LAST_MESSAGE
    + "and id = :id and user_id = coalesce(:user, user_id)) found) seen"
)
# Removed messages (`chatter` 2) are not counted.
_WITH_MESSAGES = """and (:min_messages < 1 or exists (
             select 1 from messages where messages.tenant = :tenant and session_id = sessions.id and chatter < 2)) """
_RANGE = "and agent = coalesce(:agent, agent) and touched_at <= :at " + _WITH_MESSAGES
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
_BEFORE_CURSOR = ") found) seen where (updated_at, id) < (:at, :id) order by updated_at desc, id desc limit :size"
_PAGE = _FIELDS + _WITH_LAST_MESSAGE + _RANGE + "and touched_at >= :floor" + _BEFORE_CURSOR
_PAGE_OF_USER = (
    _FIELDS
    + _WITH_LAST_MESSAGE
    + "and user_id = :user "
    + _RANGE
    + "and touched_at >= :floor"
    + _BEFORE_CURSOR
)
_ID_PARAMETERS = [
    f"id_{chr(97 + place // 26)}{chr(97 + place % 26)}" for place in range(_MAX_IDS_PER_STATEMENT)
]  # parameter names have only letters
_SESSIONS_BY_ID = (
    _FIELDS
    + _WITH_LAST_MESSAGE
    + _WITH_MESSAGES
    + "and id in (:"
    + ", :".join(_ID_PARAMETERS)
    + ")) found) seen"
)
_BEGINNINGS = (
    """select id, (select content from messages where messages.tenant = :tenant and session_id = sessions.id
                   and role = 'user' and chatter < 2 and seq < first_seq + 20 order by seq limit 1)
       from sessions where tenant = :tenant and id in (:"""
    + ", :".join(_ID_PARAMETERS)
    + ")"
)
_LAST_MESSAGE_TIMES = (
    """select id, (select created_at from messages where messages.tenant = :tenant and session_id = sessions.id
                   order by seq desc limit 1)
       from sessions where tenant = :tenant and id in (:"""
    + ", :".join(_ID_PARAMETERS)
    + ")"
)

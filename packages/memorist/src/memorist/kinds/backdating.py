"""Give imported records their original times. Only imports use this."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from memorist.base import clock
from memorist.base.errors import Conflict
from memorist.kinds.indexing import index_id
from memorist.kinds.interactions import Interactions, Usage, checked
from memorist.kinds.items import Items
from memorist.kinds.items.item import area_of, is_searchable, join_names
from memorist.kinds.items.item import mark as mark_of_item
from memorist.kinds.notes import Notes
from memorist.kinds.refs import NewReference, Ref, Refs
from memorist.kinds.refs.reference import COLUMNS
from memorist.kinds.refs.reference import mark as mark_of_reference
from memorist.kinds.sessions import Sessions
from memorist.kinds.state import State
from memorist.search.search_document import IndexMark, owner_of
from memorist.storage.damage import changed_checksum
from memorist.storage.database import Transaction


@dataclass(frozen=True)
class RecordTimes:
    """The original times of a record, in microseconds."""

    created: int
    updated: int
    expires: int | None = None

    @classmethod
    def of(
        cls, created: datetime, updated: datetime | None = None, expires: datetime | None = None
    ) -> RecordTimes:
        """Return the times; a record is not older when it was updated than when it was created."""
        first = clock.from_datetime(created, "created_at")
        last = first if updated is None else clock.from_datetime(updated, "updated_at")
        end = None if expires is None else clock.from_datetime(expires, "expires_at")
        return cls(first, max(first, last), end)


def backdate_session(sessions: Sessions, id: str, times: RecordTimes) -> None:
    """Set when a session was created and last used."""

    def work(tx: Transaction) -> None:
        changed = tx.run(
            """update sessions set created_at = :created, touched_at = :updated
               where tenant = :tenant and id = :id and user_id = :user""",
            id=id,
            user=sessions._owner.user,
            **vars(times),
        )
        if changed:  # jobs look for new activity only
            tx.send(
                """insert into due_sessions (tenant, session_id, retry_at)
                   values (:tenant, :id, :now)
                   on conflict (tenant, session_id) do update set retry_at = excluded.retry_at""",
                id=id,
            )
            tx.send(
                """insert into fact_positions (tenant, session_id, seq, tries, retry_at)
                   values (:tenant, :id, 0, 0, :now)
                   on conflict (tenant, session_id) do update set retry_at = excluded.retry_at""",
                id=id,
            )

    sessions._write("edit", work, row={"id": id})


def backdate_active_session(sessions: Sessions, id: str, updated: datetime) -> None:
    """Set the time of the last activity of an active session."""
    sessions._write(
        "edit",
        lambda tx: tx.run(
            """update active_sessions set created_at = :updated, last_active_at = :updated
               where tenant = :tenant and user_id = :user and agent = :agent
               and active_session_id = :id""",
            user=sessions._owner.user,
            agent=sessions._owner.agent,
            id=id,
            updated=clock.from_datetime(updated, "updated_at"),
        ),
        row={"id": id},
    )


def deactivate_session(sessions: Sessions, id: str) -> None:
    """Make a session inactive."""
    sessions._write(
        "edit",
        lambda tx: tx.run(
            """delete from active_sessions
               where tenant = :tenant and user_id = :user and agent = :agent
               and active_session_id = :id""",
            user=sessions._owner.user,
            agent=sessions._owner.agent,
            id=id,
        ),
        row={"id": id},
    )


def backdate_item(
    items: Items,
    namespace: Sequence[str],
    key: str,
    times: RecordTimes,
) -> None:
    """Set the times of an item, also in the index, unless the item was changed since."""
    area = area_of(items._owner.user)
    place = join_names(namespace)

    def work(tx: Transaction) -> None:
        row = tx.one(
            """update items set created_at = :created, updated_at = :updated,
                   expires_at = coalesce(:expires, expires_at)
               where tenant = :tenant and area = :area and place = :place and key = :key
               and version = 1
               returning fields""",
            area=area,
            place=place,
            key=key,
            **vars(times),
        )
        if row is not None and is_searchable(row[0]):
            items._services.index.mark(tx, [mark_of_item(area, place, key)])

    items._write("put", work, row={"area": area, "place": place, "key": key})


def backdate_note(notes: Notes, times: RecordTimes) -> None:
    """Set the times of notes that have one version."""
    owner = notes._owner

    def work(tx: Transaction) -> None:
        changed = tx.run(
            """update notes set created_at = :created, updated_at = :updated
               where tenant = :tenant and user_id = :user and agent = :agent and version = 1""",
            user=owner.user,
            agent=owner.agent,
            **vars(times),
        )
        if not changed:
            return
        tx.send(
            """update note_versions set created_at = :updated
               where tenant = :tenant and user_id = :user and agent = :agent and version = 1""",
            user=owner.user,
            agent=owner.agent,
            updated=times.updated,
        )
        id = index_id(str(owner.user), str(owner.agent))
        notes._services.index.mark(tx, [IndexMark(owner_of(owner.user), notes.name, id)])

    notes._write("overwrite", work, row={"user_id": str(owner.user), "agent": str(owner.agent)})


def add_reference(refs: Refs, new: NewReference, times: RecordTimes, *, is_active: bool) -> None:
    """Add a reference with its times and its active state, in one transaction."""

    def set_times(tx: Transaction) -> None:
        tx.send(
            """update refs set created_at = :created, updated_at = :updated, is_active = :active
               where tenant = :tenant and key = :key""",
            key=new.key,
            **vars(times),
            active=int(is_active),
        )

    refs._add(new, after=set_times)


def link_reference(refs: Refs, ref: Ref, session: str) -> None:
    """Give a reference that was imported before its session that session."""
    metadata = {name: value for name, value in ref.metadata.items() if name != "session"}

    changed = {"metadata": json.dumps(metadata, ensure_ascii=False)}

    def work(tx: Transaction) -> None:
        tx.lock_rows("select 1 from refs where tenant = :tenant and key = :key", key=ref.key)
        row = tx.one(
            f"""update refs set session_id = :session, metadata = :metadata, checksum = :checksum
                where tenant = :tenant and key = :key and session_id is null
                returning {COLUMNS}""",
            session=session,
            **changed,
            checksum=changed_checksum(tx, refs.tables[-1], {"key": ref.key}, changed),
            key=ref.key,
        )
        if row is not None:
            refs._services.index.mark(tx, [mark_of_reference(row[0], row[1])])

    refs._write("edit", work, row={"key": ref.key})


def backdate_state(
    state: State,
    area: str,
    key: str,
    times: RecordTimes,
) -> None:
    """Set the times of a key that has one version."""
    row = {"area": f"user:{state._owner.user}" if area == "user" else area, "key": key}

    def work(tx: Transaction) -> None:
        changed = tx.run(
            """update state set created_at = :created, updated_at = :updated,
                   expires_at = coalesce(:expires, expires_at)
               where tenant = :tenant and area = :area and key = :key and version = 1""",
            **row,
            **vars(times),
        )
        if changed:
            state._mark(tx, state._place(tx, area), key)

    state._write("set", work, row=row)


def add_call(
    interactions: Interactions,
    id: str,
    usage: Usage,
    session: str | None,
    created: datetime | None,
) -> bool:
    """Record a model call with an id and a time; return False if it is already recorded.

    Raises Conflict if another call has this id.
    """
    values = checked(interactions._owner, interactions._settings, usage, session) | {"id": id}
    at = None if created is None else clock.from_datetime(created, "created_at")

    def work(tx: Transaction) -> bool:
        row = tx.one(
            """select route, model, tokens_in, tokens_out, created_at from interactions
               where tenant = :tenant and id = :id""",
            id=id,
        )
        if row is not None:
            *recorded, recorded_at = row
            expected = [values[name] for name in ("route", "model", "tokens_in", "tokens_out")]
            if recorded != expected or at not in (None, recorded_at):
                raise Conflict(problem="exists with different content")
            return False
        interactions.add_row(tx, values)
        if at is not None:
            tx.send(
                "update interactions set created_at = :at where tenant = :tenant and id = :id",
                id=id,
                at=at,
            )
        return True

    return interactions._write("add", work, row={"id": id})

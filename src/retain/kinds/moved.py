"""What moved in keeps the times that it had elsewhere, and does not push aside what was in use here.

No verbs: nobody but an import knows better than the clock.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from retain.base import clock
from retain.kinds import findable
from retain.kinds.items import item as one
from retain.kinds.kind import Kind
from retain.storage.database import Transaction

_SESSION = """update sessions set created_at = :created, touched_at = :updated
              where tenant = :tenant and id = :id and user_id = :user"""
_REST = """delete from active_sessions
           where tenant = :tenant and user_id = :user and agent = :agent and active_session_id = :id"""
_ITEM = """update items set created_at = :created, updated_at = :updated, expires_at = coalesce(:expires, expires_at)
           where tenant = :tenant and area = :area and place = :place and key = :key and version = 1
           returning fields, value, expires_at"""


def session(sessions: Kind, id: str, created: datetime, updated: datetime) -> None:
    """Let a session have begun and have been used when it was."""
    began, used = _moments(created, updated)
    sessions._write(
        "edit",
        lambda tx: tx.run(_SESSION, id=id, user=sessions._owner.user, created=began, updated=used),
        row={"id": id},
    )


def rest(sessions: Kind, id: str) -> None:
    """Let a session be there without being the active one."""
    sessions._write(
        "edit",
        lambda tx: tx.run(_REST, user=sessions._owner.user, agent=sessions._owner.agent, id=id),
        row={"id": id},
    )


def item(
    items: Kind,
    place: Sequence[str],
    key: str,
    created: datetime,
    updated: datetime,
    *,
    expires: datetime | None = None,
) -> None:
    """Let an item that nobody put since have been put when it was, be found as of then, and go when it would have."""
    area, where = one.area(items._owner.user), one.text(place)
    began, put = _moments(created, updated)
    ends = None if expires is None else clock.from_datetime(expires, "expires_at")

    def work(tx: Transaction) -> None:
        row = tx.one(
            _ITEM, area=area, place=where, key=key, created=began, updated=put, expires=ends
        )
        if row is not None:
            fields, value, until = row
            said = findable.document(json.loads(value), fields and json.loads(fields))
            rows = findable.items(area, where, key, said, put, until)
            items._services.index.replace(tx, items.name, findable.item_id(area, where, key), rows)

    items._write("edit", work, row={"area": area, "place": where, "key": key})


def _moments(created: datetime, updated: datetime) -> tuple[int, int]:
    began = clock.from_datetime(created, "created_at")
    return began, max(began, clock.from_datetime(updated, "updated_at"))
